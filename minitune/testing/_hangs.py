"""Trials in processes of their own that hung when a short tuning ended: which ones, and where in the user's code."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator

from minitune.base import files
from minitune.experiment.trial import Trial

_OWN = re.escape(os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep)
_OWN_FRAME = re.compile(rf'  File "({_OWN}.*|<string>)", line ')
_THREAD = re.compile(r"(Current thread|Thread) 0x[0-9a-f]+.* \(most recent call first\):")


def hung(trials: Iterable[Trial], end_s: float, patience_s: float) -> dict[str, str]:
    """Where trials were that had not stopped when they were asked to, and had been silent for long.

    A worker that does not end in its grace period writes the stacks of its threads to its standard error, before it is
    killed. That alone is no hang: a step may just take longer than the grace period.

    Args:
        trials: The trials of a run that has ended.
        end_s: When they were asked to stop, in seconds since the epoch.
        patience_s: How long before that the last report, or the start, must have been.

    Returns:
        By the trial's name, its stacks, the most recent call first.
    """
    found = {trial.name: _stacks(os.path.join(trial.local_path, "stderr")) for trial in trials}
    silent = {trial.name for trial in trials if end_s - _last_sign_s(trial, end_s) >= patience_s}
    return {name: text for name, text in found.items() if text and name in silent}


def _last_sign_s(trial: Trial, end_s: float) -> float:
    """When a trial has reported for the last time, or begun; `end_s` if nobody knows."""
    reported = trial.last_result.get("timestamp")
    if reported is not None:
        return float(reported)
    try:
        return os.path.getmtime(os.path.join(trial.local_path, "params.json"))
    except OSError:
        return end_s


def _stacks(path: str) -> str:
    """The last stacks that were dumped to a file, of the user's code alone; empty if there are none."""
    try:
        with files.open_to_read(path) as file:
            lines = file.read().decode("utf-8", "replace").splitlines()
    except OSError:
        return ""
    return "\n".join(dict.fromkeys(_users_lines(lines)))


def _users_lines(lines: Iterable[str]) -> Iterator[str]:
    """The user's frames in the dumps among lines of text."""
    is_dump = False
    for line in lines:
        if _THREAD.fullmatch(line):
            is_dump = True
        elif is_dump and line.startswith('  File "'):
            if not _OWN_FRAME.match(line):
                yield line
        elif line:
            is_dump = False
