"""The parts of status blocks: tables of trials, single lines, errors. Trials and results in, text or HTML out.

The cells hold values of users, so each is formatted with a bound: on its length, and against a `__str__` that raises.
A block is built often, so only the rows that it shows are formatted.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from numbers import Real
from typing import Any, TypeAlias

from minitune import clock
from minitune.base.text import ShortRepr, is_long, width_of
from minitune.execution.hooks import STOP_CRITERION, TRAINABLE_ENDED
from minitune.experiment.lifecycle import ERROR, NOT_STARTED, PAUSED, PENDING, RUNNING, TERMINATED
from minitune.experiment.trial import HAS_RETURNED, Trial
from minitune.result import (
    AUTO_RESULT_KEYS,
    CONFIG,
    DEBUG_METRICS,
    NODE_IP,
    PID,
    TIME_TOTAL_S,
    TRAINING_ITERATION,
    flatten,
)
from minitune.schedulers.trial_scheduler import REACHES_MAX_T

Part: TypeAlias = "str | Table"
"""A part of a status block: a line, or a table."""

STATUS_ORDER = (RUNNING, TERMINATED, PAUSED, PENDING, NOT_STARTED, ERROR)
"""In which order statuses are shown, as in `Trial.shown_status`."""

ROWS_PER_STATUS = 5
"""Rows of one status where not all trials are shown, unless more than `_FEW_ROWS` rows are wanted."""

_FEW_ROWS = 20

_SCANNED_TRIALS = 20
"""Trials that are looked at to find out which metrics there are."""

_LOCATION = 2
"""Which column tells where a trial runs."""

_HIDDEN = frozenset((*AUTO_RESULT_KEYS, *DEBUG_METRICS))

_MAX_CELL = 100_000
"""The number of characters, from the end of a text, that a cell is made of."""

_EXACT_LENGTH = 8
"""Floats with more characters are rounded where a value is shown rounded."""

_MAX_TRACEBACKS = 5
_MAX_TRACEBACK_LINES = 40


@dataclass(frozen=True)
class RunInfo:
    """The state of a run and its machine, besides the trials, at one moment.

    Attributes:
        path: The run's directory.
        memory: Bytes of the machine's memory, and how many of them are free; None: not known.
        totals: The resources that trials can ask for, by name; memory in bytes. Empty: not known.
        free: What no trial holds of them.
        scheduler: The scheduler's state in words; None: not known.
        ending: Why the run ends before its trials, such as `interrupted by SIGINT`; empty if it does not.
        cut: The ids of the trials that the end of the run has cut short.
    """

    path: str = ""
    memory: tuple[int, int] | None = None
    totals: Mapping[str, float] = field(default_factory=dict)
    free: Mapping[str, float] = field(default_factory=dict)
    scheduler: str | None = None
    ending: str = ""
    cut: Collection[str] = ()

    def lines(self, done: bool) -> list[str]:
        """The lines of a status block: what `ProgressReporter.report` gets as `sys_info`.

        Args:
            done: Whether the run is over.
        """
        lines = [] if self.memory is None else [f"Memory usage on this node: {self._memory_text(self.memory)}"]
        lines += [] if self.scheduler is None else [self.scheduler]
        if self.totals:
            names = dict.fromkeys(("CPU", "GPU", *self.totals))
            lines.append(f"Logical resource usage: {', '.join(map(self._used_text, names))}")
        lines.append(f"Result logdir: {self.path}")
        return [*lines, f"{'Ended early' if done else 'Ending'}: {self.ending}"] if self.ending else lines

    def used(self) -> list[str]:
        """Short texts such as `2/4 CPUs`: the resources of the machine, memory if trials hold some."""
        least = {"memory": 0.05 * 2**30}
        names = [name for name, total in self.totals.items() if total and self._used(name) >= least.get(name, 0)]
        texts = [self._used_text(name) for name in names]
        return texts if self.memory is None else [*texts, f"memory {self._memory_text(self.memory)}"]

    def _used(self, name: str) -> float:
        return float(self.totals.get(name, 0) - self.free.get(name, 0))

    def _used_text(self, name: str) -> str:
        used, total = self._used(name), self.totals.get(name, 0)
        if name == "memory":
            return f"{used / 2**30:.1f}/{total / 2**30:.1f} GiB memory"
        return f"{round(used, 3) or 0}/{total:g} {name}{'s' if name in ('CPU', 'GPU') else ''}"

    @staticmethod
    def _memory_text(memory: tuple[int, int]) -> str:
        total, free = memory
        warning = " (less than 10 % is free)" if free < 0.1 * total else ""
        return f"{(total - free) / 2**30:.1f}/{total / 2**30:.1f} GiB{warning}"


def format_cell(value: Any, max_length: int) -> str:
    """A value as one short line: floats with six digits, long text with its end.

    Args:
        value: Anything; None is empty.
        max_length: Characters; numbers are never cut.
    """
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, bool):
        return str(value)
    try:
        if isinstance(value, str):
            text = value[-_MAX_CELL:]
        else:
            text = _CELL.repr(value) if is_long(value) else str(value)
        text = " ".join(text.split())
    except Exception:  # an object of the user's
        text = f"<{type(value).__name__}>"
    return text if len(text) <= max_length or isinstance(value, int) else "..." + text[3 - max_length :]


class _Repr(ShortRepr):
    """The `ShortRepr` of tables.

    Args:
        shortens: Whether floats of many digits are rounded to six.
    """

    def __init__(self, shortens: bool):
        super().__init__(members=20)
        self._shortens = shortens

    def repr_float(self, value: float, level: int) -> str:
        """The text of a float; `reprlib` calls this."""
        text = repr(value)
        return f"{value:.6g}" if self._shortens and len(text) > _EXACT_LENGTH else text


_CELL = ShortRepr()
_REPR, _SHORT_REPR = _Repr(shortens=False), _Repr(shortens=True)


def short_repr(value: Any, *, rounds: bool = False) -> str:
    """A value as its code on one line, cut where it is large; with `rounds`, floats of many digits are rounded."""
    return " ".join((_SHORT_REPR if rounds else _REPR).repr(value).split())


@dataclass(frozen=True)
class Table:
    """Rows under headers.

    Attributes:
        headers: One per column.
        rows: Values, as many as headers; text longer than `max_length` is cut, but never in the first two columns
            (what it is, and its status) or in one that has a wider header.
        max_length: Characters of a cell.
        dispensable: Columns, by position, that are left out where there is no space for all, the first one first.
    """

    headers: Sequence[str]
    rows: Sequence[Sequence[Any]]
    max_length: int = 20
    dispensable: Sequence[int] = ()

    def cells(self) -> list[list[str]]:
        """The rows as short texts."""
        limits = [10_000 if c < 2 else max(self.max_length, len(header)) for c, header in enumerate(self.headers)]
        return [[format_cell(value, limit) for value, limit in zip(row, limits, strict=True)] for row in self.rows]

    def lines(self, columns: int | None = None) -> list[str]:
        """The table in a frame, numbers to the right.

        Args:
            columns: How wide it may be. Columns are left out for that, and named below; a table that is too wide even
                so has no frame.
        """
        cells = self.cells()
        widths = [max(map(width_of, (header, *(row[c] for row in cells)))) for c, header in enumerate(self.headers)]
        shown = {c for c in range(len(widths)) if columns is None or c not in self.dispensable}
        left = (columns or 0) - 1 - sum(widths[c] + 3 for c in shown)
        for c in reversed(self.dispensable if columns is not None else ()):
            if widths[c] + 3 <= left:
                shown.add(c)
                left -= widths[c] + 3
        if columns is not None and left < 0:
            lines = [", ".join(row[c] for c in sorted(shown) if row[c]) for row in (list(self.headers), *cells)]
        else:
            lines = self._framed(cells, sorted(shown), widths)
        left_out = [header for c, header in enumerate(self.headers) if c not in shown]
        return [*lines, f"(no space for: {', '.join(left_out)})"] if left_out else lines

    def _framed(self, cells: Sequence[Sequence[str]], shown: Sequence[int], widths: Sequence[int]) -> list[str]:
        is_number = [all(_is_number(row[c]) or row[c] is None for row in self.rows) for c in range(len(widths))]

        def line(texts: Sequence[str]) -> str:
            padded = []
            for c in shown:
                space = " " * (widths[c] - width_of(texts[c]))
                padded.append(space + texts[c] if is_number[c] else texts[c] + space)
            return f"| {' | '.join(padded)} |"

        rule = "+".join("-" * (widths[c] + 2) for c in shown)
        return [f"+{rule}+", line(self.headers), f"|{rule}|", *map(line, cells), f"+{rule}+"]

    def html(self) -> str:
        """The table as HTML; HTML in its cells is shown as text."""
        from html import escape

        head = "".join(f"<th>{escape(header)}</th>" for header in self.headers)
        body = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in self.cells())
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def as_text(parts: Iterable[Part], columns: int | None = None) -> str:
    """A status block as lines of text; `columns` is how wide tables may be."""
    lines: list[str] = []
    for part in parts:
        lines += part.lines(columns) if isinstance(part, Table) else [part]
    return "\n".join(lines)


def as_html(parts: Iterable[Part]) -> str:
    """A status block as HTML: tables, and each line escaped, with its spaces."""
    from html import escape

    return "".join(
        part.html() if isinstance(part, Table) else f'<div style="white-space: pre-wrap">{escape(part)}</div>'
        for part in parts
    )


def look_up(result: Mapping[str, Any], name: str) -> Any:
    """The value of a flattened name such as `a/b` in a nested result, or None."""
    value: Any = result.get(name)
    if value is None and "/" in name:
        value = result
        for part in name.split("/"):
            value = value.get(part) if isinstance(value, Mapping) else None
    return value


def number_of(value: Any) -> float | None:
    """`value` as a number that compares, or None."""
    if isinstance(value, (str, bytes)) or value is None:
        return None
    try:
        number = value if isinstance(value, (int, float)) else float(value)
    except Exception:  # an object of the user's
        return None
    return None if number != number else number


def by_status(trials: Iterable[Trial]) -> dict[str, list[Trial]]:
    """The trials by `shown_status`; every status is there."""
    found: dict[str, list[Trial]] = {status: [] for status in STATUS_ORDER}
    for trial in trials:
        found[trial.shown_status].append(trial)
    return found


def infer_metrics(trials: Iterable[Trial], known: Iterable[str], limit: int) -> list[str]:
    """The first few numeric metrics that trials have reported, apart from the automatic keys and `known` ones."""
    found = dict.fromkeys(known)
    before, scanned = len(found), 0
    for trial in trials:
        if not trial.last_result:
            continue
        scanned += 1
        for name, value in metrics_of(trial.last_result).items():
            if len(found) - before >= limit:
                break
            if number_of(value) is not None and not isinstance(value, bool):
                found.setdefault(name)
        if scanned >= _SCANNED_TRIALS or len(found) - before >= limit:
            break
    return list(found)[before:]


def metrics_of(result: Mapping[str, Any]) -> dict[str, Any]:
    """The user's metrics of a result, flattened."""
    own = {key: value for key, value in result.items() if key != CONFIG and key not in _HIDDEN and key != "perf"}
    try:
        return flatten(own)
    except Exception:  # nested too deeply, or mappings of the user's that raise
        return {}


