"""The channel where a pipe cannot be selected on (Windows): threads that block on a `Connection` in the driver's stead.

The frames, and so all that is said of them in `channel`, are the same.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Iterator
from queue import SimpleQueue
from typing import Protocol

from minitune.actor.channel import ChannelClosedError
from minitune.actor.frames import HEADER_BYTES, FrameReader, encode
from minitune.actor.limits import DRIVER_CHECK_S, MESSAGE_BYTES
from minitune.actor.loop import Loop
from minitune.actor.messages import Message


class Connection(Protocol):
    """What both kinds of `multiprocessing` connections can do."""

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
