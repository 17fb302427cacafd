"""Ray's import paths and names, and where they lead here.

`minitune.tune`, `.train` and `.air` are this package itself, so `minitune.tune.schedulers` *is* `minitune.schedulers`.
Some modules have another name here than in Ray (`MOVED`). An alias is the same module object under a second name: a
copy would break `isinstance` and pickle. So `AliasLoader` gives the import system the real module, and undoes its
changes to it. A file that is imported by an alias gets an empty path, since Ray may have modules below it.

Importing a name of Ray that is left out (`NOT_HERE`) raises an error with the way out. Names of older versions
(`OLD_NAMES`) are in `minitune.ray.legacy`, loaded on first use.

`minitune.base.lazy` asks this module about names that Python does not find.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Mapping
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from minitune.base.lazy import PACKAGE, LeftOutError, submodules

_PREFIX = f"{PACKAGE}."

NAMESPACES = ("tune", "train", "air")
"""Ray's sub-packages, which are this package here."""

RAY = "ray"
"""The module that stands in for `ray`, with those of this package below it."""

MOVED = {
    "constants": "minitune.result",
    "air.result": "minitune.result_grid",
    "async_hyperband": "minitune.schedulers.async_hyperband",
    "base_trainer": "minitune.ray.trainers",
    "callback": "minitune.experiment.callback",
    "callbacks": "minitune.integration",
    "callbacks.*": "minitune.integration.*",
    "callbacks.comet": "minitune.contrib.comet",
    "cloudpickle": "cloudpickle",
    "context": "minitune.trainable.context",
    "data_parallel_trainer": "minitune.ray.trainers",
    "exceptions": "minitune.error",
    "execution": "minitune.driver",
    "execution.placement_groups": "minitune.resources",
    "execution.tune_controller": "minitune.driver.tune_controller",
    "experiment.experiment": "minitune.driver.experiment_spec",
    "experimental": "minitune.ray.legacy",
    "experimental.output": "minitune.ray.legacy.verbosity",
    "execution.trial_runner": "minitune.driver.tune_controller",
    "huggingface": "minitune.ray.trainers",
    "huggingface.transformers": "minitune.integration.transformers",
    "hyperband": "minitune.schedulers.hyperband",
    "hyperband_scheduler": "minitune.schedulers.hyperband",
    "integration.aim": "minitune.contrib.aim",
    "integration.comet": "minitune.contrib.comet",
    "integration.ray_train": "minitune.ray.in_trial",
    "integrations": "minitune.integration",
    "integrations.*": "minitune.integration.*",
    "lightgbm": "minitune.integration.lightgbm",
    "lightning": "minitune.ray.lightning",
    "logger.aim": "minitune.contrib.aim",
    "logger.comet": "minitune.contrib.comet",
    "logger.mlflow": "minitune.integration.mlflow",
    "logger.wandb": "minitune.integration.wandb",
    "median_stopping_rule": "minitune.schedulers.median_stopping_rule",
    "pbt": "minitune.schedulers.pbt",
    "progress_reporter": "minitune.output.live_reporter",
    "registry": "minitune.trainable.registry",
    "runtime_env": "minitune.ray.legacy.keywords",
    "sample": "minitune.space.domains",
    "scheduler": "minitune.schedulers",
    "schedulers.hb_bohb": "minitune.schedulers.hyperband",
    "search.ax": "minitune.contrib.ax",
    "search.ax.ax_search": "minitune.contrib.ax",
    "search.bayesopt": "minitune.contrib.bayesopt",
    "search.bayesopt.bayesopt_search": "minitune.contrib.bayesopt",
    "search.bohb.bohb_search": "minitune.search.bohb",
    "search.concurrency_limiter": "minitune.search.wrappers",
    "search.hyperopt": "minitune.contrib.hyperopt",
    "search.hyperopt.hyperopt_search": "minitune.contrib.hyperopt",
    "search.nevergrad": "minitune.contrib.nevergrad",
    "search.nevergrad.nevergrad_search": "minitune.contrib.nevergrad",
    "search.optuna.optuna_search": "minitune.search.optuna",
    "search.repeater": "minitune.search.wrappers",
    "search.sample": "minitune.space.domains",
    "search.search_generator": "minitune.search.search_algorithm",
    "search.suggestion": "minitune.search",
    "search.variant_generator": "minitune.space.variants",
    "services": "minitune.ray.legacy.util",
    "session": "minitune.trainable.context",
    "stopper.experiment_plateau": "minitune.stopper.stopper",
    "stopper.function_stopper": "minitune.stopper.stopper",
    "stopper.maximum_iteration": "minitune.stopper.stopper",
    "stopper.noop": "minitune.stopper.stopper",
    "stopper.timeout": "minitune.stopper.stopper",
    "stopper.trial_plateau": "minitune.stopper.stopper",
    "syncer": "minitune.config",
    "tensorflow": "minitune.ray.trainers",
    "tensorflow.keras": "minitune.integration.keras",
    "torch": "minitune.ray.trainers",
    "torch.config": "minitune.ray.trainers",
    "torch.torch_trainer": "minitune.ray.trainers",
    "torch.torch_checkpoint": "minitune.ray.legacy.model_checkpoints",
    "trial": "minitune.experiment.trial",
    "trial_runner": "minitune.driver.tune_controller",
    "trial_scheduler": "minitune.schedulers.trial_scheduler",
    "trainable.trainable_fn_utils": "minitune.trainable.session",
    "tune.tune": "minitune",
    "tune.util": "minitune.utils",
    "util": "minitune.ray.legacy.util",
    "util.annotations": "minitune.ray.legacy.annotations",
    "util.debug": "minitune.ray.legacy.util",
    "v2": "minitune.ray.trainers",
    "v2.api": "minitune.ray.trainers",
    "v2.api.config": "minitune.config",
    "v2.api.data_parallel_trainer": "minitune.ray.trainers",
    "v2.api.exceptions": "minitune.ray.legacy.train",
    "v2.api.report_config": "minitune.ray.legacy.train",
    "variant_generator": "minitune.space.variants",
    "xgboost": "minitune.integration.xgboost",
    "utils.log": "minitune.ray.legacy.verbosity",
    "utils.placement_groups": "minitune.resources",
    "utils.util": "minitune.utils",
}
"""Ray's path of a module, which may begin with `tune`, `train` or `air`, and its path here. What is in `contrib` has
its public path in the same way.

In a row `a.*`, both stars stand for the name of a module directly below `a`.
"""


