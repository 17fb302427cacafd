"""Compares searchers on real models: pipelines of scikit-learn on its own small data sets.

    python benchmarks/search_models.py                             # all tasks, 8 seeds, 80 trials
    python benchmarks/search_models.py --half choose               # the tasks that decisions were made by
    python benchmarks/search_models.py --half confirm              # the others
    python benchmarks/search_models.py --at-a-time 8 --trials 40   # eight trials at a time
    python benchmarks/search_models.py --cache DIR                 # keep all evaluations and runs; none is repeated
    python benchmarks/search_models.py --quick                     # does everything run?

There are sixteen tasks, in eight pairs of one kind each: `CHOOSE` has one task of each pair, `CONFIRM` the other one.
The split was fixed before the first run. Rules of `AutoSearch` are chosen by the tasks of `CHOOSE` only. So the tasks
of `CONFIRM` show what a rule is worth on work that it was not chosen by.

The value of a configuration is a loss of cross-validation: the share of wrong classes, the logarithmic loss, or the
mean squared error as a share of the variance. Models that draw random numbers draw others for each configuration, as
without a fixed seed. So the values have the noise of cross-validation, and an equal configuration has an equal value.
Some configurations fail: training diverges, or scikit-learn refuses them.

*P(beat)* is the share of pairs of runs in which the left searcher's best value is smaller; a tie counts half. It is the
mean over the tasks. Intervals are those of 95 % from a bootstrap over tasks, and within a task over seeds.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import logging
import math
import os
import random
import statistics
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

os.environ.setdefault("OMP_NUM_THREADS", "1")  # the data is so small that threads cost more than they save
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy
from search_engines import AUTO, OURS, SEARCHERS, Asker, lacks
from sklearn import datasets, ensemble, kernel_ridge, linear_model, neighbors, neural_network, svm, tree
from sklearn.decomposition import PCA
from sklearn.feature_selection import SelectKBest
from sklearn.model_selection import KFold, StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, PolynomialFeatures, QuantileTransformer, StandardScaler

from minitune import choice, lograndint, loguniform, randint, uniform

Config = Mapping[str, Any]
SEEN_AT = (20, 40, 80)
"""After so many trials, the best values are compared."""
SCALERS: dict[str, Callable[[], Any]] = {
    "none": lambda: "passthrough",
    "standard": StandardScaler,
    "minmax": MinMaxScaler,
    "quantile": lambda: QuantileTransformer(n_quantiles=50),
}


class ModelTask(NamedTuple):
    """A model, its data and its space.

    Attributes:
        data: The name of the data set.
        loss: `"error"`, `"log"` or `"squared"`.
        make: Builds the estimator from a configuration and a seed.
        space: The search space.
    """

    data: str
    loss: str
    make: Callable[[Config, int], Any]
    space: dict[str, Any]


@cache
def load(name: str) -> tuple[Any, Any]:
    """Inputs and targets of a data set. Of the digits, 400 are enough."""
    x, y = getattr(datasets, f"load_{name}")(return_X_y=True)
    order = numpy.random.default_rng(0).permutation(len(x))[:400]
    return x[order], y[order]


def evaluate(task: ModelTask, config: Config) -> float:
    """The loss of a configuration, in five parts of the data. NaN if it fails."""
    x, y = load(task.data)
    seed = int(hashlib.blake2b(repr(sorted(config.items(), key=str)).encode(), digest_size=4).hexdigest(), 16)
    folds: Any = (KFold if task.loss == "squared" else StratifiedKFold)(5, shuffle=True, random_state=0)
    losses = []
    try:
        with warnings.catch_warnings(), numpy.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            for train, test in folds.split(x, y):
                model = task.make(config, seed).fit(x[train], y[train])
                losses.append(_loss(task.loss, model, x[test], y[test], numpy.var(y)))
    except (ValueError, FloatingPointError):
        return math.nan
    found = statistics.fmean(losses)
    return found if math.isfinite(found) else math.nan


def _loss(kind: str, model: Any, x: Any, y: Any, variance: float) -> float:
    if kind == "error":
        return float(numpy.mean(model.predict(x) != y))
    if kind == "squared":
        return float(numpy.mean((model.predict(x) - y) ** 2) / variance)
    of_class = model.predict_proba(x)[numpy.arange(len(y)), y]
    return float(-numpy.mean(numpy.log(numpy.clip(of_class, 1e-4, 1))))


# -- tasks -------------------------------------------------------------------------------------------------------------


def _scaled(config: Config, model: Any) -> Any:
    return make_pipeline(SCALERS[config["scaler"]](), model)


def _svc(config: Config, seed: int) -> Any:
    model = svm.SVC(C=config["C"], gamma=config["gamma"], kernel=config["kernel"], tol=1e-2, max_iter=5000)
    return _scaled(config, model)


def _kernel_arguments(config: Config) -> dict[str, Any]:
    kernel = dict(config["kernel"])
    return {"kernel": kernel.pop("name"), **kernel}


def _svc_by_kernel(config: Config, seed: int) -> Any:
    model = svm.NuSVC(nu=config["nu"], tol=1e-2, max_iter=5000, **_kernel_arguments(config))  # fails if nu is large
    return _scaled(config, model)


def _svr_by_kernel(config: Config, seed: int) -> Any:
    model = svm.SVR(C=config["C"], epsilon=config["epsilon"], tol=1e-2, max_iter=5000, **_kernel_arguments(config))
    return _scaled(config, model)


def _elastic_net(config: Config, seed: int) -> Any:
    model = linear_model.ElasticNet(alpha=config["alpha"], l1_ratio=config["l1_ratio"], max_iter=300, tol=1e-3)
    shape = PolynomialFeatures(config["degree"], interaction_only=config["interactions"])
    return make_pipeline(SCALERS[config["scaler"]](), SelectKBest(k=config["columns"]), shape, StandardScaler(), model)


def _logistic(config: Config, seed: int) -> Any:
    model = linear_model.SGDClassifier(
        loss="log_loss",
        penalty="elasticnet",
        alpha=config["alpha"],
        l1_ratio=config["l1_ratio"],
        learning_rate=config["schedule"],
        eta0=config["eta"],
        max_iter=config["epochs"],
        tol=None,
        random_state=seed,
    )
    return make_pipeline(SCALERS[config["scaler"]](), SelectKBest(k=config["columns"]), model)


def _trees(kind: Any) -> Callable[[Config, int], Any]:
    def make(config: Config, seed: int) -> Any:
        return kind(
            n_estimators=config["trees"],
            max_depth=config["depth"],
            min_samples_leaf=config["leaf"],
            max_features=config["features"],
            criterion=config["criterion"],
            bootstrap=config["bootstrap"],
            random_state=seed,
        )

    return make


def _trees_space(criteria: Sequence[str]) -> dict[str, Any]:
    return {
        "trees": lograndint(3, 31),
        "depth": randint(1, 16),
        "leaf": lograndint(1, 31),
        "features": uniform(0.05, 1.0),
        "criterion": choice(list(criteria)),
        "bootstrap": choice([True, False]),
    }


def _boosting(kind: Any) -> Callable[[Config, int], Any]:
    def make(config: Config, seed: int) -> Any:
        return kind(
            learning_rate=config["rate"],
            n_estimators=config["trees"],
            max_depth=config["depth"],
            subsample=config["rows"],
            max_features=config["features"],
            min_samples_leaf=config["leaf"],
            random_state=seed,
        )

    return make


BOOSTING = {
    "rate": loguniform(1e-3, 1.0),
    "trees": lograndint(4, 65),
    "depth": randint(1, 7),
    "rows": uniform(0.2, 1.0),
    "features": uniform(0.1, 1.0),
    "leaf": lograndint(1, 33),
}


def _network(kind: Any) -> Callable[[Config, int], Any]:
    def make(config: Config, seed: int) -> Any:
        solver = dict(config["solver"])
        model = kind(
            hidden_layer_sizes=(config["units"],) * config["layers"],
            activation=config["activation"],
            solver=solver.pop("name"),
            alpha=config["alpha"],
            batch_size=config["batch"],
            max_iter=12,
            random_state=seed,
            **solver,
        )
        return make_pipeline(StandardScaler(), model)

    return make


def _network_space(is_conditional: bool) -> dict[str, Any]:
    sgd = {"name": "sgd", "learning_rate_init": loguniform(1e-3, 10.0), "momentum": uniform(0.0, 0.99)}
    adam = {"name": "adam", "learning_rate_init": loguniform(1e-4, 1.0), "beta_1": uniform(0.5, 0.99)}
    return {
        "solver": choice([sgd, adam]) if is_conditional else sgd,
        "layers": randint(1, 4),
        "units": lograndint(4, 65),
        "activation": choice(["relu", "tanh", "logistic"]),
        "alpha": loguniform(1e-6, 1.0),
        "batch": choice([16, 32, 64]),
    }


def _neighbours(kind: Any) -> Callable[[Config, int], Any]:
    def make(config: Config, seed: int) -> Any:
        # PCA refuses more components than the data has columns
        reduce = PCA(config["components"], whiten=config["whiten"], svd_solver="full")
        model = kind(n_neighbors=config["neighbours"], p=config["power"], weights=config["weights"])
        return make_pipeline(SCALERS[config["scaler"]](), reduce, model)

    return make


def _neighbours_space(columns: int) -> dict[str, Any]:
    return {
        "neighbours": lograndint(1, 65),
        "power": uniform(1.0, 4.0),
        "weights": choice(["uniform", "distance"]),
        "components": randint(1, columns + 4),
        "whiten": choice([True, False]),
        "scaler": choice(list(SCALERS)),
    }


_CLASSIFIERS = {
    "svm": lambda c, seed: svm.SVC(C=c["C"], gamma=c["gamma"], tol=1e-2, max_iter=5000),
    "tree": lambda c, seed: tree.DecisionTreeClassifier(max_depth=c["depth"], ccp_alpha=c["prune"], random_state=seed),
    "forest": lambda c, seed: ensemble.ExtraTreesClassifier(
        c["trees"], max_depth=c["depth"], max_features=c["features"], random_state=seed
    ),
    "logistic": lambda c, seed: linear_model.LogisticRegression(C=c["C"], max_iter=60, tol=1e-3),
    "neighbours": lambda c, seed: neighbors.KNeighborsClassifier(c["neighbours"], p=c["power"]),
}
_REGRESSORS = {
    "svm": lambda c, seed: svm.SVR(C=c["C"], gamma=c["gamma"], tol=1e-2, max_iter=5000),
    "ridge": lambda c, seed: linear_model.Ridge(alpha=c["alpha"]),
    "kernel": lambda c, seed: kernel_ridge.KernelRidge(alpha=c["alpha"], gamma=c["gamma"], kernel=c["kernel"]),
    "forest": lambda c, seed: ensemble.RandomForestRegressor(
        c["trees"], max_depth=c["depth"], max_features=c["features"], random_state=seed
    ),
    "neighbours": lambda c, seed: neighbors.KNeighborsRegressor(c["neighbours"], p=c["power"]),
}


def _model_of(models: Mapping[str, Callable[[Config, int], Any]]) -> Callable[[Config, int], Any]:
    return lambda config, seed: _scaled(config, models[config["model"]["name"]](config["model"], seed))


_SVM_SPACE = {"name": "svm", "C": loguniform(1e-3, 1e4), "gamma": loguniform(1e-6, 10.0)}
_FOREST_SPACE = {"name": "forest", "trees": lograndint(3, 31), "depth": randint(1, 16), "features": uniform(0.05, 1.0)}
_NEIGHBOURS_SPACE = {"name": "neighbours", "neighbours": lograndint(1, 65), "power": uniform(1.0, 4.0)}
_KERNELS = [
    {"name": "linear"},
    {"name": "rbf", "gamma": loguniform(1e-5, 10.0)},
    {"name": "poly", "gamma": loguniform(1e-4, 1.0), "degree": randint(2, 6), "coef0": uniform(0.0, 2.0)},
    {"name": "sigmoid", "gamma": loguniform(1e-5, 1.0), "coef0": uniform(-1.0, 1.0)},
]
_SVC_SPACE = {
    "C": loguniform(1e-3, 1e4),
    "gamma": loguniform(1e-6, 10.0),
    "kernel": choice(["rbf", "poly", "sigmoid"]),
    "scaler": choice(list(SCALERS)),
}

CHOOSE = {
    "svc cancer": ModelTask("breast_cancer", "error", _svc, _SVC_SPACE),
    "nusvc wine": ModelTask(
        "wine",
        "error",
        _svc_by_kernel,
        {"nu": uniform(0.01, 0.99), "kernel": choice(_KERNELS), "scaler": choice(list(SCALERS))},
    ),
    "elastic net diabetes": ModelTask(
        "diabetes",
        "squared",
        _elastic_net,
        {
            "alpha": loguniform(1e-3, 1e3),
            "l1_ratio": uniform(0.0, 1.0),
            "degree": randint(1, 4),
            "interactions": choice([True, False]),
            "columns": randint(2, 11),
            "scaler": choice(list(SCALERS)),
        },
    ),
    "forest wine": ModelTask(
        "wine", "log", _trees(ensemble.RandomForestClassifier), _trees_space(["gini", "entropy", "log_loss"])
    ),
    "boosting diabetes": ModelTask("diabetes", "squared", _boosting(ensemble.GradientBoostingRegressor), BOOSTING),
    "network digits": ModelTask(
        "digits", "log", _network(neural_network.MLPClassifier), _network_space(is_conditional=True)
    ),
    "neighbours wine": ModelTask("wine", "error", _neighbours(neighbors.KNeighborsClassifier), _neighbours_space(13)),
    "regressors diabetes": ModelTask(
        "diabetes",
        "squared",
        _model_of(_REGRESSORS),
        {
            "model": choice(
                [
                    _SVM_SPACE,
                    {"name": "ridge", "alpha": loguniform(1e-4, 1e4)},
                    {
                        "name": "kernel",
                        "alpha": loguniform(1e-4, 10.0),
                        "gamma": loguniform(1e-4, 10.0),
                        "kernel": choice(["rbf", "laplacian", "polynomial"]),
                    },
                    _FOREST_SPACE,
                    _NEIGHBOURS_SPACE,
                ]
            ),
            "scaler": choice(list(SCALERS)),
        },
    ),
}
"""The tasks that decisions are made by."""

CONFIRM = {
    "svc digits": ModelTask("digits", "error", _svc, _SVC_SPACE),
    "svr diabetes": ModelTask(
        "diabetes",
        "squared",
        _svr_by_kernel,
        {
            "C": loguniform(1e-2, 1e4),
            "epsilon": loguniform(1e-2, 100.0),
            "kernel": choice(_KERNELS),
            "scaler": choice(list(SCALERS)),
        },
    ),
    "logistic cancer": ModelTask(
        "breast_cancer",
        "log",
        _logistic,
        {
            "alpha": loguniform(1e-6, 1.0),
            "l1_ratio": uniform(0.0, 1.0),
            "schedule": choice(["constant", "invscaling", "adaptive"]),
            "eta": loguniform(1e-4, 10.0),
            "epochs": lograndint(2, 65),
            "columns": randint(2, 31),
            "scaler": choice(list(SCALERS)),
        },
    ),
    "trees diabetes": ModelTask(
        "diabetes", "squared", _trees(ensemble.ExtraTreesRegressor), _trees_space(["squared_error", "friedman_mse"])
    ),
    "boosting cancer": ModelTask("breast_cancer", "log", _boosting(ensemble.GradientBoostingClassifier), BOOSTING),
    "network diabetes": ModelTask(
        "diabetes", "squared", _network(neural_network.MLPRegressor), _network_space(is_conditional=False)
    ),
    "neighbours diabetes": ModelTask(
        "diabetes", "squared", _neighbours(neighbors.KNeighborsRegressor), _neighbours_space(10)
    ),
    "classifiers iris": ModelTask(
        "iris",
        "error",
        _model_of(_CLASSIFIERS),
        {
            "model": choice(
                [
                    _SVM_SPACE,
                    {"name": "tree", "depth": randint(1, 16), "prune": loguniform(1e-5, 0.3)},
                    _FOREST_SPACE,
                    {"name": "logistic", "C": loguniform(1e-4, 1e4)},
                    _NEIGHBOURS_SPACE,
                ]
            ),
            "scaler": choice(list(SCALERS)),
        },
    ),
}
"""The tasks that no decision is made by."""

HALVES = {"choose": CHOOSE, "confirm": CONFIRM, "both": {**CHOOSE, **CONFIRM}}


# -- runs --------------------------------------------------------------------------------------------------------------


class Cache:
    """What was computed before, in a file of JSON lines. Without a folder it is kept in memory.

    Args:
        folder: The folder; None for none.
        name: The file's name.
    """

    def __init__(self, folder: Path | None, name: str):
        self._path = None if folder is None else folder / f"{name}.jsonl"
        self._known: dict[str, Any] = {}
        if self._path is not None and self._path.exists():
            for line in self._path.read_text(encoding="utf-8").splitlines():
                key, value = json.loads(line)
                self._known[key] = value

    def get(self, key: str, compute: Callable[[], Any]) -> Any:
        """The value of a key, which is computed if it is not known."""
        return self._known[key] if key in self._known else self.put(key, compute())

    def put(self, key: str, value: Any) -> Any:
        """Store a value, and return it."""
        self._known[key] = value
        if self._path is not None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with self._path.open("a", encoding="utf-8") as file:
                file.write(f"{json.dumps([key, value])}\n")
        return value


def values_of_run(value_of: Callable[[Config], float], searcher: Asker, trials: int, at_a_time: int) -> Iterator[float]:
    """The values of a run's trials. They end in the order of their suggestions. NaN is a failure."""
    waiting: list[tuple[Any, Config]] = []
    asked = 0
    while asked < trials or waiting:
        while asked < trials and len(waiting) < at_a_time:
            waiting.append(searcher.ask())
            asked += 1
        token, config = waiting.pop(0)
        value = value_of(config)
        if math.isnan(value):
            searcher.fail(token)
        else:
            searcher.tell(token, value)
        yield value


