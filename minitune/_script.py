"""A user's script, run up to its `fit()`: what would be run there is of interest, and nothing is."""

from __future__ import annotations

import os
import sys
import types
from collections.abc import Callable, Sequence
from typing import Any

from minitune.error import TuneError, format_traceback

_wanted: Callable[[Any], bool] | None = None
"""Asked for each plan that is about to be run in this process: whether it is the one that is looked for."""


class _Found(BaseException):
    """Ends the script: a `BaseException`, which no `except Exception` of it may swallow."""

    def __init__(self, plan: Any):
        super().__init__()
        self.plan = plan


def offer(plan: Any) -> None:
    """A plan is about to be run: if this process looks for it, it is not.

    Args:
        plan: The `Plan`.
    """
    if _wanted is not None and _wanted(plan):
        raise _Found(plan)


def plan_of_script(path: str, arguments: Sequence[str], is_wanted: Callable[[Any], bool]) -> Any:
    """Run a script as Python would, as `__main__`, up to the `fit()` or `run()` of a plan. Blocks.

    It stays this process's `__main__`: what the trainable looks up there is found.

    Args:
        path: The script.
        arguments: Its command line.
        is_wanted: Which `Plan` is meant. Those that come before it are run.

    Returns:
        The plan.

    Raises:
        TuneError: If the script has ended without it, or has failed; the text has its traceback.
        OSError: If it cannot be read.
    """
    global _wanted
    file = os.path.abspath(path)
    with open(file, "rb") as script:
        source = script.read()
    main = types.ModuleType("__main__")
    main.__file__ = file
    sys.modules["__main__"] = main
    sys.argv[:], sys.path[:0] = [file, *arguments], [os.path.dirname(file)]
    _wanted = is_wanted
    try:
        exec(compile(source, file, "exec"), vars(main))
    except _Found as found:
        return found.plan
    except Exception as error:
        raise TuneError(f"{path} has failed before its fit():\n{format_traceback(error).rstrip()}") from error
    finally:
        _wanted = None
    raise TuneError(f"{path} has ended without a fit() or run() of the trainable that is looked for")
