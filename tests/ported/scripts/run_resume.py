"""`tune.run(resume=...)`: all its values, after a run in which one trial failed."""

import json
import os

import ray
from ray import tune

MENDED = os.path.abspath("mended")


class Model(tune.Trainable):
    def setup(self, config):
        self.count = 0
        self.origin = "new"

    def step(self):
        self.count += 1
        if self.count == 2 and self.config["x"] == 1 and not os.path.exists(MENDED):
            raise RuntimeError("fails")
        return {"count": self.count, "origin": self.origin}

    def save_checkpoint(self, checkpoint_dir):
        return {"count": self.count}

    def load_checkpoint(self, state):
        self.count = state["count"]
        self.origin = "loaded"


def go(name, resume=None, **kwargs):
    analysis = tune.run(
        Model,
        name=name,
        config={"x": tune.grid_search([0, 1, 2])},
        stop={"training_iteration": 3},
        storage_path=os.environ["STORAGE"],
        checkpoint_config=tune.CheckpointConfig(checkpoint_frequency=1),
        resume=resume,
        raise_on_failed_trial=False,
        verbose=0,
        **kwargs,
    )
    return sorted([t.config["x"], t.status, t.last_result["count"], t.last_result["origin"]] for t in analysis.trials)


def mend(yes):
    if yes:
        open(MENDED, "w").close()
    elif os.path.exists(MENDED):
        os.remove(MENDED)


ray.init(num_cpus=2, include_dashboard=False)
outcome = {}
for mode in ("AUTO", "AUTO+ERRORED", "AUTO+RESTART_ERRORED", True, "ERRORED_ONLY", "LOCAL+ERRORED"):
    name = f"exp_{mode}".replace("+", "_")
    mend(False)
    first = go(name, resume="AUTO" if mode == "AUTO" else None)
    mend(True)
    try:
        outcome[str(mode)] = [first, go(name, resume=mode)]
    except (ValueError, DeprecationWarning):
        outcome[str(mode)] = [first, "refused"]
for mode in ("NONSENSE", "AUTO+NONSENSE"):
    try:
        outcome[mode] = go("nonsense", resume=mode)
    except ValueError:
        outcome[mode] = "ValueError"
print(json.dumps(outcome))
