"""Goal: what a run optimises, and which trials are the best.

`Goal.ranked` is the order of trials by their values, and its first one is `best_trial` (`view.best` asks for estimates
first). It prefers the first of equals; `best_checkpoint` prefers the last.

If a scheduler has stopped trials, the best value of all is often a lucky one of a trial that hardly began. So only the
longer trials are compared there, by the mean of their last reports: `benchmarks/FINDINGS.md`, *stopped*.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any, Literal, NamedTuple, TypeVar

from minitune.base.checks import require, shown
from minitune.base.numbers import mean_of, sortable
from minitune.base.text import number_text
from minitune.experiment.lifecycle import ERROR
from minitune.experiment.trial import Trial
from minitune.result import DEFAULT_METRIC, flatten, lookup, own_metrics

SCOPES = ("last", "all", "avg", "last-5-avg", "last-10-avg")
"""The values of a metric by which trials can be compared: the last, the best of all, or a mean."""
_LEAST_SHARE = 1 / 3
"""If a scheduler has stopped trials, those are compared that have at least this share of the most reports:
`benchmarks/FINDINGS.md`, *stopped*.
"""
_RECENT = 3
"""They are compared by the mean of so many of their last values."""
_NAMES_SHOWN = 10
_NAME_LENGTH = 40
_T = TypeVar("_T")

MODES = ("min", "max", "obs")
"""The modes of objectives. With several objectives, `obs` marks one that is only observed."""
Metric = str | list[str] | None
"""The name of a metric, or a list; None if it is unknown."""
Mode = Literal["min", "max"] | list[str] | None
"""The mode of a metric, or a list, as users give it."""


def check_mode(mode: str) -> None:
    """Raise a ValueError if a mode is neither `"min"` nor `"max"`."""
    if mode not in ("min", "max"):
        raise ValueError(f"mode must be 'min' or 'max', but got {mode!r}")


def check_objectives(metric: Metric, mode: Metric) -> None:
    """Check a metric and its mode, or lists of them.

    Raises:
        ValueError: If a metric is not a text, a mode is unknown, or the lists have different lengths.
    """
    metrics = metric if isinstance(metric, (list, tuple)) else [metric]
    named = metric is None or all(isinstance(each, str) for each in metrics)
    require(named, "metric: None, a metric's name or a list of names", metric)
    modes = mode if isinstance(mode, (list, tuple)) else [mode]
    if mode is not None and not all(each in MODES for each in modes):
        raise ValueError(f"mode must be one of {', '.join(MODES)}, or a list of them, but got {shown(mode)}")
    if metric is None or mode is None:
        return
    is_list = isinstance(metric, (list, tuple))
    if is_list != isinstance(mode, (list, tuple)) or (is_list and len(metric) != len(mode)):
        raise ValueError(
            f"metric and mode must both be text or lists of one length, but got metric={metric!r}, mode={mode!r}"
        )


def check_several(metric: Sequence[Any], mode: Any) -> None:
    """Check the lists of several objectives.

    Raises:
        ValueError: If there are fewer than two, one comes twice, or all are only observed.
    """
    check_objectives(list(metric), mode)
    good = len(metric) > 1 and len(set(metric)) == len(metric)
    require(good, "metric: the name of one metric, or a list of at least two different ones", metric)
    if mode is None or all(each == "obs" for each in mode):
        raise ValueError(f"mode must have 'min' or 'max' for each of the objectives {list(metric)}, but got {mode!r}")


@dataclass(frozen=True)
class Goal:
    """The objectives of a run.

    Attributes:
        objectives: The modes by metric of a run with several; then `metric` and `mode` are None.
    """

    metric: str | None = None
    mode: str | None = None
    objectives: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, metric: Metric, mode: Metric) -> Goal:
        """The goal of a `TuneConfig` with this metric and mode."""
        if isinstance(metric, str) or metric is None:
            return cls(metric, mode if isinstance(mode, str) else None)
        return cls(objectives=dict(zip(metric, mode or (), strict=True)))

    @property
    def given(self) -> tuple[Metric, Metric]:
        """Metric and mode in the form that `of` takes."""
        if self.objectives:
            return list(self.objectives), list(self.objectives.values())
        return self.metric, self.mode

    @property
    def metrics(self) -> list[str]:
        """The names of all objectives."""
        return list(self.objectives) or ([self.metric] if self.metric else [])

    def one(self, metric: str | None, mode: str | None) -> tuple[str | None, str | None]:
        """Complete a metric and a mode, each of which may be None, from the goal, if it has them.

        Its mode is that of its own metric, and of any metric if it has only a mode.
        """
        if metric is None:
            metric = self.metric
        known = None
        if metric is not None and metric in self.objectives:
            known = self.objectives[metric]
        elif self.metric in (None, metric):
            known = self.mode
        if known == "obs":  # only observed: it has no best value
            known = None
        return metric, mode or known

    def require_one(self, metric: str | None, mode: str | None, path: str, trials: Sequence[Trial]) -> tuple[str, str]:
        """Complete a metric and a mode as `one`. An error lists the reported metrics.

        Raises:
            ValueError: If there is no metric or no mode, or the mode is unknown.
        """
        metric, mode = self.one(metric, mode)
        if metric is None and self.objectives:
            raise ValueError(
                f"{path} has several objectives ({self}), so no trial is the best; pass --metric, in Python metric="
            )
        if metric is None:
            names = ", ".join(reported_metrics(trials))
            raise ValueError(
                f"{path} has no metric; pass --metric, in Python metric={f': one of {names}' if names else ''}"
            )
        if mode is None:
            require_reported(trials, metric, path)
            has_other = self.objectives or self.mode is not None
            why = f"optimises {self}, which gives {metric!r} no mode" if has_other else "has no mode"
            raise ValueError(f"{path} {why}; pass --mode min or --mode max, in Python mode=")
        check_mode(mode)
        return metric, mode

    def __str__(self) -> str:
        """A text such as `loss (min)` or `loss (min), seconds (min)`; empty if there is no goal."""
        if self.objectives:
            return ", ".join(f"{name} ({mode})" for name, mode in self.objectives.items())
        if not self.metric:
            return ""
        return f"{self.metric} ({self.mode})"

    def ranked(self, trials: Sequence[Trial]) -> list[Trial]:
        """The trials with a finite last value, the best first: confirmed ones by the means of their repeats, then those
        of `compared_values`, then the others by their last value. Equal ones keep their order. No repeats.

        With several objectives, it is their front, in which no trial is the best. Empty without a metric and a mode.
        """
        if self.objectives:
            return self.front(trials)
        if not self.metric or self.mode is None:
            return []
        found = [each.trial for each in confirmations(trials, self.metric, self.mode)]
        for scope in (None, "last"):
            scored = list(compared_values(trials, self.metric, self.mode, scope))
            scored.sort(key=itemgetter(0), reverse=self.mode == "max")  # stable, also in reverse
            found += map(itemgetter(1), scored)
        return list(dict.fromkeys(found))

    def front(self, trials: Iterable[Trial]) -> list[Trial]:
        """The trials on the Pareto front of their last values; see `non_dominated`.

        Those without a finite value of each objective are left out; failed ones count.
        """
        signs = {name: 1 if mode == "max" else -1 for name, mode in self.objectives.items() if mode != "obs"}
        scored = []
        for trial in trials:
            values = [trial.progress.analysis.get(name, "last") for name in signs]
            scores = [sign * v for sign, v in zip(signs.values(), values, strict=True) if v is not None]
            if len(scores) == len(values) and all(map(math.isfinite, scores)):
                scored.append((scores, trial))
        return non_dominated(scored)


def non_dominated(scored: Sequence[tuple[Sequence[float], _T]]) -> list[_T]:
    """The items that no other item dominates. Item a dominates b if a is better in one score and worse in none."""
    front: list[int] = []
    # In this order only an earlier item can dominate an item, and then an item of the front dominates it, too.
    for index in sorted(range(len(scored)), key=lambda each: list(scored[each][0]), reverse=True):
        own = scored[index][0]
        # Of two scores, the second never falls along the front: if any item of the front dominates, the last one does.
        rivals = front[-1:] if len(own) == 2 else front
        is_dominated = False
        for each in rivals:
            other = scored[each][0]
            if other != own and all(b >= a for a, b in zip(own, other, strict=True)):
                is_dominated = True
                break
        if not is_dominated:
            front.append(index)
    return [scored[index][1] for index in sorted(front)]


def best_trial(
    trials: Sequence[Trial], metric: str, mode: str, scope: str | None = None, filter_nan_and_inf: bool = True
) -> Trial | None:
    """The best trial, failed ones included, the first one of equals; None if no trial has the metric. See
    `compared_values`. With `filter_nan_and_inf`, only finite values count; otherwise NaN wins only if it comes first.

    If the run has confirmed its most promising trials by this metric, it is the first of `confirmations`. A repeat is
    never the best trial.

    Raises:
        ValueError: If the mode or the scope is unknown.
    """
    best = Best.of(trials, metric, mode, scope, filter_nan_and_inf)
    return None if best is None else best.trial


def compared_values(
    trials: Sequence[Trial], metric: str, mode: str, scope: str | None = None, filter_nan_and_inf: bool = True
) -> Iterator[tuple[float, Trial]]:
    """The values by which trials are compared. Repeats are left out.

    `scope` is one of `SCOPES`. Without one, it is the last value; if a scheduler has stopped trials, the mean of
    the last three, for those that have `reports_of_the_best`.
    """
    statistic = statistic_of(scope, mode)
    least = 0 if scope else reports_of_the_best(trials, metric)
    for trial in trials:
        if trial.repeats is None and trial.progress.num_reports >= least:
            value = trial.progress.analysis.get(metric, statistic)
            if value is not None and (math.isfinite(value) or not filter_nan_and_inf):
                yield trial.progress.analysis.mean_of_last(metric, _RECENT) if least else value, trial


def reports_of_the_best(trials: Iterable[Trial], metric: str) -> int:
    """If a scheduler has stopped trials, a third of the most reports that a trial has; else 0."""
    most = 0
    is_stopped = False
    for trial in trials:
        value = trial.progress.analysis.get(metric, "last")
        if value is not None and math.isfinite(value):
            most = max(most, trial.progress.num_reports)
            is_stopped = is_stopped or bool(trial.stopped_by)
    return math.ceil(most * _LEAST_SHARE) if is_stopped else 0


def statistic_of(scope: str | None, mode: str) -> str:
    """The statistic of `MetricAnalysis` by which trials are compared, by default the last value.

    Raises:
        ValueError: If the mode or the scope is unknown.
    """
    check_mode(mode)
    if scope is None:
        return "last"
    if scope not in SCOPES:
        raise ValueError(f"scope must be one of {', '.join(SCOPES)}, but got {scope!r}")
    if scope == "all":
        return mode
    return scope


def score(value: Any, mode: str) -> float:
    """How good a value is: larger is better, and one that cannot be sorted is the worst."""
    number = sortable(value)
    if number is None:
        return -math.inf
    return number if mode == "max" else -number


def best_checkpoint(kept: Iterable[tuple[Mapping[str, Any], _T]], metric: str, mode: str) -> _T | None:
    """The best of a trial's checkpoints, which come with the metrics of their reports; None if none has the metric.

    Of equal ones it is the last, which is the newest: the one that stays if only one is kept.
    """
    values = [(lookup(metrics, metric), checkpoint) for metrics, checkpoint in kept]
    able = [each for each in reversed(values) if sortable(each[0]) is not None]
    return max(able, key=lambda each: score(each[0], mode), default=(None, None))[1]


class Confirmation(NamedTuple):
    """A promising trial that was run again with other seeds; see `TuneConfig.confirm`.

    Attributes:
        seen: Its own value of the metric, for which it was chosen, and so probably a lucky one.
        values: The values of its repeats, in their order, whose mean has no bias.
    """

    trial: Trial
    seen: float
    values: Sequence[float]

    @property
    def mean(self) -> float:
        """The mean of the repeats' values."""
        return mean_of(self.values)

    def __str__(self) -> str:
        """Such as `0.21 in the mean of 3 repeats (0.18 seen)`."""
        count = len(self.values)
        again = "in one repeat" if count == 1 else f"in the mean of {count} repeats"
        return f"{number_text(self.mean)} {again} ({number_text(self.seen)} seen)"


