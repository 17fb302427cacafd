"""ExperimentAnalysis: the trials of a run, from its driver or from its directory, and the best of them.

This module unpickles nothing, so it can read runs that are not trusted. The reports of a trial come from the run's
journal. The trial's `result.json` and `progress.csv` are read only if there is no journal, because the trainable may
have written files with these names itself.
"""

from __future__ import annotations

import contextlib
import csv
import io
import json
import logging
import math
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from minitune.base import files, json_text
from minitune.base.checks import require, require_flag, require_metric
from minitune.base.files import local_path
from minitune.base.text import warn_once
from minitune.checkpoint import Checkpoint
from minitune.config import refuse_out_of_scope
from minitune.error import TuneError
from minitune.experiment.trial import (
    Goal,
    Metric,
    Trial,
    best_of,
    best_trial,
    check_mode,
    check_objectives,
    is_number,
    is_unreported,
    require_reported,
    why_no_best,
)
from minitune.record import journal
from minitune.record.codec import Pickled
from minitune.record.layout import RunDirectory, run_path
from minitune.result import (
    CHECKPOINT_DIR_NAME,
    CONFIG,
    DATE,
    DEFAULT_METRIC,
    EXPERIMENT_TAG,
    EXPR_PARAM_FILE,
    EXPR_PROGRESS_FILE,
    EXPR_RESULT_FILE,
    HOSTNAME,
    NODE_IP,
    TIME_TOTAL_S,
    TIMESTAMP,
    TRAINING_ITERATION,
    TRIAL_ID,
    complete,
    flatten,
)
from minitune.settings import setting

if TYPE_CHECKING:
    import pandas

logger = logging.getLogger("minitune")

Row = dict[str, Any]

_TEXT_COLUMNS = frozenset({TRIAL_ID, EXPERIMENT_TAG, DATE, HOSTNAME, NODE_IP, CHECKPOINT_DIR_NAME})

_INT = re.compile(r"[+-]?\d{1,4000}")

_FLOAT = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?|[+-]?inf|nan", re.IGNORECASE)

_IDENTITY = (TRIAL_ID, TRAINING_ITERATION, TIMESTAMP)
"""The keys that identify a report."""

_PLAIN = frozenset({str, int, float, bool, type(None)})

_INFINITIES = {"Infinity": math.inf, "-Infinity": -math.inf}


