"""The searchers to compare.

Each has the methods `ask() -> (token, configuration)` and `tell(token, value)`. Those that are compared on real models
also have `fail(token)`, for a configuration that has failed.
"""

from __future__ import annotations

import importlib.util
import math
import os
import pickle
import random
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tasks.functions import Config, draw_at_random

from minitune.experiment.trial import EarlierRun
from minitune.search import AutoSearch, TPESearch
from minitune.space.domains import Categorical, Float, Integer, LogUniform
from minitune.space.parameters import Axis, Parameter, draw, parameters

OURS, AUTO, OTHER = "minitune TPE", "minitune auto", "TPE of another commit"
TURBO = "TuRBO"
SMAC = "SMAC"
Asker = Any
"""An object with these methods."""


def lacks(package: str) -> bool:
    """Whether a package is needed and not installed."""
    return bool(package) and importlib.util.find_spec(package) is None


def _last_and_step(domain: Integer) -> tuple[int, int]:
    """The largest value of a domain, and its step. Without a step, `upper` is excluded."""
    step = int(getattr(domain.sampler, "q", 1))
    return domain.upper - (step == 1), step


class Random:
    """Draws from the space."""

    def __init__(self, space: Mapping[str, Any], seed: int):
        self._space, self._rng = space, random.Random(seed)

    def ask(self) -> tuple[Any, Config]:
        return None, draw_at_random(self._space, self._rng)

    def tell(self, token: Any, value: float) -> None:
        pass

    def fail(self, token: Any) -> None:
        pass


class Ours:
    """A searcher of this package."""

    def __init__(self, space: Mapping[str, Any], seed: int, kind: type[TPESearch] = TPESearch, **kwargs: Any):
        self._searcher = kind(space, **{"metric": "loss", "mode": "min", **kwargs}, seed=seed)
        self._count = 0

    def expect(self, samples: int) -> None:
        """Let it search as in a run of so many samples: it may repeat its best trial."""
        spec = {"num_samples": samples, "may_repeat": True}
        self._searcher.set_search_properties(self._searcher.metric, self._searcher.mode, {}, **spec)

    def ask(self) -> tuple[Any, Config]:
        self._count += 1
        suggestion = self._searcher.suggest(str(self._count))
        if not isinstance(suggestion, dict):
            raise RuntimeError(f"no configuration, but {suggestion!r}")
        return str(self._count), suggestion

    def tell(self, token: Any, value: float | tuple[float, float]) -> None:
        values = value if isinstance(value, tuple) else (value,)
        self._searcher.on_trial_complete(token, dict(zip(("loss", "other"), values, strict=False)))

    def fail(self, token: Any) -> None:
        self._searcher.on_trial_complete(token, error=True)

    def learn_from(self, tried: Sequence[tuple[Config, float]]) -> Ours:
        """Learn from an earlier run. Return this object."""
        self._searcher.learn_from([EarlierRun("", [(dict(config), {"loss": value}) for config, value in tried])])
        return self


class Optuna:
    """A sampler of Optuna, with its defaults."""

    def __init__(
        self, space: Mapping[str, Any], seed: int, sampler: str = "TPESampler", objectives: int = 1, pruner: Any = None
    ):
        import optuna

        optuna.logging.set_verbosity(optuna.logging.ERROR)
        made = getattr(optuna.samplers, sampler)(seed=seed)
        self._failed = optuna.trial.TrialState.FAIL
        self._pruned = optuna.trial.TrialState.PRUNED
        self._space = space
        self._study = optuna.create_study(directions=["minimize"] * objectives, sampler=made, pruner=pruner)

    def ask(self) -> tuple[Any, Config]:
        trial = self._study.ask()

        def choose(parameter: Parameter) -> Any:
            domain, name = parameter.domain, parameter.name
            if isinstance(domain, Categorical):
                return trial.suggest_categorical(name, list(range(len(domain))))
            is_log = isinstance(domain.sampler, LogUniform)
            if isinstance(domain, Float):
                return trial.suggest_float(name, domain.lower, domain.upper, log=is_log)
            last, step = _last_and_step(domain)
            return trial.suggest_int(name, domain.lower, last, log=is_log, step=step)

        return trial, draw(self._space, choose)

    def tell(self, token: Any, value: float) -> None:
        self._study.tell(token, value)

    def fail(self, token: Any) -> None:
        self._study.tell(token, state=self._failed)

    def prune(self, token: Any) -> None:
        self._study.tell(token, state=self._pruned)


