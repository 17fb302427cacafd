"""A trial as a row: what every view of a run shows of its trials, decided once.

The trials may be those of a live run or those of a journal.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any

from minitune.base.numbers import known_number
from minitune.base.table import short_repr
from minitune.base.text import cut, one_line
from minitune.experiment.goal import Goal
from minitune.experiment.trial import Trial
from minitune.result import AUTO_RESULT_KEYS, CONFIG, DEBUG_METRICS, TIME_TOTAL_S, TRAINING_ITERATION, flatten
from minitune.space.tree import value_at_text

USUAL_METRICS = {
    "mean_accuracy": "acc",
    "mean_loss": "loss",
    TRAINING_ITERATION: "iter",
    TIME_TOTAL_S: "total time (s)",
    "timesteps_total": "ts",
    "episode_reward_mean": "reward",
}
"""The headers of the metrics that are shown by default if trials report them."""
METRICS_SHOWN = 4
"""The number of a run's own metrics that are shown by default."""
MAX_SHOWN_VALUES = 20
"""The maximum number of parameters or metrics in a line."""
_HIDDEN = frozenset((*AUTO_RESULT_KEYS, *DEBUG_METRICS, CONFIG, "perf"))
_SCANNED_TRIALS = 20
"""The number of trials that are searched for metrics."""


def parameter_names(trials: Iterable[Trial]) -> list[str]:
    """The paths of the parameters that were searched, in the order in which they are shown."""
    # Sorted, so that a conditional parameter that a later trial has first does not move the columns of others.
    return sorted({path for trial in trials for path in trial.evaluated_params})


def metric_columns(
    trials: Iterable[Trial], goal: Goal, most: int = METRICS_SHOWN, usual: Mapping[str, str] = USUAL_METRICS
) -> dict[str, str]:
    """The headers of the metrics that are shown, in their order: objectives, other numbers, the usual ones.

    Args:
        trials: The trials.
        goal: The objectives, which are shown even if the first trials have not reported them.
        most: The maximum number of objectives and other numbers.
        usual: The headers of the usual ones.
    """
    aims = goal.metrics
    others = infer_metrics(trials, {*aims, *usual}, most - len(aims))
    return {name: usual.get(name, name) for name in (*aims, *others, *usual)}


def shown_metric(trial: Trial, name: str) -> Any:
    """The last value of a metric by its flattened name; None if there is none.

    Trials are compared by their last numbers, so this may be that of an earlier report than the last one.
    """
    value = value_at_text(trial.progress.metrics, name)
    if value is None:
        return trial.progress.analysis.get(name, "last")
    return value


def infer_metrics(trials: Iterable[Trial], known: Iterable[str], limit: int) -> list[str]:
    """The first few numeric metrics that trials have reported, without automatic keys and `known` ones."""
    known = set(known)
    found = dict[str, None]()
    # A run may have many thousands of trials, and this is asked for each redraw. Trials mostly report the same metrics.
    results = islice((trial.progress.metrics for trial in trials if trial.progress.metrics), _SCANNED_TRIALS)
    for name, value in (pair for result in results for pair in metrics_of(result).items()):
        if len(found) >= limit:
            break
        if name not in known and known_number(value) is not None:
            found[name] = None
    return list(found)


def metrics_of(result: Mapping[str, Any]) -> dict[str, Any]:
    """The user's metrics of a result, flattened."""
    try:
        return flatten({key: value for key, value in result.items() if key not in _HIDDEN})
    except Exception:  # nested too deeply, or a user's mapping raises
        return {}


def values_text(values: Mapping[str, Any], longest: int | None = None) -> str:
    """The first values as one line, such as `lr=0.1, act='relu'`. `longest` is the maximum width of a value."""
    parts = []
    for name, value in islice(values.items(), MAX_SHOWN_VALUES):
        text = one_line(short_repr(value, rounds=True))
        if longest is not None:
            text = cut(text, longest)
        parts.append(f"{one_line(name)}={text}")
    return ", ".join(parts)
