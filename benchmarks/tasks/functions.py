"""Functions to minimise: smooth and rough ones, in spaces of numbers, in mixed ones and in conditional ones.

The optima of the functions without a source are not in the centre of the space, since some searchers start there.
"""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from minitune import choice, lograndint, loguniform, qrandint, randint, uniform
from minitune.space.domains import Categorical
from minitune.space.parameters import Axis, Parameter, draw, parameters, values_of

Config = Mapping[str, Any]


@dataclass(frozen=True)
class Task:
    """A function to minimise.

    Attributes:
        name: The name in tables.
        function: Computes the value of a configuration.
        space: The search space.
        optimum: The minimum; NaN if it is unknown.
        best: A configuration that has the minimum, where a benchmark needs it.
    """

    name: str
    function: Callable[[Config], float]
    space: Mapping[str, Any]
    optimum: float
    best: Config | None = None

    def typical(self, count: int) -> float:
        """The median of so many random values. A regret is measured in units of its distance from the optimum."""
        rng = random.Random(0)
        return statistics.median(self.function(draw_at_random(self.space, rng)) for _ in range(count))


def draw_at_random(space: Mapping[str, Any], rng: random.Random) -> Any:
    """Draw a configuration from the domains."""

    def choose(parameter: Parameter) -> Any:
        domain = parameter.domain
        return rng.randrange(len(domain)) if isinstance(domain, Categorical) else domain.sample(random_state=rng)

    return draw(space, choose)


def branin(config: Config) -> float:
    """Two parameters, three equal minima (Branin 1972)."""
    x, y = config["x0"], config["x1"]
    ridge = y - 5.1 * x**2 / (4 * math.pi**2) + 5 * x / math.pi - 6
    return float(ridge**2 + 10 * (1 - 1 / (8 * math.pi)) * math.cos(x) + 10)


_HARTMANN = (  # height, then (steepness, place) on each axis
    (1.0, ((10, 0.1312), (3, 0.1696), (17, 0.5569), (3.5, 0.0124), (1.7, 0.8283), (8, 0.5886))),
    (1.2, ((0.05, 0.2329), (10, 0.4135), (17, 0.8307), (0.1, 0.3736), (8, 0.1004), (14, 0.9991))),
    (3.0, ((3, 0.2348), (3.5, 0.1451), (1.7, 0.3522), (10, 0.2883), (17, 0.3047), (8, 0.6650))),
    (3.2, ((17, 0.4047), (8, 0.8828), (0.05, 0.8732), (10, 0.5743), (0.1, 0.1091), (14, 0.0381))),
)


def hartmann6(config: Config) -> float:
    """Six parameters, four local minima (Hartman 1973)."""
    total = 0.0
    for height, hollow in _HARTMANN:
        total -= height * math.exp(-sum(a * (config[f"x{i}"] - p) ** 2 for i, (a, p) in enumerate(hollow)))
    return total


def rosenbrock4(config: Config) -> float:
    """Four parameters, a curved valley (Rosenbrock 1960)."""
    x = [config[f"x{i}"] for i in range(4)]
    return float(sum(100 * (right - left**2) ** 2 + (1 - left) ** 2 for left, right in pairwise(x)))


_ACKLEY_OPTIMUM = (7.3, -14.1, 11.7, -3.9, 18.2)


def ackley5(config: Config) -> float:
    """Five parameters, one narrow funnel with ripples (Ackley 1987), moved off the centre."""
    x = [config[f"x{i}"] - place for i, place in enumerate(_ACKLEY_OPTIMUM)]
    width = math.sqrt(sum(value**2 for value in x) / len(x))
    ripple = sum(math.cos(2 * math.pi * value) for value in x) / len(x)
    return 20 + math.e - 20 * math.exp(-0.2 * width) - math.exp(ripple)


