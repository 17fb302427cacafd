"""Paths as users give them."""

from __future__ import annotations

import os
import re

from minitune._checks import shown

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")


def local_path(path: str | os.PathLike[str]) -> str:
    """The absolute form of a path that a user gave; `~` and `file://` are understood.

    Raises:
        TypeError: If it is no path.
        ValueError: If it is the address of something that is not on this machine, such as `s3://bucket`.
    """
    if not isinstance(path, (str, os.PathLike)):
        raise TypeError(f"a path must be text or a pathlib.Path, but got {shown(path)}")
    text = os.fspath(path)
    scheme = _SCHEME.match(text)
    if scheme is None:
        return os.path.abspath(os.path.expanduser(text))
    if not text.startswith("file:///"):
        raise ValueError(f"a path must be local, but got {text!r}; mount the storage and pass the path of the mount")
    from urllib.parse import unquote

    return os.path.abspath(unquote(text.removeprefix("file://")))
