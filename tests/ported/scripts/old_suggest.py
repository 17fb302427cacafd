"""Ray Tune 0.8 to 1.13: searchers in `tune.suggest`, trials in `tune.trial`."""

import json
import os

import ray
from ray import tune
from ray.tune.suggest import ConcurrencyLimiter
from ray.tune.suggest.basic_variant import BasicVariantGenerator
from ray.tune.suggest.suggestion import Searcher
from ray.tune.trial import Trial
from ray.tune.utils.log import Verbosity


class Halving(Searcher):
    def __init__(self):
        super().__init__(metric="loss", mode="min")
        self.x, self.heard = 8.0, []

    def suggest(self, trial_id):
        self.x /= 2
        return {"x": self.x}

    def on_trial_complete(self, trial_id, result=None, error=False):
        self.heard.append(result["loss"])

    def save(self, checkpoint_path):
        pass

    def restore(self, checkpoint_path):
        pass


def objective(config):
    for step in range(3):
        tune.report(loss=config["x"] + config.get("shift", 0) - step)


os.makedirs(os.environ["STORAGE"], exist_ok=True)
ray.init(num_cpus=1)
searcher = Halving()
analysis = tune.run(
    objective,
    name="suggested",
    search_alg=ConcurrencyLimiter(searcher, max_concurrent=1),
    num_samples=3,
    local_dir=os.environ["STORAGE"],
    global_checkpoint_period=10,
    verbose=Verbosity.V0_MINIMAL,
)
points = tune.run(
    objective,
    name="points",
    metric="loss",
    mode="min",
    config={"x": tune.uniform(0, 1)},
    search_alg=BasicVariantGenerator(points_to_evaluate=[{"x": 0.125}]),
    sync_config=tune.SyncConfig(sync_on_checkpoint=False, syncer=None),
    local_dir=os.environ["STORAGE"],
    verbose=0,
)

print(
    json.dumps(
        {
            "xs": [trial.config["x"] for trial in analysis.trials],
            "heard": searcher.heard,
            "kinds": all(isinstance(trial, Trial) for trial in analysis.trials),
            "ended": [trial.status == Trial.TERMINATED for trial in analysis.trials],
            "files": sorted(
                name for name in os.listdir(analysis.trials[0].logdir) if name in ("result.json", "progress.csv")
            ),
            "best": points.best_config,
        }
    )
)
