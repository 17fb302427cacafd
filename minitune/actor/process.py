"""ActorProcess: the driver's side of one actor, from its start to the one event that ends it.

Every state has its deadline, so that nothing here ever waits: the group's loop calls back.
"""

from __future__ import annotations

import os
import pickle
import re
import signal
from collections.abc import Callable
from enum import Enum
from typing import Any

from minitune.actor import tree
from minitune.actor.channel import ChannelClosedError, DriverEnd
from minitune.actor.fields import ProtocolError
from minitune.actor.frames import encode
from minitune.actor.launch import Launcher
from minitune.actor.limits import (
    CHANNEL_LOST_EXIT,
    DUMP_LINES,
    DUMP_TO_TERM_S,
    EOF_S,
    EXIT_STATUS_S,
    KILL_CONFIRM_S,
    LAST_LINES,
    LAST_LINES_BYTES,
    NO_THREAD_EXIT,
    PARK_S,
    SHOW_S,
    TERM_TO_KILL_S,
)
from minitune.actor.loop import Loop, Timer
from minitune.actor.memory_kills import MemoryKills
from minitune.actor.messages import (
    Boot,
    Call,
    Ended,
    Failed,
    GroupEvent,
    Hello,
    Message,
    Move,
    Parked,
    Place,
    Quit,
    Raised,
    Ready,
    Replied,
    Returned,
    Show,
)
from minitune.base import files
from minitune.error import RemoteError

