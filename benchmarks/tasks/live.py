"""Small models that are trained epoch by epoch, on scikit-learn's own data sets and on generated ones.

The loss after each epoch is that on the test data: the logarithmic loss, or the squared error of targets with the
variance 1. An epoch takes about half a millisecond, so a search with early stopping costs less than a second.

`CHOOSE` and `CONFIRM` have kinds of models in common, but no model on the same data. Rules are chosen by the
tasks of `CHOOSE` only.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, NamedTuple

import numpy
from sklearn import datasets
from sklearn.tree import DecisionTreeRegressor

from minitune import choice, lograndint, loguniform, randint, uniform
from tasks.functions import Config

EPOCHS = 27
_MOST_LEARNED = 300
_MOST_TESTED = 400
"""The most rows to learn from, and the most to test with."""
_WRONG = 5
"""Every so many of the first labels of `cancer` is wrong."""


class LiveTask(NamedTuple):
    """A model, its data and its space.

    Attributes:
        train: Yields the loss after each epoch, for a data set, a configuration and a seed.
        data: The name of the data set.
        space: The search space.
    """

    train: Callable[[str, Config, int], Iterator[float]]
    data: str
    space: dict[str, Any]


class Split(NamedTuple):
    """Inputs and targets for the training and for the test. The targets are classes, or numbers."""

    x: Any
    y: Any
    x_test: Any
    y_test: Any


_LOADS: dict[str, Callable[[], Any]] = {
    "digits": lambda: datasets.load_digits(return_X_y=True),
    "cancer": lambda: datasets.load_breast_cancer(return_X_y=True),
    "diabetes": lambda: datasets.load_diabetes(return_X_y=True),
    "clusters": lambda: datasets.make_classification(
        700, 16, n_informative=7, n_redundant=3, n_classes=4, class_sep=0.9, flip_y=0.05, random_state=21
    ),
    "moons": lambda: datasets.make_moons(500, noise=0.3, random_state=6),
    "friedman1": lambda: datasets.make_friedman1(500, noise=1.0, random_state=3),
    "friedman2": lambda: datasets.make_friedman2(500, noise=60, random_state=4),
    "friedman3": lambda: datasets.make_friedman3(500, noise=0.1, random_state=5),
}


@cache
def load(name: str) -> Split:
    """A data set, in a random order."""
    x, y = _LOADS[name]()
    if name == "digits":
        x = x / 16
    else:
        x = (x - x.mean(axis=0)) / x.std(axis=0)
    order = numpy.random.RandomState(11).permutation(len(y))
    x, y = x[order], y[order]
    learned = min(_MOST_LEARNED, len(y) // 2)
    end = min(learned + _MOST_TESTED, len(y))
    if y.dtype.kind == "f":
        y = (y - y.mean()) / y.std()
    elif name == "cancer":
        wrong = learned // _WRONG
        y[:wrong] = 1 - y[:wrong]
    return Split(x[:learned], y[:learned], x[learned:end], y[learned:end])


def losses(task: LiveTask, config: Config, seed: int = 0) -> Iterator[float]:
    """The loss after each epoch; NaN once the training has diverged.

    Each configuration draws other random numbers, and others again for each seed.
    """
    text = f"{sorted(config.items())} {seed}"
    own = int(hashlib.blake2b(text.encode(), digest_size=4).hexdigest(), 16)
    steps = task.train(task.data, config, own)
    for _ in range(EPOCHS):
        with numpy.errstate(all="ignore"):
            loss = next(steps)
        yield loss if math.isfinite(loss) else math.nan


def _network(name: str, config: Config, seed: int) -> Iterator[float]:
    """A network with one hidden layer, or none, by stochastic gradient descent with momentum."""
    x, y, x_test, y_test = load(name)
    rng = numpy.random.RandomState(seed)
    is_regression = y.dtype.kind == "f"
    wanted = y[:, None] if is_regression else numpy.eye(y.max() + 1)[y]
    inputs = x.shape[1]
    outputs = wanted.shape[1]
    hidden = config.get("hidden", 0)
    if hidden:
        first = rng.randn(inputs, hidden) * config["init"] * math.sqrt(2 / inputs)
        last = rng.randn(hidden, outputs) * config["init"] * math.sqrt(2 / hidden)
        weights = [first, numpy.zeros(hidden), last, numpy.zeros(outputs)]
    else:
        weights = [rng.randn(inputs, outputs) * 0.01, numpy.zeros(outputs)]
    velocities = [numpy.zeros_like(each) for each in weights]
    is_relu = config.get("act") == "relu"
    drop = config.get("drop", 0.0)
    rate = config["lr"]

    def forward(rows: Any) -> tuple[Any, Any]:
        if not hidden:
            return None, rows @ weights[0] + weights[1]
        inner = rows @ weights[0] + weights[1]
        inner = numpy.maximum(inner, 0) if is_relu else numpy.tanh(inner)
        return inner, inner @ weights[2] + weights[3]

    while True:
        order = rng.permutation(len(y))
        for begin in range(0, len(y), config["batch"]):
            batch = order[begin : begin + config["batch"]]
            rows = x[batch]
            if drop:
                rows = rows * (rng.rand(*rows.shape) >= drop) / (1 - drop)
            inner, outer = forward(rows)
            if not is_regression:
                outer = numpy.exp(outer - outer.max(axis=1, keepdims=True))
                outer = outer / outer.sum(axis=1, keepdims=True)
            slope = (outer - wanted[batch]) / len(batch)
            if hidden:
                back = (slope @ weights[2].T) * ((inner > 0) if is_relu else (1 - inner * inner))
                slopes = [
                    rows.T @ back + config["wd"] * weights[0],
                    back.sum(axis=0),
                    inner.T @ slope + config["wd"] * weights[2],
                    slope.sum(axis=0),
                ]
            else:
                slopes = [rows.T @ slope + config["wd"] * weights[0], slope.sum(axis=0)]
            for weight, velocity, each in zip(weights, velocities, slopes, strict=True):
                velocity *= config["momentum"]
                velocity -= rate * each
                weight += velocity
        rate *= config.get("decay", 1.0)
        _, outer = forward(x_test)
        if is_regression:
            yield float(((outer[:, 0] - y_test) ** 2).mean())
        else:
            outer = outer - outer.max(axis=1, keepdims=True)
            own = outer[numpy.arange(len(y_test)), y_test]
            yield float((numpy.log(numpy.exp(outer).sum(axis=1)) - own).mean())


def _boosting(name: str, config: Config, seed: int) -> Iterator[float]:
    """Boosting with two trees in an epoch."""
    x, y, x_test, y_test = load(name)
    rng = numpy.random.RandomState(seed)
    guess = numpy.full(len(y), y.mean())
    guess_test = numpy.full(len(y_test), y.mean())
    while True:
        for _ in range(2):
            rows = rng.permutation(len(y))[: max(10, int(config["rows"] * len(y)))]
            tree = DecisionTreeRegressor(
                max_depth=config["depth"],
                min_samples_leaf=config["leaf"],
                max_features=config["features"],
                random_state=rng.randint(2**31 - 1),
            )
            tree.fit(x[rows], (y - guess)[rows])
            guess += config["rate"] * tree.predict(x)
            guess_test += config["rate"] * tree.predict(x_test)
        yield float(((guess_test - y_test) ** 2).mean())


_NETWORK_SPACE = {
    "lr": loguniform(1e-4, 1.0),
    "momentum": uniform(0.0, 0.99),
    "wd": loguniform(1e-6, 1e-1),
    "hidden": lograndint(8, 65),
    "batch": choice([16, 32, 64, 128]),
    "act": choice(["relu", "tanh"]),
    "init": loguniform(0.1, 3.0),
}
_LINEAR_SPACE = {
    "lr": loguniform(1e-4, 10.0),
    "momentum": uniform(0.0, 0.99),
    "wd": loguniform(1e-6, 1.0),
    "batch": choice([8, 16, 32, 64, 128]),
    "decay": uniform(0.8, 1.0),
    "drop": uniform(0.0, 0.6),
}
_REGRESSION_SPACE = {**_NETWORK_SPACE, "lr": loguniform(1e-5, 0.3), "decay": uniform(0.8, 1.0)}
_BOOSTING_SPACE = {
    "rate": loguniform(0.005, 1.0),
    "depth": randint(1, 9),
    "rows": uniform(0.2, 1.0),
    "features": uniform(0.1, 1.0),
    "leaf": lograndint(1, 33),
}

CHOOSE = {
    "network digits": LiveTask(_network, "digits", _NETWORK_SPACE),
    "network cancer": LiveTask(_network, "cancer", _NETWORK_SPACE),
    "linear digits": LiveTask(_network, "digits", _LINEAR_SPACE),
    "network friedman1": LiveTask(_network, "friedman1", _REGRESSION_SPACE),
    "boosting friedman3": LiveTask(_boosting, "friedman3", _BOOSTING_SPACE),
}
"""The tasks that decisions are made by."""
CONFIRM = {
    "network clusters": LiveTask(_network, "clusters", _NETWORK_SPACE),
    "network moons": LiveTask(_network, "moons", _NETWORK_SPACE),
    "linear clusters": LiveTask(_network, "clusters", _LINEAR_SPACE),
    "network friedman2": LiveTask(_network, "friedman2", _REGRESSION_SPACE),
    "network diabetes": LiveTask(_network, "diabetes", _REGRESSION_SPACE),
    "boosting friedman1": LiveTask(_boosting, "friedman1", _BOOSTING_SPACE),
}