class HyperOpt:
    """HyperOpt's TPE, with its defaults."""

    def __init__(self, space: Mapping[str, Any], seed: int):
        import hyperopt
        import numpy

        self._hyperopt, self._rng = hyperopt, numpy.random.default_rng(seed)
        self._names: dict[str, Any] = {}
        self._trials = hyperopt.Trials()
        self._space = space
        self._domain = hyperopt.base.Domain(None, self._convert(space, ""), pass_expr_memo_ctrl=True)

    def ask(self) -> tuple[Any, Config]:
        (number,) = self._trials.new_trial_ids(1)
        seed = int(self._rng.integers(2**31 - 1))
        (document,) = self._hyperopt.tpe.suggest([number], self._domain, self._trials, seed)
        values = {name: found[0] for name, found in document["misc"]["vals"].items() if found}
        self._trials.insert_trial_docs([document])
        self._trials.refresh()

        def choose(parameter: Parameter) -> Any:
            value, domain = values[parameter.name], parameter.domain
            if isinstance(domain, Categorical):
                return int(value)
            return domain.cast(min(max(value, domain.lower), domain.upper))

        return number, draw(self._space, choose)

    def tell(self, token: Any, value: float) -> None:
        document = next(each for each in self._trials.trials if each["tid"] == token)
        document["state"] = self._hyperopt.JOB_STATE_DONE
        document["result"] = {"loss": value, "status": self._hyperopt.STATUS_OK}
        self._trials.refresh()

    def _convert(self, tree: Any, name: str) -> Any:
        """The space as one of HyperOpt. The parameters keep their names."""
        hp = self._hyperopt.hp
        if isinstance(tree, Mapping):
            return {key: self._convert(member, f"{name}/{key}" if name else str(key)) for key, member in tree.items()}
        if isinstance(tree, Categorical):
            below = [self._convert(member, f"{name}/{index}") for index, member in enumerate(tree.categories)]
            return hp.choice(name, below)
        if isinstance(tree, Float):
            if isinstance(tree.sampler, LogUniform):
                return hp.loguniform(name, math.log(tree.lower), math.log(tree.upper))
            return hp.uniform(name, tree.lower, tree.upper)
        if isinstance(tree, Integer):
            last, step = _last_and_step(tree)
            if isinstance(tree.sampler, LogUniform):
                return hp.qloguniform(name, math.log(tree.lower), math.log(last), 1)
            return hp.quniform(name, tree.lower, last, step)
        return tree


