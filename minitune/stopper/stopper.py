"""Stoppers: they decide when a trial, or the whole run, ends.

They run on the driver's thread, between two events, so they must be quick. If a decision depends on the time,
`seconds_left` returns when the driver must ask again.

A stopper's state is saved with the run: a resumed run continues with the same counts and the rest of its time.
"""

from __future__ import annotations

import datetime
import inspect
import logging
import math
import operator
from bisect import insort
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from minitune.base import clock
from minitune.base.calls import explains_calls
from minitune.base.checks import is_real, require, shown
from minitune.base.numbers import known_number
from minitune.base.saved import Saved
from minitune.error import InvalidArgumentError
from minitune.experiment.goal import check_mode
from minitune.result import MISSING, lookup

logger = logging.getLogger("minitune")

ASKED_EVERY_S = 1.0
"""Seconds between two calls of a user's `stop_all`, if the class does not override `seconds_left`."""
_OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    ">=": operator.ge,
    ">": operator.gt,
    "<=": operator.le,
    "<": operator.lt,
    "==": operator.eq,
}
"""The comparisons of a result with a limit, by default `>=`."""


class Stopper(Saved):
    """Base class of stoppers. It stops nothing; override `__call__`, `stop_all`, or both."""

    _is_goal = False

    def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
        """Whether the trial must end. The driver asks for every result."""
        return False

    def stop_all(self) -> bool:
        """Whether the whole run must end. Asked in every turn of the driver's loop."""
        return False

    def seconds_left(self) -> float | None:
        """The seconds after which the driver calls `stop_all` again even if nothing happens; None for never. By default
        one second for a class that defines `stop_all`.
        """
        if type(self).stop_all is Stopper.stop_all:
            return None
        return ASKED_EVERY_S

    def describe(self) -> str:
        """Why the stopper has just stopped a trial or the run, for users."""
        return type(self).__name__


class CombinedStopper(Stopper):
    """Stops when one of several stoppers stops. All are always called, because some count the results.

    Raises:
        ValueError: If an argument is not a stopper.
    """

    def __init__(self, *stoppers: Stopper):
        for stopper in stoppers:
            if not isinstance(stopper, Stopper):
                raise ValueError(f"CombinedStopper takes instances of Stopper, one by one, but got {shown(stopper)}")
        self.stoppers = stoppers
        self._which: list[Stopper] = []
        self._asked: Stopper | None = None

    @property
    def _passes_on_to(self) -> Stopper | None:  # for `base.plugin_calls`, which names the stopper that has raised
        return self._asked

    def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
        return self._note(lambda stopper: stopper(trial_id, result))

    def stop_all(self) -> bool:
        return self._note(lambda stopper: stopper.stop_all())

    def describe(self) -> str:
        return " and ".join(stopper.describe() for stopper in self._which)

    def _note(self, ask: Callable[[Stopper], bool]) -> bool:
        """Ask all, also after the first True: each must hear every result to count right."""
        which = []
        for stopper in self.stoppers:
            self._asked = stopper
            if ask(stopper):
                which.append(stopper)
        self._asked = None
        self._which = which or self._which
        return bool(which)

    def seconds_left(self) -> float | None:
        waits = [stopper.seconds_left() for stopper in self.stoppers]
        return min((wait_s for wait_s in waits if wait_s is not None), default=None)

    def get_state(self) -> dict[str, Any]:
        return {"stoppers": [stopper.get_state() for stopper in self.stoppers]}

    def set_state(self, state: dict[str, Any]) -> None:
        states = state["stoppers"]
        if len(states) != len(self.stoppers):
            raise ValueError(
                f"{len(states)} stoppers were saved, but there are {len(self.stoppers)}; pass the same ones as before"
            )
        for stopper, one in zip(self.stoppers, states, strict=True):
            stopper.set_state(one)


class NoopStopper(Stopper):
    """Stops nothing."""


