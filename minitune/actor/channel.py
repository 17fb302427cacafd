"""A channel between driver and worker: frames over one pair of connected sockets.

The driver's end never blocks, neither when it reads nor when it writes. So a worker that is stopped in the middle of a
message delays no other worker, and the two ends cannot deadlock when both write at once. The worker's end blocks. Each
worker has two channels, the work pipe and the control pipe (see `worker`).
"""

from __future__ import annotations

import errno
import os
import select
import socket
import sys
from collections import deque
from collections.abc import Callable

from minitune.actor.loop import READ, WRITE, Loop
from minitune.actor.messages import (
    FrameReader,
    Message,
    ProtocolError,
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
    """Make a worker's work pipe and control pipe; return the driver's ends and the worker's ends.

    A new program inherits them only if they are passed to it.

    Raises:
        OSError: If no file descriptor is free.
    """
    ours, theirs = socket.socketpair()
    try:
        our_control, their_control = socket.socketpair()
    except OSError:
        ours.close()
        theirs.close()
        raise
    return [ours, our_control], [theirs, their_control]


class Channel:
    """The driver's end of a channel: a non-blocking socket. No method blocks.

    Args:
        end: A connected socket; this object closes it.
    """

    def __init__(self, end: socket.socket):
        self._socket = end
        self._feed: Callable[[bytes, Handle], object] = FrameReader().feed
        self._unsent: deque[memoryview] = deque()
        self._loop: Loop | None = None
        self._handle: Handle  # given by `watch`, like the next one
        self._on_broken: OnBroken
        self._is_broken = False
        end.setblocking(False)

    def watch(self, loop: Loop, handle: Handle, on_broken: OnBroken) -> None:
        """Start to handle messages on the loop, and send the messages that are queued.

        Args:
            loop: The driver's loop.
            handle: See `Handle`.
            on_broken: See `OnBroken`: called at end-of-file, or if the bytes are not a message.
        """
        self._loop = loop
        self._handle = handle
        self._on_broken = on_broken
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
        """Release all resources. May be called any number of times."""
        self._unwatch()
        self._unsent = deque()  # when the interpreter exits, a daemon thread may still be inside `send`
        self._socket.close()


class WorkerEnd:
    """A worker's end of a pipe. All methods but `check` block.

    Args:
        end: A connected socket.
    """

    def __init__(self, end: socket.socket):
        end.setblocking(True)
        self._socket = end
        self._feed = FrameReader().feed
        self._arrived: deque[Message] = deque()
        self._poll: select.poll | None = None
        if sys.platform == "linux":  # `recv` would wake up whenever the driver reads bytes that we have sent
            self._poll = select.poll()
            self._poll.register(end.fileno(), select.POLLIN)
        self._inode = self._read_inode()

    def _read_inode(self) -> int:
        """Return the number that distinguishes this connection from another file that gets its descriptor later."""
        return os.fstat(self._socket.fileno()).st_ino

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

    def wait(self) -> None:
        """Wait until there is something to receive, where the system can. Takes nothing from the pipe.

        Raises:
            ChannelClosedError: If the descriptor was closed.
        """
        if self._poll is None or self._arrived:
            return
        try:
            self._poll.poll()
        except OSError as error:
            raise ChannelClosedError.of(error) from error

    def receive(self) -> Message:
        """Take the next message from the pipe.

        Raises:
            ChannelClosedError: If the driver has ended or the descriptor was closed.
            ProtocolError: See `FrameReader.feed`.
        """
        while not self._arrived:
            try:
                data = self._socket.recv(CHUNK_BYTES)
            except OSError as error:
                raise ChannelClosedError.of(error) from error
            if not data:
                raise ChannelClosedError("end of file")
            self._feed(data, self._arrived.append)
        return self._arrived.popleft()

    def send(self, frames: list[bytes]) -> None:
        """Send a frame that `encode` has made. If an exception ends this, it is unknown how much was sent.

        Raises:
            ChannelClosedError: If the driver has ended or the descriptor was closed.
        """
        try:
            for part in frames:
                self._socket.sendall(part, _NO_SIGNAL)
        except OSError as error:
            raise ChannelClosedError.of(error) from error
