"""Subclasses of Ray's schedulers: one records its decisions, one makes its own."""

import argparse
import json
import os

import ray
from ray import tune
from ray.tune.schedulers import AsyncHyperBandScheduler, FIFOScheduler, TrialScheduler


class Noting(AsyncHyperBandScheduler):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.notes = []

    def on_trial_add(self, tune_controller, trial):
        super().on_trial_add(tune_controller, trial)
        self.notes.append(("add", trial.config["x"], trial.status))

    def on_trial_result(self, tune_controller, trial, result):
        action = super().on_trial_result(tune_controller, trial, result)
        self.notes.append((action, trial.config["x"], result["training_iteration"]))
        return action

    def on_trial_complete(self, tune_controller, trial, result):
        self.notes.append(("complete", trial.config["x"], result["training_iteration"]))
        super().on_trial_complete(tune_controller, trial, result)


class StopBad(FIFOScheduler):
    def __init__(self, limit):
        super().__init__()
        self.limit = limit

    def on_trial_result(self, tune_controller, trial, result):
        assert trial in tune_controller.get_trials()
        if result["score"] > self.limit:
            return TrialScheduler.STOP
        return super().on_trial_result(tune_controller, trial, result)

    def debug_string(self):
        return f"StopBad at {self.limit}"


def train(config):
    for step in range(1, 7):
        tune.report({"score": config["x"] + step})


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--smoke-test", action="store_true")
    args, _ = parser.parse_known_args()
    ray.init(num_cpus=1, include_dashboard=False)
    said = {}
    noting = Noting(metric="score", mode="min", max_t=5, grace_period=1, reduction_factor=2)
    for name, scheduler in (("noting", noting), ("bad", StopBad(6))):
        results = tune.Tuner(
            train,
            param_space={"x": tune.grid_search([3, 9, 1] if args.smoke_test else [3, 9, 1, 12])},
            tune_config=tune.TuneConfig(scheduler=scheduler, max_concurrent_trials=1),
            run_config=tune.RunConfig(storage_path=os.environ["STORAGE"], name=name, verbose=0),
        ).fit()
        said[name] = [(r.config["x"], r.metrics["training_iteration"]) for r in results]
    said["notes"] = [note for note in noting.notes if note[0] != "add"]
    said["added"] = [note for note in noting.notes if note[0] == "add"]
    print(json.dumps(said))
