"""Messages between driver and worker, the events that the driver makes of them, and all limits of this package.

Calls go in strict turns: one call, one answer, and `n` grows by one. A comment above the messages draws them.

A message is a tuple: first its number, last its payload. It travels as a frame: magic, kind, number, length of the head
(32 bit), length of head and payload (64 bit), then the head and the payload. The head holds the fields in between,
packed by `marshal`: both ends run the same Python. Pickled objects are opaque bytes, loaded only when they are used, so
a bad one can hurt only the process that loads it.

Limits in `_S` are seconds of the monotonic clock. They were chosen, not measured: shorter ones end what a busy machine
only delays, with longer ones people wait.
"""

from __future__ import annotations

import errno
import marshal
import struct
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from minitune.error import RemoteError

# Seconds from the request of a worker to its first message, before any user code. Then the zygote may be stuck.
ZYGOTE_HELLO_S = 30.0
# The same for a worker that is a new interpreter.
INTERPRETER_HELLO_S = 60.0
# Seconds for loading a file in the zygote. After that, each worker loads it itself, without a limit.
PRELOAD_S = 120.0
# Seconds for a worker to write the stacks of its threads; then a signal forces it.
SHOW_S = 0.1
# Seconds from that signal to SIGTERM: while the first signal is pending, another thread would get the second.
DUMP_TO_TERM_S = 0.02
# From the termination signal to the kill, when the grace period is over.
TERM_TO_KILL_S = 1.0
# Seconds from the kill until the whole tree must be dead; then the driver gives up and reports the survivors.
KILL_CONFIRM_S = 10.0
# Seconds that a zygote may take longer than that to report; then the driver does its work.
ZYGOTE_SILENCE_S = 1.0
# Seconds from end-of-file on the channel until the process is checked: a dying process closes its files first.
EOF_S = 0.25
# Seconds between two passes of a sweep.
SWEEP_TICK_S = 0.005
# Number of passes that must find nothing, where processes can be found only by their environment.
QUIET_PASSES = 2
# Seconds for a zygote to clean up and exit after its socket was closed.
CLOSE_S = 2.0
# Seconds between two checks that the driver lives, where the system does not report its end.
DRIVER_CHECK_S = 0.25
# The longest body of a message. Both ends check it.
MESSAGE_BYTES = 64 * 1024 * 1024
# Lines of a dead worker's output that go into its end event.
LAST_LINES = 30
# The same where its stacks were dumped.
DUMP_LINES = 100
# Number of bytes at the end of each output file in which these lines are searched.
LAST_LINES_BYTES = 8192
# Descriptor number of the worker's channels, above the range of `os.closerange(3, 1024)`, if the limit allows.
HIGH_DESCRIPTOR = 1100
# Added to a worker's score, so that the kernel kills a worker and never the driver if memory runs out.
OOM_SCORE = 500
# Exit code of a worker whose code has caught the exception of a stop and continued.
STOP_SWALLOWED_EXIT = 116
# Exit code of a worker in whose own code, between two calls of user code, an exception came up.
INTERRUPTED_EXIT = 117
# Exit code of a worker that could not start a thread before any user code ran.
NO_THREAD_EXIT = 114
# Exit code of a zygote that the system does not allow to fork.
FORBIDDEN_EXIT = 115
# Errors by which a system says that it never allows a call, such as a filter of system calls. Others may pass.
FORBIDDEN = (errno.EPERM, errno.EACCES, errno.ENOSYS)
# Environment variables that limit the threads of numerical libraries; all are 1 during a preload.
THREAD_CAPS = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "BLIS_NUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
)
# Keeps pyarrow, which pandas imports, from starting a thread during a preload, for a spare allocator.
NO_THREADS = {"JE_ARROW_MALLOC_CONF": "background_thread:false"}
_MAGIC = b"mT"
_HEADER = struct.Struct("!2sBIIQ")
HEADER_BYTES = _HEADER.size
# A frame that is no longer is sent in one piece. Not measured: more copies longer bodies, less makes two writes of one.
ATOMIC_BYTES = 64 * 1024


# -- over the channel --------------------------------------------------------------------------------------------------
#
#     driver                                                      worker
#       | Boot(workplace, factory, script) -->                      (may be sent before the worker lives)
#       | <-- Hello(pid)                                            before any user code
#       |                                                           obj = factory(host)
#       | <-- Returned(0) | Raised(0, error)
#       | Call(n, method, payload) -->                              obj.method(*args)
#       | <-- Returned(n, payload) | Raised(n, error)               the method has ended
#       | <-- Reported(n, payload)                                  or, while it goes on: a value, and a question
#       |     Call(n + 1, method, payload) -->                        any number of other calls, made within the first
#       |     <-- Returned(n + 1, payload) | Raised(n + 1, error)
#       | GoOn(n + k) -->                                           the answer: continue as call n + k
#       | <-- Returned(n + k, payload) | Raised(n + k, error)
#       |
#       | Quit(n) -->                                               obj.stop(); exit 0
#       | Quit(n, keep=True) -->                                    stay for another actor, or obj.stop(); exit 0
#       | <-- Returned(n) | Finished(n)                             parked
#       | <-- Finished(n, payload)                                  instead of Returned(n, payload): parked without Quit
#       | Move(n, workplace, payload) -->                           everything as it was at the start, then the new
#       |                                                           workplace, then obj.reset(*args)
#       | Call(n + 1, method, payload) -->                          sent with it if the worker was parked by Finished
#       | <-- Returned(n, payload) | Raised(n, error)               whether the object can be used again; if not, exit 0
#       |
#       | Stop(attempt) ==>                                         reports raise TrialStopped; Quit follows, see below
#       | Show() ==>                                                the stacks of all threads go to standard error
#       |     after the grace period: Show, SIGTERM; then the whole tree is killed
#       : process end (not end-of-file)  =>  read what was sent, wait for the whole tree, then Exited
#
# Single arrows stand for the work pipe, double arrows for the control pipe (see `worker`).


