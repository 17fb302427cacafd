"""The best: which trial a run reports, in every view.

Repeats decide, if the run has confirmed its most promising trials. If the search has repeated its best trial and got
another value, the values are noisy, and the best of many is a lucky one: then the trials of `search.estimate` come
first, in the order of their estimates. Otherwise values decide: see `experiment.goal`.
"""

from __future__ import annotations

from collections.abc import Sequence

from minitune.experiment.goal import Best, Goal, confirmations
from minitune.experiment.trial import Trial
from minitune.search.estimate import estimates, is_exact


def ranked(trials: Sequence[Trial], goal: Goal) -> list[Trial]:
    """The trials that can be compared, the best first. See `Goal.ranked`. May block for 0.2 s of CPU."""
    expected = [] if goal.metric is None or goal.mode is None else _expected(trials, goal.metric, goal.mode)
    return list(dict.fromkeys([*expected, *goal.ranked(trials)]))


def best_of(
    trials: Sequence[Trial], metric: str, mode: str, scope: str | None = None, filter_nan_and_inf: bool = True
) -> Best | None:
    """The first of `ranked`; with a scope, see `Best.of`, whose errors it raises."""
    best = Best.of(trials, metric, mode, scope, filter_nan_and_inf)
    expected = [] if scope or best is None else _expected(trials, metric, mode)
    if best is None or not expected or expected[0] is best.trial:
        return best
    value = expected[0].progress.analysis.get(metric, "last")
    assert value is not None  # `estimates` has it
    return Best(expected[0], metric, value, is_expected=True)


def _expected(trials: Sequence[Trial], metric: str, mode: str) -> list[Trial]:
    """The trials in the order of their estimates; empty if the search has found no noise, or repeats decide."""
    if is_exact(trials, metric, mode) is not False or confirmations(trials, metric, mode):
        return []
    ended = {trial.trial_id: trial for trial in trials if trial.is_finished()}
    return [ended[each.trial_id] for each in estimates([*ended.values()], metric, mode)]