class Smac:
    """SMAC's random forest, with the defaults of its facade for hyperparameters; needs smac.

    Two of its defaults are for longer runs. Here it starts with ten points, as Optuna's samplers do, and learns from
    each trial instead of from eight at a time.
    """

    def __init__(self, space: Mapping[str, Any], seed: int):
        from smac import HyperparameterOptimizationFacade, Scenario
        from smac.runhistory.dataclasses import TrialValue
        from smac.runhistory.enumerations import StatusType

        self._space = space
        self._value = TrialValue
        self._crashed = StatusType.CRASHED
        self._worst = 1.0
        self._folder = tempfile.TemporaryDirectory()
        scenario = Scenario(
            self._convert(space),
            deterministic=True,
            n_trials=10_000,
            seed=seed,
            output_directory=Path(self._folder.name),
        )
        facade = HyperparameterOptimizationFacade
        self._smac = facade(
            scenario,
            lambda config, seed: math.nan,  # SMAC requires a function, but `ask` does not call it
            initial_design=facade.get_initial_design(scenario, n_configs=10),
            config_selector=facade.get_config_selector(scenario, retrain_after=1),
            logging_level=False,
        )

    def ask(self) -> tuple[Any, Config]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # SMAC computes the mean of no values
            info = self._smac.ask()

        def choose(parameter: Parameter) -> Any:
            value = info.config[parameter.name]
            domain = parameter.domain
            if isinstance(domain, Categorical):
                return int(value)
            axis = Axis(domain)
            return axis.decode(axis.encode(value))

        return info, draw(self._space, choose)

    def tell(self, token: Any, value: float) -> None:
        self._worst = max(self._worst, value)
        self._smac.tell(token, self._value(cost=value), save=False)

    def fail(self, token: Any) -> None:
        # With SMAC's usual cost of a crash, infinity, its next suggestion raises an error.
        self._smac.tell(token, self._value(cost=self._worst, status=self._crashed), save=False)

    def _convert(self, space: Mapping[str, Any]) -> Any:
        """The space as one of ConfigSpace. The parameters keep their names, and categories become their indices."""
        import ConfigSpace

        found = ConfigSpace.ConfigurationSpace()
        for parameter in parameters(space):
            domain = parameter.domain
            is_log = isinstance(domain.sampler, LogUniform)
            own: Any
            if isinstance(domain, Categorical):
                own = ConfigSpace.CategoricalHyperparameter(parameter.name, [*range(len(domain))])
            elif isinstance(domain, Float):
                own = ConfigSpace.UniformFloatHyperparameter(parameter.name, domain.lower, domain.upper, log=is_log)
            else:
                last, _ = _last_and_step(domain)  # `ask` rounds to the step
                own = ConfigSpace.UniformIntegerHyperparameter(parameter.name, domain.lower, last, log=is_log)
            found.add(own)
            if parameter.parent is not None:
                name, index = parameter.parent
                found.add(ConfigSpace.EqualsCondition(own, found[name], index))
        return found


