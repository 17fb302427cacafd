"""ActorProcess: the driver's side of a worker, from its start to its end. It reports the events of the actor in it.

A process runs one actor at a time. When an actor has ended, its process may be parked and handed over to another actor.
Nothing here waits: the loop calls back when a message has come, when the launcher reports something, or when a timer is
due. Each phase that waits for the worker or the launcher has a time limit, except while user code runs.
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

from minitune.actor.channel import Channel, ChannelClosedError
from minitune.actor.launcher import Launcher, Listener, start_method
from minitune.actor.loop import Loop, Timer
from minitune.actor.messages import (
    CHANNEL_LOST_EXIT,
    DUMP_LINES,
    DUMP_TO_TERM_S,
    EOF_S,
    EXIT_STATUS_S,
    INTERRUPTED_EXIT,
    KILL_CONFIRM_S,
    LAST_LINES,
    LAST_LINES_BYTES,
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
    Stop,
    encode,
    go_on,
)
from minitune.base import files
from minitune.error import STOP_SWALLOWED, RemoteError

if TYPE_CHECKING:
    from minitune.actor.zygote_process import ZygoteProcess

_PACKAGE = re.escape(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
_OWN_FRAME = re.compile(rf'  File "({_PACKAGE}.(actor|executors|trainable)\b.*|<string>)", line \d+ in \S+$')
"""Frames of a dumped stack that are not the user's: they pass calls on, or have started the process."""
CHANNEL_CLOSED = "control channel closed by the trial's code"
INTERRUPTED = (
    "an exception came up in minitune's own code of the worker: a signal handler of the trial has raised it there, or "
    "the trial has replaced a function that minitune needs; its traceback is in the trial's stderr"
)


class Phase(Enum):
    """The phases of a process.

    ::

        STARTING -> IDLE <-> BUSY -> STOPPING -> PARKED [-> TAKEN] -> MOVING -> IDLE | BUSY
        every phase but ENDED -> DYING -> ENDED

    A clean process is parked without STOPPING.
    """

    STARTING = "starting"  # the actor's object is being made
    IDLE = "idle"  # no call is running; or the making of the object has failed
    BUSY = "busy"
    STOPPING = "stopping"
    PARKED = "parked"  # no actor is in it
    TAKEN = "taken"  # handed over to another actor; the move is sent with its first call
    MOVING = "moving"  # the worker cleans up for this actor and resets the object
    DYING = "dying"  # it was killed or has died; the launcher has not reported the end of its whole tree
    ENDED = "ended"


class MemoryEvidence(Protocol):
    """Finds out whether lack of memory explains a death on the worker's machine, as `MemoryKills` does on this one."""

    def look(self) -> None:
        """See `MemoryKills.look`."""
        ...

    def claim(self) -> str:
        """See `MemoryKills.claim`."""
        ...


