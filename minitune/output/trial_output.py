"""The output files of trials, shown on the driver's console."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any

from minitune.base.lines import shown_lines
from minitune.base.plugin_calls import PluginCaller
from minitune.base.text import Console, printable
from minitune.experiment.callback import Callback
from minitune.experiment.trial import Trial

if TYPE_CHECKING:
    from minitune.output.reporters import ProgressReporter

_SHOWN_BYTES = 1_000_000
"""The largest part of a file that is shown at once. The rest follows at the next look."""
_LOOK_S = 0.5
"""The shortest pause between two looks for new output."""


class TrialOutput(Callback):
    """Shows the lines that trials have written to stdout and stderr, each with the trial's name.

    It reads the files of the output when a trial has reported or ended, and about every second. So a slow console never
    delays a trial. Trials of executors without such files print to the console themselves.
    """

    def __init__(self, reporter: ProgressReporter | None, names: tuple[str, str]):
        self._names = tuple(dict.fromkeys(names))
        self._call = PluginCaller().call
        console = Console()
        self._say: Callable[[str], None] = lambda text: console.write(f"{text}\n")
        if reporter is not None:
            from minitune.output.reporters import ProgressReporter  # the reporter's module, so it is loaded already

            if type(reporter).say is not ProgressReporter.say:
                self._say = reporter.say
        self._shown_bytes: dict[str, int] | None = None
        self._trials: dict[str, Trial] = {}
        self._looked_s = 0.0

    def on_step_begin(self, iteration: int, trials: list[Trial], **info: Any) -> None:
        """Look for new output now and then. The first call skips the output of an earlier part of the run."""
        # In a resumed run, the output of the first part was shown by the first driver.
        if self._shown_bytes is None:
            paths = [path for trial in trials for path in self._paths(trial)]
            self._shown_bytes = {path: os.path.getsize(path) for path in paths if os.path.exists(path)}
        now_s = time.monotonic()
        if now_s - self._looked_s >= _LOOK_S:
            self._looked_s = now_s
            for trial in self._trials.values():
                if not trial.is_finished():
                    self._show(trial)

    def on_trial_start(self, iteration: int, trials: list[Trial], trial: Trial, **info: Any) -> None:
        """From now on, there may be output."""
        self._trials[trial.trial_id] = trial

    def on_trial_result(
        self, iteration: int, trials: list[Trial], trial: Trial, result: dict[str, Any], **info: Any
    ) -> None:
        """A trial has reported."""
        self._show(trial)

    def on_trial_recover(self, iteration: int, trials: list[Trial], trial: Trial, **info: Any) -> None:
        """An attempt has ended. What its children write later is shown at the end of the run."""
        self._show(trial, at_end=True)

    on_trial_complete = on_trial_recover
    on_trial_error = on_trial_recover

    def on_experiment_end(self, trials: list[Trial], **info: Any) -> None:
        """All workers are gone. Show the rest of their output, also an incomplete last line."""
        for trial in self._trials.values():
            while self._show(trial, at_end=True):
                pass

    def _paths(self, trial: Trial) -> Iterable[str]:
        return map(partial(os.path.join, trial.local_path), self._names)

    def _show(self, trial: Trial, at_end: bool = False) -> bool:
        """Show the new lines. Return whether there were any."""
        lines: list[str] = []
        for path in self._paths(trial):
            lines += self._new_lines(path, at_end)
        if lines:
            text = "\n".join(f"({trial}) {line}" for line in lines)
            self._call((self._say,), trial, printable(text))  # a reporter of the user's may print it by itself
        return bool(lines)

    def _new_lines(self, path: str, at_end: bool) -> list[str]:
        shown = self._shown_bytes or {}
        try:
            with open(path, "rb") as file:
                size_bytes = file.seek(0, os.SEEK_END)
                shown[path] = min(shown.get(path, 0), size_bytes)  # the trial may have truncated it
                file.seek(shown[path])
                data = file.read(_SHOWN_BYTES)
        except OSError:  # the file does not exist
            return []
        # The rest of a line comes with a later look. Half a line would be torn apart by those of other trials.
        if not at_end and len(data) < _SHOWN_BYTES:
            data = data[: data.rfind(b"\n") + 1]
        shown[path] = shown.get(path, 0) + len(data)
        self._shown_bytes = shown
        return shown_lines(data)
