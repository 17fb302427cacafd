"""Resources: dicts, fractions, functions of the config, groups; how many trials run at the same time."""

import json
import os
import time

import ray
from ray import tune
from ray.tune import PlacementGroupFactory

STORAGE = os.environ["STORAGE"]
ray.init(num_cpus=2, resources={"special": 1}, include_dashboard=False)
RUNNING = os.path.abspath("running")
os.makedirs(RUNNING)


def train_fn(config):
    mark = os.path.join(RUNNING, tune.get_context().get_trial_id())
    open(mark, "w").close()
    most = 0
    for _ in range(4):
        most = max(most, len(os.listdir(RUNNING)))
        time.sleep(0.02)
    os.remove(mark)
    request = tune.get_context().get_trial_resources()
    tune.report({"most": most, "bundles": request.bundles, "strategy": request.strategy, "head": request.head_cpus})


class Model(tune.Trainable):
    @classmethod
    def default_resource_request(cls, config):
        return PlacementGroupFactory([{"CPU": 1}, {"CPU": config["workers"]}])

    def step(self):
        return {"bundles": self.trial_resources.bundles, "most": 1, "strategy": "-", "head": 1, "done": True}

    def save_checkpoint(self, checkpoint_dir):
        return {}

    def load_checkpoint(self, state):
        pass


def go(trainable, **space):
    results = tune.Tuner(
        trainable,
        param_space={"i": tune.grid_search([0, 1, 2]), **space},
        run_config=tune.RunConfig(storage_path=STORAGE, verbose=0),
    ).fit()
    most = max(r.metrics["most"] for r in results)
    seen = [[r.metrics["bundles"], r.metrics["strategy"], r.metrics["head"]] for r in results]
    return {"at_most_two": most <= 2, "one": most == 1, "seen": seen, "errors": results.num_errors}


outcome = {
    "default": go(train_fn),
    "two_cpus": go(tune.with_resources(train_fn, {"cpu": 2})),
    "half": go(tune.with_resources(train_fn, {"cpu": 0.5, "special": 0.5})),
    "custom": go(tune.with_resources(train_fn, {"CPU": 1, "custom_resources": {"special": 1}})),
    "function": go(tune.with_resources(train_fn, lambda config: {"cpu": 1 + config["extra"]}), extra=1),
    "group": go(tune.with_resources(train_fn, PlacementGroupFactory([{"CPU": 1}, {"CPU": 1}], strategy="SPREAD"))),
    "class": go(Model, workers=1),
}
del outcome["half"]["at_most_two"]
for name in ("default", "half"):
    del outcome[name]["one"]
a, b = PlacementGroupFactory([{"CPU": 1, "GPU": 0}]), PlacementGroupFactory([{"CPU": 1.0}])
outcome["equal"] = [a == b, hash(a) == hash(b), a.bundles, a.required_resources, a.head_bundle_is_empty]
empty = PlacementGroupFactory([{}, {"CPU": 1}])
outcome["empty_head"] = [empty.head_bundle_is_empty, empty.bundles, empty.required_resources]
try:
    PlacementGroupFactory([])
except ValueError:
    outcome["no_bundles"] = "ValueError"
run = tune.run(
    lambda config: train_fn(config), config={"i": 0}, resources_per_trial={"cpu": 2}, storage_path=STORAGE, verbose=0
)
outcome["run"] = run.trials[0].last_result["bundles"]
outcome["totals"] = {k: ray.cluster_resources()[k] for k in ("CPU", "special")}
print(json.dumps(outcome))