class ExperimentAnalysis:
    """The trials of a run and the best of them.

    Args:
        experiment_checkpoint_path: The run's directory, its journal, its name below the storage path, or `last` for the
            newest run there. The run may still be running. Nothing is unpickled,
            so objects in configurations that were pickled are shown as text.
        storage_filesystem: Accepted for Ray Tune's signature; only None is possible.
        trials: The trials of the run; by default they are read from the directory, without the trainable.
        default_metric: The metric of the `best_...` members. If there is only a mode, it is `_metric`, the name of a
            number that a trainable returns. For several objectives, a list; then there is no default objective.
        default_mode: `"min"` or `"max"`; for a list of metrics, a list.

    Raises:
        ValueError: If the mode is unknown, or the directory contains no run.
        JournalCorruptError: If the journal is damaged.

    Attributes:
        trials: The trials, in order of submission.
        experiment_path: The run's directory.
    """

    def __init__(
        self,
        experiment_checkpoint_path: str | os.PathLike[str],
        *,
        storage_filesystem: None = None,
        trials: Sequence[Trial] | None = None,
        default_metric: Metric = None,
        default_mode: Metric = None,
    ):
        refuse_out_of_scope(storage_filesystem)
        if isinstance(default_metric, (list, tuple)):
            check_objectives(default_metric, default_mode)
        else:
            require_metric("default_metric", default_metric)
            if default_mode is not None:
                check_mode(str(default_mode))
            default_metric = default_metric or (DEFAULT_METRIC if default_mode else None)
        self._goal = Goal.of(default_metric, default_mode)
        self.default_metric, self.default_mode = self._goal.metric, self._goal.mode
        path = local_path(experiment_checkpoint_path)
        if trials is None:
            from minitune.record.story import read_run  # imported here, because the script of a run does not need it

            try:
                run = read_run(run_path(experiment_checkpoint_path))
            except FileNotFoundError as error:
                raise ValueError(str(error)) from error
            path, trials = run.path, run.trials
        good = isinstance(trials, Iterable) and all(issubclass(kind, Trial) for kind in set(map(type, trials)))
        require(good, "trials: None or a list of Trial objects, such as those of another analysis", trials)
        self.experiment_path = path
        self.trials = list(trials)

    @cached_property
    def seed(self) -> int | None:
        """The base seed of the run, whether set or drawn. `TuneConfig(seed=...)` with it repeats the run.

        It is read from the run's journal; None if there is none.

        Raises:
            JournalCorruptError: If the journal is damaged.
        """
        from minitune.record.story import Story

        try:
            story = Story(self.experiment_path, details=False)
            next(story.follow(journal.read(RunDirectory(self.experiment_path).journal)), None)
        except FileNotFoundError:
            return None
        return story.seed

    def _repr_html_(self) -> str:
        """Shown by notebooks."""
        from minitune.output.table import run_html

        return run_html(self.trials, self._goal, self.experiment_path)

    # -- all trials ------------------------------------------------------------------------------------------------

    @property
    def results(self) -> dict[str, dict[str, Any]]:
        """The last result of each trial, by trial id."""
        return {trial.trial_id: last_result_of(trial) for trial in self.trials}

    @property
    def results_df(self) -> pandas.DataFrame:
        """The flattened last result of each trial; the index is the trial id. Needs pandas."""
        rows = [flat_row(result, setting("RESULT_DELIM")) for result in self.results.values()]
        return import_pandas().DataFrame.from_records(rows, index=TRIAL_ID)

    @cached_property
    def trial_dataframes(self) -> dict[str, pandas.DataFrame]:
        """All reports of each trial, by trial id. Needs pandas."""
        pandas = import_pandas()
        return {trial.trial_id: pandas.DataFrame(trial_rows(trial.local_path)) for trial in self.trials}

    def get_all_configs(self, prefix: bool = False) -> dict[str, dict[str, Any]]:
        """The configuration of each trial, by trial id. With `prefix`: flattened, with the prefix `config/`."""
        if prefix:
            return {trial.trial_id: flat_row({CONFIG: trial.raw_config}) for trial in self.trials}
        return {trial.trial_id: dict(trial.raw_config) for trial in self.trials}

    def get_rows(self, metric: str | None = None, mode: str | None = None) -> list[Row]:
        """One row for each trial: a flattened report, `config/<key>`, and the trial's directory as `logdir`.

        Needs no pandas. The row of a trial without reports has only its configuration, directory and id.

        Args:
            metric: Use the report with the best value of this metric instead of the last report. The default metric and
                mode are not used here.
            mode: `"min"` or `"max"`; without a mode, the last report is used.

        Raises:
            ValueError: If the mode is unknown, there is a mode without a metric, or trials have reported, but none of
                them the metric.
        """
        require_metric("metric", metric)
        if mode is not None:
            check_mode(mode)
            if metric is None:
                raise ValueError(f"a mode needs a metric, but got mode={mode!r} and no metric; pass both or neither")
        found, is_known = [], metric is None
        for trial in self.trials:
            rows = trial_rows(trial.local_path) if trial.last_metrics else []
            is_known = is_known or any(metric in row for row in rows)
            row = rows[-1] if rows else flat_row(last_result_of(trial))
            if metric is not None and mode is not None:
                row = best_of(((each[metric], each) for each in rows if is_number(each.get(metric))), mode) or row
            metrics = {key: value for key, value in row.items() if key != CONFIG and not key.startswith(f"{CONFIG}/")}
            found.append(metrics | flat_row({CONFIG: trial.raw_config}) | {"logdir": trial.local_path})
        if metric is not None and not is_known:  # an early report may have had a flag or a text of this name
            require_reported(self.trials, metric, self.experiment_path)
        return found

    def dataframe(self, metric: str | None = None, mode: str | None = None) -> pandas.DataFrame:
        """The rows of `get_rows` as a data frame, without trials that have no report. Needs pandas.

        Raises:
            ImportError: If pandas is not installed.
            ValueError: See `get_rows`.
        """
        pandas = import_pandas()
        rows = self.get_rows(metric, mode)
        return pandas.DataFrame([row for row, trial in zip(rows, self.trials, strict=True) if trial.last_metrics])

    # -- the best one ----------------------------------------------------------------------------------------------

    @property
    def best_trial(self) -> Trial | None:
        """The best trial by the default metric and mode. None, with a warning, if no trial has a usable value.

        Raises:
            ValueError: If there is no default metric or mode.
        """
        return self.get_best_trial(*self._one_goal(None, None))

    @property
    def best_config(self) -> dict[str, Any] | None:
        """The configuration of the best trial; see `best_trial`."""
        return self.get_best_config(*self._one_goal(None, None))

    @property
    def best_result(self) -> dict[str, Any]:
        """The last result of the best trial.

        Raises:
            ValueError: If there is no default metric or mode, or no trial has a usable value.
        """
        return last_result_of(self._require_best())

    @property
    def best_result_df(self) -> pandas.DataFrame:
        """The flattened `best_result` as a data frame with one row; the index is the trial id. Needs pandas."""
        row = flat_row(self.best_result, setting("RESULT_DELIM"))
        return import_pandas().DataFrame.from_records([row], index=TRIAL_ID)

    @property
    def best_dataframe(self) -> pandas.DataFrame:
        """All reports of the best trial. Raises the same errors as `best_result`. Needs pandas."""
        return self.trial_dataframes[self._require_best().trial_id]

    @property
    def best_checkpoint(self) -> Checkpoint | None:
        """The best kept checkpoint of the best trial. Raises the same errors as `best_result`."""
        return self.get_best_checkpoint(self._require_best(), *self._one_goal(None, None))

    def get_best_trial(
        self, metric: str | None = None, mode: str | None = None, scope: str = "last", filter_nan_and_inf: bool = True
    ) -> Trial | None:
        """The best trial. None, with a warning, if no trial has a usable value. Of equal trials, the first one wins.

        Without a metric or mode, the only trial of a run is the best one.

        Args:
            metric: The metric; by default `default_metric`.
            mode: `"min"` or `"max"`; by default `default_mode`.
            scope: The value by which trials are compared: `last`, `all` (the best one of the trial), `avg`,
                `last-5-avg` or `last-10-avg`.
            filter_nan_and_inf: Leave out trials whose value is not finite.

        Raises:
            ValueError: If there is no metric or no mode, or `scope` has another value.
        """
        best = self._find_best(metric, mode, scope, filter_nan_and_inf)
        if best is None:
            logger.warning("%s (%s)", self._why_no_best(metric), self.experiment_path)
        return best

    def _find_best(
        self, metric: str | None, mode: str | None, scope: str = "last", filter_nan_and_inf: bool = True
    ) -> Trial | None:
        """Like `get_best_trial`, but without a warning."""
        require_metric("metric", metric)
        require_flag("filter_nan_and_inf", filter_nan_and_inf)
        wanted = metric or self.default_metric
        is_known = mode or self.default_mode or self._goal.one(wanted, None)[1]
        if len(self.trials) == 1:
            if wanted in (None, DEFAULT_METRIC):
                return self.trials[0]
            if not is_known:
                return None if is_unreported(self.trials, wanted) else self.trials[0]
        metric, mode = self._one_goal(metric, mode)
        return best_trial(self.trials, metric, mode, scope, filter_nan_and_inf)

    def _front(self, metric: list[str] | None, mode: list[str] | None) -> list[Trial]:
        """See `ResultGrid.get_front`."""
        if metric is None and mode is None:
            metric, mode = (list(each) if isinstance(each, list) else None for each in self._goal.given)
        if not isinstance(metric, (list, tuple)) or not isinstance(mode, (list, tuple)):
            raise ValueError(
                f"metric and mode must be lists of one length for a front, but got metric={metric!r}, mode={mode!r}; "
                "pass them here, or set them for the run: TuneConfig(metric=[...], mode=[...])"
            )
        check_objectives(metric, mode)
        goal = Goal.of(metric, mode)
        for name, kind in goal.objectives.items():
            if kind != "obs":
                require_reported(self.trials, name, self.experiment_path)
        return goal.front(self.trials)

    def _why_no_best(self, metric: str | None) -> str:
        return why_no_best(self.trials, metric or self.default_metric or DEFAULT_METRIC)

    def get_best_config(
        self, metric: str | None = None, mode: str | None = None, scope: str = "last"
    ) -> dict[str, Any] | None:
        """The configuration of the best trial, or None; see `get_best_trial`."""
        best = self.get_best_trial(metric, mode, scope)
        return None if best is None else dict(best.raw_config)

    def get_best_checkpoint(
        self, trial: Trial, metric: str | None = None, mode: str | None = None
    ) -> Checkpoint | None:
        """The kept checkpoint of `trial` with the best value of a metric; None, with an error in the log, without one.

        Args:
            trial: The trial.
            metric: The metric; by default `default_metric`, else `training_iteration`.
            mode: `"min"` or `"max"`; by default `default_mode`.

        Raises:
            ValueError: If there is no mode, or `trial` is not a trial.
        """
        require(isinstance(trial, Trial), "trial: one of this analysis' trials", trial)
        metric, mode = self._one_goal(metric or self.default_metric or TRAINING_ITERATION, mode)
        scored = ((flatten(kept.metrics).get(metric), kept) for kept in trial.checkpoints)
        best = best_of(((value, kept) for value, kept in scored if is_number(value)), mode)
        if best is None:
            names = sorted({name for kept in trial.checkpoints for name in flatten(kept.metrics)})
            known = f"; its checkpoints have {', '.join(names)}" if names else ""
            logger.error("trial %s has no checkpoint with a value of %r%s", trial, metric, known)
            return None
        return Checkpoint(os.path.join(trial.local_path, best.record.directory))

    # names of Ray 1
    def get_best_logdir(self, metric: str | None = None, mode: str | None = None, scope: str = "last") -> str | None:
        """The directory of the best trial; see `get_best_trial`."""
        best = self.get_best_trial(metric, mode, scope)
        return best.local_path if best is not None else None

    @property
    def best_logdir(self) -> str:
        """The directory of the best trial. Raises the same errors as `best_result`."""
        return self._require_best().local_path

    def fetch_trial_dataframes(self) -> dict[str, pandas.DataFrame]:
        """All reports of each trial, by the trial's directory. Needs pandas."""
        frames = ExperimentAnalysis.trial_dataframes.__get__(self)
        return {trial.local_path: frames[trial.trial_id] for trial in self.trials}

    def stats(self) -> dict[str, float]:
        """When the run was started (`start_time`) and when it last changed (`timestamp`), in seconds since the epoch.

        Raises:
            ValueError: If the directory contains no run.
            JournalCorruptError: If the journal is damaged.
        """
        from minitune.record.story import read_run

        try:
            story = read_run(self.experiment_path)
        except FileNotFoundError as error:
            raise ValueError(str(error)) from error
        return {"start_time": story.begun_s, "timestamp": story.updated_s}

    def runner_data(self) -> dict[str, Any]:
        """Those entries of Ray Tune's state of a run that have a meaning here: times in seconds, and the metric."""
        stats = self.stats()
        return {
            "_start_time": stats["start_time"],
            "_last_checkpoint_time": stats["timestamp"],
            "_total_time": sum(trial.last_metrics.get(TIME_TOTAL_S, 0.0) for trial in self.trials),
            "_metric": self.default_metric,
            "_has_errored": any(trial.status == Trial.ERROR for trial in self.trials),
        }

    def get_last_checkpoint(
        self, trial: Trial | None = None, metric: str = TRAINING_ITERATION, mode: str = "max"
    ) -> Checkpoint | None:
        """The kept checkpoint of `trial` with the highest training iteration, or None.

        Args:
            trial: By default the best trial by `metric` and `mode`.
            metric: The metric.
            mode: `"min"` or `"max"`.
        """
        require_metric("metric", metric)
        check_mode(mode)
        trial = trial or self.get_best_trial(metric, mode)
        return None if trial is None else self.get_best_checkpoint(trial, TRAINING_ITERATION, "max")

    def _one_goal(self, metric: str | None, mode: str | None) -> tuple[str, str]:
        require_metric("metric", metric)
        metric, mode = self._goal.one(metric or None, mode)
        if metric is not None and mode is None and self.default_mode is not None:
            mode = self.default_mode  # as in Ray Tune
            warn_once(f"the mode of metric={metric!r} is not given; {mode!r} is used, which is that of {self._goal}")
        if metric is None and self._goal.objectives:
            raise ValueError(
                f"metric must be one of the run's objectives, {self._goal}: with several there is no best trial; pass "
                "metric=..., or ask the ResultGrid for get_front()"
            )
        if metric is None or mode is None:
            raise ValueError(
                f"metric and mode must be set, but got metric={metric!r}, mode={mode!r}; pass them here, or when "
                "the run is made: TuneConfig(metric=..., mode=...), run(metric=..., mode=...)"
            )
        check_mode(mode)
        return metric, mode

    def _require_best(self) -> Trial:
        best = self._find_best(*self._one_goal(None, None))
        if best is None:
            raise ValueError(f"{self._why_no_best(None)} ({self.experiment_path})")
        return best


