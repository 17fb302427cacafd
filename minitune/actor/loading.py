"""Pickles in a worker: objects of the driver's main module, plain arguments, and replies."""

from __future__ import annotations

import io
import pickle
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

_PACKAGE = __name__.partition(".")[0]
_DEEP_RECURSION = 5_000
"""Recursion limit for values whose nesting is too deep for the usual one, which allows about 490 levels. Each level
takes less than 500 bytes of a stack of 8 MB."""
_STATE_SETTERS = ("_class_setstate", "_function_setstate")


class UserCodeNeededError(Exception):
    """The pickle names a class or function that is not ours, so that loading it may run user code."""


class _ValueUnpickler(pickle.Unpickler):
    """Enters what was pickled by value into the `__main__` of this process.

    cloudpickle sends classes and functions of the driver's main module by value. Here `__main__` is another module,
    so that pickling an instance of such a class by reference, as `pickle` and `torch.save` do, would not find it.
    """

    def find_class(self, module: str, name: str) -> Any:
        found = super().find_class(module, name)
        if name in _STATE_SETTERS and module.partition(".")[0] == "cloudpickle":
            return _entering(found)
        return found


def _entering(set_state: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap the function of cloudpickle that fills in a class or function."""

    def set_state_and_enter(made: Any, state: Any) -> Any:
        result = set_state(made, state)
        name = getattr(made, "__qualname__", "")
        if getattr(made, "__module__", None) == "__main__" and name.isidentifier():
            setattr(sys.modules["__main__"], name, made)
        return result

    return set_state_and_enter


class _PlainUnpickler(pickle.Unpickler):
    """Refuses everything whose loading could run code of others."""

    def find_class(self, module: str, name: str) -> Any:
        if module.partition(".")[0] == _PACKAGE and module in sys.modules:
            return super().find_class(module, name)
        raise UserCodeNeededError(f"{module}.{name}")


def load_value(data: bytes) -> Any:
    """Unpickle what cloudpickle has pickled in the driver. May run user code and import modules.

    Args:
        data: The pickle.

    Returns:
        The object.

    Raises:
        Exception: Whatever the object's own loading raises.
    """
    return _ValueUnpickler(io.BytesIO(data)).load()


def load_plain(data: bytes) -> Any:
    """Unpickle numbers, texts, built-in containers and our own values; runs no code of others.

    Raises:
        UserCodeNeededError: If there is anything else in it.
    """
    return _PlainUnpickler(io.BytesIO(data)).load()


class _WaryPickler(pickle.Pickler):
    """Notes whether it has met anything but numbers, texts and built-in containers."""

    is_plain = True

    def reducer_override(self, value: Any) -> Any:
        """Called for everything else, before it is pickled; what is ours counts as plain, and so do our classes."""
        kind = value if isinstance(value, type) else type(value)
        if kind.__module__.partition(".")[0] != _PACKAGE:
            self.is_plain = False
        return NotImplemented


def dump_value(value: Any) -> bytes:
    """Pickle a value for the driver, by reference where that works: an object of the driver's main module is there.

    What only this process knows goes by value. What is not plain is loaded again at once: an object that cannot be
    loaded, or that ends the process that loads it, is to hurt this process and not the driver.

    Raises:
        Exception: Whatever the object's own pickling or loading raises.
    """
    try:
        return _dump_value(value)
    except RecursionError:
        with _deep_recursion():
            return _dump_value(value)


@contextmanager
def _deep_recursion() -> Iterator[None]:
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(max(before, _DEEP_RECURSION))
    try:
        yield
    finally:
        sys.setrecursionlimit(before)


def _dump_value(value: Any) -> bytes:
    buffer = io.BytesIO()
    pickler = _WaryPickler(buffer, pickle.HIGHEST_PROTOCOL)
    try:
        pickler.dump(value)
        data = buffer.getvalue()
    except RecursionError:
        raise
    except Exception:
        import cloudpickle

        data = cloudpickle.dumps(value)
    if not pickler.is_plain:
        pickle.loads(data)
    return data
