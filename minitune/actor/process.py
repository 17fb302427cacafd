"""WorkerProcess: the driver's side of a worker's process, from its start to its death.

It knows nothing of calls: each message goes to the actor that is in the process, which is told of the end.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from enum import Enum
from typing import TYPE_CHECKING, Any, Protocol

from minitune.actor.channel import Channel, ChannelClosedError
from minitune.actor.launcher import End, Launcher
from minitune.actor.loop import READ, Loop, Socket, TimeLimit
from minitune.actor.messages import (
    EOF_S,
    KILL_CONFIRM_S,
    LAST_LINES,
    LAST_LINES_BYTES,
    ZYGOTE_SILENCE_S,
    Hello,
    ProtocolError,
    Workplace,
)
from minitune.actor.process_tree import MemoryKills
from minitune.base import files, processes
from minitune.base.lines import shown_lines
from minitune.base.text import name_of_signal

if TYPE_CHECKING:
    from minitune.actor.zygote_process import ZygoteProcess

CHANNEL_CLOSED = "control channel closed by the trial's code"


class ProcessPhase(Enum):
    """The phases of a process.

    ::

        STARTING -> RUNNING
        every phase but ENDED -> [KILLED ->] ENDED
    """

    STARTING = "starting"  # it has not said Hello
    RUNNING = "running"
    KILLED = "killed"  # from here; its end is not reported yet
    ENDED = "ended"  # it is dead with all its descendants, or cannot be killed


class Occupant(Protocol):
    """The actor in a process."""

    def on_message(self, message: Any) -> None:
        """The worker has sent a message.

        Raises:
            ProtocolError: If it does not fit.
        """
        ...

    def on_end(self, end: End) -> None:
        """The process has ended. Called last, and once."""
        ...

    def stop(self, grace_s: float) -> object:
        """End the process within the grace period."""
        ...


class WorkerProcess:
    """One worker."""

    def __init__(self, loop: Loop, launcher: Launcher, processes: set[WorkerProcess], memory_kills: MemoryKills):
        self.actor: Occupant  # given by `start`
        self.pid = 0
        self.phase = ProcessPhase.STARTING
        self.number = 0
        self.limit = TimeLimit(loop)
        self.cause = ""
        self.memory_kills = memory_kills
        self._loop = loop
        self._launcher = launcher
        self._processes = processes
        self._token = 0
        self.work: Channel  # made by `start`, like the next one
        self._control: Socket

    def start(self, actor: Occupant, frames: Sequence[bytes], preload: bool) -> None:
        """Start the process and send it the first message.

        Raises:
            OSError: If no descriptor is free; the process counts as ended.
        """
        self.actor = actor
        self.memory_kills.look()
        try:
            self._token, work, self._control = self._launcher.launch(self._on_end, preload)
        except OSError:
            self.phase = ProcessPhase.ENDED
            raise
        self._processes.add(self)
        self.work = Channel(work, self._loop, self._on_hello, self._on_broken)
        self.work.send(*frames)
        # Nothing comes on the control pipe. If user code closes it, the worker notices that at its next report.
        self._control.setblocking(False)
        hello_s = self._launcher.hello_s
        self.limit.set(hello_s, lambda: self._miss_hello(hello_s))

    def _miss_hello(self, hello_s: float) -> None:
        self._launcher.replace_parent(self._token)
        self.kill(f"no message within {hello_s:g} s of its start")

    def _on_hello(self, message: Any) -> None:
        """Handle the first message, and those that arrive in the same read."""
        if self.phase is not ProcessPhase.STARTING:
            self.actor.on_message(message)
            return
        if not isinstance(message, Hello):
            raise ProtocolError(f"a driver does not expect {type(message).__name__}")
        self.pid = message.pid
        self.phase = ProcessPhase.RUNNING
        self.limit.clear()
        self.work.handle = self.actor.on_message  # one call less for each message

    def tell(self, frames: list[bytes]) -> None:
        """Send a small frame on the control pipe, which has room for the few in a worker's life."""
        try:
            self._control.send(b"".join(frames))
        except OSError:  # the worker is dead, or has closed the pipe
            pass

    def signal(self, number: int, *, whole_group: bool) -> None:
        """Send a signal to the worker, or to its whole process group."""
        self._launcher.signal(self._token, number, whole_group)

    def kill(self, cause: str = "") -> None:
        """Kill the whole tree at once."""
        if self.phase in (ProcessPhase.KILLED, ProcessPhase.ENDED):
            return
        self.cause = cause
        # The first cause stands: a process that is being killed also closes its pipe, or may garble it.
        self.phase = ProcessPhase.KILLED
        self.work.stop_reading()
        self._launcher.kill(self._token)
        # The launcher reports the end within `KILL_CONFIRM_S`, with survivors if need be. If it does not, force it.
        force_s = KILL_CONFIRM_S + ZYGOTE_SILENCE_S
        self.limit.set(force_s, lambda: self._launcher.force(self._token))

    def _on_end(self, end: End) -> None:
        if self.phase is ProcessPhase.ENDED:
            return
        # A report counts once its frame is in the pipe. So all frames are read before the end is told, except after a
        # kill from here or a quit: then nothing more is wanted, and the reading was stopped.
        # Until it would block: end-of-file may never come, if a process that cannot be killed holds the pipe.
        while self.work.events & READ and self.work.read():
            pass
        self.close()
        self.phase = ProcessPhase.ENDED  # before the actor hears of it: it may be asked for its process
        self._processes.discard(self)
        self.actor.on_end(end)

    def _on_broken(self, error: ChannelClosedError | ProtocolError) -> None:
        """The work pipe has ended: no more messages will come."""
        if isinstance(error, ProtocolError):
            self.kill(f"protocol: {error}")
        elif not self.limit.is_set:  # otherwise it has to end anyway
            self.limit.follow(self._judge_closed_pipe())

    def _judge_closed_pipe(self) -> Iterator[float]:
        """Kill a process whose work pipe has ended, unless it is dying.

        A dying process closes its files first, and on a busy machine the rest may take long.
        """
        yield EOF_S
        # A process that has exited but is not reaped counts as well: its parent will report it.
        if processes.is_ending(self.pid):
            yield KILL_CONFIRM_S
        self.kill(CHANNEL_CLOSED)

    def close(self) -> None:
        """Release all resources; may be repeated."""
        self.limit.close()
        self.work.close()
        self._control.close()


