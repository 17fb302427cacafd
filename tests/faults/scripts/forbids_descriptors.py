"""No process may open a descriptor of another one. Python runs this at its start, as `sitecustomize`."""

import errno
import os

if "MINITUNE_RUN_ID" in os.environ:

    def refuse(*args):
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))

    os.pidfd_open = refuse
