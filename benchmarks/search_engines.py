"""The searchers that are compared: objects with `ask() -> (token, configuration)` and `tell(token, value)`."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from search_tasks import Config, draw_at_random

from minitune.experiment.trial import EarlierRun
from minitune.search import AutoSearch, TPESearch
from minitune.space.domains import Categorical, Float, Integer, LogUniform
from minitune.space.parameters import Parameter, draw

OURS, AUTO = "minitune TPE", "minitune auto"
Asker = Any
"""See above."""


class Random:
    """Draws from the space."""

    def __init__(self, space: Mapping[str, Any], seed: int):
        self._space, self._rng = space, random.Random(seed)

    def ask(self) -> tuple[Any, Config]:
        return None, draw_at_random(self._space, self._rng)

    def tell(self, token: Any, value: float) -> None:
        pass


class Ours:
    """`TPESearch`, or another searcher of ours."""

    def __init__(self, space: Mapping[str, Any], seed: int, kind: type[TPESearch] = TPESearch, **kwargs: Any):
        self._searcher = kind(space, **{"metric": "loss", "mode": "min", **kwargs}, seed=seed)
        self._count = 0

    def ask(self) -> tuple[Any, Config]:
        self._count += 1
        suggestion = self._searcher.suggest(str(self._count))
        if not isinstance(suggestion, dict):
            raise RuntimeError(f"no configuration, but {suggestion!r}")
        return str(self._count), suggestion

    def tell(self, token: Any, value: float | tuple[float, float]) -> None:
        values = value if isinstance(value, tuple) else (value,)
        self._searcher.on_trial_complete(token, dict(zip(("loss", "other"), values, strict=False)))

    def learn_from(self, tried: Sequence[tuple[Config, float]]) -> Ours:
        """Learn from a run that was before; returns itself."""
        self._searcher.learn_from([EarlierRun("", [(dict(config), {"loss": value}) for config, value in tried])])
        return self


class Optuna:
    """A sampler of Optuna, with its defaults."""

    def __init__(self, space: Mapping[str, Any], seed: int, sampler: str = "TPESampler", objectives: int = 1):
        import optuna

        optuna.logging.set_verbosity(optuna.logging.ERROR)
        made = getattr(optuna.samplers, sampler)(seed=seed)
        self._space, self._study = space, optuna.create_study(directions=["minimize"] * objectives, sampler=made)

    def ask(self) -> tuple[Any, Config]:
        trial = self._study.ask()

        def choose(parameter: Parameter) -> Any:
            domain, name = parameter.domain, parameter.name
            if isinstance(domain, Categorical):
                return trial.suggest_categorical(name, list(range(len(domain))))
            is_log = isinstance(domain.sampler, LogUniform)
            if isinstance(domain, Float):
                return trial.suggest_float(name, domain.lower, domain.upper, log=is_log)
            step = int(getattr(domain.sampler, "q", 1))
            return trial.suggest_int(name, domain.lower, domain.upper - (step == 1), log=is_log, step=step)

        return trial, draw(self._space, choose)

    def tell(self, token: Any, value: float) -> None:
        self._study.tell(token, value)


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
        """A space in HyperOpt's terms, with the names of the parameters here."""
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
            step = int(getattr(tree.sampler, "q", 1))
            last = tree.upper - (step == 1)
            if isinstance(tree.sampler, LogUniform):
                return hp.qloguniform(name, math.log(tree.lower), math.log(last), 1)
            return hp.quniform(name, tree.lower, last, step)
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
}
"""By name: the package that is needed, and what makes one of (space, seed)."""
OF_TWO: dict[str, tuple[str, Callable[[Mapping[str, Any], int], Asker]]] = {
    "random": ("", Random),
    OURS: ("", lambda space, seed: Ours(space, seed, metric=["loss", "other"], mode=["min", "min"])),
    "Optuna TPE": ("optuna", lambda space, seed: Optuna(space, seed, "TPESampler", 2)),
    "Optuna NSGA-II": ("optuna", lambda space, seed: Optuna(space, seed, "NSGAIISampler", 2)),
}
"""Those for two objectives."""
LEARNERS: dict[str, type[TPESearch]] = {OURS: TPESearch, AUTO: AutoSearch}
"""Those that learn from earlier runs."""
IMPORTS = {OURS: "minitune.search.tpe", "Optuna TPE": "optuna", "HyperOpt TPE": "hyperopt"}
"""What is imported to get a searcher."""
