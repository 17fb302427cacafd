"""The output of trials, shown on the console of the driver."""

from __future__ import annotations

import os
import time
from typing import Any

from minitune.base import files
from minitune.base.text import Console, without_moves
from minitune.callback import Callback
from minitune.execution.hooks import call_plugin
from minitune.experiment.trial import Trial
from minitune.output.reporters import ProgressReporter

_CHUNK_BYTES = 1_000_000
"""The largest part of a file that is shown at once; the rest follows at the next look."""
_LOOK_S = 0.5
_LATE_S = 2.0


class TrialOutput(Callback):
    """Shows what trials have written to stdout and stderr, line by line, each under its trial's name.

    It reads the files in which the output goes anyway, when a trial has reported or ended and about every second, so a
    slow console never delays a trial. Trials of executors without such files print to the console themselves.

    Args:
        reporter: Shows the lines. If it is None, or shows no messages, they go to standard output.
        names: Names of the files in a trial's directory.
    """

    def __init__(self, reporter: ProgressReporter | None, names: tuple[str, str]):
        shows = type(reporter).say is not ProgressReporter.say if reporter is not None else False
        self._reporter: ProgressReporter = reporter if reporter is not None and shows else _Printer()
        self._names = tuple(dict.fromkeys(names))
        self._shown_bytes: dict[str, int] | None = None
        self._trials: dict[str, Trial] = {}
        self._open: dict[str, float | None] = {}  # trials that may still write, and when they were found ended
        self._looked_s = 0.0

    def on_step_begin(self, iteration: int, trials: list[Trial], **info: Any) -> None:
        """Look for new output now and then. The first turn skips the output of an earlier part of the run."""
        if self._shown_bytes is None:
            paths = [path for trial in trials for path in self._paths(trial)]
            self._shown_bytes = {path: os.path.getsize(path) for path in paths if os.path.exists(path)}
        now_s = time.monotonic()
        if now_s - self._looked_s >= _LOOK_S:
            self._looked_s = now_s
            self._look(now_s)

    def _look(self, now_s: float) -> None:
        for trial_id, ended_s in list(self._open.items()):
            trial = self._trials[trial_id]
            self._show(trial)
            if not trial.is_finished():
                continue
            if ended_s is None:
                self._open[trial_id] = now_s
            elif now_s - ended_s > _LATE_S:
                del self._open[trial_id]  # later output is shown at the end of the run

    def on_trial_start(self, iteration: int, trials: list[Trial], trial: Trial, **info: Any) -> None:
        """A worker is ready: there may be output from now on."""
        self._trials[trial.trial_id] = trial
        self._open[trial.trial_id] = None

    def on_trial_result(
        self, iteration: int, trials: list[Trial], trial: Trial, result: dict[str, Any], **info: Any
    ) -> None:
        """A trial has reported."""
        self._show(trial)

    def on_trial_recover(self, iteration: int, trials: list[Trial], trial: Trial, **info: Any) -> None:
        """A trial has failed, and another worker will try it again."""
        self._show(trial, at_end=True)

    def on_trial_error(self, iteration: int, trials: list[Trial], trial: Trial, **info: Any) -> None:
        """A trial has failed for good."""
        self._show(trial, at_end=True)

    def on_experiment_end(self, trials: list[Trial], **info: Any) -> None:
        """All workers are gone: show the rest of their output, with a last line that has no end."""
        for trial in self._trials.values():
            while self._show(trial, at_end=True):
                pass

    def _paths(self, trial: Trial) -> list[str]:
        return [os.path.join(trial.local_path, name) for name in self._names]

    def _show(self, trial: Trial, at_end: bool = False) -> bool:
        """Show what is new; returns whether there was anything."""
        lines: list[str] = []
        for path in self._paths(trial):
            lines += self._new_lines(path, at_end)
        if lines:
            text = "\n".join(f"({trial}) {line}" for line in lines)
            call_plugin(self._reporter.say, trial, text)
        return bool(lines)

    def _new_lines(self, path: str, at_end: bool) -> list[str]:
        shown = self._shown_bytes or {}
        try:
            with files.open_to_read(path) as file:
                size_bytes = file.seek(0, os.SEEK_END)
                shown[path] = min(shown.get(path, 0), size_bytes)  # its middle may have been left out
                file.seek(shown[path])
                data = file.read(_CHUNK_BYTES)
        except OSError:  # there is none, or it was removed by the user
            return []
        if not at_end and len(data) < _CHUNK_BYTES:
            data = data[: data.rfind(b"\n") + 1]
        shown[path] = shown.get(path, 0) + len(data)
        self._shown_bytes = shown
        lines = data.decode("utf-8", "replace").removesuffix("\n").split("\n") if data else []
        # A line that was written over and over, such as a progress bar, is shown in its last state.
        return [without_moves(line.rstrip("\r").rpartition("\r")[2]) for line in lines]


class _Printer(ProgressReporter):
    """Prints messages where there is no other reporter, or one that shows none."""

    def __init__(self) -> None:
        self._console = Console()

    def say(self, text: str) -> None:
        """Print a message."""
        self._console.write(f"{text}\n")
