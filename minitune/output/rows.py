"""A trial as a row: what every view of a run shows of its trials, decided once.

The trials may be those of a live run or those of a journal.
"""

from __future__ import annotations

from typing import Any

from minitune.experiment.trial import Trial
from minitune.space.tree import value_at_text


def shown_metric(trial: Trial, name: str) -> Any:
    """The last value of a metric by its flattened name; None if there is none.

    Trials are compared by their last numbers, so this may be that of an earlier report than the last one.
    """
    value = value_at_text(trial.progress.metrics, name)
    if value is None:
        return trial.progress.analysis.get(name, "last")
    return value