def measure(options: argparse.Namespace) -> dict[str, dict[str, list[list[float]]]]:
    """The values of all runs by task and searcher, one list for each seed."""
    found: dict[str, dict[str, list[list[float]]]] = {}
    for title, task in HALVES[options.half].items():
        if options.tasks and title not in options.tasks:
            continue
        values = Cache(options.cache, f"values {title}")
        found[title] = {}
        for name in options.searchers:
            tag = f" {options.tag}" if name in (AUTO, OURS) else ""
            runs = Cache(options.cache, f"runs {title} {name} {options.at_a_time}{tag}")
            found[title][name] = []
            for seed in range(options.seeds):

                def value_of(config: Config, task: ModelTask = task, values: Cache = values) -> float:
                    key = json.dumps(config, sort_keys=True, default=str)
                    return float(values.get(key, lambda: evaluate(task, config)))

                def play(value_of: Any = value_of, space: Any = task.space, name: str = name, seed: int = seed) -> Any:
                    searcher = SEARCHERS[name][1](space, seed)
                    return [*values_of_run(value_of, searcher, options.trials, options.at_a_time)]

                known = runs.get(str(seed), play)
                if len(known) < options.trials:
                    known = runs.put(str(seed), play())
                found[title][name].append(known[: options.trials])
    return found


