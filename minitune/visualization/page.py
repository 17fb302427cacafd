"""The report: one self-contained HTML file about one run or several.

The file holds plotly's script, the figures as JSON, and the table of trials as JSON. `report.html` beside this module
is its frame: it draws a figure when that comes into view, so a report of thousands of trials opens at once, and it
sorts and filters the table. Text of the user's travels as JSON whose `<` is escaped, or is escaped for HTML. So nothing
in a run can become markup or script.
"""

from __future__ import annotations

import html
import json
import math
import os
import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from minitune.base.files import atomic_write, local_path
from minitune.base.text import date
from minitune.visualization import figures
from minitune.visualization.history import RunHistory, RunLike, shown_params
from minitune.visualization.importances import get_param_importances

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

_FRAME = "report.html"
_ERRORS_SHOWN = 20


def write_report(
    runs: RunLike | Sequence[RunLike],
    path: str | os.PathLike[str],
    *,
    metric: str | None = None,
    mode: str | None = None,
) -> str:
    """Write a report of one run, or of several side by side, into one HTML file that needs no network.

    Args:
        runs: A run's directory, its `ResultGrid` or its `ExperimentAnalysis`, or a list of them. Blocks while they are
            read and models of importances are fitted: seconds for 5,000 trials.
        path: The file; an older one is replaced at once.
        metric: The objective; by default each run's own.
        mode: `"min"` or `"max"`; by default each run's own.

    Returns:
        The absolute path of the file.

    Raises:
        ImportError: If plotly is not installed.
        FileNotFoundError: If there is no such run, or no such directory for the file.
        ValueError: If a run has no metric or mode and none is given.
        TuneError: If a journal cannot be read.
    """
    figures.plotly_objects()
    histories = figures.read_histories(runs, metric, mode)
    from plotly.offline import get_plotlyjs

    plots: list[Figure] = []
    body = [_comparison(histories, plots)] if len(histories) > 1 else []
    body += [_section(history, number, plots) for number, history in enumerate(histories)]
    data = {
        "figures": [json.loads(plot.to_json()) for plot in plots],
        "tables": [_table(history) for history in histories],
    }
    title = f"minitune: {', '.join(history.name for history in histories)}"
    with open(os.path.join(os.path.dirname(__file__), _FRAME), encoding="utf-8") as file:
        page = file.read()
    texts = {
        "<!--TITLE-->": html.escape(title),
        "<!--BODY-->": "\n".join(body),
        "/*DATA*/": _json(data),
        "/*PLOTLY*/": get_plotlyjs(),
    }
    # split once: a text of the user's may hold a mark, too
    parts: list[str] = re.split(f"({'|'.join(map(re.escape, texts))})", page)
    target = local_path(path)
    text = "".join(texts.get(part, part) for part in parts)
    atomic_write(target, text.encode(errors="replace"))  # a text of the user's may hold half a surrogate pair
    return target


def _json(data: Any) -> str:
    """Return JSON for a script element: without `<`, and with null for values that are not finite."""
    return json.dumps(_finite(data), separators=(",", ":")).replace("<", "\\u003c")


def _finite(data: Any) -> Any:
    if isinstance(data, float):
        return data if math.isfinite(data) else None
    if isinstance(data, dict):
        return {name: _finite(value) for name, value in data.items()}
    if isinstance(data, (list, tuple)):
        return [_finite(value) for value in data]
    return data


def _plot(plot: Figure, plots: list[Figure]) -> str:
    plots.append(plot)
    return f'<div class="plot" data-figure="{len(plots) - 1}"></div>'


def _facts(rows: Sequence[tuple[str, Any]]) -> str:
    cells = (f"<tr><th>{html.escape(name)}</th><td>{html.escape(str(value))}</td></tr>" for name, value in rows)
    return f'<table class="facts">{"".join(cells)}</table>'


def _comparison(histories: list[RunHistory], plots: list[Figure]) -> str:
    """The runs side by side."""
    head = ("run", "trials", "failed", "best", "of trial", "once better", "worked (s)", "state")
    rows = []
    for history in histories:
        best = history.best
        row = (
            history.name,
            len(history.trials),
            sum(trial.failed for trial in history.trials),
            f"{history.metric}={figures.short_text(best.value)}" if best else "",
            best.number if best else "",
            history.once_better,
            f"{history.worked_s:.1f}",
            history.state.name,
        )
        rows.append("".join(f"<td>{html.escape(str(cell))}</td>" for cell in row))
    table = "".join(f"<th>{name}</th>" for name in head) + "".join(f"<tr>{row}</tr>" for row in rows)
    return (
        f'<section><h2>Side by side</h2><table class="facts">{table}</table>'
        f"{_plot(figures.plot_optimization_history(histories), plots)}"
        f"{_plot(figures.plot_optimization_history(histories, by='time'), plots)}"
        f"{_plot(figures.plot_edf(histories), plots)}</section>"
    )


