"""Program: a trainable that runs a command and reports what the command prints.

The main thread reads the program's standard output, and reports its lines. The end of a stream is the end of what was
printed, however late it is read; only a process that the program has left behind may hold it open, for a limited time.

A stop comes in `report`, or through `on_stop` while the program prints nothing. The process group gets SIGTERM, and
later SIGKILL. Processes that have left it end with the trial.
"""

from __future__ import annotations

import json
import os
import re
import select
import shlex
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import IO, Any, TextIO

from minitune.base import files
from minitune.base.lines import LineSplitter, shown_lines
from minitune.base.settings import CHECKPOINT_DIR, PROGRAM, number_setting
from minitune.base.text import cut, name_of_signal
from minitune.checkpoint import Checkpoint
from minitune.error import ProgramError
from minitune.result import EXPR_COMMAND_FILE
from minitune.trainable.command_line import CommandLine
from minitune.trainable.context import get_context
from minitune.trainable.printed import MARK, report_in
from minitune.trainable.session import get_checkpoint, report

PROGRAM_CHECKPOINT = "program_checkpoint"
"""The directory that `MINITUNE_CHECKPOINT_DIR` names, in the trial's directory."""
# For the text of an error: the lines that it shows, their longest width, and the bytes that are kept for them.
_LINES_SHOWN = 20
_COLUMNS_SHOWN = 500
_KEPT_BYTES = 1 << 16
# The most that one read takes: as much as a pipe holds.
_CHUNK_BYTES = 1 << 16
# Signals that are often sent to all processes of a run.
_FOR_ALL = (signal.SIGHUP, signal.SIGINT, signal.SIGTERM)
# Seconds that processes which outlive their program have to close its streams.
_LATE_S = 1.0
# Seconds between two looks whether a silent program has ended.
_LOOK_S = 0.1
# Seconds of `_LATE_S` that each read takes at least. So a process that floods the stream gets a limited time, too.
_READ_S = 0.005
# Attempts to copy a checkpoint while the program renames its files.
_COPIES = 5


class Program:
    """A trainable function that runs a command. It can be pickled."""

    is_program = True

    def __init__(self, command: CommandLine, directory: str, pattern: str | None = None):
        self.command = command
        self.directory = directory
        self.pattern = pattern
        self.__name__ = command.name

    def __call__(self, config: dict[str, Any]) -> None:
        """Run the program of a trial, and block until it has ended.

        Raises:
            ProgramError: See there.
            KeyboardInterrupt: If a signal that may be meant for the whole run has ended the program.
        """
        context = get_context()
        trial_dir = str(context.get_trial_dir())
        words = self.command.filled(config, trial_dir, context.get_trial_seed())
        files.atomic_write(os.path.join(trial_dir, EXPR_COMMAND_FILE), json.dumps(words).encode())
        if self.pattern is None:
            pattern = None
        else:
            pattern = re.compile(self.pattern)
        state = _ProgramCheckpoint(os.path.join(trial_dir, PROGRAM_CHECKPOINT))
        state.restore()
        env = {**os.environ, PROGRAM: "1", CHECKPOINT_DIR: state.path, "PYTHONUNBUFFERED": "1"}
        process = _ProgramProcess(words, self.directory, env, pattern)
        reports = 0
        try:
            context.on_stop(process.terminate)
            # A report blocks here until the driver answers. Meanwhile the program fills the pipe, and then it waits.
            for metrics in process.reports():
                state.report(metrics)
                reports += 1
        finally:
            # In this order, because the program may still write to the directory.
            process.close()
            state.remove()
        if not process.is_stopped:
            _check_end(words, process, reports > 0 or state.was_restored, pattern)


