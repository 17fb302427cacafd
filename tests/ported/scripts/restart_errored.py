"""`restart_errored` starts failed trials from scratch; invalid arguments of `Tuner.restore`."""

import json
import os

import ray
from ray import tune
from ray.tune import CheckpointConfig, RunConfig, Tuner

MENDED = os.path.abspath("mended")


class Model(tune.Trainable):
    def setup(self, config):
        self.count = 0
        self.origin = "new"

    def step(self):
        self.count += 1
        if self.count == 3 and self.config["x"] == "bad" and not os.path.exists(MENDED):
            raise ZeroDivisionError("x is bad")
        return {"count": self.count, "origin": self.origin, "done": self.count == 4}

    def save_checkpoint(self, checkpoint_dir):
        return {"count": self.count}

    def load_checkpoint(self, state):
        self.count = state["count"]
        self.origin = "loaded"


def look(results):
    keys = ("count", "origin", "training_iteration")
    return sorted([r.config["x"], r.config["n"], *(r.metrics[k] for k in keys), r.error is None] for r in results)


ray.init(num_cpus=2, include_dashboard=False)
tuner = Tuner(
    Model,
    param_space={"x": tune.grid_search(["good", "bad", "fine"]), "n": 1},
    run_config=RunConfig(
        name="exp",
        storage_path=os.environ["STORAGE"],
        checkpoint_config=CheckpointConfig(checkpoint_frequency=1, checkpoint_at_end=True),
        verbose=0,
    ),
)
first = tuner.fit()
with open(MENDED, "w"):
    pass
path = os.path.join(os.environ["STORAGE"], "exp")
second = Tuner.restore(path, trainable=Model, restart_errored=True).fit()
wrong = {}
for name, arguments in {
    "nowhere": {"path": path + "_nowhere", "trainable": Model},
    "other": {"path": path, "trainable": lambda config: None},
    "space": {"path": path, "trainable": Model, "param_space": {"y": 1}},
}.items():
    try:
        Tuner.restore(**arguments)
        wrong[name] = "nothing"
    except ValueError as error:
        wrong[name] = "ValueError"
    except Exception as error:
        wrong[name] = type(error).__name__
print(json.dumps({"first": look(first), "second": look(second), "wrong": wrong, "n": [len(first), len(second)]}))
