"""Searchers and schedulers in their state before any run, so that one object can serve several runs."""

from __future__ import annotations

import copy
import logging
import weakref
from typing import Any, TypeVar

logger = logging.getLogger("minitune")

_Plugin = TypeVar("_Plugin")

_before: dict[int, Any] = {}
"""By id of a plug-in that some run has used, a copy from before its first one, or why there is none."""


def for_this_run(plugin: _Plugin) -> _Plugin:
    """A searcher or scheduler for one run: itself for its first, for another one a copy of what it was before that.

    So two runs with one object know nothing of each other, in whichever order they come.

    Raises:
        ValueError: If it was used before and cannot be copied.
    """
    if id(plugin) not in _before:
        try:
            _before[id(plugin)] = copy.deepcopy(plugin)
        except Exception as error:  # whatever the parts of a user's class raise
            _before[id(plugin)] = error
        # by id and not in a weak dict: a user's class need not be hashable
        weakref.finalize(plugin, _before.pop, id(plugin), None).atexit = False
        return plugin
    before = _before[id(plugin)]
    if isinstance(before, Exception):
        raise ValueError(
            f"this {type(plugin).__name__} was used by an earlier run and cannot be copied ({before}); make a new one"
        ) from before
    logger.info("this %s was used by an earlier run: a copy of what it was before is used", type(plugin).__name__)
    fresh: _Plugin = copy.deepcopy(before)
    return fresh


def before_any_run(plugin: Any) -> Any:
    """A searcher or scheduler as it was before its first run; itself where nothing better is known of it."""
    before = _before.get(id(plugin), plugin)
    return plugin if isinstance(before, Exception) else before
