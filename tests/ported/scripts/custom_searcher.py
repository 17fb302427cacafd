"""A user-defined searcher as in Ray's documentation, with limited concurrency."""

import json
import os
import pickle

import ray
from ray import tune
from ray.tune.search import ConcurrencyLimiter, Searcher


class Climb(Searcher):
    """Goes on from the best point so far: what it suggests depends on what it has heard."""

    def __init__(self, metric=None, mode=None, limit=None):
        super().__init__(metric=metric, mode=mode)
        self.best = (0, None)
        self.log = []
        self.limit = limit
        self.count = 0

    def set_search_properties(self, metric, mode, config, **spec):
        self._metric, self._mode = metric or self._metric, mode or self._mode
        self.log.append(["properties", metric, mode, sorted(config)])
        return True

    def suggest(self, trial_id):
        if self.limit is not None and self.count >= self.limit:
            return Searcher.FINISHED
        self.count += 1
        self.log.append(["suggest", self.best[0] + 1])
        return {"x": self.best[0] + 1, "nested": {"k": self.count}}

    def on_trial_result(self, trial_id, result):
        self.log.append(["result", result["config/x"], result["score"]])

    def on_trial_complete(self, trial_id, result=None, error=False):
        if error:
            self.log.append(["error"])
            return
        self.log.append(["complete", result["config/x"], result[self._metric]])
        if self.best[1] is None or result[self._metric] > self.best[1]:
            self.best = (result["config/x"], result[self._metric])

    def save(self, checkpoint_path):
        with open(checkpoint_path, "wb") as f:
            pickle.dump((self.best, self.count), f)

    def restore(self, checkpoint_path):
        with open(checkpoint_path, "rb") as f:
            self.best, self.count = pickle.load(f)


def train_fn(config):
    if config["x"] == 4 and config["nested"]["k"] == 4:
        raise RuntimeError("unlucky")
    for i in range(2):
        tune.report({"score": -((config["x"] - 5) ** 2) + i, "constant": config["constant"], "k": config["nested"]})


def go(searcher, **kwargs):
    return tune.Tuner(
        train_fn,
        param_space={"constant": 7, "nested": {"fixed": "f"}},
        tune_config=tune.TuneConfig(search_alg=searcher, metric="score", mode="max", **kwargs),
        run_config=tune.RunConfig(storage_path=os.environ["STORAGE"], verbose=0),
    ).fit()


ray.init(num_cpus=2, include_dashboard=False)
climb = Climb()
results = go(ConcurrencyLimiter(climb, max_concurrent=1), num_samples=7)
finished = Climb(limit=3)
ended = go(finished, num_samples=10, max_concurrent_trials=1)
print(
    json.dumps(
        {
            "log": climb.log,
            "configs": [r.config for r in results],
            "errors": results.num_errors,
            "best": results.get_best_result().config["x"],
            "constants": [r.metrics["constant"] for r in results if not r.error],
            "ended": [r.config["x"] for r in ended],
        }
    )
)
