"""Asynchronous code where a plain function is needed: it is named, with the way out."""

from __future__ import annotations

import functools
import inspect
from collections.abc import AsyncGenerator, Coroutine, Generator
from typing import Any


def refuse_async(function: Any, name: str) -> None:
    """Refuse a function, or an object with a `__call__`, that is `async def`.

    Args:
        function: What would be called.
        name: What it is called, for the message.

    Raises:
        TypeError: If it is asynchronous.
    """
    while isinstance(function, functools.partial):
        function = function.func
    ways = (function, type(function).__call__)
    if any(inspect.iscoroutinefunction(way) or inspect.isasyncgenfunction(way) for way in ways):
        raise TypeError(
            f"{name} is an async function, which nobody awaits in a trial: make it a plain function, and run the "
            "asynchronous part inside it with asyncio.run(...)"
        )


def way_out(value: Any) -> str:
    """What to do about a value that was to be metrics but is something that has yet to run; empty for another value.

    A coroutine is closed: that nobody awaits it is told here already.
    """
    if isinstance(value, Coroutine):
        value.close()
        return "; it has not run: return asyncio.run(...) of it in a plain function"
    if isinstance(value, AsyncGenerator):
        return "; it has not run: consume it by an async function that reports, and call that with asyncio.run(...)"
    if isinstance(value, Generator):
        return "; return the metrics of one step, or yield those of all of them from a trainable function"
    return ""
