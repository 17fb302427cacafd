"""The output of trials, shown on the console of the driver."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

from minitune.base import files
from minitune.base.text import Console, without_moves
from minitune.callback import Callback
from minitune.execution.hooks import call_plugin
from minitune.experiment.trial import Trial
from minitune.output.reporters import ProgressReporter

_CHUNK_BYTES = 1_000_000
"""The largest part of a file that is shown at once. The rest follows at the next look."""
_LOOK_S = 0.5
_LATE_S = 2.0


class TrialOutput(Callback):
    """Shows the lines that trials have written to stdout and stderr, each with the trial's name.

    It reads the files of the output when a trial has reported or ended, and about every second. So a slow console never
    delays a trial. Trials of executors without such files print to the console themselves.

    Args:
        reporter: Shows the lines. If it is None, or shows no messages, they go to standard output.
        names: The names of the files in a trial's directory.
    """

    def __init__(self, reporter: ProgressReporter | None, names: tuple[str, str]):
        console = Console()
        self._say: Callable[[str], None] = lambda text: console.write(f"{text}\n")
        if reporter is not None and type(reporter).say is not ProgressReporter.say:
            self._say = reporter.say
        self._names = tuple(dict.fromkeys(names))
        self._shown_bytes: dict[str, int] | None = None
        self._trials: dict[str, Trial] = {}
        self._open: dict[str, float | None] = {}  # trials that may still write, and when their end was seen
        self._looked_s = 0.0

    def on_step_begin(self, iteration: int, trials: list[Trial], **info: Any) -> None:
        """Look for new output now and then. The first call skips the output of an earlier part of the run."""
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
        """From now on, there may be output."""
        self._trials[trial.trial_id] = trial
        self._open[trial.trial_id] = None

    def on_trial_result(
        self, iteration: int, trials: list[Trial], trial: Trial, result: dict[str, Any], **info: Any
    ) -> None:
        """A trial has reported."""
        self._show(trial)

    def on_trial_recover(self, iteration: int, trials: list[Trial], trial: Trial, **info: Any) -> None:
        """A trial has failed, and will be tried again."""
        self._show(trial, at_end=True)

    def on_trial_error(self, iteration: int, trials: list[Trial], trial: Trial, **info: Any) -> None:
        """A trial has failed for good."""
        self._show(trial, at_end=True)

    def on_experiment_end(self, trials: list[Trial], **info: Any) -> None:
        """All workers are gone. Show the rest of their output, also an incomplete last line."""
        for trial in self._trials.values():
            while self._show(trial, at_end=True):
                pass

    def _paths(self, trial: Trial) -> list[str]:
        return [os.path.join(trial.local_path, name) for name in self._names]

    def _show(self, trial: Trial, at_end: bool = False) -> bool:
        """Show the new lines. Return whether there were any."""
        lines: list[str] = []
        for path in self._paths(trial):
            lines += self._new_lines(path, at_end)
        if lines:
            call_plugin(self._say, trial, "\n".join(f"({trial}) {line}" for line in lines))
        return bool(lines)

    def _new_lines(self, path: str, at_end: bool) -> list[str]:
        shown = self._shown_bytes or {}
        try:
            with files.open_to_read(path) as file:
                size_bytes = file.seek(0, os.SEEK_END)
                shown[path] = min(shown.get(path, 0), size_bytes)  # its middle may have been left out
                file.seek(shown[path])
                data = file.read(_CHUNK_BYTES)
        except OSError:  # the file does not exist
            return []
        if not at_end and len(data) < _CHUNK_BYTES:
            data = data[: data.rfind(b"\n") + 1]
        shown[path] = shown.get(path, 0) + len(data)
        self._shown_bytes = shown
        lines = data.decode("utf-8", "replace").removesuffix("\n").split("\n") if data else []
        # Of a line that is written again and again, such as a progress bar, only the last state is shown.
        return [without_moves(line.rstrip("\r").rpartition("\r")[2]) for line in lines]
