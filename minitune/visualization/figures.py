"""Plots of a run, as plotly figures. The functions have Optuna's names; what they show comes from the run's journal.

Each function takes the run's directory, its `ResultGrid`, its `ExperimentAnalysis`, or a `RunHistory` that was read
before. Where a browser could not draw all trials, the best third of them and an even choice of the others are drawn.
Failed trials and values that are not finite have no place on an axis of the objective, so they are left out there.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import combinations, count
from typing import TYPE_CHECKING, Any

from minitune.base.checks import require
from minitune.experiment.trial import non_dominated, require_reported
from minitune.visualization.history import RunHistory, RunLike, TrialHistory, finite_number, history_of, shown_params
from minitune.visualization.importances import Importances, get_param_importances

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

_PLAIN, _BEST, _FAILED, _QUIET = "#3b6fb6", "#d1495b", "#8a8a8a", "#b8c4d6"
_RUN_COLORS = ("#3b6fb6", "#d1495b", "#2a9d6f", "#e09f3e", "#7b5ea7", "#3aa6b9", "#8c6d46", "#c2528b")
_SCALE = "Viridis"
_CURVES = 300
_POINTS = 3000
_PANELS = 8
_BINS = 24
"""The maximum numbers of learning curves, points of a panel, panels, and cells along an axis of a contour."""
_NONE = "(none)"
"""Shown for a parameter that a trial does not have, such as one of a group that was not drawn."""


def plotly_objects() -> Any:
    """`plotly.graph_objects`.

    Raises:
        ImportError: If plotly is not installed; the text names the extra.
    """
    try:
        import plotly.graph_objects as graph_objects
    except ImportError as error:
        raise ImportError('plots need plotly; `pip install "minitune[report]"` installs it') from error
    return graph_objects


def read_histories(runs: RunLike | Sequence[RunLike], metric: str | None, mode: str | None) -> list[RunHistory]:
    """The histories of one run or of a list of runs; see `RunHistory` for the errors."""
    found = [history_of(run, metric, mode) for run in (runs if isinstance(runs, (list, tuple)) else [runs])]
    require(bool(found), "runs: at least one", runs)
    return found


def _figure(title: str, **layout: Any) -> Figure:
    figure = plotly_objects().Figure()
    figure.update_layout(title=title, template="none", hovermode="closest", margin={"t": 60, "r": 30}, **layout)
    return figure


def short_text(value: Any) -> str:
    """A value as text for users. Floats have six digits."""
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _hover(history: TrialHistory, run: RunHistory) -> str:
    lines = [
        f"<b>trial {history.number}</b> {history.ended}",
        f"{run.metric}: {short_text(history.value)}",
        *(f"{path}: {short_text(value)}" for path, value in list(history.params.items())[:12]),
    ]
    return "<br>".join([*lines, *([history.error] if history.error else [])]).replace("\n", " ")


def _thinned(trials: Sequence[TrialHistory], run: RunHistory, most: int) -> list[TrialHistory]:
    """At most `most` trials, in their order: one third are the best trials, the others are evenly spaced."""
    if len(trials) <= most:
        return list(trials)
    ranked = sorted(trials, key=lambda t: run.sign * t.value if math.isfinite(t.value) else math.inf)
    chosen = {t.number for t in ranked[: most // 3]}
    rest = ranked[most // 3 :]
    room = most - len(chosen)
    chosen.update(rest[i * len(rest) // room].number for i in range(room))
    return [t for t in trials if t.number in chosen]


@dataclass
class _ParameterAxis:
    """The axis of a parameter.

    Attributes:
        places: The coordinate of each value. On a logarithmic axis, it is the logarithm to base 10.
        ticks: (coordinate, text) of the special ticks for categories, missing values and powers of ten.
    """

    places: Callable[[Any], float]
    ticks: list[tuple[float, str]]

    @classmethod
    def of(cls, values: Sequence[Any], has_missing: bool) -> _ParameterAxis:
        """The axis for these values: linear, logarithmic (if they span two powers of ten), or categorical."""
        numbers = [v for v in values if isinstance(v, (int, float)) and not isinstance(v, bool)]
        if len(numbers) < len(values) or not numbers:
            texts = sorted({str(v) for v in values}) + ([_NONE] if has_missing else [])
            order = {text: float(i) for i, text in enumerate(texts)}
            return cls(lambda v: order[_NONE if v is _Missing else str(v)], [(i, t) for t, i in order.items()])
        low = min(numbers)
        high = max(numbers)
        is_log = low > 0 and high / low >= 100
        place: Callable[[Any], float] = math.log10 if is_log else float
        first = place(low)
        last = place(high)
        below = first - 0.12 * ((last - first) or 1.0)
        ticks: list[tuple[float, str]] = []
        if is_log:
            ticks = [(float(e), f"1e{e}") for e in range(math.ceil(first), math.floor(last) + 1)]
            ticks = ticks if len(ticks) > 1 else [(first, short_text(low)), (last, short_text(high))]
        elif has_missing:
            ticks = [(at, f"{at:.3g}") for at in (first + i * (last - first) / 4 for i in range(5))]
        if has_missing:
            ticks.insert(0, (below, _NONE))
        return cls(lambda v: below if v is _Missing else place(v), ticks)

    def layout(self) -> dict[str, Any]:
        """The special ticks, in plotly's form."""
        return {"tickvals": [p for p, _ in self.ticks], "ticktext": [t for _, t in self.ticks]} if self.ticks else {}


