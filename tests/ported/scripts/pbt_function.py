"""Population based training of a function, as in Ray Tune's `pbt_function` example, and the replay of its policy."""

import json
import os
import random
import tempfile

import ray
from ray import tune
from ray.tune import Checkpoint
from ray.tune.schedulers import PopulationBasedTraining, PopulationBasedTrainingReplay

STORAGE = os.environ["STORAGE"]


def pbt_function(config):
    lr = config["lr"]
    checkpoint_interval = config.get("checkpoint_interval", 1)
    accuracy = 0.0
    step = 1
    checkpoint = tune.get_checkpoint()
    if checkpoint:
        with checkpoint.as_directory() as checkpoint_dir:
            with open(os.path.join(checkpoint_dir, "checkpoint.json"), "r") as f:
                checkpoint_dict = json.load(f)
        accuracy = checkpoint_dict["acc"]
        step = checkpoint_dict["step"] + 1
    midpoint = 100
    while True:
        if accuracy < midpoint:
            optimal_lr = 0.01 * accuracy / midpoint
        else:
            optimal_lr = 0.01 - 0.01 * (accuracy - midpoint) / midpoint
        optimal_lr = min(0.01, max(0.001, optimal_lr))
        q_err = max(lr, optimal_lr) / min(lr, optimal_lr)
        if q_err < 3:
            accuracy += (1.0 / q_err) * random.random()
        elif lr > optimal_lr:
            accuracy -= (q_err - 3) * random.random()
        accuracy = max(0, accuracy + 2 * random.gauss(0, 1))
        metrics = {"mean_accuracy": accuracy, "cur_lr": lr, "step": step, "done": accuracy > midpoint * 2}
        if step % checkpoint_interval == 0:
            with tempfile.TemporaryDirectory() as tempdir:
                with open(os.path.join(tempdir, "checkpoint.json"), "w") as f:
                    json.dump({"acc": accuracy, "step": step}, f)
                tune.report(metrics, checkpoint=Checkpoint.from_directory(tempdir))
        else:
            tune.report(metrics)
        step += 1


ray.init(num_cpus=2)  # force pausing to happen
perturbation_interval = 5
pbt = PopulationBasedTraining(
    time_attr="training_iteration",
    perturbation_interval=perturbation_interval,
    hyperparam_mutations={"lr": tune.uniform(0.0001, 0.02), "some_other_factor": [1, 2]},
)
tuner = tune.Tuner(
    pbt_function,
    run_config=tune.RunConfig(
        name="pbt_function_api_example",
        storage_path=STORAGE,
        verbose=False,
        stop={"done": True, "training_iteration": 20},
        failure_config=tune.FailureConfig(fail_fast=True),
        checkpoint_config=tune.CheckpointConfig(checkpoint_score_attribute="mean_accuracy", num_to_keep=3),
    ),
    tune_config=tune.TuneConfig(scheduler=pbt, metric="mean_accuracy", mode="max", num_samples=6, reuse_actors=True),
    param_space={"lr": 0.0001, "some_other_factor": 1, "checkpoint_interval": perturbation_interval},
)
results = tuner.fit()
path = results.experiment_path
lines = [json.loads(line) for line in open(os.path.join(path, "pbt_global.txt"))]
policies = [name for name in os.listdir(path) if name.startswith("pbt_policy_")]

replay = PopulationBasedTrainingReplay(os.path.join(path, policies[0]))
(replayed,) = tune.Tuner(
    pbt_function,
    run_config=tune.RunConfig(storage_path=STORAGE, verbose=0, stop={"training_iteration": 25}),
    tune_config=tune.TuneConfig(scheduler=replay),
).fit()
last = [json.loads(line) for line in open(os.path.join(path, policies[0]))][-1]
print(
    json.dumps(
        {
            "errors": results.num_errors,
            "terminated": results.num_terminated,
            "iterations": [r.metrics["training_iteration"] for r in results],
            "steps": [r.metrics["step"] for r in results],
            "trained_with_its_config": all(r.metrics["cur_lr"] == r.metrics["config"]["lr"] for r in results),
            "kept": sorted(results.get_best_result().config),
            "some_exploits": len(lines) > 0,
            "line": [[type(field).__name__ for field in line] for line in lines][0],
            "keys": sorted(lines[0][5]),
            "replayed": replayed.metrics["config"] == last[5],
            "replay_tag": "@perturbed[" in replayed.metrics["experiment_tag"],
        }
    )
)
