"""RunSettings: what the driver needs to know of a run, beside its plug-ins."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from minitune.config import CheckpointConfig, FailureConfig
from minitune.execution.trial_executor import Shared
from minitune.experiment.trial import Trial

GRACE_S = 10.0
"""How long a trial may take to unwind when it is asked to stop, before it is terminated and then killed."""


@dataclass(frozen=True)
class TrialSettings:
    """What the trials of one experiment have in common.

    Attributes:
        trainable: The trainable, stored once with the executor.
        checkpoints: When class trainables are saved.
        saves: Whether the trainable is a class that can be saved between two steps.
    """

    trainable: Shared
    checkpoints: CheckpointConfig = field(default_factory=CheckpointConfig)
    saves: bool = False


@dataclass(frozen=True)
class RunSettings:
    """What the controller needs to know of a run, beside its plug-ins.

    Attributes:
        run_name: The run's name.
        experiments: Those of each experiment, in order; `Trial.experiment_number` is an index of it.
        metric: The run's metric, or None.
        seed: The base seed.
        failure: Whether a failure ends the run.
        max_concurrent_trials: At most so many trials run at a time; None means no limit.
        max_ahead: So many trials are drawn ahead of their workers; None means what suits the machine.
        reuse_actors: Whether a worker is handed on to the next trial.
        grace_s: Seconds that a trial has to unwind.
        free_restore_failures: How many failed restores of a trial do not count as failures.
        trial_timeout_s: Seconds that one attempt of a trial may take, or None.
        report_timeout_s: Seconds from a pull to the report that answers it, or None.
        reuses_results: Whether a trial whose configuration was tried before gets the result of that one.
        strict_metric: Whether a result without the metric of run, scheduler or searcher is an error of its trial.
        answered: In a run whose events come in logical order, gives the actors whose answer waits for its turn; else
            None.
        rest: In such a run lets time pass, at most so many seconds, without telling any event; else None.
    """

    run_name: str
    experiments: Sequence[TrialSettings]
    metric: str | None = None
    seed: int = 0
    failure: FailureConfig = field(default_factory=FailureConfig)
    max_concurrent_trials: int | None = None
    max_ahead: int | None = None
    reuse_actors: bool = False
    grace_s: float = GRACE_S
    free_restore_failures: int = 0
    trial_timeout_s: float | None = None
    report_timeout_s: float | None = None
    strict_metric: bool = True
    reuses_results: bool = False
    answered: Callable[[], Iterator[str]] | None = None
    rest: Callable[[float], object] | None = None

    @property
    def is_ordered(self) -> bool:
        """Whether nothing may depend on when something has happened."""
        return self.answered is not None

    def of(self, trial: Trial) -> TrialSettings:
        """What holds for a trial."""
        return self.experiments[trial.experiment_number]
