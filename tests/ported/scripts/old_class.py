"""Ray Tune 0.5 to 0.8: a class with `_setup`, `_train`, `_save` and `_restore`, and the analysis of its run."""

import json
import os

import ray
from ray import tune
from ray.tune import Trainable
from ray.tune.schedulers import PopulationBasedTraining


class MyTrainableClass(Trainable):
    def _setup(self, config):
        self.timestep = 0
        self.restored = False

    def _train(self):
        self.timestep += 1
        return {"episode_reward_mean": self.timestep * self.config["width"], "restored": self.restored}

    def _save(self, checkpoint_dir):
        path = os.path.join(checkpoint_dir, "checkpoint")
        with open(path, "w") as file:
            file.write(json.dumps({"timestep": self.timestep}))
        return path

    def _restore(self, checkpoint_path):
        with open(checkpoint_path) as file:
            self.timestep = json.loads(file.read())["timestep"]
        self.restored = True

    def _stop(self):
        with open(os.path.join(self.logdir, "stopped"), "w") as file:
            file.write("yes")


ray.init(num_cpus=2)
analysis = tune.run(
    MyTrainableClass,
    name="classes",
    stop={"training_iteration": 4},
    config={"width": tune.grid_search([10, 30, 20])},
    num_samples=1,
    checkpoint_freq=2,
    checkpoint_at_end=True,
    keep_checkpoints_num=1,
    max_failures=1,
    local_dir=os.environ["STORAGE"],
    queue_trials=True,
    with_server=False,
    verbose=0,
)
best = analysis.get_best_logdir(metric="episode_reward_mean", mode="max")
checkpoint = analysis.get_best_checkpoint(analysis.trials[1], metric="episode_reward_mean", mode="max")
pbt = PopulationBasedTraining(
    time_attr="training_iteration",
    reward_attr="episode_reward_mean",
    perturbation_interval=100,
    hyperparam_mutations={"width": [10, 20]},
)
again = tune.run(
    MyTrainableClass,
    name="again",
    stop={"episode_reward_mean": 180},
    config={"width": 30},
    scheduler=pbt,
    restore=checkpoint,
    local_dir=os.environ["STORAGE"],
    verbose=0,
)

print(
    json.dumps(
        {
            "best": analysis.get_best_config(metric="episode_reward_mean", mode="max"),
            "best_is_second": best == analysis.trials[1].logdir,
            "stopped": [os.path.exists(os.path.join(trial.logdir, "stopped")) for trial in analysis.trials],
            "iterations": [trial.last_result["training_iteration"] for trial in analysis.trials],
            "checkpoint": os.path.exists(checkpoint),
            "again": [again.trials[0].last_result[key] for key in ("episode_reward_mean", "restored")],
        }
    )
)
