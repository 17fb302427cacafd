"""A search algorithm that creates its trials itself, without a searcher."""

import json
import os

import ray
from ray import tune
from ray.tune.experiment import Experiment, Trial
from ray.tune.search import SearchAlgorithm


class FromList(SearchAlgorithm):
    def __init__(self, values):
        self.values = list(values)
        self.log = []
        self._done = False

    def add_configurations(self, experiments):
        if isinstance(experiments, Experiment):
            experiments = [experiments]
        self.experiment = list(experiments)[0]

    def next_trial(self):
        if not self.values:
            self.set_finished()
            return None
        x = self.values.pop(0)
        spec = self.experiment.spec
        return Trial(
            spec["run"],
            config={"x": x, **spec["config"]},
            evaluated_params={"x": x},
            experiment_tag=str(x),
            stopping_criterion=spec["stop"],
            storage=self.experiment.storage,
        )

    def on_trial_result(self, trial_id, result):
        self.log.append(["result", result["n"]])

    def on_trial_complete(self, trial_id, result=None, error=False):
        self.log.append(["complete", result["n"] if result else None, error])

    def get_state(self):
        return {}

    def set_state(self, state):
        pass


def train_fn(config):
    for n in range(4):
        if config["x"] == 2 and n == 2:
            raise RuntimeError("two")
        tune.report({"n": n, "y": config["x"] * config["factor"]})


ray.init(num_cpus=1, include_dashboard=False)
algorithm = FromList([1, 2, 3])
analysis = tune.run(
    train_fn,
    name="run",
    config={"factor": 5},
    stop={"n": 2},
    search_alg=algorithm,
    storage_path=os.environ["STORAGE"],
    raise_on_failed_trial=False,
    verbose=0,
)
print(
    json.dumps(
        {
            "trials": [[t.status, t.last_result["n"], t.last_result["y"], t.experiment_tag] for t in analysis.trials],
            "params": [t.evaluated_params for t in analysis.trials],
            "log": algorithm.log,
            "finished": algorithm.is_finished(),
            "storage": os.path.relpath(algorithm.experiment.storage.experiment_fs_path, os.environ["STORAGE"]),
        }
    )
)
