"""Messages between driver and worker, and the events that the driver's side makes of them.

::

    driver                                                      worker
      | Boot(place, factory, sys_path, argv) -->                  (may be sent before the worker lives)
      | <-- Hello(pid)                                            before any user code
      |                                                           obj = factory(host)
      | <-- Returned(0) | Raised(0, error)
      | Call(n, method, payload) -->                              obj.method(*args)
      | <-- Returned(n, payload) | Raised(n, error)               the method has ended
      | <-- Reported(n, payload)                                  or, while it goes on: a value, and a question
      |     Call(n + 1, method, payload) -->                        any number of other calls, made within the first
      |     <-- Returned(n + 1, payload) | Raised(n + 1, error)
      | GoOn(n + k) -->                                           the answer: continue as call n + k
      | <-- Returned(n + k, payload) | Raised(n + k, error)
      |
      | Quit(n) -->                                               obj.stop(); exit 0
      | Quit(n, keep=True) -->                                    stay for another actor, or obj.stop(); exit 0
      | <-- Returned(n) | Finished(n)                             parked
      | <-- Finished(n, payload)                                  instead of Returned(n, payload): parked without Quit
      | Move(n, place, payload) -->                               everything as it was at the start, then the new place,
      |                                                           then obj.reset(*args)
      | Call(n + 1, method, payload) -->                          sent with it if the worker was parked by Finished
      | <-- Returned(n, payload) | Raised(n, error)               whether the object can be used again; if not, exit 0
      |
      | Stop(attempt) ==>                                         reports raise TrialStopped; Quit follows, see below
      | Show() ==>                                                the stacks of all threads go to standard error
      |     after the grace period: Show, SIGTERM; then the whole tree is killed
      : process end (not end-of-file)  =>  read what was sent, wait for the whole tree, then Exited

Single arrows stand for the work pipe, double arrows for the control pipe (see `worker`). Calls go in strict turns: one
call, one answer, and `n` grows by one. A stop is a Stop on the control pipe, and a Quit on the work pipe as soon as the
worker reads there: at once if no call is running, otherwise as the answer to the running call's next message. So no
read of the worker waits for ever.

A message travels as a frame: magic, version, kind, call number, length (64 bit), CRC32 of all that and of the body,
then the body. All parts are plain data. Pickled objects are opaque bytes, and are loaded only when they are used, so a
bad object can hurt only the process that loads it.

All limits on times and sizes of this package stand here, too. Seconds end in `_S` and are read from the monotonic
clock, bytes end in `_BYTES`. Only tests change them.
"""

from __future__ import annotations

import errno
import struct
import zlib
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from minitune.base.json_text import json_chunks, json_decoder
from minitune.error import RemoteError

