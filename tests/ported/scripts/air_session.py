"""The dialect of Ray 2.0 to 2.6: `session.report`, `air.RunConfig`, `Checkpoint` from the `air` names."""

import json
import os
import tempfile

from ray import air, tune
from ray.air import CheckpointConfig, FailureConfig, session
from ray.train import Checkpoint

MARK = os.path.abspath("mark")


def train_fn(config):
    start = 0
    if session.get_checkpoint():
        with session.get_checkpoint().as_directory() as d:
            start = int(open(os.path.join(d, "n")).read())
    for n in range(start + 1, 6):
        if n == 4 and not os.path.exists(MARK):
            open(MARK, "w").close()
            raise RuntimeError("once")
        with tempfile.TemporaryDirectory() as d:
            with open(os.path.join(d, "n"), "w") as f:
                f.write(str(n))
            session.report({"n": n, "acc": config["lr"] * n}, checkpoint=Checkpoint.from_directory(d))


tuner = tune.Tuner(
    train_fn,
    param_space={"lr": 2},
    tune_config=tune.TuneConfig(metric="acc", mode="max"),
    run_config=air.RunConfig(
        name="air",
        storage_path=os.environ["STORAGE"],
        checkpoint_config=CheckpointConfig(
            num_to_keep=1, checkpoint_score_attribute="acc", checkpoint_score_order="max"
        ),
        failure_config=FailureConfig(max_failures=1),
        verbose=0,
    ),
)
results = tuner.fit()
result = results[0]
with result.checkpoint.as_directory() as d:
    content = open(os.path.join(d, "n")).read()
print(
    json.dumps(
        {
            "n": result.metrics["n"],
            "acc": result.metrics["acc"],
            "iteration": result.metrics["training_iteration"],
            "content": content,
            "checkpoints": [n for n in sorted(os.listdir(result.path)) if n.startswith("checkpoint_")],
            "error": result.error,
            "is_result": isinstance(result, air.Result),
        }
    )
)