def make_stopper(stop: Any) -> Stopper:
    """Convert the argument `stop` to one stopper.

    Raises:
        ValueError: If `stop` has another type, or contains an invalid limit or function.
    """
    if stop is None:
        return NoopStopper()
    if isinstance(stop, Stopper):
        return stop
    if isinstance(stop, Mapping):
        if stop:
            return DictStopper(stop)
        return NoopStopper()
    if isinstance(stop, (list, tuple)):
        if stop:
            return CombinedStopper(*[make_stopper(one) for one in stop])
        return NoopStopper()
    if isinstance(stop, type) and issubclass(stop, Stopper):
        raise ValueError(f"stop must be a stopper, but got the class {stop.__name__}; pass an instance of it")
    if hasattr(stop, "stop_all"):
        raise ValueError(f"an object with stop_all() must be a minitune.Stopper, but got {stop!r}; derive its class")
    if callable(stop):
        return FunctionStopper(stop)
    raise ValueError(
        f"stop must be a dict, a function of (trial_id, result), a Stopper or a list, but got {shown(stop)}"
    )


# -- one trial --------------------------------------------------------------------------------------------------------


class DictStopper(Stopper):
    """Ends a trial as soon as one of its metrics reaches a limit.

    Args:
        criteria: A limit for each metric, such as `a/b` for a nested one. A limit is a value that the metric must reach
            (`>=`), or a pair of an operator (`>=`, `>`, `<=`, `<`, `==`) and a value.

    Raises:
        ValueError: If a key is not a string, or a value is not a limit.
    """

    _STATE = ("_warned",)

    def __init__(self, criteria: Mapping[str, Any]):
        require(isinstance(criteria, Mapping), "criteria: a dict of metrics and limits", criteria)
        self._criteria = {name: _read(name, limit) for name, limit in criteria.items()}
        self._warned: list[str] = []
        self._reached = ""

    def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
        self._reached = self._reason(result, lookup)
        return bool(self._reached)

    def describe(self) -> str:
        return self._reached

    def reason(self, flat_result: Mapping[str, Any]) -> str:
        """The limit that a flattened result has reached, as text; empty if there is none."""
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
            except Exception as error:  # a comparison of foreign types or arrays may raise anything
                self._warn_once(name, f"its value {type(value).__name__} does not compare ({error})")
        return ""

    def _warn_once(self, name: str, why: str) -> None:
        if name not in self._warned:
            self._warned.append(name)
            logger.warning("The stop criterion %r has no effect for now: %s.", name, why)


def _read(name: str, limit: Any) -> tuple[str, Any]:
    """The operator and the value of one criterion."""
    if not isinstance(name, str):
        raise ValueError(f"the keys of a stop criterion must be metric names, but got {name!r}")
    if isinstance(limit, Mapping):
        raise ValueError(
            f"a stop criterion must hold a limit, but {name!r} holds {limit!r}; join the names of a nested metric, as "
            f"in '{name}/loss'"
        )
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


class FunctionStopper(Stopper):
    """Ends a trial when a function of its id and its nested result returns True.

    Raises:
        InvalidArgumentError: If the function cannot be called with two arguments.
    """

    _STATE = ()

    def __init__(self, function: Callable[[str, dict[str, Any]], bool]):
        if not self.is_valid_function(function):
            raise InvalidArgumentError(f"a stop function must be callable as f(trial_id, result), but got {function!r}")
        try:
            inspect.signature(function).bind("trial_id", {})
        except TypeError as error:
            raise InvalidArgumentError(
                f"a stop function must take (trial_id, result), but {function!r} has {error}"
            ) from None
        except ValueError:
            pass  # a built-in without a signature
        self._function = function

    def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
        return bool(self._function(trial_id, result))

    def describe(self) -> str:
        return f"{getattr(self._function, '__name__', type(self._function).__name__)}() returned True"

    @classmethod
    def is_valid_function(cls, fn: Any) -> bool:
        """Whether `fn` can be a stop function: it is callable, and neither a stopper nor a class."""
        return callable(fn) and not isinstance(fn, (Stopper, type))