def _check_end(words: list[str], process: _ProgramProcess, has_reported: bool, pattern: re.Pattern[str] | None) -> None:
    """Raise an error if the program has failed or has reported nothing."""
    status = process.popen.returncode
    if status == 0 and has_reported:
        return
    if status < 0:
        what = f"the program was killed by {name_of_signal(-status)}"
        if -status == signal.SIGKILL:
            what += ", possibly out of memory"
    elif status:
        what = f"the program ended with exit status {status}"
    elif pattern is not None:
        what = f"the program ended without a report: no line of its standard output matches {pattern.pattern!r}"
    else:
        what = (
            'the program ended without a report: it must print a line such as {"loss": 0.3} or `report loss=0.3` to '
            "its standard output, or call minitune.report({...}); --pattern finds metrics in other lines"
        )
    tail = process.last_lines()
    if tail:
        shown = ["its last lines:", *(f"  {line}" for line in tail)]
    else:
        shown = ["it has printed nothing"]
    text = "\n".join([what, f"command: {shlex.join(words)}", *shown])
    if -status in _FOR_ALL:
        raise KeyboardInterrupt(text)  # the worker counts as lost, as if the signal had ended it
    raise ProgramError(text)


class _ProgramProcess:
    """The process of a program, with its streams. ProgramError: it cannot be started."""

    def __init__(self, words: list[str], directory: str, env: Mapping[str, str], pattern: re.Pattern[str] | None):
        self.is_stopped = False
        self._pattern = pattern
        self._terminating = threading.Lock()  # taken once
        self._kill: threading.Timer | None = None
        self._splitter = LineSplitter()
        try:
            self.popen = subprocess.Popen(
                words,
                cwd=directory,
                env=dict(env),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,  # a group of its own, for signals to all its processes
            )
        except (OSError, ValueError) as error:
            raise ProgramError(f"the program cannot be started: {error}\ncommand: {shlex.join(words)}") from None
        self._output = _Stream(self.popen.stdout, self.popen, self._kill_group)
        self._errors = _Stream(self.popen.stderr, self.popen, self._kill_group)
        self._all_reports = self._read_output()
        self._errors_reader = threading.Thread(target=self._read_errors, name="minitune-program-stderr", daemon=True)
        self._errors_reader.start()

    def reports(self) -> Iterator[dict[str, Any]]:
        """Yield the reports in the standard output, and pass all of it on.

        Blocks until the program has ended and its output is read.
        """
        for metrics in self._all_reports:
            self._check_passed_on()
            yield metrics
        self.popen.wait()  # it may have closed its streams
        self._errors_reader.join()
        self._check_passed_on()

    def terminate(self) -> None:
        """Send SIGTERM to all processes of the program, and SIGKILL later. From any thread; does not block."""
        # A pid that was waited for may belong to another process by now.
        if self.popen.poll() is not None or not self._terminating.acquire(blocking=False):
            return
        self.is_stopped = True
        # a little before the driver loses its patience with this process
        kill = threading.Timer(0.9 * number_setting("FORCE_TRIAL_CLEANUP_S"), self._kill_group)
        kill.daemon = True
        kill.start()
        self._kill = kill
        self._signal(signal.SIGTERM)

    def close(self) -> None:
        self.terminate()
        for _ in self._all_reports:
            pass  # a full pipe would block the program
        self.popen.wait()
        self._errors_reader.join()
        if self._kill is not None:
            self._kill.cancel()
            self._kill.join()
        self._output.close()
        self._errors.close()

    def last_lines(self) -> list[str]:
        """The last lines of its standard error if it has failed, else of its output."""
        output = self._output.last_lines()
        errors = self._errors.last_lines()
        if errors and (self.popen.returncode or not output):
            return errors
        return output

    def _read_output(self) -> Iterator[dict[str, Any]]:
        for data in self._output.read():
            # What is passed on ends with the report, so that the last lines of a trial that fails now show it.
            begun = bytearray()
            for piece, line in self._splitter.feed(data):
                begun += piece
                metrics = self._report_in(line)
                if metrics is not None:
                    self._pass_on(begun)
                    begun.clear()
                    yield metrics
            self._pass_on(begun)
        metrics = self._report_in(self._splitter.end())
        if metrics is not None:
            yield metrics

    def _report_in(self, line: str | None) -> dict[str, Any] | None:
        if line is None:
            return None
        return report_in(line, self._pattern)

    def _pass_on(self, output: bytearray) -> None:
        self._output.pass_on(output.replace(MARK.encode(), b""), sys.stdout)

    def _read_errors(self) -> None:
        for data in self._errors.read():
            self._errors.pass_on(data, sys.stderr)

    def _check_passed_on(self) -> None:
        for stream in (self._output, self._errors):
            if stream.refused is not None:
                raise stream.refused

    def _kill_group(self) -> None:
        self._signal(signal.SIGKILL)

    def _signal(self, number: int) -> None:
        try:
            os.killpg(self.popen.pid, number)
        except (ProcessLookupError, PermissionError):
            pass  # all of them have ended


