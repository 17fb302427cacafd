"""One import finder that maps Ray's import paths to the modules of this package.

`minitune.tune`, `.train` and `.air` are this package itself, so `minitune.tune.schedulers` *is* `minitune.schedulers`.
Some modules have another name here than in Ray (`MOVED`). An alias is the same module object under a second name, never
a copy. A copy would define each class twice, which breaks `isinstance` and pickle. So the finder gives the import
system the real module, and undoes the changes that the import system then makes to it.

Importing a name that Ray has and this package leaves out (`NOT_HERE`) raises an error that says what to do instead.
Names of older Ray versions (`OLD_NAMES`, and rows of `MOVED`) are in `minitune.legacy`, which is loaded on first use.

Every `import minitune` loads this module, so it imports very little.
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
_PREFIX = f"{PACKAGE}."

NAMESPACES = ("tune", "train", "air")
"""Ray's sub-packages. Here, each of these names is this package."""

RAY = "ray"
"""The module that stands in for `ray` itself. The modules below it are those below this package."""

MOVED = {
    "air.constants": "minitune.result",
    "air.integrations": "minitune.integration",
    "air.integrations.*": "minitune.integration.*",
    "air.result": "minitune.result_grid",
    "async_hyperband": "minitune.schedulers.async_hyperband",
    "cloudpickle": "cloudpickle",
    "examples.mnist_pytorch": "minitune.legacy.mnist_pytorch",
    "exceptions": "minitune.error",
    "execution": "minitune.driver",
    "execution.placement_groups": "minitune.resources",
    "execution.tune_controller": "minitune.driver.tune_controller",
    "experiment.experiment": "minitune.driver.experiment",
    "experimental": "minitune.legacy",
    "experimental.output": "minitune.legacy.verbosity",
    "execution.trial_runner": "minitune.driver.tune_controller",
    "hyperband": "minitune.schedulers.hyperband",
    "hyperband_scheduler": "minitune.schedulers.hyperband",
    "logger.aim": "minitune.integration.aim",
    "logger.comet": "minitune.integration.comet",
    "logger.mlflow": "minitune.integration.mlflow",
    "logger.wandb": "minitune.integration.wandb",
    "median_stopping_rule": "minitune.schedulers.median_stopping_rule",
    "pbt": "minitune.schedulers.pbt",
    "progress_reporter": "minitune.output.reporters",
    "runtime_env": "minitune.legacy.keywords",
    "sample": "minitune.space.domains",
    "scheduler": "minitune.schedulers",
    "schedulers.hb_bohb": "minitune.schedulers.hyperband",
    "search.ax.*": "minitune.search.ax",
    "search.bayesopt.*": "minitune.search.bayesopt",
    "search.bohb.*": "minitune.search.bohb",
    "search.concurrency_limiter": "minitune.search.wrappers",
    "search.hyperopt.*": "minitune.search.hyperopt",
    "search.nevergrad.*": "minitune.search.nevergrad",
    "search.optuna.*": "minitune.search.optuna",
    "search.repeater": "minitune.search.wrappers",
    "search.sample": "minitune.space.domains",
    "search.search_generator": "minitune.search.search_algorithm",
    "search.study": "minitune.study",
    "search.suggestion": "minitune.search",
    "search.variant_generator": "minitune.space.variants",
    "session": "minitune.context",
    "stopper.experiment_plateau": "minitune.stopper.stopper",
    "stopper.function_stopper": "minitune.stopper.stopper",
    "stopper.maximum_iteration": "minitune.stopper.stopper",
    "stopper.noop": "minitune.stopper.stopper",
    "stopper.timeout": "minitune.stopper.stopper",
    "stopper.trial_plateau": "minitune.stopper.stopper",
    "syncer": "minitune.config",
    "torch": "minitune.legacy.torch_checkpoint",
    "torch.torch_checkpoint": "minitune.legacy.torch_checkpoint",
    "track": "minitune.legacy.track",
    "trial": "minitune.experiment.trial",
    "trial_runner": "minitune.driver.tune_controller",
    "trial_scheduler": "minitune.schedulers.trial_scheduler",
    "trainable.function_trainable": "minitune.trainable.function_runner",
    "trainable.trainable_fn_utils": "minitune.trainable.session",
    "tune.tune": "minitune",
    "tune.util": "minitune.utils",
    "variant_generator": "minitune.space.variants",
    "utils.log": "minitune.legacy.verbosity",
    "utils.placement_groups": "minitune.resources",
    "utils.util": "minitune.utils",
}
"""Ray's path of a module, and its path here. A path may begin with `tune`, `train` or `air`.

A row `a.*` applies to each module directly below `a`. A star on the right is replaced by that module's name. Without a
star on the right, `a` is a package in Ray and one file here, and all modules below it are aliases of that file.
"""

