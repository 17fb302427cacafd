"""Progress: feeds the reporter of a run with what it shows about the run and the machine."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from minitune import clock
from minitune.execution.storage import RunDirectory
from minitune.execution.trial_executor import TrialExecutor
from minitune.experiment.trial import Trial
from minitune.schedulers.trial_scheduler import TrialScheduler

if TYPE_CHECKING:
    from minitune.tune_config import TuneConfig

logger = logging.getLogger("minitune")


class Progress:
    """Shows how a run goes on.

    Args:
        reporter: A `ProgressReporter`, or None to show nothing.
        scheduler: Whose state is shown.
        executor: Whose resources are shown.
        run: Where the run lies.
        tune_config: What is searched for.
    """

    def __init__(
        self,
        reporter: Any,
        scheduler: TrialScheduler,
        executor: TrialExecutor,
        run: RunDirectory,
        tune_config: TuneConfig,
    ):
        self._reporter = reporter
        self._scheduler = scheduler
        self._executor = executor
        self._run = run
        self._tune_config = tune_config

    def begin(self, total_samples: int) -> None:
        """The run begins.

        Args:
            total_samples: How many trials there will be; endless searches give a very large number.
        """
        if self._reporter is not None:
            self._reporter.setup(
                start_time=clock.current().time(),
                total_samples=total_samples,
                metric=self._tune_config.metric,
                mode=self._tune_config.mode,
            )

    def report(self, trials: Sequence[Trial], done: bool = False) -> None:
        """Show the state of the run if it is time to."""
        if self._reporter is not None and self._reporter.should_report(trials, done):
            self._reporter.report(trials, done, *self._lines())

    def patience_s(self) -> float | None:
        """Seconds until the next report is due; None if none is."""
        seconds_left = getattr(self._reporter, "seconds_left", None)
        left_s: float | None = seconds_left() if callable(seconds_left) else None
        return left_s

    def end(self, trials: Sequence[Trial], interrupted_by: str | None) -> None:
        """Show the end of the run.

        Args:
            trials: All trials.
            interrupted_by: Name of the signal that has ended the run, or None.
        """
        self.report(trials, done=True)
        if interrupted_by is not None:
            logger.warning(
                "interrupted by %s; resume with Tuner.restore(%r, trainable).fit()", interrupted_by, self._run.path
            )

    def _lines(self) -> list[str]:
        from minitune.progress_reporter import memory_line, resources_line

        totals, free = self._executor.resources()
        return [
            memory_line(),
            self._scheduler.debug_string(),
            resources_line(totals, free),
            f"Result logdir: {self._run.path}",
        ]
