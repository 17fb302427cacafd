"""Each point runs several times, and the searcher gets one mean for each point."""

import json
import os

import ray
from ray import tune
from ray.tune.search import ConcurrencyLimiter, Repeater, Searcher
from ray.tune.search.repeater import TRIAL_INDEX


class Listening(Searcher):
    def __init__(self):
        super().__init__(metric="score", mode="max")
        self.heard = []
        self.count = 0

    def suggest(self, trial_id):
        self.count += 1
        return {"x": self.count * 10}

    def on_trial_complete(self, trial_id, result=None, error=False):
        self.heard.append([result["score"] if result else None, error])

    def save(self, checkpoint_path):
        pass

    def restore(self, checkpoint_path):
        pass


def train_fn(config):
    index = config[TRIAL_INDEX]
    if config["x"] == 20 and index == 1:
        raise ValueError("one of them fails")
    tune.report({"score": config["x"] + index})


ray.init(num_cpus=2, include_dashboard=False)
searcher = Listening()
results = tune.Tuner(
    train_fn,
    tune_config=tune.TuneConfig(
        search_alg=ConcurrencyLimiter(Repeater(searcher, repeat=3), max_concurrent=3), num_samples=9
    ),
    run_config=tune.RunConfig(storage_path=os.environ["STORAGE"], verbose=0),
).fit()
configs = sorted([r.config["x"], r.config[TRIAL_INDEX]] for r in results if r.config)
print(json.dumps({"heard": searcher.heard, "indices": configs, "errors": results.num_errors, "key": TRIAL_INDEX}))
