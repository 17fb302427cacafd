"""RemoteActor: an actor as the driver sees it: its calls, its stop, and its events.

Each phase that waits for the worker has a time limit, except while user code runs.
"""

from __future__ import annotations

import pickle
import signal
from collections.abc import Callable, Iterator
from enum import Enum
from typing import Any

from minitune.actor.launcher import End
from minitune.actor.messages import (
    DUMP_LINES,
    DUMP_TO_TERM_S,
    INTERRUPTED_EXIT,
    LAST_LINES,
    NO_THREAD_EXIT,
    SHOW_S,
    STOP_SWALLOWED_EXIT,
    TERM_TO_KILL_S,
    Answer,
    Boot,
    Call,
    CallRaised,
    CallReturned,
    Event,
    Exited,
    Finished,
    Move,
    NotReset,
    ProtocolError,
    Quit,
    Raised,
    Reported,
    Returned,
    Show,
    Started,
    Stop,
    Workplace,
    encode,
    go_on,
)
from minitune.actor.process import CHANNEL_CLOSED, ProcessPhase, WorkerProcess, describe_exit, last_lines
from minitune.base.process_limits import with_limits
from minitune.error import STOP_SWALLOWED, RemoteError

RAISED_IN_OUR_CODE = (
    "an exception came up in minitune's own code of the worker: a signal handler of the trial has raised it there; its "
    "traceback is in the trial's stderr"
)


class ActorPhase(Enum):
    """The phases of an actor. `TRANSITIONS` has the ways between them."""

    __hash__ = object.__hash__  # the hash of Enum is written in Python and slow, and phases are dict keys

    MAKING = "starting"  # its object is being made
    TAKEN = "taken"  # it has got a parked process; the move is sent with its first call
    MOVING = "moving"  # the worker cleans up for it and resets the object
    IDLE = "idle"  # no call is running; or the making of the object has failed
    CLEAN = "clean"  # no call is running, and the process can be parked without a message: a reset will succeed
    BUSY = "busy"
    STOPPING = "stopping"  # Stop was sent; Quit is the answer to the worker's next message
    STOPPING_TO_PARK = "stopping to be parked"  # the same, but the process shall stay
    QUITTING = "quitting"  # Quit was sent; the process exits
    PARKING = "parking"  # Quit was sent, but the process shall stay
    PARKED = "parked"  # the actor has ended, and its process waits for another one
    PARKED_CLEAN = "parked clean"  # the same, and it was CLEAN
    ENDED = "ended"  # its process has ended, or runs another actor


KEEP = "stop, and keep the process"
"""The event of a stop after which the process is parked; any other one is `Stop`."""

_P = ActorPhase
_Row = dict[type | str, ActorPhase]
_END: _Row = {End: _P.ENDED}
_QUITS: _Row = dict.fromkeys(Answer, _P.QUITTING)
_PARKS: _Row = dict.fromkeys(Answer, _P.PARKING)

# CLEAN, TAKEN and PARKED_CLEAN save a reused trial two messages and their answers. That is a tenth of the driver's
# calls and a quarter of its system calls for such a trial (`benchmarks/counts.py`).
TRANSITIONS: dict[ActorPhase, _Row] = {
    _P.MAKING: {
        Move: _P.TAKEN,
        Returned: _P.IDLE,
        Raised: _P.IDLE,
        Stop: _P.STOPPING,
        KEEP: _P.STOPPING,
        **_END,
    },
    _P.TAKEN: {Call: _P.MOVING, Move: _P.MOVING, Stop: _P.QUITTING, KEEP: _P.PARKED_CLEAN, **_END},
    _P.MOVING: {
        Returned: _P.IDLE,
        Raised: _P.IDLE,
        Stop: _P.STOPPING,
        KEEP: _P.STOPPING,
        **_END,
    },
    _P.IDLE: {Call: _P.BUSY, Stop: _P.QUITTING, KEEP: _P.PARKING, **_END},
    _P.CLEAN: {Call: _P.BUSY, Stop: _P.QUITTING, KEEP: _P.PARKED_CLEAN, **_END},
    _P.BUSY: {
        Reported: _P.IDLE,
        Returned: _P.IDLE,
        Finished: _P.CLEAN,
        Raised: _P.IDLE,
        Stop: _P.STOPPING,
        KEEP: _P.STOPPING_TO_PARK,
        **_END,
    },
    _P.STOPPING: {**_QUITS, Stop: _P.STOPPING, KEEP: _P.STOPPING, **_END},
    _P.STOPPING_TO_PARK: {**_PARKS, Stop: _P.STOPPING, KEEP: _P.STOPPING_TO_PARK, **_END},
    _P.QUITTING: {Stop: _P.QUITTING, KEEP: _P.QUITTING, **_END},
    _P.PARKING: {Returned: _P.PARKED, Finished: _P.PARKED_CLEAN, Stop: _P.STOPPING, KEEP: _P.PARKING, **_END},
    _P.PARKED: {Move: _P.ENDED, Stop: _P.QUITTING, KEEP: _P.QUITTING, **_END},
    _P.PARKED_CLEAN: {Move: _P.ENDED, Stop: _P.QUITTING, KEEP: _P.QUITTING, **_END},
    _P.ENDED: {**_END},
}
"""For each phase, what may happen (a message, a stop, the end of the process), and the phase that follows."""