class _Missing:
    """Represents the value of a parameter that a trial does not have."""


def _axis_of(trials: Sequence[TrialHistory], path: str) -> _ParameterAxis:
    there = [t.params[path] for t in trials if path in t.params]
    return _ParameterAxis.of(there, len(there) < len(trials))


def _place(axis: _ParameterAxis, trial: TrialHistory, path: str) -> float:
    return axis.places(trial.params.get(path, _Missing))


def plot_optimization_history(
    runs: RunLike | Sequence[RunLike], *, metric: str | None = None, mode: str | None = None, by: str = "trial"
) -> Figure:
    """The objective of each trial, and the best so far.

    Args:
        runs: A run, or several to compare. Blocks while it reads them.
        metric: The objective; by default the run's.
        mode: `"min"` or `"max"`; by default the run's.
        by: The horizontal axis. `"trial"`: the trial's number. `"time"`: the time of the trial's last report, in
            seconds since the first trial began.

    Raises:
        ImportError: If plotly is not installed.
        FileNotFoundError: If there is no run.
        ValueError: If there is no metric or mode, or `by` has another value.
    """
    require(by in ("trial", "time"), 'by: "trial" or "time"', by)
    histories = read_histories(runs, metric, mode)
    go = plotly_objects()
    first = histories[0]
    alone = len(histories) == 1
    figure = _figure("Optimization history" if by == "trial" else "Optimization history over time")
    figure.update_xaxes(title="trial" if by == "trial" else "seconds since the first trial began")
    figure.update_yaxes(title=first.metric)
    for history, color in zip(histories, _RUN_COLORS * len(histories), strict=False):
        scored = history.scored()
        if by == "time":
            scored = sorted((t for t in scored if math.isfinite(t.points[-1].at_s)), key=lambda t: t.points[-1].at_s)
        at = [float(t.number) if by == "trial" else t.points[-1].at_s - history.first_s for t in scored]
        best = math.inf
        steps = []
        for trial in scored:
            best = min(best, history.sign * trial.value)
            steps.append(history.sign * best)
        figure.add_trace(
            go.Scatter(
                x=at,
                y=[t.value for t in scored],
                mode="markers",
                name=history.metric if alone else history.name,
                marker={"color": _QUIET if alone else color, "size": 6, "opacity": 1 if alone else 0.35},
                text=[_hover(t, history) for t in scored],
                hoverinfo="text",
            )
        )
        figure.add_trace(
            go.Scatter(
                x=at,
                y=steps,
                mode="lines",
                line={"shape": "hv", "color": _BEST if alone else color, "width": 2},
                name="best so far" if alone else f"{history.name}: best so far",
            )
        )
    return figure


