"""ZygoteProcess: the driver's handle on a zygote, the process that forks workers (see `zygote`). Linux only.

A driver starts its first zygote before it imports most of minitune, so this module imports little.
"""

from __future__ import annotations

import os
import select
import socket
import subprocess
import sys
from collections.abc import Sequence
from contextlib import closing, suppress

if sys.platform != "linux":
    raise ImportError("the zygote needs Linux; other systems start a new interpreter per worker")

from minitune.actor.launcher import interpreter_command, starting_directory, worker_environment
from minitune.actor.loop import socket_pair
from minitune.actor.messages import CLOSE_S
from minitune.actor.packets import Outbox
from minitune.base.forks import Origin
from minitune.base.script import script_here


class ZygoteProcess:
    """One zygote and our end of the socket to it. It does not refer to its launcher, so a finaliser can hold it.

    Raises:
        OSError: If the process cannot be started.
    """

    def __init__(self, run_id: str, needed: Sequence[str] = ()):
        self.run_id = run_id
        self.end, theirs = socket_pair(socket.SOCK_SEQPACKET)
        self.outbox = Outbox(self.end)
        try:
            with closing(theirs):
                self.popen = subprocess.Popen(
                    interpreter_command("minitune.actor.zygote", theirs.fileno(), os.getpid()),
                    pass_fds=[theirs.fileno()],
                    stdin=subprocess.DEVNULL,
                    env=worker_environment(run_id),
                    cwd=starting_directory(),
                    start_new_session=True,  # from the start, because the driver handles Ctrl-C
                )
            self.pidfd = os.pidfd_open(self.popen.pid)
        except BaseException:
            self.end.close()
            raise
        self._origin = Origin()
        self.end.setblocking(False)
        self.outbox.send(("setup", tuple(needed), script_here()))

    def drop(self) -> None:
        """Kill it, unless it is closed: no worker was requested."""
        if self._origin.is_here():
            self.popen.kill()
            self.close()

    def close(self) -> bool:
        """Tell it to kill everything and exit. Blocks for at most `CLOSE_S` seconds. Returns whether it
        was killed: its workers have died with it, but not their descendants.
        """
        self.outbox.drop()
        if self.end.fileno() < 0 or not self._origin.is_here():
            return False
        with suppress(OSError):  # it is dead
            # Closing is not enough: a process that the user forked from the driver may hold the socket, too.
            self.end.shutdown(socket.SHUT_RDWR)
        self.end.close()
        # `popen.wait` with a limit would look only every few milliseconds.
        poll = select.poll()
        poll.register(self.pidfd, select.POLLIN)
        if not poll.poll((CLOSE_S + 1.0) * 1000):
            self.popen.kill()
            poll.poll(CLOSE_S * 1000)
        # Not `popen.wait`: while a debugger traces it, even a dead process cannot be reaped.
        status = self.popen.poll()
        os.close(self.pidfd)
        return status != 0
