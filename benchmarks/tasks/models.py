"""Models of scikit-learn on its own data sets and on generated ones, with the spaces to search.

The value of a configuration is a loss of cross-validation: the share of wrong classes, the logarithmic loss, or the
mean squared error as a share of the variance. Models that draw random numbers draw others for each configuration, as
without a fixed seed. So the values have the noise of cross-validation, and an equal configuration has an equal value.
Some configurations fail: training diverges, or scikit-learn refuses them.

There are sixteen tasks, in eight pairs of one kind each: `CHOOSE` has one task of each pair, `CONFIRM` the other one.
The split was fixed before the first run. Rules of `AutoSearch` are chosen by the tasks of `CHOOSE` only. So the tasks
of `CONFIRM` show what a rule is worth on work that it was not chosen by.

A task is noisy if its model draws random numbers (`is_noisy`), else deterministic.

`SMALL` has 31 more tasks on at most 150 rows. A trial takes about 30 ms, so many runs are affordable.
"""

from __future__ import annotations

import hashlib
import math
import statistics
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy
from sklearn import (
    datasets,
    discriminant_analysis,
    ensemble,
    kernel_ridge,
    linear_model,
    naive_bayes,
    neighbors,
    neural_network,
    svm,
    tree,
)
from sklearn.decomposition import PCA
from sklearn.feature_selection import SelectKBest
from sklearn.model_selection import KFold, StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, PolynomialFeatures, QuantileTransformer, StandardScaler

