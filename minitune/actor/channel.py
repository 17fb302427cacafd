"""The channel between driver and worker: frames over one pair of connected sockets.

The driver's end never blocks, in either direction, so a worker that is stopped in the middle of a message holds up no
other one. The worker's end blocks: its control thread always reads, so two ends that write at once cannot lock each
other out. Where the driver cannot select on a pipe (Windows), threads block on a `Connection` in its stead; the frames
are the same.
"""

from __future__ import annotations

import errno
import os
import select
import socket
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from queue import SimpleQueue
from typing import TYPE_CHECKING, Protocol

from minitune.actor.loop import READ, WRITE, Loop
from minitune.actor.messages import (
    ATOMIC_BYTES,
    DRIVER_CHECK_S,
    HEADER_BYTES,
    MESSAGE_BYTES,
    FrameReader,
    Message,
    encode,
)

if TYPE_CHECKING:
    from minitune.actor.turnstile import Turnstile

_CHUNK_BYTES = 64 * 1024  # larger buffers are mapped and unmapped by each read: ten times the cost (measured)
_NO_SIGNAL: int = getattr(socket, "MSG_NOSIGNAL", 0)
"""A write to a dead worker must not kill a driver in which the user has put SIGPIPE back to its default."""


# -- over a socket -----------------------------------------------------------------------------------------------------
class ChannelClosedError(Exception):
    """The other end is closed, or other code of this process has closed ours.

    Attributes:
        is_ours: Whether it is our own descriptor that does not work any more.
    """

    def __init__(self, text: str, is_ours: bool = False):
        super().__init__(text)
        self.is_ours = is_ours

    @classmethod
    def of(cls, error: OSError) -> ChannelClosedError:
        """Tell by the error number whose fault it was."""
        return cls(str(error), is_ours=error.errno in (errno.EBADF, errno.ENOTSOCK))


def socket_pair() -> tuple[socket.socket, socket.socket]:
    """The two ends of a new `multiprocessing.Pipe`, as sockets. Neither is inherited by programs that are started.

    Raises:
        OSError: If there are no descriptors left.
    """
    from multiprocessing import Pipe  # here, since a worker never needs it

    first, second = Pipe()
    try:
        ours = socket.socket(fileno=os.dup(first.fileno()))
        try:
            return ours, socket.socket(fileno=os.dup(second.fileno()))
        except OSError:
            ours.close()
            raise
    finally:
        first.close()
        second.close()


class DriverEnd(Protocol):
    """The driver's end of a channel. No method blocks."""

    limit_bytes: int

    def watch(self, loop: Loop, on_readable: Callable[[], object]) -> None:
        """Call `on_readable` on the loop whenever `receive` has something to say. Sends what is left, too."""
        ...

    def unwatch(self) -> None:
        """Do not call any more. Any number of times."""
        ...

    def send(self, *messages: Message) -> None:
        """Send messages, in one piece if they are small, now or when they can be sent.

        Raises:
            ValueError: If one of them is too long; nothing was sent.
        """
        ...

    def send_frames(self, parts: list[bytes]) -> None:
        """Send what `encode` has made of them, in the same way."""
        ...

    def receive(self) -> Iterator[Message]:
        """Some of the messages that have arrived.

        Raises:
            ChannelClosedError: At end-of-file.
            ProtocolError: See `FrameReader.feed`; out of the iterator.
            BlockingIOError: If there is nothing to read now.
        """
        ...

    def close(self) -> None:
        """Free everything. Any number of times."""
        ...