def confirmations(trials: Sequence[Trial], metric: str, mode: str, scope: str | None = None) -> list[Confirmation]:
    """The trials that the run has repeated because they were promising by this metric, the best mean first.

    Empty as long as one of them may still get its first value by a repeat, so that the best trial does not change with
    each. A trial whose repeats have all ended without one is left out.
    """
    statistic = statistic_of(scope, mode)
    values: dict[str, list[float]] = {}
    waits: set[str] = set()
    for trial in trials:
        repeats = trial.repeats
        if repeats is None or (repeats.metric, repeats.mode) != (metric, mode):
            continue
        found = values.setdefault(repeats.trial_id, [])
        value = trial.progress.analysis.get(metric, statistic)
        if not trial.is_finished():
            waits.add(repeats.trial_id)
        elif value is not None and math.isfinite(value):
            found.append(value)
    if not values or any(not found and trial_id in waits for trial_id, found in values.items()):
        return []
    made = []
    for trial in trials:
        found = values.get(trial.trial_id, [])
        seen = trial.progress.analysis.get(metric, statistic)
        if found and seen is not None:
            made.append(Confirmation(trial, seen, found))
    return sorted(made, key=lambda each: each.mean, reverse=mode == "max")  # stable, also in reverse


@dataclass(frozen=True)
class Best:
    """The best trial by a metric.

    Attributes:
        value: The value for which it is the best one: the mean of its repeats, or its own.
        least: If another trial has a better value and was left out, the reports that a trial needs; else 0.
        is_expected: Whether another trial has a better value, and this one a better estimate.
    """

    trial: Trial
    metric: str
    value: float
    confirmed: Confirmation | None = None
    least: int = 0
    is_expected: bool = False

    @classmethod
    def of(
        cls,
        trials: Sequence[Trial],
        metric: str,
        mode: str,
        scope: str | None = None,
        filter_nan_and_inf: bool = True,
    ) -> Best | None:
        """See `best_trial`."""
        confirmed = confirmations(trials, metric, mode, scope)
        if confirmed:
            return cls(confirmed[0].trial, metric, confirmed[0].mean, confirmed[0])
        better = max if mode == "max" else min  # both choose the first of equals
        best = better(compared_values(trials, metric, mode, scope, filter_nan_and_inf), key=itemgetter(0), default=None)
        if best is None:
            return None
        trial = best[1]
        value = trial.progress.analysis.get(metric, statistic_of(scope, mode))
        assert value is not None  # `compared_values` has it
        least = 0
        if scope is None and best_trial(trials, metric, mode, "last") is not trial:
            least = reports_of_the_best(trials, metric)
        return cls(trial, metric, value, least=least)

    def __str__(self) -> str:
        """Such as `loss=0.21`; of a confirmed trial with its mean, see `Confirmation`."""
        if self.confirmed is not None:
            return f"{self.metric}={self.confirmed}"
        text = f"{self.metric}={number_text(self.value)}"
        if self.is_expected:
            text += " (best by estimate: a repeat had another value)"
        elif self.least:
            text += f" (best mean of the last {_RECENT} reports, of trials with {self.least} or more)"
        return text


