"""`ray.util` and `ray.util.debug`: the few names that do not need a cluster."""

# Without `from __future__ import annotations`: that name would hide the module `ray.util.annotations`.

import os
from collections.abc import Hashable

from minitune.ray.legacy.annotations import Deprecated, DeveloperAPI, PublicAPI
from minitune.result import NODE_IP_VARIABLE
from minitune.trainable.auto_fields import NODE_IP_DEFAULT

__all__ = ["Deprecated", "DeveloperAPI", "PublicAPI", "get_node_ip_address", "log_once"]

_told: set[Hashable] = set()


def get_node_ip_address() -> str:
    """The address that results of this process have as `node_ip`."""
    return os.environ.get(NODE_IP_VARIABLE, NODE_IP_DEFAULT)


def log_once(key: Hashable) -> bool:
    """Whether this is the first call with `key` in this process, so that the caller may log its message."""
    if key in _told:
        return False
    _told.add(key)
    return True