OLD_NAMES = {
    "minitune": {
        "CheckpointUploadMode": "legacy.train",
        "ControllerError": "legacy.train",
        "TrainingFailedError": "legacy.train",
        "TrainingResult": "legacy.trainables",
        "WorkerGroupError": "legacy.train",
        "function": "legacy.keywords",
        "is_session_enabled": "legacy.trainables",
    },
    "minitune.experiment.trial": dict.fromkeys(("ExportFormat", "date_str"), "legacy.trainables"),
    "minitune.space.domains": {"_BackwardsCompatibleNumpyRng": "legacy.random_state"},
    "minitune.integration.lightgbm": {
        "LightGBMCheckpoint": "legacy.model_checkpoints",
        "LightGBMTrainer": "trainers",
    },
    "minitune.integration.xgboost": {
        "XGBoostCheckpoint": "legacy.model_checkpoints",
        "XGBoostTrainer": "trainers",
    },
    "minitune.ray.trainers": dict.fromkeys(("TensorflowCheckpoint", "TorchCheckpoint"), "legacy.model_checkpoints"),
    "minitune.result": {"DEFAULT_RESULTS_DIR": "legacy.keywords"},
}
"""For each module, names that only scripts for Ray use, and the module of `minitune.ray` that defines them."""

_NO_RL = "minitune has no reinforcement learning: make environment, input and training loop in the trainable"
_NO_TASKS = "minitune has no tasks and actors"
_NO_DATA = "minitune has no data sets: pass values with with_parameters() or put()"
_NO_SYNC = "minitune synchronises no files: mount the storage and pass its path"
_INTERNAL = "it is internal to Ray"
_SUBCLASS = "to use its library, write a minitune.search.Searcher with suggest() and on_trial_complete()"
_COPY = "copy the helpers that you need into your script"
_ALONE = "minitune has no distributed training: call the training library inside the trial, and report"
_PREDICT = "load the model from the checkpoint, and call it"
_FILES = "save the model into a directory, and report(..., checkpoint=Checkpoint(directory))"
_EXPLORE = "pass custom_explore_fn to PopulationBasedTraining, or write a TrialScheduler"
_EXECUTOR = "choose where trials run with TuneConfig(executor=...)"
_RESOURCES = "a trial keeps its resources: give each trial what it needs with with_resources()"
_FUNCTION = "a function is a trainable as it is: pass it to a Tuner, or to register_trainable()"
_CHECKPOINTS = "a checkpoint is a directory: see Result.checkpoint and Result.best_checkpoints"
_LOGGERS = "result.json and progress.csv are always written; pass a LoggerCallback of your own in callbacks"
_RESULTS = "use ExperimentAnalysis"
_WANDB = "pass WandbLoggerCallback(...) in callbacks, or call setup_wandb(config) in the trial"
_MLFLOW = "pass MLflowLoggerCallback(...) in callbacks, or call setup_mlflow(config) in the trial"