def choose_rows(
    statuses: Mapping[str, Sequence[Trial]], max_rows: int, rank: Callable[[Trial], float] | None
) -> tuple[list[Trial], dict[str, int]]:
    """Which trials a table shows: all, or a fair share of each status.

    Args:
        statuses: Trials by status.
        max_rows: Rows in all.
        rank: Smaller is better; sorts the terminated trials.

    Returns:
        The trials, and how many of each status are left out.
    """
    sizes = {status: len(statuses[status]) for status in STATUS_ORDER}
    shares = dict.fromkeys(STATUS_ORDER, 0)
    is_short = sum(sizes.values()) > max_rows
    most = ROWS_PER_STATUS if is_short and max_rows <= _FEW_ROWS else max_rows
    left, previous = max_rows, -1
    while left > 0 and left != previous:
        previous = left
        for status in STATUS_ORDER:
            if left > 0 and shares[status] < min(most, sizes[status]):
                shares[status] += 1
                left -= 1
    chosen: list[Trial] = []
    for status in STATUS_ORDER:
        ordered = list(statuses[status])
        if rank is not None and status == TERMINATED:
            chosen += sorted(ordered, key=rank)[: shares[status]]
        elif status in (RUNNING, PENDING, NOT_STARTED):
            chosen += ordered[: shares[status]]
        else:  # those that have ended or paused: the latest
            chosen += ordered[len(ordered) - shares[status] :]
    return chosen, {status: sizes[status] - shares[status] for status in STATUS_ORDER if sizes[status] > shares[status]}


