"""Which of a library's metrics its callback reports, and under which names."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from minitune.base.checks import shown
from minitune.checkpoint import Checkpoint
from minitune.trainable.session import report

Wanted = str | Sequence[str] | Mapping[str, str] | None
"""A metric, or several, under the library's names; or the library's name by the one that is reported."""
PostProcessing = Callable[[dict[str, Any]], dict[str, Any]]


def names_wanted(metrics: Wanted) -> dict[str, str]:
    """The library's names by those that are reported; empty if all are.

    Raises:
        TypeError: If `metrics` is of another form.
    """
    if not metrics:
        return {}
    if isinstance(metrics, str):
        return {metrics: metrics}
    names = dict(metrics) if isinstance(metrics, Mapping) else {name: name for name in metrics}
    if not all(isinstance(text, str) for pair in names.items() for text in pair):
        raise TypeError(
            f"metrics must be a name, a list of names, or a dict of names by those to report, but got {shown(metrics)}"
        )
    return names


def pick(names: Mapping[str, str], logged: Mapping[str, Any]) -> dict[str, Any]:
    """Choose the metrics to report from those that the library has logged.

    Raises:
        KeyError: If a metric is not there.
    """
    if not names:
        return dict(logged)
    missing = [name for name in names.values() if name not in logged]
    if missing:
        raise KeyError(f"no metric {missing[0]!r} was logged; there are {', '.join(sorted(logged)) or 'none'}")
    return {told: logged[name] for told, name in names.items()}


def report_saved(metrics: dict[str, Any], filename: str, save: Callable[[str], Any] | None) -> None:
    """Report metrics; with `save`, which writes a model to the path that it gets, a checkpoint of that file, too."""
    if save is None:
        report(metrics)
        return
    with tempfile.TemporaryDirectory() as directory:
        save(os.path.join(directory, filename))
        report(metrics, checkpoint=Checkpoint.from_directory(directory))


class Boosting:
    """The common part of the callbacks for gradient boosting: the names of metrics, and which rounds are saved.

    Args:
        metrics: The metrics to report, as the library names them, or a dict of these by other names; by default all.
        filename: Name of the model's file in a checkpoint.
        frequency: A checkpoint every so many rounds; 0 for none before the end.
        checkpoint_at_end: Whether the last model is saved.
        results_postprocessing_fn: Makes of the metrics, before they are reported, what is reported.

    Raises:
        TypeError: If an argument is of the wrong type.
        ValueError: If `frequency` is negative.
    """

    def __init__(
        self,
        metrics: Wanted,
        filename: str,
        frequency: int,
        checkpoint_at_end: bool,
        results_postprocessing_fn: PostProcessing | None,
    ):
        if not isinstance(frequency, int) or frequency < 0:
            raise ValueError(f"frequency must be an integer of at least 0, but got {shown(frequency)}")
        if results_postprocessing_fn is not None and not callable(results_postprocessing_fn):
            raise TypeError(f"results_postprocessing_fn must be callable, but got {shown(results_postprocessing_fn)}")
        self.names = names_wanted(metrics)
        self.filename = filename
        self.frequency = frequency
        self.checkpoint_at_end = checkpoint_at_end
        self.results_postprocessing_fn = results_postprocessing_fn

    def reported(self, logged: Mapping[str, Any]) -> dict[str, Any]:
        """The metrics of a round as they are reported."""
        metrics = pick(self.names, logged)
        return metrics if self.results_postprocessing_fn is None else self.results_postprocessing_fn(metrics)

    def is_due(self, round_number: int) -> bool:
        """Whether a round, counted from 0, is saved."""
        return self.frequency > 0 and (round_number + 1) % self.frequency == 0
