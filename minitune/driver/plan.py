"""The plan of a run: the user's trainables, spaces and configs, and the plug-ins in the state before their first run.

While `Tuner` and `run` load the rest of the package, the process that workers are forked from starts, so this module
imports little.

Users pass one searcher, scheduler or stopper, which keeps what it learns, to several runs. Each run gets it in the
state before its first run: the first run gets the object itself, later runs get copies. The record stores that state,
for a resume.
"""

from __future__ import annotations

import copy
import logging
import os
import sys
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from minitune import runtime
from minitune.actor.launcher import new_run_id, start_method
from minitune.base.settings import setting
from minitune.base.user_code import only_imports
from minitune.checkpoint import Checkpoint
from minitune.config import CheckpointConfig, FailureConfig, RunConfig
from minitune.driver.experiment_spec import Experiment, as_space
from minitune.error import TuneError
from minitune.experiment.goal import Goal
from minitune.resources import Resources
from minitune.stopper import CombinedStopper, Stopper
from minitune.tune_config import TuneConfig

if TYPE_CHECKING:
    from minitune.actor.zygote_process import ZygoteProcess
    from minitune.base.shared_values import Held
    from minitune.executors.trial_executor import TrialExecutor
    from minitune.record.run_files import RecordedTuner

logger = logging.getLogger("minitune")

NEEDED_BY_TRIALS = ("minitune.trainable.trial_actor",)
"""The modules that every worker needs, imported once where workers are forked."""

_Plugin = TypeVar("_Plugin")

_before: dict[int, Any] = {}
"""For each plug-in that a run has used, by `id()`: a copy from before, or the error of the copying."""


_wanted: Callable[[Plan], bool] | None = None
"""What `offering_plans` calls."""


class PlanFound(BaseException):
    """Ends the script whose plan is wanted: a `BaseException`, which `except Exception` does not catch."""

    def __init__(self, plan: Plan):
        super().__init__()
        self.plan = plan


@contextmanager
def offering_plans(is_wanted: Callable[[Plan], bool]) -> Iterator[None]:
    """In the `with` block, `is_wanted` is called with each plan that is about to run; True raises a `PlanFound`."""
    global _wanted
    _wanted = is_wanted
    try:
        yield
    finally:
        _wanted = None


def offer(plan: Plan) -> None:
    """Tell a command that runs a script that a plan is about to run; see `offering_plans`."""
    if _wanted is not None and _wanted(plan):
        raise PlanFound(plan)


