"""ProgressDisplay: passes the state of a run, its trials and the machine to the run's reporter."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from minitune.base import clock
from minitune.base.plugin_calls import PluginCaller
from minitune.executors.trial_executor import TrialExecutor
from minitune.experiment.callback import Callback
from minitune.experiment.endings import interruption
from minitune.experiment.trial import Trial
from minitune.record.layout import RunDirectory
from minitune.schedulers.trial_scheduler import TrialScheduler

if TYPE_CHECKING:
    from minitune.output.reporters import ProgressReporter
    from minitune.search.search_algorithm import SearchAlgorithm
    from minitune.tune_config import TuneConfig

logger = logging.getLogger("minitune")


class TrialProgress(Callback):
    """Passes results and ends of trials to a reporter, between the user's callbacks and the loggers."""

    def __init__(self, reporter: ProgressReporter):
        self._reporter = reporter
        self._call = PluginCaller().call

    def on_trial_result(
        self, iteration: int, trials: list[Trial], trial: Trial, result: dict[str, Any], **info: Any
    ) -> None:
        self._call((self._reporter.trial_result,), trial, trial, result)

    def on_trial_complete(self, iteration: int, trials: list[Trial], trial: Trial, **info: Any) -> None:
        self._call((self._reporter.trial_ended,), trial, trial)

    on_trial_error = on_trial_complete


@dataclass
class ProgressDisplay:
    """Shows the progress of a run."""

    reporter: ProgressReporter | None
    scheduler: TrialScheduler
    executor: TrialExecutor
    run: RunDirectory
    tune_config: TuneConfig
    raises: bool = False
    is_program: bool = False
    outputs: Sequence[str] = ()
    _call: Callable[..., Any] = field(default_factory=lambda: PluginCaller().call)
    _begin_s: float = field(default_factory=lambda: clock.current.monotonic())
    _took_s: float | None = None
    _ending: str = ""
    _ended_before: int | None = None

    def begin(self, total_samples: int, remarks: Iterable[str], *, verbose: int) -> None:
        """Show the start of the run, and then these lines."""
        if self.reporter is not None:
            # Python prints the traceback of an exception that follows.
            self._call((self.reporter.configure,), None, verbose=verbose, print_errors=not self.raises)
            # Pass only the arguments that Ray Tune passes: a user's reporter may not accept more.
            self._call(
                (self.reporter.setup,),
                None,
                start_time=clock.current.time(),
                total_samples=total_samples,
                metric=self.tune_config.metric,
                mode=self.tune_config.mode,
            )
            for remark in remarks:
                self._call((self.reporter.say,), None, remark)

    def report(self, trials: Sequence[Trial], done: bool = False) -> None:
        """Show the state of the run if it is time to."""
        if self._ended_before is None:
            self._ended_before = sum(trial.is_finished() for trial in trials)
        if self.reporter is not None and self._call((self.reporter.should_report,), None, trials, done):
            from minitune.executors.devices import memory
            from minitune.output.reporters import RunInfo

            totals, free = self.executor.resources()
            info = RunInfo(
                self.run.path,
                memory(),
                totals,
                free,
                self.outputs if self.executor.isolates else (),
                self._ending,
                getattr(self.executor, "importing", ""),  # not all executors know
                ended_before=self._ended_before,
                time_budget_s=self.tune_config.budget_s(),
                took_s=self._took_s if done else None,
            )
            self._call((self.reporter.note_run,), None, info)
            self._call((self.reporter.report,), None, trials, done)

    def close(self) -> None:
        """Release the terminal; may be repeated."""
        if self.reporter is not None:
            self._call((self.reporter.close,), None)

    def patience_s(self) -> float | None:
        """Seconds until the next report is due; None if no report is."""
        left_s: float | None = None if self.reporter is None else self._call((self.reporter.seconds_left,), None)
        return left_s

    def stop(self) -> float:
        """Return how many seconds the run took, now that the driver's work is done."""
        if self._took_s is None:
            self._took_s = clock.current.monotonic() - self._begin_s
        return self._took_s

    def end(
        self,
        trials: Sequence[Trial],
        interrupted_by: str | None,
        search_alg: SearchAlgorithm,
    ) -> None:
        """Show the end of the run."""
        self.stop()
        reporter = self.reporter
        if reporter is not None:
            from minitune.view.remarks import closing_remarks
            from minitune.view.summary import early_end

            self._ending = early_end(trials)
            self.report(trials, done=True)
            is_cut = bool(self._ending)
            remarks = closing_remarks(trials, self.scheduler, search_alg, is_cut=is_cut)
            for line in remarks:
                self._call((reporter.say,), None, line)
        if interrupted_by is not None:
            tell_resume(self.run.path, interrupted_by, self.is_program)

    def tell_wait(self, signal_name: str, grace_s: float) -> None:
        """Log at once that a signal has arrived, and running trials have `grace_s` seconds to end."""
        self._ending = interruption(signal_name).text
        shortcut = ""
        if signal_name == "SIGINT":
            shortcut = "; a second Ctrl-C kills them at once"
        logger.warning("%s: no new trials start; running trials have %g s to end%s", signal_name, grace_s, shortcut)


def tell_resume(run_path: str, how: str, is_program: bool) -> None:
    """Log how to resume a run that a signal has ended."""
    import shlex

    in_python = "" if is_program else f"Tuner.restore({run_path!r}, trainable).fit(), or on the command line: "
    logger.warning(
        "interrupted by %s; resume with %sminitune resume %s",
        how,
        in_python,
        shlex.quote(run_path),
        extra={"run_path": run_path},
    )