class Channel:
    """The driver's end as a non-blocking socket.

    Args:
        end: A connected socket; this object closes it.
        limit_bytes: The longest body in either direction.
    """

    def __init__(self, end: socket.socket, limit_bytes: int = MESSAGE_BYTES):
        self.limit_bytes = limit_bytes
        self._socket = end
        self._reader = FrameReader(limit_bytes)
        self._unsent: deque[memoryview] = deque()
        self._loop: Loop | None = None
        self._on_readable: Callable[[], object] = lambda: None
        end.setblocking(False)

    def watch(self, loop: Loop, on_readable: Callable[[], object]) -> None:
        """Call `on_readable` on the loop whenever `receive` has something to say. Sends what is left, too."""
        self._loop, self._on_readable = loop, on_readable
        self._watch()

    def unwatch(self) -> None:
        """Do not call any more. Any number of times."""
        if self._loop is not None and self._socket.fileno() >= 0:
            self._loop.unwatch(self._socket.fileno())
        self._loop = None

    def _watch(self) -> None:
        if self._loop is not None:
            self._loop.watch(self._socket.fileno(), self._on_ready, READ | WRITE if self._unsent else READ)

    def _on_ready(self, mask: int) -> None:
        if mask & WRITE:
            self._flush()
            if not self._unsent:
                self._watch()
        if mask & READ:
            self._on_readable()

    def send(self, *messages: Message) -> None:
        """Send what can be sent now, and the rest when the loop finds that it can be.

        Raises:
            ValueError: If one of the messages is too long; nothing was sent.
        """
        self.send_frames([part for message in messages for part in encode(message, self.limit_bytes)])

    def send_frames(self, parts: list[bytes]) -> None:
        """Send what `encode` has made of them, in the same way."""
        if len(parts) > 1 and sum(map(len, parts)) <= ATOMIC_BYTES:
            parts = [b"".join(parts)]
        self._unsent.extend(map(memoryview, parts))
        self._flush()
        if self._unsent:
            self._watch()

    def _flush(self) -> None:
        """Send what can be sent now. A dead other end is no error: its process end will say so."""
        unsent = self._unsent
        try:
            while unsent:
                part = unsent[0]
                sent = self._socket.send(part, _NO_SIGNAL)
                if sent == len(part):
                    unsent.popleft()
                else:
                    unsent[0] = part[sent:]
        except (BlockingIOError, InterruptedError):
            pass
        except OSError:
            unsent.clear()

    def receive(self) -> Iterator[Message]:
        """The messages that one read completes.

        Raises:
            ChannelClosedError: At end-of-file.
            ProtocolError: See `FrameReader.feed`; out of the iterator.
            BlockingIOError: If there is nothing to read now.
        """
        try:
            data = self._socket.recv(_CHUNK_BYTES)
        except BlockingIOError:
            raise
        except OSError as error:
            raise ChannelClosedError.of(error) from error
        if not data:
            raise ChannelClosedError("end of file")
        return self._reader.feed(data)

    def close(self) -> None:
        """Close the descriptor. Any number of times."""
        self.unwatch()
        self._unsent = deque()  # a daemon thread may be in the midst of `_flush` when the interpreter ends
        self._socket.close()


class End(Protocol):
    """One end of a connection of bytes, as a worker uses it: its methods may block."""

    def receive(self) -> bytes:
        """The next bytes, empty at the end of file.

        Raises:
            OSError: If the connection is broken.
        """
        ...

    def send_all(self, data: bytes) -> None:
        """Send bytes.

        Raises:
            OSError: If the connection is broken.
        """
        ...

    def identity(self) -> int:
        """A number that tells this connection from any other file that may come to have its descriptor.

        Raises:
            OSError: If the descriptor was closed.
        """
        ...

    def turnstile(self) -> Turnstile | None:
        """Lets two threads read in turns; None where that is not possible."""
        ...


class SocketEnd:
    """A socket as an `End`."""

    def __init__(self, end: socket.socket):
        end.setblocking(True)
        self._socket = end
        self._wait: Callable[[], object] = lambda: None
        if sys.platform == "linux":  # where `recv` would be woken whenever the driver reads what we have sent
            poll = select.poll()
            poll.register(end.fileno(), select.POLLIN)
            self._wait = poll.poll

    def receive(self) -> bytes:
        """See `End.receive`."""
        self._wait()
        return self._socket.recv(_CHUNK_BYTES)

    def send_all(self, data: bytes) -> None:
        """See `End.send_all`."""
        self._socket.sendall(data, _NO_SIGNAL)

    def identity(self) -> int:
        """See `End.identity`."""
        return os.fstat(self._socket.fileno()).st_ino

    def turnstile(self) -> Turnstile | None:
        """See `End.turnstile`."""
        if sys.platform != "linux":
            return None
        from minitune.actor.turnstile import Turnstile

        try:
            return Turnstile(self._socket)
        except OSError:  # there is no descriptor left
            return None


