"""Stopper: the contract; CombinedStopper: several as one; and what stoppers share."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from minitune._checks import is_real, require, shown
from minitune.result import flatten

ASKED_EVERY_S = 1.0
"""How often a `stop_all` that does not say when is asked again."""


class Stopper:
    """Base class of stoppers. It stops nothing; override `__call__`, `stop_all`, or both."""

    def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
        """Whether the trial is to end; asked for every result.

        Args:
            trial_id: The trial's id.
            result: Its result, nested.
        """
        return False

    def stop_all(self) -> bool:
        """Whether the whole run is to end; asked in every turn of the driver's loop, so it has to be quick."""
        return False

    def seconds_left(self) -> float | None:
        """In how many seconds `stop_all` has to be asked again although nothing has happened; None: no need.

        A class that has a `stop_all` of its own and does not say when, is asked again every second.
        """
        return None if type(self).stop_all is Stopper.stop_all else ASKED_EVERY_S

    def describe(self) -> str:
        """What has just stopped a trial or the run, for people; asked after the stopper has said that it does."""
        return type(self).__name__

    def get_state(self) -> dict[str, Any]:
        """What has to be saved with the run, as plain data; by default everything."""
        return dict(self.__dict__)

    def set_state(self, state: dict[str, Any]) -> None:
        """Take over what `get_state` returned."""
        self.__dict__.update(state)


class CombinedStopper(Stopper):
    """Stops when any of several stoppers does. All are asked every time, so that those that count miss nothing.

    Args:
        *stoppers: The stoppers.

    Raises:
        ValueError: If one of them is no stopper.
    """

    def __init__(self, *stoppers: Stopper):
        for stopper in stoppers:
            if not isinstance(stopper, Stopper):
                raise ValueError(f"CombinedStopper takes instances of Stopper, one by one, but got {shown(stopper)}")
        self._stoppers = stoppers
        self._which: list[Stopper] = []

    def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
        """See `Stopper.__call__`."""
        return self._note([stopper(trial_id, result) for stopper in self._stoppers])

    def stop_all(self) -> bool:
        """See `Stopper.stop_all`."""
        return self._note([stopper.stop_all() for stopper in self._stoppers])

    def describe(self) -> str:
        """Those of the stoppers that have said so."""
        return " and ".join(stopper.describe() for stopper in self._which) or super().describe()

    def _note(self, answers: list[bool]) -> bool:
        if not any(answers):
            return False
        self._which = [stopper for stopper, answer in zip(self._stoppers, answers, strict=True) if answer]
        return True

    def seconds_left(self) -> float | None:
        """See `Stopper.seconds_left`."""
        waits = [left for stopper in self._stoppers if (left := stopper.seconds_left()) is not None]
        return min(waits, default=None)

    def get_state(self) -> dict[str, Any]:
        """The states in the order of the stoppers."""
        return {"stoppers": [stopper.get_state() for stopper in self._stoppers]}

    def set_state(self, state: dict[str, Any]) -> None:
        """Hand each stopper its state.

        Raises:
            ValueError: If there are more or fewer states than stoppers.
        """
        states = state["stoppers"]
        if len(states) != len(self._stoppers):
            raise ValueError(
                f"{len(states)} stoppers were saved, but there are {len(self._stoppers)}; pass the same ones as before"
            )
        for stopper, one in zip(self._stoppers, states, strict=True):
            stopper.set_state(one)


MISSING = object()
"""What `lookup` returns for a key that is not there."""


def lookup(result: Mapping[str, Any], name: str) -> Any:
    """The value of a metric by its flattened name, such as `eval/loss`; `MISSING` if the result lacks it."""
    value = result.get(name, MISSING)
    if value is MISSING or (isinstance(value, Mapping) and value):
        return flatten(result).get(name, MISSING)
    return value


def number_of(value: Any) -> float | None:
    """`value` as a float, NaN included, or None if it is no number, or `MISSING`."""
    if isinstance(value, (str, bytes, complex)) or getattr(value, "shape", ()) != ():
        return None
    try:
        return float(value)
    except Exception:  # whatever an object of the user's raises
        return None


def spread(values: Sequence[float]) -> float:
    """The standard deviation of `values` (of the population, as numpy's); NaN if one of them is not finite."""
    if not all(map(math.isfinite, values)):
        return math.nan
    mean = sum(values) / len(values)
    # A product overflows to infinity, where a power would raise.
    return math.sqrt(sum((value - mean) * (value - mean) for value in values) / len(values))


def check_whole(name: str, value: Any, least: int) -> int:
    """`value` as an int, if it is a whole number of at least `least`; other libraries' numbers and `1e3` are welcome.

    Raises:
        ValueError: If it is not.
    """
    if not (is_real(value) and float(value).is_integer() and value >= least):
        raise ValueError(f"{name} must be a whole number of at least {least}, but got {shown(value)}")
    return int(value)


def check_metric(metric: Any) -> None:
    """Raise ValueError unless `metric` is a name."""
    require(isinstance(metric, str), "metric: the metric's name", metric)


def check_std(std: Any) -> None:
    """Raise ValueError unless `std` is a positive number."""
    if not (is_real(std) and float(std) > 0):
        raise ValueError(f"std > 0 must hold, but got {std!r}")