class ActorProcess(Listener):
    """One worker, and the actor in it.

    Args:
        loop: The driver's loop.
        launcher: Starts and kills the process.
        tell: Receives the events. Exited may also come from a process without an actor.
        processes: All processes that have not ended; this one is in it from its start to its end.
        memory_kills: The kernel's counters of processes that it killed for lack of memory.

    Attributes:
        actor_id: The actor; empty if the process could not be handed over to it.
        pid: The process, 0 while it is unknown.
        phase: Its phase.
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
        self.launcher = launcher
        self._loop = loop
        self._tell = tell
        self._processes = processes
        self._memory_kills = memory_kills
        self._work: Channel  # made by `start`, like the two below
        self._control: Channel
        self._started: Started
        self._place = Place()
        self._timer: Timer | None = None  # the time limit of the present phase
        # calls
        self._number = 0  # of the last message on the work pipe
        self._attempt = 0  # the number of the message that has begun this actor
        self._method = ""  # the method that was called last
        self._open_method = ""  # the method that has reported and waits for an answer
        self._is_ready = False  # the first object was made
        # a stop
        self._is_stopped = False
        self._has_quit = False  # Quit was sent
        self._shows_stacks = False
        self._parks = False  # the actor is stopped so that the process can be parked
        # a hand-over
        self._is_clean = False  # it can be parked without a message, and its reset will succeed
        self._move: Move
        self._timeout_s = 0.0
        self._is_told = False  # Started was reported before the object exists
        self._first: tuple[str, bytes] | None = None  # the call that was made before the object exists
        # the end
        self._is_dead = False  # the launcher has said so
        self._is_orphaned = False  # its parent process has failed while it ran
        self._lost = ""  # why the actor is not at fault; otherwise empty
        self._cause = ""  # why it was killed from here; otherwise empty
        self._exit_code: int | None = None
        self._peak_bytes = 0

    # -- methods for the executor --------------------------------------------------------------------------------

    def start(
        self,
        started: Started,
        boot: Boot,
        preload: bool = True,
        instead: NotReset | None = None,
    ) -> None:
        """Start the process and send it the first message. Started, CallRaised or Exited follows.

        Args:
            started: The event to report once the object is made; the process is filled in.
            boot: The surroundings and the factory.
            preload: Whether the worker may use the preloaded modules. False if the process must choose its devices or
                thread limits before anything is imported.
            instead: The NotReset of another process that could not be handed over.

        Raises:
            ValueError: If the factory is too large.
        """
        frames = encode(boot)
        hello_s = self.launcher.hello_s
        self.actor_id = started.actor_id
        self._started = started
        self._place = boot.place
        if instead is not None:
            self._is_told = instead.is_told
            self._first = instead.call
        self._memory_kills.look()
        try:
            self.token, self._work, self._control = self.launcher.launch(self, preload)
        except OSError as error:  # no file descriptor is free
            self.phase = Phase.ENDED
            cause = f"could not make a channel: {error}"
            self._tell(Exited(self.actor_id, "refused", cause, counts=False))
            return
        self._processes.add(self)
        self._work.send(*frames)
        self._set_timer(hello_s, lambda: self.kill(f"no message within {hello_s:g} s of its start"))
        # Nothing comes on the control pipe. If user code closes it, the worker notices that at its next report.
        self._work.watch(self._loop, self._on_message, self._on_broken)

    def call(self, method: str, payload: bytes = b"") -> None:
        """Send a call. CallReturned, CallRaised or Exited follows.

        The method runs on the worker's main thread. If it has reported and waits, and is called again, it continues;
        another method is called within it.

        Args:
            method: Its name.
            payload: The tuple of arguments, pickled with cloudpickle; empty if there are none.

        Raises:
            RuntimeError: If another call is running, or the actor has ended.
            ValueError: If the arguments are too large.
        """
        if self.phase is not Phase.IDLE:
            if self.phase is Phase.DYING and not self._is_stopped:
                return  # the caller has seen only the last reply so far
            if self._is_told and self._first is None:
                self._first = method, payload
                if self.phase is Phase.TAKEN:
                    self._send_move()
                return
            raise RuntimeError(f"actor {self.actor_id!r} cannot be called while it is {self.phase.value}")
        if method == self._open_method:  # the method that waits for an answer continues
            self._number += 1
            self._open_method = ""
            self._work.send(go_on(self._number))
        else:
            self._send(Call(self._number + 1, method, payload))
        self._method = method
        self.phase = Phase.BUSY

    def stop(self, grace_s: float, keep: bool = False, dump: bool = False) -> Exited | None:
        """Stop the actor: only Exited follows. A second stop may shorten the grace period.

        When the running call has ended, the object's `stop()` is called, if it has one and is not parked. After the
        grace period, the worker's stacks are dumped, and it gets SIGTERM, which raises `TrialStopped` in its main
        thread. One second later its whole process tree is killed.

        Args:
            grace_s: Seconds that the actor has to end.
            keep: Park the process for another actor (see `take_over`), if the running call ends in time, and no thread
                or process that it has started is left. Otherwise it exits.
            dump: Write the stacks of its threads at once: they are in the last lines that Exited holds.

        Returns:
            Exited if the process could be parked at once, because it is clean. Then no event follows.
        """
        if self.phase in (Phase.DYING, Phase.ENDED):
            return None
        if self._is_dead:  # its last messages are not needed any more
            self._is_stopped = True
            self.phase = Phase.DYING
            return None
        if keep and self._is_clean and self.phase in (Phase.IDLE, Phase.TAKEN):
            self.phase = Phase.PARKED
            return Exited(self.actor_id, "parked")
        if dump:
            self._show()
        if self.phase is not Phase.STOPPING:
            self._parks = keep and self.phase in (Phase.IDLE, Phase.BUSY)
            self._control.send(*encode(Stop(self._attempt)))
            if self.phase in (Phase.IDLE, Phase.TAKEN, Phase.PARKED):
                self._quit()  # the worker reads; otherwise Quit is the answer to its next message
        self._parks = self._parks and keep
        self.phase = Phase.STOPPING
        self._is_stopped = True
        self._set_timer(grace_s, lambda: self._show_and_terminate(grace_s))
        return None

    def take_over(self, started: Started, place: Place, payload: bytes, timeout_s: float) -> None:
        """Hand a parked process over to another actor. Started follows; or NotReset, and the process is killed.

        The worker restores everything that user code may have changed, takes the new place, and calls `reset` of its
        object. If the worker is clean, so that a failure is unlikely, Started is reported at once, and everything is
        sent with the first call. If this fails, NotReset comes after Started.

        Args:
            started: The event to report once this is done; the process is filled in.
            place: The new surroundings.
            payload: The arguments of `reset`, as in `call`.
            timeout_s: Limit for all of this.

        Raises:
            RuntimeError: If the process is not parked.
            ValueError: If the arguments are too large.
        """
        if self.phase is not Phase.PARKED:
            raise RuntimeError(f"the process of {self.actor_id!r} is {self.phase.value}, not parked")
        self.actor_id = started.actor_id
        self._place = place
        self._started = started._replace(pid=self.pid, reused=True)
        self._is_stopped = self._has_quit = self._shows_stacks = False
        self._move = Move(self._number + 1, place, payload)
        self._timeout_s = timeout_s
        self._is_told = self._is_clean
        self._first = None
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
        self._work.send(*encode(message))
        self._number = message.number

    def _quit(self) -> None:
        self._has_quit = True
        self._open_method = ""
        self._send(Quit(self._number + 1, self._parks))

    def _send_move(self) -> None:
        """Send the move to the next actor, and its first call if there is one, in one piece."""
        self._number = self._attempt = self._move.number
        frames = encode(self._move)
        if self._first is not None:
            self._number += 1
            self._method = self._first[0]
            frames += encode(Call(self._number, *self._first))
        self._work.send(b"".join(frames))
        self._is_clean = False
        self.phase = Phase.MOVING
        self._set_timer(self._timeout_s, lambda: self._reject_actor("it took too long"))

    def _reject_actor(self, reason: str) -> None:
        """The process cannot run the actor that it was handed over to: report that, and kill it."""
        self._tell(NotReset(self.actor_id, reason, self._is_told, self._first))
        self.actor_id = ""
        self.kill()

    # -- the stop ladder ---------------------------------------------------------------------------------------

    def _show(self) -> None:
        """Tell the worker to write the stacks of its threads to its standard error."""
        self._control.send(*encode(Show()))
        self._shows_stacks = True

    def _show_and_terminate(self, grace_s: float) -> None:
        """The grace period is over: dump the stacks of the worker, unless there was no grace period."""
        if grace_s <= 0:
            self._terminate(grace_s)
        elif self._shows_stacks:
            self._make_it_show(grace_s)
        else:
            self._show()
            self._set_timer(SHOW_S, lambda: self._make_it_show(grace_s))

    def _make_it_show(self, grace_s: float) -> None:
        """Send the signal that dumps the stacks.

        A worker that holds the interpreter's lock has not read the message. A worker that has read it ignores this
        signal.
        """
        self.launcher.signal(self.token, signal.SIGUSR2, whole_group=False)
        self._set_timer(DUMP_TO_TERM_S, lambda: self._terminate(grace_s))

    def _terminate(self, grace_s: float) -> None:
        """Send SIGTERM, which raises an exception in the worker's main thread."""
        self.launcher.signal(self.token, signal.SIGTERM, whole_group=True)
        cause = f"did not end within the grace period of {grace_s:g} s and was killed"
        self._set_timer(TERM_TO_KILL_S, lambda: self.kill(cause))

    def _force(self) -> None:
        """The launcher has not reported the end in time: make it try in another way."""
        self._set_timer(KILL_CONFIRM_S, self._give_up)
        self.launcher.force(self.token)

    def _give_up(self) -> None:
        """The end was not confirmed in time: report it with survivors."""
        self.on_gone(self._exit_code, self._peak_bytes, survivors=True)

    # -- events of the launcher ----------------------------------------------------------------------------------

    def on_started(self, pid: int) -> None:
        """The process was started."""
        self.pid = pid

    def on_refused(self, reason: str) -> None:
        """The process could not be started."""
        self._lost = self._lost or reason
        self.on_gone(None, 0, survivors=False)

    def on_lost(self, reason: str) -> None:
        """The parent of the process has failed; `on_gone` will follow."""
        self._lost = self._lost or reason
        self._is_orphaned = self.pid != 0
        self._is_dead = True  # but its channel can be read: `on_gone` reads its last messages
        self._set_timer(KILL_CONFIRM_S, self._give_up)

    def on_dead(self) -> None:
        """The process is dead, but its descendants may live. Its last messages are in the channel."""
        if self._is_dead or self.phase is Phase.ENDED:
            return
        self._is_dead = True
        self._drain()
        if self.phase in (Phase.TAKEN, Phase.MOVING):
            self._reject_actor("it has died")
        self.phase = Phase.DYING
        self._set_timer(EXIT_STATUS_S, self._force)

    def on_exited(self, exit_code: int | None, peak_bytes: int) -> None:
        """The exit status is known; its tree is being killed."""
        self._exit_code = exit_code
        self._peak_bytes = peak_bytes
        self._set_timer(KILL_CONFIRM_S + EXIT_STATUS_S, self._give_up)

    def on_gone(self, exit_code: int | None, peak_bytes: int, survivors: bool) -> None:
        """The process and all its descendants are dead, or cannot be killed."""
        if self.phase is Phase.ENDED:
            return
        self._drain()
        self._set_timer(None)
        self.close()
        self.phase = Phase.ENDED
        if exit_code is not None:
            self._exit_code = exit_code
            self._peak_bytes = peak_bytes
        if self._exit_code == NO_THREAD_EXIT and not self._is_ready:
            self._lost = self._lost or "its process could not start a thread"
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
        # A process with an exit code was about to exit when it was killed for a closed channel.
        was_exiting = self._cause == CHANNEL_CLOSED and (self._exit_code or 0) > 0
        if self._lost or (self._cause and not was_exiting):
            return self._lost or self._cause
        if self._is_stopped and self._exit_code == 0:
            return "stopped"
        if self._exit_code == CHANNEL_LOST_EXIT:
            return CHANNEL_CLOSED
        if self._exit_code == INTERRUPTED_EXIT:
            return INTERRUPTED
        if self._exit_code == STOP_SWALLOWED_EXIT and self._is_stopped:
            return f"it was told to stop, but {STOP_SWALLOWED}"
        evidence = self._memory_kills.claim() if self._exit_code == -9 and not self._is_stopped else ""
        words = describe_exit(self._exit_code)
        return f"{words}, out of memory: {evidence}" if evidence else words

    # -- the channel -------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Close the pipes. May be called any number of times."""
        self._work.close()
        self._control.close()

    def _on_broken(self, error: ChannelClosedError | ProtocolError) -> None:
        """The work pipe has ended: no more messages will come."""
        if isinstance(error, ProtocolError):
            self.kill(f"protocol: {error}")
        elif not self._is_dead and self.phase not in (Phase.STOPPING, Phase.DYING):
            until = self._loop.time() + KILL_CONFIRM_S
            self._set_timer(EOF_S, lambda: self._judge_closed_channel(until))

    def _judge_closed_channel(self, until: float) -> None:
        """The work pipe has ended, but no death was reported: kill the process, unless it is dying already.

        A dying process closes its files first. On a busy machine the rest of its death may take long.
        """
        if self.launcher.is_ending(self.pid) and self._loop.time() < until:
            self._set_timer(EOF_S, lambda: self._judge_closed_channel(until))
        else:
            self.kill(CHANNEL_CLOSED)

    def _drain(self) -> None:
        """Read until it would block: end-of-file may never come if a child of the dead process holds the pipe."""
        while self._work.read():
            pass

    def _on_message(self, message: Message) -> None:
        """Handle a message of the worker."""
        if not isinstance(message, (Reported, Returned, Finished, Raised)):
            self._on_hello(message)
            return
        is_of_move = self.phase is Phase.MOVING and message.number == self._attempt
        if message.number != self._number and not is_of_move:
            if self._is_stopped and message.number == self._attempt:
                return  # a stop has come between the answer to the move and that to the first call
            raise ProtocolError(f"call {message.number} was answered, but the last one was {self._number}")
        if self.phase is Phase.BUSY:
            self.phase = Phase.IDLE
            if isinstance(message, Reported):
                self._open_method = self._method
            self._is_clean = isinstance(message, Finished)
            self._tell(self._outcome(message))
        elif self.phase is Phase.STOPPING:
            self._on_stopped(message)
        elif isinstance(message, Reported):
            raise ProtocolError(f"call {message.number} has reported, but it is not running")
        elif self.phase is Phase.STARTING:
            self._on_made(message)
        elif self.phase is Phase.MOVING:
            self._on_reset(message)

    def _on_hello(self, message: Message) -> None:
        if not isinstance(message, Hello):
            raise ProtocolError(f"a driver does not expect {type(message).__name__}")
        self.pid = message.pid  # it may arrive before `on_started`
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
            self._reject_actor(reply.error.last_line())
        elif not (reply.payload and pickle.loads(reply.payload)):
            self._reject_actor("reset returned False")
        else:
            self._finish_move()

    def _finish_move(self) -> None:
        """The worker now runs the actor that it was handed over to."""
        self._set_timer(None)
        if self._first is not None:
            self.phase = Phase.BUSY
        else:
            self.phase = Phase.IDLE
            self._tell(self._started)

    def _on_stopped(self, reply: Reported | Returned | Finished | Raised) -> None:
        """The worker reads: it waits for Quit, or is parked by one."""
        if self._has_quit and self._parks:
            self._set_timer(None)
            self.phase = Phase.PARKED
            self._is_clean = isinstance(reply, Finished)
            self._tell(Exited(self.actor_id, "parked"))
        else:  # or it was stopped again, without `keep`
            self._quit()

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
        """Set the time limit of this phase, which replaces the previous one; None sets no limit."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None if delay_s is None or callback is None else self._loop.call_later(delay_s, callback)


def describe_exit(exit_code: int | None) -> str:
    """Return an exit status in words, such as `exit code 3` or `SIGKILL (9)`."""
    if exit_code is None:
        return "exit status unknown"
    if exit_code >= 0:
        return f"exit code {exit_code}"
    try:
        return f"{signal.Signals(-exit_code).name} ({-exit_code})"
    except ValueError:
        return f"signal {-exit_code}"


def last_lines(place: Place, limit: int = LAST_LINES) -> str:
    """Return the end of the output in a place, standard error last; at most `limit` lines.

    Our own frames are left out of a dumped stack.
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
    needed: Sequence[str] = (),
    ahead: ZygoteProcess | None = None,
) -> Launcher:
    """Return the launcher for this machine.

    Args:
        loop: The driver's loop.
        run_id: Identifies the driver's workers; 16 hexadecimal digits.
        keep_descendants: Whether the descendants of a worker may stay after the worker's normal end.
        needed: Modules that all workers need: a zygote imports them once for the workers that it forks.
        ahead: The first zygote, if it was started already; the launcher closes it.

    Raises:
        ValueError: See `start_method`.
    """
    method = start_method()
    logging.getLogger("minitune").debug("workers are started by the %s method", method)
    if method == "zygote":
        from minitune.actor.zygote_launcher import ZygoteLauncher

        return ZygoteLauncher(loop, run_id, keep_descendants, needed, ahead)
    from minitune.actor.interpreter_launcher import InterpreterLauncher

    return InterpreterLauncher(loop, run_id, keep_descendants)
