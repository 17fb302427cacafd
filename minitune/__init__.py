"""Hyperparameter tuning on one machine, with Ray Tune's programming model and without Ray.

A trial calls your function with one configuration. The function reports metrics, and `Tuner` runs the trials:

    import minitune as tune

    def train(config):
        for step in range(1, 11):
            tune.report({"loss": config["lr"] / step})

    tuner = tune.Tuner(
        train,
        param_space={"lr": tune.loguniform(1e-4, 1e-1)},
        tune_config=tune.TuneConfig(metric="loss", mode="min", num_samples=10),
    )
    print(tuner.fit().get_best_result().config)

- To run trials: `Tuner`, `TuneConfig`, `RunConfig`, `with_resources`, `with_parameters`.
- In a trial: `report`, `get_checkpoint`, `Checkpoint`, `get_context`.
- The space: `uniform`, `loguniform`, `randint`, `choice`, `grid_search` and others.
- The results: `ResultGrid`, `Result`, `ExperimentAnalysis`, and the plots of `minitune.visualization`.
- Schedulers stop bad trials: `minitune.schedulers`. Searchers choose configurations: `minitune.search`. Stoppers end
  trials and runs: `minitune.stopper`.
- Other libraries: `minitune.integration`, `minitune.sklearn`. Tests of trainings: `minitune.testing`.

`minitune help` shows the manual.
"""

from __future__ import annotations

import importlib
import os
from typing import TYPE_CHECKING, Any

from minitune.base import __version__, lazy

# A name is loaded when it is first used, so that `import minitune` is fast. The two lists below have the same content:
# type checkers read one, `__getattr__` reads the other.
if TYPE_CHECKING:
    from minitune.analysis import ExperimentAnalysis as ExperimentAnalysis
    from minitune.base.shared_values import ObjectRef as ObjectRef
    from minitune.checkpoint import Checkpoint as Checkpoint
    from minitune.config import CheckpointConfig as CheckpointConfig
    from minitune.config import FailureConfig as FailureConfig
    from minitune.config import ResumeConfig as ResumeConfig
    from minitune.config import RunConfig as RunConfig
    from minitune.config import ScalingConfig as ScalingConfig
    from minitune.config import SyncConfig as SyncConfig
    from minitune.driver.experiment_spec import Experiment as Experiment
    from minitune.driver.functions import run as run
    from minitune.driver.functions import run_experiments as run_experiments
    from minitune.error import TrialError as TrialError
    from minitune.error import TuneError as TuneError
    from minitune.experiment.callback import Callback as Callback
    from minitune.experiment.trial import Trial as Trial
    from minitune.logger import CSVLoggerCallback as CSVLoggerCallback
    from minitune.logger import JsonLoggerCallback as JsonLoggerCallback
    from minitune.logger import LoggerCallback as LoggerCallback
    from minitune.logger import TBXLoggerCallback as TBXLoggerCallback
    from minitune.output.live_reporter import CLIReporter as CLIReporter
    from minitune.output.live_reporter import JupyterNotebookReporter as JupyterNotebookReporter
    from minitune.output.reporters import ProgressReporter as ProgressReporter
    from minitune.resources import PlacementGroupFactory as PlacementGroupFactory
    from minitune.resources import Resources as Resources
    from minitune.result_grid import Result as Result
    from minitune.result_grid import ResultGrid as ResultGrid
    from minitune.runtime import available_resources as available_resources
    from minitune.runtime import cluster_resources as cluster_resources
    from minitune.runtime import get as get
    from minitune.runtime import init as init
    from minitune.runtime import is_initialized as is_initialized
    from minitune.runtime import nodes as nodes
    from minitune.runtime import put as put
    from minitune.runtime import shutdown as shutdown
    from minitune.schedulers import ASHAScheduler as ASHAScheduler
    from minitune.schedulers import AsyncHyperBandScheduler as AsyncHyperBandScheduler
    from minitune.schedulers import FIFOScheduler as FIFOScheduler
    from minitune.schedulers import TrialScheduler as TrialScheduler
    from minitune.schedulers import create_scheduler as create_scheduler
    from minitune.search import BasicVariantGenerator as BasicVariantGenerator
    from minitune.search import ConcurrencyLimiter as ConcurrencyLimiter
    from minitune.search import Repeater as Repeater
    from minitune.search import Searcher as Searcher
    from minitune.search import TPESearch as TPESearch
    from minitune.search import create_searcher as create_searcher
    from minitune.simulation import simulate as simulate
    from minitune.space.domains import choice as choice
    from minitune.space.domains import grid_search as grid_search
    from minitune.space.domains import lograndint as lograndint
    from minitune.space.domains import loguniform as loguniform
    from minitune.space.domains import qlograndint as qlograndint
    from minitune.space.domains import qloguniform as qloguniform
    from minitune.space.domains import qrandint as qrandint
    from minitune.space.domains import qrandn as qrandn
    from minitune.space.domains import quniform as quniform
    from minitune.space.domains import randint as randint
    from minitune.space.domains import randn as randn
    from minitune.space.domains import sample_from as sample_from
    from minitune.space.domains import uniform as uniform
    from minitune.stopper import Stopper as Stopper
    from minitune.study import Study as Study
    from minitune.trainable import Trainable as Trainable
    from minitune.trainable.context import TuneContext as TuneContext
    from minitune.trainable.context import get_context as get_context
    from minitune.trainable.context import get_gpu_ids as get_gpu_ids
    from minitune.trainable.context import get_trial_dir as get_trial_dir
    from minitune.trainable.context import get_trial_id as get_trial_id
    from minitune.trainable.context import get_trial_name as get_trial_name
    from minitune.trainable.context import get_trial_resources as get_trial_resources
    from minitune.trainable.registry import register_trainable as register_trainable
    from minitune.trainable.session import checkpoint_dir as checkpoint_dir
    from minitune.trainable.session import get_checkpoint as get_checkpoint
    from minitune.trainable.session import report as report
    from minitune.trainable.util import with_parameters as with_parameters
    from minitune.trainable.util import with_resources as with_resources
    from minitune.tune_config import TuneConfig as TuneConfig
    from minitune.tuner import Tuner as Tuner