class WorkerChannel:
    """The worker's end: the control thread reads, for short times the user's does; any thread sends. All of it blocks.

    Args:
        end: The connection, used in blocking mode.
        limit_bytes: The longest body that is accepted; what may be sent is said by `Boot`.
    """

    def __init__(self, end: End, limit_bytes: int = MESSAGE_BYTES):
        self.send_limit_bytes = limit_bytes
        self._end = end
        self._reader = FrameReader(limit_bytes)
        self._lock = threading.RLock()
        self._identity = end.identity()
        self._turnstile: Turnstile | None = None
        self._wants_turns = False

    def receive(self, handle: Callable[[Message], object]) -> None:
        """Wait for what comes next, and handle each message that it completes. Blocks.

        Raises:
            ChannelClosedError: If the driver is gone or the descriptor was closed.
            ProtocolError: See `FrameReader.feed`.
        """
        turnstile = self._turnstile
        if turnstile is None:
            self._take_in(self._end.receive, handle)
            if self._wants_turns:
                self._wants_turns, self._turnstile = False, self._end.turnstile()
            return
        try:
            turnstile.wait()
        except OSError as error:
            raise ChannelClosedError.of(error) from error
        with turnstile.reading:
            self._take_in(partial(turnstile.receive, _CHUNK_BYTES), handle)

    def _take_in(self, read: Callable[[], bytes], handle: Callable[[Message], object]) -> None:
        try:
            data = read()
        except BlockingIOError:  # the user's thread has taken it
            return
        except OSError as error:
            raise ChannelClosedError.of(error) from error
        if not data:
            raise ChannelClosedError("end of file")
        for message in self._reader.feed(data):
            handle(message)

    def expect(self, message: Message, is_needed: Callable[[], bool], handle: Callable[[], object]) -> None:
        """Wait for one message on the user's thread, and handle it; return if another one comes first.

        At first that is not possible: nothing happens, but from the next message on it may be.

        Args:
            message: The message.
            is_needed: Whether there is still anything to wait for.
            handle: See `Turnstile.expect`.

        Raises:
            OSError: If the channel is broken, which the control thread finds out as well.
            BaseException: What a signal handler of the user's raises.
        """
        turnstile = self._turnstile
        if turnstile is None:
            self._wants_turns = True
            return
        with turnstile.reading:
            if is_needed() and self._reader.is_between_frames:
                turnstile.expect(encode(message)[0], handle)

    def send(self, message: Message) -> None:
        """Send a message. Blocks until it is on its way. Not for a process that was forked from the worker.

        Raises:
            ValueError: If it is too long; nothing was sent.
            ChannelClosedError: If the driver is gone or the descriptor was closed.
        """
        parts = encode(message, self.send_limit_bytes)
        if sum(map(len, parts)) <= ATOMIC_BYTES or threading.get_ident() != threading.main_thread().ident:
            self._write(parts)
        else:
            self._write_elsewhere(parts)

    def let_go(self) -> None:
        """Release the lock of `send` where an exception of a signal handler kept this thread from it.

        CPython checks for signals between the last line of a `with` block and the release. A control thread that then
        waited for the lock would wait for ever.
        """
        try:
            while True:
                self._lock.release()
        except RuntimeError:  # this thread does not hold it
            return

    def _write_elsewhere(self, parts: list[bytes]) -> None:
        """Write from another thread: a signal handler of the user's that raises runs in the main one only.

        A small frame goes out in one system call, which such an exception cannot tear; a large one takes many.
        """
        failures: list[ChannelClosedError] = []

        def write() -> None:
            try:
                self._write(parts)
            except ChannelClosedError as error:
                failures.append(error)

        thread = threading.Thread(target=write, daemon=True)
        try:
            thread.start()
        except RuntimeError:  # there are no more threads to be had
            self._write(parts)
        else:
            thread.join()
        if failures:
            raise failures[0]

    def _write(self, parts: list[bytes]) -> None:
        try:
            if self._end.identity() != self._identity:  # closed by user code, and the number used again
                raise ChannelClosedError("the number of its descriptor is another file now", is_ours=True)
            with self._lock:
                for part in parts:
                    self._end.send_all(part)
        except OSError as error:
            if error.errno is None:  # not from the system but from a signal handler: TimeoutError, say
                raise
            raise ChannelClosedError.of(error) from error


