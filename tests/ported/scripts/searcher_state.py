"""A searcher saves itself to a file: for a second search, and from a run's directory."""

import json
import os
import pickle

import ray
from ray import tune
from ray.tune.search import ConcurrencyLimiter, Searcher


class Counting(Searcher):
    def __init__(self):
        super().__init__(metric="v", mode="max")
        self.i = 0
        self.got = []

    def set_search_properties(self, metric, mode, config):  # as it was before there was **spec
        return False

    def suggest(self, trial_id):
        self.i += 1
        return {"x": self.i}

    def on_trial_complete(self, trial_id, result=None, error=False):
        self.got.append(result["v"] if result else None)

    def save(self, checkpoint_path):
        with open(checkpoint_path, "wb") as f:
            pickle.dump([self.i, self.got], f)

    def restore(self, checkpoint_path):
        with open(checkpoint_path, "rb") as f:
            self.i, self.got = pickle.load(f)


def train_fn(config):
    for i in range(2):
        tune.report({"v": config["x"] * (i + 1)})


def search(name, searcher, num_samples):
    tuner = tune.Tuner(
        train_fn,
        tune_config=tune.TuneConfig(search_alg=searcher, num_samples=num_samples),
        run_config=tune.RunConfig(name=name, storage_path=storage, verbose=0),
    )
    return [r.config["x"] for r in tuner.fit()]


ray.init(num_cpus=2, include_dashboard=False)
storage = os.environ["STORAGE"]
first = Counting()
outcome = {"first": search("first", ConcurrencyLimiter(first, 1), 3)}
path = os.path.join(storage, "mine.pkl")
first.save(path)
second = Counting()
second.restore(path)
outcome["second"] = search("second", ConcurrencyLimiter(second, 1), 2)
outcome["got"] = [first.got, second.got]
found = Counting()
found.restore_from_dir(os.path.join(storage, "first"))
outcome["found"] = [found.i, found.got]
again = Counting()
try:
    again.restore_from_dir(storage)
except RuntimeError:
    outcome["nothing"] = "RuntimeError"
print(json.dumps(outcome))
