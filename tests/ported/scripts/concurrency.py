"""How many trials run at the same time: limited by CPUs, by `max_concurrent_trials`, by the generator."""

import json
import os
import time

import ray
from ray import tune
from ray.tune.search import BasicVariantGenerator

MARKS = os.path.abspath("marks")
os.makedirs(MARKS)


def train_fn(config):
    mine = os.path.join(MARKS, tune.get_context().get_trial_id())
    open(mine, "w").close()
    most = 0
    for _ in range(5):
        most = max(most, len(os.listdir(MARKS)))
        time.sleep(0.02)
    os.remove(mine)
    tune.report({"most": most})


ray.init(num_cpus=2, include_dashboard=False)


def go(fn=train_fn, **kwargs):
    results = tune.Tuner(
        fn,
        param_space={"x": tune.grid_search([0, 1, 2, 3])},
        tune_config=tune.TuneConfig(**kwargs),
        run_config=tune.RunConfig(storage_path=os.environ["STORAGE"], verbose=0),
    ).fit()
    return max(r.metrics["most"] for r in results), [r.config["x"] for r in results]


most, order = go(max_concurrent_trials=1)
generator, _ = go(search_alg=BasicVariantGenerator(max_concurrent=1))
cpus, _ = go()
no_limit, _ = go(max_concurrent_trials=0)
two_each, _ = go(tune.with_resources(train_fn, {"cpu": 2}))
print(
    json.dumps(
        {
            "one": most,
            "order": order,
            "generator": generator,
            "at_most_cpus": cpus <= 2,
            "no_limit": no_limit <= 2,
            "two_each": two_each,
        }
    )
)
