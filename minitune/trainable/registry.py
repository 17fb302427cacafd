"""The registered trainables of this process, by name."""

from __future__ import annotations

from typing import Any

from minitune import error as errors
from minitune.base import checks  # imported as a module, because all names of this module are public

_trainables: dict[str, Any] = {}


def register_trainable(name: str, trainable: Any, warn: bool = True) -> None:
    """Register a trainable, whose name can then be used for it. A later one replaces it.

    Args:
        name: Any string.
        trainable: A function or a `Trainable` subclass.
        warn: For Ray Tune's signature.

    Raises:
        TypeError: If an argument has another type.
        ValueError: If the function cannot be called with only the configuration.
    """
    from minitune.trainable.util import validate_trainable as validate

    if not isinstance(name, str):
        raise TypeError(f"name must be text, but got {checks.shown(name)}")
    validate(trainable)
    _trainables[name] = trainable


def get_trainable(name: str) -> Any:
    """The trainable that is registered as `name`.

    Raises:
        KeyError: If there is none. The text lists the known names.
    """
    try:
        return _trainables[name]
    except KeyError:
        known = ", ".join(sorted(_trainables)) or "none so far"
        raise KeyError(f"no trainable is registered as {name!r} (known: {known}); see register_trainable") from None


def get_trainable_cls(trainable_name: str) -> Any:
    """The class that is registered under a name; or the function, which has no class form.

    Raises:
        InvalidArgumentError: If there is none.
    """
    validate_trainable(trainable_name)
    return _trainables[trainable_name]


def validate_trainable(trainable_name: str) -> None:
    """Check that a trainable is registered under a name.

    Raises:
        InvalidArgumentError: If there is none.
    """
    try:
        get_trainable(trainable_name)
    except KeyError as error:
        raise errors.InvalidArgumentError(error.args[0]) from None
