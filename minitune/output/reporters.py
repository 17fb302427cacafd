"""Progress reporters: they show the state of a run in a terminal, a log or a notebook.

In every turn of its loop, the driver calls `should_report`, and perhaps `report`. It also reports each trial's start,
result and end at once. All of this delays the trials, so reporters limit their cost: by an interval, or by a share of
the driver's time.

- `ProgressReporter` is the interface.
- `TuneReporterBase` builds status blocks. `CLIReporter` shows them as text, `JupyterNotebookReporter` as HTML.
- `live_reporter` has the default: a view that is redrawn; elsewhere, a few lines.
"""

from __future__ import annotations

import importlib
import logging
import sys
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from minitune import clock
from minitune.base.checks import is_real, require, require_flag, require_metric, shown
from minitune.base.table import Part, as_html, as_text, format_cell
from minitune.base.text import Console, broken, counted
from minitune.experiment import states
from minitune.experiment.goal import Goal, Metric, best_trial, check_mode
from minitune.experiment.lifecycle import ERROR
from minitune.experiment.trial import Trial
from minitune.output import status_block
from minitune.output.rows import (
    BLOCK_LOOK,
    MAX_SHOWN_VALUES,
    USUAL_METRICS,
    last_line,
    metric_columns,
    metrics_of,
    trials_table,
)
from minitune.output.screen import NotebookCell, Screen, in_notebook, open_screen
from minitune.output.status_block import error_table, error_texts
from minitune.result import DEFAULT_METRIC, TIME_TOTAL_S, TRAINING_ITERATION
from minitune.space.tree import value_at_text

logger = logging.getLogger("minitune")

BACK_S = 0.1
"""The time after which an erased block is drawn again."""
NOTEBOOK_SHARE = 0.05
"""The most of the driver's time for updates of a notebook. Not measured: more delays trials."""


class ProgressReporter:
    """Base class of reporters. A subclass defines `should_report` and `report`."""

    def setup(
        self,
        start_time: float | None = None,
        total_samples: int | None = None,
        metric: Metric = None,
        mode: Metric = None,
        **kwargs: Any,
    ) -> None:
        """Called at the start of the run, at `start_time` in seconds since the epoch. `total_samples` is very large for
        an endless search.
        """

    def configure(self, *, verbose: int, print_errors: bool) -> None:
        """Set how much to show: `verbose` 0 shows nothing, 2 also shows each start, result and end of a trial. Called
        before `setup`.
        """

    def close(self) -> None:
        """Release the terminal. Called at the end of each run, also after a failure."""

    def should_report(self, trials: Sequence[Trial], done: bool = False) -> bool:
        """Whether to call `report` now. Asked in every turn of the driver's loop."""
        raise NotImplementedError(f"{type(self).__name__} has to define should_report(trials, done)")

    def note_run(self, info: status_block.RunInfo) -> None:
        """Receive the state of the machine and the run as data. Called before each `report`."""

    def report(self, trials: Sequence[Trial], done: bool, *sys_info: str) -> None:
        """Show the state of the run. `sys_info` are lines on the machine and the run, from `RunInfo.lines`."""
        raise NotImplementedError(f"{type(self).__name__} has to define report(trials, done, *sys_info)")

    def seconds_left(self) -> float | None:
        """Seconds after which the driver calls `should_report` again even without an event; None means never."""
        return None

    def say(self, text: str) -> None:
        """Show a message of the driver. The base class shows nothing."""

    def trial_started(self, trial: Trial) -> None:
        """The trial has a worker."""

    def trial_result(self, trial: Trial, result: Mapping[str, Any]) -> None:
        """The trial has reported; `result` is nested."""

    def trial_saved(self, trial: Trial, directory: str) -> None:
        """The trial has saved a checkpoint in `directory`."""

    def trial_ended(self, trial: Trial) -> None:
        """The trial has finished or failed."""

    def run_took(self, seconds: float) -> None:
        """The run is over, and took this time. One more report follows."""

    def failure_is_raised(self, trial: Trial) -> None:
        """After the last report, the driver will raise this trial's failure, which shows the traceback."""


