"""Warnings that are worth saying once."""

from __future__ import annotations

import logging

logger = logging.getLogger("minitune")

_said: set[str] = set()


def warn_once(text: str, about: str | None = None) -> None:
    """Log a warning, the first time that this process comes to it.

    Args:
        text: The warning.
        about: What it is about, where the text itself differs from one time to the next.
    """
    key = about or text
    if key not in _said:
        _said.add(key)
        logger.warning("%s", text)
