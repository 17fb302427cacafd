"""A channel between driver and worker: frames over one pair of connected sockets.

The driver's end never blocks. So a worker that is stopped in the middle of a message delays no other one, and the two
ends cannot deadlock. The worker's end blocks.
"""

from __future__ import annotations

import os
import select
import socket
import sys
from collections import deque
from collections.abc import Callable

from minitune.actor.loop import READ, WRITE, Loop, Socket, socket_pair
from minitune.actor.messages import (
    FrameReader,
    Message,
    ProtocolError,
)

CHUNK_BYTES = 64 * 1024  # from 128 KiB on, each read maps its buffer: `benchmarks/FINDINGS.md`, *chunks*
# Makes a write to a dead worker raise an error instead of SIGPIPE, which would kill a driver whose user has restored
# SIGPIPE's default.
_NO_SIGNAL: int = getattr(socket, "MSG_NOSIGNAL", 0)


class ChannelClosedError(Exception):
    """The other end is closed, or other code of this process has closed ours."""


# Called with each message that has arrived.
Handle = Callable[[Message], object]
# Called once, with the reason why no further message can arrive.
OnBroken = Callable[[ChannelClosedError | ProtocolError], object]


# One end of a worker's work pipe, and one of its control pipe.
Ends = tuple[Socket, Socket]


def worker_sockets() -> tuple[Ends, Ends]:
    """Make a worker's work pipe and control pipe; return the driver's ends and the worker's ends. OSError: no
    descriptor is free.
    """
    ours, theirs = socket_pair()
    try:
        our_control, their_control = socket_pair()
    except OSError:
        ours.close()
        theirs.close()
        raise
    return (ours, our_control), (theirs, their_control)


class Channel:
    """The driver's end of a channel: a non-blocking socket, which the loop watches. `on_broken` is called at
    end-of-file, or if the bytes are not a message.

    Attributes:
        events: Those that the loop waits for; without `READ`, no more messages are handled.
    """

    def __init__(self, end: Socket, loop: Loop, handle: Handle, on_broken: OnBroken):
        end.setblocking(False)
        self.handle = handle
        self._socket = end
        self._loop = loop
        self._on_broken = on_broken
        self._feed: Callable[[bytes, Handle], object] = FrameReader().feed
        self._unsent: deque[memoryview] = deque()
        self.events = READ
        loop.watch(end.fileno(), self.read)

    def _wait_for(self, events: int) -> None:
        if events == self.events:
            return
        self.events = events
        if events:
            self._loop.watch(self._socket.fileno(), self.read, events)
        else:
            self._loop.unwatch(self._socket.fileno())

    def send(self, *frames: bytes | memoryview) -> None:
        """Send as much as possible now; the loop sends the rest when the socket accepts more."""
        # They go behind the queued frames: a frame in the middle of another one would break both.
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
            # Its reader has gone. What it has sent before, such as its last report, may still be in the pipe. So this
            # is not the end of the channel: `read` goes on, and finds the end after the last message.
            unsent.clear()
        if unsent:
            self._wait_for(self.events | WRITE)

    def read(self, mask: int = READ) -> bool:
        """Handle the messages that one read completes, after queued bytes were sent (`WRITE` in `mask`).

        Returns:
            Whether there may be more.
        """
        if mask & WRITE:
            self.send()
            if not self._unsent:
                self._wait_for(self.events & READ)
            if not mask & READ:
                return True
        if not self.events & READ:  # another callback of this turn has stopped the reading
            return False
        # One read for each turn, although there may be more: a worker that sends without end must not keep the loop
        # from the others. The loop calls again as long as there are bytes.
        broken: ChannelClosedError | ProtocolError
        try:
            data = self._socket.recv(CHUNK_BYTES)
        except BlockingIOError:
            return False
        except OSError as error:
            broken = ChannelClosedError(str(error))
        else:
            try:
                if data:
                    self._feed(data, self.handle)
                    return True
                broken = ChannelClosedError("end of file")
            except ProtocolError as error:
                broken = error
        # A socket at its end is always ready, so the loop would spin until the end of the process is reported. Which of
        # the two is seen first is a race: a dying process closes its files before its parent can reap it.
        self.stop_reading()
        self._on_broken(broken)
        return False

    def stop_reading(self) -> None:
        """Handle no more messages, and do not report the end. Queued messages are still sent."""
        self._wait_for(WRITE if self._unsent else 0)

    def close(self) -> None:
        """Release all resources; may be repeated."""
        self._wait_for(0)  # before the socket is closed: the next file of this process may get its number
        self._unsent = deque()  # when the interpreter exits, a daemon thread may still be inside `send`
        self._socket.close()


class WorkerEnd:
    """A worker's end of a pipe. All methods block.

    It is a plain descriptor: an object of `socket` would cost each worker a dozen pages.
    """

    def __init__(self, descriptor: int):
        self._descriptor = descriptor
        self._feed = FrameReader().feed
        self._arrived: deque[Message] = deque()
        self._poll: select.poll | None = None

    def wait(self) -> None:
        """Wait until there is something to receive, where the system can."""
        if self._arrived or sys.platform != "linux":
            return
        if self._poll is None:  # a read would wake up whenever the driver reads bytes that we have sent
            self._poll = select.poll()
            self._poll.register(self._descriptor, select.POLLIN)
        self._poll.poll()

    def receive(self) -> Message:
        """Take the next message from the pipe."""
        while not self._arrived:
            try:
                data = os.read(self._descriptor, CHUNK_BYTES)
            except OSError as error:
                if error.errno is None:  # of a signal handler of the user, such as a TimeoutError
                    raise
                raise ChannelClosedError(str(error)) from error
            if not data:
                raise ChannelClosedError("end of file")
            self._feed(data, self._arrived.append)
        return self._arrived.popleft()

    def send(self, frames: list[bytes]) -> None:
        """Send a frame that `encode` has made. An exception leaves unknown how much was sent. Raises
        ChannelClosedError.
        """
        for part in frames:
            unsent = memoryview(part)
            while unsent:  # a signal may have interrupted the last write
                try:
                    sent = os.write(self._descriptor, unsent)
                except OSError as error:
                    if error.errno is None:  # of a signal handler of the user, such as a TimeoutError
                        raise
                    raise ChannelClosedError(str(error)) from error
                unsent = unsent[sent:]
