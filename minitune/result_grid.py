"""ResultGrid and Result: what has become of the trials of a run."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from minitune.checkpoint import Checkpoint
from minitune.config import require
from minitune.error import TrialError
from minitune.experiment.lifecycle import ERROR, TERMINATED
from minitune.experiment.trial import Trial
from minitune.result import AUTO_RESULT_KEYS, CONFIG, DONE, EXPERIMENT_TAG, TRIAL_ID, flatten

if TYPE_CHECKING:
    import pandas

SCOPES = ("last", "all", "avg", "last-5-avg", "last-10-avg")
"""Which value of a metric counts for a trial: its last, its best ever, or a mean."""

_SHOWN_AUTO_KEYS = (DONE, TRIAL_ID, EXPERIMENT_TAG)
_HIDDEN_KEYS = frozenset(AUTO_RESULT_KEYS) - set(_SHOWN_AUTO_KEYS)


class Result:
    """The outcome of one trial.

    Attributes:
        metrics: The last result, nested, with the automatic keys; `{"trial_id": ...}` if there was none.
        config: The trial's configuration.
        checkpoint: The latest checkpoint, or None.
        error: None if the trial has not failed; else a `TrialError` that is also an instance of the class of the
            user's exception.
        path: The trial's directory.
        best_checkpoints: All kept (checkpoint, metrics) pairs, ascending by score if the run had a score attribute,
            else by time.
    """

    def __init__(
        self,
        metrics: dict[str, Any],
        config: dict[str, Any],
        checkpoint: Checkpoint | None,
        error: TrialError | None,
        path: str,
        best_checkpoints: list[tuple[Checkpoint, dict[str, Any]]],
    ):
        self.metrics = metrics
        self.config = config
        self.checkpoint = checkpoint
        self.error = error
        self.path = path
        self.best_checkpoints = best_checkpoints

    @classmethod
    def of(cls, trial: Trial, score_attribute: str | None = None, score_order: str = "max") -> Result:
        """The outcome of `trial`; see `Result.best_checkpoints` for the score."""
        kept = list(trial.checkpoints)
        if score_attribute is not None:
            kept.sort(key=lambda item: signed(flatten(item.metrics).get(score_attribute), score_order))
        return cls(
            metrics=trial.last_result or {TRIAL_ID: trial.trial_id},
            config=trial.config,
            checkpoint=trial.checkpoint,
            error=trial.error,
            path=trial.local_path,
            best_checkpoints=[
                (Checkpoint(os.path.join(trial.local_path, item.record.directory)), item.metrics) for item in kept
            ],
        )

    @property
    def log_dir(self) -> Path:
        """The trial's directory as a Path."""
        return Path(self.path)

    @property
    def metrics_dataframe(self) -> pandas.DataFrame:
        """All reports of the trial, flattened, from its `result.json`. Needs pandas.

        Raises:
            ImportError: If pandas is not installed.
        """
        return _pandas().DataFrame(self.get_rows())

    def get_rows(self) -> list[dict[str, Any]]:
        """All reports of the trial, flattened, from its `result.json`; needs no pandas."""
        try:
            with open(os.path.join(self.path, "result.json"), encoding="utf-8") as file:
                return [flatten(json.loads(line)) for line in file if line.strip()]
        except FileNotFoundError:
            return []

    def get_best_checkpoint(self, metric: str, mode: str) -> Checkpoint:
        """The kept checkpoint with the best value of `metric`.

        Args:
            metric: The metric's flattened name.
            mode: `"min"` or `"max"`.

        Raises:
            RuntimeError: If no kept checkpoint has the metric.
        """
        _check_mode(mode)
        candidates = [(signed(flatten(metrics).get(metric), mode), c) for c, metrics in self.best_checkpoints]
        finite = [(score, checkpoint) for score, checkpoint in candidates if math.isfinite(score)]
        if not finite:
            raise RuntimeError(
                f"none of the {len(candidates)} kept checkpoints of {self.path} has a finite value of {metric!r}"
            )
        return max(finite, key=lambda pair: pair[0])[1]

    def __repr__(self) -> str:
        shown = {key: value for key, value in self.metrics.items() if key not in _HIDDEN_KEYS}
        checkpoint = "" if self.checkpoint is None else f"checkpoint={self.checkpoint!r}, "
        return f"Result(metrics={shown!r}, error={self.error!r}, {checkpoint}log_dir={self.log_dir!r})"


