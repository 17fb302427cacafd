"""Details of classes: hierarchies, `log_result`, `trial_id` and similar names, errors in `cleanup`, deep configs."""

import json
import os

import ray
from ray import tune
from ray.tune import CheckpointConfig, RunConfig, Trainable, Tuner

HERE = os.getcwd()


class Base(Trainable):
    def setup(self, config):
        self.config["changed_in_setup"] = True
        self.lr = config.get("lr", 0.1)
        self.calls = ["setup"]

    def step(self):
        self.calls.append("step")
        return self.train_once()

    def train_once(self):
        raise NotImplementedError

    def save_checkpoint(self, checkpoint_dir):
        self.calls.append("save")
        os.makedirs(os.path.join(checkpoint_dir, "deep"))
        with open(os.path.join(checkpoint_dir, "deep", "lr"), "w") as f:
            f.write(str(self.lr))
        return checkpoint_dir

    def load_checkpoint(self, checkpoint_dir):
        with open(os.path.join(checkpoint_dir, "deep", "lr")) as f:
            self.lr = float(f.read())

    def cleanup(self):
        with open(os.path.join(HERE, f"cleanup_{self.trial_id[-5:]}"), "w") as f:
            f.write(" ".join(self.calls))
        raise RuntimeError("no one cares")


class Child(Base):
    def train_once(self):
        self.lr /= 2
        return {
            "lr": self.lr,
            "calls": list(self.calls),
            "names": [self.trial_name == f"Child_{self.trial_id}", os.path.isdir(self.logdir)],
            "resources": self.trial_resources.required_resources,
            "iterations": [self.iteration, self.training_iteration],
            "same_config": self.config["deep"]["list"],
        }

    def log_result(self, result):
        result["from_log_result"] = result["training_iteration"] * 100
        super().log_result(result)


ray.init(num_cpus=2, include_dashboard=False)
results = Tuner(
    Child,
    param_space={"lr": tune.grid_search([1.0, 8.0]), "deep": {"list": [1, {"a": 2}]}},
    tune_config=tune.TuneConfig(metric="lr", mode="min"),
    run_config=RunConfig(
        storage_path=os.environ["STORAGE"],
        stop={"training_iteration": 3},
        checkpoint_config=CheckpointConfig(checkpoint_at_end=True, checkpoint_frequency=2),
        verbose=0,
    ),
).fit()
keys = ("lr", "calls", "names", "resources", "iterations", "same_config", "from_log_result")
print(
    json.dumps(
        {
            "last": [{k: r.metrics[k] for k in keys} for r in results],
            "configs": [sorted(r.config) for r in results],
            "lr_saved": [open(os.path.join(r.checkpoint.path, "deep", "lr")).read() for r in results],
            "cleaned": [open(n).read() for n in sorted(os.listdir()) if n.startswith("cleanup_")],
            "errors": results.num_errors,
            "best": results.get_best_result().config["lr"],
        }
    )
)
