"""A small project in one script: search coarsely, then finely, then train the best trial longer, with own SGD."""

import argparse
import json
import math
import os
import random
import tempfile
from functools import partial

from ray import train, tune
from ray.train import Checkpoint
from ray.tune.schedulers import ASHAScheduler


def make_data(n=60, seed=3):
    rng = random.Random(seed)
    xs = [rng.uniform(-1, 1) for _ in range(n)]
    return [(x, 2.0 * x + 0.5) for x in xs]


def train_model(config, data=None, epochs=10):
    w, b, start = 0.0, 0.0, 0
    checkpoint = train.get_checkpoint()
    if checkpoint:
        with checkpoint.as_directory() as checkpoint_dir:
            with open(os.path.join(checkpoint_dir, "model.json")) as f:
                state = json.load(f)
        w, b, start = state["w"], state["b"], state["epoch"]
    for epoch in range(start, epochs):
        for x, y in data:
            error = w * x + b - y
            w -= config["lr"] * error * x
            b -= config["lr"] * error
        loss = sum((w * x + b - y) ** 2 for x, y in data) / len(data)
        with tempfile.TemporaryDirectory() as tmp:
            with open(os.path.join(tmp, "model.json"), "w") as f:
                json.dump({"w": w, "b": b, "epoch": epoch + 1}, f)
            train.report({"loss": loss, "epoch": epoch}, checkpoint=Checkpoint.from_directory(tmp))


def search(name, lrs, data, epochs):
    tuner = tune.Tuner(
        tune.with_resources(tune.with_parameters(partial(train_model, epochs=epochs), data=data), {"cpu": 1}),
        param_space={"lr": tune.grid_search(lrs)},
        tune_config=tune.TuneConfig(
            metric="loss",
            mode="min",
            scheduler=ASHAScheduler(max_t=epochs, grace_period=epochs),
            max_concurrent_trials=2,
        ),
        run_config=train.RunConfig(
            name=name,
            storage_path=os.environ["STORAGE"],
            checkpoint_config=train.CheckpointConfig(
                num_to_keep=1, checkpoint_score_attribute="loss", checkpoint_score_order="min"
            ),
            verbose=1,
        ),
    )
    return tuner.fit()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=6)
    args = parser.parse_args()
    data = make_data()
    coarse = search("coarse", [10**-e for e in range(1, 5)], data, args.epochs)
    best_lr = coarse.get_best_result().config["lr"]
    fine = search("fine", [best_lr * f for f in (0.5, 1, 2)], data, args.epochs)
    best = fine.get_best_result(metric="loss", mode="min")
    with best.checkpoint.as_directory() as checkpoint_dir, open(os.path.join(checkpoint_dir, "model.json")) as f:
        model = json.load(f)
    print(
        json.dumps(
            {
                "coarse": [r.config["lr"] for r in coarse],
                "coarse_losses": [float(f"{r.metrics['loss']:.6g}") for r in coarse],
                "best_lr": best_lr,
                "fine_best": best.config["lr"],
                "epochs": [r.metrics["epoch"] for r in fine],
                "model": {k: round(v, 6) for k, v in model.items()},
                "log_loss": round(math.log10(best.metrics["loss"]), 3),
            }
        )
    )


if __name__ == "__main__":
    main()
