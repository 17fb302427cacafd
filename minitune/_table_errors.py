"""The errors of a run for its status block: a table of failed trials, and each distinct traceback once."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Hashable, Iterable
from typing import Any

from minitune._table import Part, Table, format_cell
from minitune.experiment.lifecycle import ERROR, TERMINATED
from minitune.experiment.trial import Trial

_MAX_TRACEBACKS = 5
_MAX_TRACEBACK_LINES = 40


def error_table(trials: Iterable[Trial], max_rows: int) -> list[Part]:
    """Which trials have failed, how often, and where their errors stand; nothing if none has."""
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
        parts.append("* The trial ended well after a retry.")
    return parts


def error_texts(trials: Iterable[Trial], raised: Trial | None = None) -> list[str]:
    """The errors of the trials that have failed for good, each distinct one once, the most frequent last.

    Args:
        trials: All trials.
        raised: One of them whose error follows as an exception, which shows its traceback.
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
    """The error of a trial on one line."""
    error = trial.error
    if error is None:
        return ""
    text = str(error) if error.remote is None else error.remote.last_line()
    first = text.strip().partition("\n")[0]
    if first.endswith(":"):  # the text of an earlier part of the run, which begins with what leads to the error
        first = error.summary()
    return format_cell(first, 300)


def kind_of_error(trial: Trial) -> Hashable:
    """What makes two errors the same: the class and the place, not the values in the message."""
    error = trial.error
    trace = "" if error is None else error.remote.traceback if error.remote is not None else str(error)
    if error is not None and error.remote is None and not trace.strip().partition("\n")[0].endswith(":"):
        trace = ""  # how a worker has died; its last lines differ
    places = tuple(line for line in trace.splitlines() if line.startswith('  File "'))
    if places:
        name, _, _ = last_line(trial).partition(": ")  # the class, also where only the text was kept
        return name, places
    text = last_line(trial).replace(trial.trial_id, "")
    return type(error).__name__, re.sub(r"\d+", "#", text)