# -- over a connection -------------------------------------------------------------------------------------------------
class Connection(Protocol):
    """The methods that both kinds of `multiprocessing` connections have."""

    def fileno(self) -> int:
        """The descriptor or handle."""
        ...

    def poll(self, timeout: float | None = 0.0) -> bool:
        """Wait for data."""
        ...

    def recv_bytes(self, maxlength: int | None = None) -> bytes:
        """Receive what was sent in one piece."""
        ...

    def send_bytes(self, buf: bytes) -> None:
        """Send one piece."""
        ...

    def close(self) -> None:
        """Close it."""
        ...


class PumpedChannel:
    """The driver's end over a `multiprocessing` connection: one thread reads, one writes. No method blocks.

    Args:
        end: The connection; this object closes it.
        limit_bytes: The longest body in either direction.
    """

    def __init__(self, end: Connection, limit_bytes: int = MESSAGE_BYTES):
        self.limit_bytes = limit_bytes
        self._connection = end
        self._reader = FrameReader(limit_bytes)
        self._inbox: deque[bytes | None] = deque()
        self._outbox: SimpleQueue[bytes | None] = SimpleQueue()
        self._loop: Loop | None = None
        self._on_readable: Callable[[], object] = lambda: None
        self._is_closed = False
        self.threads = [threading.Thread(target=work, daemon=True) for work in (self._pump_in, self._pump_out)]

    def watch(self, loop: Loop, on_readable: Callable[[], object]) -> None:
        """See `DriverEnd.watch`."""
        self._loop, self._on_readable = loop, on_readable
        for thread in self.threads:
            thread.start()

    def unwatch(self) -> None:
        """See `DriverEnd.unwatch`."""
        self._on_readable = lambda: None

    def send(self, *messages: Message) -> None:
        """See `DriverEnd.send`."""
        self.send_frames([part for message in messages for part in encode(message, self.limit_bytes)])

    def send_frames(self, parts: list[bytes]) -> None:
        """See `DriverEnd.send_frames`."""
        self._outbox.put(b"".join(parts))

    def receive(self) -> Iterator[Message]:
        """See `DriverEnd.receive`."""
        if not self._inbox:
            raise BlockingIOError
        data = self._inbox[0]
        if data is None:
            raise ChannelClosedError("end of file")
        self._inbox.popleft()
        return self._reader.feed(data)

    def close(self) -> None:
        """See `DriverEnd.close`. The threads end within `DRIVER_CHECK_S` seconds if the other end is closed too."""
        self.unwatch()
        self._is_closed = True
        self._outbox.put(None)

    def _pump_in(self) -> None:
        """Read until the end, or until `close`. Waits in short pieces: closing a pipe does not wake its reader."""
        try:
            while not self._is_closed:
                if self._connection.poll(DRIVER_CHECK_S):
                    self._hand_over(self._connection.recv_bytes(self.limit_bytes + HEADER_BYTES))
        except (EOFError, OSError):
            self._hand_over(None)

    def _hand_over(self, data: bytes | None) -> None:
        self._inbox.append(data)
        if self._loop is not None:
            self._loop.post(lambda: self._on_readable())

    def _pump_out(self) -> None:
        """Write until `close`, or until the other end is gone: its death will be told in another way."""
        try:
            while (data := self._outbox.get()) is not None:
                self._connection.send_bytes(data)
        except OSError:
            pass
        self.threads[0].join()
        self._connection.close()


class ConnectionEnd:
    """A worker's end over a `multiprocessing` connection; an `End`."""

    def __init__(self, end: Connection):
        self._connection = end

    def receive(self) -> bytes:
        """See `End.receive`."""
        try:
            return self._connection.recv_bytes()
        except EOFError:
            return b""

    def send_all(self, data: bytes) -> None:
        """See `End.send_all`."""
        self._connection.send_bytes(data)

    def identity(self) -> int:
        """See `End.identity`."""
        return self._connection.fileno() if os.name == "nt" else os.fstat(self._connection.fileno()).st_ino

    def turnstile(self) -> None:
        """See `End.turnstile`: a pipe of Windows can only be waited for by the thread that reads it."""
