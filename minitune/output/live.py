"""The live view: a snapshot of a run as the few lines that are redrawn on a terminal.

It only needs a `Snapshot`, of a run in this process or read from the journal of another one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import Any

from minitune.base.text import cut, cut_front, duration, one_line, width_of
from minitune.experiment.lifecycle import ERROR, RUNNING, TERMINATED
from minitune.output.table import STATUS_ORDER, format_cell

_BAR_COLUMNS = 30
_LEAST_BAR_COLUMNS = 8
_CELL_COLUMNS = 16
_METRIC_COLUMNS = 11
_WIDE_COLUMNS = 79
_NAME_COLUMNS = 32
_MAX_ERRORS = 3
_MAX_PARAMS = 20
_MAX_BEST_LINES = 4
_STYLES = {"title": "1", "best": "32", "error": "31", "head": "2"}
_RESET = "\x1b[0m"


@dataclass(frozen=True)
class Row:
    """A trial that runs now, or the best one.

    Attributes:
        name: Its name.
        params: The searched parameters, by path.
        metrics: The latest values, by flattened name, the most important first.
        iteration: Its latest `training_iteration`.
        time_s: Its latest `time_total_s`; before that, how long it has been running.
    """

    name: str
    params: Mapping[str, Any] = field(default_factory=dict)
    metrics: Mapping[str, Any] = field(default_factory=dict)
    iteration: int | None = None
    time_s: float | None = None


@dataclass(frozen=True)
class ErrorKind:
    """Failures that are alike.

    Attributes:
        text: The error on one line.
        count: How many trials have ended with it.
        path: The file with the traceback of one of them.
    """

    text: str
    count: int = 1
    path: str | None = None


@dataclass(frozen=True)
class Snapshot:
    """The state of a run at one moment.

    Attributes:
        title: The run's name.
        elapsed_s: Seconds since it began.
        counts: Trials by status.
        total: How many there will be; None: without end, or not known.
        per_s: How many have ended per second; None: not known.
        left_s: Seconds until all have ended, an estimate; None: there is none. See `seconds_left`.
        best: The best trial so far; the metric that is optimised comes first in `metrics`.
        running: The trials that run now; of very many, some.
        errors: Failures by kind, the most frequent first.
        resources: What is used, as short texts: `2/4 CPUs`.
        note: Why the run is ending, such as `interrupted by SIGINT`; empty if it goes on.
    """

    title: str
    elapsed_s: float
    counts: Mapping[str, int]
    total: int | None = None
    per_s: float | None = None
    left_s: float | None = None
    best: Row | None = None
    running: Sequence[Row] = ()
    errors: Sequence[ErrorKind] = ()
    resources: Sequence[str] = ()
    note: str = ""

    @property
    def ended(self) -> int:
        """Trials that have finished or failed."""
        return self.counts.get(TERMINATED, 0) + self.counts.get(ERROR, 0)


def seconds_left(elapsed_s: float, ended: int, total: int | None, running: Sequence[float | None]) -> float | None:
    """Estimate how long a run will take from now on, if it goes on as it did so far.

    Args:
        elapsed_s: Seconds that it has taken so far.
        ended: Trials that have ended in this time.
        total: Trials that are to end, from the same beginning; None: without end.
        running: The part of each running trial that is done, 0 to 1; None: not known, half is assumed.

    Returns:
        Seconds; None for a run without end, or while no trial has made any progress.
    """
    if total is None or not (ended or any(part for part in running)):
        return None
    done = ended + sum(0.5 if part is None else min(1.0, max(0.0, part)) for part in running)
    return max(0.0, (total - done) * elapsed_s / done)


def progress_text(snapshot: Snapshot) -> str:
    """`23/50 trials, 1.2 per min, about 22 s left`: how far the run has come."""
    of = "" if snapshot.total is None else f"/{snapshot.total}"
    parts = [f"{snapshot.ended}{of} {'trial' if f'{snapshot.ended}{of}' in ('1', '1/1') else 'trials'}"]
    if snapshot.per_s:
        unit, size_s = next((u for u in (("s", 1), ("min", 60)) if snapshot.per_s * u[1] >= 1), ("h", 3600))
        parts.append(f"{snapshot.per_s * size_s:.3g} per {unit}")
    if snapshot.left_s is not None and (snapshot.total is None or snapshot.ended < snapshot.total):
        parts.append(f"about {duration(max(1.0, snapshot.left_s))} left")
    return ", ".join(parts)


def count_text(counts: Mapping[str, int]) -> str:
    """`2 RUNNING, 21 TERMINATED`: trials by status."""
    return ", ".join(f"{counts[status]} {status}" for status in STATUS_ORDER if counts.get(status))


def best_text(best: Row) -> str:
    """`loss=0.1, iteration 3, of train_1234: lr=0.1, ...`: the best trial and its configuration."""
    first = next(iter(best.metrics.items()), None)
    parts = [f"{one_line(first[0])}={_cell(first[1])}"] if first else []
    parts += [f"iteration {best.iteration}"] if best.iteration is not None else []
    params = ", ".join(f"{one_line(name)}={_cell(value)}" for name, value in islice(best.params.items(), _MAX_PARAMS))
    return f"{', '.join(parts)}, {one_line(best.name)}{f': {params}' if params else ''}"


def render(snapshot: Snapshot, width: int, height: int, *, color: bool = False, ascii_only: bool = False) -> list[str]:
    """The lines of the live view, the most important ones where there is no space for all.

    Args:
        snapshot: What is shown.
        width: Columns that a line may take at most.
        height: Lines that there may be at most.
        color: Whether lines may hold colour codes, which take no column.
        ascii_only: Draw the bar with ASCII characters; for terminals that know no others.
    """
    errors = _error_lines(snapshot.errors, width)
    head = [("title", line) for line in _title_lines(snapshot, width)]
    head.append(("", _bar_line(snapshot, width, ascii_only)))
    best = [("best", line) for line in _best_lines(snapshot.best, width, height - len(head) - len(errors))]
    room = height - len(head) - len(best) - len(errors)
    rows = [("head" if i == 0 else "", line) for i, line in enumerate(_row_lines(snapshot, width, room))]
    lines = [*head, *best, *rows, *(("error", line) for line in errors)]
    if len(lines) > height:  # hardly any space: the bar, the best, then the errors
        lines = [head[-1], *best[:1], *(("error", line) for line in errors)][: max(0, height)]
    shown = [(style, cut(line, width)) for style, line in lines]
    return [f"\x1b[{_STYLES[style]}m{line}{_RESET}" if color and style else line for style, line in shown]


# -- parts -------------------------------------------------------------------------------------------------------------


def _title_lines(snapshot: Snapshot, width: int) -> list[str]:
    note = f" ({snapshot.note})" if snapshot.note else ""
    time_and_counts = f"{duration(snapshot.elapsed_s)}{note}: {count_text(snapshot.counts) or 'no trial yet'}"
    resources = ", ".join(snapshot.resources)
    title = one_line(snapshot.title)
    whole = " | ".join(part for part in (title, time_and_counts, resources) if part)
    if width_of(whole) <= width:
        return [whole]
    return [line for line in (f"{title} | {resources}" if resources else title, time_and_counts) if line]


def _bar_line(snapshot: Snapshot, width: int, ascii_only: bool) -> str:
    text = progress_text(snapshot)
    columns = min(_BAR_COLUMNS, width - width_of(text) - 8)
    if not snapshot.total or columns < _LEAST_BAR_COLUMNS:
        return text
    part = min(1.0, snapshot.ended / snapshot.total)
    done = int(part * columns)
    full, empty = ("#", "-") if ascii_only else ("█", "░")
    bar = full * done + empty * (columns - done)
    return f"{f'[{bar}]' if ascii_only else bar} {int(part * 100):3d}% {text}"


def _best_lines(best: Row | None, width: int, room: int) -> list[str]:
    """The best trial, on several lines where its configuration is long and there is space."""
    if best is None:
        return []
    words = f"best {best_text(best)}".split(", ")
    lines = [words[0]]
    for word in words[1:]:
        if width_of(f"{lines[-1]}, {word},") <= width or len(lines) >= min(_MAX_BEST_LINES, room // 2):
            lines[-1] += f", {word}"
        else:
            lines[-1] += ","
            lines.append(f"     {word}")
    return lines


def _error_lines(errors: Sequence[ErrorKind], width: int) -> list[str]:
    lines = []
    for kind in errors[:_MAX_ERRORS]:
        count = f"{kind.count} {'error' if kind.count == 1 else 'errors'}: "
        text, path = count + one_line(kind.text), f" ({one_line(kind.path)})" if kind.path else ""
        lines.append(text + path if width_of(text + path) <= width else cut(text, width))
    more = sum(kind.count for kind in errors[_MAX_ERRORS:])
    return [*lines, f"{more} more errors of other kinds"] if more else lines


def _row_lines(snapshot: Snapshot, width: int, room: int) -> list[str]:
    """The running trials as columns under a header; trials without a line of their own are counted."""
    rows = snapshot.running
    count = max(len(rows), snapshot.counts.get(RUNNING, 0))
    shown = rows if count <= room - 1 else rows[: max(0, room - 2)]
    if not shown:
        return []
    metrics = list(dict.fromkeys(name for row in shown for name in row.metrics))
    params = list(dict.fromkeys(name for row in shown for name in row.params))
    least = _METRIC_COLUMNS if width >= _WIDE_COLUMNS else 0  # so that columns stay where they are while digits change
    columns = chain(
        (
            ["running", *(cut_front(one_line(row.name), _NAME_COLUMNS) for row in shown)],
            ["iter", *("" if row.iteration is None else str(row.iteration) for row in shown)],
            ["time", *("" if row.time_s is None else duration(row.time_s) for row in shown)],
        ),
        ([_header(name).ljust(least), *(_cell(row.metrics.get(name)) for row in shown)] for name in metrics),
        ([_header(name), *(_cell(row.params.get(name)) for row in shown)] for name in params),
    )
    lines = [""] * (len(shown) + 1)
    for i, column in enumerate(columns):
        columns_taken = max(map(width_of, column))
        if i and width_of(lines[0]) + 2 + columns_taken > width:
            break  # those further to the right are less important
        gap = "  " if i else ""
        lines = [
            line + gap + cell + " " * (columns_taken - width_of(cell)) for line, cell in zip(lines, column, strict=True)
        ]
    lines = [line.rstrip() for line in lines]
    return lines if len(shown) == count else [*lines, f"... {count - len(shown)} more running"]


def _header(name: str) -> str:
    return cut_front(one_line(name), _CELL_COLUMNS)


def _cell(value: Any) -> str:
    return cut(one_line(format_cell(value, _CELL_COLUMNS)), _CELL_COLUMNS)
