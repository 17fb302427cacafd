"""Which checkpoints are kept: by score in both orders, by time; reports without checkpoint or score in between."""

import json
import os

import ray
from ray import train, tune
from ray.train import Checkpoint

SCORES = [3, 9, 1, 7, 8, 2]


def train_fn(config):
    for i, score in enumerate(SCORES):
        os.makedirs("work", exist_ok=True)
        with open("work/i", "w") as f:
            f.write(str(i))
        if i == config.get("without", -1):
            train.report({"score": score, "i": i})
            continue
        train.report({"score": score, "i": i}, checkpoint=Checkpoint.from_directory("work"))


ray.init(num_cpus=2, include_dashboard=False)


def go(config=None, **kwargs):
    result = tune.Tuner(
        train_fn,
        param_space=config or {},
        run_config=train.RunConfig(
            storage_path=os.environ["STORAGE"], checkpoint_config=train.CheckpointConfig(**kwargs), verbose=0
        ),
    ).fit()[0]
    return {
        "kept": [m["i"] for _, m in result.best_checkpoints],
        "latest": open(os.path.join(result.checkpoint.path, "i")).read(),
        "disk": sorted(n for n in os.listdir(result.path) if n.startswith("checkpoint_")),
        "names": [os.path.basename(c.path) for c, _ in result.best_checkpoints],
        "dir_name": result.metrics.get("checkpoint_dir_name"),
        "best": [
            m["i"] for c, m in result.best_checkpoints if c.path == result.get_best_checkpoint("score", "max").path
        ],
    }


outcome = {
    "all": go(),
    "last_two": go(num_to_keep=2),
    "one": go(num_to_keep=1),
    "best_two": go(num_to_keep=2, checkpoint_score_attribute="score"),
    "lowest_two": go(num_to_keep=2, checkpoint_score_attribute="score", checkpoint_score_order="min"),
    "best_one": go(num_to_keep=1, checkpoint_score_attribute="score", checkpoint_score_order="max"),
    "gaps": go({"without": 5}, num_to_keep=3),
    "order_only": go(checkpoint_score_attribute="score"),
}
print(json.dumps(outcome))
