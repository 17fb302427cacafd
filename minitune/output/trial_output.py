"""The output files of trials: shown on the driver's console, and limited in size."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any

from minitune.base import files
from minitune.base.lines import shown_lines
from minitune.base.text import Console, printable
from minitune.callback import Callback
from minitune.experiment.trial import Trial
from minitune.plugin_calls import PluginCaller

if TYPE_CHECKING:
    from minitune.output.reporters import ProgressReporter

logger = logging.getLogger("minitune")

_SHOWN_BYTES = 1_000_000
"""The largest part of a file that is shown at once. The rest follows at the next look."""
_LATE_S = 2.0
"""A trial that has ended may still write for this time."""
_MEGABYTE = 1_000_000
OUTPUT_LIMIT_BYTES = 200 * _MEGABYTE
"""The maximum size of an output file. A trial that prints more loses the middle of its output."""
_LOOK_S = 0.5
"""The shortest pause between two looks. A file may exceed the limit by the output of this time."""
_LOOK_MAX_S = 30.0
"""The longest pause. It doubles after each look that finds nothing new."""
_TAIL_SHARE = 0.005
"""The part of the limit that a cut keeps at the end: 1 MB, which is quickly copied."""


class _OutputFiles(Callback):
    """A callback that looks at the output files of trials; `names` are their names in a trial's directory."""

    def __init__(self, names: tuple[str, str]):
        self._names = tuple(dict.fromkeys(names))

    def _paths(self, trial: Trial) -> Iterable[str]:
        return map(partial(os.path.join, trial.local_path), self._names)


# -- shown -------------------------------------------------------------------------------------------------------------
class TrialOutput(_OutputFiles):
    """Shows the lines that trials have written to stdout and stderr, each with the trial's name.

    It reads the files of the output when a trial has reported or ended, and about every second. So a slow console never
    delays a trial. Trials of executors without such files print to the console themselves.
    """

    def __init__(self, reporter: ProgressReporter | None, names: tuple[str, str]):
        super().__init__(names)
        self._call = PluginCaller().call
        console = Console()
        self._say: Callable[[str], None] = lambda text: console.write(f"{text}\n")
        if reporter is not None:
            from minitune.output.reporters import ProgressReporter  # the reporter's module, so it is loaded already

            if type(reporter).say is not ProgressReporter.say:
                self._say = reporter.say
        self._shown_bytes: dict[str, int] | None = None
        self._trials: dict[str, Trial] = {}
        self._open: dict[str, float | None] = {}  # trials that may still write, and when their end was seen
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
            with files.open_to_read(path) as file:
                size_bytes = file.seek(0, os.SEEK_END)
                shown[path] = min(shown.get(path, 0), size_bytes)  # its middle may have been left out
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


# -- limited -----------------------------------------------------------------------------------------------------------
class OutputLimit(_OutputFiles):
    """A thread that cuts the middle out of output files of running trials that have become too large.

    All writers append to these files, so they may be cut at any time. Output that is written during a cut may be lost.
    For executors without such files, no thread is started.
    """

    def __init__(self, names: tuple[str, str]):
        super().__init__(names)
        self._has_files: bool | None = None
        self._running: dict[str, Trial] = {}
        self._ended: list[Trial] = []  # to look at once more
        self._left_out_bytes: dict[str, int] = {}  # by path, for the files that were cut
        self._seen_bytes = 0
        self._is_over = threading.Event()
        self._thread: threading.Thread | None = None

    def on_trial_start(self, iteration: int, trials: list[Trial], trial: Trial, **info: Any) -> None:
        """From now on, there may be output."""
        if self._has_files is None:
            self._has_files = any(os.path.exists(path) for path in self._paths(trial))
        if not self._has_files:
            return
        self._running[trial.trial_id] = trial
        # A thread and not the driver's loop: a trial may print for minutes while nothing else happens in the run.
        if self._thread is None:
            thread = threading.Thread(target=self._watch, name="minitune-output-limit", daemon=True)
            try:
                thread.start()
            except RuntimeError as error:  # the system has no thread left; the next trial tries again
                logger.debug("cannot check the size of the output of trials: %s", error)
            else:
                self._thread = thread

    def on_trial_complete(self, iteration: int, trials: list[Trial], trial: Trial, **info: Any) -> None:
        """A trial has finished."""
        if self._running.pop(trial.trial_id, None) is not None:
            self._ended.append(trial)

    on_trial_error = on_trial_complete

    def on_experiment_end(self, trials: list[Trial], **info: Any) -> None:
        """All workers are gone."""
        if self._thread is not None:
            self._is_over.set()
            self._thread.join()
            self._thread = None
        if self._has_files:
            self._look()

    def _watch(self) -> None:
        delay_s = _LOOK_S
        while not self._is_over.wait(delay_s):
            delay_s = _LOOK_S if self._look() else min(2 * delay_s, _LOOK_MAX_S)

    def _look(self) -> bool:
        """Cut the files that are too large. Return whether trials have printed anything since the last look."""
        # One number for all files: whether anything has grown decides how soon to look again.
        seen_bytes = 0
        ended = self._ended
        self._ended = []
        for trial in [*self._running.copy().values(), *ended]:
            for path in self._paths(trial):
                try:
                    size_bytes = os.stat(path).st_size
                    seen_bytes += size_bytes
                    if size_bytes > OUTPUT_LIMIT_BYTES:
                        self._cut(trial, path)
                except OSError as error:  # the file does not exist, or the disk has failed
                    logger.debug("cannot shorten %s: %s", path, error)
        is_new = seen_bytes != self._seen_bytes
        self._seen_bytes = seen_bytes
        return is_new

    def _cut(self, trial: Trial, path: str) -> None:
        if path not in self._left_out_bytes:
            logger.warning(
                "trial %s prints more than %g MB to %s: the middle is left out; large output needs a file of its own",
                trial.name,
                OUTPUT_LIMIT_BYTES / _MEGABYTE,
                path,
            )
        before = self._left_out_bytes.get(path, 0)
        tail_bytes = int(OUTPUT_LIMIT_BYTES * _TAIL_SHARE)
        self._left_out_bytes[path] = cut_middle(path, OUTPUT_LIMIT_BYTES // 2, tail_bytes, before)


def cut_middle(path: str, head_bytes: int, tail_bytes: int, left_out_bytes: int = 0) -> int:
    """Replace the middle of a file to which other processes append by a line that says so, between `head_bytes` and
    `tail_bytes`. Returns how much is left out in all, with `left_out_bytes` of earlier cuts.

    Raises:
        OSError: If the file cannot be cut.
    """
    with open(files.open_regular(path, os.O_RDWR), "r+b") as file:
        size_bytes = file.seek(0, os.SEEK_END)
        left_out_bytes += size_bytes - head_bytes - tail_bytes
        file.seek(size_bytes - tail_bytes)
        tail = file.read(tail_bytes)
        note = f"\n[minitune: {left_out_bytes / _MEGABYTE:.3g} MB of output are left out here]\n".encode()
        file.seek(head_bytes)
        file.write(note + tail)
        file.truncate()
    return left_out_bytes
