"""Views of a run: a report in one HTML file, single plots with Optuna's names, and parameter importances.

Each function takes a run's directory or name, its `ResultGrid` or its `ExperimentAnalysis`.

`page` writes the data of a `view.history` into a page, which `script` draws, `server` serves it while the run goes on,
and `plots` shows parts of it.

Examples:
    >>> from minitune.visualization import plot_optimization_history
    >>> plot_optimization_history(grid).write_html("history.html")  # doctest: +SKIP
"""

from __future__ import annotations

from minitune.base.lazy import listing
from minitune.view.history import get_param_importances
from minitune.visualization.page import write_report
from minitune.visualization.plots import (
    Plot,
    plot_contour,
    plot_intermediate_values,
    plot_optimization_history,
    plot_parallel_coordinate,
    plot_param_importances,
    plot_pareto_front,
    plot_slice,
)

__all__ = [
    "Plot",
    "get_param_importances",
    "plot_contour",
    "plot_intermediate_values",
    "plot_optimization_history",
    "plot_parallel_coordinate",
    "plot_param_importances",
    "plot_pareto_front",
    "plot_slice",
    "write_report",
]

__dir__ = listing(__all__)