def mixed8(config: Config) -> float:
    """Eight parameters of three kinds, like those of a network. The best rate depends on two others."""
    usual = {"sgd": -1.5, "adam": -3.0, "rmsprop": -3.4, "adagrad": -2.0}[config["opt"]]
    doublings = math.log2(config["batch"] / 64)
    rate = math.log10(config["lr"]) - usual - 0.3 * doublings
    size = math.log2(config["units"]) - 8
    loss = 0.08 * rate**2 + 0.02 * (1 - math.cos(5 * rate)) + 0.03 * (size - 0.3 * (config["layers"] - 4)) ** 2
    loss += {"sgd": 0.05, "adam": 0.0, "rmsprop": 0.03, "adagrad": 0.08}[config["opt"]]
    loss += {"relu": 0.02, "gelu": 0.0, "tanh": 0.05}[config["act"]]
    loss += 0.01 * (config["layers"] - 4) ** 2 + 0.5 * (config["dropout"] - 0.25 - 0.05 * size) ** 2
    return float(loss + 0.01 * (math.log10(config["wd"]) + 4) ** 2 + 0.01 * doublings**2)


def cond3(config: Config) -> float:
    """A choice of three models. Each has its own parameters."""
    model = config["model"]
    if model["kind"] == "svm":
        loss = 0.05 + 0.02 * (math.log10(model["C"]) - 1) ** 2 + 0.03 * (math.log10(model["gamma"]) + 2) ** 2
        kernel = model["kernel"]
        return loss if kernel == "rbf" else loss + 0.02 + 0.02 * (kernel["degree"] - 3) ** 2
    if model["kind"] == "gbm":
        trees = math.log2(model["n_est"]) - 7
        loss = 0.05 * (math.log10(model["lr"]) + 1 + 0.6 * trees) ** 2 + 0.01 * trees**2
        return float(loss + 0.008 * (model["depth"] - 5) ** 2 + 0.3 * (model["subsample"] - 0.8) ** 2)
    loss = 0.02 + 0.06 * (math.log10(model["lr"]) + 2.5) ** 2 + 0.02 * (math.log2(model["h"]) - 7) ** 2
    return float(loss + 0.4 * (model["drop"] - 0.3) ** 2)


_MODELS = [
    {
        "kind": "svm",
        "C": loguniform(1e-3, 1e3),
        "gamma": loguniform(1e-5, 10),
        "kernel": choice(["rbf", {"degree": randint(2, 6)}]),
    },
    {
        "kind": "gbm",
        "n_est": randint(10, 501),
        "lr": loguniform(1e-3, 1),
        "depth": randint(1, 13),
        "subsample": uniform(0.3, 1),
    },
    {"kind": "mlp", "lr": loguniform(1e-5, 1), "h": lograndint(8, 513), "drop": uniform(0, 0.8)},
]

TASKS = {
    task.name: task
    for task in (
        Task("branin", branin, {"x0": uniform(-5, 10), "x1": uniform(0, 15)}, 0.39788735772973816),
        Task("hartmann6", hartmann6, {f"x{i}": uniform(0, 1) for i in range(6)}, -3.322368011415515),
        Task("rosenbrock4", rosenbrock4, {f"x{i}": uniform(-5, 10) for i in range(4)}, 0.0),
        Task("ackley5", ackley5, {f"x{i}": uniform(-32.768, 32.768) for i in range(5)}, 0.0),
        Task(
            "mixed8",
            mixed8,
            {
                "lr": loguniform(1e-5, 1e-1),
                "wd": loguniform(1e-7, 1e-2),
                "layers": randint(1, 9),
                "units": lograndint(16, 1025),
                "dropout": uniform(0, 0.8),
                "batch": qrandint(16, 256, 16),
                "opt": choice(["sgd", "adam", "rmsprop", "adagrad"]),
                "act": choice(["relu", "gelu", "tanh"]),
            },
            0.0,
        ),
        Task("cond3", cond3, {"model": choice(_MODELS)}, 0.0),
    )
}


