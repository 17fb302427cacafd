"""Pairs of connected sockets that the settings of the user's process do not reach.

`socket.setdefaulttimeout` makes each new socket non-blocking, and libraries for proxies replace `socket.socket`. So
these pairs come from the C module behind it, and they block.
"""

from __future__ import annotations

import _socket

Socket = _socket.socket


def socket_pair(kind: int = _socket.SOCK_STREAM) -> tuple[Socket, Socket]:
    """Two connected sockets of a kind, which block, and which a new program does not inherit."""
    one, other = _socket.socketpair(_socket.AF_UNIX, kind)
    if _socket.getdefaulttimeout() is not None:  # usually there is none
        one.setblocking(True)
        other.setblocking(True)
    return one, other