class Workplace(NamedTuple):
    """The surroundings of a worker. None as `directory`, `stdout` or `stderr` keeps the driver's; as a value of `env`
    it removes the variable.
    """

    directory: str | None = None
    stdout: str | None = None
    stderr: str | None = None
    env: Mapping[str, str | None] = MappingProxyType({})


class Boot(NamedTuple):
    """Driver to worker: the surroundings, and the object to make.

    Attributes:
        script: See `base.script.script_here`.
        is_reusable: Whether the worker may be parked, and sends Finished when a function has returned and nothing still
            runs.
        payload: Pickled callable, the factory: `factory(host, *args)` makes the object, with the `Worker` as `host`.
    """

    number: int
    workplace: Workplace
    script: tuple[Any, ...]
    is_reusable: bool
    args: bytes = b""
    payload: bytes = b""


class Move(NamedTuple):
    """Driver to a parked worker: clean up, take a new workplace, and call `reset` with these arguments."""

    number: int
    workplace: Workplace
    payload: bytes = b""


class Call(NamedTuple):
    """Driver to worker: call a method. The payload is the pickled tuple of arguments, empty if there are none."""

    number: int
    method: str
    payload: bytes = b""


class GoOn(NamedTuple):
    """Driver to worker: the call that has reported continues, under a new number."""

    number: int
    payload: bytes = b""


class Quit(NamedTuple):
    """Driver to worker: end the actor and exit; or, with `keep`, stay for another actor."""

    number: int
    keep: bool = False
    payload: bytes = b""


class Stop(NamedTuple):
    """Driver to worker, on the control pipe: the actor must end. It gets no answer.

    Attributes:
        number: The attempt, of the Boot or Move that has begun this actor. The worker ignores a Stop for another one,
            which came late.
    """

    number: int
    payload: bytes = b""


class Show(NamedTuple):
    """Driver to worker, on the control pipe: write the stacks of all threads to standard error. No answer."""

    number: int = 0
    payload: bytes = b""


class Hello(NamedTuple):
    """Worker to driver: the worker runs. Sent before any user code runs."""

    number: int
    pid: int
    payload: bytes = b""


class Returned(NamedTuple):
    """Worker to driver: the call has returned. An empty payload stands for None."""

    number: int
    payload: bytes = b""


class Finished(NamedTuple):
    """Worker to driver: the call has returned, and nothing that it has started still runs. The worker may be parked:
    the `reset` of its object runs no user code, so it fails only if the process is broken.
    """

    number: int
    payload: bytes = b""


class Reported(NamedTuple):
    """Worker to driver: the running call reports this value and waits for an answer."""

    number: int
    payload: bytes


class Raised(NamedTuple):
    """Worker to driver: the call has raised; the worker still runs. See `RemoteError`."""

    number: int
    type_name: str
    message: str
    traceback: str
    payload: bytes = b""

    @classmethod
    def of(cls, number: int, error: RemoteError) -> Raised:
        """Make the message, whose texts are plain ones, also of a subclass of `str`."""
        plain = "".join
        return cls(number, plain(error.type_name), plain(error.message), plain(error.traceback), error.pickled or b"")

    @property
    def error(self) -> RemoteError:
        """The exception."""
        return RemoteError(self.type_name, self.message, self.traceback, self.payload or None)


Message = Boot | Move | Call | GoOn | Quit | Stop | Show | Hello | Returned | Finished | Reported | Raised
# The messages of a worker that answer a call.
Answer = (Reported, Returned, Finished, Raised)


# -- events ------------------------------------------------------------------------------------------------------------
class Started(NamedTuple):
    """The actor's object was made, and its methods can be called."""

    actor_id: str
    pid: int
    host: str
    allocation: Any
    reused: bool = False


class CallReturned(NamedTuple):
    """The running call has returned `value`."""

    actor_id: str
    value: Any


class CallRaised(NamedTuple):
    """The running call, or the making of the object, has raised `error`."""

    actor_id: str
    error: RemoteError


