"""HyperBandForBOHB with a searcher that has one model for each budget."""

import argparse
import json
import os
import tempfile

import ray
from ray import tune
from ray.tune import Checkpoint
from ray.tune.schedulers import HyperBandForBOHB
from ray.tune.search import Searcher


class PerBudget(Searcher):
    def __init__(self):
        super().__init__(metric="loss", mode="min")
        self.values = [4, 1, 7, 0, 8, 3, 5, 2, 6]
        self.configs = {}
        self.seen = {}
        self.ended = 0

    def suggest(self, trial_id):
        if not self.values:
            return Searcher.FINISHED
        self.configs[trial_id] = self.values.pop(0)
        return {"x": self.configs[trial_id]}

    def on_trial_result(self, trial_id, result):
        budget = result.get("hyperband_info", {}).get("budget")
        if budget is not None:
            self.seen.setdefault(int(budget), []).append(self.configs[trial_id])

    def on_trial_complete(self, trial_id, result=None, error=False):
        self.ended += 1

    def on_pause(self, trial_id):
        pass

    def on_unpause(self, trial_id):
        pass

    def save(self, checkpoint_path):
        pass

    def restore(self, checkpoint_path):
        pass


def train(config):
    start = 0
    checkpoint = tune.get_checkpoint()
    if checkpoint:
        with checkpoint.as_directory() as directory, open(os.path.join(directory, "step")) as file:
            start = int(file.read())
    for step in range(start + 1, 100):
        with tempfile.TemporaryDirectory() as directory:
            with open(os.path.join(directory, "step"), "w") as file:
                file.write(str(step))
            tune.report({"loss": config["x"] + 1 / step}, checkpoint=Checkpoint.from_directory(directory))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--smoke-test", action="store_true")
    args, _ = parser.parse_known_args()
    ray.init(num_cpus=2, include_dashboard=False)
    searcher = PerBudget()
    results = tune.Tuner(
        train,
        tune_config=tune.TuneConfig(
            search_alg=searcher,
            scheduler=HyperBandForBOHB(metric="loss", mode="min", max_t=9, reduction_factor=3),
            num_samples=9,
        ),
        run_config=tune.RunConfig(storage_path=os.environ["STORAGE"], verbose=0),
    ).fit()
    best = results.get_best_result("loss", "min")
    print(
        json.dumps(
            {
                "ended": sorted((r.config["x"], r.metrics["training_iteration"]) for r in results),
                "best": [best.config, best.metrics["training_iteration"]],
                "told": searcher.ended,
                "budgets": sorted(searcher.seen),
                "errors": results.num_errors,
            }
        )
    )
