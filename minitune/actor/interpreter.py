"""A worker that is a new interpreter, for systems without fork or where fork is not safe."""

from __future__ import annotations

import os
import socket
import sys
from typing import NoReturn

from minitune.actor import worker
from minitune.actor.channel import End, SocketEnd
from minitune.actor.process_tree import TRIAL_VARIABLE
from minitune.actor.surroundings import line_buffer_c_output, move_high


def main(handle: int, reports: int, is_pumped: bool) -> NoReturn:
    """Serve the driver. Never returns.

    Args:
        handle: The inherited end of the control channel: a descriptor, on Windows a handle.
        reports: The inherited end of the report pipe.
        is_pumped: Whether the driver uses a `PumpedChannel` for each.
    """
    line_buffer_c_output()
    end, pipe = _end(handle, is_pumped), _end(reports, is_pumped)
    worker.main(worker.Seat(end=end, reports=pipe, marker=os.environ[TRIAL_VARIABLE]))


def _end(handle: int, is_pumped: bool) -> End:
    if sys.platform == "win32":
        from multiprocessing.connection import PipeConnection

        from minitune.actor.channel import ConnectionEnd

        return ConnectionEnd(PipeConnection(handle))
    descriptor = move_high(handle)
    os.close(handle)
    if not is_pumped:
        return SocketEnd(socket.socket(fileno=descriptor))
    from multiprocessing.connection import Connection

    from minitune.actor.channel import ConnectionEnd

    return ConnectionEnd(Connection(descriptor))
