"""A run that leaves pickles of birds wherever pickles are on disk."""

import sys

from canary import Bird
from script_kit import hurry

from minitune import Callback, CheckpointConfig, RunConfig, Trainable, TuneConfig, Tuner, grid_search

hurry()


class Steps(Trainable):
    def step(self):
        if self.config["x"] == 1 and self.iteration == 1:
            raise ValueError("on purpose")
        return {"y": self.config["x"], "done": self.iteration == 2}

    def save_checkpoint(self, directory):
        return {"bird": Bird(sys.argv[1])}


class Note(Callback):
    def on_trial_result(self, iteration, trials, trial, result, **info):
        result["bird"] = Bird(sys.argv[1])


space = {"x": grid_search([0, 1, 2]), "birds": {"light": Bird(sys.argv[1]), "heavy": Bird(sys.argv[1], 100_000)}}
run = RunConfig(name="run", verbose=0, callbacks=[Note()], checkpoint_config=CheckpointConfig(checkpoint_frequency=1))
results = Tuner(Steps, param_space=space, tune_config=TuneConfig(executor="inline"), run_config=run).fit()
print([[r.metrics["y"], str(r.error).splitlines()[-1]] for r in results])