def last_result_of(trial: Trial) -> dict[str, Any]:
    """The last result of a trial. Without a result, a dict with only the trial's id."""
    return trial.last_result or {TRIAL_ID: trial.trial_id}


# -- the reports of a trial --------------------------------------------------------------------------------------------


def trial_rows(directory: str) -> list[Row]:
    """All reports of a trial in order, flattened, including those of failed attempts.

    They come from the run's journal. The trial's directory may be the trainable's working directory, so a `result.json`
    in it may be the user's own file. The trial's files are read only if there is no journal, or it is damaged.

    Args:
        directory: The trial's directory, absolute.

    Returns:
        The reports; empty if there are none.

    Raises:
        OSError: If a file cannot be read.
    """
    try:
        rows = recorded_rows(directory)
    except TuneError as error:
        logger.warning("%s is read without the journal of its run: %s", directory, error)
        rows = None
    return [flat_row(row) for row in (logged_rows(directory) if rows is None else rows) or ()]


def recorded_rows(directory: str) -> list[Row] | None:
    """All reports of a trial in order, from the journal of its run. Unpickles nothing.

    Values are plain, as in `result.json`, except for NaN and infinities. A value that the journal stores as a pickle,
    such as an array, comes from the same report in `result.json`; if it is not there, it is replaced by a text.

    Args:
        directory: The trial's directory, absolute.

    Returns:
        The nested reports; None if there is no journal, or it does not contain the trial.

    Raises:
        TuneError: If the journal is damaged or cannot be read.
    """
    from minitune.record.story import read_reports

    run_path, name = os.path.split(directory)
    try:
        reports = read_reports(run_path).of(name)
    except FileNotFoundError:
        return None
    if reports is None:
        return None
    rows: list[Row] = []
    logged: list[Row] | None = None
    plain: set[int] = set()  # the ids of converted configurations, because reports share them, and they may be large
    for number, (metrics, config) in enumerate(reports):
        line: Row = {}
        if any(isinstance(value, Pickled) for value in flatten(metrics).values()):
            if logged is None:
                logged = logged_rows(directory) or []
            if number < len(logged) and all(logged[number].get(key) == metrics.get(key) for key in _IDENTITY):
                line = logged[number]
        make_plain(metrics, line)
        if id(config) not in plain:
            make_plain(config, {})
            plain.add(id(config))
        rows.append(complete(metrics, config))
    return rows


