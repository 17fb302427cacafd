"""The default reporter: the live view on a terminal or in a notebook, and a line now and then elsewhere.

It takes a `RunSnapshot` of the run, which `live` renders, and decides when: soon after an event, but never for more
than a share of the driver's time. At the end, a block that stays replaces the view. `CLIReporter` and
`JupyterNotebookReporter` are the same reporter by Ray Tune's names.
"""

from __future__ import annotations

import os
import shlex
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from minitune.base import clock
from minitune.base.checks import is_real, require, require_flag, require_metric, shown
from minitune.base.table import Part, as_html, as_text, left_out_line
from minitune.base.text import Console, counted, duration, wrapped
from minitune.experiment import states
from minitune.experiment.goal import Goal, Metric, check_mode
from minitune.experiment.lifecycle import ERROR, PENDING, RUNNING, TERMINATED, Phase
from minitune.experiment.trial import Trial
from minitune.output.live import RunSnapshot, progress_text, render, render_html
from minitune.output.reporters import ProgressReporter, RunInfo
from minitune.output.screen import NotebookCell, Screen, in_notebook, open_screen
from minitune.result import DEFAULT_METRIC, TRAINING_ITERATION
from minitune.view.best import ranked
from minitune.view.colors import has_color
from minitune.view.pace import quiet_s, rest_of_run_s
from minitune.view.rows import (
    METRICS_SHOWN,
    USUAL_METRICS,
    Row,
    last_line,
    metric_columns,
    metrics_of,
    parameter_names,
    row_of,
    trials_table,
    values_text,
)
from minitune.view.summary import (
    DEFAULT_OUTPUTS,
    best_and_failed,
    best_line,
    by_state,
    curve_of,
    ending_counts,
    error_groups,
    error_texts,
    kind_of_error,
    retried_text,
)

_MAX_BEST_ROWS = 5
_MAX_RUNNING_ROWS = 100
_MAX_ERROR_LINES = 5
"""The limits of the live view."""
_REDRAW_S = 0.5
"""The shortest pause between two redraws. Not measured: a longer one shows events later."""
_REDRAW_SHARE = 0.02
_NOTEBOOK_SHARE = 0.05
"""The most of the driver's time for redraws, and for updates of a notebook. Not measured: more delays trials."""
_LINE_GROWTH = 1.5
_MAX_LINE_S = 600.0
"""How the pauses between lines grow where there is no block, and the longest one."""


