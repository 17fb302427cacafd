"""The live view of a run: a few lines that a terminal redraws, or HTML for a notebook.

It only needs a `RunSnapshot`, of a run of this process or of another one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from minitune.base.table import Table, as_html, bar, line_as_html
from minitune.base.text import counted, cut, duration, one_line, printable, width_of
from minitune.experiment import states
from minitune.experiment.goal import Goal
from minitune.view.rows import NAMED, Field, Row, table_of, trial_fields

_BAR_COLUMNS = 30
_LEAST_BAR_COLUMNS = 8
_CELL_COLUMNS = 16
_METRIC_COLUMNS = 11
_WIDE_COLUMNS = 79
_MAX_ERRORS = 3
_QUIET_S = 3.0
"""The shortest time without a report that is shown."""
_STYLES = {"title": "1", "best": "32", "error": "31", "head": "2"}
_RESET = "\x1b[0m"


@dataclass(frozen=True)
class RunSnapshot:
    """The state of a run at one moment.

    Attributes:
        counts: The number of trials by state, in the order in which views show states.
        rest_s: The estimated seconds until the end, see `pace.rest_of_run_s`; None without an estimate.
        curve: The values of the trials as HTML; empty without a picture.
        best: The best trials so far, the best first; empty without a metric and mode. Of running ones, `quiet_s`
            has the seconds since the last report.
        metrics: The headers of the metrics by flattened name; the objective is the first.
        errors: How many trials have failed with an error of one kind, and its text; the most frequent one first.
        resources: The used resources as short texts, such as `2/4 CPUs`.
        starting: A text to show before the first trial begins, such as `starting 2 workers`.
        note: Why the run is ending, such as `interrupted by SIGINT`, or empty.
    """

    title: str
    elapsed_s: float
    counts: Mapping[str, int]
    total: int | None = None
    rest_s: float | None = None
    goal: Goal = field(default_factory=Goal)
    curve: str = ""
    best: Sequence[Row] = ()
    running: Sequence[Row] = ()
    params: Mapping[str, str] = field(default_factory=dict)
    metrics: Mapping[str, str] = field(default_factory=dict)
    errors: Sequence[tuple[int, str]] = ()
    resources: Sequence[str] = ()
    starting: str = ""
    note: str = ""

    @property
    def ended(self) -> int:
        """The number of trials that have finished or failed."""
        return sum(count for state, count in self.counts.items() if state in states.ENDED)


def progress_text(snapshot: RunSnapshot) -> str:
    """The progress of the run, such as `23/50 trials, about 22 s to go`."""
    parts = [counted(snapshot.ended, "trial")]
    if snapshot.total is not None:
        parts = [f"{snapshot.ended}/{counted(snapshot.total, 'trial')}"]
    if snapshot.rest_s is not None and (snapshot.total is None or snapshot.ended < snapshot.total):
        parts.append(f"about {duration(max(1.0, snapshot.rest_s))} to go")
    return ", ".join(parts)


def _trials_table(snapshot: RunSnapshot, best: Sequence[Row], running: Sequence[Row], width: int) -> Table:
    """A table of the best trials and of other running ones, for a terminal of this width."""
    goal = snapshot.goal
    least = 0
    if width >= _WIDE_COLUMNS:
        least = _METRIC_COLUMNS
    rows = [*best, *running]
    fields = trial_fields(rows, NAMED, goal, snapshot.params, snapshot.metrics, _CELL_COLUMNS, least)
    titles = {}
    if best:
        titles = {0: one_line(f"best so far ({goal.mode} {goal.metric})")}
    if running:
        titles[len(best)] = "running"
        if any(map(_is_running, best)):
            titles[len(best)] = "also running"  # no trial stands in both parts
    return replace(table_of(rows, [*fields, _QUIET]), titles=titles, is_framed=False)


def _is_running(row: Row) -> bool:
    return bool(row["status"] == states.RUNNING)


def _told_quiet(row: Row) -> str | None:
    """How long ago a running trial has reported, if it does not do so often."""
    quiet_s = row.get("quiet_s")
    return None if quiet_s is None or quiet_s < _QUIET_S else f"{duration(float(int(quiet_s)))} ago"


_QUIET = Field("quiet_s", "last report", 9, _told_quiet)
"""The column that goes first where there is no room."""


def render(snapshot: RunSnapshot, width: int, height: int, *, color: bool = False) -> list[str]:
    """The lines of the live view that have space."""
    errors = [("error", line) for line in _error_lines(snapshot.errors)]
    head = [("title", line) for line in _title_lines(snapshot, width)]
    head.append(("", _bar_line(snapshot, width)))
    if snapshot.starting:
        head.append(("", snapshot.starting))
    trials = _trial_lines(snapshot, width, height - len(head) - len(errors), color)
    # A block that is higher than the terminal could not be redrawn in place.
    lines = [*_clean(head, width), *trials, *_clean(errors, width)][:height]
    return [_styled(line, style) if color else line for style, line in lines]


def _clean(lines: Iterable[tuple[str, str]], width: int) -> list[tuple[str, str]]:
    return [(style, cut(printable(line), width)) for style, line in lines]


def _styled(line: str, style: str) -> str:
    """A line in a style, which also holds between the parts that have colours of their own."""
    if not style:
        return line
    begin = f"\x1b[{_STYLES[style]}m"
    return f"{begin}{line.replace(_RESET, _RESET + begin)}{_RESET}"


def render_html(snapshot: RunSnapshot) -> str:
    """The live view as HTML."""
    # A page can be scrolled, so nothing is left out for lack of space.
    running, count = _running_apart_from(snapshot, snapshot.best)
    parts = [line_as_html(line, "head") for line in _title_lines(snapshot, 200)]
    if snapshot.total:
        parts.append(bar(snapshot.ended / snapshot.total, _begun_part(snapshot)))
    parts.append(line_as_html(progress_text(snapshot)))
    if snapshot.starting:
        parts.append(line_as_html(snapshot.starting))
    if snapshot.best or running:
        parts.append(_trials_table(snapshot, snapshot.best, running, 200).html())
    more = count - len(running)
    if more > 0:
        parts.append(line_as_html(f"... {more} more running"))
    parts.append(snapshot.curve)
    parts += [line_as_html(line, "error") for line in _error_lines(snapshot.errors)]
    return as_html((), *parts)


# -- parts -------------------------------------------------------------------------------------------------------------
def _title_lines(snapshot: RunSnapshot, width: int) -> list[str]:
    time = duration(snapshot.elapsed_s)
    if snapshot.note:
        time += f" ({snapshot.note})"
    time_and_counts = f"{time}: {_counts_text(snapshot)}"
    resources = ", ".join(snapshot.resources)
    title = one_line(snapshot.title)
    whole = " | ".join(part for part in (title, time_and_counts, resources) if part)
    if width_of(whole) <= width:
        return [whole]
    first = " | ".join(part for part in (title, resources) if part)
    return [line for line in (first, time_and_counts) if line]


def _counts_text(snapshot: RunSnapshot) -> str:
    return ", ".join(f"{count} {state}" for state, count in snapshot.counts.items()) or "no trial yet"


def _bar_line(snapshot: RunSnapshot, width: int) -> str:
    text = progress_text(snapshot)
    columns = min(_BAR_COLUMNS, width - width_of(text) - 8)
    if not snapshot.total or columns < _LEAST_BAR_COLUMNS:
        return text
    part = min(1.0, snapshot.ended / snapshot.total)
    done = int(part * columns)
    begun = max(done, int(min(1.0, _begun_part(snapshot)) * columns))
    bar = "#" * done + "=" * (begun - done) + "-" * (columns - begun)
    return f"[{bar}] {int(part * 100):3d}% {text}"


def _begun_part(snapshot: RunSnapshot) -> float:
    """The part of the trials that has ended or runs."""
    return (snapshot.ended + snapshot.counts.get(states.RUNNING, 0)) / (snapshot.total or 1)


def _error_lines(errors: Sequence[tuple[int, str]]) -> list[str]:
    lines = [f"{counted(count, 'error')}: {one_line(text)}" for count, text in errors[:_MAX_ERRORS]]
    more = sum(count for count, _ in errors[_MAX_ERRORS:])
    return [*lines, f"{more} more errors of other kinds"] if more else lines


def _trial_lines(snapshot: RunSnapshot, width: int, room: int, has_color: bool) -> list[tuple[str, str]]:
    """The lines of the best trials and of other running ones, clean. A last line counts those that do not fit."""
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
    table, left_out = _trials_table(snapshot, best, rows, width).narrowed(width)
    lines = [("", line) for line in table.lines()]
    if not has_color or max(width_of(line) for _, line in lines) > width:
        lines = _clean(lines, width)
    else:
        lines = [("", line) for line in table.lines(has_color=True)]
    lines[0] = "head", lines[0][1]
    for position in range(1, upper):
        lines[position] = "best", lines[position][1]
    if running > len(rows):
        lines += _clean([("", f"... {running - len(rows)} more running")], width)
    if left_out and room > len(rows):
        lines += _clean([("head", f"(no space for: {', '.join(left_out)})")], width)
    return lines


def _running_apart_from(snapshot: RunSnapshot, best: Sequence[Row]) -> tuple[Sequence[Row], int]:
    """The rows of the running trials that are not in `best`, so that no trial is shown twice, and their number."""
    shown = {row["trial"] for row in best}
    rows = [row for row in snapshot.running if row["trial"] not in shown]
    count = snapshot.counts.get(states.RUNNING, 0) - sum(map(_is_running, best))
    return rows, max(len(rows), count)
