"""The reporter of runs that name none: a live view on a terminal, a few plain lines anywhere else."""

from __future__ import annotations

import time
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

from minitune import _table as table
from minitune import clock
from minitune._live import best_text, progress_text, render
from minitune._screen import Screen
from minitune._screen_reporter import BACK_S, ScreenReporter
from minitune._snapshot_reporter import SnapshotReporter, rest_of
from minitune._table_errors import last_line
from minitune._text import duration
from minitune.error import MissingMetricError
from minitune.experiment.lifecycle import ERROR, RUNNING
from minitune.experiment.trial import Trial

_REDRAW_S = 0.25
_TICK_S = 1.0
"""Seconds between two redraws where nothing happens but time."""
_SHARE = 0.02
"""So much of the driver's time may be spent on redrawing: with many trials, or a slow terminal, it is rarer."""
_FIRST_LINE_S = 5.0
_GROWTH = 1.5
_MAX_LINE_S = 600.0
_MAX_ERROR_LINES = 5


class LiveReporter(ScreenReporter, SnapshotReporter):
    """A block that is redrawn in place on a terminal; elsewhere a line now and then. A status block at the end.

    The terminal is redrawn when something happens, at most four times a second; the pauses between lines grow, up to
    ten minutes.

    Args:
        time_budget_s: Seconds after which the run ends anyway; None: there is no such limit.
        **arguments: Those of `TuneReporterBase`, of which `max_report_frequency` has no effect.
    """

    def __init__(self, *, time_budget_s: float | None = None, **arguments: Any):
        super().__init__(**arguments)
        self.time_budget_s = time_budget_s
        self._begin()

    def _begin(self) -> None:
        self._has_begun = False
        self._has_news = True
        self._wait_s = self._cost_s = 0.0
        self._pause_s = _FIRST_LINE_S
        self._line_s = time.monotonic() + _FIRST_LINE_S  # of the real clock: it is for people
        self._told: set[Hashable] = set()

    def setup(
        self,
        start_time: float | None = None,
        total_samples: int | None = None,
        metric: str | None = None,
        mode: str | None = None,
        **kwargs: Any,
    ) -> None:
        """See `ProgressReporter.setup`."""
        super().setup(start_time, total_samples, metric, mode, **kwargs)
        self._begin()

    # -- when ------------------------------------------------------------------------------------------------------

    def should_report(self, trials: Sequence[Trial], done: bool = False) -> bool:
        """True at the start and at the end; in between when a redraw, or the next line, is due."""
        if not self._verbose or self._console.is_off:
            return False
        return done or not self._has_begun or self._seconds_left() <= 0

    def seconds_left(self) -> float | None:
        """Seconds until the next redraw, or line, is due."""
        if not self._verbose or self._console.is_off or clock.current() is not clock.REAL:
            return None
        return self._seconds_left()

    def _seconds_left(self) -> float:
        if not self._has_begun:
            return 0.0
        if self._screen is None:
            return max(0.0, self._line_s - time.monotonic())
        if self._screen.is_erased:
            pause_s = BACK_S
        else:
            pause_s = max(_REDRAW_S if self._has_news else _TICK_S, self._wait_s)
        return max(0.0, self._drawn_s + pause_s - time.monotonic())

    # -- what ------------------------------------------------------------------------------------------------------

    def report(self, trials: Sequence[Trial], done: bool, *sys_info: str) -> None:
        """Show the state of the run; may block as printing does."""
        if done:
            self._release(keeps=False)
            self._console.write(self._progress_str(trials, True, *sys_info))
            return
        if not self._has_begun:
            self._has_begun = True
            self._note_beginning(trials)
            self._tell_start(sys_info)
        if self._screen is not None:
            self._redraw(self._screen, trials, sys_info)
        elif time.monotonic() >= self._line_s:
            self._tell_progress(trials, sys_info)

    def _tell_start(self, sys_info: Sequence[str]) -> None:
        total = self._total()
        count = "trials without end" if total is None else "1 trial" if total == 1 else f"{total} trials"
        goal = f" ({self._mode} {self._metric})" if self._metric and self._mode else ""
        count += f", of which {self._ended_before} have ended" if self._ended_before else ""
        self.say(f"Run of {count}{goal}; results in {rest_of(sys_info, table.LOGDIR)}")

    def _tell_progress(self, trials: Sequence[Trial], sys_info: Sequence[str]) -> None:
        snapshot = self._snapshot(trials, sys_info)
        best = f"; best {best_text(snapshot.best)}" if snapshot.best is not None else ""
        running = snapshot.counts.get(RUNNING, 0)
        self.say(f"{duration(snapshot.elapsed_s)}: {progress_text(snapshot)}, {running} running{best}")
        self._pause_s = min(_GROWTH * self._pause_s, _MAX_LINE_S)
        self._line_s = time.monotonic() + self._pause_s

    def _redraw(self, screen: Screen, trials: Sequence[Trial], sys_info: Sequence[str]) -> None:
        begin_s = time.monotonic()
        self._has_news = False
        width, height = screen.size()
        snapshot = self._snapshot(trials, sys_info)
        self._draw(screen, render(snapshot, width, height, color=screen.has_color, ascii_only=screen.is_ascii))
        cost_s = self._drawn_s - begin_s
        self._wait_s, self._cost_s = min(cost_s, self._cost_s) / _SHARE, cost_s  # once may be chance

    # -- one trial -------------------------------------------------------------------------------------------------

    def trial_started(self, trial: Trial) -> None:
        """See `ProgressReporter.trial_started`."""
        self._has_news = True
        super().trial_started(trial)

    def trial_result(self, trial: Trial, result: Mapping[str, Any]) -> None:
        """See `ProgressReporter.trial_result`."""
        self._has_news = True
        super().trial_result(trial, result)

    def trial_ended(self, trial: Trial) -> None:
        """At level 1, an error is told if none of its kind was before; that of a missing metric may yet be raised."""
        self._has_news = True
        is_news = trial.status == ERROR and not isinstance(trial.error, MissingMetricError)
        if not self._shows_trials and is_news and len(self._told) < _MAX_ERROR_LINES:
            kind = self._kind_of_error(trial)
            if kind not in self._told:
                self._told.add(kind)
                self.say(f"{last_line(trial)} (trial {trial.name}, {trial.error_file})")
        super().trial_ended(trial)