ENDINGS = {text: n for n, text in enumerate(("finished", "stopped", "cut short", "failed", "not started"))}
"""The ways in which a trial can have ended, in the order in which they are counted."""


def ending(trial: Trial, is_cut: bool) -> str:
    """How a trial has ended: `finished`, `stopped at 4` by a scheduler, `cut short at 2`, `failed`, `not started`.

    Args:
        trial: The trial; of one that has not ended this is its status.
        is_cut: Whether the end of the run has ended it.
    """
    if trial.status == ERROR:
        return "failed"
    if trial.shown_status != TERMINATED:
        return trial.shown_status.lower()
    at = f" at {trial.last_result[TRAINING_ITERATION]}" if TRAINING_ITERATION in trial.last_result else ""
    reason = trial.story[-1][2] if trial.story else HAS_RETURNED
    if is_cut:
        return f"cut short{at}"
    if reason.startswith((HAS_RETURNED, STOP_CRITERION, TRAINABLE_ENDED)) or REACHES_MAX_T in reason:
        return "finished"
    return f"stopped{at}"


def trial_table(
    trials: Sequence[Trial],
    parameters: Mapping[str, str],
    metrics: Mapping[str, str],
    max_length: int,
    metric: str | None = None,
    endings: Mapping[str, str] | None = None,
) -> Table:
    """A table of trials.

    Args:
        trials: One row each.
        parameters: Shown names by path; if empty, all parameters that were searched.
        metrics: Shown names by flattened name; those that no trial has reported are left out.
        max_length: Characters of a cell.
        metric: What is optimised: the last column that is left out where there is no space.
        endings: How each trial has ended, by id: shown in place of status and process.
    """
    parameters = parameters or {name: name for name in sorted({p for t in trials for p in t.evaluated_params})}
    metrics = {
        name: shown
        for name, shown in metrics.items()
        if any(look_up(trial.last_result, name) is not None for trial in trials)
    }
    rows = [
        [
            trial.name,
            *((trial.shown_status, _location(trial)) if endings is None else (endings[trial.trial_id],)),
            *(parameter_of(trial, name) for name in parameters),
            *(look_up(trial.last_result, name) for name in metrics),
        ]
        for trial in trials
    ]
    shown = [format_cell(name, max_length) for name in (*parameters.values(), *metrics.values())]
    fixed = ["Trial name", "status", *(["loc"] if endings is None else [])]
    first = len(fixed) + len(parameters)
    others = [c for c, name in enumerate(metrics, first) if name != metric]
    others.sort(key=lambda c: list(metrics)[c - first] == TIME_TOTAL_S)  # the user's own metrics say more
    dispensable = [*range(_LOCATION, len(fixed)), *reversed(others), *reversed(range(len(fixed), first))]
    return Table([*fixed, *shown], rows, max_length, dispensable)