def relative(task: Task, seed: int, is_like: bool) -> Callable[[Config], float]:
    """Another function on the same space, for an earlier run.

    Args:
        task: The function.
        seed: The seed of the other function.
        is_like: Whether the other function is similar: all numbers are moved by up to 5 % of their range. Otherwise
            all axes and the order of categories are reversed, so that good configurations become bad ones.
    """
    rng = random.Random(seed)
    moves = {parameter.name: rng.uniform(-0.05, 0.05) for parameter in parameters(task.space)}

    def function(config: Config) -> float:
        values = values_of(task.space, config)

        def choose(parameter: Parameter) -> Any:
            domain, value = parameter.domain, values.get(parameter.name)
            if isinstance(domain, Categorical):
                return (value or 0) if is_like else len(domain) - 1 - (value or 0)
            axis = Axis(domain)
            place = 0.5 if value is None else axis.encode(value)
            return axis.decode(min(max(place + moves[parameter.name], 0.0), 1.0) if is_like else 1 - place)

        return task.function(draw(task.space, choose))

    return function


# -- several objectives ------------------------------------------------------------------------------------------------

_ZDT_AXES = 6


def zdt(number: int, seed: int) -> tuple[Callable[[Config], tuple[float, float]], dict[str, Any], dict[str, float]]:
    """ZDT1, 2 or 3 (Zitzler, Deb and Thiele 2000) of six parameters, with optima that are not on the border.

    Args:
        number: 1, 2 or 3.
        seed: The seed of the optimal positions, between 0.2 and 0.8.

    Returns:
        The function, the space, and the optimal values of all parameters but x0. Both values of the function are
        minimised; they are at most 1 and about 10.
    """
    rng = random.Random(seed)
    places = [rng.uniform(0.2, 0.8) for _ in range(1, _ZDT_AXES)]

    def function(config: Config) -> tuple[float, float]:
        first = config["x0"]
        far = [abs(config[f"x{i}"] - place) / max(place, 1 - place) for i, place in enumerate(places, 1)]
        g = 1 + 9 * statistics.mean(far)
        ratio = first / g
        shape = 1 - (ratio**2 if number == 2 else math.sqrt(ratio))
        if number == 3:
            shape -= ratio * math.sin(10 * math.pi * first)
        return first, g * shape

    space = {f"x{i}": uniform(0, 1) for i in range(_ZDT_AXES)}
    return function, space, {f"x{i}": place for i, place in enumerate(places, 1)}


def hypervolume(points: Iterable[tuple[float, float]], reference: tuple[float, float] = (1.0, 10.0)) -> float:
    """The area that the points dominate, up to a reference point. Smaller values are better on both axes."""
    area, best = 0.0, reference[1]
    for first, second in sorted(points):
        if first < reference[0] and second < best:
            area += (reference[0] - first) * (best - second)
            best = second
    return area


def _shifted(kind: str, count: int) -> Task:
    """A function of many parameters. Its optimum is at a random place in the inner half of each range."""
    low, high = {"sphere": (-5.0, 5.0), "ackley": (-32.768, 32.768)}.get(kind, (-5.0, 10.0))
    rng = random.Random(f"{kind}{count}")
    optimum = [rng.uniform(0.75 * low + 0.25 * high, 0.25 * low + 0.75 * high) for _ in range(count)]
    weights = [10 ** rng.uniform(-1.5, 1.5) for _ in range(count)]
    turns = [(*rng.sample(range(count), 2), rng.uniform(0, math.pi)) for _ in range(3 * count)]

    def function(config: Config) -> float:
        x = [config[f"x{i}"] - place for i, place in enumerate(optimum)]
        if kind == "sphere":
            return float(sum(value**2 for value in x))
        if kind == "rosenbrock":
            x = [value + 1 for value in x]
            return float(sum(100 * (right - left**2) ** 2 + (1 - left) ** 2 for left, right in pairwise(x)))
        if kind == "rotated":  # an ellipsoid whose axes are those of no parameter
            for i, j, angle in turns:
                left = math.cos(angle) * x[i] - math.sin(angle) * x[j]
                x[j] = math.sin(angle) * x[i] + math.cos(angle) * x[j]
                x[i] = left
            return sum(weight * value**2 for weight, value in zip(weights, x, strict=True))
        if kind == "levy":  # many optima (Levy and Montalvo 1985)
            w = [1 + value / 4 for value in x]
            steps = sum((each - 1) ** 2 * (1 + 10 * math.sin(math.pi * each + 1) ** 2) for each in w[:-1])
            last = (w[-1] - 1) ** 2 * (1 + math.sin(2 * math.pi * w[-1]) ** 2)
            return math.sin(math.pi * w[0]) ** 2 + steps + last
        if kind == "saturating":  # like the loss of a network: flat far from the optimum, and with noise
            loss = sum(math.log1p(weight * value**2) for weight, value in zip(weights, x, strict=True)) / count
            return loss + 0.02 * (1 + math.sin(1e4 * sum(x)))
        ripple = sum(math.cos(2 * math.pi * value) for value in x) / count
        return 20 + math.e - 20 * math.exp(-0.2 * math.hypot(*x) / math.sqrt(count)) - math.exp(ripple)

    best = {f"x{i}": place for i, place in enumerate(optimum)}
    return Task(f"{kind}{count}", function, {name: uniform(low, high) for name in best}, 0.0, best)


