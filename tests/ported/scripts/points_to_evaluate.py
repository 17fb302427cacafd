"""Known good points come first; points that fix grids; one trial at a time; constant grids."""

import json
import os

import ray
from ray import tune
from ray.tune.search import BasicVariantGenerator, ConcurrencyLimiter
from ray.tune.search.basic_variant import BasicVariantGenerator as SameGenerator


def train_fn(config):
    tune.report({"loss": config["a"]})


def configs(space, generator, **kwargs):
    results = tune.Tuner(
        train_fn,
        param_space=space,
        tune_config=tune.TuneConfig(search_alg=generator, metric="loss", mode="min", **kwargs),
        run_config=tune.RunConfig(storage_path=os.environ["STORAGE"], verbose=0),
    ).fit()
    return [result.config for result in results]


ray.init(num_cpus=2, include_dashboard=False)
points = [{"a": 2, "b": 7}, {"a": 4}]
first = configs(
    {"a": tune.uniform(0, 1), "b": tune.choice([5]), "c": tune.sample_from(lambda spec: spec.config.b * 2)},
    BasicVariantGenerator(points_to_evaluate=points),
    num_samples=4,
)
second = configs(
    {"a": tune.grid_search([0, 1]), "b": tune.grid_search([5, 6])},
    BasicVariantGenerator(points_to_evaluate=points, max_concurrent=1),
    num_samples=3,
)
third = configs(
    {"a": tune.grid_search([0, 1, 2]), "b": tune.uniform(0, 1)},
    BasicVariantGenerator(constant_grid_search=True, random_state=7),
    num_samples=2,
)
seeds = [
    configs(
        {"a": tune.uniform(0, 1), "b": tune.randint(0, 1000)}, BasicVariantGenerator(random_state=42), num_samples=4
    )
    for _ in range(2)
]
print(
    json.dumps(
        {
            "points": [c if i < 2 else {**c, "a": 0 <= c["a"] < 1} for i, c in enumerate(first)],
            "grids": second,
            "constant": [[c["a"] for c in third], third[0]["b"] == third[2]["b"], third[0]["b"] == third[3]["b"]],
            "same_seed": seeds[0] == seeds[1],
            "same_class": SameGenerator is BasicVariantGenerator,
            "limiter": ConcurrencyLimiter.__name__,
            "points_left_alone": points,
        }
    )
)