@explains_calls
class MaximumIterationStopper(Stopper):
    """Ends a trial after a number of results. It does not read `training_iteration`.

    Args:
        max_iter: The number of results.

    Raises:
        ValueError: If `max_iter` is not a whole number >= 1.
    """

    _STATE = ("_counts",)

    def __init__(self, max_iter: int):
        self._max_iter = _check_whole("max_iter", max_iter, 1)
        self._counts: dict[str, int] = {}

    def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
        count = self._counts.get(trial_id, 0) + 1
        self._counts[trial_id] = count
        return count >= self._max_iter

    def describe(self) -> str:
        return f"{self._max_iter} results were reported"


@explains_calls
class TrialPlateauStopper(Stopper):
    """Ends a trial when the standard deviation of its last values falls below a limit.

    Args:
        metric: The metric's name, such as `a/b` for a nested one. A result without it counts only for `grace_period`.
        std: The limit.
        num_results: How many of the last values are used.
        grace_period: The number of results that a trial has before it can end.
        metric_threshold: End only trials whose value is at most (mode `min`) or at least (mode `max`) this.
        mode: `min` or `max`; required with a threshold.

    Raises:
        ValueError: If an argument is out of range.
    """

    _STATE = ("_counts", "_last")

    def __init__(
        self,
        metric: str,
        std: float = 0.01,
        num_results: int = 4,
        grace_period: int = 4,
        metric_threshold: float | None = None,
        mode: str | None = None,
    ):
        require(isinstance(metric, str), "metric: the metric's name", metric)
        _check_std(std)
        if mode not in (None, "min", "max") or (metric_threshold is not None and mode is None):
            raise ValueError(f"mode must be 'min' or 'max' (None without a metric_threshold), but got {shown(mode)}")
        if metric_threshold is not None and known_number(metric_threshold) is None:
            raise ValueError(f"metric_threshold must be a number, but got {shown(metric_threshold)}")
        self._metric = metric
        self._std = std
        self._num_results = _check_whole("num_results", num_results, 1)
        self._grace_period = _check_whole("grace_period", grace_period, 0)
        self._threshold = metric_threshold
        self._mode = mode
        self._counts: dict[str, int] = {}
        self._last: dict[str, list[float]] = {}

    def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
        # A result without the metric counts for the grace period: the trial has trained nevertheless.
        count = self._counts.get(trial_id, 0) + 1
        self._counts[trial_id] = count
        value = known_number(lookup(result, self._metric))
        if value is None:
            return False
        last = self._last.setdefault(trial_id, [])
        last.append(value)
        del last[: -self._num_results]
        if count < self._grace_period or len(last) < self._num_results:
            return False
        return self._is_past(value) and _spread(last) < self._std

    def _is_past(self, value: float) -> bool:
        if self._threshold is None:
            return True
        if self._mode == "min":
            return value <= self._threshold
        return value >= self._threshold


# -- the whole run ----------------------------------------------------------------------------------------------------


@explains_calls
class ExperimentPlateauStopper(Stopper):
    """Ends the run when the best values of all trials have been close together for long enough.

    Args:
        metric: The metric's name, such as `a/b` for a nested one. Results without it, and NaN, are ignored.
        std: The best values are close if their standard deviation is at most this value.
        top: How many of the best values are used.
        mode: `min` or `max`.
        patience: For how many results the best values must stay close.

    Raises:
        ValueError: If an argument is out of range.
    """

    _STATE = ("_losses", "_close_for")

    def __init__(self, metric: str, std: float = 0.001, top: int = 10, mode: str = "min", patience: int = 0):
        check_mode(mode)
        require(isinstance(metric, str), "metric: the metric's name", metric)
        _check_std(std)
        self._metric = metric
        self._std = std
        self._top = _check_whole("top", top, 2)
        self._mode = mode
        self._patience = _check_whole("patience", patience, 0)
        self._losses: list[float] = []
        self._close_for = 0

    def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
        value = known_number(lookup(result, self._metric))
        if value is None:
            return self.stop_all()
        loss = value if self._mode == "min" else -value
        insort(self._losses, loss)
        del self._losses[self._top :]
        if self.has_plateaued():
            self._close_for += 1
        else:
            self._close_for = 0
        return self.stop_all()

    def has_plateaued(self) -> bool:
        """Whether the best values are close together now."""
        return len(self._losses) == self._top and _spread(self._losses) <= self._std

    def seconds_left(self) -> None:
        """None, because only a result can change the answer."""

    def stop_all(self) -> bool:
        return self._close_for >= self._patience and self.has_plateaued()