class _Stream:
    """A stream of a program; `refused` is the first error of passing on."""

    def __init__(self, pipe: IO[bytes] | None, popen: subprocess.Popen[bytes], kill: Callable[[], None]):
        assert pipe is not None, "it was opened"
        self.refused: Exception | None = None
        self._pipe = pipe
        self._popen = popen
        self._kill = kill
        self._kept = bytearray()  # the end of what was passed on

    def read(self) -> Iterator[bytes]:
        """Yield what comes. Blocks until it ends, or others have held it too long after the program's end."""
        descriptor = self._pipe.fileno()
        poller = select.poll()
        poller.register(descriptor, select.POLLIN)
        # The second time, those are left that the signal has not reached.
        for _ in range(2):
            late_s = 0.0
            while late_s < _LATE_S:
                begun_s = time.monotonic()
                data = None
                if poller.poll(_LOOK_S * 1000):
                    data = os.read(descriptor, _CHUNK_BYTES)
                    if not data:
                        return
                # Only our own waiting counts, in small parts: while this process reports or is stopped, the others may
                # be waiting for it.
                if self._popen.poll() is not None:
                    late_s += min(max(_READ_S, time.monotonic() - begun_s), _LOOK_S)
                if data is not None:
                    yield data
            self._kill()

    def pass_on(self, data: bytes | bytearray, stream: TextIO | None) -> None:
        self._kept += data
        if len(self._kept) > 2 * _KEPT_BYTES:
            del self._kept[:-_KEPT_BYTES]
        if stream is None:
            return
        try:
            stream.flush()  # what this process has written before stays before
            stream.buffer.write(data)
            stream.flush()
        except (OSError, ValueError) as error:  # reading goes on, because a full pipe would block the program
            self.refused = self.refused or error

    def last_lines(self) -> list[str]:
        lines = [line.rstrip() for line in shown_lines(bytes(self._kept))]
        return [cut(line, _COLUMNS_SHOWN) for line in lines if line][-_LINES_SHOWN:]

    def close(self) -> None:
        self._pipe.close()


class _ProgramCheckpoint:
    """The directory that `MINITUNE_CHECKPOINT_DIR` names: its content at a report is the checkpoint."""

    def __init__(self, path: str):
        self.path = path
        self.was_restored = False
        self._kept: dict[str, tuple[int, int]] = {}

    def restore(self) -> None:
        self.remove()
        os.mkdir(self.path)
        checkpoint = get_checkpoint()
        if checkpoint is not None:
            self.was_restored = True
            checkpoint.to_directory(self.path)
        self._kept = self._content()

    def report(self, metrics: dict[str, Any]) -> None:
        """Report metrics, with a checkpoint if the directory has changed. Blocks as `minitune.report` does."""
        content = self._content()
        # Most programs write a checkpoint less often than they report.
        if not content or content == self._kept:
            report(metrics)
            return
        self._kept = content
        for attempt in range(_COPIES):
            try:
                report(metrics, checkpoint=Checkpoint.from_directory(self.path))
                return
            except FileNotFoundError:  # the program goes on meanwhile, and has renamed or removed a file
                if attempt == _COPIES - 1:
                    raise

    def remove(self) -> None:
        files.discard_tree(self.path)

    def _content(self) -> dict[str, tuple[int, int]]:
        found = {}
        for directory, _, names in os.walk(self.path):
            for name in names:
                path = os.path.join(directory, name)
                with suppress(OSError):  # the program may have removed it meanwhile
                    status = os.lstat(path)
                    found[path] = status.st_mtime_ns, status.st_size
        return found
