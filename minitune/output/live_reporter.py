"""The default reporter: the live view on a terminal or in a notebook, and a line now and then elsewhere.

It takes a `RunSnapshot` of the run, which `live` renders, and decides when: soon after an event, but never for more
than a share of the driver's time. At the end, a block that stays replaces the view.
"""

from __future__ import annotations

import os
import shlex
import sys
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from minitune import clock
from minitune.base.table import Part, as_text, left_out_line
from minitune.base.text import counted, duration
from minitune.error import MissingMetricError
from minitune.experiment import states
from minitune.experiment.goal import Goal
from minitune.experiment.lifecycle import ERROR, PENDING, TERMINATED, Phase
from minitune.experiment.trial import Trial
from minitune.output import status_block
from minitune.output.colors import has_color
from minitune.output.live import (
    ErrorKind,
    RunSnapshot,
    best_row_text,
    progress_text,
    render,
    render_html,
)
from minitune.output.pace import pace_of, rest_of_run_s
from minitune.output.reporters import BACK_S, NOTEBOOK_SHARE, ScreenReporter, TuneReporterBase
from minitune.output.rows import (
    ENDED_LOOK,
    METRICS_SHOWN,
    TrialRow,
    last_line,
    parameter_names,
    row_of,
    trials_table,
)
from minitune.output.screen import NotebookCell, in_notebook
from minitune.output.status_block import error_texts, kind_of_error
from minitune.result import TIME_TOTAL_S

_MAX_BEST_ROWS = 5
_MAX_RUNNING_ROWS = 100
_MAX_ERROR_LINES = 5
"""The limits of the live view."""
_MAX_FINAL_ROWS = 10
_MAX_FAILED_ROWS = 5
"""The rows of the table at the end of a run: the best trials, and failed ones."""
_REDRAW_S = 0.25
_TICK_S = 1.0
"""The pauses between two redraws of the live view on a terminal: after an event, and without one."""
_NOTEBOOK_S = 1.0
"""The pause between two updates of a notebook's cell."""
_REDRAW_SHARE = 0.02
"""The most of the driver's time for redraws. Not measured: more delays trials."""
_FIRST_LINE_S = 5.0
_LINE_GROWTH = 1.5
_MAX_LINE_S = 600.0
"""The pauses between the live view's lines without a terminal: the first one, their growth, the longest one."""