class Exited(NamedTuple):
    """The actor and everything that it had started have ended. It is the last event of an actor.

    Attributes:
        kind: `"stopped"`, or `"parked"` for reuse, if the driver stopped it; `"died"` if it ended by itself; `"lost"`
            if its parent process failed; `"refused"` if it could not be started.
        cause: In words, such as `exit code 3` or `SIGKILL (9)`.
        exit_code: As in `subprocess`.
        signal: What has ended it, if minitune has not sent it and knows no reason.
        peak_bytes: Peak resident memory.
        ended_s: Its death, in seconds since the epoch; 0 if unknown.
        last_lines: The end of its output, if it ended in error.
        counts: False if the actor is not at fault (loss of zygote or node, no process).
        pid: Its process; 0 if unknown.
        survivors: Whether some process of its tree may have survived.
    """

    actor_id: str
    kind: str
    cause: str = ""
    exit_code: int | None = None
    signal: int = 0
    peak_bytes: int = 0
    ended_s: float = 0.0
    last_lines: str = ""
    counts: bool = True
    pid: int = 0
    survivors: bool = False


class Placed(NamedTuple):
    """The actor has the resources for which it waited in an executor's queue."""

    actor_id: str


Event = Placed | Started | CallReturned | CallRaised | Exited


class NotReset(NamedTuple):
    """A parked process cannot run this actor, and is killed. The executor uses another one, without an event for
    callers.
    """

    actor_id: str
    reason: str


# -- frames ------------------------------------------------------------------------------------------------------------
class ProtocolError(Exception):
    """The bytes that arrived are not a frame of ours: wrong magic, length, kind or order."""


# The kinds of messages by number.
_MESSAGES: tuple[Any, ...] = (Boot, Move, Call, Quit, Hello, Returned, Raised, Show, Stop, Reported, GoOn, Finished)
_KINDS = {message: kind for kind, message in enumerate(_MESSAGES)}
# The first so many kinds begin with a workplace.
_PLACED = 2
_LENGTHS = [len(message._fields) for message in _MESSAGES]
_GO_ON = _KINDS[GoOn]


def encode(message: Message) -> list[bytes]:
    """Make the frame of a message, in two parts if it is long, without a copy of a large payload. ValueError: longer
    than `MESSAGE_BYTES`.
    """
    kind = _KINDS[type(message)]
    number: int
    fields: list[Any]
    number, *fields, payload = message
    if kind < _PLACED:  # `marshal` takes no objects of subclasses
        fields[0] = (*fields[0][:-1], dict(fields[0].env))
    head = marshal.dumps(fields) if fields else b""
    length = len(head) + len(payload)
    if length > MESSAGE_BYTES:
        raise ValueError(
            f"a message must not be longer than {MESSAGE_BYTES} bytes, but this one has {length}: "
            "write large data to a file, such as a checkpoint, and send its path"
        )
    first = _HEADER.pack(_MAGIC, kind, number, len(head), length) + head
    if not payload or HEADER_BYTES + length <= ATOMIC_BYTES:
        return [first + payload]
    return [first, payload]


def go_on(number: int) -> bytes:
    """Return the frame of `GoOn(number)`, by far the most frequent message of a driver."""
    return _HEADER.pack(_MAGIC, _GO_ON, number, 0, 0)


class FrameReader:
    """Assembles frames from pieces of any size.

    A body longer than `MESSAGE_BYTES` is refused before memory is allocated.
    """

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._needed = HEADER_BYTES

    def feed(self, data: bytes, handle: Callable[[Any], object]) -> None:
        """Add `data` and handle the messages that it completes.

        Raises:
            ProtocolError: At the first bad frame, after the good ones before it were handled.
        """
        whole: bytes | memoryview = data
        if self._buffer:
            self._buffer += data
            if len(self._buffer) < self._needed:
                return
            whole = memoryview(self._buffer)
            self._buffer = bytearray()
        start = 0
        needed = HEADER_BYTES
        size = len(whole)
        while start + needed <= size:
            magic, kind, number, head_bytes, length = _HEADER.unpack_from(whole, start)
            if magic != _MAGIC:
                raise ProtocolError(f"a frame begins with {magic!r} instead of {_MAGIC!r}")
            # Before the body arrives: a broken length would make this process wait for gigabytes.
            if length > MESSAGE_BYTES:
                raise ProtocolError(f"a body of {length} bytes is announced; the limit is {MESSAGE_BYTES}")
            needed = HEADER_BYTES + length
            end = start + needed
            if end > size:
                break
            body = bytes(whole[start + HEADER_BYTES : end])
            start = end
            needed = HEADER_BYTES
            if kind >= len(_MESSAGES):
                raise ProtocolError(f"no message has the kind {kind}")
            fields: Sequence[Any] = ()
            if head_bytes:
                try:
                    fields = marshal.loads(body)
                    if kind < _PLACED:
                        fields = [Workplace(*fields[0]), *fields[1:]]
                except (ValueError, TypeError, EOFError) as error:
                    raise ProtocolError(f"a message of kind {kind} cannot be read: {error}") from error
                body = body[head_bytes:]
            values = (number, *fields, body)
            if len(values) != _LENGTHS[kind]:
                raise ProtocolError(f"a message of kind {kind} has {len(values)} fields")
            handle(tuple.__new__(_MESSAGES[kind], values))  # its own `__new__` is slower
        if start < size:
            self._buffer += whole[start:]
        self._needed = needed