@dataclass
class Plan:
    """An experiment and its configs.

    Attributes:
        zygote: The process that workers are forked from, until the executor takes it.
    """

    experiment: Experiment
    tune_config: TuneConfig
    run_config: RunConfig
    id_prefix: str | None = None
    raises: bool = False
    zygote: ZygoteProcess | None = None

    def __post_init__(self) -> None:
        # shallow copies: users may change their objects later
        self.experiment = copy.copy(self.experiment)
        self.tune_config = copy.copy(self.tune_config)
        self.run_config = copy.copy(self.run_config)
        if self.tune_config.warm_start is not None:
            from minitune.record.reading import read_earlier

            # The record keeps the trials that were read, so a resume does not need the earlier runs.
            self.tune_config.warm_start = read_earlier(self.tune_config.warm_start)

    @classmethod
    def of(
        cls,
        trainable: Any,
        param_space: Any,
        tune_config: TuneConfig,
        run_config: RunConfig,
        resources_per_trial: Mapping[str, Any] | Resources | None = None,
        restore: str | os.PathLike[str] | Checkpoint | None = None,
    ) -> Plan:
        """The plan of a trainable, its space and the configs."""
        failure = run_config.failure_config or FailureConfig()
        experiment = Experiment(
            run_config.name,
            trainable,
            stop=run_config.stop,
            time_budget_s=tune_config.time_budget_s,
            config=as_space(param_space),
            resources_per_trial=resources_per_trial,
            num_samples=tune_config.num_samples,
            storage_path=run_config.storage_path,
            checkpoint_config=run_config.checkpoint_config,
            trial_name_creator=tune_config.trial_name_creator,
            trial_dirname_creator=tune_config.trial_dirname_creator,
            log_to_file=run_config.log_to_file,
            max_failures=failure.max_failures,
            restore=restore,
        )
        return cls(experiment, tune_config, run_config)

    def bare_trainable(self) -> tuple[Any, bool]:
        """The trainable without the values that are bound to it, and whether there are any.

        Raises:
            TypeError: If such a value cannot be sent to workers, with the path to the offending member.
        """
        from minitune.trainable.util import bind_parameters

        bare = bind_parameters(self.experiment.trainable, _checked)
        return bare, bare is not self.experiment.trainable

    @property
    def goal(self) -> Goal:
        """The metrics and modes that the run optimises."""
        return Goal.of(self.tune_config.metric, self.tune_config.mode)

    @property
    def failure_config(self) -> FailureConfig:
        """The failure config, or the default one."""
        return self.run_config.failure_config or FailureConfig()

    @property
    def checkpoint_config(self) -> CheckpointConfig:
        """The checkpoint config, with all defaults."""
        return self.experiment.checkpoints()

    @property
    def executor(self) -> str | TrialExecutor:
        """The executor or its name. `MINITUNE_EXECUTOR` applies if the plan has the default."""
        choice: str | TrialExecutor = self.tune_config.executor
        return (setting("EXECUTOR") or runtime.default_executor() or choice) if choice == "local" else choice

    @contextmanager
    def start_ahead(self) -> Iterator[None]:
        """Start the process that workers are forked from, while the driver prepares the run.

        In the `with` block, `zygote` is that process, or None if it is not needed.

        Raises:
            TuneError: If this is Windows, or this process only imports the caller's module.
            ValueError: See `actor.launcher.start_method`.
        """
        if only_imports():
            raise TuneError(
                "this process only imports the module that calls fit() or run(), for a trial or a child of "
                "`multiprocessing`: here a run would start runs of its own. Put the call under "
                'if __name__ == "__main__":, and start the module as the script'
            )
        if sys.platform == "win32":
            raise TuneError(
                "minitune cannot run trials on Windows: it needs Linux or macOS. "
                "WSL is a Linux on your machine: run `wsl --install`, then install minitune and start the script there"
            )
        if self.executor == "local" and start_method() == "zygote":
            from minitune.actor.zygote_process import ZygoteProcess

            with suppress(OSError):  # the start of the first worker reports the error
                self.zygote = ZygoteProcess(new_run_id(), NEEDED_BY_TRIALS)
        try:
            yield
        finally:
            zygote = self.zygote
            self.zygote = None
            if zygote is not None:
                zygote.drop()

    def recorded(self) -> RecordedTuner:
        """The part that a resume needs, with plug-ins in the state before their first run."""
        from minitune.record.run_files import RecordedTuner

        tune = copy.copy(self.tune_config)
        tune.search_alg = before_any_run(tune.search_alg)
        tune.scheduler = before_any_run(tune.scheduler)
        run = copy.copy(self.run_config)
        run.stop = each_stopper(run.stop, before_any_run)
        experiment = self.experiment
        return RecordedTuner(experiment.trainable_name, experiment.param_space, tune, run)

    @property
    def is_silent(self) -> bool:
        """Whether the console shows no progress."""
        return not (self.verbose and self.run_config.progress)

    @property
    def verbose(self) -> int:
        """0, 1 or 2."""
        verbose = self.run_config.verbose
        return 1 if verbose is None else int(verbose)


# -- plug-ins before any run -----------------------------------------------------------------------------------------
def for_this_run(plugin: _Plugin) -> _Plugin:
    """The searcher, scheduler or stopper of a run: the object itself for its first run, a copy for each later one.

    Raises:
        ValueError: If it was used before and cannot be copied.
    """
    if id(plugin) not in _before:
        try:
            _before[id(plugin)] = copy.deepcopy(plugin)
        except Exception as error:  # a user's class may raise anything
            _before[id(plugin)] = error
        # by id, not in a weak dict: an object of a user's class may not be hashable
        weakref.finalize(plugin, _before.pop, id(plugin), None).atexit = False
        return plugin
    before = _before[id(plugin)]
    if isinstance(before, Exception):
        raise ValueError(
            f"this {type(plugin).__name__} was used by an earlier run and cannot be copied ({before}); make a new one"
        ) from before
    logger.info(
        "this %s was used by an earlier run; this run uses a copy of its state before that run", type(plugin).__name__
    )
    fresh: _Plugin = copy.deepcopy(before)
    return fresh


def before_any_run(plugin: Any) -> Any:
    """A plug-in before its first run; the object itself if it cannot be copied."""
    before = _before.get(id(plugin), plugin)
    return plugin if isinstance(before, Exception) else before


def each_stopper(stop: Any, function: Callable[[Stopper], Stopper]) -> Any:
    """The argument `stop` with what the function returns in the place of each stopper, also in lists."""
    if isinstance(stop, (list, tuple)):
        return [each_stopper(one, function) for one in stop]
    if type(stop) is CombinedStopper:
        return CombinedStopper(*(each_stopper(one, function) for one in stop.stoppers))
    return function(stop) if isinstance(stop, Stopper) else stop


def _checked(value: Any) -> Held:
    """A reference without a value, after checking that the value can be sent to workers."""
    from minitune.base.pickling import require_picklable
    from minitune.base.shared_values import Held

    require_picklable(value, "a value that is bound to the trainable")
    return Held("")