_to_json = json_chunks(separators=(",", ":"))
_from_json = json_decoder()
_COUNT = struct.Struct("!I")
_NONE = 0xFFFFFFFF
ZYGOTE_HELLO_S = 30.0
"""Seconds from the fork to the worker's first message, before any user code."""
INTERPRETER_HELLO_S = 60.0
"""The same for a worker that is a new interpreter."""
PRELOAD_S = 120.0
"""Seconds for loading a file in the zygote. After that, each worker loads it itself, without a limit."""
SHOW_S = 0.1
"""Seconds for a worker to write the stacks of its threads; then a signal forces it."""
DUMP_TO_TERM_S = 0.02
"""Seconds from that signal to SIGTERM: while the first signal is pending, another thread would get the second."""
SHORT_LIFE_S = 1.0
"""If workers live less long than this, new ones are needed so often that one is kept ready."""
TERM_TO_KILL_S = 1.0
"""From the termination signal to the kill, when the grace period is over."""
KILL_CONFIRM_S = 10.0
"""Seconds from the kill until the whole tree must be dead; then the driver gives up and reports the survivors."""
EXIT_STATUS_S = 1.0
"""Seconds from a death to its exit status; then the status counts as unknown."""
EOF_S = 0.25
"""Seconds from end-of-file on the channel until the process is checked: a dying process closes its files first."""
SWEEP_TICK_S = 0.005
"""Seconds between two passes of a sweep."""
QUIET_PASSES = 2
"""Number of passes that must find nothing, where processes can be found only by their environment."""
UNKNOWN_PASSES = 10
"""Passes for which a zygote waits for an orphan to show its marker. One that has cleared its environment never does."""
CLOSE_S = 2.0
"""Seconds for a zygote to clean up and exit after its socket was closed."""
DRIVER_CHECK_S = 0.25
"""Seconds between two checks that the driver lives, where the system does not report its end."""
MESSAGE_BYTES = 64 * 1024 * 1024
"""The longest body of a message. Both ends check it."""
LAST_LINES = 20
"""Lines of a dead worker's output that go into its end event."""
DUMP_LINES = 100
"""The same where its stacks were dumped."""
LAST_LINES_BYTES = 8192
"""Number of bytes at the end of each output file in which these lines are searched."""
HIGH_DESCRIPTOR = 1100
"""Descriptor number of the worker's channels, above the range of `os.closerange(3, 1024)`, if the limit allows."""
OOM_SCORE = 500
"""Added to a worker's score, so that the kernel kills a worker and never the driver if memory runs out."""
CHANNEL_LOST_EXIT = 113
"""Exit code of a worker whose channel was closed by the user's code."""
STOP_SWALLOWED_EXIT = 116
"""Exit code of a worker whose code has caught the exception of a stop and continued."""
INTERRUPTED_EXIT = 117
"""Exit code of a worker in whose own code, between two calls of user code, an exception came up."""
NO_THREAD_EXIT = 114
"""Exit code of a worker that could not start a thread before any user code ran."""
FORBIDDEN_EXIT = 115
"""Exit code of a zygote that the system does not allow to fork."""
FORBIDDEN = (errno.EPERM, errno.EACCES, errno.ENOSYS)
"""Errors by which a system says that it never allows a call, such as a filter of system calls. Others may pass."""
THREAD_CAPS = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "BLIS_NUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
)
"""Environment variables that limit the threads of numerical libraries; all are 1 during a preload."""
NO_THREADS = {"JE_ARROW_MALLOC_CONF": "background_thread:false"}
"""Keeps pyarrow, which pandas imports, from starting a thread during a preload, for a spare allocator."""
_MAGIC = b"mT"
_VERSION = 1
_HEAD = struct.Struct("!2sBBIQ")
_CRC = struct.Struct("!I")
_HEADER = struct.Struct(_HEAD.format + _CRC.format[1:])
_SIZE = struct.Struct("!I")
HEADER_BYTES = _HEADER.size
ATOMIC_BYTES = 64 * 1024
"""A frame that is no longer is sent in one piece."""
_Body = tuple[bytes, bytes]
"""A small first part, and the payload behind it, which may be large."""


# -- over the channel --------------------------------------------------------------------------------------------------
class Place(NamedTuple):
    """The surroundings of a worker.

    Attributes:
        directory: Working directory; None keeps the driver's.
        stdout: File that standard output is appended to; None keeps the driver's.
        stderr: The same for standard error; it may be the same file.
        env: Environment variables to set, or to remove if the value is None.
    """

    directory: str | None = None
    stdout: str | None = None
    stderr: str | None = None
    env: Mapping[str, str | None] = MappingProxyType({})


class Boot(NamedTuple):
    """Driver to worker: the surroundings, and the object to make.

    Attributes:
        place: The worker's surroundings.
        factory: Pickled callable: `factory(host)` makes the object. `host` is the `Worker`.
        sys_path: The driver's `sys.path`, absolute.
        argv: The driver's `sys.argv`.
        is_reusable: Whether the worker may be parked. If so, it sends Finished when a function has returned and has
            left nothing that still runs.
    """

    place: Place
    factory: bytes
    sys_path: tuple[str, ...]
    argv: tuple[str, ...]
    is_reusable: bool = False


class Call(NamedTuple):
    """Driver to worker: call a method. The payload is the pickled tuple of arguments, empty if there are none."""

    number: int
    method: str
    payload: bytes = b""


class Quit(NamedTuple):
    """Driver to worker: end the actor and exit; or, with `keep`, stay for another actor."""

    number: int
    keep: bool = False