from minitune import choice, lograndint, loguniform, randint, uniform
from tasks.functions import Config

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
        rows: How many rows of the data to use, at most.
        folds: The number of parts in cross-validation.
    """

    data: str
    loss: str
    make: Callable[[Config, int], Any]
    space: dict[str, Any]
    rows: int = 400
    folds: int = 5


_GENERATED: dict[str, Callable[[int], Any]] = {
    "friedman1": lambda rows: datasets.make_friedman1(rows, noise=1.0, random_state=3),
    "friedman2": lambda rows: datasets.make_friedman2(rows, noise=60, random_state=4),
    "friedman3": lambda rows: datasets.make_friedman3(rows, noise=0.1, random_state=5),
    "moons": lambda rows: datasets.make_moons(rows, noise=0.3, random_state=6),
    "clusters": lambda rows: datasets.make_classification(
        rows, 12, n_informative=5, n_redundant=3, n_classes=3, class_sep=0.8, flip_y=0.05, random_state=7
    ),
    "sparse": lambda rows: datasets.make_regression(rows, 30, n_informative=8, noise=40, random_state=8),
}


@cache
def load(name: str, rows: int) -> tuple[Any, Any]:
    """Inputs and targets of a data set, in a random order."""
    if name in _GENERATED:
        return _GENERATED[name](rows)
    x, y = getattr(datasets, f"load_{name}")(return_X_y=True)
    order = numpy.random.default_rng(0).permutation(len(x))[:rows]
    return x[order], y[order]


def evaluate(task: ModelTask, config: Config, split: int = 0, again: int = 0) -> float:
    """The loss of a configuration in cross-validation. NaN if it fails.

    Args:
        task: The task.
        config: The configuration.
        split: The number of the split into folds. A model draws other random numbers in each split.
        again: How often it was evaluated before. A model draws other random numbers each time, on the same folds.
    """
    x, y = load(task.data, task.rows)
    text = repr(sorted(config.items(), key=str))
    if split:
        text += f" {split}"
    if again:
        text += f" again {again}"
    seed = int(hashlib.blake2b(text.encode(), digest_size=4).hexdigest(), 16)
    kind: Any = KFold if task.loss == "squared" else StratifiedKFold
    folds = kind(task.folds, shuffle=True, random_state=split)
    losses = []
    try:
        with warnings.catch_warnings(), numpy.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            for train, test in folds.split(x, y):
                model = task.make(config, seed).fit(x[train], y[train])
                losses.append(_loss(task.loss, model, x[test], y[test], numpy.var(y)))
    except (ValueError, FloatingPointError, numpy.linalg.LinAlgError):
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


_NOISY = (
    "boosted",
    "boosting",
    "classifiers",
    "coordinate descent",
    "forest",
    "gradient descent",
    "logistic cancer",
    "network",
    "regressors",
    "simple classifiers",
    "sparse logistic",
    "tree",
)
"""How the titles of tasks begin whose models draw random numbers."""


def is_noisy(title: str) -> bool:
    """Whether the model of a task draws random numbers, at least in some configurations."""
    return title.startswith(_NOISY)


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


# -- small tasks -------------------------------------------------------------------------------------------------------


def _small(data: str, loss: str, make: Callable[[Config, int], Any], space: dict[str, Any], rows: int) -> ModelTask:
    return ModelTask(data, loss, make, space, rows, 3)


def _alike(kind: str, data: str, rows: int, **changes: Any) -> ModelTask:
    """A task of `CHOOSE` on other data, with changes to its space."""
    task = CHOOSE[kind]
    return _small(data, task.loss, task.make, {**task.space, **changes}, rows)


def _tree(kind: Any) -> Callable[[Config, int], Any]:
    def make(config: Config, seed: int) -> Any:
        return kind(
            max_depth=config["depth"],
            min_samples_leaf=config["leaf"],
            min_samples_split=config["split"],
            ccp_alpha=config["prune"],
            max_features=config["features"],
            criterion=config["criterion"],
            splitter=config["splitter"],
            random_state=seed,
        )

    return make


def _tree_space(criteria: Sequence[str]) -> dict[str, Any]:
    return {
        "depth": randint(1, 21),
        "leaf": lograndint(1, 31),
        "split": randint(2, 21),
        "prune": loguniform(1e-6, 1e-1),
        "features": uniform(0.1, 1.0),
        "criterion": choice(list(criteria)),
        "splitter": choice(["best", "random"]),
    }


def _sparse_logistic(config: Config, seed: int) -> Any:
    model = linear_model.LogisticRegression(
        C=config["C"],
        l1_ratio=config["l1_ratio"],
        solver="liblinear",
        fit_intercept=config["intercept"],
        intercept_scaling=config["intercept_scale"],
        tol=config["tolerance"],
    )
    return _scaled(config, model)


def _ridge_of_polynomials(config: Config, seed: int) -> Any:
    shape = PolynomialFeatures(config["degree"], interaction_only=config["interactions"])
    return make_pipeline(SCALERS[config["scaler"]](), shape, StandardScaler(), linear_model.Ridge(config["alpha"]))


def _coordinate_descent(config: Config, seed: int) -> Any:
    model = linear_model.ElasticNet(
        alpha=config["alpha"],
        l1_ratio=config["l1_ratio"],
        max_iter=config["iterations"],
        tol=config["tolerance"],
        selection=config["selection"],
        positive=config["positive"],
        random_state=seed,
    )
    return _scaled(config, model)


def _kernel_ridge(config: Config, seed: int) -> Any:
    model = kernel_ridge.KernelRidge(
        alpha=config["alpha"],
        gamma=config["gamma"],
        kernel=config["kernel"],
        degree=config["degree"],
        coef0=config["coef0"],
    )
    return _scaled(config, model)


def _nu_svr(config: Config, seed: int) -> Any:
    model = svm.NuSVR(
        nu=config["nu"],
        C=config["C"],
        gamma=config["gamma"],
        kernel=config["kernel"],
        shrinking=config["shrinking"],
        tol=1e-2,
        max_iter=3000,
    )
    return _scaled(config, model)


def _gradient_descent(config: Config, seed: int) -> Any:
    model = linear_model.SGDClassifier(
        loss="log_loss",
        penalty=config["penalty"],
        alpha=config["alpha"],
        l1_ratio=config["l1_ratio"],
        learning_rate=config["schedule"],
        eta0=config["eta"],
        power_t=config["power"],
        average=config["average"],
        max_iter=config["epochs"],
        tol=None,
        random_state=seed,
    )
    return _scaled(config, model)


def _discriminants(config: Config, seed: int) -> Any:
    if config["quadratic"]:
        model = discriminant_analysis.QuadraticDiscriminantAnalysis(
            reg_param=config["shrinkage"], tol=config["tolerance"]
        )
    else:
        model = discriminant_analysis.LinearDiscriminantAnalysis(solver="lsqr", shrinkage=config["shrinkage"])
    # PCA refuses more components than the data has columns
    return make_pipeline(PCA(config["components"], whiten=config["whiten"], svd_solver="full"), model)


def _logistic_of_polynomials(config: Config, seed: int) -> Any:
    model = linear_model.LogisticRegression(C=config["C"], max_iter=50)
    return make_pipeline(PolynomialFeatures(config["degree"]), StandardScaler(), model)


def _boosted_trees(config: Config, seed: int) -> Any:
    return ensemble.AdaBoostRegressor(
        tree.DecisionTreeRegressor(max_depth=config["depth"], min_samples_leaf=config["leaf"]),
        n_estimators=config["trees"],
        learning_rate=config["rate"],
        loss=config["loss"],
        random_state=seed,
    )


_SIMPLE = {
    "logistic": lambda c, seed: linear_model.LogisticRegression(C=c["C"], max_iter=60),
    "bayes": lambda c, seed: naive_bayes.GaussianNB(var_smoothing=c["smoothing"]),
    "discriminant": lambda c, seed: discriminant_analysis.LinearDiscriminantAnalysis("lsqr", shrinkage=c["shrinkage"]),
    "neighbours": lambda c, seed: neighbors.KNeighborsClassifier(c["neighbours"], p=c["power"], weights=c["weights"]),
    "tree": lambda c, seed: tree.DecisionTreeClassifier(
        max_depth=c["depth"], min_samples_leaf=c["leaf"], random_state=seed
    ),
}
_SCALER = choice(list(SCALERS))

SMALL = {
    "svc wine": _alike("svc cancer", "wine", 120),
    "svc clusters": _alike("svc cancer", "clusters", 120),
    "svc small cancer": _alike("svc cancer", "breast_cancer", 100),
    "nusvc cancer": _alike("nusvc wine", "breast_cancer", 100),
    "nusvc clusters": _alike("nusvc wine", "clusters", 120),
    "elastic net friedman1": _alike("elastic net diabetes", "friedman1", 120),
    "elastic net small diabetes": _alike("elastic net diabetes", "diabetes", 150),
    "neighbours cancer": _alike("neighbours wine", "breast_cancer", 120, components=randint(1, 34)),
    "neighbours clusters": _alike("neighbours wine", "clusters", 120, components=randint(1, 16)),
    "regressors friedman1": _alike("regressors diabetes", "friedman1", 90),
    "regressors small diabetes": _alike("regressors diabetes", "diabetes", 100),
    "network wine": _alike("network digits", "wine", 90),
    "network iris": _alike("network digits", "iris", 90),
    "forest cancer": _alike("forest wine", "breast_cancer", 100, trees=lograndint(2, 14)),
    "forest clusters": _alike("forest wine", "clusters", 100, trees=lograndint(2, 14)),
    "boosting friedman1": _alike("boosting diabetes", "friedman1", 90, trees=lograndint(3, 31)),
    "boosting small diabetes": _alike("boosting diabetes", "diabetes", 90, trees=lograndint(3, 31)),
    "tree clusters": _small(
        "clusters", "log", _tree(tree.DecisionTreeClassifier), _tree_space(["gini", "entropy"]), 150
    ),
    "tree friedman1": _small(
        "friedman1",
        "squared",
        _tree(tree.DecisionTreeRegressor),
        _tree_space(["squared_error", "friedman_mse"]),
        150,
    ),
    "sparse logistic cancer": _small(
        "breast_cancer",
        "log",
        _sparse_logistic,
        {
            "C": loguniform(1e-5, 1e5),
            "l1_ratio": choice([0.0, 1.0]),
            "intercept": choice([True, False]),
            "intercept_scale": loguniform(0.1, 10.0),
            "tolerance": loguniform(1e-5, 1e-1),
            "scaler": _SCALER,
        },
        150,
    ),
    "ridge of polynomials friedman2": _small(
        "friedman2",
        "squared",
        _ridge_of_polynomials,
        {
            "alpha": loguniform(1e-6, 1e4),
            "degree": randint(1, 6),
            "interactions": choice([True, False]),
            "scaler": _SCALER,
        },
        120,
    ),
    "coordinate descent sparse": _small(
        "sparse",
        "squared",
        _coordinate_descent,
        {
            "alpha": loguniform(1e-4, 1e3),
            "l1_ratio": uniform(0.0, 1.0),
            "iterations": lograndint(1, 500),
            "tolerance": loguniform(1e-6, 1e-1),
            "selection": choice(["cyclic", "random"]),
            "positive": choice([True, False]),
            "scaler": choice(["none", "standard", "minmax"]),
        },
        80,
    ),
    "kernel ridge friedman3": _small(
        "friedman3",
        "squared",
        _kernel_ridge,
        {
            "alpha": loguniform(1e-6, 10.0),
            "gamma": loguniform(1e-4, 10.0),
            "kernel": choice(["rbf", "laplacian", "polynomial", "linear"]),
            "degree": randint(1, 6),
            "coef0": uniform(0.0, 3.0),
            "scaler": _SCALER,
        },
        100,
    ),
    "nu-svr friedman1": _small(
        "friedman1",
        "squared",
        _nu_svr,
        {
            "nu": uniform(0.05, 1.0),
            "C": loguniform(1e-2, 1e4),
            "gamma": loguniform(1e-5, 10.0),
            "kernel": choice(["rbf", "poly", "sigmoid", "linear"]),
            "shrinking": choice([True, False]),
            "scaler": _SCALER,
        },
        120,
    ),
    "gradient descent wine": _small(
        "wine",
        "log",
        _gradient_descent,
        {
            "alpha": loguniform(1e-7, 1.0),
            "l1_ratio": uniform(0.0, 1.0),
            "penalty": choice(["l1", "l2", "elasticnet"]),
            "schedule": choice(["optimal", "constant", "invscaling", "adaptive"]),
            "eta": loguniform(1e-5, 10.0),
            "power": uniform(0.1, 0.9),
            "average": choice([True, False]),
            "epochs": lograndint(1, 65),
            "scaler": _SCALER,
        },
        150,
    ),
    "discriminants clusters": _small(
        "clusters",
        "log",
        _discriminants,
        {
            "components": randint(1, 14),
            "whiten": choice([True, False]),
            "quadratic": choice([True, False]),
            "shrinkage": uniform(0.0, 1.0),
            "tolerance": loguniform(1e-6, 1.0),
        },
        150,
    ),
    "logistic of polynomials moons": _small(
        "moons", "log", _logistic_of_polynomials, {"degree": randint(1, 9), "C": loguniform(1e-5, 1e5)}, 100
    ),
    "simple classifiers cancer": _small(
        "breast_cancer",
        "log",
        _model_of(_SIMPLE),
        {
            "model": choice(
                [
                    {"name": "logistic", "C": loguniform(1e-5, 1e5)},
                    {"name": "bayes", "smoothing": loguniform(1e-12, 1.0)},
                    {"name": "discriminant", "shrinkage": uniform(0.0, 1.0)},
                    {**_NEIGHBOURS_SPACE, "weights": choice(["uniform", "distance"])},
                    {"name": "tree", "depth": randint(1, 12), "leaf": lograndint(1, 31)},
                ]
            ),
            "scaler": _SCALER,
        },
        90,
    ),
    "svr friedman3": _small(
        "friedman3",
        "squared",
        _svr_by_kernel,
        {
            "C": loguniform(1e-2, 1e4),
            "epsilon": loguniform(1e-3, 3.0),
            "kernel": choice(_KERNELS),
            "scaler": _SCALER,
        },
        120,
    ),
    "network friedman1": _small(
        "friedman1",
        "squared",
        _network(neural_network.MLPRegressor),
        {**_network_space(is_conditional=False), "units": lograndint(4, 33)},
        100,
    ),
    "boosted trees diabetes": _small(
        "diabetes",
        "squared",
        _boosted_trees,
        {
            "depth": randint(1, 7),
            "leaf": lograndint(1, 21),
            "trees": lograndint(2, 16),
            "rate": loguniform(1e-3, 3.0),
            "loss": choice(["linear", "square", "exponential"]),
        },
        90,
    ),
}
"""Small tasks. No decision is made by them, either."""
