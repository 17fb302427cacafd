"""Evidence that the kernel has killed a process since memory ran out: its own counters of such kills (Linux)."""

from __future__ import annotations

import os

_COUNTER = "oom_kill"
_BLOCK_BYTES = 1 << 12


class MemoryKills:
    """Tells whether there was such a kill that accounts for a death, and for no other one.

    The counter of our own control group comes first; that of the whole machine also sees workers that were put into
    another group. Where the system shows neither, there is never any evidence.

    Args:
        proc: Where the kernel shows processes.
        cgroups: Where it shows control groups.
    """

    def __init__(self, proc: str = "/proc", cgroups: str = "/sys/fs/cgroup"):
        paths = [*_group_counters(proc, cgroups), os.path.join(proc, "vmstat")]
        self._paths = [path for path in paths if _read_counter(path) is not None]
        self._seen = self._read()

    def look(self) -> None:
        """A worker is started: what was killed before, somewhere on this machine, accounts for no death from now on."""
        self._seen = self._read()

    def claim(self) -> str:
        """A process was killed by SIGKILL, and not by us.

        Returns:
            The evidence that it was for lack of memory, in words; empty if there is none.
        """
        now = self._read()
        risen = next((path for path, count in now.items() if count > self._seen.get(path, count)), None)
        if risen is None:
            return ""
        evidence = f"the kernel's count of such kills rose to {now[risen]}, see {_COUNTER} in {risen}"
        self._seen = {path: min(count, self._seen.get(path, count) + 1) for path, count in now.items()}
        return evidence

    def _read(self) -> dict[str, int]:
        counts = {path: _read_counter(path) for path in self._paths}
        return {path: count for path, count in counts.items() if count is not None}


def _group_counters(proc: str, cgroups: str) -> list[str]:
    """The files that count the kills within our control group: of version 2, or of version 1."""
    try:
        with open(os.path.join(proc, "self", "cgroup")) as file:
            lines = [line.rstrip("\n").split(":", 2) for line in file]
    except OSError:
        return []
    found = []
    for _, controllers, group in (parts for parts in lines if len(parts) == 3):
        inside = group.lstrip("/")
        if not controllers:
            found.append(os.path.join(cgroups, inside, "memory.events"))
        elif "memory" in controllers.split(","):
            found.append(os.path.join(cgroups, "memory", inside, "memory.oom_control"))
    return found


def _read_counter(path: str) -> int | None:
    """The counter in a file of lines such as `oom_kill 3`; None if it holds none. For each worker that is started."""
    try:
        descriptor = os.open(path, os.O_RDONLY)
        try:
            lines = b"\n"
            while block := os.read(descriptor, _BLOCK_BYTES):  # the kernel gives a page at a time
                lines += block
                value, newline, _ = lines.partition(b"\n%b " % _COUNTER.encode())[2].partition(b"\n")
                if newline:
                    return int(value)
        finally:
            os.close(descriptor)
    except (OSError, ValueError):
        pass
    return None