# -- status blocks -----------------------------------------------------------------------------------------------------
@dataclass(kw_only=True, eq=False, repr=False)
class TuneReporterBase(ProgressReporter):
    """Status blocks: time, machine, numbers of trials, a table, errors. A subclass shows them.

    Args:
        metric_columns: Metrics to show: a list of names, or a dict from names to headers. By default the usual ones
            (`DEFAULT_COLUMNS`) and the first few that trials report.
        parameter_columns: Parameters to show, in the same way. By default, all searched ones.
        total_samples: The number of trials; by default that of the run.
        max_progress_rows: The most rows of the table.
        max_error_rows: The most rows of the error table.
        max_column_length: The most characters of a cell.
        max_report_frequency: Seconds between two blocks.
        infer_limit: How many of the metrics that trials report are shown by default.
        print_intermediate_tables: False shows the table only at the end.
        sort_by_metric: Whether the best terminated trials come first; needs metric and mode.

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
        self._interval_s = self.max_report_frequency
        self._goal = Goal(self.metric, self.mode)
        self._verbose = 1
        self._prints_errors = True
        self._raised: Trial | None = None
        self._begin_s = clock.current.monotonic()
        self._console = Console()
        self._notebook: NotebookCell | None = None
        self._reset()

    # -- set up ----------------------------------------------------------------------------------------------------
    def configure(self, *, verbose: int, print_errors: bool) -> None:
        self._verbose = verbose
        self._prints_errors = print_errors
        self._raised = None

    def failure_is_raised(self, trial: Trial) -> None:
        """The last block leaves the traceback to the exception."""
        self._raised = trial

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
        if self.sort_by_metric and not (self._goal.metric and self._goal.mode):
            logger.warning("sort_by_metric has no effect without metric and mode")
        if total_samples is not None:
            self._total_samples = total_samples
        now = clock.current
        self._begin_s = now.monotonic()
        if start_time is not None:
            self._begin_s -= max(0.0, now.time() - start_time)
        self._reset()
        self._open()

    def _open(self) -> None:
        """Take the terminal, if the reporter draws on it. Called at the end of `setup`."""

    def _reset(self) -> None:
        """Forget the previous run. Called by the constructor and by `setup`."""
        self._took_s: float | None = None
        self._last_report_s: float | None = None

    def run_took(self, seconds: float) -> None:
        self._took_s = seconds

    def _elapsed_s(self) -> float:
        """The time since the start of the run; after its end, the time that it took."""
        if self._took_s is None:
            return clock.current.monotonic() - self._begin_s
        return self._took_s

    def add_metric_column(self, metric: str, representation: str | None = None) -> None:
        """Show one more metric. The metrics that trials report then get no columns automatically.

        Raises:
            ValueError: If it is shown already, or it has a header although the columns were given as a list.
        """
        _add_column(self._metric_columns, isinstance(self.metric_columns, list), metric, representation)
        self._infers = False

    def add_parameter_column(self, parameter: str, representation: str | None = None) -> None:
        """Show one more parameter.

        Raises:
            ValueError: As by `add_metric_column`.
        """
        _add_column(self._parameter_columns, isinstance(self.parameter_columns, list), parameter, representation)

    # -- status blocks ---------------------------------------------------------------------------------------------
    def should_report(self, trials: Sequence[Trial], done: bool = False) -> bool:
        """True at the start, when the interval is over, and at the end."""
        # Not `self.seconds_left()`: that of a subclass may be the time until its own redraw.
        left_s = TuneReporterBase.seconds_left(self)
        # The last block is shown in any case, whenever the one before it was.
        is_due = left_s is not None and (done or left_s <= 0)
        if is_due:
            self._last_report_s = clock.current.monotonic()
        return is_due

    def seconds_left(self) -> float | None:
        if not self._verbose or self._console.is_off:
            return None
        if self._last_report_s is None:
            return 0.0
        return max(0.0, self._last_report_s + self._interval_s - clock.current.monotonic())

    def say(self, text: str) -> None:
        """Show a message of the driver. In a notebook, it is below the end of the run, once that is shown."""
        if self._verbose and not (self._notebook is not None and self._notebook.add(text)):
            self._console.write(f"{text}\n")

    def _parts(self, trials: Sequence[Trial], done: bool, sys_info: Sequence[str]) -> list[Part]:
        statuses = status_block.by_state(trials)
        parts: list[Part] = ["== Status ==", status_block.time_line(self._elapsed_s()), *sys_info]
        columns = self._shown_metrics(trials)
        parts += status_block.best_line(trials, self._goal, list(self._parameter_columns))
        total = self._total_samples
        number = f"Number of trials: {len(trials)}"
        if total and 0 < total < sys.maxsize:
            number += f"/{total}"
        elif total:
            number += "/infinite"
        counts = ", ".join(f"{len(found)} {status}" for status, found in statuses.items() if found)
        if counts:
            number += f" ({counts})"
        parts.append(number)
        # A table of waiting trials would say nothing.
        has_begun = len(statuses[states.PENDING]) < len(trials) or any(trial.progress.metrics for trial in trials)
        if has_begun and (done or self.print_intermediate_tables is not False):
            ranked = self._goal.ranked(trials) if self.sort_by_metric else []
            shown, left_out = status_block.choose_rows(statuses, self.max_progress_rows, ranked)
            look = replace(BLOCK_LOOK, cell=self.max_column_length)
            parts.append(trials_table(shown, look, self._goal, self._parameter_columns, columns))
            if left_out:
                counts = ", ".join(f"{count} {status}" for status, count in left_out.items())
                parts.append(f"... {sum(left_out.values())} more trials not shown ({counts})")
        # Below the table, where the last lines of a terminal are: errors are what people look for.
        parts += error_table(trials, self.max_error_rows)
        if done and self._prints_errors:
            parts += error_texts(trials, self._raised)
        return parts

    def _progress_str(self, trials: Sequence[Trial], done: bool, *sys_info: str) -> str:
        return as_text(self._parts(trials, done, sys_info), self._console.columns()) + "\n"

    def _current_best_trial(self, trials: Sequence[Trial]) -> tuple[Trial | None, str | None]:
        """The best trial so far and the metric; reporters in libraries call it by Ray Tune's name."""
        metric = self._goal.metric
        if metric is None or self._goal.mode is None:
            return None, metric
        return best_trial(trials, metric, self._goal.mode), metric

    def _shown_metrics(self, trials: Sequence[Trial]) -> dict[str, str]:
        """The headers of the metric columns, by metric."""
        if not self._infers:
            return self._metric_columns
        return metric_columns(trials, self._goal, self.infer_limit, self._metric_columns)

    # -- one trial -------------------------------------------------------------------------------------------------
    @property
    def _shows_trials(self) -> bool:
        return self._verbose >= 2

    def trial_started(self, trial: Trial) -> None:
        """At level 2: the trial and its parameters."""
        if self._shows_trials:
            names = list(trial.evaluated_params)[:MAX_SHOWN_VALUES]
            config = trial.attempt.config  # not `reported_config`: that of its last result may be another one
            found = [value_at_text(config, name, trial.evaluated_params[name]) for name in names]
            values = ", ".join(f"{name}={self._cell(value)}" for name, value in zip(names, found, strict=True))
            text = f"Trial {trial.name} started"
            if values:
                text += f": {values}"
            self.say(text)

    def trial_result(self, trial: Trial, result: Mapping[str, Any]) -> None:
        """At level 2: the iteration and the first metrics."""
        if self._shows_trials:
            self.say(f"Trial {trial.name} iteration {result.get(TRAINING_ITERATION)}: {self._values(result)}")

    def trial_saved(self, trial: Trial, directory: str) -> None:
        """At level 2: the directory of the checkpoint."""
        if self._shows_trials:
            self.say(f"Trial {trial.name} saved a checkpoint: {directory}")

    def trial_ended(self, trial: Trial) -> None:
        """At level 2: how the trial has ended."""
        never_started = trial.status != ERROR and not trial.has_started
        if not self._shows_trials or never_started:
            return
        if trial.status == ERROR:
            self.say(f"Trial {trial.name} failed: {last_line(trial)} ({trial.error_file})")
        else:
            result = trial.progress.metrics
            values = self._values(trial.progress.metrics)
            text = f"Trial {trial.name} ended after {counted(result.get(TRAINING_ITERATION, 0), 'iteration')}"
            if values:
                text += f": {values}"
            self.say(text)

    def _values(self, result: Mapping[str, Any]) -> str:
        found = metrics_of(result)
        first = []
        if self._goal.metric in found:
            first = [self._goal.metric]
        names = list(dict.fromkeys([*first, *found]))[: max(1, self.infer_limit)]
        values = [f"{name}={self._cell(found[name])}" for name in names if name is not None]
        if TIME_TOTAL_S in result:
            values.append(f"total time {self._cell(result[TIME_TOTAL_S])} s")
        return ", ".join(values)

    def _cell(self, value: Any) -> str:
        return format_cell(value, self.max_column_length)


