"""Process trees: stop them, kill them, and find out whether the kernel has killed one for lack of memory.

The number of a process that is dead and reaped may belong to another process. So a function that kills needs numbers
that are certain: of children that the caller has not reaped, of descendants below a stopped parent (`freeze`), or of a
process whose environment shows our marker at this moment (`marked`).
"""

from __future__ import annotations

import os
import re
import signal
import sys
import time
from collections.abc import Callable, Collection, Iterable, Sequence

from minitune.actor.loop import Loop
from minitune.actor.messages import KILL_CONFIRM_S, QUIET_PASSES, SWEEP_TICK_S
from minitune.base import processes
from minitune.base.cgroups import own_groups

# Environment variable that every process of a group carries.
RUN_VARIABLE = "MINITUNE_RUN_ID"
# Environment variable with the marker of one worker; all its descendants inherit it.
TRIAL_VARIABLE = "MINITUNE_TRIAL"
# The markers of the workers in which this group itself runs, outermost first.
WITHIN_VARIABLE = "MINITUNE_WITHIN"
# Seconds between two looks at the kernel's count of kills. Not measured: with more, an earlier kill may be taken for
# that of a new worker.
_LOOK_S = 0.5
# The longest pause between two passes. Not measured: a longer one delays the report, a shorter one costs searches.
_LONGEST_PAUSE_S = 0.2
# Linux's number of the `prctl` that sets the parent-death signal.
PR_SET_PDEATHSIG = 1


def marker_of(run_id: str, token: int) -> str:
    """Return the marker of a worker. All markers have the same length."""
    return f"{run_id}.{token:010d}"


# -- trees -------------------------------------------------------------------------------------------------------------
def wake_at_end_of_parent() -> None:
    """Let the kernel continue this process when its parent ends, if somebody has stopped it. Linux only.

    A stopped process cannot notice that end, and would stay for ever. SIGCONT does nothing to a process that runs, so
    it does no harm that it also comes when the *thread* that started this process ends. Another thread then takes its
    place.
    """
    if sys.platform != "linux":
        return
    import ctypes

    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, int(signal.SIGCONT), 0, 0, 0)


def send_signal(pid: int, signum: int) -> bool:
    """Send a signal to a process; returns whether it exists and we may signal it."""
    if pid <= 1:  # 0 and below would mean process groups, such as our own
        return False
    try:
        os.kill(pid, signum)
    except OSError:
        return False
    return True


def kill_group(pid: int, signum: int) -> bool:
    """Send a signal to the process group that `pid` leads; return whether it exists."""
    if pid <= 1:
        return False
    try:
        os.killpg(pid, signum)
    except OSError:
        return False
    return True


def freeze(roots: Iterable[int]) -> list[int]:
    """Stop processes and all their descendants; return them, parents first.

    A parent is stopped before its children are listed: it can neither fork nor reap, so the numbers in the list stay
    theirs.
    """
    found = list(roots)
    seen = set(found)
    for pid in found:  # the list grows during the loop
        send_signal(pid, signal.SIGSTOP)
        for child in processes.children(pid):
            if child not in seen:
                seen.add(child)
                found.append(child)
    return found


class Hunt:
    """Kills processes with their descendants, and remembers them until they are dead.

    A killed process exists for hundreds of milliseconds if it has much memory, without an environment by which it could
    be found. Its start time tells it from a later process.
    """

    def __init__(self) -> None:
        self._hit: dict[int, str] = {}

    def strike(self, roots: Iterable[int]) -> int:
        """Kill processes and all their descendants, without waiting. Returns how many of all that this object has
        killed are not yet dead.
        """
        for pid in freeze(roots):
            started = processes.life(pid)
            if started:
                self._hit[pid] = started
                send_signal(pid, signal.SIGKILL)
        self._hit = {pid: started for pid, started in self._hit.items() if processes.life(pid) == started}
        return len(self._hit)

    def strike_marked(self, markers: Collection[str], roots: Iterable[int] = ()) -> int:
        """The same for all processes with one of the markers, and for `roots`. Returns 1 if no descriptor is free to
        look.
        """
        try:
            return self.strike([*roots, *marked(markers)])
        except OSError:
            return 1


