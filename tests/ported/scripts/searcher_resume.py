"""A search fails and is restored: the searcher keeps its state."""

import json
import os
import pickle

import ray
from ray import tune
from ray.tune import Callback, Tuner
from ray.tune.search import ConcurrencyLimiter, Searcher


class Counting(Searcher):
    def __init__(self):
        super().__init__(metric="v", mode="max")
        self.n = 0
        self.completed = 0

    def suggest(self, trial_id):
        self.n += 1
        return {"x": self.n}

    def on_trial_complete(self, trial_id, result=None, error=False):
        self.completed += 1

    def save(self, checkpoint_path):
        with open(checkpoint_path, "wb") as f:
            pickle.dump(self.__dict__, f)

    def restore(self, checkpoint_path):
        with open(checkpoint_path, "rb") as f:
            self.__dict__.update(pickle.load(f))


class Accident(Callback):
    def on_trial_result(self, iteration, trials, trial, result, **info):
        if result["v"] == 6 and os.path.exists("accident"):
            raise RuntimeError("the driver's accident")


def train_fn(config):
    tune.report({"v": config["x"] * 2})


ray.init(num_cpus=2, include_dashboard=False)
open("accident", "w").close()
path = os.path.join(os.environ["STORAGE"], "search")
tuner = Tuner(
    train_fn,
    tune_config=tune.TuneConfig(search_alg=ConcurrencyLimiter(Counting(), max_concurrent=1), num_samples=6),
    run_config=tune.RunConfig(name="search", storage_path=os.environ["STORAGE"], callbacks=[Accident()], verbose=0),
)
outcome = {}
try:
    tuner.fit()
    outcome["first"] = "no accident"
except Exception as error:
    outcome["first"] = isinstance(error, tune.TuneError)
os.remove("accident")
results = Tuner.restore(path, trainable=train_fn, resume_errored=True).fit()
outcome["second"] = sorted([r.config["x"], r.metrics["v"]] for r in results)
outcome["n"] = len(results)
print(json.dumps(outcome))
