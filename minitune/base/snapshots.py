"""The file of a snapshot: the states of a run's plug-ins.

A searcher that is restored from a run's directory finds its state here.
"""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from typing import NamedTuple

NAME = "plugins-{}.pkl"
"""The name of a snapshot's file; a longer journal makes a greater one."""

SEARCHER = "searcher"
SCHEDULER = "scheduler"
STOPPER = "stopper"
CALLBACKS = "callbacks"
"""The components of a run's plug-ins."""


class PluginState(NamedTuple):
    """The state of one plug-in, or of all callbacks.

    Attributes:
        plugin: The names of its classes.
        state: The pickle of what `get_state` returns, for a search algorithm of a pair: its own, and that of its
            searcher or None. Of a class that saves itself to files, these by name.
    """

    plugin: str
    state: bytes | dict[str, bytes]


def encode_states(states: Mapping[str, PluginState]) -> bytes:
    """The content of a file, from the states by component."""
    return pickle.dumps({component: tuple(state) for component, state in states.items()})


def decode_states(data: bytes) -> dict[str, PluginState]:
    """The inverse of `encode_states`. It is unpickled: read only what you trust."""
    return {component: PluginState(*state) for component, state in pickle.loads(data).items()}
