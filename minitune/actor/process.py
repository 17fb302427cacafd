"""ActorGroup and ActorProcess: the driver's side of actors, each from its start to the one event that ends it.

A group has one loop, one launcher that suits the machine, and the actors. Every state of an actor that could last for
ever has a deadline, and the loop calls back, so nothing here ever waits but `ActorGroup.wait`.
"""

from __future__ import annotations

import logging
import os
import pickle
import re
import signal
import sys
import threading
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING, Any

from minitune.actor import process_tree
from minitune.actor.channel import ChannelClosedError, DriverEnd
from minitune.actor.launcher import Launcher, new_run_id, start_method
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
    PARK_S,
    SHOW_S,
    STOP_SWALLOWED_EXIT,
    TERM_TO_KILL_S,
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
    ProtocolError,
    Quit,
    Raised,
    Ready,
    Replied,
    Reported,
    Returned,
    Show,
    encode,
)
from minitune.actor.process_tree import MemoryKills
from minitune.base import files
from minitune.base.files import search_path
from minitune.error import STOP_SWALLOWED, RemoteError

if TYPE_CHECKING:
    from minitune.actor.template import Template

_log = logging.getLogger("minitune")

_PACKAGE = re.escape(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
_OWN_FRAME = re.compile(rf'  File "({_PACKAGE}.(actor|execution|trainable)\b.*|<string>)", line \d+ in \S+$')
"""Frames of a dumped stack that are not the user's: they pass calls on, or have started the process."""
CHANNEL_CLOSED = "control channel closed by the trial's code"
OUT_OF_MEMORY = "out of memory"
Factory = Callable[..., Any]
"""Makes an actor's object in its process: `factory(user_thread)`."""


# -- one actor ---------------------------------------------------------------------------------------------------------
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
        launcher: Makes and kills the process.
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
        self._channel: DriverEnd  # made by `start`, like the report pipe
        self._reports: DriverEnd
        self._method = ""  # the last one that was called
        self._open_method = ""  # what goes on in the worker, if it has reported and waits for an answer
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
        self.token, self._channel, self._reports = self._launcher.launch(self, preload, alone)
        self._channel.send_frames(frame)
        self._place = boot.place
        self._set_timer(hello_s, lambda: self.kill(f"no sign of life within {hello_s:g} s of its start"))
        self._channel.watch(self._loop, lambda: self._read(self._channel))
        self._reports.watch(self._loop, lambda: self._read(self._reports))

    def call(self, method: str, payload: bytes) -> None:
        """Send a call. Replied, Failed or Ended follows. During a move the worker comes to it after that.

        Raises:
            RuntimeError: If there is a call in flight, or the actor is not there any more.
            ValueError: If the arguments are too large.
        """
        call = Call(self._number + 1, method, payload)
        if self.phase is Phase.MOVING and self._number == self._move_number:
            self._send(call)
        elif self.phase is Phase.IDLE and method == self._open_method:  # the one that waits goes on
            self._answer_report(call)
            self.phase = Phase.BUSY
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
        if self._open_method:
            self._answer_report(Quit(self._number))
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
        if isinstance(messages[-1], Call):
            self._method = messages[-1].method

    def _answer_report(self, answer: Call | Quit) -> None:
        """Answer what the worker has reported: each report gets one answer."""
        self._reports.send(answer)
        self._number = answer.number
        self._open_method = ""

    # -- the stop ladder ---------------------------------------------------------------------------------------

    def _show(self) -> None:
        """Have it write the stacks of its threads to its standard error."""
        self._channel.send(Show())
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
            self._launcher.signal(self.token, signal.SIGUSR2, whole_group=False)
        self._set_timer(DUMP_TO_TERM_S, lambda: self._terminate(grace_s))

    def _terminate(self, grace_s: float) -> None:
        """Raise in its main thread."""
        self._launcher.signal(self.token, signal.SIGTERM, whole_group=True)
        cause = f"did not end within the grace period of {grace_s:g} s and was killed"
        self._set_timer(TERM_TO_KILL_S, lambda: self.kill(cause))

    def _force(self) -> None:
        """The launcher does not tell of the end: do its work here."""
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

    def _read(self, channel: DriverEnd) -> bool:
        """Handle what one read brings.

        Returns:
            Whether there may be more.
        """
        try:
            for message in channel.receive():
                self._on_message(message)
        except BlockingIOError:
            return False
        except ChannelClosedError:
            channel.unwatch()
            if not self._is_dead and self.phase not in (Phase.STOPPING, Phase.DYING):
                until = self._loop.time() + KILL_CONFIRM_S
                self._set_timer(EOF_S, lambda: self._judge_closed_channel(until))
            return False
        except ProtocolError as error:
            channel.unwatch()
            self.kill(f"protocol: {error}")
            return False
        return True

    def _judge_closed_channel(self, until: float) -> None:
        """The channel has ended, and nothing has told of a death: the process is dying slowly, or lives without it.

        A dying process closes its files first. On a busy machine the rest of its death takes as long as it takes.
        """
        if process_tree.is_ending(self.pid) and self._loop.time() < until:
            self._set_timer(EOF_S, lambda: self._judge_closed_channel(until))
        else:
            self.kill(CHANNEL_CLOSED)

    def _drain(self) -> None:
        """Read until it would block: end-of-file may never come, if a child of the dead process holds the channel."""
        for channel in (self._channel, self._reports):
            while self._read(channel):
                pass

    def _on_message(self, message: Message) -> None:
        if isinstance(message, (Reported, Returned, Raised)):
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

    def _on_reply(self, reply: Reported | Returned | Raised) -> None:
        """One answer. After a stop none counts but the one to the stop itself."""
        if isinstance(reply, Reported):
            if self.phase is not Phase.BUSY:  # it was on its way when the stop was sent
                self._answer_report(Quit(self._number))
                return
            self._open_method = self._method
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

    def _on_made(self, reply: Reported | Returned | Raised) -> None:
        self._set_timer(None)
        self.phase = Phase.IDLE
        if isinstance(reply, Raised):
            self._emit(Failed(self.actor_id, reply.error))
        else:
            self._is_ready = True
            self._emit(Ready(self.actor_id, self.pid))

    def _on_moved(self, reply: Reported | Returned | Raised) -> None:
        """The answer to a move; or that to the call after it, which says that the move has succeeded."""
        if reply.number == self._move_number and isinstance(reply, Raised):
            self._give_up_move(reply.error.last_line())
            return
        self._set_timer(None)
        self.phase = Phase.BUSY if self._number > self._move_number else Phase.IDLE

    def _outcome(self, reply: Reported | Returned | Raised) -> GroupEvent:
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


# -- groups ------------------------------------------------------------------------------------------------------------
class ActorGroup:
    """Starts actors under one driver, calls them, and tells what becomes of them. For one thread, except `wake`.

    Args:
        limit_bytes: The longest message, in either direction.
        keep_descendants: Leave alone what an actor has started, if the actor ends normally.
        needed: Modules that all actors need: they are imported once, where workers are copied from.
        ahead: Where the first ones are copied from, if that was started already; closed here.

    Raises:
        ValueError: If the start method that the environment asks for cannot be used.

    Example:
        ```
        with ActorGroup() as group:
            group.start("a", partial(Hosted, factory=Counter))
            [ready] = group.wait(None)
            group.call("a", "add", 2)
            [replied] = group.wait(None)
        ```
    """

    def __init__(
        self,
        limit_bytes: int = MESSAGE_BYTES,
        keep_descendants: bool = False,
        needed: Sequence[str] = (),
        ahead: Template | None = None,
    ):
        self.run_id = new_run_id()
        if sys.platform == "linux" and ahead is not None:
            self.run_id = ahead.run_id
        self._limit_bytes = limit_bytes
        self._loop = Loop()
        self._launcher = make_launcher(self._loop, self.run_id, keep_descendants, limit_bytes, needed, ahead)
        self._actors: dict[str, ActorProcess] = {}
        self._events: deque[GroupEvent] = deque()
        self._memory_kills = MemoryKills()
        # Nothing that the finaliser holds may refer to the group, or it would never be collected.
        self._on_ended = partial(_forget, self._actors)
        self._driver_pid = os.getpid()
        self._finalizer = weakref.finalize(self, _release, self._driver_pid, self._loop, self._launcher, self._actors)

    def start(
        self,
        actor_id: str,
        factory: Factory | bytes,
        *,
        place: Place | None = None,
        preload: bool = True,
        alone: bool = False,
    ) -> None:
        """Start an actor. Does not block. Answered by Ready, or by Failed if the factory raised, or by Ended.

        Args:
            actor_id: A name never used before in this group.
            factory: Makes the object: `factory(executor)`, where the executor stands for the user's thread. Bytes are
                one that was pickled with cloudpickle.
            place: The surroundings; by default the driver's.
            preload: Whether what was preloaded is of use to it. False where the process must choose its devices or
                thread limits before anything is imported.
            alone: Whether nothing that carries it may carry others, too: should it die, only this actor is lost.

        Raises:
            RuntimeError: If the name is in use, or the group is closed.
            TypeError: If the factory cannot be pickled.
            ValueError: If it is larger than the message limit.
        """
        self._check_open()
        if actor_id in self._actors:
            raise RuntimeError(f"there is an actor {actor_id!r} already")
        data = factory if isinstance(factory, bytes) else _pickled(factory, "the factory")
        boot = Boot(place or Place(), data, search_path(), tuple(sys.argv), self._limit_bytes)
        actor = ActorProcess(
            actor_id,
            self._loop,
            self._launcher,
            self._events.append,
            self._on_ended,
            self._memory_kills,
        )
        try:
            actor.start(boot, preload, alone)
        except OSError as error:
            self._events.append(Ended(actor_id, stopped=False, lost=True, cause=f"no channel could be made: {error}"))
        else:
            self._actors[actor_id] = actor

    def call(self, actor_id: str, method: str, *args: Any) -> None:
        """Call a method of an actor's object. Does not block. Answered by Replied, Failed or Ended.

        The method is called on the worker's control thread and must not block; it returns a value or a Future. If the
        arguments hold objects of classes that are not built in, they are loaded, and the method is called, on the
        user's thread as soon as that is free.

        Raises:
            RuntimeError: If there is no such actor, or it has a call in flight.
            TypeError: If the arguments cannot be pickled.
            ValueError: If they are larger than the message limit.
        """
        payload = _pickled(args, f"an argument of {method}()") if args else b""
        self._actor(actor_id).call(method, payload)

    def stop(self, actor_id: str, grace_s: float, keep: bool = False, dump: bool = False) -> None:
        """Let an actor go. Does not block; only Ended follows, or Parked.

        Its object's `stop()` is called (`park()` with `keep`), if it has one. After the grace period its stacks
        are dumped, it gets SIGTERM, which raises `TrialStopped` in its main thread, and one second later its whole
        process tree is killed.

        Args:
            actor_id: The actor; nothing happens if it is gone already.
            grace_s: Seconds for its own end; a second call may shorten it.
            keep: Park it for another use (see `move`), if its object's `stop()` ends in time and without exception,
                and no thread or process that it has started is left. Else Ended follows.
            dump: Have the stacks of its threads written at once: they are in the last lines that Ended holds.
        """
        actor = self._actors.get(actor_id)
        if actor is not None:
            actor.stop(grace_s, keep, dump)

    def kill(self, actor_id: str) -> None:
        """Kill an actor and all that it has started, at once. Does not block; Ended follows."""
        actor = self._actors.get(actor_id)
        if actor is not None:
            actor.kill()

    def move(
        self, actor_id: str, new_actor_id: str, place: Place | None = None, call: tuple[str, bytes] | None = None
    ) -> None:
        """Hand a parked actor on under another name, with the same object. Does not block.

        Everything that user code may have changed in the process is put back, then it takes the new place. The actor
        can be called at once: the call waits for that. Ended (lost) follows if it did not work.

        Args:
            actor_id: The parked actor.
            new_actor_id: A name never used before in this group.
            place: The new surroundings; by default the driver's.
            call: The first call: a method and the tuple of its arguments, pickled with cloudpickle. Sent along, it
                costs each side one awakening less.

        Raises:
            RuntimeError: If it is not parked, or the new name is in use.
            ValueError: If the arguments are larger than the message limit.
        """
        if new_actor_id in self._actors:
            raise RuntimeError(f"there is an actor {new_actor_id!r} already")
        actor = self._actor(actor_id)
        actor.move(new_actor_id, place or Place(), call)
        del self._actors[actor_id]
        self._actors[new_actor_id] = actor

    def preload(self, action: Callable[[], object]) -> None:
        """Call `action` once in the process that all later actors are forked from. Does not block.

        Nothing happens where workers are not forked, and workers are started as if nothing had happened if it raises,
        starts a thread, opens a GPU or takes too long. So it should fill a cache, and workers should fill it too.

        Args:
            action: A small picklable function. Several are called in the order of the calls of this method.

        Raises:
            TypeError: If it cannot be pickled.
        """
        self._check_open()
        self._launcher.preload(_pickled(action, "the action to preload"))

    def wait(self, timeout_s: float | None) -> list[GroupEvent]:
        """Wait for events. The only call that blocks, `close` aside.

        Args:
            timeout_s: Give up after so many seconds; 0 never blocks, None waits without limit.

        Returns:
            The events in order of arrival; empty after a timeout or `wake()`.
        """
        self._check_open()
        return self._wait(timeout_s)

    def wake(self) -> None:
        """Make the current or the next `wait` return. Safe in a signal handler and from other threads."""
        self._loop.wake()

    def pids(self) -> dict[str, int]:
        """The process of each actor that has one."""
        return {actor_id: actor.pid for actor_id, actor in self._actors.items() if actor.pid}

    def close(self, grace_s: float = 0.0) -> None:
        """Stop all actors, wait until they are gone, and free everything. Blocks, `grace_s` + 2 s or so at most.

        Any number of times. Events that were not taken are dropped. In a process that was forked from the driver
        nothing happens.
        """
        if not self._finalizer.alive or os.getpid() != self._driver_pid:
            return
        try:
            for actor in list(self._actors.values()):
                actor.stop(grace_s, keep=False, dump=False)
            until = self._loop.time() + grace_s + TERM_TO_KILL_S + 1.0
            while self._actors and self._loop.time() < until:
                self._loop.turn(until - self._loop.time())
        finally:
            self._finalizer()
            self._events.clear()

    def __enter__(self) -> ActorGroup:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def _wait(self, timeout_s: float | None) -> list[GroupEvent]:
        until = None if timeout_s is None else self._loop.time() + timeout_s
        pause_s = 0.0 if self._events else timeout_s
        while True:
            was_woken = self._loop.turn(pause_s)
            if self._events or was_woken:
                break
            if until is not None:
                pause_s = max(0.0, until - self._loop.time())
                if pause_s == 0.0:
                    break
        events = list(self._events)
        self._events.clear()
        return events

    def _actor(self, actor_id: str) -> ActorProcess:
        self._loop.stand_still_if_halted()
        try:
            return self._actors[actor_id]
        except KeyError:
            raise RuntimeError(f"there is no actor {actor_id!r} (any more)") from None

    def _check_open(self) -> None:
        self._loop.stand_still_if_halted()
        if not self._finalizer.alive:
            raise RuntimeError("the group is closed")


def make_launcher(
    loop: Loop,
    run_id: str,
    keep_descendants: bool,
    limit_bytes: int,
    needed: Sequence[str] = (),
    ahead: Template | None = None,
) -> Launcher:
    """The launcher for this machine.

    Args:
        loop: The driver's loop.
        run_id: Identifies the group; 16 hexadecimal digits.
        keep_descendants: Whether what a worker started may stay after the worker's normal end.
        limit_bytes: The longest message.
        needed: Modules that all workers need: they are imported once, where workers are copied from.
        ahead: Where the first ones are to be copied from; the launcher closes it.

    Raises:
        ValueError: See `start_method`.
    """
    method = start_method()
    _log.debug("workers are started by the %s method", method)
    if method == "zygote":
        from minitune.actor.zygote_launcher import ZygoteLauncher

        return ZygoteLauncher(loop, run_id, keep_descendants, limit_bytes, needed, ahead)
    from minitune.actor.interpreter_launcher import InterpreterLauncher

    return InterpreterLauncher(loop, run_id, keep_descendants, limit_bytes)


def _forget(actors: dict[str, ActorProcess], actor: ActorProcess) -> None:
    """An actor has ended."""
    actors.pop(actor.actor_id, None)


def _release(driver_pid: int, loop: Loop, launcher: Launcher, actors: dict[str, ActorProcess]) -> None:
    """Kill what is left and free everything; also for a group that was not closed, and at exit."""
    if os.getpid() != driver_pid:  # a process that was forked from the driver: none of this is its own
        return
    if not threading.main_thread().is_alive():  # the interpreter ends
        loop.halt()
    for actor in list(actors.values()):
        actor.close()
    actors.clear()
    launcher.close()
    loop.close()


def _pickled(value: Any, what: str) -> bytes:
    """Pickle for a worker.

    Raises:
        TypeError: If that does not work; the text names `what`.
    """
    import cloudpickle

    try:
        data: bytes = cloudpickle.dumps(value)
    except Exception as error:
        raise TypeError(f"{what} cannot be pickled: {error}") from error
    return data
