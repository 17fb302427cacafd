"""The live view of a run: a few lines that a terminal redraws, or HTML for a notebook.

It only needs a `RunSnapshot`. The run may belong to this process, or come from the journal of another one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from minitune.base.table import Column, Table, as_html, bar, curve, line_as_html
from minitune.base.text import counted, cut, cut_front, duration, one_line, printable, width_of
from minitune.experiment.lifecycle import ERROR, RUNNING, TERMINATED
from minitune.output.rows import values_text
from minitune.output.table import STATUS_ORDER, status_column

_BAR_COLUMNS = 30
_LEAST_BAR_COLUMNS = 8
_CELL_COLUMNS = 16
_METRIC_COLUMNS = 11
_WIDE_COLUMNS = 79
_NAME_COLUMNS = 32
_MAX_ERRORS = 3
_STYLES = {"title": "1", "best": "32", "error": "31", "head": "2"}
_RESET = "\x1b[0m"


@dataclass(frozen=True)
class TrialLine:
    """A running trial, or one of the best.

    Attributes:
        name: Its name.
        params: The searched parameters, by path.
        metrics: The latest values, by flattened name, the most important first.
        iteration: Its latest `training_iteration`.
        time_s: Its latest `time_total_s`; before the first report, the time since its start.
        number: Its position in the order of submission. A narrow terminal shows it in place of the name.
        status: Its state, such as `running` or `stopped at 4 by ASHA`.
        brief_status: The same without the scheduler, for a narrow terminal.
        node: The address of its machine; None if it is not known yet.
        is_running: Whether it is running.
    """

    name: str
    params: Mapping[str, Any] = field(default_factory=dict)
    metrics: Mapping[str, Any] = field(default_factory=dict)
    iteration: int | None = None
    time_s: float | None = None
    number: int = 0
    status: str = ""
    brief_status: str = ""
    node: str | None = None
    is_running: bool = False


@dataclass(frozen=True)
class ErrorKind:
    """Failures with the same cause.

    Attributes:
        text: The error on one line.
        count: The number of trials that have failed with it.
        path: The file with the traceback of one of them.
    """

    text: str
    count: int = 1
    path: str | None = None


@dataclass(frozen=True)
class RunSnapshot:
    """The state of a run at one moment.

    Attributes:
        title: The run's name.
        elapsed_s: Seconds since it began.
        counts: The number of trials by status.
        total: The final number of trials; None if it is endless or unknown.
        per_s: The number of trials that have ended per second; None if unknown.
        left_s: The estimated seconds until all have ended; None without an estimate. See `seconds_left`.
        goal: The optimised metric, and `min` or `max`; None if unknown.
        values: The number and the last value of each trial with a value of `goal`, in the order of the numbers.
        best: The best trials so far, the best first, with `goal` as the first of their `metrics`; empty without a goal.
            Some of them may be running.
        running: The running trials, or some of very many.
        params: The parameters of all trials, in the order of their columns.
        errors: Failures by kind, the most frequent first.
        resources: The used resources as short texts, such as `2/4 CPUs`.
        starting: A text to show before the first trial begins, such as `starting 2 workers`.
        note: Why the run is ending, such as `interrupted by SIGINT`; empty if it is not.
    """

    title: str
    elapsed_s: float
    counts: Mapping[str, int]
    total: int | None = None
    per_s: float | None = None
    left_s: float | None = None
    goal: tuple[str, str] | None = None
    values: Sequence[tuple[float, float]] = ()
    best: Sequence[TrialLine] = ()
    running: Sequence[TrialLine] = ()
    params: Sequence[str] = ()
    errors: Sequence[ErrorKind] = ()
    resources: Sequence[str] = ()
    starting: str = ""
    note: str = ""

    @property
    def ended(self) -> int:
        """The number of trials that have finished or failed."""
        return self.counts.get(TERMINATED, 0) + self.counts.get(ERROR, 0)


def seconds_left(elapsed_s: float, ended: int, total: int | None, running: Sequence[float | None]) -> float | None:
    """Estimate how many seconds a run will still take, at its speed so far.

    Args:
        elapsed_s: The seconds so far.
        ended: The number of trials that have ended in this time.
        total: The number of trials in all; None for an endless run.
        running: The part of each running trial that is done, from 0 to 1; None if unknown, which counts as a half.

    Returns:
        Seconds; None for an endless run, or before any progress.
    """
    if total is None or not (ended or any(part for part in running)):
        return None
    # A running trial counts by its part, so that the estimate does not jump when trials end together.
    done = ended + sum(0.5 if part is None else min(1.0, max(0.0, part)) for part in running)
    return max(0.0, (total - done) * elapsed_s / done)


def progress_text(snapshot: RunSnapshot) -> str:
    """The progress of the run, such as `23/50 trials, 1.2 per min, about 22 s left`."""
    parts = [counted(snapshot.ended, "trial")]
    if snapshot.total is not None:
        parts = [f"{snapshot.ended}/{counted(snapshot.total, 'trial')}"]
    if snapshot.per_s:
        # The unit in which the number is at least 1: `0.0003 per s` would say nothing.
        unit, size_s = next((u for u in (("s", 1), ("min", 60)) if snapshot.per_s * u[1] >= 1), ("h", 3600))
        parts.append(f"{snapshot.per_s * size_s:.3g} per {unit}")
    if snapshot.left_s is not None and (snapshot.total is None or snapshot.ended < snapshot.total):
        parts.append(f"about {duration(max(1.0, snapshot.left_s))} left")
    return ", ".join(parts)


def best_text(best: TrialLine) -> str:
    """The best trial and its configuration, such as `loss=0.1, iteration 3, train_1234: lr=0.1, ...`."""
    parts = [values_text({name: value}, _CELL_COLUMNS) for name, value in islice(best.metrics.items(), 1)]
    if best.iteration is not None:
        parts.append(f"iteration {best.iteration}")
    text = ", ".join([*parts, one_line(best.name)])
    params = values_text(best.params, _CELL_COLUMNS)
    if params:
        text += f": {params}"
    return text


def trials_table(
    best: Sequence[TrialLine],
    running: Sequence[TrialLine],
    goal: tuple[str, str] | None,
    width: int,
    params: Sequence[str],
) -> Table:
    """A table of the best trials and of other running ones, with the most important columns first.

    A column shows the trials' nodes if there are several. `width` is that of the terminal; `params` are the parameters
    of all trials, in their order.
    """
    rows = [*best, *running]
    present = {name for row in rows for name in row.params}
    params = [name for name in params if name in present]
    metrics = list(dict.fromkeys(name for row in rows for name in row.metrics))
    first = metrics[:1]
    if goal is not None:
        first = [goal[0]]
    nodes = [row.node for row in rows]
    least = 0
    if width >= _WIDE_COLUMNS:
        least = _METRIC_COLUMNS

    def of_metric(name: str) -> Column:
        return Column(_header(name), [row.metrics.get(name) for row in rows], _CELL_COLUMNS, least)

    # A narrow terminal gets numbers in place of names, before any column is left out.
    number = Column("trial", [row.number for row in rows])
    columns = [
        Column("trial", [cut_front(one_line(row.name), _NAME_COLUMNS) for row in rows], _NAME_COLUMNS, brief=number),
        *map(of_metric, first),
        *(Column(_header(name), [row.params.get(name) for row in rows], _CELL_COLUMNS) for name in params),
        status_column([row.status for row in rows], [row.brief_status for row in rows]),
        Column("iter", [row.iteration for row in rows]),
        Column("time", [None if row.time_s is None else duration(row.time_s) for row in rows]),
        *([Column("node", nodes)] if len({*nodes} - {None}) > 1 else []),
        *(of_metric(name) for name in metrics if name not in first),
    ]
    titles = {}
    if best and goal is not None:
        titles = {0: one_line(f"best so far ({goal[1]} {goal[0]})")}
    if running:
        titles[len(best)] = "running"
        if any(row.is_running for row in best):
            titles[len(best)] = "also running"  # no trial stands in both parts
    return Table(columns, range(len(columns)), titles, is_framed=False)


def render(
    snapshot: RunSnapshot, width: int, height: int, *, color: bool = False, ascii_only: bool = False
) -> list[str]:
    """The lines of the live view. If there is no space for all, the most important ones remain.

    Args:
        snapshot: The state of the run.
        width: The maximum width of a line.
        height: The maximum number of lines.
        color: Whether lines may contain colour codes, which have no width.
        ascii_only: Whether the bar is drawn with ASCII characters.
    """
    errors = [("error", line) for line in _error_lines(snapshot.errors, width)]
    head = [("title", line) for line in _title_lines(snapshot, width)]
    head.append(("", _bar_line(snapshot, width, ascii_only)))
    if snapshot.starting:
        head.append(("", snapshot.starting))
    lines = [*head, *_trial_lines(snapshot, width, height - len(head) - len(errors)), *errors]
    # A block that is higher than the terminal could not be redrawn in place.
    if len(lines) > height:  # very little space: the bar, the best trial, then the errors
        best = [("best", f"best {best_text(row)}") for row in snapshot.best[:1]]
        lines = [("", _bar_line(snapshot, width, ascii_only)), *best, *errors][: max(0, height)]
    shown = [(style, cut(printable(line), width)) for style, line in lines]
    return [f"\x1b[{_STYLES[style]}m{line}{_RESET}" if color and style else line for style, line in shown]


def render_html(snapshot: RunSnapshot) -> str:
    """The live view as HTML."""
    # A page can be scrolled, so nothing is left out for lack of space.
    running, count = _running_apart_from(snapshot, snapshot.best)
    parts = [line_as_html(line, "head") for line in _title_lines(snapshot, 200)]
    if snapshot.total:
        parts.append(bar(snapshot.ended / snapshot.total))
    parts.append(line_as_html(progress_text(snapshot)))
    if snapshot.starting:
        parts.append(line_as_html(snapshot.starting))
    if snapshot.best or running:
        parts.append(trials_table(snapshot.best, running, snapshot.goal, 200, snapshot.params).html())
    more = count - len(running)
    if more > 0:
        parts.append(line_as_html(f"... {more} more running"))
    if snapshot.goal is not None:
        parts.append(curve(snapshot.values, *snapshot.goal))
    parts += [line_as_html(line, "error") for line in _error_lines(snapshot.errors, 200)]
    return as_html((), *parts)


# -- parts -------------------------------------------------------------------------------------------------------------
def _title_lines(snapshot: RunSnapshot, width: int) -> list[str]:
    counts = ", ".join(f"{snapshot.counts[status]} {status}" for status in STATUS_ORDER if snapshot.counts.get(status))
    time = duration(snapshot.elapsed_s)
    if snapshot.note:
        time += f" ({snapshot.note})"
    time_and_counts = f"{time}: {counts or 'no trial yet'}"
    resources = ", ".join(snapshot.resources)
    title = one_line(snapshot.title)
    whole = " | ".join(part for part in (title, time_and_counts, resources) if part)
    if width_of(whole) <= width:
        return [whole]
    first = " | ".join(part for part in (title, resources) if part)
    return [line for line in (first, time_and_counts) if line]


def _bar_line(snapshot: RunSnapshot, width: int, ascii_only: bool) -> str:
    text = progress_text(snapshot)
    columns = min(_BAR_COLUMNS, width - width_of(text) - 8)
    if not snapshot.total or columns < _LEAST_BAR_COLUMNS:
        return text
    part = min(1.0, snapshot.ended / snapshot.total)
    done = int(part * columns)
    bar = "█" * done + "░" * (columns - done)
    if ascii_only:
        bar = f"[{'#' * done}{'-' * (columns - done)}]"
    return f"{bar} {int(part * 100):3d}% {text}"


def _error_lines(errors: Sequence[ErrorKind], width: int) -> list[str]:
    lines = []
    for kind in errors[:_MAX_ERRORS]:
        text = f"{counted(kind.count, 'error')}: {one_line(kind.text)}"
        whole = text
        if kind.path:
            whole = f"{text} ({one_line(kind.path)})"
        if width_of(whole) > width:
            whole = cut(text, width)  # half a path cannot be opened
        lines.append(whole)
    more = sum(kind.count for kind in errors[_MAX_ERRORS:])
    if more:
        lines.append(f"{more} more errors of other kinds")
    return lines


def _trial_lines(snapshot: RunSnapshot, width: int, room: int) -> list[tuple[str, str]]:
    """The lines of the best trials and of other running ones. A last line counts the running ones that do not fit."""
    # Half of the room at most, so that running trials are seen, too; but always the best one.
    best = snapshot.best[: max(1, (room - 2) // 2)]
    rows, running = _running_apart_from(snapshot, best)
    upper = 1  # lines: the header of the table
    if best:
        upper = 2 + len(best)  # it and the title stand above the best trials
    room -= upper
    if running:
        room -= 1  # their title
    if running > room:
        rows = rows[: max(0, room - 1)]
    if room < 0 or not (best or rows):
        return []
    table, left_out = trials_table(best, rows, snapshot.goal, width, snapshot.params).narrowed(width)
    lines = [("", line) for line in table.lines()]
    lines[0] = "head", lines[0][1]
    for position in range(1, upper):
        lines[position] = "best", lines[position][1]
    if running > len(rows):
        lines.append(("", f"... {running - len(rows)} more running"))
    if left_out and room > len(rows):
        return [*lines, ("head", f"(no space for: {', '.join(left_out)})")]
    return lines


def _running_apart_from(snapshot: RunSnapshot, best: Sequence[TrialLine]) -> tuple[Sequence[TrialLine], int]:
    """The rows of the running trials that are not in `best`, so that no trial is shown twice, and their number.

    Of very many running trials, there are fewer rows.
    """
    shown = {row.number for row in best}
    rows = [row for row in snapshot.running if row.number not in shown]
    count = snapshot.counts.get(RUNNING, 0) - sum(row.is_running for row in best)
    return rows, max(len(rows), count)


def _header(name: str) -> str:
    return cut_front(one_line(name), _CELL_COLUMNS)
