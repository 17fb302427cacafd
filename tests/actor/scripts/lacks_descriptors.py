"""Removes what other systems than Linux do not have: descriptors of processes, `waitid`."""

import os
import signal

for name in ("pidfd_open", "waitid"):
    if hasattr(os, name):
        delattr(os, name)
if hasattr(signal, "pidfd_send_signal"):
    del signal.pidfd_send_signal
