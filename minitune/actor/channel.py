"""The channel between driver and worker: frames over one pair of connected sockets.

The driver's end never blocks, neither when it reads nor when it writes. So a worker that is stopped in the middle of a
message delays no other worker. The worker's end blocks. Its control thread always reads, so the two ends cannot
deadlock when both write at once. Each worker has two channels, the control channel and the report pipe (see `worker`).
"""

from __future__ import annotations

import errno
import os
import select
import socket
import sys
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress

from minitune.actor.loop import READ, WRITE, Loop
from minitune.actor.messages import (
    FrameReader,
    Message,
    ProtocolError,
    encode,
)

CHUNK_BYTES = 64 * 1024  # larger buffers are mapped and unmapped by each read: ten times the cost (measured)
_NO_SIGNAL: int = getattr(socket, "MSG_NOSIGNAL", 0)
"""Makes a write to a dead worker raise an error instead of SIGPIPE, which would kill a driver whose user has restored
SIGPIPE's default.
"""


class ChannelClosedError(Exception):
    """The other end is closed, or other code of this process has closed ours.

    Attributes:
        is_ours: Whether it is our own descriptor that does not work any more.
    """

    def __init__(self, text: str, is_ours: bool = False):
        super().__init__(text)
        self.is_ours = is_ours

    @classmethod
    def of(cls, error: OSError | ChannelClosedError) -> ChannelClosedError:
        """Make the error from an OSError; its number says which end is at fault.

        Raises:
            OSError: `error` itself, if it has no number: a signal handler has raised it, such as `TimeoutError()`.
        """
        if isinstance(error, ChannelClosedError):
            return error
        if error.errno is None:
            raise error
        return cls(str(error), is_ours=error.errno in (errno.EBADF, errno.ENOTSOCK))


Handle = Callable[[Message], object]
"""Called with each message that has arrived."""
OnBroken = Callable[[ChannelClosedError | ProtocolError], object]
"""Called once, with the reason why no further message can arrive."""


def worker_sockets() -> tuple[list[socket.socket], list[socket.socket]]:
    """Make a worker's control channel and report pipe; return the driver's ends and the worker's ends.

    A new program inherits them only if they are passed to it.

    Raises:
        OSError: If no file descriptor is free.
    """
    ours, theirs = socket.socketpair()
    try:
        our_reports, their_reports = socket.socketpair()
    except OSError:
        ours.close()
        theirs.close()
        raise
    return [ours, our_reports], [theirs, their_reports]


class DriverEnd:
    """The driver's end of a channel. No method blocks."""

    def __init__(self) -> None:
        self._feed: Callable[[bytes, Handle], object] = FrameReader().feed

    def watch(self, loop: Loop, handle: Handle, on_broken: OnBroken) -> None:
        """Start to handle messages on the loop, and send the messages that are queued.

        Args:
            loop: The driver's loop.
            handle: See `Handle`.
            on_broken: See `OnBroken`: called at end-of-file, or if the bytes are not a message.
        """
        raise NotImplementedError(f"{type(self).__name__} must define watch()")

    def send(self, *frames: bytes | memoryview) -> None:
        """Send a frame that `encode` has made, now or when the channel accepts it."""
        raise NotImplementedError(f"{type(self).__name__} must define send()")

    def read(self) -> bool:
        """Handle some or all of the messages that have arrived; return whether there may be more."""
        raise NotImplementedError(f"{type(self).__name__} must define read()")

    def close(self) -> None:
        """Release all resources. May be called any number of times."""
        raise NotImplementedError(f"{type(self).__name__} must define close()")


class Channel(DriverEnd):
    """The driver's end as a non-blocking socket.

    Args:
        end: A connected socket; this object closes it.
    """

    def __init__(self, end: socket.socket):
        super().__init__()
        self._socket = end
        self._unsent: deque[memoryview] = deque()
        self._loop: Loop | None = None
        self._handle: Handle  # given by `watch`, like the next one
        self._on_broken: OnBroken
        self._is_broken = False
        end.setblocking(False)

    def watch(self, loop: Loop, handle: Handle, on_broken: OnBroken) -> None:
        """See `DriverEnd.watch`."""
        self._loop, self._handle, self._on_broken = loop, handle, on_broken
        self._watch()

    def _watch(self) -> None:
        if self._loop is not None:
            self._loop.watch(self._socket.fileno(), self.read, READ | WRITE if self._unsent else READ)

    def _unwatch(self) -> None:
        if self._loop is not None and self._socket.fileno() >= 0:
            self._loop.unwatch(self._socket.fileno())
        self._loop = None

    def send(self, *frames: bytes | memoryview) -> None:
        """Send as much as possible now; the loop sends the rest when the socket accepts more.

        A dead worker is no error here: the launcher reports its end.
        """
        unsent = self._unsent
        unsent.extend(map(memoryview, frames))
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
        if unsent:
            self._watch()

    def read(self, mask: int = READ) -> bool:
        """Handle the messages that one read completes.

        Args:
            mask: The events that the loop has found. With `WRITE`, queued bytes are sent first.

        Returns:
            Whether there may be more.
        """
        if mask & WRITE:
            self.send()
            if not self._unsent:
                self._watch()
            if not mask & READ:
                return True
        if self._is_broken:
            return False
        broken: ChannelClosedError | ProtocolError
        try:
            data = self._socket.recv(CHUNK_BYTES)
        except BlockingIOError:
            return False
        except OSError as error:
            broken = ChannelClosedError.of(error)
        else:
            try:
                if data:
                    self._feed(data, self._handle)
                    return True
                broken = ChannelClosedError("end of file")
            except ProtocolError as error:
                broken = error
        self._is_broken = True
        self._unwatch()
        self._on_broken(broken)
        return False

    def close(self) -> None:
        """See `DriverEnd.close`."""
        self._unwatch()
        self._unsent = deque()  # when the interpreter exits, a daemon thread may still be inside `send`
        self._socket.close()