def parameter_of(trial: Trial, name: str) -> Any:
    """The value of a parameter by its path."""
    found = trial.evaluated_params.get(name)
    return look_up(trial.config, name) if found is None else found


def _location(trial: Trial) -> str:
    pid = trial.last_result.get(PID) or trial.pid
    return f"{trial.last_result.get(NODE_IP, '127.0.0.1')}:{pid}" if pid else ""


def _is_number(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)  # also the scalars of NumPy


# -- lines -------------------------------------------------------------------------------------------------------------


def time_line(running_s: float) -> str:
    """`Current time: ... (running for 00:00:01.23)`."""
    hundredths = round(max(0.0, running_s) * 100)
    minutes, hundredths = divmod(hundredths, 6000)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    ran = f"{f'{days} days, ' if days else ''}{hours:02}:{minutes:02}:{hundredths // 100:02}.{hundredths % 100:02}"
    return f"Current time: {datetime.fromtimestamp(clock.current().time()):%Y-%m-%d %H:%M:%S} (running for {ran})"


def total_time_line(total_s: float, loop_s: float) -> str:
    """The last line of a run."""
    return f"Total run time: {total_s:.2f} seconds ({loop_s:.2f} seconds for the tuning loop)."


# -- errors -----------------------------------------------------------------------------------------------------------