_HOME = {
    "analysis": "ExperimentAnalysis",
    "base.shared_values": "ObjectRef",
    "checkpoint": "Checkpoint",
    "config": "CheckpointConfig FailureConfig ResumeConfig RunConfig ScalingConfig SyncConfig",
    "error": "TrialError TuneError",
    "driver.experiment_spec": "Experiment",
    "driver.functions": "run run_experiments",
    "experiment.callback": "Callback",
    "experiment.trial": "Trial",
    "logger": "CSVLoggerCallback JsonLoggerCallback LoggerCallback TBXLoggerCallback",
    "output.live_reporter": "CLIReporter JupyterNotebookReporter",
    "output.reporters": "ProgressReporter",
    "resources": "PlacementGroupFactory Resources",
    "result_grid": "Result ResultGrid",
    "runtime": "available_resources cluster_resources get init is_initialized nodes put shutdown",
    "schedulers": "ASHAScheduler AsyncHyperBandScheduler FIFOScheduler TrialScheduler create_scheduler",
    "search": "BasicVariantGenerator ConcurrencyLimiter Repeater Searcher TPESearch create_searcher",
    "simulation": "simulate",
    "space": "choice grid_search lograndint loguniform qlograndint qloguniform qrandint "
    "qrandn quniform randint randn sample_from uniform",
    "stopper": "Stopper",
    "study": "Study",
    "trainable": "Trainable",
    "trainable.context": "TuneContext get_context get_gpu_ids get_trial_dir get_trial_id get_trial_name "
    "get_trial_resources",
    "trainable.registry": "register_trainable",
    "trainable.session": "checkpoint_dir get_checkpoint report",
    "trainable.util": "with_parameters with_resources",
    "tune_config": "TuneConfig",
    "tuner": "Tuner",
}
"""For each module of this package, the public names that it defines."""

_MODULE_OF = {name: module for module, names in _HOME.items() for name in names.split()}

_MODULES = ("integration", "logger", "schedulers", "search", "stopper", "testing", "visualization")
"""The modules that users look for, for completion: it loads each, so none may need another library."""

_submodule = lazy.submodules(__name__)
lazy.install()

__all__ = ["__version__", *_MODULE_OF]

if os.environ.get("MINITUNE_AS_RAY") and importlib.import_module("minitune.base.settings").is_on("AS_RAY"):
    importlib.import_module("minitune.as_ray")


def __getattr__(name: str) -> Any:
    """Load a public name, or a sub-module, when it is first used."""
    module = _MODULE_OF.get(name)
    if module is not None:
        value = getattr(importlib.import_module(f"minitune.{module}"), name)
        globals()[name] = value  # the next access does not call this function
        return value
    return _submodule(name)


def __dir__() -> list[str]:
    """The public names, and the modules whose names users need."""
    return sorted([*__all__, *_MODULES])