class End:
    """One end of a connection, as a worker uses it. Its methods block, and raise OSError if the connection is broken.

    `receive` and `send` are C functions, whose results `list.extend` over `map` can store; see `main_thread`.

    Args:
        end: A connected socket.

    Attributes:
        receive: Returns the next bytes, at most so many; empty at the end of file.
        send: Sends bytes with the flags of a socket; returns how many were sent.
        wait: Waits until there are bytes to receive.
    """

    def __init__(self, end: socket.socket):
        end.setblocking(True)
        self.receive: Callable[[int], bytes] = end.recv
        self.send: Callable[[bytes | memoryview, int], int] = end.send
        self.wait: Callable[[], object] = lambda: None
        if sys.platform == "linux":  # `recv` would wake up whenever the driver reads bytes that we have sent
            poll = select.poll()
            poll.register(end.fileno(), select.POLLIN)
            self.wait = poll.poll
        self._fileno = end.fileno
        self._inode = self._read_inode()

    def _read_inode(self) -> int:
        """Return the number that distinguishes this connection from another file that gets its descriptor later."""
        return os.fstat(self._fileno()).st_ino

    def check(self) -> None:
        """Check that user code has not closed the descriptor; otherwise its number may belong to another file now.

        Raises:
            ChannelClosedError: If user code has closed it.
        """
        try:
            found = self._read_inode()
        except OSError as error:
            raise ChannelClosedError.of(error) from error
        if found != self._inode:
            raise ChannelClosedError("its descriptor number now belongs to another file", is_ours=True)


class Outgoing:
    """A frame that is being sent. If a signal handler raises during `send`, the next `send` continues from there.

    Args:
        message: The message to send.

    Raises:
        ValueError: If it is too long.
    """

    def __init__(self, message: Message):
        self._data = b"".join(encode(message))
        self._sent: list[int] = []

    @property
    def has_begun(self) -> bool:
        """Whether a part of the frame was sent."""
        return bool(self._sent)

    def send(self, end: End) -> None:
        """Send the rest of the frame. Blocks."""
        while (begin := sum(self._sent)) < len(self._data):
            rest = memoryview(self._data)[begin:] if begin else self._data
            self._sent.extend(map(end.send, (rest,), (_NO_SIGNAL,)))  # see `main_thread`


class WorkerChannel:
    """The worker's end of the control channel: one thread reads, any thread may send. All methods block.

    Args:
        end: The connection, used in blocking mode.
    """

    def __init__(self, end: End):
        self._end = end
        self._reader = FrameReader()
        self._outgoing: deque[Outgoing] = deque()
        self._lock = threading.RLock()

    def receive(self, handle: Callable[[Message], object]) -> None:
        """Wait for the next bytes, and handle each message that they complete. Blocks.

        Raises:
            ChannelClosedError: If the driver has ended or the descriptor was closed.
            ProtocolError: See `FrameReader.feed`.
        """
        try:
            self._end.wait()
            data = self._end.receive(CHUNK_BYTES)
        except OSError as error:
            raise ChannelClosedError.of(error) from error
        if not data:
            raise ChannelClosedError("end of file")
        self._reader.feed(data, handle)

    def send(self, message: Message) -> None:
        """Send a message, and what remains in the queue after a signal handler has raised. Blocks until it is sent.

        Not for a process that was forked from the worker. If a signal handler raises meanwhile, the message may or may
        not be in the queue.

        Raises:
            ValueError: If the message is too long; nothing was sent.
            ChannelClosedError: If the driver has ended or the descriptor was closed.
        """
        self._outgoing.append(Outgoing(message))
        self._end.check()
        try:
            with self._lock:
                while self._outgoing:
                    self._outgoing[0].send(self._end)
                    self._outgoing.popleft()
        except OSError as error:
            raise ChannelClosedError.of(error) from error

    def let_go(self) -> None:
        """Release the lock of `send` if an exception of a signal handler has prevented that.

        CPython may run signal handlers between the last line of a `with` block and the release.
        """
        with suppress(RuntimeError):  # this thread does not hold it
            while True:
                self._lock.release()
