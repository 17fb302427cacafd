"""ActorProcess: the driver's side of a worker, from its start to its end. It tells the events of the actor in it.

A process carries one actor at a time: once its actor has let it go, it may be parked and handed on to another one.
Every state that could last for ever has a deadline, and the loop calls back, so nothing here ever waits.
"""

from __future__ import annotations

import logging
import os
import pickle
import re
import signal
from collections.abc import Callable, Sequence
from enum import Enum
from typing import TYPE_CHECKING, Protocol

from minitune.actor.channel import ChannelClosedError, DriverEnd
from minitune.actor.launcher import Launcher, start_method
from minitune.actor.loop import Loop, Timer
from minitune.actor.messages import (
    CHANNEL_LOST_EXIT,
    DUMP_LINES,
    DUMP_TO_TERM_S,
    EOF_S,
    EXIT_STATUS_S,
    KILL_CONFIRM_S,
    LAST_LINES,
    LAST_LINES_BYTES,
    MESSAGE_BYTES,
    NO_THREAD_EXIT,
    SHOW_S,
    STOP_SWALLOWED_EXIT,
    TERM_TO_KILL_S,
    Boot,
    Call,
    CallRaised,
    CallReturned,
    Event,
    Exited,
    Finished,
    Hello,
    Message,
    Move,
    NotReset,
    Place,
    ProtocolError,
    Quit,
    Raised,
    Reported,
    Returned,
    Show,
    Started,
    encode,
    go_on,
)
from minitune.base import files
from minitune.error import STOP_SWALLOWED, RemoteError

if TYPE_CHECKING:
    from minitune.actor.template import Template

