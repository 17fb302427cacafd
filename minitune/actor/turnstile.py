"""Turnstile: two threads of a worker read one socket in turns, so that neither has to wake the other. Linux only.

A report is answered by the call that asks for the next one. If the control thread read that call, it would have to wake
the user's thread, which waits in `report()`; then both would want the interpreter's lock. So while the user's thread
waits, it reads the call itself, and the control thread sleeps on: it waits for an epoll descriptor, from which the
socket is taken for that time, and not for the socket.

A signal handler of the user's may raise an exception in the user's thread between any two lines. So this thread only
looks at what has come. It handles the one call that it expects, in a way that can be repeated, and then takes it out.
It leaves all else that has come, and a call at which it was interrupted, to the control thread.
"""

from __future__ import annotations

import select
import socket
import sys
import threading
from collections.abc import Callable

if sys.platform != "linux":
    raise ImportError("epoll is Linux's; elsewhere the control thread reads all")

from minitune.actor.surroundings import move_high


class Turnstile:
    """Says whose turn it is. Made by the control thread, to which the turn belongs at first.

    Args:
        end: The socket, in blocking mode.

    Attributes:
        reading: Held by the thread that reads, until what it has read is handled.
    """

    reading: threading.Lock

    def __init__(self, end: socket.socket):
        self._socket = end
        self.reading = threading.Lock()
        with select.epoll() as made:
            self._epoll = select.epoll.fromfd(move_high(made.fileno()))
        self._epoll.register(end.fileno(), select.EPOLLIN)
        self._poll = select.poll()  # see `SocketEnd.receive`
        self._poll.register(end.fileno(), select.POLLIN)

    def wait(self) -> None:
        """Wait until something has come while it was the control thread's turn. Blocks.

        Raises:
            OSError: If the socket or the epoll descriptor was closed.
        """
        self._epoll.poll()

    def receive(self, limit_bytes: int) -> bytes:
        """The bytes that have come; empty at the end of file. With `reading` held.

        Raises:
            BlockingIOError: If the user's thread has taken it meanwhile.
            OSError: If the connection is broken.
        """
        return self._socket.recv(limit_bytes, socket.MSG_DONTWAIT)

    def expect(self, frame: bytes, handle: Callable[[], object]) -> None:
        """Wait on the user's thread; handle what comes if it is `frame`, else leave it. With `reading` held. Blocks.

        Args:
            frame: What is expected.
            handle: Must not mind to be called twice, nor to be interrupted.

        Raises:
            BaseException: What a signal handler raises.
        """
        try:
            self._epoll.modify(self._socket.fileno(), 0)
            self._poll.poll()
            if self._socket.recv(len(frame), socket.MSG_PEEK) == frame:
                handle()
                self._socket.recv(len(frame))
        finally:
            try:
                self._epoll.modify(self._socket.fileno(), select.EPOLLIN)
            except BaseException:  # a signal handler's: else the control thread would hear nothing any more
                self._epoll.modify(self._socket.fileno(), select.EPOLLIN)
                raise
