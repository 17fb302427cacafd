"""A run in a few lines: its best trial, how its trials ended, their errors by kind; and as HTML for a notebook."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterable, Sequence
from itertools import islice

from minitune.base.table import Part, as_html, curve, left_out_line
from minitune.base.text import counted, one_line
from minitune.experiment import states
from minitune.experiment.goal import Best, Goal
from minitune.experiment.lifecycle import ERROR, TERMINATED
from minitune.experiment.trial import Trial
from minitune.result import flatten
from minitune.view.best import best_of, ranked
from minitune.view.rows import last_line, metric_columns, shown_params, trials_table, values_text

DEFAULT_OUTPUTS = ("stdout", "stderr")
"""The default names of the files with the output of a trial."""
_MAX_ROWS = 100
"""The maximum number of rows of a table in a notebook. A line below shows how many are left out."""
_MAX_FAILED_ROWS = 10
_MAX_TRACEBACKS = 5
_VALUES = re.compile(r"\d+|'[^']*'" + r'|"[^"]*"')
"""What differs between two errors of one kind."""


def by_state(trials: Iterable[Trial]) -> dict[str, list[Trial]]:
    """The trials by state, with all states."""
    found: dict[str, list[Trial]] = {state: [] for state in states.STATES}
    for trial in trials:
        found[trial.state].append(trial)
    return found


def early_end(trials: Iterable[Trial]) -> str:
    """Why the run ended early; empty if it did not."""
    endings = (trial.ending for trial in trials if trial.ending is not None and trial.ending.kind.is_early)
    return next((ending.text for ending in endings), "")


def ending_counts(trials: Iterable[Trial], not_drawn: int = 0) -> str:
    """How trials have ended, such as `6 finished, 2 failed`. Those that the search has not drawn have not started."""
    counts = states.tally((trial.state for trial in trials), not_drawn)
    return ", ".join(f"{count} {state}" for state, count in counts.items()) or "none"


def best_first(trials: Iterable[Trial], order: Sequence[Trial]) -> list[Trial]:
    """The trials, those of `best.ranked` first. The others keep their order."""
    places = {trial.trial_id: place for place, trial in enumerate(order)}
    return sorted(trials, key=lambda trial: places.get(trial.trial_id, len(places)))


def best_and_failed(trials: Sequence[Trial], goal: Goal, max_best: int, max_failed: int) -> list[Trial]:
    """The first of `best.ranked`, others if there is room, and some of the failed ones that are not among them."""
    order = ranked(trials, goal)
    known = {trial.trial_id for trial in order}
    others = [trial for trial in trials if trial.trial_id not in known and trial.status != ERROR]
    shown = [*order, *others][:max_best]
    known = {trial.trial_id for trial in shown}
    failed = (trial for trial in trials if trial.trial_id not in known and trial.status == ERROR)
    return [*shown, *islice(failed, max_failed)]


def best_line(trials: Sequence[Trial], goal: Goal, names: Sequence[str] = ()) -> list[str]:
    """The line on the best trial, such as `Best: loss=0.1 with lr=0.01 (trial 1234_00003)`; empty without a best trial.

    With several objectives, it counts those on the front.
    """
    if goal.objectives:
        count = len(goal.front(trials))
        if count:
            return [f"Front: {counted(count, 'trial')} that no other one beats in {goal}"]
        return []
    best = None
    if goal.metric and goal.mode:
        best = best_of(trials, goal.metric, goal.mode)
    return [] if best is None else [f"Best: {best_text(best, names)}"]


def best_text(best: Best, names: Sequence[str] = ()) -> str:
    """The best trial on a line, such as `loss=0.1 with lr=0.01 (trial 1234_00003)`, with these parameters or all."""
    trial = best.trial
    config = values_text(shown_params(trial, names or flatten(trial.reported_config)))
    told = one_line(str(best))
    if config:
        told += f" with {config}"
    return f"{told} (trial {trial.trial_id}{', which has failed' if trial.status == ERROR else ''})"


def run_html(trials: Sequence[Trial], goal: Goal, path: str) -> str:
    """The trials of the run in `path` as HTML, for a notebook: how they ended, the best, and failed ones."""
    parts: list[Part] = [f"{counted(len(trials), 'trial')}: {ending_counts(trials)}", *best_line(trials, goal)]
    shown = best_and_failed(trials, goal, _MAX_ROWS - _MAX_FAILED_ROWS, _MAX_FAILED_ROWS)
    columns = metric_columns(trials, goal)
    if shown:
        parts.append(trials_table(shown, goal, {}, columns))
    # A notebook would become slow, and its file large.
    parts += left_out_line(len(trials) - len(shown), "get_dataframe() or dataframe() has all")
    return as_html([*parts, f"Results: {path}"], curve_of(trials, goal))


def curve_of(trials: Iterable[Trial], goal: Goal) -> str:
    """The last value of each trial as HTML; empty without a metric, or with too few values."""
    if goal.metric is None or goal.mode is None:
        return ""
    values = ((trial.number, trial.progress.analysis.get(goal.metric, "last")) for trial in trials)
    return curve([(number, value) for number, value in values if value is not None], goal.metric, goal.mode)


# -- errors ------------------------------------------------------------------------------------------------------------
def retried_text(trials: Iterable[Trial]) -> list[str]:
    """A line on the trials that have finished after a retry; empty if there are none."""
    retried = [trial for trial in trials if trial.num_failures and trial.status == TERMINATED]
    if not retried:
        return []
    named = ", ".join(trial.name for trial in retried[:_MAX_TRACEBACKS])
    if len(retried) > _MAX_TRACEBACKS:
        named += f" and {len(retried) - _MAX_TRACEBACKS} more"
    return [f"Finished after a retry: {named} (their error.txt has the failures)"]


def error_texts(trials: Iterable[Trial], has_traceback: bool) -> list[str]:
    """The lines on the errors of failed trials, each distinct error once, with its traceback or the name of its file.

    The most frequent one comes last, where people look first.
    """
    lines = []
    # One mistake makes all trials fail alike, so one traceback is enough.
    ordered = error_groups(trials)
    if len(ordered) > _MAX_TRACEBACKS:
        more = counted(sum(map(len, ordered[_MAX_TRACEBACKS:])), "more failed trial")
        lines.append(f"{more}: see the error files.")
    for alike in reversed(ordered[:_MAX_TRACEBACKS]):
        first = alike[0]
        head = f"Error of trial {first.name}"
        if len(alike) > 1:
            head += f" and {counted(len(alike) - 1, 'more trial')} with the same error"
        if alike is ordered[0] and os.path.isdir(first.experiment_path):  # else nothing can be run again
            head += f" (`{rerun_command(first)} --pdb` runs it again)"
        if not has_traceback:
            lines.append(f"{head}: {last_line(first)} ({first.error_file})")
        else:
            lines += [f"{head}:", *str(first.error).rstrip().splitlines()]
    return lines


def error_groups(trials: Iterable[Trial]) -> list[list[Trial]]:
    """The trials that have failed, by the kind of their errors, the most frequent kind first."""
    groups: dict[str, list[Trial]] = {}
    for trial in trials:
        if trial.error is not None:
            groups.setdefault(kind_of_error(trial), []).append(trial)
    return sorted(groups.values(), key=len, reverse=True)


def rerun_command(trial: Trial) -> str:
    """The command that runs a trial again."""
    return f"minitune rerun {shlex.quote(trial.experiment_path)} {trial.number}"


def kind_of_error(trial: Trial) -> str:
    """A key for errors that differ only in numbers and in quoted texts."""
    return _VALUES.sub("#", last_line(trial).replace(trial.trial_id, ""))
