"""Views of a run: plots with the names of Optuna, parameter importances, and a report in one HTML file.

Each function takes a run's directory or name, its `ResultGrid` or its `ExperimentAnalysis`; the run may be running or
killed.
They need the extra `report` (plotly and scikit-learn), which is imported when a function is called.

Example:
    >>> from minitune.visualization import plot_optimization_history
    >>> figure = plot_optimization_history(grid)  # doctest: +SKIP
    >>> figure.write_html("history.html")  # doctest: +SKIP
"""

from __future__ import annotations

from minitune._alias import listing
from minitune.visualization.figures import (
    plot_contour,
    plot_edf,
    plot_intermediate_values,
    plot_lineage,
    plot_optimization_history,
    plot_parallel_coordinate,
    plot_param_importances,
    plot_pareto_front,
    plot_rank,
    plot_slice,
    plot_timeline,
)
from minitune.visualization.history import RunHistory
from minitune.visualization.importances import Importances, get_param_importances
from minitune.visualization.page import write_report

__all__ = [
    "Importances",
    "RunHistory",
    "get_param_importances",
    "plot_contour",
    "plot_edf",
    "plot_intermediate_values",
    "plot_lineage",
    "plot_optimization_history",
    "plot_parallel_coordinate",
    "plot_param_importances",
    "plot_pareto_front",
    "plot_rank",
    "plot_slice",
    "plot_timeline",
    "write_report",
]

__dir__ = listing(__all__)