def plot_intermediate_values(run: RunLike, *, metric: str | None = None, mode: str | None = None) -> Figure:
    """The learning curves: each result of each trial, coloured by how the trial ended.

    Args:
        run: The run. Blocks while it reads the run.
        metric: The objective; by default the run's.
        mode: `"min"` or `"max"`; by default the run's.

    Raises:
        ImportError: If plotly is not installed.
        FileNotFoundError: If there is no run.
        ValueError: If there is no metric or mode.
    """
    history = history_of(run, metric, mode)
    go = plotly_objects()
    with_curve = [t for t in history.trials if any(math.isfinite(p.value) for p in t.points)]
    chosen = _thinned(with_curve, history, _CURVES)
    title = "Learning curves" if len(chosen) == len(with_curve) else f"Learning curves of {len(chosen)} trials"
    figure = _figure(title)
    figure.update_xaxes(title="training_iteration")
    figure.update_yaxes(title=history.metric)
    groups: dict[str, list[TrialHistory]] = {}
    for trial in chosen:
        groups.setdefault(trial.way, []).append(trial)
    for (ended, trials), color in zip(sorted(groups.items()), _RUN_COLORS * len(groups), strict=False):
        x: list[float | None] = []
        y: list[float | None] = []
        text: list[str] = []
        for trial in trials:  # one trace for all lines: a browser cannot draw a thousand traces
            points = [p for p in trial.points if math.isfinite(p.value)]
            x += [*(p.step for p in points), None]
            y += [*(p.value for p in points), None]
            text += [f"trial {trial.number}, {trial.ended}: {trial.why}"] * (len(points) + 1)
        figure.add_trace(
            go.Scatter(
                x=x,
                y=y,
                mode="lines+markers" if sum(len(t.points) for t in trials) < 500 else "lines",
                name=f"{ended} ({len(trials)})",
                text=text,
                hoverinfo="text+x+y",
                line={"color": color, "width": 1},
                marker={"size": 4},
                opacity=0.7,
            )
        )
    best = history.best
    if best is not None:
        points = [p for p in best.points if math.isfinite(p.value)]
        figure.add_trace(
            go.Scatter(
                x=[p.step for p in points],
                y=[p.value for p in points],
                mode="lines+markers",
                name=f"best: trial {best.number}",
                line={"color": "black", "width": 3},
            )
        )
    return figure


def plot_parallel_coordinate(
    run: RunLike, *, params: Sequence[str] | None = None, metric: str | None = None, mode: str | None = None
) -> Figure:
    """A line for each trial through its parameters and its objective.

    Args:
        run: The run. Blocks while it reads the run.
        params: The parameters; by default all that took more than one value.
        metric: The objective; by default the run's.
        mode: `"min"` or `"max"`; by default the run's.

    Raises:
        ImportError: If plotly is not installed.
        FileNotFoundError: If there is no run.
        ValueError: If there is no metric or mode, or no such parameter.
    """
    history = history_of(run, metric, mode)
    names = shown_params(history, params)
    trials = _thinned(history.scored(), history, _POINTS)
    figure = _figure("Parallel coordinates")
    dimensions: list[dict[str, Any]] = [{"label": history.metric, "values": [t.value for t in trials]}]
    for path in names:
        axis = _axis_of(trials, path)
        dimensions.append({"label": path, "values": [_place(axis, t, path) for t in trials], **axis.layout()})
    line = {
        "color": [t.value for t in trials],
        "colorscale": _SCALE,
        "reversescale": history.mode == "min",
        "showscale": True,
        "colorbar": {"title": {"text": history.metric}},
    }
    figure.add_trace(plotly_objects().Parcoords(dimensions=dimensions, line=line, labelangle=-20, labelside="bottom"))
    return figure