# -- tables ------------------------------------------------------------------------------------------------------------


def best_at(runs: Sequence[Sequence[float]], count: int) -> list[float]:
    """The best value of each run after so many trials; infinite if all have failed."""
    return [min((value for value in run[:count] if value == value), default=math.inf) for run in runs]


def wins(left: Sequence[float], right: Sequence[float]) -> float:
    """The share of pairs in which the left value is smaller; a tie counts half."""
    return sum((a < b) + 0.5 * (a == b) for a in left for b in right) / (len(left) * len(right))


def beats(pairs: Sequence[tuple[Sequence[float], Sequence[float]]]) -> str:
    """The mean of P(beat) over tasks, with its interval."""
    rng = random.Random(0)

    def drawn() -> float:
        chosen = rng.choices(pairs, k=len(pairs))
        return statistics.fmean(
            wins(rng.choices(left, k=len(left)), rng.choices(right, k=len(right))) for left, right in chosen
        )

    whole = statistics.fmean(wins(left, right) for left, right in pairs)
    figures = sorted(drawn() for _ in range(400))
    return f"{whole:.2f} [{figures[9]:.2f}, {figures[389]:.2f}]"


def show(found: Mapping[str, Mapping[str, Sequence[Sequence[float]]]], ours: str, trials: int) -> Iterator[str]:
    """Two tables: how often one searcher beats each other one, by trials; and the median best values by task."""
    others = [name for name in next(iter(found.values())) if name != ours]
    counts = [count for count in SEEN_AT if count < trials] + [trials]
    yield f"P(beat) of {ours}, by trials"
    yield ""
    yield _row("over", *map(str, counts), *(f"{title}, {counts[-1]}" for title in found))
    yield _row(*["---"] * (1 + len(counts) + len(found)))
    for other in others:
        cells = []
        for count in counts:
            pairs = [(best_at(runs[ours], count), best_at(runs[other], count)) for runs in found.values()]
            cells.append(beats(pairs))
        own = [f"{wins(left, right):.2f}" for left, right in pairs]
        yield _row(other, *cells, *own)
    yield ""
    yield f"Median of the best values after {' / '.join(map(str, counts))} trials, and the share of failures"
    yield ""
    yield _row("", *found)
    yield _row(*["---"] * (1 + len(found)))
    for name in [ours, *others]:
        cells = []
        for runs in found.values():
            medians = " / ".join(f"{statistics.median(best_at(runs[name], count)):.4g}" for count in counts)
            values = [value for run in runs[name] for value in run]
            cells.append(f"{medians}; {sum(value != value for value in values) / len(values):.0%}")
        yield _row(name, *cells)
    yield ""


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def main() -> int:
    """Run the benchmark. Return the exit status."""
    usual = ["random", OURS, AUTO, "Optuna TPE", "Optuna GP"]
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--half", choices=tuple(HALVES), default="both", help="which tasks")
    parser.add_argument("--tasks", nargs="+", choices=tuple(HALVES["both"]), help="only these tasks of them")
    parser.add_argument("--searchers", nargs="+", choices=tuple(SEARCHERS), default=usual, help="which searchers")
    parser.add_argument("--against", default=AUTO, help="the searcher that is compared to the others")
    parser.add_argument("--seeds", type=int, default=8, help="runs of each searcher on each task")
    parser.add_argument("--trials", type=int, default=80, help="trials of each run")
    parser.add_argument("--at-a-time", type=int, default=1, help="trials at a time")
    parser.add_argument("--cache", type=Path, help="a folder that keeps evaluations and runs")
    parser.add_argument("--tag", default="", help="a name for the version of our searchers in the cached runs")
    parser.add_argument("--quick", action="store_true", help="one seed and few trials: only checks that it runs")
    options = parser.parse_args()
    options.searchers = [name for name in options.searchers if not lacks(SEARCHERS[name][0])]
    if options.quick:
        options.seeds = 1
        options.trials = 3
    logging.getLogger("minitune").setLevel(logging.ERROR)
    print("\n".join(show(measure(options), options.against, options.trials)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
