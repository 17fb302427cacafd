"""DictStopper: limits by metric, `{"training_iteration": 10, "eval/loss": ("<=", 0.1)}`."""

from __future__ import annotations

import logging
import operator
from collections.abc import Callable, Mapping
from typing import Any

from minitune.stopper.stopper import MISSING, Stopper, lookup

_log = logging.getLogger("minitune")

_OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    ">=": operator.ge,
    ">": operator.gt,
    "<=": operator.le,
    "<": operator.lt,
    "==": operator.eq,
}


class DictStopper(Stopper):
    """Ends a trial as soon as one of its metrics reaches a limit.

    Args:
        criteria: By metric name, flattened or nested as in a result, a value that the metric must reach
            (`metric >= value`), or a pair of an operator (`>=`, `>`, `<=`, `<`, `==`) and a value.

    Raises:
        ValueError: If a key is no text or stands for a metric that another one stands for, or a value is no limit.
    """

    def __init__(self, criteria: Mapping[str, Any]):
        self._criteria = {name: _read(name, limit) for name, limit in flat_criteria(criteria).items()}
        self._warned: list[str] = []
        self._reached = ""

    def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
        """See `Stopper.__call__`."""
        self._reached = self._reason(result, lookup)
        return bool(self._reached)

    def describe(self) -> str:
        """See `Stopper.describe`."""
        return self._reached

    def reason(self, flat_result: Mapping[str, Any]) -> str:
        """Which limit a flattened result has reached, in words; empty if none."""
        return self._reason(flat_result, lambda result, name: result.get(name, MISSING))

    def _reason(self, result: Mapping[str, Any], find: Callable[[Mapping[str, Any], str], Any]) -> str:
        for name, (sign, limit) in self._criteria.items():
            value = find(result, name)
            if value is MISSING:
                self._warn_once(name, "it is not among the reported keys")
                continue
            try:
                if _OPERATORS[sign](value, limit):
                    return f"{name} {sign} {limit} was reached"
            except Exception as error:  # whatever a comparison of foreign types or arrays raises
                self._warn_once(name, f"its value {type(value).__name__} does not compare ({error})")
        return ""

    def _warn_once(self, name: str, why: str) -> None:
        if name not in self._warned:
            self._warned.append(name)
            _log.warning("The stop criterion %r has no effect for now: %s.", name, why)

    def get_state(self) -> dict[str, Any]:
        """The keys that a warning was given for."""
        return {"warned": list(self._warned)}

    def set_state(self, state: dict[str, Any]) -> None:
        """Take over the warnings given."""
        self._warned = list(state["warned"])


def flat_criteria(criteria: Mapping[str, Any]) -> dict[str, Any]:
    """A nested criterion under the names of flattened metrics: `{"eval": {"loss": 1}}` becomes `{"eval/loss": 1}`.

    Raises:
        ValueError: If a key is no text, a part is empty, or two keys stand for one metric.
    """
    flat: dict[str, Any] = {}
    waiting = list(criteria.items())
    while waiting:
        name, limit = waiting.pop(0)
        if not isinstance(name, str):
            raise ValueError(f"the keys of a stop criterion must be metric names, but got {name!r}")
        if not isinstance(limit, Mapping):
            if name in flat:
                raise ValueError(f"each metric must have one stop criterion, but {name!r} has two")
            flat[name] = limit
        elif not limit:
            raise ValueError(f"a stop criterion must hold a limit, but {name!r} holds an empty dict")
        else:
            waiting[:0] = [(f"{name}/{key}" if isinstance(key, str) else key, part) for key, part in limit.items()]
    return flat


def _read(name: str, limit: Any) -> tuple[str, Any]:
    """One criterion as operator and value."""
    sign = ">="
    if isinstance(limit, (tuple, list)):
        if len(limit) != 2 or limit[0] not in _OPERATORS:
            raise ValueError(
                f"a limit must be a value or a pair such as ('<=', 0.1) with one of {' '.join(_OPERATORS)}, "
                f"but {name!r} holds {limit!r}"
            )
        sign, limit = limit
    if limit is None or callable(limit) or limit != limit:
        raise ValueError(f"the limit of stop criterion {name!r} must be a value to compare with, but got {limit!r}")
    return sign, limit