def plot_slice(
    run: RunLike, *, params: Sequence[str] | None = None, metric: str | None = None, mode: str | None = None
) -> Figure:
    """The objective over each parameter. The colour shows the trial's number.

    Args:
        run: The run. Blocks while it reads the run.
        params: The parameters; by default the first eight that took more than one value.
        metric: The objective; by default the run's.
        mode: `"min"` or `"max"`; by default the run's.

    Raises:
        ImportError: If plotly is not installed.
        FileNotFoundError: If there is no run.
        ValueError: If there is no metric or mode, or no such parameter.
    """
    history = history_of(run, metric, mode)
    names = shown_params(history, params)
    names = names[:_PANELS] if params is None else names
    trials = _thinned(history.scored(), history, _POINTS)
    figure = _figure("Slices", showlegend=False)
    columns = max(len(names), 1)
    figure.set_subplots(rows=1, cols=columns, shared_yaxes=True)
    for column, path in enumerate(names, 1):
        axis = _axis_of(trials, path)
        places = [_place(axis, t, path) for t in trials]
        figure.add_trace(_points(places, [t.value for t in trials], trials, history, column == columns), 1, column)
        figure.update_xaxes(title=path, **axis.layout(), row=1, col=column)
    figure.update_yaxes(title=history.metric, row=1, col=1)
    return figure


def _points(
    x: list[float], y: list[float], trials: Sequence[TrialHistory], history: RunHistory, has_scale: bool
) -> Any:
    """A trace with a point for each trial, coloured by its number."""
    marker = {
        "color": [t.number for t in trials],
        "colorscale": "Blues",
        "line": {"width": 0.5, "color": "grey"},
        "showscale": has_scale,
        "colorbar": {"title": {"text": "trial"}},
    }
    hover = [_hover(t, history) for t in trials]
    return plotly_objects().Scatter(
        x=x, y=y, mode="markers", marker=marker, text=hover, hoverinfo="text", name="trials"
    )


def plot_contour(
    run: RunLike, *, params: Sequence[str] | None = None, metric: str | None = None, mode: str | None = None
) -> Figure:
    """The objective over pairs of parameters: the mean of the trials in each cell of a grid, and the trials.

    Args:
        run: The run. Blocks while it reads the run.
        params: The parameters, of which all pairs are shown; by default the first four that took more than one value.
        metric: The objective; by default the run's.
        mode: `"min"` or `"max"`; by default the run's.

    Raises:
        ImportError: If plotly is not installed.
        FileNotFoundError: If there is no run.
        ValueError: If there is no metric or mode, no such parameter, or only one of them.
    """
    return _matrix(history_of(run, metric, mode), params, "Contours", has_contours=True)


def plot_rank(
    run: RunLike, *, params: Sequence[str] | None = None, metric: str | None = None, mode: str | None = None
) -> Figure:
    """The trials over pairs of parameters, coloured by rank: 0 is the best, 1 the worst.

    Args:
        run: The run. Blocks while it reads the run.
        params: The parameters, of which all pairs are shown; by default the first four that took more than one value.
        metric: The objective; by default the run's.
        mode: `"min"` or `"max"`; by default the run's.

    Raises:
        ImportError: If plotly is not installed.
        FileNotFoundError: If there is no run.
        ValueError: If there is no metric or mode, no such parameter, or only one of them.
    """
    return _matrix(history_of(run, metric, mode), params, "Ranks", has_contours=False)


