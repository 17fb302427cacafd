"""For a while the system seems to be out of processes. Python runs this at its start, as `sitecustomize`."""

import errno
import os

if "MINITUNE_RUN_ID" in os.environ:
    left, fork = int(os.environ["REFUSED_FORKS"]), os.fork

    def refuse():
        global left
        left -= 1
        if left >= 0:
            raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN))
        return fork()

    os.fork = refuse
