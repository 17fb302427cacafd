"""What progress reporters have in common: the contract with the driver, and the engine that builds status blocks."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

from minitune import _table as table
from minitune import clock
from minitune._checks import is_real, require, require_flag, require_metric, shown
from minitune._console import Console
from minitune._table_errors import error_table, error_texts, last_line
from minitune.experiment.best import best_trial
from minitune.experiment.lifecycle import ERROR, PENDING
from minitune.experiment.trial import Trial
from minitune.result import DEFAULT_METRIC, TIME_TOTAL_S, TRAINING_ITERATION

_log = logging.getLogger("minitune")

_MAX_SHOWN_PARAMETERS = 20


class ProgressReporter:
    """Base class: what the driver asks and tells. A subclass has `should_report` and `report`."""

    def setup(
        self,
        start_time: float | None = None,
        total_samples: int | None = None,
        metric: str | None = None,
        mode: str | None = None,
        **kwargs: Any,
    ) -> None:
        """Take over what is known at the start of the run; called before everything else.

        Args:
            start_time: Seconds since the epoch.
            total_samples: How many trials there will be; a huge number if without end.
            metric: What is optimised.
            mode: `min` or `max`.
            **kwargs: More to come.
        """

    def configure(self, *, verbose: int, print_errors: bool) -> None:
        """Take over how much is to be shown; called before `setup`.

        Args:
            verbose: 0 shows nothing, 2 also each start, result and end of a trial.
            print_errors: Whether tracebacks are shown at the end.
        """

    def close(self) -> None:
        """The run is over, in whatever way: give back what was taken over in `setup`."""

    def should_report(self, trials: Sequence[Trial], done: bool = False) -> bool:
        """Whether `report` is to be called now. Asked in every turn of the driver's loop.

        Args:
            trials: All trials so far.
            done: Whether the run is over.
        """
        raise NotImplementedError(f"{type(self).__name__} has to define should_report(trials, done)")

    def report(self, trials: Sequence[Trial], done: bool, *sys_info: str) -> None:
        """Show the state of the run.

        Args:
            trials: All trials so far.
            done: Whether the run is over.
            *sys_info: Lines on the machine and the run.
        """
        raise NotImplementedError(f"{type(self).__name__} has to define report(trials, done, *sys_info)")

    def seconds_left(self) -> float | None:
        """In how many seconds `should_report` has to be asked again although nothing has happened; None: no need."""
        return None

    def say(self, text: str) -> None:
        """Show a message of the driver's."""

    def trial_started(self, trial: Trial) -> None:
        """The trial has a worker."""

    def trial_result(self, trial: Trial, result: Mapping[str, Any]) -> None:
        """The trial has reported; `result` is nested."""

    def trial_saved(self, trial: Trial, directory: str) -> None:
        """A checkpoint of the trial lies in `directory`."""

    def trial_ended(self, trial: Trial) -> None:
        """The trial has ended, well or badly."""

    def run_took(self, seconds: float) -> None:
        """The run is over, and took so long; one more report follows."""

    def failure_is_raised(self, trial: Trial) -> None:
        """The failure of this trial is raised after the last report, as an exception that shows its traceback."""


