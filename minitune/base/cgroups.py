"""Control groups of this process (Linux): their directories, and the small files in them that set limits."""

from __future__ import annotations

import os
from collections.abc import Iterator

ROOT = "/sys/fs/cgroup"
"""Where the file systems of control groups are mounted."""
OWN = "/proc/self/cgroup"
"""The file that names this process's groups."""


def own_groups(controller: str) -> Iterator[str]:
    """The directories of this process's groups for a controller, and of their ancestors.

    In a container, the path may belong to the host, with only its top mounted, so directories may not exist.
    """
    lines = [line.split(":", 2) for line in read_text(OWN).splitlines()]
    for _, controllers, path in lines:
        if controllers == "":  # version 2: one tree for all controllers
            bases = [ROOT]
        elif controller in controllers.split(","):
            bases = [os.path.join(ROOT, name) for name in dict.fromkeys((controllers, controller))]
        else:
            continue
        parts = [part for part in path.split("/") if part]
        if ".." in parts:  # the path lies outside of what this container sees
            parts = []
        for base in bases:
            for length in range(len(parts), -1, -1):
                yield os.path.join(base, *parts[:length])


def read_text(path: str | os.PathLike[str]) -> str:
    """The stripped text of a small file; empty if it cannot be read."""
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            return file.read().strip()
    except OSError:
        return ""
