"""A run with objects of all kinds on disk, whose script may see a secret. It waits for the test to look at it."""

import os
import sys
import time

from script_kit import hurry

from minitune import CheckpointConfig, RunConfig, Trainable, TuneConfig, Tuner
from minitune.search import Searcher

hurry()

os.umask(0o027)


class Steps(Trainable):
    def step(self):
        if self.config["x"] == 0 and self.iteration == 1:
            open(os.path.join(sys.argv[1], "ready"), "x").close()
            while not os.path.exists(os.path.join(sys.argv[1], "go on")):
                time.sleep(0.005)
        if self.config["x"] == 1:
            raise ValueError(os.environ["MY_TOKEN"][:0])
        return {"y": 1, "done": self.iteration == 2, "is_there": "MY_TOKEN" in os.environ}

    def save_checkpoint(self, directory):
        return {"state": 1}

    def load_checkpoint(self, checkpoint):
        pass


class Own(Searcher):
    count = 0

    def suggest(self, trial_id):
        self.count += 1
        return {"x": self.count - 1, "large": [bytes(100_000), {1}]}

    def save(self, checkpoint_path):
        with open(checkpoint_path, "w") as file:
            file.write(str(self.count))

    def on_trial_complete(self, trial_id, result=None, error=False):
        pass


tune = TuneConfig(search_alg=Own(metric="y", mode="max"), num_samples=3)
run = RunConfig(name="run", verbose=0, checkpoint_config=CheckpointConfig(checkpoint_frequency=1))
results = Tuner(Steps, tune_config=tune, run_config=run).fit()
print([r.metrics.get("is_there") for r in results])