def _get_trials_by_state(trials: Sequence[Trial]) -> dict[str, list[Trial]]:
    """The trials by Ray Tune's names of their states; reporters in libraries call it by Ray Tune's name."""
    found: dict[str, list[Trial]] = defaultdict(list)
    for trial in trials:
        found[trial.status].append(trial)
    return found


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


def _add_column(columns: dict[str, str], is_list: bool, name: str, shown: str | None) -> None:
    if name in columns:
        raise ValueError(f"each column must be there once, but {name!r} is there already")
    if is_list and shown not in (None, name):
        raise ValueError(f"a column can be renamed if the columns are a dict, but they are a list; got {shown!r}")
    columns[name] = shown or name


# -- terminals ---------------------------------------------------------------------------------------------------------
class ScreenReporter(TuneReporterBase):
    """A reporter that uses the terminal from `setup` to `close`, unless another reporter does.

    Its arguments are those of `TuneReporterBase`.
    """

    _screen: Screen | None = None
    _drawn_s = 0.0

    def _open(self) -> None:
        self.close()
        if self._verbose:
            self._screen = open_screen()

    def close(self) -> None:
        self._release(keeps=True)

    def _release(self, keeps: bool) -> None:
        """Release the terminal. The block stays or is erased."""
        if self._screen is not None:
            self._screen.close(keeps=keeps)
            self._screen = None

    def say(self, text: str) -> None:
        if self._screen is not None and self._verbose:
            self._screen.write(f"{text}\n")
        else:
            super().say(text)


