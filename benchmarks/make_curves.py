"""Makes the tables of learning curves: the loss of 1,000 random configurations after each of 27 epochs.

    python benchmarks/make_curves.py digits              # compare a new table with the file beside this one
    python benchmarks/make_curves.py diabetes --write    # write a new file

`digits`: the log-loss of a network with one hidden layer on scikit-learn's digits. The curves are smooth, and those
that are low early are low at the end. `diabetes`: the squared error of boosted trees on scikit-learn's diabetes data,
in units of the variance; an epoch is four trees. The curves cross: with a high learning rate the loss is low early, but
the model overfits; with a low one it is low late. `cancer`: the log-loss of the network of `digits` on scikit-learn's
data of tumours, where a fifth of the labels for the training are wrong. The curves cross, because a network that learns
fast is good early, and then learns the wrong labels. The loss is measured on data that the training has not seen.

Seeds determine everything except the seconds per epoch, which are CPU time. It takes some minutes and needs
scikit-learn. With another CPU or version of numpy, rounding differs, and so do a few curves.
"""

from __future__ import annotations

import os

os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"  # numpy and scikit-learn read them at import

import argparse
import gzip
import json
import math
import random
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits
from sklearn.ensemble import GradientBoostingRegressor

EPOCHS, CONFIGURATIONS = 27, 1_000
Draw = Callable[[random.Random], Any]


def _log(low: float, high: float) -> Draw:
    return lambda rng: math.exp(rng.uniform(math.log(low), math.log(high)))


def _log_int(low: int, high: int) -> Draw:
    draw = _log(low - 0.5, high + 0.5)
    return lambda rng: min(high, max(low, round(draw(rng))))


def _uniform(low: float, high: float) -> Draw:
    return lambda rng: rng.uniform(low, high)


def _any_of(*values: Any) -> Draw:
    return lambda rng: rng.choice(values)


@dataclass(frozen=True)
class Split:
    """Inputs and targets for the training and for the test. The targets are classes, or numbers."""

    x: Any
    y: Any
    x_test: Any
    y_test: Any


def _shuffled(load: Callable[..., Any]) -> tuple[Any, Any]:
    x, y = load(return_X_y=True)
    order = np.random.RandomState(0).permutation(len(y))
    return x[order], y[order]


@cache
def digits() -> Split:
    """800 digits to learn from, and 500 for the test."""
    x, y = _shuffled(load_digits)
    x = x / 16
    return Split(x[:800], y[:800], x[800:1300], y[800:1300])


@cache
def diabetes() -> Split:
    """Half of the patients to learn from, and the others for the test."""
    x, y = _shuffled(load_diabetes)
    y = (y - y.mean()) / y.std()
    half = len(y) // 2
    return Split(x[:half], y[:half], x[half:], y[half:])


@cache
def cancer() -> Split:
    """300 tumours to learn from, where a fifth of the labels are wrong, and the others for the test."""
    x, y = _shuffled(load_breast_cancer)
    x = (x - x.mean(0)) / x.std(0)
    learned = y[:300].copy()
    learned[:60] = 1 - learned[:60]
    return Split(x[:300], learned, x[300:], y[300:])


def train_network(data: Split, config: dict[str, Any], seed: int) -> Iterator[float]:
    """The log-loss on the test data after each epoch of stochastic gradient descent with momentum."""
    x, y, x_test, y_test = data.x, data.y, data.x_test, data.y_test
    inputs, classes = x.shape[1], y.max() + 1
    wanted, rng, hidden = np.eye(classes)[y], np.random.RandomState(seed), config["hidden"]
    is_relu = config["act"] == "relu"
    w1, b1 = rng.randn(inputs, hidden) * config["init"] * np.sqrt(2 / inputs), np.zeros(hidden)
    w2, b2 = rng.randn(hidden, classes) * config["init"] * np.sqrt(2 / hidden), np.zeros(classes)
    weights = [w1, b1, w2, b2]
    velocities = [np.zeros_like(each) for each in weights]

    def forward(images: Any) -> tuple[Any, Any]:
        inner = images @ w1 + b1
        inner = np.maximum(inner, 0) if is_relu else np.tanh(inner)
        outer = inner @ w2 + b2
        return inner, outer - outer.max(1, keepdims=True)

    while True:
        shuffled = rng.permutation(len(y))
        for begin in range(0, len(y), config["batch"]):
            batch = shuffled[begin : begin + config["batch"]]
            inner, outer = forward(x[batch])
            outer = np.exp(outer)
            outer = (outer / outer.sum(1, keepdims=True) - wanted[batch]) / len(batch)
            back = (outer @ w2.T) * ((inner > 0) if is_relu else (1 - inner * inner))
            steps = (
                x[batch].T @ back + config["wd"] * w1,
                back.sum(0),
                inner.T @ outer + config["wd"] * w2,
                outer.sum(0),
            )
            for weight, velocity, step in zip(weights, velocities, steps, strict=True):
                velocity *= config["momentum"]
                velocity -= config["lr"] * step
                weight += velocity
        _, outer = forward(x_test)
        yield float((np.log(np.exp(outer).sum(1)) - outer[np.arange(len(y_test)), y_test]).mean())