_PACKAGE = re.escape(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
_OWN_FRAME = re.compile(rf'  File "({_PACKAGE}.(actor|execution|trainable)\b.*|<string>)", line \d+ in \S+$')
"""Frames of a dumped stack that are not the user's: they pass calls on, or have started the process."""
CHANNEL_CLOSED = "control channel closed by the trial's code"
OUT_OF_MEMORY = "out of memory"


class Phase(Enum):
    """Where a process is in its life."""

    STARTING = "starting"
    IDLE = "idle"
    BUSY = "busy"
    STOPPING = "stopping"
    PARKED = "parked"
    TAKEN = "taken"  # handed on to another actor: what that needs is sent with its first call
    MOVING = "moving"
    DYING = "dying"
    ENDED = "ended"


class MemoryEvidence(Protocol):
    """Tells whether lack of memory accounts for a death on the worker's machine, as `MemoryKills` does on this one."""

    def look(self) -> None:
        """See `MemoryKills.look`."""
        ...

    def claim(self) -> str:
        """See `MemoryKills.claim`."""
        ...


class ActorProcess:
    """One worker, and the actor in it.

    Args:
        loop: The driver's loop.
        launcher: Makes and kills the process.
        tell: Takes the events. Exited may also be that of a process that carries no actor (any more).
        processes: All that are not gone; this one is in it from its start to its end.
        memory_kills: What the kernel says of those that it has killed for lack of memory.

    Attributes:
        actor_id: The actor; empty if the process could not be handed on to it.
        pid: The process, 0 as long as it is unknown.
        phase: Where it is in its life.
        launcher: The launcher.
    """

    def __init__(
        self,
        loop: Loop,
        launcher: Launcher,
        tell: Callable[[Event | NotReset], object],
        processes: set[ActorProcess],
        memory_kills: MemoryEvidence,
    ):
        self.actor_id = ""
        self.token = ""
        self.pid = 0
        self.phase = Phase.STARTING
        self._channel: DriverEnd  # made by `start`, like the two below
        self._reports: DriverEnd
        self._started: Started
        self._method = ""  # the last one that was called
        self._open_method = ""  # the one that has reported and waits for an answer
        self._loop = loop
        self.launcher = launcher
        self._tell = tell
        self._processes = processes
        self._memory_kills = memory_kills
        self._place = Place()
        self._number = 0
        self._answered = -1
        self._timer: Timer | None = None
        self._is_ready = False
        self._is_stopped = False
        self._shows_stacks = False
        self._parks = False
        self._is_clean = False  # it can be parked without a word, and a reset will succeed
        self._move: Move
        self._timeout_s = 0.0
        self._is_told = False  # Started, before the object is there
        self._first: tuple[str, bytes] | None = None  # the call that was made before the object is there
        self._is_dead = False
        self._is_orphaned = False
        self._lost = ""
        self._cause = ""
        self._exit_code: int | None = None
        self._peak_bytes = 0

    # -- what the executor asks for ----------------------------------------------------------------------------

    def start(
        self,
        started: Started,
        boot: Boot,
        preload: bool = True,
        alone: bool = False,
        instead: NotReset | None = None,
    ) -> None:
        """Have the process made and send it the first message. Started, CallRaised or Exited follows.

        Args:
            started: What to tell once the object is made; the process is filled in.
            boot: The surroundings and the factory.
            preload: Whether what was preloaded is of use to it. False where the process must choose its devices or
                thread limits before anything is imported.
            alone: Whether nothing that carries it may carry others, too: should it die, only this actor is lost.
            instead: What another process has said that could not be handed on.

        Raises:
            ValueError: If the factory is too large.
        """
        frames = encode(boot, boot.limit_bytes)
        hello_s = self.launcher.hello_s
        self.actor_id, self._started, self._place = started.actor_id, started, boot.place
        if instead is not None:
            self._is_told, self._first = instead.is_told, instead.call
        self._memory_kills.look()
        try:
            self.token, self._channel, self._reports = self.launcher.launch(self, preload, alone)
        except OSError as error:  # no descriptors are left
            self.phase = Phase.ENDED
            cause = f"no channel could be made: {error}"
            self._tell(Exited(self.actor_id, "refused", cause, counts=False))
            return
        self._processes.add(self)
        self._channel.send(*frames)
        self._set_timer(hello_s, lambda: self.kill(f"no sign of life within {hello_s:g} s of its start"))
        for channel in (self._channel, self._reports):
            channel.watch(self._loop, self._on_message, self._on_broken)

    def call(self, method: str, payload: bytes = b"") -> None:
        """Send a call. CallReturned, CallRaised or Exited follows.

        The method is called on the worker's control thread and must not block; it returns a value or a Future. If the
        arguments hold objects of classes that are not built in, they are loaded, and the method is called, on the
        user's thread as soon as that is free.

        Args:
            method: Its name.
            payload: The tuple of arguments, pickled with cloudpickle; nothing if there are none.

        Raises:
            RuntimeError: If there is a call in flight, or the actor is not there any more.
            ValueError: If the arguments are too large.
        """
        if self.phase is not Phase.IDLE:
            if self.phase is Phase.DYING and not self._is_stopped:
                return  # the caller has heard nothing yet but the last reply
            if self._is_told and self._first is None:
                self._first = method, payload
                if self.phase is Phase.TAKEN:
                    self._send_move()
                return
            raise RuntimeError(f"actor {self.actor_id!r} cannot be called while it is {self.phase.value}")
        if method == self._open_method:  # the one that waits goes on
            self._number += 1
            self._open_method = ""
            self._reports.send(go_on(self._number))
        else:
            self._send(Call(self._number + 1, method, payload))
            self._method = method
        self.phase = Phase.BUSY

    def stop(self, grace_s: float, keep: bool = False, dump: bool = False) -> None:
        """Let the actor go: only Exited follows. A second stop may shorten the grace period.

        Its object's `stop()` is called (`park()` with `keep`), if it has one. After the grace period its stacks
        are dumped, it gets SIGTERM, which raises `TrialStopped` in its main thread, and one second later its whole
        process tree is killed.

        Args:
            grace_s: Seconds for its own end.
            keep: Park it for another actor (see `take_over`), if its object's `stop()` ends in time and without
                exception, and no thread or process that it has started is left. Else it leaves.
            dump: Have the stacks of its threads written at once: they are in the last lines that Exited holds.
        """
        if self.phase in (Phase.DYING, Phase.ENDED):
            return
        if self._is_dead:  # its last words are of no use any more
            self._is_stopped = True
            self.phase = Phase.DYING
            return
        if keep and self._is_clean and self.phase in (Phase.IDLE, Phase.TAKEN):
            self.phase = Phase.PARKED
            self._tell(Exited(self.actor_id, "parked"))
            return
        if dump:
            self._show()
        if self._open_method:
            self._answer_with_quit()
        if self.phase is not Phase.STOPPING:
            self._parks = keep and self.phase in (Phase.IDLE, Phase.BUSY)
            self._send(Quit(self._number + 1, self._parks))
        self._parks = self._parks and keep
        self.phase = Phase.STOPPING
        self._is_stopped = True
        self._set_timer(grace_s, lambda: self._show_and_terminate(grace_s))

    def take_over(self, started: Started, place: Place, payload: bytes, timeout_s: float) -> None:
        """Hand a parked process on to another actor. Started follows; or NotReset, and the process is killed.

        All that user code may have changed in the process is put back; it takes the new place, and its object is
        `reset`. Where nothing can be said against that, Started is told before it, and all is sent with the first
        call. If it fails all the same, NotReset comes after Started.

        Args:
            started: What to tell once this is done; the process is filled in.
            place: The new surroundings.
            payload: The arguments of `reset`, as in `call`.
            timeout_s: For all that.

        Raises:
            RuntimeError: If it is not parked.
            ValueError: If the arguments are too large.
        """
        if self.phase is not Phase.PARKED:
            raise RuntimeError(f"the process of {self.actor_id!r} is {self.phase.value}, not parked")
        self.actor_id, self._place = started.actor_id, place
        self._started = started._replace(pid=self.pid, reused=True)
        self._is_stopped = self._shows_stacks = False
        self._move, self._timeout_s = Move(self._number + 1, place, payload), timeout_s
        self._is_told, self._first = self._is_clean, None
        if self._is_told:
            self.phase = Phase.TAKEN
            self._tell(self._started)
        else:
            self._send_move()

    def kill(self, cause: str = "") -> None:
        """Kill the whole tree at once. Exited follows."""
        if self.phase in (Phase.DYING, Phase.ENDED):
            return
        self._cause = cause
        self.phase = Phase.DYING
        self.launcher.kill(self.token)
        self._set_timer(EXIT_STATUS_S, self._force)

    def _send(self, message: Call | Quit) -> None:
        self._channel.send(*encode(message, self._channel.limit_bytes))
        self._number = message.number

    def _send_move(self) -> None:
        """Send what another actor needs, and its first call, if that is there, in one piece."""
        self._number = self._move.number
        frames = encode(self._move, self._channel.limit_bytes)
        if self._first is not None:
            self._number += 1
            self._method = self._first[0]
            frames += encode(Call(self._number, *self._first), self._channel.limit_bytes)
        self._channel.send(b"".join(frames))
        self._is_clean = False
        self.phase = Phase.MOVING
        self._set_timer(self._timeout_s, lambda: self._is_unusable("it took too long"))

    def _answer_with_quit(self) -> None:
        """Let what the worker has reported come to its end: each report gets one answer."""
        self._reports.send(*encode(Quit(self._number)))
        self._open_method = ""

    def _is_unusable(self, reason: str) -> None:
        """The process cannot carry the actor that it was handed on to."""
        self._tell(NotReset(self.actor_id, reason, self._is_told, self._first))
        self.actor_id = ""
        self.kill()

    # -- the stop ladder ---------------------------------------------------------------------------------------

    def _show(self) -> None:
        """Have it write the stacks of its threads to its standard error."""
        self._channel.send(*encode(Show()))
        self._shows_stacks = True

    def _show_and_terminate(self, grace_s: float) -> None:
        """The grace period is over: show what the actor does, unless there is no time for it."""
        if grace_s <= 0:
            self._terminate(grace_s)
        elif self._shows_stacks:
            self._make_it_show(grace_s)
        else:
            self._show()
            self._set_timer(SHOW_S, lambda: self._make_it_show(grace_s))

    def _make_it_show(self, grace_s: float) -> None:
        """One that holds the interpreter's lock has not read the message. One that has ignores this signal."""
        if hasattr(signal, "SIGUSR2"):
            self.launcher.signal(self.token, signal.SIGUSR2, whole_group=False)
        self._set_timer(DUMP_TO_TERM_S, lambda: self._terminate(grace_s))

    def _terminate(self, grace_s: float) -> None:
        """Raise in its main thread."""
        self.launcher.signal(self.token, signal.SIGTERM, whole_group=True)
        cause = f"did not end within the grace period of {grace_s:g} s and was killed"
        self._set_timer(TERM_TO_KILL_S, lambda: self.kill(cause))

    def _force(self) -> None:
        """The launcher does not tell of the end: do its work here."""
        self._set_timer(KILL_CONFIRM_S, self._give_up)
        self.launcher.force(self.token)

    def _give_up(self) -> None:
        """Even so it did not die."""
        self.on_gone(self._exit_code, self._peak_bytes, survivors=True)

    # -- what the launcher tells -------------------------------------------------------------------------------

    def on_started(self, pid: int) -> None:
        """There is a process."""
        self.pid = pid

    def on_refused(self, reason: str) -> None:
        """No process could be made."""
        self._lost = self._lost or reason
        self.on_gone(None, 0, survivors=False)

    def on_lost(self, reason: str) -> None:
        """The carrier of the process has failed; `on_gone` will follow."""
        self._lost = self._lost or reason
        self._is_orphaned = self.pid != 0
        self._is_dead = True  # and yet readable: `on_gone` takes its last words
        self._set_timer(KILL_CONFIRM_S, self._give_up)

    def on_dead(self) -> None:
        """The process is dead; perhaps something that it started is not. Its last words are in the channel."""
        if self._is_dead or self.phase is Phase.ENDED:
            return
        self._is_dead = True
        self._drain()
        if self.phase in (Phase.TAKEN, Phase.MOVING):
            self._is_unusable("it has died")
        self.phase = Phase.DYING
        self._set_timer(EXIT_STATUS_S, self._force)

    def on_exited(self, exit_code: int | None, peak_bytes: int) -> None:
        """How it died is known; its tree is being killed."""
        self._exit_code, self._peak_bytes = exit_code, peak_bytes
        self._set_timer(KILL_CONFIRM_S + EXIT_STATUS_S, self._give_up)

    def on_gone(self, exit_code: int | None, peak_bytes: int, survivors: bool) -> None:
        """The process and all that it had started are dead, or cannot be killed."""
        if self.phase is Phase.ENDED:
            return
        self._drain()
        self._set_timer(None)
        self.close()
        self.phase = Phase.ENDED
        if exit_code is not None:
            self._exit_code, self._peak_bytes = exit_code, peak_bytes
        if self._exit_code == NO_THREAD_EXIT and not self._is_ready:
            self._lost = self._lost or "no thread could be made in its process"
        self._processes.discard(self)
        kind = "lost" if self._is_orphaned else "refused" if self._lost else "died"
        went_well = self._is_stopped and self._exit_code == 0 and not self._shows_stacks
        self._tell(
            Exited(
                actor_id=self.actor_id,
                kind="stopped" if self._is_stopped else kind,
                cause=f"could not be killed, pid {self.pid}" if survivors else self._cause_in_words(),
                exit_code=self._exit_code,
                peak_bytes=self._peak_bytes,
                last_lines=""
                if went_well
                else last_lines(self._place, DUMP_LINES if self._shows_stacks else LAST_LINES),
                counts=not self._lost,
                pid=self.pid,
                survivors=survivors,
            )
        )

    def _cause_in_words(self) -> str:
        # A process that was killed for a closed channel, and yet has an exit code, was about to exit.
        was_exiting = self._cause == CHANNEL_CLOSED and (self._exit_code or 0) > 0
        if self._lost or (self._cause and not was_exiting):
            return self._lost or self._cause
        if self._is_stopped and self._exit_code == 0:
            return "stopped"
        if self._exit_code == CHANNEL_LOST_EXIT:
            return CHANNEL_CLOSED
        if self._exit_code == STOP_SWALLOWED_EXIT and self._is_stopped:
            return f"it was told to stop, but {STOP_SWALLOWED}"
        evidence = self._memory_kills.claim() if self._exit_code == -9 and not self._is_stopped else ""
        words = describe_exit(self._exit_code)
        return f"{words}, {OUT_OF_MEMORY}: {evidence}" if evidence else words

    # -- the channel -------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Close the channels. Any number of times."""
        self._channel.close()
        self._reports.close()

    def _on_broken(self, error: ChannelClosedError | ProtocolError) -> None:
        """Nothing more will come out of a channel."""
        if isinstance(error, ProtocolError):
            self.kill(f"protocol: {error}")
        elif not self._is_dead and self.phase not in (Phase.STOPPING, Phase.DYING):
            until = self._loop.time() + KILL_CONFIRM_S
            self._set_timer(EOF_S, lambda: self._judge_closed_channel(until))

    def _judge_closed_channel(self, until: float) -> None:
        """The channel has ended, and nothing has told of a death: the process is dying slowly, or lives without it.

        A dying process closes its files first. On a busy machine the rest of its death takes as long as it takes.
        """
        if self.launcher.is_ending(self.pid) and self._loop.time() < until:
            self._set_timer(EOF_S, lambda: self._judge_closed_channel(until))
        else:
            self.kill(CHANNEL_CLOSED)

    def _drain(self) -> None:
        """Read until it would block: end-of-file may never come, if a child of the dead process holds the channel."""
        for channel in (self._channel, self._reports):
            while channel.read():
                pass

    def _on_message(self, message: Message) -> None:
        """Handle what the worker says. After a stop no answer counts but that to the stop itself."""
        if not isinstance(message, (Reported, Returned, Finished, Raised)):
            self._on_hello(message)
            return
        if message.number > self._number:
            raise ProtocolError(f"call {message.number} was answered, but the last one was {self._number}")
        if message.number <= self._answered:  # it is a repetition, or comes too late
            return
        self._answered = message.number
        if self.phase is Phase.MOVING and message.number > self._move.number:
            self._is_reset()  # the answer to the first call has overtaken what was said of that
        if self.phase is Phase.BUSY and message.number == self._number:
            self.phase = Phase.IDLE
            if isinstance(message, Reported):
                self._open_method = self._method
            self._is_clean = isinstance(message, Finished)
            self._tell(self._outcome(message))
        elif isinstance(message, Reported):  # it was on its way when the stop was sent
            self._answer_with_quit()
        elif self.phase is Phase.STARTING:
            self._on_made(message)
        elif self.phase is Phase.MOVING:
            self._on_reset(message)
        elif self.phase is Phase.STOPPING and message.number == self._number:
            self._on_unwound(message)

    def _on_hello(self, message: Message) -> None:
        if not isinstance(message, Hello):
            raise ProtocolError(f"a driver does not expect {type(message).__name__}")
        self.pid = message.pid  # it may overtake what the launcher has to tell
        if self.phase is Phase.STARTING:
            self._set_timer(None)

    def _on_made(self, reply: Returned | Finished | Raised) -> None:
        self.phase = Phase.IDLE
        if isinstance(reply, Raised):
            self._tell(CallRaised(self.actor_id, reply.error))
            return
        self._is_ready = True
        if not self._is_told:
            self._tell(self._started._replace(pid=self.pid))
        elif self._first is not None:
            self.call(*self._first)

    def _on_reset(self, reply: Returned | Finished | Raised) -> None:
        if isinstance(reply, Raised):
            self._is_unusable(reply.error.last_line())
        elif not (reply.payload and pickle.loads(reply.payload)):
            self._is_unusable("reset returned False")
        else:
            self._is_reset()

    def _is_reset(self) -> None:
        """The worker carries the actor that it was handed on to."""
        self._set_timer(None)
        if self._first is not None:
            self.phase = Phase.BUSY
        else:
            self.phase = Phase.IDLE
            self._tell(self._started)

    def _on_unwound(self, reply: Returned | Finished | Raised) -> None:
        """The worker has been stopped, and can be parked."""
        if self._parks:
            self._set_timer(None)
            self.phase = Phase.PARKED
            self._is_clean = isinstance(reply, Finished)
            self._tell(Exited(self.actor_id, "parked"))
        else:  # it was stopped again, for good
            self._send(Quit(self._number + 1))

    def _outcome(self, reply: Reported | Returned | Finished | Raised) -> Event:
        if isinstance(reply, Raised):
            return CallRaised(self.actor_id, reply.error)
        if not reply.payload:
            return CallReturned(self.actor_id, None)
        try:
            return CallReturned(self.actor_id, pickle.loads(reply.payload))
        except (Exception, SystemExit) as error:
            broken = TypeError(f"the value that actor {self.actor_id!r} returned cannot be loaded here: {error!r}")
            broken.__cause__ = error
            return CallRaised(self.actor_id, RemoteError.of(broken))

    def _set_timer(self, delay_s: float | None, callback: Callable[[], object] | None = None) -> None:
        """Set this state's deadline; there is only ever one."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None if delay_s is None or callback is None else self._loop.call_later(delay_s, callback)


def describe_exit(exit_code: int | None) -> str:
    """An exit status in words, such as `exit code 3` or `SIGKILL (9)`."""
    if exit_code is None:
        return "exit status unknown"
    if exit_code >= 0:
        return f"exit code {exit_code}"
    try:
        return f"{signal.Signals(-exit_code).name} ({-exit_code})"
    except ValueError:
        return f"signal {-exit_code}"


def last_lines(place: Place, limit: int = LAST_LINES) -> str:
    """The end of what was printed in a place, standard error last; at most `limit` lines.

    In a stack that was dumped our own frames are left out.
    """
    lines: list[str] = []
    for path in dict.fromkeys((place.stdout, place.stderr)):
        if path is None:
            continue
        try:
            with files.open_to_read(path) as file:
                size = file.seek(0, 2)
                file.seek(max(0, size - LAST_LINES_BYTES))
                found = file.read().decode("utf-8", "replace").splitlines()
        except OSError:
            continue
        lines += [line for line in found if not _OWN_FRAME.match(line)][-limit:]
    return "\n".join(lines[-limit:])


def make_launcher(
    loop: Loop,
    run_id: str,
    keep_descendants: bool,
    limit_bytes: int = MESSAGE_BYTES,
    needed: Sequence[str] = (),
    ahead: Template | None = None,
) -> Launcher:
    """The launcher for this machine.

    Args:
        loop: The driver's loop.
        run_id: Identifies the driver's workers; 16 hexadecimal digits.
        keep_descendants: Whether what a worker started may stay after the worker's normal end.
        limit_bytes: The longest message.
        needed: Modules that all workers need: they are imported once, where workers are copied from.
        ahead: Where the first ones are to be copied from; the launcher closes it.

    Raises:
        ValueError: See `start_method`.
    """
    method = start_method()
    logging.getLogger("minitune").debug("workers are started by the %s method", method)
    if method == "zygote":
        from minitune.actor.zygote_launcher import ZygoteLauncher

        return ZygoteLauncher(loop, run_id, keep_descendants, limit_bytes, needed, ahead)
    from minitune.actor.interpreter_launcher import InterpreterLauncher

    return InterpreterLauncher(loop, run_id, keep_descendants, limit_bytes)