class Turbo:
    """TuRBO-1 for spaces of numbers, with one trial at a time; needs numpy. A small version of our own.

    Eriksson et al., "Scalable global optimization via local Bayesian optimization" (NeurIPS 2019): a Gaussian process
    chooses from a region around the best trial by Thompson sampling. Lengths, bounds and tolerances are those of its
    authors. Two things differ: a search starts from at most 20 points, since 80 are too many of 100 trials, and a
    sample is drawn at 1,000 candidates.
    """

    _CANDIDATES = 1000
    _LEAST_LENGTH = 0.5**7
    _LARGEST_LENGTH = 1.6
    _BOUNDS = (-2 * math.log(2.0), -2 * math.log(0.005))  # of the logarithms of inverse squared length scales
    _NOISE_BOUNDS = (math.log(5e-4), math.log(0.2))

    def __init__(self, space: Mapping[str, Any], seed: int):
        import numpy

        if not all(isinstance(domain, (Float, Integer)) for domain in space.values()):
            raise ValueError(f"TuRBO searches numbers only, but got {space}")
        self._numpy = numpy
        self._rng = numpy.random.default_rng(seed)
        self._axes = {name: Axis(domain) for name, domain in space.items()}
        self._begin()

    def _begin(self) -> None:
        self._points: list[Any] = []
        self._values: list[float] = []
        self._logs: list[float] = []
        self._length = 0.8
        self._wins = 0
        self._losses = 0
        count = len(self._axes)
        first = min(2 * count, 20)
        order = self._rng.permuted(self._numpy.tile(self._numpy.arange(first), (count, 1)), axis=1)
        self._first = [*((order.T + self._rng.random((first, count))) / first)]  # a Latin hypercube

    def ask(self) -> tuple[Any, Config]:
        if self._first:
            place = self._first.pop()
        else:
            place = self._suggest()
        config = {}
        for (name, axis), each in zip(self._axes.items(), place, strict=True):
            config[name] = axis.decode(float(each))
        return place, config

    def tell(self, token: Any, value: float) -> None:
        if not self._first and len(self._values) > 1:
            self._resize(value)
        self._points.append(token)
        self._values.append(value)
        if self._length < self._LEAST_LENGTH:
            self._begin()

    def _resize(self, value: float) -> None:
        least = min(self._values)
        if value < least - 1e-3 * abs(least):
            self._wins += 1
            self._losses = 0
        else:
            self._wins = 0
            self._losses += 1
        if self._wins == 3:
            self._length = min(2 * self._length, self._LARGEST_LENGTH)
            self._wins = 0
        if self._losses == max(4, len(self._axes)):
            self._length = self._length / 2
            self._losses = 0

    def _suggest(self) -> Any:
        from minitune.search.surface import likely_logs

        numpy = self._numpy
        points = numpy.array(self._points)
        values = numpy.array(self._values)
        values = (values - numpy.median(values)) / (values.std() or 1.0)
        count = len(self._axes)
        bounds = [*[self._BOUNDS] * count, self._NOISE_BOUNDS]
        rounds = 15
        if not self._logs:
            self._logs = [*[2 * math.log(2.0)] * count, math.log(5e-3)]
            rounds = 50
        self._logs = likely_logs(points, [1] * count, values, self._logs, bounds, rounds)

        scales = numpy.exp(-0.5 * numpy.array(self._logs[:-1]))
        weights = scales / scales.mean()
        weights = weights / numpy.exp(numpy.log(weights).mean())
        centre = points[values.argmin()]
        low = numpy.clip(centre - weights * self._length / 2, 0, 1)
        high = numpy.clip(centre + weights * self._length / 2, 0, 1)
        drawn = low + (high - low) * self._rng.random((self._CANDIDATES, count))
        moved = self._rng.random(drawn.shape) < min(1.0, 20 / count)
        moved[numpy.arange(len(moved)), self._rng.integers(count, size=len(moved))] = True
        candidates = numpy.where(moved, drawn, centre)

        covariance = self._kernel(points, points, scales)
        covariance.flat[:: len(points) + 1] += math.exp(self._logs[-1])
        inverse = numpy.linalg.inv(numpy.linalg.cholesky(covariance))
        solved = inverse @ self._kernel(points, candidates, scales)
        weighted = inverse @ values
        variance = weighted @ weighted / len(points)
        rest = self._kernel(candidates, candidates, scales) - solved.T @ solved
        rest.flat[:: len(rest) + 1] += 1e-6
        noise = numpy.linalg.cholesky(rest) @ self._rng.standard_normal(len(rest))
        return candidates[(solved.T @ weighted + math.sqrt(variance) * noise).argmin()]

    def _kernel(self, left: Any, right: Any, scales: Any) -> Any:
        """The Matérn-5/2 kernel of two sets of points."""
        numpy = self._numpy
        left = left / scales
        right = right / scales
        squares = (left**2).sum(axis=1)[:, None] + (right**2).sum(axis=1) - 2 * left @ right.T
        distances = numpy.sqrt(5 * numpy.maximum(squares, 0.0))
        return (1 + distances + distances**2 / 3) * numpy.exp(-distances)


_SERVER = """
import os, pickle, sys
replies = os.fdopen(os.dup(1), "wb")
os.dup2(2, 1)
import minitune
from minitune.search import TPESearch
def domain(tree):
    if isinstance(tree, tuple):
        name, *arguments = tree
        return getattr(minitune, name)(*map(domain, arguments))
    if isinstance(tree, dict):
        return {key: domain(member) for key, member in tree.items()}
    return [domain(member) for member in tree] if isinstance(tree, list) else tree
while True:
    try:
        name, *arguments = pickle.load(sys.stdin.buffer)
    except EOFError:
        break
    reply = None
    if name == "new":
        searcher, count = TPESearch(domain(arguments[0]), metric="loss", mode="min", seed=arguments[1]), 0
    elif name == "ask":
        count += 1
        reply = str(count), searcher.suggest(str(count))
    else:
        searcher.on_trial_complete(arguments[0], {"loss": arguments[1]})
    pickle.dump(reply, replies)
    replies.flush()
"""


