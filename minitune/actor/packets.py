"""Packets: the messages between driver and zygote, some with file descriptors. Linux only.

A packet is a list of texts. `zygote` has a table of them. The socket keeps packets apart (`SOCK_SEQPACKET`).
"""

from __future__ import annotations

import array
import errno
import socket
import sys

if sys.platform != "linux":
    raise ImportError("the zygote needs Linux; other systems start a new interpreter per worker")

from collections.abc import Sequence

from minitune.actor.messages import as_text, join_fields, split_fields

PACKET_BYTES = 128 * 1024
"""The longest packet."""
_MOST_DESCRIPTORS = 2


def send_packet(end: socket.socket, fields: list[str], descriptors: Sequence[int] = ()) -> None:
    """Send one packet, with up to two descriptors. Never blocks.

    If too many descriptors are in the socket already, the packet is sent without its own. The receiver then finds fewer
    than it expects.

    Raises:
        BlockingIOError: If the receiver has to read first.
        OSError: If the receiver has ended, or the packet cannot be sent.
    """
    rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))] if descriptors else []
    data = [join_fields(fields)]
    try:
        end.sendmsg(data, rights, socket.MSG_NOSIGNAL | socket.MSG_DONTWAIT)
    except OSError as error:
        if error.errno != errno.ETOOMANYREFS:
            raise
        end.sendmsg(data, (), socket.MSG_NOSIGNAL | socket.MSG_DONTWAIT)


def receive_packet(end: socket.socket) -> tuple[list[str], list[int]] | None:
    """Receive one packet.

    Returns:
        Its fields and the descriptors that came with it (fewer if no more are free), or None at the end.

    Raises:
        OSError: If no packet can be received now.
    """
    data, rights, _, _ = end.recvmsg(PACKET_BYTES, socket.CMSG_SPACE(4 * _MOST_DESCRIPTORS), socket.MSG_CMSG_CLOEXEC)
    descriptors = array.array("i")
    for _, _, packed in rights:
        descriptors.frombytes(packed[: len(packed) - len(packed) % 4])
    if not data:
        return None
    return [as_text(value) for value in split_fields(data)], list(descriptors)