def _matrix(history: RunHistory, params: Sequence[str] | None, title: str, *, has_contours: bool) -> Figure:
    """A panel for each pair of parameters, with a point for each trial, coloured by rank if there are no contours."""
    names = shown_params(history, params)
    names = names[:4] if params is None else names
    require(len(names) >= 2, "params: at least two parameters that took more than one value", names)
    trials = _thinned(history.scored(), history, _POINTS)
    order = {t.number: i for i, t in enumerate(sorted(trials, key=lambda t: history.sign * t.value))}
    ranks = [order[t.number] / max(len(trials) - 1, 1) for t in trials]
    axes = {path: _axis_of(trials, path) for path in names}
    places = {path: [_place(axes[path], t, path) for t in trials] for path in names}
    pairs = list(combinations(names, 2))
    columns = min(len(pairs), 3)
    figure = _figure(title, showlegend=False)
    figure.set_subplots(rows=math.ceil(len(pairs) / columns), cols=columns, horizontal_spacing=0.1)
    figure.update_layout(height=max(450, 360 * math.ceil(len(pairs) / columns)))
    for at, (x, y) in enumerate(pairs):
        row = at // columns + 1
        column = at % columns + 1
        marker: dict[str, Any] = {"size": 6, "line": {"width": 0.5, "color": "grey"}}
        if has_contours:
            contours = _contours(places[x], places[y], [t.value for t in trials])
            contours.update(colorscale=_SCALE, reversescale=history.mode == "min", showscale=at == 0)
            contours.update(colorbar={"title": {"text": history.metric}})
            figure.add_trace(contours, row, column)
            marker |= {"color": "black", "opacity": 0.5}
        else:
            marker |= {"color": ranks, "colorscale": "RdYlBu_r", "showscale": at == 0, "colorbar": {"title": "rank"}}
        hover = [_hover(t, history) for t in trials]
        points = {"x": places[x], "y": places[y], "mode": "markers", "marker": marker, "text": hover}
        figure.add_trace(plotly_objects().Scatter(**points, hoverinfo="text"), row, column)
        figure.update_xaxes(title=x, **axes[x].layout(), row=row, col=column)
        figure.update_yaxes(title=y, **axes[y].layout(), row=row, col=column)
    return figure


def _contours(x: list[float], y: list[float], z: list[float]) -> Any:
    """The mean of `z` in the cells of a grid over `x` and `y`; empty cells are filled from their neighbours."""
    sums: dict[tuple[int, int], list[float]] = {}
    low = (min(x, default=0.0), min(y, default=0.0))
    cells = []
    for values in (x, y):
        distinct = sorted(set(values))
        width = (distinct[-1] - distinct[0]) / _BINS if len(distinct) > 1 else 1.0
        cells.append(width or 1.0)
    for px, py, value in zip(x, y, z, strict=True):
        cell = (min(int((px - low[0]) / cells[0]), _BINS - 1), min(int((py - low[1]) / cells[1]), _BINS - 1))
        sums.setdefault(cell, []).append(value)
    columns = sorted({cell[0] for cell in sums})
    rows = sorted({cell[1] for cell in sums})
    means = [[_mean(sums.get((column, row))) for column in columns] for row in rows]
    return plotly_objects().Contour(
        x=[low[0] + (column + 0.5) * cells[0] for column in columns],
        y=[low[1] + (row + 0.5) * cells[1] for row in rows],
        z=means,
        connectgaps=True,
        hoverinfo="skip",
        line={"width": 0},
    )


def _mean(values: list[float] | None) -> float | None:
    return sum(values) / len(values) if values else None


def plot_edf(runs: RunLike | Sequence[RunLike], *, metric: str | None = None, mode: str | None = None) -> Figure:
    """The share of trials whose objective is at most a value, for one run or several to compare.

    Args:
        runs: A run, or several. Blocks while it reads them.
        metric: The objective; by default the run's.
        mode: `"min"` or `"max"`; by default the run's.

    Raises:
        ImportError: If plotly is not installed.
        FileNotFoundError: If there is no run.
        ValueError: If there is no metric or mode.
    """
    histories = read_histories(runs, metric, mode)
    figure = _figure("Empirical distribution of the objective", showlegend=True)
    figure.update_xaxes(title=histories[0].metric)
    figure.update_yaxes(title="share of trials", range=[0, 1])
    for history, color in zip(histories, _RUN_COLORS * len(histories), strict=False):
        values = sorted(t.value for t in history.scored())
        shares = [(i + 1) / len(values) for i in range(len(values))]
        line = {"shape": "hv", "color": color}
        figure.add_trace(plotly_objects().Scatter(x=values, y=shares, mode="lines", line=line, name=history.name))
    return figure