def marked(markers: Collection[str]) -> list[int]:
    """Return the living processes whose environment holds one of the markers.

    A process that is just starting another program shows no environment, so search twice. A search takes 3 ms per 100
    processes.
    """
    own = os.getpid()
    wanted = [marker.encode() for marker in markers]
    found = []
    for pid in processes.all_pids():
        if pid == own:
            continue
        shown = processes.environment(pid)
        if shown and any(marker in shown for marker in wanted) and processes.life(pid):
            found.append(pid)
    return found


# -- kills for lack of memory ------------------------------------------------------------------------------------------
class MemoryKills:
    """Finds out from the kernel's counters (Linux) whether a kill for lack of memory, each of which counts once,
    explains a death.

    The counters of our control groups come first; that of the machine also sees workers that were moved to another
    group. Without any, there is never any evidence.
    """

    def __init__(self, paths: Sequence[str] | None = None):
        if paths is None:
            paths = [*(os.path.join(group, "memory.events") for group in own_groups("memory")), "/proc/vmstat"]
        self._paths = [path for path in paths if _read_counter(path) is not None]
        self._seen = self._read()
        self._looked_s = -_LOOK_S

    def look(self) -> None:
        """Call this when a worker is started: kills before that explain no later death.

        At most once in `_LOOK_S` seconds.
        """
        now_s = time.monotonic()
        if now_s - self._looked_s >= _LOOK_S:
            self._looked_s = now_s
            self._seen = self._read()

    def claim(self) -> str:
        """Call this after a SIGKILL that we have not sent. Returns the evidence in words, or an empty text."""
        now = self._read()
        risen = next((path for path, count in now.items() if count > self._seen.get(path, count)), None)
        if risen is None:
            return ""
        evidence = f"the kernel's count of such kills rose to {now[risen]}, see oom_kill in {risen}"
        self._seen = {path: min(count, self._seen.get(path, count) + 1) for path, count in now.items()}
        return evidence

    def _read(self) -> dict[str, int]:
        counts = {path: _read_counter(path) for path in self._paths}
        return {path: count for path, count in counts.items() if count is not None}


def _read_counter(path: str) -> int | None:
    """The counter in a file of lines such as `oom_kill 3`, or None."""
    try:
        found = re.search(rb"^oom_kill (\d+)$", processes.read(path), re.MULTILINE)
    except OSError:
        return None
    return None if found is None else int(found[1])


# -- sweeps by marker --------------------------------------------------------------------------------------------------
def sweep(markers: Collection[str], limit_s: float, roots: Callable[[], Collection[int]] = tuple) -> None:
    """Kill all processes with a marker, pass by pass, until none is left. Blocks for at most `limit_s` seconds. `roots`
    gives more processes before each pass.
    """
    until = time.monotonic() + limit_s
    hunt = Hunt()
    quiet_passes = 0
    while quiet_passes < QUIET_PASSES and time.monotonic() < until:
        quiet_passes += 1
        if hunt.strike_marked(markers, roots()):
            quiet_passes = 0
        time.sleep(SWEEP_TICK_S)


class Sweep:
    """Does the work of `sweep` on the driver's loop, for at most `KILL_CONFIRM_S`. `on_done` gets whether one survived.

    The intervals between passes grow: each reads all processes of the machine.
    """

    def __init__(
        self,
        loop: Loop,
        markers: Collection[str],
        on_done: Callable[[bool], object],
        roots: Callable[[], Collection[int]] = tuple,
        hunt: Hunt | None = None,
    ) -> None:
        self._loop = loop
        self._markers = markers
        self._roots = roots
        self._on_done = on_done
        self._hunt = hunt or Hunt()
        self._quiet_passes = 0
        self._until = time.monotonic() + KILL_CONFIRM_S
        self._pause_s = SWEEP_TICK_S
        loop.call_later(0.0, self._turn)

    def _turn(self) -> None:
        left = self._hunt.strike_marked(self._markers, self._roots())
        self._quiet_passes += 1
        if left:
            self._quiet_passes = 0
        if self._quiet_passes < QUIET_PASSES and time.monotonic() < self._until:
            self._loop.call_later(self._pause_s, self._turn)
            self._pause_s = min(_LONGEST_PAUSE_S, self._pause_s * 2)
        else:
            self._on_done(left > 0)
