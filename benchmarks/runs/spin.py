"""An objective that is nothing but work for a CPU."""

import time


def spin(busy_s):
    """Use that many seconds of CPU in this thread, however long it takes."""
    end_s = time.thread_time() + busy_s
    while time.thread_time() < end_s:
        pass