class Stop(NamedTuple):
    """Driver to worker, on the control pipe: the actor must end. The worker does not answer.

    Attributes:
        number: The attempt: the number of the Boot or Move that has begun this actor. The worker ignores a Stop for
            another one: it came late, and the worker has been handed on.
    """

    number: int


class Show(NamedTuple):
    """Driver to worker, on the control pipe: write the stacks of all threads to standard error. No answer."""


class Move(NamedTuple):
    """Driver to a parked worker: clean up, take a new place, and call `reset` with these arguments."""

    number: int
    place: Place
    payload: bytes = b""


class GoOn(NamedTuple):
    """Driver to worker: the call that has reported continues, under a new number."""

    number: int


class Hello(NamedTuple):
    """Worker to driver: the worker runs. Sent before any user code runs."""

    pid: int


class Returned(NamedTuple):
    """Worker to driver: the call has returned. An empty payload stands for None."""

    number: int
    payload: bytes = b""


class Finished(NamedTuple):
    """Worker to driver: the call has returned, and nothing that it has started still runs. The worker may be parked.

    The `reset` of its object runs no user code, so it succeeds unless the process is broken.
    """

    number: int
    payload: bytes = b""


class Reported(NamedTuple):
    """Worker to driver: the running call reports this value and waits for an answer."""

    number: int
    payload: bytes


class Raised(NamedTuple):
    """Worker to driver: the call has raised; the worker still runs."""

    number: int
    error: RemoteError


Message = Boot | Call | GoOn | Quit | Stop | Show | Move | Hello | Returned | Finished | Reported | Raised


# -- events ------------------------------------------------------------------------------------------------------------
class Started(NamedTuple):
    """The actor's object was made, and its methods can be called.

    Attributes:
        actor_id: The actor.
        pid: Its process; the driver's own if the executor has no processes.
        host: Name of the machine.
        allocation: Its resources: an `Allocation`, which this package does not look into.
        reused: True if a parked actor was taken.
    """

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
    """The running call, or the making of the object, has raised `error`. The actor still lives."""

    actor_id: str
    error: RemoteError


class Exited(NamedTuple):
    """The actor and everything that it had started have ended. Always the last event of an actor.

    Attributes:
        actor_id: The actor.
        kind: `"stopped"` if the driver stopped it, `"parked"` if the driver stopped it and keeps it for reuse, `"died"`
            if it ended by itself, `"lost"` if its parent process failed while it ran, `"refused"` if its process could
            not be started.
        cause: In words, such as `exit code 3` or `SIGKILL (9)`.
        exit_code: As in `subprocess`: negative for a signal; None if unknown.
        peak_bytes: Peak resident memory of the process, 0 if unknown.
        last_lines: The end of its output, if it ended in error.
        counts: False if the actor is not at fault (loss of the zygote or node, no process could be started).
        pid: Its process, also if it ended before `Started`; 0 if unknown.
        survivors: True if some process of its tree may have survived the kill.
    """

    actor_id: str
    kind: str
    cause: str = ""
    exit_code: int | None = None
    peak_bytes: int = 0
    last_lines: str = ""
    counts: bool = True
    pid: int = 0
    survivors: bool = False


class Placed(NamedTuple):
    """The actor has its resources now, after it has waited for them. Only for executors with a queue."""

    actor_id: str


Event = Placed | Started | CallReturned | CallRaised | Exited


class NotReset(NamedTuple):
    """A parked process cannot run this actor, and is killed. No event for callers: the executor uses another process.

    Attributes:
        actor_id: The actor.
        reason: Why.
        is_told: Whether Started was reported: the next process must not report it again.
        call: The method and the pickled arguments of the running call, if there is one: the next process has to answer
            it.
    """

    actor_id: str
    reason: str
    is_told: bool
    call: tuple[str, bytes] | None


# -- fields ------------------------------------------------------------------------------------------------------------
class ProtocolError(Exception):
    """The bytes that arrived are not a frame of ours: wrong magic, version, checksum, length, kind or order."""


