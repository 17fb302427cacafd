"""Which process made an object. A fork copies all objects, also a run, its workers, a temporary directory, or the pipes
of a worker.

Each of these keeps its `Origin`. In a child, the copy then leaves alone what belongs to the parent.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from typing import ParamSpec

_Params = ParamSpec("_Params")

_num_forks = 0  # that lead from the first process to this one


def _count_fork() -> None:
    global _num_forks
    _num_forks += 1


if hasattr(os, "register_at_fork"):  # Windows imports this module, and has no forks
    os.register_at_fork(after_in_child=_count_fork)


class Origin:
    """The process that made this object, without a system call."""

    __slots__ = ("_num_forks",)

    def __init__(self) -> None:
        self._num_forks = _num_forks

    def is_here(self) -> bool:
        """Whether the calling process made this object, and is no child of it."""
        return self._num_forks == _num_forks


def only_here(function: Callable[_Params, object]) -> Callable[_Params, None]:
    """A function that does nothing in a child that is forked later, for finalizers of what the parent still uses."""
    origin = Origin()

    @functools.wraps(function)
    def call(*args: _Params.args, **kwargs: _Params.kwargs) -> None:
        if origin.is_here():
            function(*args, **kwargs)

    return call