_FILES_FOR_PACKAGES = {real for path, real in MOVED.items() if path.endswith(".*") and not real.endswith(".*")} | {
    "minitune.legacy.torch_checkpoint",
    "minitune.ray",
    "minitune.registry",
}
"""Files here that must look like packages.

Some are packages in Ray, so the modules below them must be found. The others lack a name that `NOT_HERE` has: the
import system asks this finder for a missing name only if the module is a package, and the finder says what to do.
"""

OLD_NAMES = {
    "minitune": {
        "Analysis": "analysis",
        "TrainingResult": "trainables",
        "checkpoint_dir": "trainables",
        "DurableTrainable": "keywords",
        "durable": "keywords",
        "function": "keywords",
        "is_session_enabled": "trainables",
    },
    "minitune.integration.wandb": {"WandbLogger": "wandb"},
    "minitune.experiment.trial": {"ExportFormat": "trainables"},
    "minitune.logger": dict.fromkeys(
        ("CSVLogger", "DEFAULT_LOGGERS", "JsonLogger", "LegacyLoggerCallback", "Logger", "NoopLogger", "TBXLogger"),
        "loggers",
    ),
    "minitune.utils": {"get_pinned_object": "keywords", "pin_in_object_store": "keywords"},
    "minitune.result": {"DEFAULT_RESULTS_DIR": "keywords"},
    "minitune.resources": {"json_to_resources": "keywords", "resources_to_json": "keywords"},
}
"""For each module, names that later versions of Ray dropped, and the module of `minitune.legacy` that defines them."""

_NO_TASKS = "minitune has no tasks and actors"
_NO_DATA = "minitune has no data sets: pass values with with_parameters() or put()"
_NO_CLUSTER = "minitune uses one machine and no cluster"
_SUBCLASS = "to use its library, write a minitune.search.Searcher with suggest() and on_trial_complete()"
_COPY = "copy the helpers that you need into your script"
_ALONE = "minitune has no distributed training: call the training library inside the trial, and report"

NOT_HERE = {
    "RayTaskError": "there is no such error: an error of a trial is in Result.error",
    "ScalingConfig": "minitune has no distributed training: start what a trial needs inside the trial",
    "_internal": "it is internal to Ray",
    "_make_scheduler": "use create_scheduler()",
    "_private": "it is internal to Ray",
    "automl": "give a dict of domains as the space, and search_alg='auto'",
    "cancel": "minitune has no tasks: report done=True in the trial, or use a stopper",
    "cluster_utils": _NO_CLUSTER,
    "config_parser": "it served RLlib's command line: use argparse",
    "data": _NO_DATA,
    "examples.mnist_ptl_mini": _COPY,
    "examples.pbt_dcgan_mnist": _COPY,
    "examples.pbt_function": _COPY,
    "examples.pbt_transformers": _COPY,
    "examples.utils": _COPY,
    "get_actor": f"{_NO_TASKS}: use threads or processes inside a trial",
    "get_dataset_shard": "minitune has no data sets: pass values with with_parameters()",
    "get_runtime_context": "use get_context() in a trial",
    "integration.horovod": _ALONE,
    "integration.mxnet": "call report() in a callback of your own",
    "integration.tensorflow": _ALONE,
    "integration.torch": _ALONE,
    "kill": f"{_NO_TASKS}: a trial ends when it reports done=True or a stopper says so",
    "legacy.torch_checkpoint": _ALONE,
    "lightgbm": "use minitune.integration.lightgbm",
    "lightning": "use minitune.integration.pytorch_lightning",
    "logger.MLFLowLogger": "pass MLflowLoggerCallback(...) in callbacks",
    "method": f"{_NO_TASKS}: use threads or processes inside a trial",
    "registry.register_input": "minitune has no reinforcement learning: read the input in the trainable",
    "remote": f"{_NO_TASKS}: use concurrent.futures, or make it a trial of Tuner",
    "rllib": "minitune has no reinforcement learning: make the training loop a trainable",
    "search.dragonfly": _SUBCLASS,
    "search.SigOptSearch": _SUBCLASS,
    "search.SkOptSearch": _SUBCLASS,
    "search.flaml": _SUBCLASS,
    "search.hebo": _SUBCLASS,
    "search.sigopt": _SUBCLASS,
    "search.skopt": _SUBCLASS,
    "search.zoopt": _SUBCLASS,
    "sync_client": "minitune synchronises no files: mount the storage and pass its path",
    "serve": "minitune does not serve models",
    "sklearn.TuneGridSearchCV": "use TuneSearchCV with lists and n_iter, or scikit-learn's GridSearchCV",
    "tensorflow": _ALONE,
    "torch": _ALONE,
    "timeline": "there is no timeline: see the run's progress.csv and result.json files",
    "util": f"{_NO_TASKS}: use joblib, queue or multiprocessing",
    "wait": "minitune has no tasks: use concurrent.futures.wait",
    "workflow": _NO_TASKS,
    "xgboost": "use minitune.integration.xgboost",
}
"""Names and modules of Ray that this package leaves out on purpose, and what to do instead.

The names have no `tune`, `train` or `air` at the front. A row also applies to all names below it.
"""


