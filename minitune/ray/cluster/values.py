"""Shared values on a cluster: Ray's object store brings each of them once to each node that needs it.

A value that the driver has in a file is put there when the first actor refers to it.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from minitune.base import shared_values
from minitune.base.pickling import require_picklable
from minitune.base.shared_values import Held, read_value


class RayValues:
    """The values of a run in Ray's object store, until `close`."""

    def __init__(self, ray: Any):
        self._ray = ray
        self._from_files: dict[str, Any] = {}  # by path
        self._of_all: dict[str, Any] = {}  # those that any actor may need, some of them from files

    def share(self, value: Any) -> Held:
        """Trials on a node share the memory of its large buffers, so arrays are read-only there."""
        token = os.urandom(8).hex()
        with shared_values.noting() as paths:
            try:
                reference = self._ray.put(value)
                self._of_all[token] = reference
            except TypeError:
                require_picklable(value, "the value")  # names the part that is the cause
                raise
        shared_values.fetchers[token] = functools.partial(self._ray.get, reference)
        self._of_all.update(self._put(paths))
        return Held(token)

    def for_actor(self, paths: list[str]) -> list[tuple[str, Any]]:
        """Token or path, and Ray's reference of each value that an actor with these files may need."""
        return [*self._of_all.items(), *self._put(paths)]

    def _put(self, paths: list[str]) -> Iterator[tuple[str, Any]]:
        for path in paths:
            if path not in self._from_files:
                with suppress(FileNotFoundError):  # a task that asks for the value gets the error
                    self._from_files[path] = self._ray.put(read_value(path)[0])
            if path in self._from_files:
                yield path, self._from_files[path]

    def close(self) -> None:
        """Let Ray free the values."""
        for token in self._of_all:
            shared_values.fetchers.pop(token, None)
        self._of_all.clear()
        self._from_files.clear()