NOT_HERE = {
    "Analysis": _RESULTS,
    "DataConfig": _NO_DATA,
    "DurableTrainable": _NO_SYNC,
    "_Config": "pass a dict as param_space",
    "_internal": _INTERNAL,
    "_make_scheduler": "use create_scheduler()",
    "_private": f"{_INTERNAL}; get_node_ip_address() is in ray.util",
    "actor.ActorHandle": _NO_TASKS,
    "air.util": _NO_DATA,
    "analysis.Analysis": _RESULTS,
    "batch_predictor": _ALONE,
    "cluster_utils": "minitune uses one machine and no cluster",
    "config.DatasetConfig": _NO_DATA,
    "config_parser": "it served RLlib's command line: use argparse",
    "constants.MODEL_KEY": _ALONE,
    "constants.PREPROCESSOR_KEY": _NO_DATA,
    "data": _NO_DATA,
    "durable": _NO_SYNC,
    "durable_trainable": _NO_SYNC,
    "examples.mnist_pytorch": _COPY,
    "examples.pbt_function": _COPY,
    "examples.utils": _COPY,
    "exceptions.GetTimeoutError": _NO_TASKS,
    "exceptions.RayTimeoutError": _NO_TASKS,
    "exceptions.TaskCancelledError": _NO_TASKS,
    "execution.ray_trial_executor": _EXECUTOR,
    "function_runner": _FUNCTION,
    "get_actor": f"{_NO_TASKS}: use threads or processes inside a trial",
    "get_dataset_shard": _NO_DATA,
    "get_runtime_context": "use get_context() in a trial",
    "horovod": _ALONE,
    "huggingface.TransformersCheckpoint": _FILES,
    "impl": _INTERNAL,
    "integration.mlflow.MLflowTrainableMixin": _MLFLOW,
    "integration.mlflow.mlflow_mixin": _MLFLOW,
    "integration.mxnet": "call report() in a callback of your own",
    "integration.torch": _ALONE,
    "integration.wandb.WandbLogger": _WANDB,
    "integration.wandb.WandbTrainableMixin": _WANDB,
    "integration.wandb.wandb_mixin": _WANDB,
    "kill": f"{_NO_TASKS}: a trial ends when it reports done=True or a stopper says so",
    "logger.CSVLogger": _LOGGERS,
    "logger.DEFAULT_LOGGERS": _LOGGERS,
    "logger.JsonLogger": _LOGGERS,
    "logger.LegacyLoggerCallback": _LOGGERS,
    "logger.Logger": _LOGGERS,
    "logger.MLFLowLogger": _MLFLOW,
    "logger.NoopLogger": _LOGGERS,
    "logger.TBXLogger": _LOGGERS,
    "logger.UnifiedLogger": _LOGGERS,
    "make_checkpoint_dir": _FILES,
    "method": f"{_NO_TASKS}: use threads or processes inside a trial",
    "mosaic": _ALONE,
    "predictor": _PREDICT,
    "progress_reporter.TrialProgressCallback": "subclass ProgressReporter or Callback",
    "ray_trial_executor": _EXECUTOR,
    "register_env": _NO_RL,
    "registry.is_function_trainable": "a class is a Trainable, all else is a function",
    "registry.register_env": _NO_RL,
    "registry.register_input": _NO_RL,
    "remote": f"{_NO_TASKS}: use concurrent.futures, or make it a trial of Tuner",
    "rllib": _NO_RL,
    "save_checkpoint": "use report(..., checkpoint=Checkpoint(directory))",
    "schedulers.ResourceChangingScheduler": _RESOURCES,
    "schedulers.SCHEDULER_IMPORT": "use create_scheduler()",
    "schedulers.pbt._PBTTrialState": _EXPLORE,
    "schedulers.pbt._explore": _EXPLORE,
    "schedulers.pbt._fill_config": _EXPLORE,
    "schedulers.pbt.explore": _EXPLORE,
    "schedulers.pbt.make_experiment_tag": _EXPLORE,
    "schedulers.resource_changing_scheduler": _RESOURCES,
    "search.SEARCH_ALG_IMPORT": "use create_searcher()",
    "search.SkOptSearch": _SUBCLASS,
    "search.dragonfly": _SUBCLASS,
    "search.flaml": _SUBCLASS,
    "search.hebo": _SUBCLASS,
    "search.sigopt": _SUBCLASS,
    "search.skopt": _SUBCLASS,
    "search.suggestion.SuggestionAlgorithm": _SUBCLASS,
    "search.zoopt": _SUBCLASS,
    "serve": "minitune does not serve models",
    "session.get_dataset_shard": _NO_DATA,
    "sync_client": _NO_SYNC,
    "syncer.NodeSyncer": _NO_SYNC,
    "syncer.Syncer": _NO_SYNC,
    "syncer.wait_for_sync": _NO_SYNC,
    "tensorflow.TensorflowPredictor": _PREDICT,
    "torch.TorchPredictor": _PREDICT,
    "track": "use report({...}) for log(...), and get_context() for the trial's id, name and directory",
    "trainable.FunctionTrainable": _FUNCTION,
    "trainable.TrainableUtil": _CHECKPOINTS,
    "trainable.function_trainable": _FUNCTION,
    "trainable.util.TrainableUtil": _CHECKPOINTS,
    "trainable.wrap_function": _FUNCTION,
    "trainer": "write a loop for DataParallelTrainer",
    "tune.util.get_pinned_object": "use minitune.get()",
    "tune.util.pin_in_object_store": "use minitune.put()",
    "util": f"{_NO_TASKS}: use joblib, queue or multiprocessing",
    "util.inspect_serializability": "use minitune.utils.diagnose_serialization()",
    "utils.mock": "minitune.testing has helpers for tests",
    "utils.mock_trainable": "write a Trainable of your own",
    "utils.serialization": "read a run with ExperimentAnalysis or Tuner.restore().get_results()",
    "utils.util.SafeFallbackEncoder": "use json.dumps(value, default=str)",
    "utils.wait_for_gpu": "ask nvidia-smi in the trial, and sleep",
    "wait": "minitune has no tasks: use concurrent.futures.wait",
    "workflow": _NO_TASKS,
}
"""Names and modules of Ray that public scripts import and this package leaves out, and what to do instead.

They have no `tune`, `train` or `air` at the front, but for `air.util` and `tune.util`. A row also applies to all names
below it. Of any other name, Python itself says that the module of minitune has none.
"""