class Other:
    """`TPESearch` of another checkout of this project, in a process of its own. It runs one search at a time.

    Attributes:
        path: The path of the checkout; None if there is none.
    """

    path: str | None = None
    _process: subprocess.Popen[bytes] | None = None

    def __init__(self, space: Mapping[str, Any], seed: int):
        if Other._process is None:
            environment = {**os.environ, "PYTHONPATH": str(Other.path)}
            command = [sys.executable, "-c", _SERVER]
            Other._process = subprocess.Popen(
                command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=Other.path
            )
        self._call("new", self._described(space), seed)

    def ask(self) -> tuple[Any, Config]:
        token, config = self._call("ask")
        return token, config

    def tell(self, token: Any, value: float) -> None:
        self._call("tell", token, value)

    @classmethod
    def end(cls) -> None:
        """End the process, if it was started."""
        if cls._process is not None:
            cls._process.communicate()
            cls._process = None

    def _call(self, *request: Any) -> Any:
        process = Other._process
        if process is None or process.stdin is None or process.stdout is None:
            raise RuntimeError("the other process has ended")
        pickle.dump(request, process.stdin)
        process.stdin.flush()
        return pickle.load(process.stdout)

    def _described(self, tree: Any) -> Any:
        """A space without classes: a domain is the name of the function that makes it, and the arguments."""
        if isinstance(tree, Mapping):
            return {key: self._described(member) for key, member in tree.items()}
        if isinstance(tree, Categorical):
            return "choice", [self._described(member) for member in tree.categories]
        if isinstance(tree, (Float, Integer)):
            log = "log" if isinstance(tree.sampler, LogUniform) else ""
            step = getattr(tree.sampler, "q", None)
            kind = ("q" if step else "") + log + ("uniform" if isinstance(tree, Float) else "randint")
            return kind, tree.lower, tree.upper, *([step] if step else [])
        return tree


SEARCHERS: dict[str, tuple[str, Callable[[Mapping[str, Any], int], Asker]]] = {
    "random": ("", Random),
    OURS: ("", Ours),
    AUTO: ("", lambda space, seed: Ours(space, seed, AutoSearch)),
    "Optuna random": ("optuna", lambda space, seed: Optuna(space, seed, "RandomSampler")),
    "Optuna TPE": ("optuna", Optuna),
    "Optuna CMA-ES": ("cmaes", lambda space, seed: Optuna(space, seed, "CmaEsSampler")),
    "Optuna GP": ("torch", lambda space, seed: Optuna(space, seed, "GPSampler")),
    "HyperOpt TPE": ("hyperopt", HyperOpt),
    SMAC: ("smac", Smac),
    TURBO: ("numpy", Turbo),
    OTHER: ("", Other),
}
"""The searchers by name: the package that it needs, and a function of a space and a seed that makes it."""
OF_TWO: dict[str, tuple[str, Callable[[Mapping[str, Any], int], Asker]]] = {
    "random": ("", Random),
    OURS: ("", lambda space, seed: Ours(space, seed, metric=["loss", "other"], mode=["min", "min"])),
    "Optuna TPE": ("optuna", lambda space, seed: Optuna(space, seed, "TPESampler", 2)),
    "Optuna NSGA-II": ("optuna", lambda space, seed: Optuna(space, seed, "NSGAIISampler", 2)),
}
"""The searchers for two objectives, in the same form."""
LEARNERS: dict[str, type[TPESearch]] = {OURS: TPESearch, AUTO: AutoSearch}
"""The searchers that learn from earlier runs."""
IMPORTS = {OURS: "minitune.search.tpe", "Optuna TPE": "optuna", "HyperOpt TPE": "hyperopt"}
"""The module that a user of the searcher imports."""
