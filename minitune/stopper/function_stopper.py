"""FunctionStopper: a function decides."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from minitune.error import InvalidArgumentError
from minitune.stopper.stopper import Stopper


class FunctionStopper(Stopper):
    """Ends a trial when a function says so.

    Args:
        function: Takes the trial's id and its result, nested; returns whether the trial is to end.

    Raises:
        InvalidArgumentError: If it cannot be called with these two.
    """

    def __init__(self, function: Callable[[str, dict[str, Any]], bool]):
        if not callable(function) or isinstance(function, type):
            raise InvalidArgumentError(f"a stop function must be callable as f(trial_id, result), but got {function!r}")
        try:
            inspect.signature(function).bind("trial_id", {})
        except TypeError as error:
            raise InvalidArgumentError(
                f"a stop function must take (trial_id, result), but {function!r} has {error}"
            ) from None
        except ValueError:
            pass  # a built-in that does not tell its signature
        self._function = function

    def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
        """See `Stopper.__call__`."""
        return bool(self._function(trial_id, result))

    def describe(self) -> str:
        """See `Stopper.describe`."""
        return f"{getattr(self._function, '__name__', type(self._function).__name__)}() said so"

    def get_state(self) -> dict[str, Any]:
        """Nothing: a function is part of the program."""
        return {}

    @classmethod
    def is_valid_function(cls, fn: Any) -> bool:
        """Whether `fn` is a plain function to stop by, and no Stopper."""
        return callable(fn) and not isinstance(fn, (Stopper, type))