def train_trees(data: Split, config: dict[str, Any], seed: int) -> Iterator[float]:
    """The squared error on the test data after every four trees."""
    model = GradientBoostingRegressor(n_estimators=4 * EPOCHS, random_state=seed, **config).fit(data.x, data.y)
    for count, guess in enumerate(model.staged_predict(data.x_test), 1):
        if count % 4 == 0:
            yield float(((guess - data.y_test) ** 2).mean())


_NETWORK = {
    "lr": _log(1e-4, 1.0),
    "momentum": _uniform(0.0, 0.99),
    "wd": _log(1e-6, 1e-1),
    "hidden": _log_int(8, 128),
    "batch": _any_of(16, 32, 64, 128),
    "act": _any_of("relu", "tanh"),
    "init": _log(0.1, 3.0),
}

TABLES: dict[str, tuple[dict[str, Draw], Callable[[dict[str, Any], int], Iterator[float]]]] = {
    "digits": (_NETWORK, lambda config, seed: train_network(digits(), config, seed)),
    "diabetes": (
        {
            "learning_rate": _log(0.01, 1.0),
            "max_depth": lambda rng: rng.randint(1, 8),
            "subsample": _uniform(0.3, 1.0),
            "min_samples_leaf": _log_int(1, 30),
            "max_features": _uniform(0.05, 1.0),
        },
        lambda config, seed: train_trees(diabetes(), config, seed),
    ),
    "cancer": (_NETWORK, lambda config, seed: train_network(cancer(), config, seed)),
}
"""For each table, the parameters with the functions that draw them, and the function that trains a configuration."""


def make(name: str) -> dict[str, Any]:
    """A table: the losses in units of 1e-5, each as the difference from the one before; None for NaN."""
    space, train = TABLES[name]
    rng, rows = random.Random(7), []
    for seed in range(CONFIGURATIONS):
        config = {parameter: draw(rng) for parameter, draw in space.items()}
        begin_s = time.process_time()
        with np.errstate(all="ignore"):  # a network may diverge
            losses = [loss for _, loss in zip(range(EPOCHS), train(config, seed), strict=False)]
        seconds = (time.process_time() - begin_s) / EPOCHS
        before, deltas = 0, []
        for loss in losses:
            now = round(round(loss, 5) * 1e5) if math.isfinite(loss) else None
            deltas.append(None if now is None else now - before)
            before = before if now is None else now
        # The training used all digits; the table has four digits and at most eight decimals.
        values = [float(f"{round(value, 8):.4g}") if isinstance(value, float) else value for value in config.values()]
        rows.append([*values, round(seconds * 1e5), deltas])
    return {"names": [*space, "seconds_per_epoch_e5", "loss_e5_deltas"], "rows": rows}


def main() -> int:
    """Make a table. Return the exit status: 1 if more than a tenth of its curves differ from those of the file."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("table", choices=tuple(TABLES), help="which table")
    parser.add_argument("--write", action="store_true", help="write the table beside this file; do not compare it")
    options = parser.parse_args()
    path = Path(__file__).with_name(f"{options.table}_curves.json.gz")
    table = make(options.table)
    if options.write:
        path.write_bytes(gzip.compress(json.dumps(table, separators=(",", ":")).encode(), mtime=0))
        print(f"{path}: {len(table['rows'])} curves, {path.stat().st_size:,} bytes")
        return 0
    there = json.loads(gzip.decompress(path.read_bytes()))
    pairs = list(zip(table["rows"], there["rows"], strict=True))
    same = sum(new[:-2] == old[:-2] and new[-1] == old[-1] for new, old in pairs)
    close = sum(new[:-2] == old[:-2] and _are_close(new[-1], old[-1]) for new, old in pairs)
    print(f"{path.name}: of {len(pairs)} curves {same} are the same, and {close} differ by 1 % at most")
    return int(close < 0.9 * len(pairs))


def _are_close(deltas: list[int | None], others: list[int | None]) -> bool:
    """Whether two curves have NaN at the same epochs, and differ by at most 1 % elsewhere."""
    curves = [list(accumulate(delta or 0 for delta in each)) for each in (deltas, others)]
    at = [[delta is None for delta in each] for each in (deltas, others)]
    return at[0] == at[1] and all(abs(new - old) <= 0.01 * old for new, old in zip(*curves, strict=True))


if __name__ == "__main__":
    sys.exit(main())