def error_table(trials: Iterable[Trial], max_rows: int) -> list[Part]:
    """The failed trials, how often each has failed, and where its error stands; empty if none has failed."""
    failed = [trial for trial in trials if trial.num_failures or trial.error is not None]
    if not failed:
        return []
    shown = failed[:max_rows]
    rows = [
        [trial.name, f"{trial.num_failures}{'' if trial.status == ERROR else '*'}", trial.error_file] for trial in shown
    ]
    parts: list[Part] = [
        f"Number of errored trials: {len(failed)}" + (f" ({len(shown)} shown)" if len(failed) > len(shown) else ""),
        Table(["Trial name", "# failures", "error file"], rows, max_length=10_000),
    ]
    if any(trial.status == TERMINATED for trial in shown):
        parts.append("* The trial finished after a retry.")
    return parts


def error_texts(trials: Iterable[Trial], raised: Trial | None = None) -> list[str]:
    """The errors of the trials that have failed, each distinct one once, the most frequent last.

    Args:
        trials: All trials.
        raised: The trial whose error the driver raises next, as an exception that shows its traceback.
    """
    groups: dict[Any, list[Trial]] = {}
    for trial in trials:
        if trial.error is not None:
            groups.setdefault(kind_of_error(trial), []).append(trial)
    lines = []
    ordered = sorted(groups.values(), key=len, reverse=True)
    if len(ordered) > _MAX_TRACEBACKS:
        more = sum(map(len, ordered[_MAX_TRACEBACKS:]))
        lines.append(f"{more} more {'trial has' if more == 1 else 'trials have'} failed: see the error files.")
    # The most frequent one comes last: that is where people look first.
    for alike in reversed(ordered[:_MAX_TRACEBACKS]):
        count = len(alike) - 1
        others = f" and {count} more {'trial' if count == 1 else 'trials'} with the same error" if count else ""
        way = _way_to_debug(alike[0]) if alike is ordered[0] else ""
        if raised is not None and raised in alike:
            lines.append(f"Error of trial {alike[0].name}{others}{way}: it is raised now.")
            continue
        lines.append(f"Error of trial {alike[0].name}{others}{way}:")
        text = str(alike[0].error).rstrip().splitlines()
        if len(text) > _MAX_TRACEBACK_LINES:
            text = [*text[:3], f"  ... [{len(text) - _MAX_TRACEBACK_LINES} lines left out] ...", *text[3:]]
            text = [*text[:4], *text[4 - _MAX_TRACEBACK_LINES :]]
        lines += text
    return lines


def _way_to_debug(trial: Trial) -> str:
    """The command that runs a trial again under the debugger, in brackets; nothing if its run is not on the disk."""
    if not os.path.isdir(trial.experiment_path):
        return ""
    return f" (`minitune rerun {shlex.quote(trial.experiment_path)} {trial.number} --pdb` runs it again)"


def last_line(trial: Trial) -> str:
    """The error of a trial on one line; empty if it has none."""
    error = trial.error
    if error is None:
        return ""
    text = str(error) if error.remote is None else error.remote.last_line()
    first = text.strip().partition("\n")[0]
    if first.endswith(":"):  # the text of an earlier part of the run, which begins with what leads to the error
        first = error.summary()
    return format_cell(first, 300)


def kind_of_error(trial: Trial) -> Hashable:
    """Equal for two errors of the same class at the same place, whatever the values in their messages."""
    error = trial.error
    trace = "" if error is None else error.remote.traceback if error.remote is not None else str(error)
    if error is not None and error.remote is None and not trace.strip().partition("\n")[0].endswith(":"):
        trace = ""  # the death of a worker; its last lines differ each time
    places = tuple(line for line in trace.splitlines() if line.startswith('  File "'))
    if places:
        name, _, _ = last_line(trial).partition(": ")  # the class, also where only the text was kept
        return name, places
    text = last_line(trial).replace(trial.trial_id, "")
    return type(error).__name__, re.sub(r"\d+", "#", text)
