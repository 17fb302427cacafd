"""Two busy trials and two that wait, functions or objects. Started again, the script resumes the run."""

import os
import sys
import time

from minitune import RunConfig, Trainable, Tuner, grid_search, report

here, storage = sys.argv[1], os.environ["MINITUNE_STORAGE_PATH"]
is_resumed = os.path.exists(storage)


def note(x):
    with open(os.path.join(here, f"{'resumed' if is_resumed else 'busy'}-{x}"), "w") as file:
        file.write(f"{os.getpid()}\n")


def be_busy():
    if not is_resumed:
        for _ in range(6000):  # if a signal comes just before a sleep, Python calls the handler after the sleep
            time.sleep(0.1)


def function(config):
    report({"i": 0})
    note(config["x"])
    be_busy()
    report({"i": 1})


class Class(Trainable):
    def setup(self, config):
        self.x, self.i = config["x"], 0

    def step(self):
        self.i += 1
        if is_resumed or self.i == 3:
            note(self.x)
            be_busy()
        return {"i": self.i, "done": is_resumed}

    def save_checkpoint(self, directory):
        return {"i": self.i}

    def load_checkpoint(self, state):
        self.i = state["i"]


trainable = {"function": function, "class": Class}[sys.argv[2]]
if is_resumed:
    tuner = Tuner.restore(os.path.join(storage, "run"), trainable)
else:
    space = {"x": grid_search([0, 1, 2, 3])}
    tuner = Tuner(trainable, param_space=space, run_config=RunConfig(name="run", verbose=0))
results = tuner.fit()
print(results.interrupted, results.num_errors, [r.metrics.get("i") is not None for r in results])
