"""Single plots of a run, by Optuna's names: parts of the page of `minitune report`.

Each takes the run's directory, its `ResultGrid` or its `ExperimentAnalysis`. A `Plot` is shown by
notebooks, and written by `write_html`. Common arguments and errors are:

* `metric`: the objective; by default the run's. `mode`: `"min"` or `"max"`; by default the run's.
* `params`: the parameters to show; by default all that took more than one value.
* FileNotFoundError: there is no run. ValueError: there is no metric or mode, or no such parameter.

All block while they read the run.
"""

from __future__ import annotations

import html
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from minitune.base.checks import require
from minitune.base.files import atomic_write, local_path
from minitune.experiment.goal import check_mode, require_reported
from minitune.view.history import RunHistory, RunLike, check_params
from minitune.visualization.page import read_histories, report_page

_HEIGHT = 520
"""The height of a plot in a notebook, in pixels."""


@dataclass(frozen=True)
class Plot:
    """A plot as an HTML page that needs no other file. Notebooks show it, `height` pixels high."""

    html: str = field(repr=False)
    height: int = field(default=_HEIGHT, repr=False)

    def write_html(self, path: str | os.PathLike[str]) -> str:
        """Write the page to a file, and return its absolute path. An existing file is replaced."""
        target = local_path(path)
        atomic_write(target, self.html.encode())
        return target

    def _repr_html_(self) -> str:
        """Shown by notebooks, in a frame where its script reaches nothing else."""
        return (
            f'<iframe sandbox="allow-scripts allow-downloads" width="100%" height="{self.height}" frameborder="0" '
            f'srcdoc="{html.escape(self.html)}"></iframe>'
        )


def _plot(view: str, histories: list[RunHistory], **settings: Any) -> Plot:
    return Plot(report_page(histories, {"view": view, **settings}).decode())


def _of_params(view: str, run: RunLike, params: Sequence[str] | None, metric: str | None, mode: str | None) -> Plot:
    (history,) = read_histories([run], metric, mode)
    if params is None:
        return _plot(view, [history])
    check_params(history, params)
    return _plot(view, [history], params=list(params))


def plot_optimization_history(
    runs: RunLike | Sequence[RunLike], *, metric: str | None = None, mode: str | None = None, by: str = "trial"
) -> Plot:
    """The objective of each trial, and the best so far, of one run or of several to compare. `by` is the horizontal
    axis: `"trial"`, or `"time"`: its last report, in seconds since the run began.
    """
    require(by in ("trial", "time"), 'by: "trial" or "time"', by)
    return _plot("history", read_histories(runs, metric, mode), by="end" if by == "time" else by)


def plot_intermediate_values(run: RunLike, *, metric: str | None = None, mode: str | None = None) -> Plot:
    """The learning curves: each result of each trial, coloured by how the trial ended."""
    return _plot("curves", read_histories([run], metric, mode))


def plot_parallel_coordinate(
    run: RunLike, *, params: Sequence[str] | None = None, metric: str | None = None, mode: str | None = None
) -> Plot:
    """A line for each trial through its parameters and its objective."""
    return _of_params("parallel", run, params, metric, mode)


def plot_slice(
    run: RunLike, *, params: Sequence[str] | None = None, metric: str | None = None, mode: str | None = None
) -> Plot:
    """The objective over each parameter."""
    return _of_params("slice", run, params, metric, mode)


def plot_contour(
    run: RunLike, *, params: Sequence[str] | None = None, metric: str | None = None, mode: str | None = None
) -> Plot:
    """The rank of the objective over two parameters, which the reader can change; `params` names the first pair."""
    return _of_params("contour", run, params, metric, mode)


def plot_param_importances(run: RunLike, *, metric: str | None = None, mode: str | None = None) -> Plot:
    """How much each parameter matters for the objective."""
    return _plot("importances", read_histories([run], metric, mode))


def plot_pareto_front(run: RunLike, metrics: Sequence[str], modes: Sequence[str]) -> Plot:
    """Two metrics of the last results against each other, and the trials that no other trial dominates.

    Raises:
        ValueError: If there are not two metrics with a mode each, or trials have reported, but none of them one of
            the metrics.
    """
    require(len(metrics) == 2 and len(modes) == 2, "metrics, modes: two of each", (metrics, modes))
    (history,) = read_histories([run], metrics[0], modes[0])
    check_mode(modes[1])
    require_reported([each.trial for each in history.trials], metrics[1], history.path)
    history.objectives = dict(zip(metrics, modes, strict=True))
    return _plot("front", [history])