@dataclass(kw_only=True, eq=False, repr=False)
class LiveReporter(ProgressReporter):
    """The default reporter: a block that is redrawn up to twice a second, or a line now and then, with growing pauses;
    at the end the best trials.

    Args:
        metric_columns: Metrics to show: names, or a dict from names to headers. By default the usual ones
            (`DEFAULT_COLUMNS`) and the first few that trials report.
        parameter_columns: Parameters to show, likewise. By default, all searched ones.
        total_samples: The number of trials.
        max_progress_rows: The most rows of the table at the end, without failed trials.
        max_error_rows: The most failed trials in it.
        max_column_length: The most characters of its cells.
        max_report_frequency: Seconds before the first line.
        infer_limit: How many reported metrics are shown by default.
        print_intermediate_tables: False shows a table only at the end.
        metric, mode: By default those of the run.
        sort_by_metric: No effect: the best trials come first.

    Raises:
        ValueError: If an argument is out of range.
    """

    DEFAULT_COLUMNS: ClassVar[dict[str, str]] = USUAL_METRICS
    """The headers of the metrics that are shown by default."""

    metric_columns: list[str] | dict[str, str] | None = None
    parameter_columns: list[str] | dict[str, str] | None = None
    total_samples: int | None = None
    max_progress_rows: int = 20
    max_error_rows: int = 20
    max_column_length: int = 20
    max_report_frequency: float = 5
    infer_limit: int = 3
    print_intermediate_tables: bool | None = None
    metric: str | None = None
    mode: str | None = None
    sort_by_metric: bool = False

    def __post_init__(self) -> None:
        if self.mode is not None:
            check_mode(self.mode)
        for name, least in (
            ("max_progress_rows", 1),
            ("max_error_rows", 1),
            ("max_column_length", 4),
            ("max_report_frequency", 0),
            ("infer_limit", 0),
        ):
            value = getattr(self, name)
            if not is_real(value) or not value >= least:
                raise ValueError(f"expected {name} >= {least}, but got {shown(value)}")
        total = self.total_samples
        require(total is None or is_real(total), "total_samples: None or an int", total)
        require_flag("print_intermediate_tables", self.print_intermediate_tables)
        require_flag("sort_by_metric", self.sort_by_metric)
        require_metric("metric", self.metric)
        self._infers = self.metric_columns is None
        self._metric_columns = _columns("metric_columns", self.metric_columns, self.DEFAULT_COLUMNS)
        self._parameter_columns = _columns("parameter_columns", self.parameter_columns, {})
        self._total_samples = total
        self._goal = Goal(self.metric, self.mode)
        self._verbose = 1
        self._prints_errors = True
        self._begin_s = clock.current.monotonic()
        self._console = Console()
        self._screen: Screen | None = None
        self._reset()

    # -- set up ----------------------------------------------------------------------------------------------------
    def configure(self, *, verbose: int, print_errors: bool) -> None:
        self._verbose = verbose
        self._prints_errors = print_errors

    def setup(
        self,
        start_time: float | None = None,
        total_samples: int | None = None,
        metric: Metric = None,
        mode: Metric = None,
        **kwargs: Any,
    ) -> None:
        """The reporter's own metric and mode have priority."""
        goal = Goal.of(metric, mode)
        if goal.mode is not None:
            check_mode(goal.mode)
        if self.metric or self.mode:
            goal = Goal(self.metric or goal.metric, self.mode or goal.mode)
        if goal.mode and not goal.metric:
            goal = Goal(DEFAULT_METRIC, goal.mode)  # trials return a number without a name
        self._goal = goal
        if total_samples is not None:
            self._total_samples = total_samples
        now = clock.current
        self._begin_s = now.monotonic()
        if start_time is not None:
            self._begin_s -= max(0.0, now.time() - start_time)
        self.close()
        self._reset()
        if self._verbose:
            self._screen = open_screen()

    def _reset(self) -> None:
        """Forget the previous run. Called by the constructor and by `setup`."""
        self._info = RunInfo()
        self._notebook: NotebookCell | None = None
        self._has_begun = False
        self._drawn_s = 0.0
        self._wait_s = 0.0
        self._cost_s = 0.0
        self._pause_s = max(_REDRAW_S, self.max_report_frequency)
        self._line_s = time.monotonic() + self._pause_s
        self._told: set[str] = set()

    def close(self) -> None:
        self._release(keeps=True)

    def _release(self, keeps: bool) -> None:
        """Release the terminal. The block stays or is erased."""
        if self._screen is not None:
            self._screen.close(keeps=keeps)
            self._screen = None

    def _elapsed_s(self) -> float:
        """The time since the start of the run; after its end, the time that it took."""
        if self._info.took_s is None:
            return clock.current.monotonic() - self._begin_s
        return self._info.took_s

    def add_metric_column(self, metric: str, representation: str | None = None) -> None:
        """Show one more metric. The metrics that trials report then get no columns automatically.

        Raises:
            ValueError: If it is shown already.
        """
        _add_column(self._metric_columns, metric, representation)
        self._infers = False

    def add_parameter_column(self, parameter: str, representation: str | None = None) -> None:
        """Show one more parameter.

        Raises:
            ValueError: As by `add_metric_column`.
        """
        _add_column(self._parameter_columns, parameter, representation)

    def say(self, text: str) -> None:
        """Show a message of the driver."""
        if not self._verbose:
            return
        text = "\n".join(line for each in text.splitlines() for line in wrapped(each, self._console.columns()))
        if self._screen is not None:
            self._screen.write(f"{text}\n")
        else:
            self._console.write(f"{text}\n")

    def _shown_metrics(self, trials: Sequence[Trial]) -> dict[str, str]:
        """The headers of the metric columns, by metric."""
        if not self._infers:
            return self._metric_columns
        return metric_columns(trials, self._goal, self.infer_limit, self._metric_columns)

    # -- when ------------------------------------------------------------------------------------------------------
    def note_run(self, info: RunInfo) -> None:
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
        if not self._has_begun:
            return 0.0
        if self._notebook is None and self._screen is None:
            return max(0.0, self._line_s - time.monotonic())
        return max(0.0, self._drawn_s + max(_REDRAW_S, self._wait_s) - time.monotonic())

    # -- what ------------------------------------------------------------------------------------------------------
    def report(self, trials: Sequence[Trial], done: bool, *sys_info: str) -> None:
        tells_progress = self._has_begun or self._is_under_way(trials)
        if not self._has_begun:
            self._has_begun = True
            # Not earlier: the cell of a notebook belongs to the code that runs now, and the reporter may have been made
            # in another one.
            self._notebook = self._notebook_cell()
            # A notebook shows one cell that is replaced, so a first line would stay above it for ever.
            if self._notebook is None and not done:
                self._tell_start()
        if done:
            self._release(keeps=False)
            parts = self._end_parts(trials)
            if self._notebook is None:
                text = as_text(parts, self._console.columns(), has_color(sys.stdout))
                self._console.write_codes(f"{text}\n")
            else:
                self._notebook.show(as_html(parts, curve_of(trials, self._goal)), as_text(parts))
        elif self._notebook is not None or self._screen is not None:
            self._redraw(trials)
        elif tells_progress:
            self._tell_progress(trials)

    def _is_under_way(self, trials: Sequence[Trial]) -> bool:
        """Whether trials of this part of the run have begun. If so, the first report says more than that it begins."""
        begun = sum(trial.status in (RUNNING, TERMINATED, ERROR) for trial in trials)
        return begun > self._info.ended_before

    def _notebook_cell(self) -> NotebookCell | None:
        """The cell to show the run in; None if this is no notebook."""
        return NotebookCell() if in_notebook() else None

    def _end_parts(self, trials: Sequence[Trial]) -> list[Part]:
        """The end of a run: how its trials ended, the best and the failed ones, and the directory of the results."""
        columns = self._shown_metrics(trials)
        total = self._total()
        number = counted(len(trials), "trial")
        not_drawn = max(0, (total or 0) - len(trials))
        if not_drawn:
            number = f"{len(trials)} of {total} trials"
        counts = ending_counts(trials, not_drawn)
        parts: list[Part] = [f"{number} in {self._elapsed_s():.2f} s: {counts}"]
        if self._info.ending:
            parts.append(f"Ended early: {self._info.ending}")
        parts += best_line(trials, self._goal, list(self._parameter_columns))
        shown = best_and_failed(trials, self._goal, self.max_progress_rows, self.max_error_rows)
        if any(trial.progress.metrics for trial in shown):
            params = self._parameter_columns
            parts.append(trials_table(shown, self._goal, params, columns, self.max_column_length))
            parts += left_out_line(len(trials) - len(shown), f"minitune ls {shlex.quote(self._info.path)}")
        parts += retried_text(trials)
        parts += error_texts(trials, self._prints_errors)
        return [*parts, f"Results: {self._info.path}"]

    def _tell_start(self) -> None:
        total = self._total()
        path = self._info.path
        count = "trials without end"
        if total is not None:
            count = counted(total, "trial")
        if self._info.ended_before:
            count += f", {self._info.ended_before} already ended"
        own = {}
        if self._goal.metric and self._goal.mode:
            own = {self._goal.metric: self._goal.mode}
        goal = ", ".join(f"{mode} {metric}" for metric, mode in (self._goal.objectives or own).items())
        if goal:
            count += f" ({goal})"
        self.say(f"Run of {count}; results in {path}")
        if self._info.outputs == DEFAULT_OUTPUTS:
            self.say(f"Prints of trials: minitune logs {shlex.quote(path)} TRIAL")

    def _tell_progress(self, trials: Sequence[Trial]) -> None:
        snapshot = self._snapshot(trials)
        text = snapshot.starting or f"{snapshot.counts.get(states.RUNNING, 0)} running"
        text = f"{duration(snapshot.elapsed_s)}: {progress_text(snapshot)}, {text}"
        self.say(". ".join([text, *best_line(trials, self._goal, list(self._parameter_columns))]))
        # A log of a short run gets some lines, and that of a run of days is not filled with them.
        self._pause_s = min(_LINE_GROWTH * self._pause_s, _MAX_LINE_S)
        self._line_s = time.monotonic() + self._pause_s

    def _redraw(self, trials: Sequence[Trial]) -> None:
        begin_s = time.monotonic()
        snapshot = self._snapshot(trials)
        if self._screen is not None:
            screen = self._screen
            width, height = screen.size()
            screen.draw(render(snapshot, width, height, color=screen.has_color))
        elif self._notebook is not None:
            self._notebook.show(render_html(snapshot), "\n".join(render(snapshot, 100, 40)))
        self._drawn_s = time.monotonic()
        cost_s = self._drawn_s - begin_s
        share = _REDRAW_SHARE
        if self._notebook is not None:
            share = _NOTEBOOK_SHARE
        # A single slow redraw does not count: a busy machine may have caused it. Two in a row do.
        # So redraws take at most this share of the driver's time, however many trials or however slow a terminal there
        # is.
        self._wait_s = min(cost_s, self._cost_s) / share
        self._cost_s = cost_s

    # -- snapshots -------------------------------------------------------------------------------------------------
    def _snapshot(self, trials: Sequence[Trial]) -> RunSnapshot:
        statuses = by_state(trials)
        goal = self._goal
        columns = self._shown_metrics(trials)
        if goal.metric is not None:
            columns = {goal.metric: columns.get(goal.metric, goal.metric), **columns}
        best: list[Trial] = []
        running: list[Trial] = []
        if self.print_intermediate_tables is not False:
            running = statuses[states.RUNNING][:_MAX_RUNNING_ROWS]
            if not goal.objectives:
                best = ranked(trials, goal)[:_MAX_BEST_ROWS]
        params = self._parameter_columns or {name: name for name in parameter_names([*best, *running])}
        now_s = clock.current.time()

        def rows(shown: Sequence[Trial]) -> list[Row]:
            return [{**row_of(trial, params, columns), "quiet_s": quiet_s(trial, now_s)} for trial in shown]

        elapsed_s = self._elapsed_s()
        total = self._total()
        # A resumed run is estimated by its own speed: the trials that had ended before took no time of it.
        before = self._info.ended_before
        to_end = None if self._info.ending else total
        sizes = {state: len(found) for state, found in statuses.items()}
        return RunSnapshot(
            title=os.path.basename(self._info.path),
            elapsed_s=elapsed_s,
            counts=states.tally(sizes, max(0, (total or 0) - len(trials)), states.PENDING),
            total=total,
            rest_s=rest_of_run_s(trials, elapsed_s, to_end, before, self._info.time_budget_s),
            goal=goal,
            curve="" if self._notebook is None else curve_of(trials, goal),
            best=rows(best),
            running=rows(running),
            params=params,
            metrics=columns,
            errors=[(len(alike), last_line(alike[-1])) for alike in error_groups(statuses[states.FAILED])],
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

    # -- one trial -------------------------------------------------------------------------------------------------
    def trial_result(self, trial: Trial, result: Mapping[str, Any]) -> None:
        """At level 2: the iteration and the metrics."""
        if self._verbose >= 2:
            values = values_text(metrics_of(result), self.max_column_length)
            self.say(f"Trial {trial.name} iteration {result.get(TRAINING_ITERATION)}: {values}")

    def trial_ended(self, trial: Trial) -> None:
        """At level 2: how the trial has ended. At level 1: the first error of each kind."""
        if self._verbose < 2:
            self._tell_error(trial)
        elif trial.status == ERROR:
            self.say(f"Trial {trial.name} failed: {last_line(trial)} ({trial.error_file})")
        elif trial.has_started:
            result = trial.progress.metrics
            text = f"Trial {trial.name} ended after {counted(result.get(TRAINING_ITERATION, 0), 'iteration')}"
            if values := values_text(metrics_of(result), self.max_column_length):
                text += f": {values}"
            self.say(text)

    def _tell_error(self, trial: Trial) -> None:
        if self._notebook is None and trial.status == ERROR and len(self._told) < _MAX_ERROR_LINES:
            kind = kind_of_error(trial)
            if kind not in self._told:
                self._told.add(kind)
                self.say(f"{last_line(trial)} (trial {trial.name}, {trial.error_file})")


def _columns(argument: str, given: Any, default: Mapping[str, str]) -> dict[str, str]:
    """Columns as a dict from names to headers."""
    if given is None:
        return dict(default)
    if isinstance(given, Mapping):
        columns = dict(given)
    elif isinstance(given, (list, tuple)):
        columns = {name: name for name in given}
    else:
        raise ValueError(f"{argument} must be a list of names or a dict, but got {shown(given)}")
    for name, title in columns.items():
        if not isinstance(name, str) or not isinstance(title, str):
            raise ValueError(f"{argument} must hold text, but got {name!r}: {title!r}")
    return columns


def _add_column(columns: dict[str, str], name: str, shown: str | None) -> None:
    if name in columns:
        raise ValueError(f"each column must be there once, but {name!r} is there already")
    columns[name] = shown or name


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


class CLIReporter(LiveReporter):
    """The default reporter with columns and limits of your choice.

    Its arguments are those of `LiveReporter`.
    """


@dataclass(kw_only=True, eq=False, repr=False)
class JupyterNotebookReporter(LiveReporter):
    """The default reporter, which in a notebook shows HTML that is replaced.

    Args:
        overwrite: Whether the cell's output is cleared first.

    The other arguments are those of `LiveReporter`.

    Raises:
        ValueError: If an argument is out of range.
    """

    overwrite: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        require_flag("overwrite", self.overwrite)

    def _notebook_cell(self) -> NotebookCell | None:
        return NotebookCell(clears=self.overwrite) if in_notebook() else None


TuneReporterBase = LiveReporter
"""The base class of reporters in libraries, by Ray Tune's name."""


def default_reporter() -> LiveReporter:
    """The default reporter of a run. It shows up to four metrics."""
    return LiveReporter(infer_limit=METRICS_SHOWN, max_progress_rows=10, max_error_rows=5)
