"""Program: a trainable that runs a command and reports what the command prints.

The main thread reports the lines of the program, one after the other. The program does not wait for that. One thread
reads each of its streams, and a third one waits for its end: a process that the program has left behind may hold its
streams open, so they need not end with it.

A stop comes in `report`, as for any function, or through `on_stop` while the program prints nothing. The process group
of the program then gets SIGTERM, and SIGKILL if it has not ended in time. Processes that have left the group end with
the trial, as those of any trial do.
"""

from __future__ import annotations

import codecs
import io
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import suppress
from io import open
from pathlib import Path
from queue import Queue
from typing import IO, Any

from minitune.checkpoint import Checkpoint
from minitune.context import get_context
from minitune.error import ProgramError
from minitune.result import EXPR_COMMAND_FILE
from minitune.settings import CHECKPOINT_DIR, PROGRAM, number_setting
from minitune.trainable.command_line import CommandLine
from minitune.trainable.printed import MARK, report_in
from minitune.trainable.session import get_checkpoint, report

PROGRAM_CHECKPOINT = "program_checkpoint"
"""The directory that `MINITUNE_CHECKPOINT_DIR` names, in the trial's directory."""
_LINES_SHOWN = 20
# Characters of the standard error that are kept for the text of an error.
_ERRORS_KEPT = 4000
_CHUNK_BYTES = 1 << 16
# Signals that are often sent to all processes of a run.
_FOR_ALL = (signal.SIGHUP, signal.SIGINT, signal.SIGTERM)
# Lines that were read and not yet reported. A program that prints more waits for the driver.
_LINES_AHEAD = 1000
# Seconds that processes which outlive their program have to close its standard output.
_LATE_S = 1.0
# A script is one of the first words of a command. A larger file is no script.
_WORDS_BEFORE_ARGUMENTS = 3
_CODE_BYTES = 1_000_000
# Attempts to copy a checkpoint while the program renames its files.
_COPIES = 5


class Program:
    """A trainable function that runs a command. It can be pickled.

    Args:
        command: The command line.
        directory: Its working directory.
        pattern: A regular expression with named groups, which finds reports in lines; see `report_in`.
    """

    def __init__(self, command: CommandLine, directory: str, pattern: str | None = None):
        self.command = command
        self.directory = directory
        self.pattern = pattern
        self.__name__ = command.name

    def code(self) -> bytes:
        """The contents of the files among the first words of the command, such as a script. Blocks while it reads."""
        found = b""
        for parts in self.command.words[:_WORDS_BEFORE_ARGUMENTS]:
            if parts and isinstance(parts[0], str):
                path = os.path.join(self.directory, parts[0])
                with suppress(OSError, ValueError):
                    if os.path.isfile(path) and os.path.getsize(path) <= _CODE_BYTES:
                        found += Path(path).read_bytes()
        return found

    def __call__(self, config: dict[str, Any]) -> None:
        """Run the program of a trial. Blocks until it has ended.

        Raises:
            ProgramError: See there.
            KeyboardInterrupt: If a signal that may be meant for the whole run has ended the program.
        """
        context = get_context()
        trial_dir = str(context.get_trial_dir())
        words = self.command.filled(config, trial_dir, context.get_trial_seed())
        self.command.write_files(config, trial_dir)
        with open(os.path.join(trial_dir, EXPR_COMMAND_FILE), "w", encoding="utf-8") as file:
            json.dump(words, file)
        if self.pattern is None:
            pattern = None
        else:
            pattern = re.compile(self.pattern)
        state = _ProgramCheckpoint(os.path.join(trial_dir, PROGRAM_CHECKPOINT))
        state.restore()
        env = {**os.environ, PROGRAM: "1", CHECKPOINT_DIR: state.path, "PYTHONUNBUFFERED": "1"}
        process = _ProgramProcess(words, self.directory, env)
        reports = 0
        try:
            context.on_stop(process.terminate)
            # A report blocks here until the driver answers. Meanwhile the readers fill the queue, and then the program
            # waits.
            for line in process.lines():
                metrics = report_in(line, pattern)
                if metrics is not None:
                    state.report(metrics)
                    reports += 1
        finally:
            # In this order, because the program may still write to the directory.
            process.close()
            state.remove()
        if not process.is_stopped:
            _check_end(words, process, reports > 0 or state.was_restored, pattern)


