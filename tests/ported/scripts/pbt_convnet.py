"""Population based training as in Ray Tune's `pbt_convnet_function_example`; it saves below the working directory."""

import json
import os
import random

import ray
from ray import tune
from ray.tune import Checkpoint
from ray.tune.schedulers import PopulationBasedTraining

STORAGE = os.environ["STORAGE"]


def train_convnet(config):
    step = 0
    weight = 0.0
    if tune.get_checkpoint():
        loaded_checkpoint = tune.get_checkpoint()
        with loaded_checkpoint.as_directory() as loaded_checkpoint_dir:
            with open(os.path.join(loaded_checkpoint_dir, "checkpoint.json")) as f:
                checkpoint = json.load(f)
            weight, step = checkpoint["model"], checkpoint["step"]
    while True:
        weight += config["lr"] * config["momentum"] * random.random()
        acc = 1 - 1 / (1 + weight)
        checkpoint = None
        if step % 5 == 0:
            os.makedirs("my_model", exist_ok=True)
            with open("my_model/checkpoint.json", "w") as f:
                json.dump({"step": step, "model": weight}, f)
            checkpoint = Checkpoint.from_directory("my_model")
        step += 1
        tune.report({"mean_accuracy": acc}, checkpoint=checkpoint)


class CustomStopper(tune.Stopper):
    def __init__(self):
        self.should_stop = False

    def __call__(self, trial_id, result):
        if not self.should_stop and result["mean_accuracy"] > 0.9999:
            self.should_stop = True
        return self.should_stop or result["training_iteration"] >= 12

    def stop_all(self):
        return self.should_stop


ray.init(num_cpus=2)
scheduler = PopulationBasedTraining(
    time_attr="training_iteration",
    perturbation_interval=5,
    hyperparam_mutations={"lr": lambda: random.uniform(0.0001, 1), "momentum": [0.8, 0.9, 0.99]},
)
results = tune.Tuner(
    train_convnet,
    run_config=tune.RunConfig(
        name="pbt_test",
        storage_path=STORAGE,
        stop=CustomStopper(),
        verbose=1,
        checkpoint_config=tune.CheckpointConfig(checkpoint_score_attribute="mean_accuracy", num_to_keep=4),
    ),
    tune_config=tune.TuneConfig(
        scheduler=scheduler, metric="mean_accuracy", mode="max", num_samples=4, reuse_actors=True
    ),
    param_space={"lr": tune.uniform(0.001, 1), "momentum": tune.uniform(0.001, 1)},
).fit()
best = results.get_best_result()
with best.checkpoint.as_directory() as best_checkpoint_path:
    saved = json.load(open(os.path.join(best_checkpoint_path, "checkpoint.json")))
print(
    json.dumps(
        {
            "errors": results.num_errors,
            "iterations": [r.metrics["training_iteration"] for r in results],
            "config": sorted(best.config),
            "saved": [sorted(saved), saved["step"] % 5],
        }
    )
)
