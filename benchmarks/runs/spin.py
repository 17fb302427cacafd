"""An objective that only uses CPU time."""

import time


def spin(busy_s):
    """Use so many seconds of CPU time in this thread."""
    end_s = time.thread_time() + busy_s
    while time.thread_time() < end_s:
        pass