def make_plain(row: Row, logged: Row) -> None:
    """Replace all values in a nested dict that are not plain. Changes the dict.

    Args:
        row: The dict.
        logged: The same report from `result.json`, for values that are still pickled; `{}` if there is none.
    """
    levels = [(row, logged)]  # an explicit stack: reports may be nested deeper than Python's stack
    while levels:
        level, lines = levels.pop()
        for key in [key for key in level if type(key) is not str]:
            level[str(key)] = level.pop(key)
        for key, value in level.items():
            if type(value) in _PLAIN:
                continue
            line = lines.get(key)
            if isinstance(value, dict):
                levels.append((value, line if isinstance(line, dict) else {}))
            elif isinstance(value, Pickled) and key in lines:
                level[key] = line
            else:
                number = json_text.scalar_of(value)
                level[key] = json_text.clean(value) if number is None else number


def flat_row(result: Mapping[str, Any], delimiter: str = "/") -> Row:
    """Flatten a result to a row of a data frame. Nested metrics come last, and empty mappings are left out.

    Args:
        result: The result.
        delimiter: The text between the parts of a key.
    """
    top = {key: value for key, value in result.items() if not isinstance(value, Mapping)}
    nested = flatten({key: value for key, value in result.items() if isinstance(value, Mapping)}, delimiter)
    return top | {key: value for key, value in nested.items() if not isinstance(value, Mapping)}


