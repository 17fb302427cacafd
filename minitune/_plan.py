"""Plan: what is to be run. What starts a run needs it before all else, so it loads little."""

from __future__ import annotations

import copy
import os
import sys
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from minitune import runtime
from minitune._checks import require_texts
from minitune._pristine import before_any_run
from minitune._warnings import warn_once
from minitune.config import CheckpointConfig, FailureConfig, RunConfig
from minitune.execution.ahead import start_ahead
from minitune.experiment.experiment import Experiment
from minitune.experiment.trial_maker import TrialMaker
from minitune.settings import setting
from minitune.tune_config import TuneConfig

if TYPE_CHECKING:
    from minitune._tuner_file import RecordedTuner
    from minitune.execution.ahead import Template
    from minitune.execution.trial_executor import TrialExecutor

NEEDED_BY_TRIALS = ("minitune.trainable.trial_actor",)
"""What every worker imports: once, where workers are copied from."""


@dataclass
class Plan:
    """What is to be run.

    Attributes:
        experiments: The trainables and their spaces. The first one's name, stopper and output count for the run.
        tune_config: How it is searched.
        run_config: How it fails and what is shown.
        id_prefix: What the ids of its trials begin with; None for the usual one.
        raises: Whether the first failure of a trial comes out as an exception in the end, which shows it.
    """

    experiments: list[Experiment]
    tune_config: TuneConfig
    run_config: RunConfig
    id_prefix: str | None = None
    raises: bool = False

    def __post_init__(self) -> None:
        # shallow copies: one object may stand for two experiments, and users may go on with theirs
        self.experiments = [copy.copy(experiment) for experiment in self.experiments]
        self.tune_config, self.run_config = copy.copy(self.tune_config), copy.copy(self.run_config)
        for other in self.experiments[1:]:
            if other.wants_other_limits(self.experiment):
                warn_once(
                    f"stop (but for a dict), time_budget_s and log_to_file of experiment {other.name!r} have no "
                    "effect: those of the first experiment count for all that run together"
                )

    @classmethod
    def of(cls, trainable: Any, param_space: Any, tune_config: TuneConfig, run_config: RunConfig) -> Plan:
        """The plan of one trainable, from the configs.

        Raises:
            TuneError: If there is no trainable.
            TypeError: If the trainable is none.
            ValueError: If the configs contradict it or each other.
        """
        failure = run_config.failure_config or FailureConfig()
        experiment = Experiment(
            run_config.name,
            trainable,
            stop=run_config.stop,
            time_budget_s=tune_config.time_budget_s,
            config=param_space,
            num_samples=tune_config.num_samples,
            storage_path=run_config.storage_path,
            checkpoint_config=run_config.checkpoint_config,
            trial_name_creator=tune_config.trial_name_creator,
            trial_dirname_creator=tune_config.trial_dirname_creator,
            log_to_file=run_config.log_to_file,
            max_failures=failure.max_failures,
        )
        return cls([experiment], tune_config, run_config)

    @property
    def experiment(self) -> Experiment:
        """The first experiment."""
        return self.experiments[0]

    @property
    def makers(self) -> list[TrialMaker]:
        """What makes the trials, by experiment."""
        return [experiment.maker for experiment in self.experiments]

    @property
    def failure_config(self) -> FailureConfig:
        """The failure config, with its defaults."""
        return self.run_config.failure_config or FailureConfig()

    @property
    def checkpoint_config(self) -> CheckpointConfig:
        """The checkpoint config of the first experiment, with nothing left open."""
        return self.experiment.checkpoints()

    @property
    def executor(self) -> str | TrialExecutor:
        """What runs the trials, or its name; `MINITUNE_EXECUTOR` is used where the plan leaves the default."""
        choice: str | TrialExecutor = self.tune_config.executor
        return (setting("EXECUTOR") or runtime.default_executor() or choice) if choice == "local" else choice

    def start_ahead(self) -> AbstractContextManager[Template | None]:
        """Have the process that workers are copied from come up while the driver still gets ready; see `start_ahead`.

        Yields:
            The process, for `build_executor`; None if this plan needs none.

        Raises:
            TypeError: If `sys.path` or `sys.argv` holds something that workers cannot take over.
        """
        if self.executor != "local":
            return nullcontext()
        # Python passes over paths of `pathlib` in `sys.path`, and so do workers.
        require_texts("sys.path", [entry for entry in sys.path if not isinstance(entry, os.PathLike)])
        require_texts("sys.argv", sys.argv)
        return start_ahead(self.run_config.keep_descendants, NEEDED_BY_TRIALS)

    def recorded(self) -> RecordedTuner:
        """What a later driver needs to know of this plan: searcher and scheduler as they were before any run."""
        from minitune._tuner_file import RecordedTuner

        tune = copy.copy(self.tune_config)
        tune.search_alg, tune.scheduler = before_any_run(tune.search_alg), before_any_run(tune.scheduler)
        checkpoints = [experiment.checkpoint_config for experiment in self.experiments]
        return RecordedTuner(
            self.experiment.trainable_name, self.experiment.param_space, tune, self.run_config, checkpoints
        )

    @property
    def is_silent(self) -> bool:
        """Whether no progress of the run is shown on the console."""
        return not (self.verbose and self.run_config.progress)

    @property
    def verbose(self) -> int:
        """0, 1 or 2."""
        verbose = self.run_config.verbose
        return 1 if verbose is None else int(verbose)