def real_name(name: str) -> str | None:
    """The real name of an aliased module.

    Args:
        name: The full name of a module below this package.

    Returns:
        The module's real name; None if `name` is not an alias.
    """
    path = name.removeprefix(_PREFIX)
    head, _, rest = path.partition(".")
    if head == RAY and rest:
        return real_name(f"{_PREFIX}{rest}") or f"{_PREFIX}{rest}"
    if head not in NAMESPACES:
        return _moved(path)
    return _moved(path) or _moved(rest) or (f"{PACKAGE}.{rest}" if rest else PACKAGE)


def _moved(path: str) -> str | None:
    """Look up a path in `MOVED`: first its own row, then its parent's row with a star."""
    head, dot, rest = path.partition(".")
    if head == "suggest":  # the name of `search` before Ray 2
        path = f"search{dot}{rest}"
        return _moved(path) or f"{PACKAGE}.{path}"
    real = MOVED.get(path)
    prefix, _, last = path.rpartition(".")
    if real is None and prefix:
        real = MOVED.get(f"{prefix}.*")
        real = real and real.replace("*", last)
    return real


class AliasFinder:
    """Finds modules under Ray's names. It must be the first finder.

    `minitune.tune` has this package's `__path__`. Python's own finder would look there for `minitune.tune.schedulers`,
    find the directory `schedulers`, and load it a second time under that name.
    """

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The spec that makes `name` an alias of a module; see `importlib.abc.MetaPathFinder`.

        Raises:
            LeftOutError: If Ray has the module and `NOT_HERE` says what to do instead.
        """
        if not name.startswith(_PREFIX):
            return None
        if name in _FILES_FOR_PACKAGES:
            import importlib.machinery

            spec = importlib.machinery.PathFinder.find_spec(name, path, target)
            if spec is not None:
                spec.submodule_search_locations = []  # makes it look like a package
            return spec
        real = real_name(name)
        if real is not None:
            import importlib.machinery
            import importlib.util

            try:
                found = importlib.util.find_spec(real)
            except ModuleNotFoundError:  # its parent does not exist either
                found = None
            if found is not None:
                # AliasLoader is not derived from Loader: importing importlib.abc would slow down every program.
                loader: Any = AliasLoader(real)
                is_package = found.submodule_search_locations is not None
                return importlib.machinery.ModuleSpec(name, loader, origin=found.origin, is_package=is_package)
        instead = left_out(real or name)
        if instead is not None:
            raise LeftOutError(f"No module named {real or name!r}: {instead}")
        return None


class LeftOutError(ModuleNotFoundError):
    """Ray has this name, but this package leaves it out. The text says what to do instead.

    `name` is None. With a name, `from minitune import rllib` would replace this text by Python's own text.
    """


def left_out(name: str) -> str | None:
    """What to do instead of using a name of Ray that this package leaves out.

    Args:
        name: The full name of a module below this package, or of a name in one.

    Returns:
        A phrase in the imperative; None if `name` is not in `NOT_HERE`.
    """
    path = name.removeprefix(_PREFIX)
    head, _, rest = path.partition(".")
    path = rest if head in (*NAMESPACES, RAY) else path
    while path:
        if path in NOT_HERE:
            return NOT_HERE[path]
        path = path.rpartition(".")[0]
    return None


class AliasLoader:
    """Gives the import system the real module for an alias.

    Args:
        real: The module's real name.
    """

    def __init__(self, real: str):
        self._real = real
        self._spec: Any = None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """The real module, imported if necessary."""
        module = importlib.import_module(self._real)
        self._spec = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Restore the module's own `__spec__`. The import system has replaced it by the alias's, and nothing else."""
        module.__spec__ = self._spec


def submodules(package: str, homes: Mapping[str, str] | None = None) -> Callable[[str], Any]:
    """A `__getattr__` for a package, so that `package.module` works without an import of the module.

    Args:
        package: The package's name.
        homes: Names that the package loads on first use, each with the module below the package that defines it.
    """

    def load(name: str) -> Any:
        if homes and name in homes:
            return getattr(importlib.import_module(f"{package}.{homes[name]}"), name)
        old = OLD_NAMES.get(package, {}).get(name)
        if old is not None:
            return getattr(importlib.import_module(f"{PACKAGE}.legacy.{old}"), name)
        path = f"{package}.{name}"
        instead = left_out(path) if real_name(path) is None else None
        if instead is None and not name.startswith("_"):
            try:
                return importlib.import_module(path)
            except ModuleNotFoundError as error:
                if error.name != path:
                    raise
        raise AttributeError(f"module {package!r} has no attribute {name!r}" + (f": {instead}" if instead else ""))

    return load


def listing(names: Sequence[str]) -> Callable[[], list[str]]:
    """A `__dir__` for a package: its public names, also those that are not loaded yet. Editors complete from it."""
    return lambda: sorted(names)


def install() -> None:
    """Install this finder as the first one of the import system. A second call does nothing."""
    if not any(isinstance(finder, AliasFinder) for finder in sys.meta_path):
        sys.meta_path.insert(0, AliasFinder())