@explains_calls
class TimeoutStopper(Stopper):
    """Ends the run when its time budget is used up.

    The time starts at the first `stop_all()`. A resumed run continues with the remaining time.

    Args:
        timeout: Seconds, or a timedelta; infinity for no limit.

    Raises:
        ValueError: If `timeout` has another type or is negative.
    """

    _STATE = ("_used_s",)  # the limit may be another one after a resume

    def __init__(self, timeout: float | datetime.timedelta):
        seconds: Any = timeout.total_seconds() if isinstance(timeout, datetime.timedelta) else timeout
        if not (is_real(seconds) and seconds >= 0):
            raise ValueError(f"timeout must be seconds (timeout >= 0) or a timedelta, but got {timeout!r}")
        self._timeout_s = float(seconds)
        self._used_s = 0.0
        self._last_check_s: float | None = None
        self._has_told = False

    def stop_all(self) -> bool:
        self._settle(start=True)
        if self._used_s < self._timeout_s:
            return False
        if not self._has_told:
            self._has_told = True
            logger.info("The time budget of %g s is used up: all trials are stopped.", self._timeout_s)
        return True

    def describe(self) -> str:
        return f"the time budget of {round(self._timeout_s, 2) or self._timeout_s:g} s is used up"

    def seconds_left(self) -> float | None:
        self._settle()
        if math.isfinite(self._timeout_s):
            return max(0.0, self._timeout_s - self._used_s)
        return None

    def _share_left(self) -> float:
        """The share of its time that is left, from 1 to 0."""
        left_s = self.seconds_left()
        return left_s / self._timeout_s if left_s else float(left_s is None)

    def get_state(self) -> dict[str, Any]:
        self._settle()
        return super().get_state()

    def set_state(self, state: dict[str, Any]) -> None:
        """Restore the time used. The time since `get_state` does not count."""
        super().set_state(state)
        self._last_check_s = None

    def _settle(self, start: bool = False) -> None:
        if self._last_check_s is None and not start:
            return
        now_s = clock.current.monotonic()
        if self._last_check_s is not None:
            self._used_s += now_s - self._last_check_s
        self._last_check_s = now_s


def is_goal_of(stopper: Stopper) -> bool:
    """Whether the user wants the end that it causes."""
    if isinstance(stopper, CombinedStopper):
        return any(map(is_goal_of, stopper._which))
    return stopper._is_goal


def share_of_time_left(stopper: Stopper) -> float:
    """The share of its time that a `TimeoutStopper`, alone or in a `CombinedStopper`, has left; 1 without one."""
    if isinstance(stopper, CombinedStopper):
        return min(map(share_of_time_left, stopper.stoppers), default=1.0)
    if isinstance(stopper, TimeoutStopper):
        return stopper._share_left()
    return 1.0


# -- values and checks ------------------------------------------------------------------------------------------------


def _spread(values: Sequence[float]) -> float:
    """The population standard deviation of `values`, as in numpy; NaN if a value is not finite."""
    mean = sum(values) / len(values)
    distances = [value - mean for value in values]
    # A product overflows to infinity; a power would raise an error.
    variance = sum(distance * distance for distance in distances) / len(values)
    return math.sqrt(variance)


def _check_whole(name: str, value: Any, least: int) -> int:
    """Convert a whole number that is at least `least` to an int."""
    if not (is_real(value) and float(value).is_integer() and value >= least):
        raise ValueError(f"{name} must be a whole number of at least {least}, but got {shown(value)}")
    return int(value)


def _check_std(std: Any) -> None:
    if not (is_real(std) and float(std) > 0):
        raise ValueError(f"expected std > 0, but got {std!r}")