class TuneReporterBase(ProgressReporter):
    """Status blocks: time, machine, numbers of trials, a table, errors. How they are shown is left to the subclass.

    Args:
        metric_columns: Metrics to show: a list of names, or a dict from names to what is shown. By default the usual
            ones and the first few that trials report.
        parameter_columns: Parameters to show, likewise. By default all that are searched.
        total_samples: How many trials there will be; by default the run says.
        max_progress_rows: Rows of the table.
        max_error_rows: Rows of the error table.
        max_column_length: Characters of a cell.
        max_report_frequency: Seconds between two blocks.
        infer_limit: How many metrics to find out.
        print_intermediate_tables: False shows the table only at the end.
        metric: What is optimised; by default what the run optimises.
        mode: `min` or `max`.
        sort_by_metric: Show the best terminated trials first; needs metric and mode.

    Raises:
        ValueError: If an argument is out of range.
    """

    DEFAULT_COLUMNS: ClassVar[dict[str, str]] = {
        "mean_accuracy": "acc",
        "mean_loss": "loss",
        "training_iteration": "iter",
        "time_total_s": "total time (s)",
        "timesteps_total": "ts",
        "episode_reward_mean": "reward",
    }
    """What is shown of each trial by default, and how it is called."""

    def __init__(
        self,
        *,
        metric_columns: list[str] | dict[str, str] | None = None,
        parameter_columns: list[str] | dict[str, str] | None = None,
        total_samples: int | None = None,
        max_progress_rows: int = 20,
        max_error_rows: int = 20,
        max_column_length: int = 20,
        max_report_frequency: float = 5,
        infer_limit: int = 3,
        print_intermediate_tables: bool | None = None,
        metric: str | None = None,
        mode: str | None = None,
        sort_by_metric: bool = False,
    ):
        _check_mode(mode)
        for name, value, least in (
            ("max_progress_rows", max_progress_rows, 1),
            ("max_error_rows", max_error_rows, 1),
            ("max_column_length", max_column_length, 4),
            ("max_report_frequency", max_report_frequency, 0),
            ("infer_limit", infer_limit, 0),
        ):
            if not is_real(value) or not value >= least:
                raise ValueError(f"{name} >= {least} must hold, but got {shown(value)}")
        require(total_samples is None or is_real(total_samples), "total_samples: None or an int", total_samples)
        require_flag("print_intermediate_tables", print_intermediate_tables)
        require_flag("sort_by_metric", sort_by_metric)
        require_metric("metric", metric)
        self._infers = metric_columns is None
        self._metric_columns = _columns("metric_columns", metric_columns, self.DEFAULT_COLUMNS)
        self._parameter_columns = _columns("parameter_columns", parameter_columns, {})
        self._has_lists = isinstance(metric_columns, list), isinstance(parameter_columns, list)
        self._total_samples = total_samples
        self._max_progress_rows = max_progress_rows
        self._max_error_rows = max_error_rows
        self._max_column_length = max_column_length
        self._interval_s = max_report_frequency
        self._infer_limit = infer_limit
        self._shows_tables = print_intermediate_tables is not False
        self._own_metric = self._metric = metric
        self._own_mode = self._mode = mode
        self._sorts = sort_by_metric
        self._prefers_best = sort_by_metric
        self._verbose = 1
        self._prints_errors = True
        self._raised: Trial | None = None
        self._took_s: float | None = None
        self._begin_s = clock.current().monotonic()
        self._last_report_s: float | None = None
        self._console = Console()

    # -- set up --------------------------------------------------------------------------------------------------

    def configure(self, *, verbose: int, print_errors: bool) -> None:
        """See `ProgressReporter.configure`."""
        self._verbose = verbose
        self._prints_errors = print_errors
        self._raised = None

    def failure_is_raised(self, trial: Trial) -> None:
        """See `ProgressReporter.failure_is_raised`. Its traceback is left to the exception."""
        self._raised = trial

    def setup(
        self,
        start_time: float | None = None,
        total_samples: int | None = None,
        metric: str | None = None,
        mode: str | None = None,
        **kwargs: Any,
    ) -> None:
        """See `ProgressReporter.setup`. Metric and mode that the reporter was made with stay."""
        _check_mode(mode)
        self._metric, self._mode = self._own_metric or metric, self._own_mode or mode
        if self._mode and not self._metric:
            self._metric = DEFAULT_METRIC
        if self._sorts and not (self._metric and self._mode):
            _log.warning("sort_by_metric has no effect without metric and mode")
        self._total_samples = total_samples if total_samples is not None else self._total_samples
        now = clock.current()
        self._begin_s = now.monotonic() - (max(0.0, now.time() - start_time) if start_time is not None else 0.0)
        self._took_s = None
        self._last_report_s = None

    def run_took(self, seconds: float) -> None:
        """See `ProgressReporter.run_took`."""
        self._took_s = seconds

    def _elapsed_s(self) -> float:
        """How long the run has been going on, or took."""
        return clock.current().monotonic() - self._begin_s if self._took_s is None else self._took_s

    def prefer_best(self) -> None:
        """Show the best terminated trials first if the run tells metric and mode; else those that ended last."""
        self._prefers_best = True

    def add_metric_column(self, metric: str, representation: str | None = None) -> None:
        """Show one more metric; from then on none is found out.

        Args:
            metric: Its flattened name.
            representation: What is shown for the name.

        Raises:
            ValueError: If it is there already, or renamed although the columns were given as a list.
        """
        _add_column(self._metric_columns, self._has_lists[0], metric, representation)
        self._infers = False

    def add_parameter_column(self, parameter: str, representation: str | None = None) -> None:
        """Show one more parameter.

        Args:
            parameter: Its path.
            representation: What is shown for the path.

        Raises:
            ValueError: If it is there already, or renamed although the columns were given as a list.
        """
        _add_column(self._parameter_columns, self._has_lists[1], parameter, representation)

    # -- status blocks ---------------------------------------------------------------------------------------------

    def should_report(self, trials: Sequence[Trial], done: bool = False) -> bool:
        """True at the start, when the interval is over, and at the end."""
        if not self._verbose or self._console.is_off:
            return False
        now_s = clock.current().monotonic()
        if done or self._last_report_s is None or now_s - self._last_report_s >= self._interval_s:
            self._last_report_s = now_s
            return True
        return False

    def seconds_left(self) -> float | None:
        """Seconds until the next block."""
        if not self._verbose or self._console.is_off:
            return None
        if self._last_report_s is None:
            return 0.0
        return max(0.0, self._last_report_s + self._interval_s - clock.current().monotonic())

    def say(self, text: str) -> None:
        """Show a message of the driver's."""
        if self._verbose:
            self._console.write(f"{text}\n")

    def _parts(self, trials: Sequence[Trial], done: bool, sys_info: Sequence[str]) -> list[table.Part]:
        """What a status block consists of."""
        statuses = table.by_status(trials)
        parts: list[table.Part] = [
            "== Status ==",
            table.time_line(self._elapsed_s()),
            *sys_info,
        ]
        columns = self._shown_metrics(trials)
        parts += self._best_line(trials, columns)
        parts.append(self._count_line(statuses, len(trials)))
        has_begun = len(statuses[PENDING]) < len(trials) or any(trial.last_result for trial in trials)
        if has_begun and (done or self._shows_tables):
            shown, left_out = table.choose_rows(statuses, self._max_progress_rows, self._rank())
            parts.append(
                table.trial_table(shown, self._parameter_columns, columns, self._max_column_length, self._metric)
            )
            if left_out:
                counts = ", ".join(f"{count} {status}" for status, count in left_out.items())
                parts.append(f"... {sum(left_out.values())} more trials not shown ({counts})")
        parts += error_table(trials, self._max_error_rows)
        if done and self._prints_errors:
            parts += error_texts(trials, self._raised)
        return parts

    def _progress_str(self, trials: Sequence[Trial], done: bool, *sys_info: str) -> str:
        """A status block as text, ending in a newline; subclasses of users print it in their own way."""
        return table.as_text(self._parts(trials, done, sys_info), self._console.columns()) + "\n"

    def _shown_metrics(self, trials: Sequence[Trial]) -> dict[str, str]:
        """Names of the metric columns by metric."""
        columns = dict(self._metric_columns)
        if self._infers:
            names = table.infer_metrics(trials, columns, self._infer_limit)
            if self._metric and self._metric not in {*columns, *names}:
                names = [self._metric, *names[: self._infer_limit - 1]]
            columns.update(zip(names, names, strict=True))
        return columns

    def _metric_of(self, columns: Mapping[str, str]) -> str | None:
        """What is optimised; if the run does not say, the only metric that was reported."""
        is_only = self._infers and len(columns) == len(self._metric_columns) + 1
        return list(columns)[-1] if self._metric is None and is_only else self._metric

    def _best_line(self, trials: Sequence[Trial], columns: Mapping[str, str]) -> list[str]:
        metric = self._metric_of(columns)
        best = best_trial(trials, metric, self._mode) if metric and self._mode else None
        if best is None or metric is None:
            return []
        names = list(self._parameter_columns or best.config)[:_MAX_SHOWN_PARAMETERS]
        values = ", ".join(f"{name!r}: {table.short_repr(table.parameter_of(best, name))}" for name in names)
        return [
            f"Current best trial: {best.trial_id} with {metric}={table.look_up(best.last_result, metric)}"
            f" and parameters={{{values}}}"
        ]

    def _count_line(self, statuses: Mapping[str, Sequence[Trial]], count: int) -> str:
        total = self._total_samples
        of = "" if not total else "/infinite" if total < 0 or total >= sys.maxsize else f"/{total}"
        parts = ", ".join(f"{len(found)} {status}" for status, found in statuses.items() if found)
        return f"Number of trials: {count}{of}{f' ({parts})' if parts else ''}"

    def _rank(self) -> Callable[[Trial], float] | None:
        metric = self._metric
        if not (self._prefers_best and metric and self._mode):
            return None
        sign = -1.0 if self._mode == "max" else 1.0

        def rank(trial: Trial) -> float:
            value = table.number_of(table.look_up(trial.last_result, metric))
            return float("inf") if value is None else sign * value

        return rank

    # -- one trial -------------------------------------------------------------------------------------------------

    @property
    def _shows_trials(self) -> bool:
        """Whether starts and ends of trials are told."""
        return self._verbose >= 2

    def trial_started(self, trial: Trial) -> None:
        """On a terminal or at level 2: the trial and its parameters."""
        if self._shows_trials:
            names = list(trial.evaluated_params)[:_MAX_SHOWN_PARAMETERS]
            values = ", ".join(f"{name}={self._cell(table.parameter_of(trial, name))}" for name in names)
            self.say(f"Trial {trial.name} started{f': {values}' if values else ''}")

    def trial_result(self, trial: Trial, result: Mapping[str, Any]) -> None:
        """At level 2: the iteration and the first metrics."""
        if self._verbose >= 2:
            self.say(f"Trial {trial.name} iteration {result.get(TRAINING_ITERATION)}: {self._values(result)}")

    def trial_saved(self, trial: Trial, directory: str) -> None:
        """At level 2: where the checkpoint lies."""
        if self._verbose >= 2:
            self.say(f"Trial {trial.name} saved a checkpoint: {directory}")

    def trial_ended(self, trial: Trial) -> None:
        """On a terminal or at level 2: how the trial has ended."""
        never_began = trial.status != ERROR and trial.start_time is None and not trial.last_result
        if not self._shows_trials or never_began:
            return
        if trial.status == ERROR:
            self.say(f"Trial {trial.name} failed: {last_line(trial)} ({trial.error_file})")
        else:
            result, values = trial.last_result, self._values(trial.last_result)
            ended = f"Trial {trial.name} ended after {result.get(TRAINING_ITERATION, 0)} iterations"
            self.say(f"{ended}: {values}" if values else ended)

    def _values(self, result: Mapping[str, Any]) -> str:
        found = table.metrics_of(result)
        first = [self._metric] if self._metric in found else []
        names = list(dict.fromkeys([*first, *found]))[: max(1, self._infer_limit)]
        values = [f"{name}={self._cell(found[name])}" for name in names if name is not None]
        if TIME_TOTAL_S in result:
            values.append(f"total time {self._cell(result[TIME_TOTAL_S])} s")
        return ", ".join(values)

    def _cell(self, value: Any) -> str:
        return table.format_cell(value, self._max_column_length)


def _check_mode(mode: str | None) -> None:
    if mode not in (None, "min", "max"):
        raise ValueError(f"mode must be 'min' or 'max', but got {mode!r}")


def _columns(argument: str, given: Any, default: Mapping[str, str]) -> dict[str, str]:
    """Columns as a dict from name to what is shown."""
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
