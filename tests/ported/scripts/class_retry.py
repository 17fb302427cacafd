"""A class fails after some steps and continues from its checkpoint, which is a dict."""

import json
import os

import ray
from ray import tune
from ray.tune import CheckpointConfig, FailureConfig, RunConfig, Tuner

LOG = os.path.join(os.getcwd(), "log.txt")


def log(line):
    with open(LOG, "a") as f:
        f.write(line + "\n")


class Flaky(tune.Trainable):
    def setup(self, config):
        self.count = 0
        self.loaded = False
        log("setup")

    def step(self):
        self.count += 1
        log(f"step {self.count} iteration {self.iteration}")
        if self.count == 4 and not self.loaded:
            raise RuntimeError("an accident")
        return {"count": self.count, "loaded": self.loaded}

    def save_checkpoint(self, checkpoint_dir):
        log(f"save {self.count}")
        return {"count": self.count}

    def load_checkpoint(self, checkpoint):
        log(f"load {sorted(checkpoint)}")
        self.count = checkpoint["count"]
        self.loaded = True

    def cleanup(self):
        log("cleanup")


ray.init(num_cpus=1, include_dashboard=False)
results = Tuner(
    Flaky,
    run_config=RunConfig(
        storage_path=os.environ["STORAGE"],
        stop={"training_iteration": 6},
        failure_config=FailureConfig(max_failures=2),
        checkpoint_config=CheckpointConfig(checkpoint_frequency=2),
        verbose=0,
    ),
).fit()
with open(LOG) as f:
    lines = f.read().splitlines()
with open(os.path.join(results[0].path, "error.txt")) as f:
    errors = f.read()
with open(os.path.join(results[0].path, "result.json")) as f:
    rows = [json.loads(line) for line in f]
print(
    json.dumps(
        {
            "log": [line for line in lines if line != "cleanup"],
            "cleaned": "cleanup" in lines,
            "error": results[0].error,
            "num_errors": results.num_errors,
            "metrics": {k: results[0].metrics[k] for k in ("count", "loaded", "training_iteration", "done")},
            "since_restore": results[0].metrics["iterations_since_restore"],
            "error_text": ["an accident" in errors, "Failure # 1" in errors, "Failure # 2" in errors],
            "rows": [(row["count"], row["training_iteration"], row["iterations_since_restore"]) for row in rows],
        }
    )
)
