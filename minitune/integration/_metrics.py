"""The common part of the callbacks for training libraries: choose the metrics, and report them with a checkpoint."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from minitune.base.checks import shown
from minitune.checkpoint import Checkpoint
from minitune.trainable.session import checkpoint_dir, report

Wanted = str | Sequence[str] | Mapping[str, str] | None
"""One or several of the library's names, or a dict from the reported name to the library's name; None for all."""
PostProcessing = Callable[[dict[str, Any]], dict[str, Any]]


def names_wanted(metrics: Wanted) -> dict[str, str]:
    """A dict from the reported name to the library's name; empty if all metrics are reported.

    Raises:
        TypeError: If `metrics` has another form.
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
        KeyError: If the library has not logged one of them.
    """
    if not names:
        return dict(logged)
    missing = [name for name in names.values() if name not in logged]
    if missing:
        raise KeyError(f"no metric {missing[0]!r} was logged; there are {', '.join(sorted(logged)) or 'none'}")
    return {told: logged[name] for told, name in names.items()}


def report_saved(metrics: dict[str, Any], filename: str, save: Callable[[str], Any] | None) -> None:
    """Report metrics. If `save` is given, call it with the path of a file, and report this file as a checkpoint."""
    if save is None:
        report(metrics)
        return
    with checkpoint_dir() as directory:
        save(os.path.join(directory, filename))
        report(metrics, checkpoint=Checkpoint(directory))


@dataclass(eq=False)
class Boosting:
    """The base of the callbacks for gradient boosting: their arguments, and which rounds are saved.

    A subclass documents the arguments for users, and gives `filename` its default.
    """

    metrics: Wanted = None
    filename: str = "model"
    frequency: int = 0
    checkpoint_at_end: bool = True
    results_postprocessing_fn: PostProcessing | None = None

    def __post_init__(self) -> None:
        frequency = self.frequency
        process = self.results_postprocessing_fn
        if not isinstance(frequency, int) or frequency < 0:
            raise ValueError(f"frequency must be an integer of at least 0, but got {shown(frequency)}")
        if process is not None and not callable(process):
            raise TypeError(f"results_postprocessing_fn must be callable, but got {shown(process)}")
        self._names = names_wanted(self.metrics)

    def _reported(self, logged: Mapping[str, Any]) -> dict[str, Any]:
        """The metrics of a round to report."""
        metrics = pick(self._names, logged)
        if self.results_postprocessing_fn is None:
            return metrics
        return self.results_postprocessing_fn(metrics)

    def _is_due(self, round_number: int) -> bool:
        """Whether to save the model of a round. The first round has number 0."""
        return self.frequency > 0 and (round_number + 1) % self.frequency == 0