def join_fields(fields: Sequence[str | bytes | None]) -> bytes:
    """Pack texts and bytes into one bytes object, without pickle.

    Args:
        fields: At most 2**32 - 2 bytes each. Lone surrogates in texts are kept.

    Returns:
        Bytes that `split_fields` unpacks.
    """
    parts = [_COUNT.pack(len(fields))]
    for value in fields:
        data = value.encode("utf-8", "surrogatepass") if isinstance(value, str) else value
        parts.append(_COUNT.pack(_NONE if data is None else len(data)))
        if data is not None:
            parts.append(data)
    return b"".join(parts)


def split_fields(data: bytes) -> list[bytes | None]:
    """Unpack the result of `join_fields`.

    Raises:
        ProtocolError: If `data` is not such a result.
    """
    try:
        (count,) = _COUNT.unpack_from(data)
        position = _COUNT.size
        fields: list[bytes | None] = []
        for _ in range(count):
            (length,) = _COUNT.unpack_from(data, position)
            position += _COUNT.size
            if length == _NONE:
                fields.append(None)
                continue
            if position + length > len(data):
                raise ProtocolError(f"a field of {length} bytes does not fit into a body of {len(data)}")
            fields.append(data[position : position + length])
            position += length
    except struct.error:
        raise ProtocolError(f"a body of {len(data)} bytes ends within a field") from None
    return fields


def as_text(value: bytes | None) -> str:
    """Return a field as text; empty if it is None."""
    return (value or b"").decode("utf-8", "surrogatepass")


# -- bodies ------------------------------------------------------------------------------------------------------------
def _with_size(head: bytes, payload: bytes) -> _Body:
    return _SIZE.pack(len(head)) + head, payload


def _with_head(head: Any, payload: bytes) -> _Body:
    """Make a body with a head of texts, numbers and None, nested or not. No safe format is faster than JSON."""
    return _with_size("".join(_to_json(head, 0)).encode("ascii"), payload)


def _plain(place: Place) -> Place:
    return place._replace(env=dict(place.env))


def _split_size(body: bytes) -> tuple[bytes, bytes]:
    """Unpack the result of `_with_size`."""
    if len(body) < _SIZE.size:
        raise ProtocolError(f"a body of {len(body)} bytes is too short to say where its payload begins")
    start = _SIZE.size + _SIZE.unpack_from(body)[0]
    if start > len(body):
        raise ProtocolError(f"a payload that begins at {start} does not fit into a body of {len(body)} bytes")
    return body[_SIZE.size : start], body[start:]


def _from_call(call: Call) -> _Body:
    return _with_size(call.method.encode("utf-8", "surrogatepass"), call.payload)


def _to_call(number: int, body: bytes) -> Call:
    method, payload = _split_size(body)
    return Call(number, as_text(method), payload)


def _from_boot(boot: Boot) -> _Body:
    head = _plain(boot.place), boot.sys_path, boot.argv, boot.is_reusable
    return _with_head(head, boot.factory)


def _to_boot(number: int, body: bytes) -> Boot:
    head, factory = _split_size(body)
    place, sys_path, argv, is_reusable = _from_json(head.decode("ascii"))
    return Boot(Place(*place), factory, tuple(sys_path), tuple(argv), is_reusable)


def _to_move(number: int, body: bytes) -> Move:
    head, payload = _split_size(body)
    return Move(number, Place(*_from_json(head.decode("ascii"))), payload)


def _from_error(message: Raised) -> _Body:
    error = message.error
    return join_fields([error.type_name, error.message, error.traceback, error.pickled]), b""


def _to_error(number: int, body: bytes) -> Raised:
    type_name, text, traceback, pickled = split_fields(body)
    return Raised(number, RemoteError(as_text(type_name), as_text(text), as_text(traceback), pickled))


