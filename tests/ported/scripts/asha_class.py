"""ASHA with a class, a nested metric and another time attribute; some trials never reach a cut-off."""

import argparse
import json
import os

import ray
from ray import tune
from ray.tune import CheckpointConfig
from ray.tune.schedulers import AsyncHyperBandScheduler


class Model(tune.Trainable):
    def setup(self, config):
        self.seen = 0

    def step(self):
        self.seen += 10
        return {"eval": {"acc": self.config["q"] * self.seen}, "samples_seen": self.seen}

    def save_checkpoint(self, checkpoint_dir):
        return {"seen": self.seen}

    def load_checkpoint(self, state):
        self.seen = state["seen"]


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--smoke-test", action="store_true")
    args, _ = parser.parse_known_args()
    ray.init(num_cpus=1, include_dashboard=False)
    asha = AsyncHyperBandScheduler(
        time_attr="samples_seen",
        max_t=80,
        grace_period=20,
        reduction_factor=2,
        brackets=1,
        metric="eval/acc",
        mode="max",
    )
    results = tune.Tuner(
        Model,
        param_space={"q": tune.grid_search([3, 1, 4, 1.5, 5, 9, 2, 6])},
        tune_config=tune.TuneConfig(scheduler=asha),
        run_config=tune.RunConfig(
            storage_path=os.environ["STORAGE"],
            checkpoint_config=CheckpointConfig(checkpoint_at_end=True),
            stop={"training_iteration": 2 if args.smoke_test else 20},
            verbose=0,
        ),
    ).fit()
    best = results.get_best_result("eval/acc", "max")
    print(
        json.dumps(
            {
                "ended": [(r.config["q"], r.metrics["samples_seen"], r.metrics["eval"]["acc"]) for r in results],
                "best": best.config,
                "checkpoints": [os.path.basename(r.checkpoint.path) for r in results],
            }
        )
    )