class ResultGrid(Sequence[Result]):
    """The outcomes of all trials of a run, in order of submission.

    Args:
        trials: The trials.
        experiment_path: The run's directory.
        metric: The default metric, or None.
        mode: The default mode, or None.
        interrupted: Whether the run was ended by Ctrl-C or a signal before its trials.
        score_attribute: The metric by which checkpoints were kept, or None.
        score_order: `"max"` or `"min"`.
    """

    def __init__(
        self,
        trials: Sequence[Trial],
        experiment_path: str,
        metric: str | None = None,
        mode: str | None = None,
        interrupted: bool = False,
        score_attribute: str | None = None,
        score_order: str = "max",
    ):
        self._trials = list(trials)
        self._results = [Result.of(trial, score_attribute, score_order) for trial in self._trials]
        self._metric = metric
        self._mode = mode
        self.experiment_path = experiment_path
        self.interrupted = interrupted

    def __len__(self) -> int:
        return len(self._results)

    def __getitem__(self, index: Any) -> Any:
        return self._results[index]

    def __iter__(self) -> Iterator[Result]:
        return iter(self._results)

    def __repr__(self) -> str:
        return "ResultGrid([\n" + "".join(f"  {result!r},\n" for result in self._results) + "])"

    @property
    def errors(self) -> list[TrialError]:
        """The errors of the trials that have failed."""
        return [result.error for result in self._results if result.error is not None]

    @property
    def num_errors(self) -> int:
        """How many trials have failed."""
        return sum(trial.status == ERROR for trial in self._trials)

    @property
    def num_terminated(self) -> int:
        """How many trials have ended well."""
        return sum(trial.status == TERMINATED for trial in self._trials)

    def get_best_result(
        self,
        metric: str | None = None,
        mode: str | None = None,
        scope: str = "last",
        filter_nan_and_inf: bool = True,
    ) -> Result:
        """The outcome of the best trial; a tie goes to the earlier one.

        Args:
            metric: The metric; by default that of the `TuneConfig`.
            mode: `"min"` or `"max"`; by default that of the `TuneConfig`.
            scope: Which value counts: `last`, `all` (best ever), `avg`, `last-5-avg` or `last-10-avg`.
            filter_nan_and_inf: Leave out trials whose value is not finite.

        Raises:
            ValueError: If metric or mode is not known, or scope is none of these.
            RuntimeError: If no trial has the metric; from the first trial's error if one has failed.
        """
        metric, mode = metric or self._metric, mode or self._mode
        if metric is None and mode is None and len(self._trials) == 1:
            return self._results[0]
        if metric is None or mode is None:
            raise ValueError(
                f"metric and mode must be known, but got metric={metric!r}, mode={mode!r}; pass them here or in "
                "TuneConfig(metric=..., mode=...)"
            )
        best = best_trial(self._trials, metric, mode, scope, filter_nan_and_inf)
        if best is None:
            failed = next(iter(self.errors), None)
            raise RuntimeError(
                f"no trial of {len(self._trials)} has reported a {'finite ' if filter_nan_and_inf else ''}value of "
                f"{metric!r}" + (f"; {self.num_errors} trials have failed" if failed else "")
            ) from failed
        return self._results[self._trials.index(best)]

    def get_rows(self, filter_metric: str | None = None, filter_mode: str | None = None) -> list[dict[str, Any]]:
        """One row per trial: its last result, flattened, with `config/<key>` and `logdir`; needs no pandas.

        Args:
            filter_metric: Take the report with the best value of this metric instead of the last one.
            filter_mode: `"min"` or `"max"`; needed with `filter_metric`.

        Raises:
            ValueError: If one of the two is given without the other.
        """
        if (filter_metric is None) != (filter_mode is None):
            raise ValueError(
                f"filter_metric and filter_mode must be given together, but got {filter_metric!r} and {filter_mode!r}"
            )
        rows = []
        for result in self._results:
            row = flatten(result.metrics)
            if filter_metric is not None and filter_mode is not None:
                _check_mode(filter_mode)
                reports = [r for r in result.get_rows() if math.isfinite(signed(r.get(filter_metric), filter_mode))]
                best = max(reports, key=lambda r: signed(r[filter_metric], filter_mode or ""), default=None)
                row = row if best is None else best
            row = {key: value for key, value in row.items() if not key.startswith(f"{CONFIG}/") and key != CONFIG}
            row.update({f"{CONFIG}/{key}": value for key, value in flatten(result.config).items()})
            row["logdir"] = result.path
            rows.append(row)
        return rows

    def get_dataframe(self, filter_metric: str | None = None, filter_mode: str | None = None) -> pandas.DataFrame:
        """`get_rows` as a data frame. Needs pandas.

        Raises:
            ImportError: If pandas is not installed.
        """
        return _pandas().DataFrame(self.get_rows(filter_metric, filter_mode))


def best_trial(
    trials: Sequence[Trial], metric: str, mode: str, scope: str = "last", filter_nan_and_inf: bool = True
) -> Trial | None:
    """The one rule for which trial is best.

    Args:
        trials: The trials; those that have failed count too.
        metric: The metric's flattened name.
        mode: `"min"` or `"max"`.
        scope: One of `SCOPES`.
        filter_nan_and_inf: Leave out trials whose value is not finite.

    Returns:
        The best trial, the earlier one of equals, or None if no trial has the metric.

    Raises:
        ValueError: If mode or scope is none of the known ones.
    """
    _check_mode(mode)
    require(scope in SCOPES, f"scope: one of {', '.join(SCOPES)}", scope)
    statistic = {"all": mode}.get(scope, scope)
    best: tuple[float, Trial] | None = None
    for trial in trials:
        value = trial.analysis.get(metric, statistic)
        score = signed(value, mode)
        if value is None or (filter_nan_and_inf and not math.isfinite(score)):
            continue
        if best is None or score > best[0]:
            best = (score, trial)
    return best[1] if best else None


def signed(value: Any, mode: str) -> float:
    """`value` so that larger is better; NaN and what is no number become minus infinity."""
    try:
        number = float(value)
    except OverflowError:
        number = math.inf if value > 0 else -math.inf
    except (TypeError, ValueError):
        return -math.inf
    if math.isnan(number):
        return -math.inf
    return number if mode == "max" else -number


def _check_mode(mode: str) -> None:
    require(mode in ("min", "max"), "mode: 'min' or 'max'", mode)


def _pandas() -> Any:
    try:
        import pandas
    except ImportError as error:
        raise ImportError("data frames need pandas (`pip install pandas`); get_rows() needs nothing") from error
    return pandas
