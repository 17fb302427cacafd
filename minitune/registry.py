"""Trainables and environment creators by name, for this process."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

_trainables: dict[str, Any] = {}
_env_creators: dict[str, Callable[..., Any]] = {}


def register_trainable(name: str, trainable: Any, warn: bool = True) -> None:
    """Make `name` usable wherever a trainable is expected.

    Args:
        name: Any text.
        trainable: A function or a `Trainable` subclass.
        warn: Accepted for Ray Tune's signature.

    Raises:
        TypeError: If `name` is not text or `trainable` cannot be called.
    """
    if not isinstance(name, str):
        raise TypeError(f"name must be text, but got {name!r}")
    if not callable(trainable):
        raise TypeError(f"trainable must be a function or a Trainable subclass, but got {trainable!r}")
    _trainables[name] = trainable


def get_trainable(name: str) -> Any:
    """The trainable that was registered as `name`.

    Raises:
        KeyError: If there is none; the text lists the known names.
    """
    try:
        return _trainables[name]
    except KeyError:
        known = ", ".join(sorted(_trainables)) or "none so far"
        raise KeyError(f"no trainable is registered as {name!r} (known: {known}); see register_trainable") from None


def register_env(name: str, creator: Callable[..., Any]) -> None:
    """Register a creator of environments; trials whose `config["env"]` is `name` can fetch it.

    Raises:
        TypeError: If `creator` cannot be called.
    """
    if not callable(creator):
        raise TypeError(f"creator must be callable, but got {creator!r}")
    _env_creators[name] = creator


def has_env_creator(name: str) -> bool:
    """Whether a creator of environments is registered as `name`."""
    return name in _env_creators


def get_env_creator(name: str) -> Callable[..., Any]:
    """The creator that was registered as `name`.

    Raises:
        KeyError: If there is none.
    """
    try:
        return _env_creators[name]
    except KeyError:
        raise KeyError(f"no environment is registered as {name!r}; see register_env") from None