def plot_pareto_front(run: RunLike, metrics: Sequence[str], modes: Sequence[str]) -> Figure:
    """Two metrics of the last results against each other. Trials that no other trial dominates are marked.

    Args:
        run: The run. Blocks while it reads the run.
        metrics: The two metrics.
        modes: `"min"` or `"max"` for each metric.

    Raises:
        ImportError: If plotly is not installed.
        FileNotFoundError: If there is no run.
        ValueError: If there are not two metrics with a mode each, or trials have reported, but none of them one of
            the metrics.
    """
    require(len(metrics) == 2 and len(modes) == 2, "metrics, modes: two of each", (metrics, modes))
    history = history_of(run, metrics[0], modes[0])
    require_reported([each.trial for each in history.trials], metrics[1], history.path)
    signs = []
    for mode in modes:
        require(mode in ("min", "max"), 'modes: "min" or "max"', mode)
        signs.append(1 if mode == "max" else -1)
    trials: list[TrialHistory] = []
    values: list[list[float]] = []
    for trial in history.trials:
        pair = [finite_number(trial.metrics.get(name)) for name in metrics]
        if not trial.failed and all(map(math.isfinite, pair)):
            trials.append(trial)
            values.append(pair)
    scores = [[sign * value for sign, value in zip(signs, pair, strict=True)] for pair in values]
    front = set(non_dominated(list(zip(scores, range(len(trials)), strict=True))))
    figure = _figure("Pareto front")
    figure.update_xaxes(title=metrics[0])
    figure.update_yaxes(title=metrics[1])
    for name, wanted, color in (("dominated", False, _QUIET), ("front", True, _BEST)):
        of_kind = [i for i in range(len(trials)) if (i in front) is wanted]
        figure.add_trace(
            plotly_objects().Scatter(
                x=[values[i][0] for i in of_kind],
                y=[values[i][1] for i in of_kind],
                mode="markers",
                name=name,
                marker={"color": color, "size": 8 if wanted else 6},
                text=[_hover(trials[i], history) for i in of_kind],
                hoverinfo="text",
            )
        )
    return figure


def plot_timeline(run: RunLike, *, metric: str | None = None, mode: str | None = None) -> Figure:
    """When each trial had a worker, one row for each worker at a time, coloured by how the trial ended.

    Args:
        run: The run. Blocks while it reads the run.
        metric: The objective, for the texts of the bars; by default the run's.
        mode: `"min"` or `"max"`; by default the run's.

    Raises:
        ImportError: If plotly is not installed.
        FileNotFoundError: If there is no run.
        ValueError: If there is no metric or mode.
    """
    history = history_of(run, metric, mode)
    figure = _figure("Timeline of workers", barmode="overlay")
    figure.update_xaxes(title="seconds since the first trial began")
    figure.update_yaxes(title="worker", dtick=1)
    found = ((begin, end, t) for t in history.trials for begin, end in t.spans if math.isfinite(begin))
    spans = sorted(found, key=lambda span: span[:2])
    free = count()  # the numbers of unused rows
    used: list[tuple[float, int]] = []  # a heap of (end, row): first the row that is free first
    groups: dict[str, list[tuple[int, float, float, TrialHistory]]] = {}
    for begin, end, trial in spans:
        row = heappop(used)[1] if used and used[0][0] <= begin else next(free)
        heappush(used, (end, row))
        groups.setdefault(trial.way, []).append((row, begin, end, trial))
    for (ended, bars), color in zip(sorted(groups.items()), _RUN_COLORS * len(groups), strict=False):
        figure.add_trace(
            plotly_objects().Bar(
                y=[row for row, *_ in bars],
                base=[begin - history.first_s for _, begin, _, _ in bars],
                x=[end - begin for _, begin, end, _ in bars],
                orientation="h",
                name=ended,
                marker={"color": _FAILED if ended == "failed" else color, "line": {"width": 0.5, "color": "white"}},
                text=[_hover(trial, history) for *_, trial in bars],
                textposition="none",
                hoverinfo="text",
            )
        )
    return figure