def why_no_best(trials: Sequence[Trial], metric: str) -> str:
    """The reason why `best_trial` has returned None, and what to do about it."""
    beginning = f"no trial of {len(trials)} has reported"
    values = []
    for trial in trials:
        flat = flatten(trial.progress.metrics)
        if metric in flat:
            values.append(flat[metric])
    if values:
        earlier = ""
        if best_trial(trials, metric, "max", "all") is not None:
            earlier = "; earlier results had finite values, which scope='all' uses"
        return (
            f"{beginning} a finite number as {metric!r}, but {shown(values[0])}. Check how it is computed, and report "
            f"a number, such as float(x){earlier}"
        )
    known = reported_metrics(trials)
    if not known and trials and all(trial.status == ERROR for trial in trials):
        return f"{beginning} anything: all of them have failed"
    if not known:
        name = "loss" if metric == DEFAULT_METRIC else metric
        return f"{beginning} anything. Call report({{{name!r}: ...}}) in the trainable, or return such a dict"
    if known == [DEFAULT_METRIC]:
        return f"{beginning} {metric!r}: the trainable returns a bare number. Return {{{metric!r}: number}}"
    more = f" and {len(known) - _NAMES_SHOWN} more" if len(known) > _NAMES_SHOWN else ""
    names = ", ".join(name[:_NAME_LENGTH] for name in known[:_NAMES_SHOWN]) + more
    if metric == DEFAULT_METRIC:
        return (
            f"{beginning} a bare number, which counts where no metric is named; reported were: {names}. "
            f"Name the metric, such as metric={known[0]!r}"
        )
    from difflib import get_close_matches

    close = get_close_matches(metric, known, 1)
    return f"{beginning} {metric!r}; reported were: {names}" + (f". Did you mean {close[0]!r}?" if close else "")


def is_unreported(trials: Sequence[Trial], metric: str) -> bool:
    """Whether trials have reported, but none of them `metric`. Its name is probably misspelt."""
    have_reported = [trial for trial in trials if trial.progress.metrics]
    return bool(have_reported) and not any(
        metric in flatten(trial.progress.metrics) or trial.progress.analysis.get(metric, "last") is not None
        for trial in have_reported
    )


def require_reported(trials: Sequence[Trial], metric: str, path: str) -> None:
    """Refuse a metric that `is_unreported`.

    Raises:
        ValueError: With the reported metrics.
    """
    if is_unreported(trials, metric):
        raise ValueError(f"{why_no_best(trials, metric)} ({path})")


def reported_metrics(trials: Iterable[Trial]) -> list[str]:
    """The flattened names of the users' metrics in the last results of trials, in the order of the reports."""
    names: dict[str, None] = {}  # a dict keeps the order
    for trial in trials:
        names.update(dict.fromkeys(flatten(own_metrics(trial.progress.metrics))))
    return list(names)