_KINDS: list[tuple[type[Message], Callable[[Any], _Body], Callable[[int, bytes], Message]]] = [
    (Boot, _from_boot, _to_boot),
    (Call, _from_call, _to_call),
    (Quit, lambda quit: (b"keep" if quit.keep else b"", b""), lambda number, body: Quit(number, body == b"keep")),
    (Move, lambda move: _with_head(_plain(move.place), move.payload), _to_move),
    (Hello, lambda hello: (str(hello.pid).encode(), b""), lambda number, body: Hello(int(body))),
    (Returned, lambda returned: (b"", returned.payload), Returned),
    (Raised, _from_error, _to_error),
    (Show, lambda show: (b"", b""), lambda number, body: Show()),
    (Stop, lambda stop: (b"", b""), lambda number, body: Stop(number)),
    (Reported, lambda reported: (b"", reported.payload), Reported),
    (GoOn, lambda answer: (b"", b""), lambda number, body: GoOn(number)),
    (Finished, lambda finished: (b"", finished.payload), Finished),
]
"""The kinds of messages, numbered from 1, with functions that make a body of a message and a message of a body."""
_ENCODERS = {cls: (kind, from_message) for kind, (cls, from_message, _) in enumerate(_KINDS, 1)}
_GO_ON = _ENCODERS[GoOn][0]
_DECODERS = {kind: to_message for kind, (_, _, to_message) in enumerate(_KINDS, 1)}


# -- frames ------------------------------------------------------------------------------------------------------------
def encode(message: Message) -> list[bytes]:
    """Make the frame of a message.

    Returns:
        The frame; in two parts if it is long, so that a large payload is not copied.

    Raises:
        ValueError: If the body is longer than `MESSAGE_BYTES`; the receiver would refuse it.
    """
    kind, from_message = _ENCODERS[type(message)]
    body, payload = from_message(message)
    length = len(body) + len(payload)
    if length > MESSAGE_BYTES:
        raise ValueError(
            f"a message must not be longer than {MESSAGE_BYTES} bytes, but this one has {length}: "
            "write large data to a file, such as a checkpoint, and send its path"
        )
    head = _HEAD.pack(_MAGIC, _VERSION, kind, getattr(message, "number", 0), length)
    if HEADER_BYTES + length <= ATOMIC_BYTES or not payload:
        body += payload
        return [head + _CRC.pack(zlib.crc32(body, zlib.crc32(head))) + body]
    crc = zlib.crc32(payload, zlib.crc32(body, zlib.crc32(head)))
    return [head + _CRC.pack(crc) + body, payload]


def go_on(number: int) -> bytes:
    """Return the frame of `GoOn(number)`, by far the most frequent message of a driver."""
    head = _HEAD.pack(_MAGIC, _VERSION, _GO_ON, number, 0)
    return head + _CRC.pack(zlib.crc32(head))


class FrameReader:
    """Assembles frames from pieces of any size.

    A body longer than `MESSAGE_BYTES` is refused as soon as its header has arrived, before memory is allocated for it.
    """

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._needed = HEADER_BYTES

    def feed(self, data: bytes, handle: Callable[[Message], object]) -> None:
        """Add `data` and handle the messages that it completes.

        Args:
            data: The next bytes of the stream.
            handle: Called with each message.

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
            magic, version, kind, number, length, crc = _HEADER.unpack_from(whole, start)
            if magic != _MAGIC or version != _VERSION:
                begins = bytes(whole[start : start + 3])
                raise ProtocolError(f"a frame begins with {begins!r} instead of {_MAGIC + b'%c' % _VERSION!r}")
            if length > MESSAGE_BYTES:
                raise ProtocolError(f"a body of {length} bytes is announced; the limit is {MESSAGE_BYTES}")
            needed = HEADER_BYTES + length
            end = start + needed
            if end > size:
                break
            body = bytes(whole[start + HEADER_BYTES : end])
            if zlib.crc32(body, zlib.crc32(whole[start : start + _HEAD.size])) != crc:
                raise ProtocolError(f"a frame of {length} bytes has a wrong checksum")
            start = end
            needed = HEADER_BYTES
            if kind not in _DECODERS:
                raise ProtocolError(f"no message has the kind {kind}")
            try:
                message = _DECODERS[kind](number, body)
            except (ValueError, TypeError, IndexError) as error:  # the checksum is right, but the contents are wrong
                raise ProtocolError(f"a message of kind {kind} cannot be read: {error}") from error
            handle(message)
        if start < size:
            self._buffer += whole[start:]
        self._needed = needed
