"""A function fails twice and continues from its reported checkpoint, with the usual code for that."""

import json
import os
import tempfile

from ray import tune
from ray.tune import Checkpoint, FailureConfig, RunConfig

MARKS = os.path.abspath("marks")
os.makedirs(MARKS)


def accident(name):
    """True the first time."""
    path = os.path.join(MARKS, name)
    if os.path.exists(path):
        return False
    open(path, "w").close()
    return True


def train_fn(config):
    start = 0
    history = []
    checkpoint = tune.get_checkpoint()
    if checkpoint:
        with checkpoint.as_directory() as checkpoint_dir:
            with open(os.path.join(checkpoint_dir, "state.json")) as f:
                state = json.load(f)
            start, history = state["step"] + 1, state["history"]
    history.append(f"from {start}")
    for step in range(start, 6):
        if step in (2, 4) and config["flaky"] and accident(f"{config['id']}_{step}"):
            raise ValueError(f"accident at {step}")
        if step % 2 == 0:
            tune.report({"step": step, "history": list(history)})
            continue
        with tempfile.TemporaryDirectory() as tmp:
            with open(os.path.join(tmp, "state.json"), "w") as f:
                json.dump({"step": step, "history": history}, f)
            tune.report({"step": step, "history": list(history)}, checkpoint=Checkpoint.from_directory(tmp))


tuner = tune.Tuner(
    train_fn,
    param_space={"id": tune.grid_search([0, 1, 2]), "flaky": tune.sample_from(lambda spec: spec.config.id != 1)},
    tune_config=tune.TuneConfig(metric="step", mode="max"),
    run_config=RunConfig(storage_path=os.environ["STORAGE"], failure_config=FailureConfig(max_failures=2), verbose=0),
)
results = tuner.fit()
rows = {}
for result in results:
    with open(os.path.join(result.path, "result.json")) as f:
        lines = [json.loads(line) for line in f]
    rows[result.config["id"]] = {
        "history": result.metrics["history"],
        "steps": [line["step"] for line in lines],
        "iterations": [line["training_iteration"] for line in lines],
        "checkpoints": sorted(name for name in os.listdir(result.path) if name.startswith("checkpoint")),
        "error": result.error,
        "flaky": result.config["flaky"],
    }
print(json.dumps({"trials": rows, "errors": results.num_errors}))
