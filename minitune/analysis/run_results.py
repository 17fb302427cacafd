"""RunResults: the trials of a run and the questions about them: which is the best, and which rows have they.

`ResultGrid` and `ExperimentAnalysis` are two façades over one such object. They name things differently, and a missing
answer is an error in one, a warning or None in the other.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from minitune.analysis.result_rows import ResultRow, import_pandas, result_rows
from minitune.base.checks import require, require_flag, require_metric
from minitune.base.numbers import sortable
from minitune.base.text import warn_once
from minitune.experiment.goal import (
    Goal,
    Metric,
    check_mode,
    check_objectives,
    is_unreported,
    require_reported,
    score,
    why_no_best,
)
from minitune.experiment.trial import Trial
from minitune.result import CONFIG, DEFAULT_METRIC, EXPERIMENT_TAG, TRIAL_ID, flat_row
from minitune.view.best import best_of

if TYPE_CHECKING:
    import pandas


class RunResults:
    """The trials of a run, and its goal.

    Raises:
        ValueError: If the mode is unknown, or an argument has an invalid value.
    """

    def __init__(self, path: str, trials: Sequence[Trial], metric: Metric = None, mode: Metric = None):
        if isinstance(metric, (list, tuple)):
            check_objectives(metric, mode)
        else:
            require_metric("default_metric", metric)
            if mode is not None:
                check_mode(str(mode))
            metric = metric or (DEFAULT_METRIC if mode else None)
        # One check for each class, not for each of perhaps thousands of trials.
        good = isinstance(trials, Iterable) and all(issubclass(kind, Trial) for kind in set(map(type, trials)))
        require(good, "trials: None or a list of Trial objects, such as those of another analysis", trials)
        self.path = path
        self.trials = list(trials)
        self.goal = Goal.of(metric, mode)

    @cached_property
    def seed(self) -> int | None:
        """See `ExperimentAnalysis.seed`."""
        from minitune.record.reading import read_beginnings

        return read_beginnings(self.path).setup.seed

    def find_best(
        self, metric: str | None, mode: str | None, scope: str | None = None, filter_nan_and_inf: bool = True
    ) -> Trial | None:
        """See `ExperimentAnalysis.get_best_trial`. None, without a warning, if no trial has a usable value."""
        require_metric("metric", metric)
        require_flag("filter_nan_and_inf", filter_nan_and_inf)
        # As in Ray Tune: a single trial is the best one by any metric.
        wanted = metric or self.goal.metric
        is_known = mode or self.goal.mode or self.goal.one(wanted, None)[1]
        if len(self.trials) == 1:
            if wanted in (None, DEFAULT_METRIC):
                return self.trials[0]
            if not is_known:
                return None if is_unreported(self.trials, wanted) else self.trials[0]
        metric, mode = self.require_goal(metric, mode)
        best = best_of(self.trials, metric, mode, scope, filter_nan_and_inf)
        return None if best is None else best.trial

    def front(self, metric: list[str] | None, mode: list[str] | None) -> list[Trial]:
        """See `ResultGrid.get_front`."""
        if metric is None and mode is None:
            metric, mode = (list(each) if isinstance(each, list) else None for each in self.goal.given)
        if not isinstance(metric, (list, tuple)) or not isinstance(mode, (list, tuple)):
            raise ValueError(
                f"metric and mode must be lists of one length for a front, but got metric={metric!r}, mode={mode!r}; "
                "pass them here, or set them for the run: TuneConfig(metric=[...], mode=[...])"
            )
        check_objectives(metric, mode)
        goal = Goal.of(metric, mode)
        for name, kind in goal.objectives.items():
            if kind != "obs":
                require_reported(self.trials, name, self.path)
        return goal.front(self.trials)

    def why_no_best(self, metric: str | None) -> str:
        """The reason why `find_best` has returned None; see the function `why_no_best`."""
        return why_no_best(self.trials, metric or self.goal.metric or DEFAULT_METRIC)

    def require_goal(self, metric: str | None, mode: str | None) -> tuple[str, str]:
        """Complete a metric and a mode from the goal of the run.

        Raises:
            ValueError: If there is no metric or no mode, or the mode is unknown.
        """
        require_metric("metric", metric)
        metric, mode = self.goal.one(metric or None, mode)
        if metric is not None and mode is None and self.goal.mode is not None:
            mode = self.goal.mode  # as in Ray Tune
            warn_once(f"the mode of metric={metric!r} is not given; {mode!r} is used, which is that of {self.goal}")
        if metric is None and self.goal.objectives:
            raise ValueError(
                f"metric must be one of the run's objectives, {self.goal}: with several there is no best trial; pass "
                "metric=..., or ask the ResultGrid for get_front()"
            )
        if metric is None or mode is None:
            raise ValueError(
                f"metric and mode must be set, but got metric={metric!r}, mode={mode!r}; pass them here, or when "
                "the run is made: TuneConfig(metric=..., mode=...), run(metric=..., mode=...)"
            )
        check_mode(mode)
        return metric, mode

    def rows(self, metric: str | None, mode: str | None) -> list[ResultRow]:
        """See `ExperimentAnalysis.get_rows`."""
        require_metric("metric", metric)
        if mode is not None:
            check_mode(mode)
            if metric is None:
                raise ValueError(f"a mode needs a metric, but got mode={mode!r} and no metric; pass both or neither")
        found = []
        is_known = metric is None
        for trial in self.trials:
            rows = []
            if trial.progress.metrics:
                rows = result_rows(trial.local_path, last_only=metric is None)
            is_known = is_known or any(metric in row for row in rows)
            row = rows[-1] if rows else flat_row(last_result_of(trial))
            if metric is not None and mode is not None:
                able = [each for each in rows if sortable(each.get(metric)) is not None]
                row = max(able, key=lambda each: score(each.get(metric), mode), default=row)
            # An earlier report may belong to another configuration than the last one, with its real values.
            if not rows or row is rows[-1]:
                row = {key: value for key, value in row.items() if key != CONFIG and not key.startswith(f"{CONFIG}/")}
                row |= flat_row({CONFIG: trial.reported_config})
            found.append(row | {EXPERIMENT_TAG: trial.experiment_tag, "logdir": trial.local_path})
        if metric is not None and not is_known:  # an early report may have had a flag or a text of this name
            require_reported(self.trials, metric, self.path)
        return found

    def dataframe(self, metric: str | None, mode: str | None) -> pandas.DataFrame:
        """See `ExperimentAnalysis.dataframe`."""
        frame = import_pandas().DataFrame
        rows = zip(self.rows(metric, mode), self.trials, strict=True)
        return frame([row for row, trial in rows if trial.progress.metrics])

    def to_html(self) -> str:
        """The trials for a notebook."""
        from minitune.view.summary import run_html

        return run_html(self.trials, self.goal, self.path)


def last_result_of(trial: Trial) -> dict[str, Any]:
    """The last result of a trial. Without a result, a dict with only the trial's id."""
    return trial.last_result or {TRIAL_ID: trial.trial_id}