def import_pandas() -> Any:
    """The module pandas.

    Raises:
        ImportError: If it is not installed. The text names the methods that do not need it.
    """
    try:
        import pandas
    except ImportError as error:
        raise ImportError("data frames need pandas (`pip install pandas`); get_rows() does not") from error
    return pandas


# -- a trial's own files -----------------------------------------------------------------------------------------------


def logged_rows(directory: str | os.PathLike[str]) -> list[Row] | None:
    """All reports of a trial in order, from the trial's own files.

    Args:
        directory: The trial's directory. The function reads `result.json`; without it, `progress.csv`, whose rows are
            flattened and have no `config`.

    Returns:
        The reports, without incomplete lines; None if there is neither file. If a metric is a number in all other rows,
        or NaN in `progress.csv`, then `null` becomes NaN and `"Infinity"` becomes a float.

    Raises:
        OSError: If a file cannot be read.
    """
    for read in (_read_json, _read_csv):
        try:
            rows = read(directory)
        except FileNotFoundError:
            continue
        _restore_numbers(rows, directory)
        return rows
    return None


def read_params(directory: str | os.PathLike[str]) -> Row:
    """The trial's configuration from `params.json`; `{}` if the file is missing or damaged."""
    try:
        with files.open_to_read(os.path.join(directory, EXPR_PARAM_FILE)) as file:
            params = json.load(file)
    except (OSError, ValueError, RecursionError):
        return {}
    return params if isinstance(params, dict) else {}