LARGE_TASKS = {
    task.name: task for task in (_shifted(k, n) for k in ("sphere", "ackley", "rosenbrock") for n in (20, 50))
}
MANY_TASKS = {
    task.name: task for task in (_shifted(k, n) for k in ("rotated", "levy", "saturating") for n in (16, 24, 40))
}
"""Functions that no decision was made by."""
FAILING_TASKS = {
    task.name: task for task in (_shifted(k, 5) for k in ("sphere", "ackley", "rosenbrock", "rotated", "levy"))
}


def failure(task: Task, kind: str, seed: int) -> Callable[[Config], bool]:
    """Which trials of a run fail.

    Args:
        task: The function, with a known best configuration and numbers only. The best one never fails by its place.
        kind: `"none"`; `"fifth"`: each trial with this probability; `"half"`: the half of the first parameter's range
            without the optimum; `"nine tenths"`: all but a box around the optimum that has a tenth of the volume.
        seed: The seed of random failures.
    """
    rng = random.Random(seed)
    axes = {name: Axis(domain) for name, domain in task.space.items()}
    best = {name: axis.encode((task.best or {})[name]) for name, axis in axes.items()}
    first = next(iter(axes))
    side = 0.1 ** (1 / len(axes))
    lows = {name: min(max(place - side / 2, 0.0), 1 - side) for name, place in best.items()}

    def fails(config: Config) -> bool:
        places = {name: axis.encode(config[name]) for name, axis in axes.items()}
        if kind == "fifth":
            return rng.random() < 0.2
        if kind == "half":
            return (places[first] > 0.5) != (best[first] > 0.5)
        if kind == "nine tenths":
            return not all(lows[name] <= place <= lows[name] + side for name, place in places.items())
        return False

    return fails


# -- COCO --------------------------------------------------------------------------------------------------------------


def coco_tasks(suite_name: str) -> dict[str, Task]:
    """The functions of a suite of COCO, `"bbob"` or `"bbob-mixint"`: the first instance of each, with five parameters.

    Hansen et al., "COCO: a platform for comparing continuous optimizers in a black-box setting" (2021).
    """
    import cocoex

    suite = cocoex.Suite(suite_name, "", "dimensions:5 instance_indices:1")
    found = {}
    for index in range(len(suite)):
        problem = suite.get_problem(index)
        bounds = list(zip(problem.lower_bounds, problem.upper_bounds, strict=True))
        integers = problem.number_of_integer_variables
        space = {
            f"x{i}": randint(int(low), int(high) + 1) if i < integers else uniform(low, high)
            for i, (low, high) in enumerate(bounds)
        }

        def function(config: Config, problem: Any = problem) -> float:
            return float(problem([config[f"x{i}"] for i in range(len(config))]))

        name = f"{suite_name} f{problem.id_function}"
        found[name] = Task(name, function, space, math.nan)
    return found
