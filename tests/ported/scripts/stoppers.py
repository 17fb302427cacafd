"""When trials and runs end: dicts, functions, built-in and user-defined stoppers, `done`."""

import json
import os

import ray
from ray import tune
from ray.tune import Stopper
from ray.tune.stopper import (
    CombinedStopper,
    ExperimentPlateauStopper,
    MaximumIterationStopper,
    TrialPlateauStopper,
)


class Custom(Stopper):
    def __init__(self):
        self.should_stop = False
        self.keys = None

    def __call__(self, trial_id, result):
        self.keys = isinstance(result["deep"], dict)
        if not self.should_stop and result["n"] >= 4 and result["config"]["x"] == 2:
            self.should_stop = True
        return result["n"] >= 6

    def stop_all(self):
        return self.should_stop


class Counting(tune.Trainable):
    def setup(self, config):
        self.n = 0

    def step(self):
        self.n += 1
        flat = min(self.n, 3) * self.config["x"]
        result = {"n": self.n, "flat": flat, "deep": {"neg": -self.n}}
        if self.n == 12:
            result["done"] = True
        return result

    def save_checkpoint(self, checkpoint_dir):
        return {}

    def load_checkpoint(self, state):
        pass


def train_fn(config):
    for i in range(1, 100):
        tune.report({"n": i, "flat": min(i, 3), "deep": {"neg": -i}, "done": i == 9})


ray.init(num_cpus=1, include_dashboard=False)


def go(stop, trainable=Counting, xs=(1, 2)):
    results = tune.Tuner(
        trainable,
        param_space={"x": tune.grid_search(list(xs))},
        tune_config=tune.TuneConfig(max_concurrent_trials=1),
        run_config=tune.RunConfig(
            storage_path=os.environ["STORAGE"],
            stop=stop,
            verbose=0,
            checkpoint_config=None if trainable is train_fn else tune.CheckpointConfig(checkpoint_at_end=False),
        ),
    ).fit()
    return [[r.metrics["n"], r.metrics["done"]] for r in results]


outcome = {
    "none": go(None),
    "done_function": go(None, train_fn),
    "dict": go({"n": 3, "deep/neg": 5}),
    "dict_done": go({"done": True}),
    "function": go(lambda trial_id, result: result["deep"]["neg"] < -4),
    "function_fn": go(lambda trial_id, result: result["n"] >= 5, train_fn),
    "plateau": go(TrialPlateauStopper(metric="flat", std=0.01, num_results=3, grace_period=2)),
    "plateau_threshold": go(
        TrialPlateauStopper(metric="flat", num_results=3, grace_period=2, metric_threshold=4, mode="max")
    ),
    "combined": go(CombinedStopper(MaximumIterationStopper(8), TrialPlateauStopper("flat", num_results=5))),
}
custom = Custom()
ended = tune.run(
    Counting,
    config={"x": tune.grid_search([1, 2, 3])},
    stop=custom,
    max_concurrent_trials=1,
    storage_path=os.environ["STORAGE"],
    raise_on_failed_trial=False,
    verbose=0,
)
outcome["custom"] = [t.last_result.get("n") for t in ended.trials][:2]
outcome["custom_status"] = [t.status for t in ended.trials]
outcome["custom_nested"] = custom.keys
plateau = tune.run(
    Counting,
    config={"x": tune.grid_search([1, 1, 1, 1, 1, 1])},
    stop=ExperimentPlateauStopper("flat", std=0.001, top=3, mode="max", patience=0),
    max_concurrent_trials=1,
    storage_path=os.environ["STORAGE"],
    checkpoint_config=tune.CheckpointConfig(checkpoint_at_end=False),
    raise_on_failed_trial=False,
    verbose=0,
)
outcome["experiment_plateau"] = plateau.trials[0].last_result["n"]
print(json.dumps(outcome))
