"""Pairs of connected sockets that the settings of the user's process do not reach.

Such settings are meant for the user's own connections. `socket.setdefaulttimeout` makes each new socket non-blocking,
also for the process that inherits it, and libraries for proxies replace the class `socket.socket`. So these pairs come
from the C module behind `socket`, and they block.
"""

from __future__ import annotations

import _socket

Socket = _socket.socket


def socket_pair(kind: int = _socket.SOCK_STREAM) -> tuple[Socket, Socket]:
    """Return two connected sockets of a kind, which block. A new program does not inherit them by itself."""
    one, other = _socket.socketpair(_socket.AF_UNIX, kind)
    if _socket.getdefaulttimeout() is not None:  # usually there is none
        one.setblocking(True)
        other.setblocking(True)
    return one, other
