"""Removes what other systems than Linux do not have: descriptors of processes, anonymous files, `waitid`."""

import os
import signal

for name in ("pidfd_open", "waitid", "memfd_create"):
    if hasattr(os, name):
        delattr(os, name)
if hasattr(signal, "pidfd_send_signal"):
    del signal.pidfd_send_signal