def _section(history: RunHistory, number: int, plots: list[Figure]) -> str:
    """All about one run."""
    best = history.best
    ended: dict[str, int] = {}
    for trial in history.trials:
        kind = trial.way
        ended[kind] = ended.get(kind, 0) + 1
    facts = [
        ("state", history.state.text),
        ("trials", ", ".join(f"{count} {kind}" for kind, count in sorted(ended.items())) or "none yet"),
        ("objective", f"{history.metric} ({history.mode})"),
        ("begun", date(history.begun_s)),
        ("worked", f"{history.worked_s:.1f} s"),
        ("seed", history.seed),
        ("directory", history.path),
    ]
    if history.not_drawn:
        facts.insert(2, ("not drawn", history.not_drawn))
    parts = [f"<section><h2>{html.escape(history.name)}</h2>{_facts(facts)}"]
    if best is not None:
        rows = [(path, figures.short_text(value)) for path, value in best.params.items()]
        parts.append(
            f"<h3>Best trial: {best.number}</h3>"
            + _facts(
                [
                    (history.metric, figures.short_text(best.value)),
                    *([("once better", history.once_better)] if history.once_better else []),
                    *rows,
                    ("ended", ": ".join(filter(None, (best.ended, best.why)))),
                ]
            )
        )
    parts += [_plot(plot, plots) for plot in _plots_of(history)]
    failed = [trial for trial in history.trials if trial.failed]
    if failed:
        items = "".join(f"<li>trial {t.number}: {html.escape(t.error)}</li>" for t in failed[:_ERRORS_SHOWN])
        more = f"<p>and {len(failed) - _ERRORS_SHOWN} more</p>" if len(failed) > _ERRORS_SHOWN else ""
        parts.append(f"<h3>Errors</h3><ul>{items}</ul>{more}")
    parts.append(
        f'<h3>Trials</h3><div class="trials" data-table="{number}"><input type="search" '
        f'placeholder="filter: words, or a condition such as lr &lt; 0.01" aria-label="filter">'
        f'<span class="count"></span><div class="scroll"><table></table></div><div class="pages"></div></div></section>'
    )
    return "\n".join(parts)


def _plots_of(history: RunHistory) -> list[Figure]:
    """The figures of a run, each where it has something to show."""
    plots = [figures.plot_optimization_history(history)]
    if any(len(trial.points) > 1 for trial in history.trials):
        plots.append(figures.plot_intermediate_values(history))
    params = shown_params(history, None)
    scored = len(history.scored())
    if params and scored:
        order = params
        plots.append(figures.plot_parallel_coordinate(history))
        try:
            importances = get_param_importances(history)
        except (ImportError, ValueError):  # without scikit-learn, or from a few trials, there are none
            pass
        else:
            order = list(importances.mean)
            plots.append(figures.plot_param_importances(history, importances=importances))
        plots.append(figures.plot_slice(history, params=order[:6]))
        if len(order) > 1:
            plots.append(figures.plot_contour(history, params=order[:3]))
    if any(trial.spans for trial in history.trials):
        plots.append(figures.plot_timeline(history))
    if any(trial.copies for trial in history.trials):
        plots.append(figures.plot_lineage(history))
    return plots


def _table(history: RunHistory) -> dict[str, Any]:
    """The table of trials, as data."""
    columns: list[tuple[str, Callable[[Any], Any]]] = [
        ("trial", lambda trial: trial.number),
        ("name", lambda trial: trial.trial.name),
        ("ended", lambda trial: trial.ended),
        (history.metric, lambda trial: trial.value),
        *((path, lambda trial, path=path: trial.params.get(path)) for path in history.params),
        ("iterations", lambda trial: trial.points[-1].step if trial.points else None),
        ("worked (s)", lambda trial: round(sum(end - begin for begin, end in trial.spans), 3)),
        ("why", lambda trial: trial.why),
        ("error", lambda trial: trial.error),
    ]
    return {
        "columns": [name for name, _ in columns],
        "rows": [[value(trial) for _, value in columns] for trial in history.trials],
        "sort": 3,
        "descending": history.mode == "max",
    }