class CLIReporter(ScreenReporter):
    """Shows status blocks on standard output. On a terminal, each replaces the last one.

    Its arguments are those of `TuneReporterBase`.
    """

    def should_report(self, trials: Sequence[Trial], done: bool = False) -> bool:
        """True at the start, after the interval, at the end, and after other output has erased the block."""
        return super().should_report(trials, done) or (self._is_erased() and self._seconds_back() <= 0)

    def seconds_left(self) -> float | None:
        left_s = super().seconds_left()
        if left_s is None or not self._is_erased():
            return left_s
        return min(left_s, self._seconds_back())

    def report(self, trials: Sequence[Trial], done: bool, *sys_info: str) -> None:
        text = self._progress_str(trials, done, *sys_info)
        if done:
            self._release(keeps=False)
        if self._screen is None:
            self._console.write(f"{text}\n")
            return
        width, height = self._screen.size()
        # The terminal would break long lines itself, and the cursor would not find the first line of the block again.
        lines = [part for line in text.splitlines() for part in broken(line, width)]
        if len(lines) > height:
            lines = [*lines[: height - 1], "..."]
        self._screen.draw(lines)
        self._drawn_s = time.monotonic()

    def _is_erased(self) -> bool:
        return self._screen is not None and self._screen.is_erased

    def _seconds_back(self) -> float:
        return max(0.0, self._drawn_s + BACK_S - time.monotonic())


# -- notebooks ---------------------------------------------------------------------------------------------------------
@dataclass(kw_only=True, eq=False, repr=False)
class JupyterNotebookReporter(TuneReporterBase):
    """Shows status blocks in a notebook, as HTML that is replaced. Needs IPython.

    Args:
        overwrite: Whether the cell's output is cleared before the first block.

    The other arguments are those of `TuneReporterBase`.

    Raises:
        ImportError: If IPython is not installed.
        ValueError: If an argument is out of range.
    """

    overwrite: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        require_flag("overwrite", self.overwrite)
        try:
            importlib.import_module("IPython.display")
        except ImportError as error:
            raise ImportError(
                f"JupyterNotebookReporter needs IPython ({error}); install it with: pip install ipython, or use a "
                "CLIReporter"
            ) from error
        if not in_notebook():
            logger.warning("JupyterNotebookReporter shows HTML, but this is no notebook; a CLIReporter shows text")

    def _reset(self) -> None:
        super()._reset()
        self._notebook = NotebookCell(clears=self.overwrite)  # each run has its own output cell
        self._blocks = self._notebook

    def report(self, trials: Sequence[Trial], done: bool, *sys_info: str) -> None:
        begin_s = time.monotonic()
        parts = self._parts(trials, done, sys_info)
        if done:
            self._blocks.show_end(parts)
        else:
            self._blocks.show(as_html(parts), as_text(parts))
        # Each block is sent to the browser as a whole, which is slow with many trials.
        self._interval_s = max(self.max_report_frequency, (time.monotonic() - begin_s) / NOTEBOOK_SHARE)

    def display(self, string: str) -> None:
        """Replace the last output of this reporter by HTML."""
        self._blocks.show(string, string)
