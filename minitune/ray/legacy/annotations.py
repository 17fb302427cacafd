"""`ray.util.annotations`: decorators that say how stable an interface is. They return what they decorate."""

from __future__ import annotations

import functools
import warnings
from typing import Any


class RayDeprecationWarning(DeprecationWarning):
    """The category of the warnings of `Deprecated`."""


def PublicAPI(*args: Any, **options: Any) -> Any:
    """Decorate a function or a class that users may use. The options, such as `stability`, are for readers alone."""
    return args[0] if args else _same


def DeveloperAPI(*args: Any, **options: Any) -> Any:
    """Decorate a function or a class for those who extend a library. See `PublicAPI`."""
    return args[0] if args else _same


def Deprecated(*args: Any, message: str = "", warning: bool = False) -> Any:
    """Decorate a function or a class that should no longer be used."""
    if args:
        return args[0]
    return functools.partial(_with_warning, message=message) if warning else _same


def _same(decorated: Any) -> Any:
    return decorated


def _with_warning(decorated: Any, message: str) -> Any:
    if isinstance(decorated, type):
        decorated.__init__ = _with_warning(decorated.__init__, message)  # type: ignore[misc]  # of the user's own class
        return decorated

    @functools.wraps(decorated)
    def warned(*args: Any, **kwargs: Any) -> Any:
        text = f"{decorated.__qualname__} is deprecated. {message}".strip()
        warnings.warn(text, RayDeprecationWarning, stacklevel=2)
        return decorated(*args, **kwargs)

    return warned