def _read_json(directory: str | os.PathLike[str]) -> list[Row]:
    """The lines of `result.json`."""
    rows = []
    path = os.path.join(directory, EXPR_RESULT_FILE)
    with io.TextIOWrapper(files.open_to_read(path), "utf-8", "replace", newline="\n") as file:
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            try:
                row = json.loads(line)
            except (ValueError, RecursionError):
                row = None
            if isinstance(row, dict):
                rows.append(row)
            else:
                logger.warning("line %d of %s is torn or damaged; it is left out", number, path)
    return rows


def _read_csv(directory: str | os.PathLike[str]) -> list[Row]:
    """The rows of the complete lines of `progress.csv`, without empty cells."""
    path = os.path.join(directory, EXPR_PROGRESS_FILE)
    with io.TextIOWrapper(files.open_to_read(path), "utf-8", "replace", newline="\n") as file:
        table = csv.reader(line for line in file if line.endswith("\n"))
        header = next(table, [])
        return [
            {name: _cell(name, text) for name, text in zip(header, cells, strict=False) if text != ""}
            for cells in table
        ]


def _cell(name: str, text: str) -> Any:
    if name in _TEXT_COLUMNS:
        return text
    if text in ("True", "False"):
        return text == "True"
    if _INT.fullmatch(text):
        return int(text)
    return float(text) if _FLOAT.fullmatch(text) else text


def _restore_numbers(rows: list[Row], directory: str | os.PathLike[str]) -> None:
    """Convert the texts by which strict JSON replaces NaN and infinities back to floats, where that is certain."""
    numbers: set[str] = set()
    others: set[str] = set()
    odd: set[str] = set()
    flat_rows = [flatten({key: value for key, value in row.items() if key != CONFIG}) for row in rows]
    for row in flat_rows:
        for key, value in row.items():
            if value is None:
                odd.add(key)
            elif isinstance(value, str) and value in _INFINITIES:
                odd.add(key)
                numbers.add(key)
            elif isinstance(value, (int, float)) and not isinstance(value, bool):
                numbers.add(key)
            else:
                others.add(key)
    if odd - numbers - others - _TEXT_COLUMNS:  # only null, so either None or always NaN; `progress.csv` shows which
        with contextlib.suppress(FileNotFoundError):
            numbers.update(name for row in _read_csv(directory) for name, value in row.items() if value != value)
    restored = odd & numbers - others
    levels = [(row, "") for row in rows] if restored else []
    while levels:
        level, prefix = levels.pop()
        for key, value in level.items():
            path = f"{prefix}{key}"
            if isinstance(value, dict):
                if path != CONFIG:
                    levels.append((value, f"{path}/"))
            elif path in restored and not isinstance(value, (int, float)):
                level[key] = math.nan if value is None else _INFINITIES[value]