_PACKAGE = re.escape(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
_OWN_FRAME = re.compile(rf'  File "({_PACKAGE}.(actor|execution|trainable)\b.*|<string>)", line \d+ in \S+$')
"""In a stack that was dumped: what carries calls to the user's code, and what has started the process."""
CHANNEL_CLOSED = "control channel closed by the trial's code"
OUT_OF_MEMORY = "out of memory"


class Phase(Enum):
    """Where an actor is in its life."""

    STARTING = "starting"
    IDLE = "idle"
    BUSY = "busy"
    STOPPING = "stopping"
    PARKED = "parked"
    MOVING = "moving"
    DYING = "dying"
    ENDED = "ended"


class ActorProcess:
    """One actor.

    Args:
        actor_id: Its name.
        loop: The group's loop.
        launcher: What makes and kills the process.
        emit: Takes the events.
        on_ended: Called once, after the last event.
        memory_kills: What the kernel says of those that it has killed for lack of memory.
    """

    def __init__(
        self,
        actor_id: str,
        loop: Loop,
        launcher: Launcher,
        emit: Callable[[GroupEvent], object],
        on_ended: Callable[[ActorProcess], object],
        memory_kills: MemoryKills,
    ):
        self.actor_id = actor_id
        self.token = ""
        self.pid = 0
        self.phase = Phase.STARTING
        self._channel: DriverEnd  # made by `start`
        self._loop = loop
        self._launcher = launcher
        self._emit = emit
        self._on_ended = on_ended
        self._memory_kills = memory_kills
        self._place = Place()
        self._number = 0
        self._answered = -1
        self._move_number = 0
        self._timer: Timer | None = None
        self._is_ready = False
        self._is_stopped = False
        self._shows_stacks = False
        self._parks = False
        self._is_dead = False
        self._is_orphaned = False
        self._lost = ""
        self._cause = ""
        self._exit_code: int | None = None
        self._peak_bytes = 0

    # -- what the group asks for -------------------------------------------------------------------------------

    def start(self, boot: Boot, preload: bool, alone: bool) -> None:
        """Have the process made and send it the first message. Ready, Failed or Ended follows.

        Raises:
            ValueError: If the factory is too large.
            OSError: If there is no descriptor left for the channel.
        """
        frame = encode(boot, boot.limit_bytes)
        hello_s = self._launcher.hello_s
        self._memory_kills.look()
        self.token, self._channel = self._launcher.launch(self, preload, alone)
        self._channel.send_frames(frame)
        self._place = boot.place
        self._set_timer(hello_s, lambda: self.kill(f"no sign of life within {hello_s:g} s of its start"))
        self._channel.watch(self._loop, self._read)

    def call(self, method: str, payload: bytes) -> None:
        """Send a call. Replied, Failed or Ended follows. During a move the worker comes to it after that.

        Raises:
            RuntimeError: If there is a call in flight, or the actor is not there any more.
            ValueError: If the arguments are too large.
        """
        call = Call(self._number + 1, method, payload)
        if self.phase is Phase.MOVING and self._number == self._move_number:
            self._send(call)
        elif self.phase is Phase.IDLE:
            self._send(call)
            self.phase = Phase.BUSY
        elif self.phase is not Phase.DYING:  # of a dying one the caller has heard nothing yet but its last reply
            raise RuntimeError(f"actor {self.actor_id!r} cannot be called while it is {self.phase.value}")

    def stop(self, grace_s: float, keep: bool, dump: bool) -> None:
        """Let it go: only Parked or Ended follows. A second stop may shorten the grace period."""
        if self.phase in (Phase.DYING, Phase.ENDED):
            return
        if self._is_dead:  # its last words are of no use any more
            self._is_stopped = True
            self.phase = Phase.DYING
            return
        if dump:
            self._show()
        if self.phase is not Phase.STOPPING:
            self._parks = keep and self.phase in (Phase.IDLE, Phase.BUSY)
            self._send(Quit(self._number + 1, self._parks))
        self._parks = self._parks and keep
        self.phase = Phase.STOPPING
        self._is_stopped = True
        self._set_timer(grace_s, lambda: self._show_and_terminate(grace_s))

    def move(self, actor_id: str, place: Place, call: tuple[str, bytes] | None) -> None:
        """Hand a parked process on to another actor, and call it at once. Ended follows if that fails.

        Raises:
            RuntimeError: If it is not parked.
            ValueError: If the arguments are too large.
        """
        if self.phase is not Phase.PARKED:
            raise RuntimeError(f"actor {self.actor_id!r} is {self.phase.value}, not parked: it cannot be handed on")
        move = Move(self._number + 1, place)
        self._send(move, *([Call(self._number + 2, *call)] if call is not None else []))
        self.actor_id = actor_id
        self._place = place
        self._is_stopped = self._shows_stacks = False
        self._move_number = move.number
        self.phase = Phase.MOVING
        self._set_timer(PARK_S, lambda: self._give_up_move(f"it did not answer within {PARK_S:g} s"))

    def kill(self, cause: str = "") -> None:
        """Kill the whole tree at once. Ended follows."""
        if self.phase in (Phase.DYING, Phase.ENDED):
            return
        self._cause = cause
        self.phase = Phase.DYING
        self._launcher.kill(self.token)
        self._set_timer(EXIT_STATUS_S, self._force)

    def _send(self, *messages: Call | Quit | Move) -> None:
        self._channel.send(*messages)
        self._number = messages[-1].number

    # -- the stop ladder ---------------------------------------------------------------------------------------

    def _show(self) -> None:
        """Have it write the stacks of its threads to its standard error."""
        self._channel.send(Show())
        self._shows_stacks = True

    def _show_and_terminate(self, grace_s: float) -> None:
        """The grace period is over: show what it does, unless nobody wants to wait."""
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
            self._launcher.signal(self.token, signal.SIGUSR2, whole_group=False)
        self._set_timer(DUMP_TO_TERM_S, lambda: self._terminate(grace_s))

    def _terminate(self, grace_s: float) -> None:
        """Raise in its main thread."""
        self._launcher.signal(self.token, signal.SIGTERM, whole_group=True)
        cause = f"did not end within the grace period of {grace_s:g} s and was killed"
        self._set_timer(TERM_TO_KILL_S, lambda: self.kill(cause))

    def _force(self) -> None:
        """What should have told us of the end does not answer: do its work ourselves."""
        self._set_timer(KILL_CONFIRM_S, self._give_up)
        self._launcher.force(self.token)

    def _give_up(self) -> None:
        """Even so it did not die."""
        self.on_gone(self._exit_code, self._peak_bytes, survivors=True)

    def _give_up_move(self, reason: str) -> None:
        self._lost = f"the process could not be used again: {reason}"
        self.kill()

    # -- what the launcher tells -------------------------------------------------------------------------------

    def on_started(self, pid: int) -> None:
        """There is a process."""
        self.pid = pid

    def on_refused(self, reason: str) -> None:
        """No process could be made."""
        self._lost = self._lost or reason
        self.on_gone(None, 0, survivors=False)

    def on_lost(self, reason: str) -> None:
        """What carries the process has failed; `on_gone` will follow."""
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
        self._emit(self._ended(survivors))
        self._on_ended(self)

    def _ended(self, survivors: bool) -> Ended:
        """The last event."""
        went_well = self._is_stopped and self._exit_code == 0 and not self._shows_stacks
        return Ended(
            actor_id=self.actor_id,
            stopped=self._is_stopped,
            lost=bool(self._lost),
            cause=f"could not be killed, pid {self.pid}" if survivors else self._cause_in_words(),
            exit_code=self._exit_code,
            peak_bytes=self._peak_bytes,
            last_lines="" if went_well else last_lines(self._place, DUMP_LINES if self._shows_stacks else LAST_LINES),
            pid=self.pid,
            ready=self._is_ready,
            survivors=survivors,
            orphaned=self._is_orphaned,
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
        evidence = self._memory_kills.claim() if self._exit_code == -9 and not self._is_stopped else ""
        words = describe_exit(self._exit_code)
        return f"{words}, {OUT_OF_MEMORY}: {evidence}" if evidence else words

    # -- the channel -------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Close the channel. Any number of times."""
        self._channel.close()

    def _read(self) -> bool:
        """Handle what one read brings.

        Returns:
            Whether there may be more.
        """
        try:
            for message in self._channel.receive():
                self._on_message(message)
        except BlockingIOError:
            return False
        except ChannelClosedError:
            self._channel.unwatch()
            if not self._is_dead and self.phase not in (Phase.STOPPING, Phase.DYING):
                until = self._loop.time() + KILL_CONFIRM_S
                self._set_timer(EOF_S, lambda: self._judge_closed_channel(until))
            return False
        except ProtocolError as error:
            self._channel.unwatch()
            self.kill(f"protocol: {error}")
            return False
        return True

    def _judge_closed_channel(self, until: float) -> None:
        """The channel has ended, and nothing has told of a death: the process is dying slowly, or lives without it.

        A dying process closes its files first. On a busy machine the rest of its death takes as long as it takes.
        """
        if tree.is_ending(self.pid) and self._loop.time() < until:
            self._set_timer(EOF_S, lambda: self._judge_closed_channel(until))
        else:
            self.kill(CHANNEL_CLOSED)

    def _drain(self) -> None:
        """Read until it would block: end-of-file may never come, if a child of the dead process holds the channel."""
        while self._read():
            pass

    def _on_message(self, message: Message) -> None:
        if isinstance(message, (Returned, Raised)):
            if message.number > self._number:
                raise ProtocolError(f"call {message.number} was answered, but the last one was {self._number}")
            if message.number > self._answered:  # else it is a repetition, or comes too late
                self._answered = message.number
                self._on_reply(message)
        elif isinstance(message, Hello):
            self.pid = message.pid  # it may overtake what the launcher has to tell
            if self.phase is Phase.STARTING:
                self._set_timer(None)
        else:
            raise ProtocolError(f"a driver does not expect {type(message).__name__}")

    def _on_reply(self, reply: Returned | Raised) -> None:
        """One answer. After a stop none counts but the one to the stop itself."""
        if self.phase is Phase.MOVING:
            self._on_moved(reply)
        if self.phase is Phase.BUSY and reply.number == self._number:
            self.phase = Phase.IDLE
            self._emit(self._outcome(reply))
        elif self.phase is Phase.STARTING:
            self._on_made(reply)
        elif self.phase is Phase.STOPPING and reply.number == self._number and not self._parks:
            self._send(Quit(self._number + 1))  # it is ready to be parked, but was stopped again, for good
        elif self.phase is Phase.STOPPING and reply.number == self._number:
            self._set_timer(None)
            self.phase = Phase.PARKED
            self._emit(Parked(self.actor_id))

    def _on_made(self, reply: Returned | Raised) -> None:
        self._set_timer(None)
        self.phase = Phase.IDLE
        if isinstance(reply, Raised):
            self._emit(Failed(self.actor_id, reply.error))
        else:
            self._is_ready = True
            self._emit(Ready(self.actor_id, self.pid))

    def _on_moved(self, reply: Returned | Raised) -> None:
        """The answer to a move; or that to the call after it, which says that the move has succeeded."""
        if reply.number == self._move_number and isinstance(reply, Raised):
            self._give_up_move(reply.error.last_line())
            return
        self._set_timer(None)
        self.phase = Phase.BUSY if self._number > self._move_number else Phase.IDLE

    def _outcome(self, reply: Returned | Raised) -> GroupEvent:
        if isinstance(reply, Raised):
            return Failed(self.actor_id, reply.error)
        if not reply.payload:
            return Replied(self.actor_id, None)
        try:
            value: Any = pickle.loads(reply.payload)
        except (Exception, SystemExit) as error:
            broken = TypeError(f"the value that actor {self.actor_id!r} returned cannot be loaded here: {error!r}")
            broken.__cause__ = error
            return Failed(self.actor_id, RemoteError.of(broken))
        return Replied(self.actor_id, value)

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