@dataclass(kw_only=True, eq=False, repr=False)
class LiveReporter(ScreenReporter):
    """The default: a block that is redrawn, or a line now and then; at the end the best trials.

    It is redrawn after each event, at most four times a second on a terminal, and once a second in a notebook.
    Elsewhere, lines are printed with growing pauses of up to ten minutes.

    The other arguments are those of `TuneReporterBase`; `max_report_frequency` has no effect.
    """

    time_budget_s: float | None = None

    def _reset(self) -> None:
        super()._reset()
        self._info = status_block.RunInfo()
        self._notebook = None
        self._ended_before: int | None = None  # the number of trials that had ended before the run was resumed
        self._has_news = True
        self._wait_s = 0.0
        self._cost_s = 0.0
        self._pause_s = _FIRST_LINE_S
        self._line_s = time.monotonic() + _FIRST_LINE_S
        self._told: set[str] = set()

    # -- when ------------------------------------------------------------------------------------------------------
    def note_run(self, info: status_block.RunInfo) -> None:
        self._info = info

    def should_report(self, trials: Sequence[Trial], done: bool = False) -> bool:
        """True at the start and at the end, and when a redraw or the next line is due."""
        if not self._verbose or self._console.is_off:
            return False
        return done or self._seconds_left() <= 0

    def seconds_left(self) -> float | None:
        # In a simulation, hours pass in a moment, and redraws would be all that it does.
        if not self._verbose or self._console.is_off or clock.current is not clock.REAL:
            return None
        return self._seconds_left()

    def _seconds_left(self) -> float:
        if self._ended_before is None:  # before the first report
            return 0.0
        if self._notebook is not None:
            due_s = self._drawn_s + max(_NOTEBOOK_S, self._wait_s)
        elif self._screen is None:
            due_s = self._line_s
        elif self._screen.is_erased:
            due_s = self._drawn_s + BACK_S
        elif self._has_news:
            due_s = self._drawn_s + max(_REDRAW_S, self._wait_s)
        else:  # only the time has changed
            due_s = self._drawn_s + max(_TICK_S, self._wait_s)
        return max(0.0, due_s - time.monotonic())

    # -- what ------------------------------------------------------------------------------------------------------
    def report(self, trials: Sequence[Trial], done: bool, *sys_info: str) -> None:
        if self._ended_before is None:
            self._ended_before = self._info.ended_before
            if self._ended_before is None:
                self._ended_before = sum(trial.status in (TERMINATED, ERROR) for trial in trials)
            # Not earlier: the cell of a notebook belongs to the code that runs now, and the reporter may have been made
            # in another one.
            self._notebook = NotebookCell() if in_notebook() else None
            # A notebook shows one cell that is replaced, so a first line would stay above it for ever.
            if self._notebook is None and not done:
                self._tell_start()
        if done:
            self._release(keeps=False)
            parts = self._parts(trials, True, sys_info)
            if self._notebook is None:
                text = as_text(parts, self._console.columns(), has_color(sys.stdout))
                self._console.write_codes(f"{text}\n")
            else:
                self._notebook.show_end(parts, status_block.curve_of(trials, self._goal))
        elif self._notebook is not None or self._screen is not None:
            self._redraw(trials)
        elif time.monotonic() >= self._line_s:
            self._tell_progress(trials)

    def _parts(self, trials: Sequence[Trial], done: bool, sys_info: Sequence[str]) -> list[Part]:
        """The end of a run: how its trials ended, the best and the failed ones, and the directory of the results."""
        columns = self._shown_metrics(trials)
        total = self._total()
        number = counted(len(trials), "trial")
        not_drawn = max(0, (total or 0) - len(trials))
        if not_drawn:
            number = f"{len(trials)} of {total} trials"
        counts = status_block.ending_counts(trials, not_drawn)
        parts: list[Part] = [f"{number} in {self._elapsed_s():.2f} s: {counts}"]
        if self._info.ending:
            parts.append(f"Ended early: {self._info.ending}")
        parts += status_block.best_line(trials, self._goal, list(self._parameter_columns))
        shown = status_block.best_and_failed(trials, self._goal, _MAX_FINAL_ROWS, _MAX_FAILED_ROWS)
        if any(trial.progress.metrics for trial in shown):
            look = replace(ENDED_LOOK, cell=self.max_column_length)
            parts.append(trials_table(shown, look, self._goal, self._parameter_columns, columns))
            parts += left_out_line(len(trials) - len(shown), f"minitune ls {shlex.quote(self._info.path)}")
        parts += status_block.retried_text(trials)
        parts += error_texts(trials, self._raised, has_traceback=self._prints_errors)
        return [*parts, f"Results: {self._info.path}"]

    def _metric_of(self, columns: Mapping[str, str]) -> str | None:
        """The optimised metric; if the run has none, the only reported one."""
        is_only = self._infers and len(columns) == len(self._metric_columns) + 1
        if self._goal.metric is None and is_only:
            return next(iter(columns))
        return self._goal.metric

    def _tell_start(self) -> None:
        total = self._total()
        path = self._info.path
        count = "trials without end"
        if total is not None:
            count = counted(total, "trial")
        if self._ended_before:
            count += f", {self._ended_before} already ended"
        own = {}
        if self._goal.metric and self._goal.mode:
            own = {self._goal.metric: self._goal.mode}
        goal = ", ".join(f"{mode} {metric}" for metric, mode in (self._goal.objectives or own).items())
        if goal:
            count += f" ({goal})"
        self.say(f"Run of {count}; results in {path}")
        if self._info.outputs:
            outputs = tuple(dict.fromkeys(self._info.outputs))
            usual = f"minitune logs {shlex.quote(path)} TRIAL"
            where = usual
            if outputs != status_block.DEFAULT_OUTPUTS:
                where = f"{' and '.join(outputs)} in each trial's directory"
            self.say(f"Prints of trials: {where}")

    def _tell_progress(self, trials: Sequence[Trial]) -> None:
        snapshot = self._snapshot(trials)
        text = snapshot.starting or f"{snapshot.counts.get(states.RUNNING, 0)} running"
        if snapshot.best:
            text += f"; best {best_row_text(snapshot.best[0])}"
        self.say(f"{duration(snapshot.elapsed_s)}: {progress_text(snapshot)}, {text}")
        # A log of a short run gets some lines, and that of a run of days is not filled with them.
        self._pause_s = min(_LINE_GROWTH * self._pause_s, _MAX_LINE_S)
        self._line_s = time.monotonic() + self._pause_s

    def _redraw(self, trials: Sequence[Trial]) -> None:
        begin_s = time.monotonic()
        self._has_news = False
        snapshot = self._snapshot(trials)
        if self._screen is not None:
            screen = self._screen
            width, height = screen.size()
            screen.draw(render(snapshot, width, height, color=screen.has_color, ascii_only=screen.is_ascii))
        elif self._notebook is not None:
            self._notebook.show(render_html(snapshot), "\n".join(render(snapshot, 100, 40, ascii_only=True)))
        self._drawn_s = time.monotonic()
        cost_s = self._drawn_s - begin_s
        share = NOTEBOOK_SHARE
        if self._notebook is None:
            share = _REDRAW_SHARE
        # A single slow redraw does not count: a busy machine may have caused it. Two in a row do.
        # So redraws take at most this share of the driver's time, however many trials or however slow a terminal there
        # is.
        self._wait_s = min(cost_s, self._cost_s) / share
        self._cost_s = cost_s

    # -- one trial -------------------------------------------------------------------------------------------------
    def trial_started(self, trial: Trial) -> None:
        self._has_news = True
        super().trial_started(trial)

    def trial_result(self, trial: Trial, result: Mapping[str, Any]) -> None:
        self._has_news = True
        super().trial_result(trial, result)

    def trial_ended(self, trial: Trial) -> None:
        """At level 1: the first error of each kind, except a missing metric, which the driver may raise later."""
        self._has_news = True
        is_news = trial.status == ERROR and not isinstance(trial.error, MissingMetricError)
        if not self._shows_trials and self._notebook is None and is_news and len(self._told) < _MAX_ERROR_LINES:
            kind = kind_of_error(trial)
            if kind not in self._told:
                self._told.add(kind)
                self.say(f"{last_line(trial)} (trial {trial.name}, {trial.error_file})")
        super().trial_ended(trial)

    # -- snapshots -------------------------------------------------------------------------------------------------
    def _snapshot(self, trials: Sequence[Trial]) -> RunSnapshot:
        statuses = status_block.by_state(trials)
        columns = self._shown_metrics(trials)
        metric = self._metric_of(columns)
        goal = None
        if metric is not None and self._goal.mode is not None:
            goal = (metric, self._goal.mode)
        if metric is not None:
            columns = {metric: columns.get(metric, metric), **columns}
        best: list[Trial] = []
        if goal is not None:
            best = Goal(*goal).ranked(trials)[:_MAX_BEST_ROWS]
        elapsed_s = self._elapsed_s()
        total = self._total()
        # A resumed run is estimated by its own speed: the trials that had ended before took no time of it.
        before = self._ended_before or 0
        ended = sum(len(found) for state, found in statuses.items() if state in states.ENDED) - before
        now_s = clock.current.time()
        to_end = None
        if not self._info.ending:
            to_end = total
        rest_s = rest_of_run_s(trials, elapsed_s, to_end, before, self.time_budget_s)
        running = statuses[states.RUNNING][:_MAX_RUNNING_ROWS]
        params = self._parameter_columns or {name: name for name in parameter_names([*best, *running])}
        sizes = {state: len(found) for state, found in statuses.items()}
        counts = states.tally(sizes, max(0, (total or 0) - len(trials)), states.PENDING)
        return RunSnapshot(
            title=os.path.basename(self._info.path),
            elapsed_s=elapsed_s,
            counts=counts,
            total=total,
            per_s=ended / elapsed_s if elapsed_s > 0 else None,
            rest_s=rest_s,
            goal=goal,
            values=[] if goal is None or self._notebook is None else status_block.last_values(trials, goal[0]),
            best=[self._row(trial, columns, params, now_s) for trial in best],
            running=[self._row(trial, columns, params, now_s) for trial in running],
            params=params,
            metrics=columns,
            errors=self._error_kinds(statuses[states.FAILED]),
            resources=self._info.used(),
            starting=_what_starts(trials, self._info.importing),
            note=self._info.ending,
        )

    def _total(self) -> int | None:
        """The number of trials; None if it is endless or unknown."""
        total = self._total_samples
        if not total or total < 0 or total >= sys.maxsize:
            return None
        return int(total)

    def _row(self, trial: Trial, metrics: Collection[str], params: Collection[str], now_s: float) -> TrialRow:
        row = row_of(trial, metrics, params)
        pace = pace_of(trial)
        if pace.since_s is None:
            return row
        values = dict(row.metrics)
        if TIME_TOTAL_S in metrics:  # it goes on between reports
            values[TIME_TOTAL_S] = round(pace.worked_s(now_s))
        return replace(row, metrics=values, quiet_s=pace.quiet_s(now_s))

    def _error_kinds(self, failed: Sequence[Trial]) -> list[ErrorKind]:
        groups = status_block.error_groups(failed)
        return [ErrorKind(last_line(alike[-1]), len(alike), alike[-1].error_file) for alike in groups]


def _what_starts(trials: Sequence[Trial], importing: str) -> str:
    """A text on the work before the first trial begins; empty afterwards."""
    count = 0
    for trial in trials:
        if trial.status != PENDING or trial.progress.metrics:
            return ""
        count += trial.phase is Phase.STARTING
    what = "loading the trainable"
    if importing:
        what = f"importing {importing}"
    if count:
        return f"starting {counted(count, 'worker')} ({what})"
    return ""


def default_reporter(time_budget_s: float | None = None) -> TuneReporterBase:
    """The default reporter of a run. It shows up to four metrics."""
    return LiveReporter(time_budget_s=time_budget_s, infer_limit=METRICS_SHOWN)
