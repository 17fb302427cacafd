"""CPU time by process, memory, and bytes written, as a run measures them itself. Linux only: it reads /proc."""

import os
import resource
import time


class Meter:
    """CPU seconds of this process, its helpers and its workers since the meter was made.

    Args:
        has_helpers: Whether the children are helpers (a zygote, a cluster's daemons) and the workers are below them.
            Otherwise the children are the workers.
    """

    def __init__(self, has_helpers=True):
        self._has_helpers = has_helpers
        self._driver_s = time.process_time()
        self._below_s = _below_s()
        self._helpers_before_s = self._helpers_s = self._now_in_helpers_s()

    def look(self):
        """Read the helpers' CPU time. Call this shortly before they end, since it cannot be told apart afterwards."""
        self._helpers_s = self._now_in_helpers_s()

    def read(self):
        """The seconds by kind of process."""
        helpers_s = self._helpers_s - self._helpers_before_s
        below_s = _below_s() - self._below_s
        return {
            "driver": time.process_time() - self._driver_s,
            "helpers": helpers_s,
            "workers": max(0.0, below_s - helpers_s),
        }

    def _now_in_helpers_s(self):
        return sum(own_s for _, own_s, _ in _children(os.getpid())) if self._has_helpers else 0.0


def _below_s():
    """CPU seconds of all processes below this one, whether they run or have ended and were waited for."""
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    return ended.ru_utime + ended.ru_stime + _living_s(os.getpid())


def _living_s(pid):
    return sum(own_s + ended_s + _living_s(child) for child, own_s, ended_s in _children(pid))


def _children(pid):
    """For each child of a process: its pid, its CPU seconds, and those of its own children that have ended."""
    found = []
    try:
        for thread in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{thread}/children") as file:
                for child in map(int, file.read().split()):
                    with open(f"/proc/{child}/stat") as stat:
                        fields = stat.read().rpartition(")")[2].split()
                    times_s = [int(ticks) / os.sysconf("SC_CLK_TCK") for ticks in fields[11:15]]
                    found.append((child, times_s[0] + times_s[1], times_s[2] + times_s[3]))
    except FileNotFoundError:
        pass  # it has just ended
    return found


def memory_bytes(field):
    """Memory of this process: `VmRSS` is the present value, `VmHWM` the peak."""
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith(field))


def written_bytes():
    """Bytes that this process has written so far, to files and pipes."""
    with open("/proc/self/io") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("wchar"))