def _here(path: str) -> str:
    """The path below this package of what Ray has at `path`, if it or its parent is a row of `MOVED`."""
    parent, _, name = path.rpartition(".")
    if path in MOVED:
        return MOVED[path].removeprefix(_PREFIX)
    if parent in MOVED:
        return f"{MOVED[parent].removeprefix(_PREFIX)}.{name}"
    return path


def _by_names_here(rows: Mapping[str, str]) -> dict[str, str]:
    """Rows by Ray's paths, and by paths with the parent's name here, which the import system knows."""
    found = dict(rows)
    for path, value in rows.items():
        parent, _, name = path.rpartition(".")
        here = f"{_here(parent)}.{name}"
        if parent in MOVED and name != "*" and value != _PREFIX + here:
            found[here] = value
    return found


_MOVED = _by_names_here(MOVED)
_NOT_HERE = {**_by_names_here(NOT_HERE), **{_here(path): instead for path, instead in NOT_HERE.items()}}


def real_name(name: str) -> str | None:
    """The real name of an aliased module of this package; None if `name` is no alias."""
    path = name.removeprefix(_PREFIX)
    head, _, rest = path.partition(".")
    if head == RAY and rest:
        return _moved(path) or real_name(f"{_PREFIX}{rest}") or f"{_PREFIX}{rest}"
    if head not in NAMESPACES:
        return _moved(path)
    return _moved(path) or _moved(rest) or (f"{PACKAGE}.{rest}" if rest else PACKAGE)


