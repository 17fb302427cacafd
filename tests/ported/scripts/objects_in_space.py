"""Spaces with more than numbers: functions, classes, enums, instances of user classes, None and tuples."""

import dataclasses
import enum
import json
import os
import random

import ray
from ray import tune


class Color(enum.Enum):
    RED = 1
    BLUE = 2


@dataclasses.dataclass
class Layer:
    width: int
    activation: str = "relu"


class Space:
    """A config object of the user's."""

    def __init__(self, **values):
        self.values = values

    def to_dict(self):
        return self.values


def double(x):
    return 2 * x


def make_adder(n):
    def add(x):
        return x + n

    return add


def train_fn(config):
    rng = random.Random(0)
    value = config["fn"](10)
    layer = config["layer"]
    tune.report(
        {
            "value": value,
            "color": config["color"].name,
            "is_red": config["color"] is Color.RED or config["color"] == Color.RED,
            "width": layer.width if layer else None,
            "kind": type(config["kind"]).__name__,
            "made": config["cls"](3).width,
            "unchanged": rng.random() == random.Random(0).random(),
        }
    )


ray.init(num_cpus=2, include_dashboard=False)
space = Space(
    fn=tune.grid_search([double, make_adder(5), lambda x: -x]),
    color=tune.choice([Color.RED]),
    layer=tune.grid_search([Layer(32), None]),
    kind=tune.choice([(1, 2)]),
    cls=Layer,
)
results = tune.Tuner(
    train_fn, param_space=space.to_dict(), run_config=tune.RunConfig(storage_path=os.environ["STORAGE"], verbose=0)
).fit()
keys = ("value", "color", "is_red", "width", "kind", "made", "unchanged")
print(
    json.dumps(
        {
            "metrics": [{k: r.metrics.get(k) for k in keys} for r in results],
            "layers": [r.config["layer"] == Layer(32) for r in results],
            "errors": results.num_errors,
            "params": [sorted(json.load(open(os.path.join(r.path, "params.json")))) for r in results][0],
        }
    )
)
