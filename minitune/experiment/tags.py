"""Tags: a trial's searched parameters as text that is fit for file names."""

from __future__ import annotations

import numbers
import os
import re
from collections.abc import Mapping
from enum import Enum
from itertools import islice
from typing import Any

Path = tuple[Any, ...]
"""The way to a value in a tree: dict keys and list indices."""

_LIMIT = 1_000
"""Characters of a value, and members of a container, that are looked at. A name has room for far fewer."""


def format_vars(resolved_vars: Mapping[Path, Any]) -> str:
    """Format searched parameters for a tag, fit for file names.

    Args:
        resolved_vars: Values by path, such as `{("model", "width"): 64}`.

    Returns:
        `"width=64,..."`, sorted by path. Floats have four digits; objects are given by name.
    """
    pairs = sorted(resolved_vars.items(), key=lambda item: path_key(item[0]))
    return ",".join(f"{_clean(path[-1])}={_clean(value)}" for path, value in pairs)


def format_tag(counter: int, resolved_vars: Mapping[Path, Any]) -> str:
    """A trial's tag: `"<counter>_k=v,k2=v2"`, or the counter alone if nothing is searched."""
    return f"{counter}_{format_vars(resolved_vars)}" if resolved_vars else str(counter)


def path_key(path: Path) -> tuple[tuple[bool, int, str], ...]:
    """A sort key for paths: indices by number, before names by text."""
    return tuple((False, key, "") if isinstance(key, int) else (True, 0, str(key)) for key in path)


def _clean(value: Any) -> str:
    try:
        text = _text(value)
    except Exception:  # no text of that many digits, a list in itself, or whatever an object's methods raise
        text = type(value).__name__
    is_number = isinstance(value, numbers.Real) and not isinstance(value, numbers.Integral)
    return text if is_number else re.sub(r"[^a-zA-Z0-9_-]+", "_", text).strip("_")


def _text(value: Any) -> str:
    if isinstance(value, Enum):
        return value.name
    if isinstance(value, numbers.Real) and not isinstance(value, numbers.Integral):
        return f"{float(value):.4g}"
    if isinstance(value, (str, bytes)):
        return str(value[:_LIMIT])
    if value is None or isinstance(value, (numbers.Number, os.PathLike)):
        return str(value)
    if isinstance(value, Mapping):
        return "_".join(f"{_text(key)}_{_text(member)}" for key, member in islice(value.items(), _LIMIT))
    if isinstance(value, (list, tuple, set, frozenset)):
        return "_".join(_text(member) for member in islice(value, _LIMIT))
    if getattr(value, "shape", None) == () and hasattr(value, "item"):
        return str(value.item())
    return str(getattr(value, "__name__", None) or type(value).__name__)