def plot_lineage(run: RunLike, *, metric: str | None = None, mode: str | None = None) -> Figure:
    """The lineage of a population: which trial continued from which trial's checkpoint, over the training iterations.

    Args:
        run: The run. Blocks while it reads the run.
        metric: The objective; by default the run's.
        mode: `"min"` or `"max"`; by default the run's.

    Raises:
        ImportError: If plotly is not installed.
        FileNotFoundError: If there is no run.
        ValueError: If there is no metric or mode.
    """
    history = history_of(run, metric, mode)
    figure = _figure("Lineage of the population", showlegend=True)
    figure.update_xaxes(title="training_iteration")
    figure.update_yaxes(title="trial", dtick=1)
    trials = [t for t in history.trials if t.points]
    x: list[float | None] = []
    y: list[float | None] = []
    for trial in trials:
        x += [0, trial.points[-1].step, None]
        y += [trial.number, trial.number, None]
    go = plotly_objects()
    figure.add_trace(go.Scatter(x=x, y=y, mode="lines", line={"color": _QUIET}, hoverinfo="skip", name="training"))
    points = [(p, t) for t in _thinned(trials, history, _CURVES) for p in t.points if math.isfinite(p.value)]
    marker = {
        "color": [p.value for p, _ in points],
        "colorscale": _SCALE,
        "reversescale": history.mode == "min",
        "showscale": True,
        "colorbar": {"title": {"text": history.metric}},
        "size": 6,
    }
    text = [f"trial {t.number}, step {p.step:g}: {short_text(p.value)}" for p, t in points]
    steps = {"x": [p.step for p, _ in points], "y": [t.number for _, t in points]}
    figure.add_trace(go.Scatter(**steps, mode="markers", marker=marker, text=text, hoverinfo="text", name="results"))
    copies = [(copy, t) for t in history.trials for copy in t.copies if copy.donor != t.number]
    x = []
    y = []
    for copy, trial in copies:
        x += [copy.step, copy.step, None]
        y += [copy.donor, trial.number, None]
    figure.add_trace(go.Scatter(x=x, y=y, mode="lines", line={"color": _BEST, "width": 1}, name="copies"))
    return figure


def plot_param_importances(
    run: RunLike,
    *,
    params: Sequence[str] | None = None,
    metric: str | None = None,
    mode: str | None = None,
    importances: Importances | None = None,
) -> Figure:
    """How much each parameter matters for the objective, with the spread of the estimate.

    Args:
        run: The run. Blocks while it reads the run and fits the model.
        params: The parameters; by default all that took more than one value.
        metric: The objective; by default the run's.
        mode: `"min"` or `"max"`; by default the run's.
        importances: The result of `get_param_importances`, if it is known.

    Raises:
        ImportError: If plotly or scikit-learn is not installed.
        FileNotFoundError: If there is no run.
        ValueError: If there is no metric or mode, no such parameter, or too few trials.
    """
    history = history_of(run, metric, mode)
    found = importances or get_param_importances(history, params=params)
    figure = _figure(f"Parameter importances<br><sub>{found.confidence}</sub>")
    figure.update_xaxes(title=f"importance for {history.metric} (shares of 1)", rangemode="tozero")
    names = list(reversed(found.mean))
    figure.add_trace(
        plotly_objects().Bar(
            x=[found.mean[name] for name in names],
            y=names,
            orientation="h",
            error_x={"type": "data", "array": [found.std[name] for name in names]},
            marker={"color": _PLAIN},
        )
    )
    figure.update_yaxes(automargin=True)
    return figure
