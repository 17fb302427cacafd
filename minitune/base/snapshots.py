"""The file of a snapshot: the states of a run's plug-ins.

A searcher that is restored from a run's directory finds its state here.
"""

from __future__ import annotations

import os
import pickle
from collections.abc import Mapping
from typing import NamedTuple

from minitune.base import files

NAME = "plugins-{}.pkl"
"""The name of a snapshot's file; a longer journal makes a greater one."""

SEARCHER = "searcher"
SCHEDULER = "scheduler"
STOPPER = "stopper"
CALLBACK = "callback"
"""The components of a run's plug-ins; a callback also has its number."""


class PluginState(NamedTuple):
    """The state of one plug-in.

    Attributes:
        plugin: The names of its classes.
        state: The pickle of what `get_state` returns, for a search algorithm of a pair: its own, and that of its
            searcher or None.
    """

    plugin: str
    state: bytes


def encode_states(states: Mapping[str, PluginState]) -> bytes:
    """The content of a file, from the states by component."""
    return pickle.dumps({component: tuple(state) for component, state in states.items()})


def decode_states(data: bytes) -> dict[str, PluginState]:
    """The inverse of `encode_states`. It is unpickled: read only what you trust."""
    return {component: PluginState(*state) for component, state in pickle.loads(data).items()}


def newest_states(directory: str) -> dict[str, PluginState]:
    """The newest states in a run's directory, by component; none if there are none. Blocks."""
    begin, end = NAME.split("{}")
    names = [name for name in files.names(directory) if name.startswith(begin) and name.endswith(end)]
    return decode_states(files.read_bytes(os.path.join(directory, max(names)))) if names else {}
