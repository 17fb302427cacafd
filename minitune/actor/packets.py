"""Packets: the messages between driver and zygote, some with file descriptors. Linux only.

A packet is a tuple of a kind and its fields, packed by `marshal`: both ends run the same Python. The socket keeps
packets apart (`SOCK_SEQPACKET`)::

    driver -> zygote                              zygote -> driver
    setup  modules, script
    preload  a pickled function                   importing  name of a package, while that takes long
                                                  preloaded  error, why it must not be used
    fork  token  (+ ends of channels)             refused  token, reason
    signal  token, number, whole group
    kill  token
                                                  ended  token, pid, exit code, peak bytes, CPU s, time, survivors
"""

from __future__ import annotations

import array
import marshal
import socket
import sys

if sys.platform != "linux":
    raise ImportError("the zygote needs Linux; other systems start a new interpreter per worker")

from collections import deque
from collections.abc import Sequence
from typing import Any

from minitune.actor.loop import Socket

Packet = tuple[Any, ...]
# The longest packet. Not measured: a larger one may not fit the socket, a smaller one cuts long tracebacks.
PACKET_BYTES = 128 * 1024
_MOST_DESCRIPTORS = 2
_FLAGS = socket.MSG_NOSIGNAL | socket.MSG_DONTWAIT
_RIGHTS_BYTES = socket.CMSG_SPACE(4 * _MOST_DESCRIPTORS)


def send_packet(end: Socket, packet: Packet, descriptors: Sequence[int] = ()) -> None:
    """Send one packet, with up to two descriptors. Never blocks. BlockingIOError: the receiver has to read first;
    another OSError: it has ended.
    """
    rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))] if descriptors else []
    end.sendmsg([marshal.dumps(packet)], rights, _FLAGS)


class Outbox:
    """Packets to one receiver, in order; what its socket does not accept waits for `flush`.

    Waiting for the receiver would hide its death, and stop the sender's other work.
    """

    def __init__(self, end: Socket):
        self._end = end
        self.unsent: deque[tuple[Packet, Sequence[Socket]]] = deque()

    def send(self, packet: Packet, attached: Sequence[Socket] = ()) -> None:
        """Send a packet now, or by a later `flush`; then close the attached sockets."""
        self.unsent.append((packet, attached))
        self.flush()

    def flush(self) -> None:
        """Send as much as possible now. The end of a dead receiver is noticed elsewhere."""
        while self.unsent:
            packet, attached = self.unsent[0]
            try:
                send_packet(self._end, packet, list(map(Socket.fileno, attached)))
            except BlockingIOError:
                return
            except OSError:
                pass
            self.unsent.popleft()
            for each in attached:
                each.close()

    def drop(self) -> None:
        """Drop what waits."""
        for _, attached in self.unsent:
            for each in attached:
                each.close()
        self.unsent.clear()


def receive_packet(end: Socket) -> tuple[Packet, list[int]] | None:
    """Receive one packet.

    Returns:
        The packet and the descriptors that came with it (fewer if no more are free), or None at the end.
    """
    data, rights, _, _ = end.recvmsg(PACKET_BYTES, _RIGHTS_BYTES, socket.MSG_CMSG_CLOEXEC)
    descriptors: list[int] = []
    for _, _, packed in rights:
        found = array.array("i")
        found.frombytes(packed[: len(packed) - len(packed) % 4])
        descriptors += found
    if not data:
        return None
    return marshal.loads(data), descriptors
