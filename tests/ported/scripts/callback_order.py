"""The hooks of callbacks: their order, their arguments, and the state of the trial."""

import json
import os

import ray
from ray import tune
from ray.tune import Callback, CheckpointConfig, FailureConfig, RunConfig

SEEN = []


class Recorder(Callback):
    def setup(self, stop=None, num_samples=None, total_num_samples=None, **info):
        SEEN.append(["setup", type(stop).__name__ if stop is None else "stop", num_samples, total_num_samples])

    def on_trial_start(self, iteration, trials, trial, **info):
        SEEN.append(["start", trial.config["x"], trial.status, len(trials) > 0, sorted(info)])

    def on_trial_restore(self, iteration, trials, trial, **info):
        pass

    def on_trial_save(self, iteration, trials, trial, **info):
        SEEN.append(["save", trial.config["x"], sorted(info)])

    def on_trial_result(self, iteration, trials, trial, result, **info):
        last = trial.last_result.get("n") if trial.last_result else None
        SEEN.append(["result", trial.config["x"], trial.status, result["n"], last, result["done"], sorted(info)])

    def on_trial_complete(self, iteration, trials, trial, **info):
        SEEN.append(["complete", trial.config["x"], trial.status, sorted(info)])

    def on_trial_recover(self, iteration, trials, trial, **info):
        SEEN.append(["recover", trial.config["x"], trial.status, sorted(info)])

    def on_trial_error(self, iteration, trials, trial, **info):
        SEEN.append(["error", trial.config["x"], trial.status, sorted(info)])

    def on_checkpoint(self, iteration, trials, trial, checkpoint, **info):
        SEEN.append(["checkpoint", trial.config["x"], os.path.basename(checkpoint.path), sorted(info)])

    def on_experiment_end(self, trials, **info):
        SEEN.append(["end", [t.status for t in trials], sorted(info)])


class Counting(tune.Trainable):
    def setup(self, config):
        self.n = 0

    def step(self):
        self.n += 1
        if self.config["x"] == 1 and self.n == 3:
            raise RuntimeError("always")
        return {"n": self.n}

    def save_checkpoint(self, checkpoint_dir):
        return {"n": self.n}

    def load_checkpoint(self, state):
        self.n = state["n"]


class Second(Callback):
    def on_trial_complete(self, **info):
        SEEN.append(["second", sorted(info)])


ray.init(num_cpus=1, include_dashboard=False)
results = tune.Tuner(
    Counting,
    param_space={"x": tune.grid_search([0, 1])},
    tune_config=tune.TuneConfig(max_concurrent_trials=1),
    run_config=RunConfig(
        storage_path=os.environ["STORAGE"],
        stop={"n": 4},
        callbacks=[Recorder(), Second()],
        checkpoint_config=CheckpointConfig(checkpoint_frequency=2, checkpoint_at_end=False),
        failure_config=FailureConfig(max_failures=1),
        verbose=0,
    ),
).fit()
print(json.dumps({"seen": SEEN, "errors": results.num_errors}))
