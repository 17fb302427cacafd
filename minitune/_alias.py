"""One import finder: Ray's paths lead to the modules of this package.

`minitune.tune`, `.train` and `.air` are this package itself, so `minitune.tune.schedulers` *is* `minitune.schedulers`:
one module object, one class, whatever path it was imported by. A few modules have another name here than there.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from importlib.machinery import ModuleSpec


PACKAGE = "minitune"

NAMESPACES = ("tune", "train", "air")
"""Sub-packages of Ray that are all this package here."""

MOVED = {
    "air.constants": "minitune.result",
    "air.integrations": "minitune.integration",
    "air.integrations.*": "minitune.integration.*",
    "air.result": "minitune.result_grid",
    "cloudpickle": "cloudpickle",
    "exceptions": "minitune.error",
    "execution.placement_groups": "minitune.resources",
    "execution.trial_runner": "minitune.execution.tune_controller",
    "progress_reporter": "minitune.output.reporters",
    "schedulers.hb_bohb": "minitune.schedulers.hyperband",
    "search.concurrency_limiter": "minitune.search.wrappers",
    "search.hyperopt.*": "minitune.search.hyperopt",
    "search.nevergrad.*": "minitune.search.nevergrad",
    "search.optuna.*": "minitune.search.optuna",
    "search.repeater": "minitune.search.wrappers",
    "search.sample": "minitune.space.domains",
    "search.search_generator": "minitune.search.search_algorithm",
    "search.variant_generator": "minitune.space.variants",
    "session": "minitune.context",
    "stopper.experiment_plateau": "minitune.stopper.stopper",
    "stopper.function_stopper": "minitune.stopper.stopper",
    "stopper.maximum_iteration": "minitune.stopper.stopper",
    "stopper.noop": "minitune.stopper.stopper",
    "stopper.timeout": "minitune.stopper.stopper",
    "stopper.trial_plateau": "minitune.stopper.stopper",
    "syncer": "minitune.config",
    "trainable.function_trainable": "minitune.trainable.function_runner",
    "trainable.trainable_fn_utils": "minitune.trainable.session",
    "tune.tune": "minitune",
    "utils.placement_groups": "minitune.resources",
    "utils.util": "minitune.utils",
}
"""Paths below Ray's package, with or without its `tune`, `train` or `air`, and the module here that each leads to.