def describe_exit(exit_code: int | None) -> str:
    """Return an exit status in words, such as `exit code 3` or `SIGKILL (9)`."""
    if exit_code is None:
        return "exit status unknown"
    if exit_code >= 0:
        return f"exit code {exit_code}"
    return f"{name_of_signal(-exit_code)} ({-exit_code})"


def last_lines(workplace: Workplace, limit: int = LAST_LINES) -> str:
    """Return the end of the output in a workplace, standard error last; at most `limit` lines."""
    lines: list[str] = []
    for path in dict.fromkeys((workplace.stdout, workplace.stderr)):
        if path is None:
            continue
        try:
            found = shown_lines(files.read_end(path, LAST_LINES_BYTES))
        except OSError:
            continue
        lines += found[-limit:]
    return "\n".join(lines[-limit:])


def make_launcher(
    method: str,
    loop: Loop,
    run_id: str,
    needed: Sequence[str] = (),
    ahead: ZygoteProcess | None = None,
) -> Launcher:
    """Return the launcher of a start method. It closes `ahead`, the first zygote. A zygote imports the modules `needed`
    once.
    """
    logging.getLogger("minitune").debug("workers are started by the %s method", method)
    if method == "zygote":
        from minitune.actor.zygote_launcher import ZygoteLauncher

        return ZygoteLauncher(loop, run_id, needed, ahead)
    from minitune.actor.interpreter_launcher import InterpreterLauncher

    return InterpreterLauncher(loop, run_id)
