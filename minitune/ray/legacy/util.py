"""`ray.util` and `ray.util.debug`: the few names that do not need a cluster."""

# Without `from __future__ import annotations`: that name would hide the module `ray.util.annotations`.

from collections.abc import Hashable

from minitune.ray.legacy.annotations import Deprecated, DeveloperAPI, PublicAPI

__all__ = ["Deprecated", "DeveloperAPI", "PublicAPI", "log_once"]

_told: set[Hashable] = set()


def log_once(key: Hashable) -> bool:
    """Whether this is the first call with `key` in this process, so that the caller may log its message."""
    if key in _told:
        return False
    _told.add(key)
    return True