def _check_end(words: list[str], process: _ProgramProcess, has_reported: bool, pattern: re.Pattern[str] | None) -> None:
    """Raise an error if the program has failed or has reported nothing, now and before a pause."""
    status = process.popen.returncode
    if status == 0 and has_reported:
        return
    if status < 0:
        what = f"the program was killed by {signal.Signals(-status).name}"
    elif status:
        what = f"the program ended with exit status {status}"
    elif pattern is not None:
        what = f"the program ended without a report: no line of its standard output matches {pattern.pattern!r}"
    else:
        what = (
            'the program ended without a report: it must print a line such as {"loss": 0.3} or `report loss=0.3` to '
            "its standard output, or call minitune.report({...})"
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
    """The process of a program, with its streams.

    Args:
        words: The command.
        directory: The working directory.
        env: The environment.

    Attributes:
        popen: The process.
        is_stopped: Whether it was told to stop.

    Raises:
        ProgramError: If it cannot be started.
    """

    def __init__(self, words: list[str], directory: str, env: Mapping[str, str]):
        self.is_stopped = False
        self._printed: deque[str] = deque(maxlen=_LINES_SHOWN)
        self._errors = ""  # the end of its standard error
        self._lines: Queue[str | None] = Queue(_LINES_AHEAD)  # None: no more lines come
        self._is_at_end = False
        self._terminating = threading.Lock()  # taken once
        self._kill: threading.Timer | None = None
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
        self._readers = [
            threading.Thread(target=self._read_output, name="minitune-program-stdout", daemon=True),
            threading.Thread(target=self._read_errors, name="minitune-program-stderr", daemon=True),
        ]
        self._waiter = threading.Thread(target=self._wait, name="minitune-program-end", daemon=True)
        for thread in (*self._readers, self._waiter):
            thread.start()

    def lines(self) -> Iterator[str]:
        """Yield the lines of the standard output, and pass them on to that of this process. Blocks."""
        while (line := self._next()) is not None:
            shown = line.replace(MARK, "")
            self._printed.append(shown.rstrip())
            sys.stdout.write(shown)
            sys.stdout.flush()
            yield line

    def terminate(self) -> None:
        """Send SIGTERM to all processes of the program, and SIGKILL later. From any thread; does not block."""
        # A pid that was waited for may belong to another process by now.
        if self.popen.poll() is not None or not self._terminating.acquire(blocking=False):
            return
        self.is_stopped = True
        # a little before the driver loses its patience with this process
        self._kill = threading.Timer(0.9 * number_setting("FORCE_TRIAL_CLEANUP_S"), self._signal, [signal.SIGKILL])
        self._kill.daemon = True
        self._kill.start()
        self._signal(signal.SIGTERM)

    def close(self) -> None:
        """End the program if it still runs. Blocks until it has ended."""
        self.terminate()
        while self._next() is not None:
            pass  # a full queue would block the program
        if self._kill is not None:
            self._kill.cancel()
            self._kill.join()

    def last_lines(self) -> list[str]:
        """The last lines that the program printed: to its standard error if it has failed, else to its output."""
        errors = [line for line in re.split(r"[\r\n]+", self._errors) if line][-_LINES_SHOWN:]
        if errors and (self.popen.returncode or not self._printed):
            return errors
        return list(self._printed)

    def _next(self) -> str | None:
        """The next line; None at the end, then and later. Blocks."""
        if not self._is_at_end:
            line = self._lines.get()
            self._is_at_end = line is None
            return line
        return None

    def _signal(self, number: int) -> None:
        try:
            os.killpg(self.popen.pid, number)
        except (ProcessLookupError, PermissionError):
            pass  # all of them have ended

    def _wait(self) -> None:
        """Wait for the end of the program, then for that of its output."""
        self.popen.wait()
        # A process that the program has left behind may keep the pipes open.
        if not self._have_read_all():
            self._signal(signal.SIGKILL)
            self._have_read_all()
        self._lines.put(None)

    def _have_read_all(self) -> bool:
        """Whether both streams end in time. Blocks until then."""
        late_s = time.monotonic() + _LATE_S
        for thread in self._readers:
            thread.join(max(0.0, late_s - time.monotonic()))
        return not any(thread.is_alive() for thread in self._readers)

    def _read_output(self) -> None:
        with _stream(self.popen.stdout) as stream:
            for line in stream:
                self._lines.put(line.decode("utf-8", "replace"))

    def _read_errors(self) -> None:
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        with _stream(self.popen.stderr) as stream:
            while data := stream.read1(_CHUNK_BYTES):  # not by lines: the lines of a progress bar have no end
                text = decoder.decode(data)
                self._errors = (self._errors + text)[-_ERRORS_KEPT:]
                sys.stderr.write(text)
                sys.stderr.flush()


def _stream(stream: IO[bytes] | None) -> io.BufferedReader:
    assert isinstance(stream, io.BufferedReader), "it was opened as a pipe"
    return stream


class _ProgramCheckpoint:
    """The directory that `MINITUNE_CHECKPOINT_DIR` names. What it holds when a report comes is the checkpoint.

    Args:
        path: The directory.

    Attributes:
        was_restored: Whether the trial continues from a checkpoint, so that it has reported before.
    """

    def __init__(self, path: str):
        self.path = path
        self.was_restored = False
        self._kept = self._content()

    def restore(self) -> None:
        """Make the directory, with the content of the checkpoint from which the trial continues."""
        self.remove()
        os.makedirs(self.path)
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
        """Remove the directory."""
        shutil.rmtree(self.path, ignore_errors=True)

    def _content(self) -> dict[str, tuple[int, int]]:
        """The size and the time of the last change of each file, by its path."""
        found = {}
        for directory, _, names in os.walk(self.path):
            for name in names:
                path = os.path.join(directory, name)
                with suppress(FileNotFoundError):
                    status = os.lstat(path)
                    found[path] = status.st_mtime_ns, status.st_size
        return found