def _moved(path: str) -> str | None:
    """Look up a path in `MOVED`: first its own row, then its parent's row with a star."""
    head, dot, rest = path.partition(".")
    if head == "suggest":  # the name of `search` before Ray 2
        path = f"search{dot}{rest}"
        return _moved(path) or f"{PACKAGE}.{path}"
    real = _MOVED.get(path)
    prefix, _, last = path.rpartition(".")
    if real is None and prefix:
        real = _MOVED.get(f"{prefix}.*")
        real = real and real.replace("*", last)
    return real


def find(name: str) -> ModuleSpec | None:
    """The spec that makes `name`, below `minitune` or `ray`, an alias of a module; None if Ray has no such name.

    Raises:
        LeftOutError: If `NOT_HERE` says what to do instead.
    """
    inner = name
    if not name.startswith(_PREFIX):
        inner = _PREFIX + name
    real = real_name(inner)
    if real is not None:
        try:
            found = importlib.util.find_spec(real)
        except ModuleNotFoundError:  # its parent does not exist either
            found = None
        if found is not None:
            # AliasLoader is not derived from Loader: importlib.abc takes longer to import than this module.
            loader: Any = AliasLoader(real)
            is_package = found.submodule_search_locations is not None
            return ModuleSpec(name, loader, origin=found.origin, is_package=is_package)
    instead = left_out(inner) or left_out(real or inner)
    if instead is not None:
        named = name if inner != name else real or name
        raise LeftOutError(f"No module named {named!r}: {instead}", instead)
    return None


def old(module: str, name: str) -> Any:
    """The value of a name that `OLD_NAMES` has for a module."""
    return getattr(importlib.import_module(f"{__package__}.{OLD_NAMES[module][name]}"), name)


def left_out(name: str) -> str | None:
    """What to do instead of using a left-out name, in the imperative; None if it is none."""
    here = name.removeprefix(_PREFIX)
    whole = here.removeprefix(f"{RAY}.")
    head, _, rest = whole.partition(".")
    for path in (here, whole, rest if head in NAMESPACES else ""):
        while path:
            if path in _NOT_HERE:
                return _NOT_HERE[path]
            path = path.rpartition(".")[0]
    return None


class AliasLoader:
    """Gives the import system the real module for an alias."""

    def __init__(self, real: str):
        self._real = real
        self._spec: Any = None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """The real module, imported if necessary."""
        module = importlib.import_module(self._real)
        self._spec = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Restore the module's own `__spec__`, which the import system has replaced, and let it have names below it."""
        module.__spec__ = self._spec
        if module.__name__.startswith(PACKAGE):
            attributes = vars(module)
            attributes.setdefault("__path__", [])
            attributes.setdefault("__getattr__", submodules(module.__name__))