A row that ends with `.*` holds for all that is below that path. A star on the right stands for the rest of the path;
without one, all of them are that module, which is a package in Ray and a single file here.
"""

NOT_HERE = {
    "ScalingConfig": "distributed training is not part of it: start what a trial needs inside the trial",
    "actor": "actors are not part of it: use threads or processes inside a trial",
    "cancel": "tasks are not part of it: report done=True in the trial, or use a stopper",
    "data": "data sets are not part of it: pass values with with_parameters() or put()",
    "get_actor": "actors are not part of it: use threads or processes inside a trial",
    "get_dataset_shard": "data sets are not part of it: pass values with with_parameters()",
    "get_runtime_context": "use get_context() in a trial",
    "kill": "actors are not part of it: a trial ends when it reports done=True or a stopper says so",
    "method": "actors are not part of it: use threads or processes inside a trial",
    "nodes": "there is one machine: see cluster_resources()",
    "remote": "tasks and actors are not part of it: use concurrent.futures, or make it a trial of Tuner",
    "serve": "serving is not part of it",
    "timeline": "there is no timeline: see the run's progress.csv and result.json files",
    "wait": "tasks are not part of it: use concurrent.futures.wait",
}
"""Names of Ray that are missing on purpose, and what to do instead."""

_SUBCLASS = "subclass minitune.search.Searcher: suggest() and on_trial_complete() are enough to use its library"

_LOGGER = (
    "subclass minitune.logger.LoggerCallback: log_trial_start(), log_trial_result() and log_trial_end() are enough"
)

_ALONE = "distributed training is not part of it: train in the trial by the library itself, and report"

MODULES_NOT_HERE = {
    "integration.comet": _LOGGER,
    "integration.mlflow": _LOGGER,
    "integration.wandb": _LOGGER,
    "lightgbm": "use minitune.integration.lightgbm",
    "lightning": "use minitune.integration.pytorch_lightning",
    "logger.aim": _LOGGER,
    "rllib": "reinforcement learning is not part of it: make the training loop a trainable",
    "search.ax": _SUBCLASS,
    "search.bayesopt": f"use 'tpe', or {_SUBCLASS.removesuffix(' to use its library')}",
    "search.bohb": "use TPESearch together with the scheduler HyperBandForBOHB: they are that algorithm",
    "search.hebo": _SUBCLASS,
    "search.zoopt": _SUBCLASS,
    "tensorflow": _ALONE,
    "torch": _ALONE,
    "xgboost": "use minitune.integration.xgboost",
}
"""Modules of Ray, without its `tune`, `train` or `air`, that are missing on purpose, and what to do instead."""


_FILES_FOR_PACKAGES = {to for path, to in MOVED.items() if path.endswith(".*") and not to.endswith(".*")}


def real_name(name: str) -> str | None:
    """The module that an import path stands for.

    Args:
        name: A full module name.

    Returns:
        Its real name; None if `name` is no path of Ray's that differs from ours.
    """
    package, _, path = name.partition(".")
    if package != PACKAGE:
        return None
    head, _, rest = path.partition(".")
    if head not in NAMESPACES:
        return _moved(path)
    return _moved(path) or _moved(rest) or (f"{PACKAGE}.{rest}" if rest else PACKAGE)


def _moved(path: str) -> str | None:
    """Where the table leads from a path; the row of the path itself counts before one of a prefix."""
    real = MOVED.get(path)
    prefix, _, last = path.rpartition(".")
    if real is None and prefix:
        real = MOVED.get(f"{prefix}.*")
        real = real and real.replace("*", last)
    return real


class AliasFinder:
    """Finds modules under Ray's names. It is asked first: our directories would be found under any name of theirs."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The specification by which the import system makes `name` another name of a module; see `MetaPathFinder`."""
        real = real_name(name)
        if name in _FILES_FOR_PACKAGES:
            import importlib.machinery

            spec = importlib.machinery.PathFinder.find_spec(name, path, target)
            if spec is not None:
                spec.submodule_search_locations = []  # else the import system does not look for anything below it
            return spec
        if real is None:
            _refuse_missing(name)
            return None
        import importlib.machinery
        import importlib.util

        try:
            found = importlib.util.find_spec(real)
        except ModuleNotFoundError:  # a parent of it does not exist either
            _refuse_missing(real)
            return None
        if found is None:
            _refuse_missing(real)
            return None
        is_package = found.submodule_search_locations is not None
        loader: Any = AliasLoader(real)  # it is a Loader, but importlib.abc costs more than it tells
        return importlib.machinery.ModuleSpec(name, loader, origin=found.origin, is_package=is_package)


def _refuse_missing(name: str) -> None:
    """Say what to do instead of a module that is missing on purpose.

    Raises:
        ModuleNotFoundError: If `name` is one.
    """
    package, _, path = name.partition(".")
    instead = MODULES_NOT_HERE.get(path)
    if package == PACKAGE and instead is not None:
        raise ModuleNotFoundError(f"No module named {name!r}: {instead}", name=name)


class AliasLoader:
    """Hands the real module to the import system.

    Args:
        real: Its name.
    """

    def __init__(self, real: str):
        self._real = real
        self._kept: Any = None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """The real module, imported if need be."""
        module = importlib.import_module(self._real)
        self._kept = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Undo the only thing that the import system has changed in the module: who it is."""
        module.__spec__ = self._kept


def submodules(package: str, homes: Mapping[str, str] | None = None) -> Callable[[str], Any]:
    """A `__getattr__` for a package: what is below it can be reached without an import of its own.

    Args:
        package: The package's name.
        homes: Modules, relative to the package, of names that it has without having loaded them.
    """

    def load(name: str) -> Any:
        if homes and name in homes:
            return getattr(importlib.import_module(f"{package}.{homes[name]}"), name)
        if not name.startswith("_"):
            try:
                return importlib.import_module(f"{package}.{name}")
            except ModuleNotFoundError as error:
                if error.name != f"{package}.{name}":
                    raise
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    return load


def install() -> None:
    """Let the import system ask us first. Does nothing the second time."""
    if not any(isinstance(finder, AliasFinder) for finder in sys.meta_path):
        sys.meta_path.insert(0, AliasFinder())
