"""`Tuner.restore` with `resume_errored`: failed trials continue from their checkpoints."""

import json
import os
import tempfile

import ray
from ray import train, tune
from ray.tune import Tuner

MENDED = os.path.abspath("mended")


def train_fn(config):
    start = 0
    checkpoint = train.get_checkpoint()
    if checkpoint:
        with checkpoint.as_directory() as path, open(os.path.join(path, "step")) as f:
            start = int(f.read()) + 1
    for step in range(start, 4):
        if step == 2 and config["x"] in (1, 3) and not os.path.exists(MENDED):
            raise RuntimeError("not yet mended")
        with tempfile.TemporaryDirectory() as tmp:
            with open(os.path.join(tmp, "step"), "w") as f:
                f.write(str(step))
            train.report({"step": step, "started_at": start}, checkpoint=train.Checkpoint.from_directory(tmp))


def look(results):
    return sorted(
        (
            r.config["x"],
            r.metrics["step"],
            r.metrics["started_at"],
            r.metrics["training_iteration"],
            r.error is None,
            "not yet mended" in str(r.error),
            len([name for name in os.listdir(r.path) if name.startswith("checkpoint_")]),
        )
        for r in results
    )


ray.init(num_cpus=2, include_dashboard=False)
storage = os.environ["STORAGE"]
tuner = Tuner(
    train_fn,
    param_space={"x": tune.grid_search([0, 1, 2, 3])},
    tune_config=tune.TuneConfig(metric="step", mode="max"),
    run_config=tune.RunConfig(name="failing", storage_path=storage, verbose=0),
)
path = os.path.join(storage, "failing")
first = tuner.fit()
outcome = {
    "can_restore": [Tuner.can_restore(path), Tuner.can_restore(os.path.join(storage, "other"))],
    "first": look(first),
    "first_errors": [first.num_errors, first.num_terminated],
}
left_alone = Tuner.restore(path, trainable=train_fn).fit()
outcome["left_alone"] = look(left_alone)
with open(MENDED, "w"):
    pass
tuner = Tuner.restore(path, trainable=train_fn, resume_errored=True)
outcome["before_fit"] = [len(tuner.get_results()), tuner.get_results().num_errors]
second = tuner.fit()
outcome["second"] = look(second)
outcome["same_ids"] = sorted(r.metrics["trial_id"] for r in first) == sorted(r.metrics["trial_id"] for r in second)
outcome["best_metric_kept"] = second.get_best_result().metrics["step"]
outcome["path"] = os.path.relpath(second.experiment_path, storage)
print(json.dumps(outcome))