# The phases in which user code may run, without a report that waits for an answer.
_RUNS = frozenset({_P.MAKING, _P.MOVING, _P.BUSY})
_STOPPED = frozenset({_P.STOPPING, _P.STOPPING_TO_PARK, _P.QUITTING, _P.PARKING, _P.PARKED, _P.PARKED_CLEAN})


class RemoteActor:
    """One actor.

    Args:
        started: The event to report once its object is there; the process is filled in.
        tell: Gets the events. The end of a parked process is told as an Exited of its last actor.
    """

    def __init__(
        self, process: WorkerProcess, started: Started, workplace: Workplace, tell: Callable[[Event | NotReset], object]
    ):
        self.actor_id = started.actor_id
        self.process = process
        self.phase = ActorPhase.MAKING
        self._started: Started | None = started  # until it is told
        self._workplace = workplace
        self._tell = tell
        self._attempt = 0  # the number of the message that has begun this actor
        self._move: Move  # given by `take_over`, like the next one
        self._reset_s: float
        self._method = ""  # the method that was called last
        self._open_method = ""  # the method that has reported and waits for an answer
        self._shows_stacks = False  # whether the worker was told to write them, so that they are its last lines

    # -- methods for the executor --------------------------------------------------------------------------------

    def start(self, boot: Boot, preload: bool = True) -> None:
        """Start the process. Started, CallRaised or Exited follows. ValueError: the factory is too large. OSError: no
        descriptor is free.
        """
        self.process.start(self, encode(boot), preload)

    def take_over(self, payload: bytes, timeout_s: float) -> Started | None:
        """Use a parked process within `timeout_s` seconds. Started follows; or NotReset, and the process is killed.

        The worker restores everything, takes the new workplace, and calls `reset` of its object.

        Returns:
            Started if the worker is clean. Then all this is sent with the first call, and a failure is one of that
            call, or the loss of the worker.
        """
        process = self.process
        last = process.actor
        if not isinstance(last, RemoteActor) or last.phase not in (ActorPhase.PARKED, ActorPhase.PARKED_CLEAN):
            raise RuntimeError(f"the process that actor {self.actor_id!r} should take over is not parked")
        is_clean = last.phase is ActorPhase.PARKED_CLEAN
        last.phase = TRANSITIONS[last.phase][Move]
        self.phase = TRANSITIONS[self.phase][Move]
        process.actor = self
        process.work.handle = self.on_message
        self._attempt = process.number + 1
        self._move = Move(self._attempt, self._workplace, payload)
        self._reset_s = timeout_s
        if not is_clean:
            self.phase = TRANSITIONS[self.phase][Move]
            self._send_move()
            return None
        started = self._started
        self._started = None
        assert started is not None
        return started._replace(pid=process.pid, reused=True)

    def call(self, method: str, payload: bytes = b"") -> None:
        """Send a call. CallReturned, CallRaised or Exited follows.

        The method runs on the worker's main thread. One that has reported and waits continues if it is called again;
        another one is called within it. RuntimeError: another call is running or the actor has ended; ValueError: the
        arguments are too large.
        """
        process = self.process
        after = TRANSITIONS[self.phase].get(Call)
        if after is ActorPhase.BUSY:
            # The number is kept only once the message was made: one that is too long changes nothing.
            number = process.number + 1
            if method == self._open_method:  # the method that waits for an answer continues
                self._open_method = ""
                process.work.send(go_on(number))
            else:
                process.work.send(*encode(Call(number, method, payload)))
            process.number = number
            self._method = method
            self.phase = after
        elif after is not None:  # one write carries move and call: the worker wakes up once
            self._method = method
            self._send_move(Call(self._attempt + 1, method, payload))
            self.phase = after
        elif self.phase in _STOPPED or process.phase in (ProcessPhase.STARTING, ProcessPhase.RUNNING):
            raise RuntimeError(f"actor {self.actor_id!r} cannot be called while it is {self.phase.value}")
        # otherwise the process is dead, and the caller has seen only the last reply so far

    def stop(self, grace_s: float, keep: bool = False, dump: bool = False) -> Exited | None:
        """Stop the actor: only Exited follows. A second stop may shorten the grace period.

        The object's `stop()` is called after the running call, unless it is parked.

        Args:
            grace_s: Seconds until its stacks are dumped and it gets SIGTERM; one second later its tree is killed.
            keep: Park the process, if the running call ends in time and nothing of it still runs.
            dump: Write the stacks of its threads at once.

        Returns:
            Exited if the process is clean and was parked at once.
        """
        before = self.phase
        if self.process.phase in (ProcessPhase.KILLED, ProcessPhase.ENDED):
            return None
        after = TRANSITIONS[before][KEEP if keep else Stop]
        self.phase = after
        if after is ActorPhase.PARKED_CLEAN:  # nothing needs to be sent
            return Exited(self.actor_id, "parked")
        if dump:
            self._show()
        # At a second stop, the message was sent: only the grace period changes, and whether the process stays.
        if before in _RUNS or self._open_method:
            self._open_method = ""
            self.process.tell(encode(Stop(self._attempt)))
        if after is not before and after in (ActorPhase.QUITTING, ActorPhase.PARKING):
            self._send_quit()
        self.process.limit.set(grace_s, lambda: self.process.limit.follow(self._enforce_stop(grace_s)))
        return None

    def _send_quit(self) -> None:
        process = self.process
        process.number += 1
        parks = self.phase is ActorPhase.PARKING
        process.work.send(*encode(Quit(process.number, parks)))
        if not parks:
            process.work.stop_reading()  # the worker only exits, so the end of its pipe is no news

    def _enforce_stop(self, grace_s: float) -> Iterator[float]:
        """What follows if the actor does not stop within the grace period."""
        if grace_s > 0:
            if not self._shows_stacks:
                self._show()
                yield SHOW_S
            # A worker that holds the interpreter's lock has not read the message. One that has read it ignores this.
            self.process.signal(signal.SIGUSR2, whole_group=False)
            yield DUMP_TO_TERM_S
        self.process.signal(signal.SIGTERM, whole_group=True)  # raises an exception in the worker's main thread
        yield TERM_TO_KILL_S
        self.process.kill(f"did not end within the grace period of {grace_s:g} s and was killed")

    def _show(self) -> None:
        self.process.tell(encode(Show()))
        self._shows_stacks = True

    # -- a hand-over -----------------------------------------------------------------------------------------------

    @property
    def _waits_for_start(self) -> bool:
        """Whether Started is not told yet. Of an actor that moves: otherwise its first call was sent with the move."""
        return self._started is not None

    def _send_move(self, *calls: Call) -> None:
        """Send the move to this actor, and its first call if there is one, in one piece."""
        process = self.process
        frames = encode(self._move)
        for call in calls:
            frames += encode(call)
        process.number = self._attempt + len(calls)
        process.work.send(b"".join(frames))
        process.limit.set(self._reset_s, self._on_slow_move)

    def _on_slow_move(self) -> None:
        if self._waits_for_start:
            self._reject("it took too long")
        else:
            self.process.kill(f"its worker was not ready for it within {self._reset_s:g} s")

    def _on_moved(self, reply: Any) -> None:
        self.process.limit.clear()
        if not self._waits_for_start:
            if isinstance(reply, Raised):
                self._tell(CallRaised(self.actor_id, reply.error))
            else:
                self.phase = TRANSITIONS[self.phase][Call]
        elif isinstance(reply, Raised):
            self._reject(reply.error.last_line())
        elif not (reply.payload and pickle.loads(reply.payload)):
            self._reject("reset returned False")
        else:
            self._tell_started()

    def _reject(self, reason: str) -> None:
        """The process cannot run this actor: report that, and kill it."""
        # First of all: the end of the process must not be told as the end of this actor.
        self.phase = ActorPhase.ENDED
        self._tell(NotReset(self.actor_id, reason))
        self.process.kill()

    def _tell_started(self) -> None:
        if self._started is not None:
            self._tell(self._started._replace(pid=self.process.pid, reused=self._attempt > 0))
            self._started = None

    # -- for the process -------------------------------------------------------------------------------------------

    def on_message(self, message: Any) -> None:
        """See `Occupant.on_message`."""
        phase = self.phase
        after = TRANSITIONS[phase].get(type(message))
        if after is None:
            raise ProtocolError(
                f"a driver does not expect {type(message).__name__} of an actor that is {phase.value}; the last method "
                f"that was called is {self._method!r}"
            )
        if message.number != self.process.number and not (
            phase is ActorPhase.MOVING and message.number == self._attempt
        ):
            if phase in _STOPPED and message.number == self._attempt:
                # Quit answers the later one, so that it is not taken for the answer to a call that still runs.
                return  # a stop has come between the answer to the move and that to the first call
            raise ProtocolError(f"call {message.number} was answered, but the last one was {self.process.number}")
        self.phase = after
        if phase is ActorPhase.BUSY:
            if type(message) is Reported:
                self._open_method = self._method
            event: Event = CallReturned(self.actor_id, None)
            if type(message) is Raised:
                event = CallRaised(self.actor_id, message.error)
            elif message.payload:
                try:
                    event = CallReturned(self.actor_id, pickle.loads(message.payload))
                except (Exception, SystemExit) as error:
                    event = CallRaised(self.actor_id, self._unloadable(error))
            self._tell(event)
        elif phase is ActorPhase.MAKING:
            self._on_made(message)
        elif phase is ActorPhase.MOVING:
            self._on_moved(message)
        elif phase is ActorPhase.PARKING:
            self._on_parked()
        else:  # it was told to stop
            self._send_quit()

    def _unloadable(self, error: BaseException) -> RemoteError:
        broken = TypeError(f"the value that actor {self.actor_id!r} returned cannot be loaded here: {error!r}")
        broken.__cause__ = error
        return RemoteError.of(broken)

    def _on_made(self, reply: Any) -> None:
        if isinstance(reply, Raised):
            self._tell(CallRaised(self.actor_id, reply.error))
        else:
            self._tell_started()

    def _on_parked(self) -> None:
        self.process.limit.clear()
        self._tell(Exited(self.actor_id, "parked"))

    def on_end(self, end: End) -> None:
        """See `Occupant.on_end`."""
        phase = self.phase
        self.phase = TRANSITIONS[phase][End]
        if phase is ActorPhase.ENDED:  # another process runs this actor
            return
        if phase is ActorPhase.MOVING and self._waits_for_start:
            self._tell(NotReset(self.actor_id, "it has died"))
            return
        if phase in (ActorPhase.TAKEN, ActorPhase.MOVING):  # nothing of the new trial has run
            end = end._replace(kind="lost", reason=self.process.cause or "its worker has died before it began")
        pid = end.pid or self.process.pid
        # Whether a worker that has not said Hello was ever forked is unknown, and none of the user's code has run.
        if not self.process.pid and (self.process.cause or (end.kind == "lost" and not pid)):
            end = end._replace(kind="refused")
        if end.exit_code == NO_THREAD_EXIT and phase is ActorPhase.MAKING:
            end = end._replace(kind="refused", reason=with_limits("its process could not start a thread"))
        is_stopped = phase in _STOPPED
        lines = ""
        if self._shows_stacks:
            lines = last_lines(self._workplace, DUMP_LINES)
        elif not (is_stopped and end.exit_code == 0):
            lines = last_lines(self._workplace, LAST_LINES)
        cause, number = self._explain(end, is_stopped)
        if end.survivors:
            cause = f"could not be killed, pid {pid}"
        self._tell(
            Exited(
                actor_id=self.actor_id,
                kind="stopped" if is_stopped else end.kind,
                cause=cause,
                exit_code=end.exit_code,
                signal=number,
                peak_bytes=end.peak_bytes,
                ended_s=end.ended_s,
                last_lines=lines,
                counts=end.kind == "died",
                pid=pid,
                survivors=end.survivors,
            )
        )

    def _explain(self, end: End, is_stopped: bool) -> tuple[str, int]:
        """The cause of the end in words, and the signal if nothing explains it."""
        killed_for = self.process.cause
        code = end.exit_code
        if killed_for == CHANNEL_CLOSED and code is not None and code > 0:
            killed_for = ""  # it was about to exit when it was killed
        if end.reason or killed_for:
            return end.reason or killed_for, 0
        if is_stopped and code == 0:
            return "stopped", 0
        if code == INTERRUPTED_EXIT:
            return RAISED_IN_OUR_CODE, 0
        if code == STOP_SWALLOWED_EXIT and is_stopped:
            return f"it was told to stop, but {STOP_SWALLOWED}", 0
        words = describe_exit(code)
        if code == -signal.SIGKILL and not is_stopped:
            evidence = self.process.memory_kills.claim()
            if evidence:
                return f"{words}, out of memory: {evidence}", 0
        return words, max(0, -(code or 0))
