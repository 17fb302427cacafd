"""Checks of arguments: each refuses a bad one at once, with its name, the rule and the value."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable, Mapping
from numbers import Integral, Real
from typing import Any, TypeGuard, TypeVar

from minitune.base.text import ShortRepr, warn_once

_Creator = TypeVar("_Creator")
_Made = TypeVar("_Made")

_REPR = ShortRepr(level=3)


def shown(value: object) -> str:
    """`value` as an error text shows it, shortened."""
    return _REPR.repr(value)


def of_class(value: object) -> str:
    """The way out where a class was passed for an object of it; empty for anything else."""
    return f"; make an object of it: {value.__name__}(...)" if isinstance(value, type) else ""


def require(condition: bool, rule: str, got: object) -> None:
    """Refuse a bad argument.

    Args:
        condition: Must be true.
        rule: The argument's name, a colon, and the rule.
        got: The offending value.

    Raises:
        ValueError: If `condition` is false, with the rule and the value.
    """
    if not condition:
        name, _, what = rule.partition(": ")
        raise ValueError(f"{name} must be {what}, but got {shown(got)}")


def is_whole(value: object) -> TypeGuard[int]:
    """Whether `value` is a whole number of any library; a bool does not count."""
    return isinstance(value, Integral) and not isinstance(value, bool)


def is_real(value: object) -> TypeGuard[float]:
    """Whether `value` is a real number of any library; a bool does not count."""
    return isinstance(value, Real) and not isinstance(value, bool)


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """The part of an error that proposes the known name most like a wrong one; empty if none is like it."""
    from difflib import get_close_matches

    close = get_close_matches(name, list(known), 1)
    return f" (did you mean {close[0]!r}?)" if close else ""


def made_with(kind: Callable[..., _Made], arguments: Mapping[str, Any]) -> _Made:
    """Call a class with those of the arguments that it takes. A warning names the others, once."""
    import inspect  # here, because it takes milliseconds and workers do not need it

    known = inspect.signature(kind).parameters
    dropped = sorted(set(arguments) - set(known))
    if dropped:
        warn_once(
            f"{kind.__name__} does not take {', '.join(dropped)}; left out (it takes {', '.join(known) or 'nothing'})"
        )
    return kind(**{name: value for name, value in arguments.items() if name in known})


def require_flag(name: str, value: object) -> None:
    """Refuse a value that is not a bool: text such as `"no"` would count as true.

    Raises:
        ValueError: If it is text, a container or another object; numbers, numpy's bools and None are accepted.
    """
    require(hasattr(type(value), "__bool__"), f"{name}: True or False", value)


def require_texts(name: str, values: Any) -> None:
    """Refuse a value that is not a list of texts.

    Raises:
        TypeError: If it is not, with the first value that is not text.
    """
    if not isinstance(values, (list, tuple)):
        raise TypeError(f"{name} must be a list of texts, but it is {shown(values)}")
    for index, value in enumerate(values):
        if not isinstance(value, str):
            raise TypeError(f"{name} must hold texts only, but {name}[{index}] is {shown(value)}")


def instance_of(name: str, value: Any, kind: type) -> Any:
    """`value`, or a new object of its kind for None.

    Raises:
        TypeError: If it is of another kind.
    """
    if value is None:
        return kind()
    if not isinstance(value, kind):
        raise TypeError(f"{name} must be a {kind.__name__}, but got {shown(value)}{of_class(value)}")
    return value


def require_metric(name: str, metric: object) -> None:
    """Refuse what is no metric's name.

    Raises:
        ValueError: If it is neither None nor text.
    """
    require(metric is None or isinstance(metric, str), f"{name}: None or the metric's name", metric)


def check_num_samples(num_samples: Any) -> int:
    """Return `num_samples` as an int.

    Raises:
        ValueError: If it is neither an int >= 1 nor -1.
    """
    good = is_whole(num_samples) and (num_samples >= 1 or num_samples == -1)
    require(good, "num_samples: an int >= 1, or -1 for no end", num_samples)
    return int(num_samples)


def duration_s(duration: float | datetime.timedelta | None, name: str) -> float | None:
    """Return a duration in seconds.

    Args:
        duration: Seconds, or a timedelta; None and 0 mean no limit.
        name: Name of the argument, for the error text.

    Returns:
        None for no limit.

    Raises:
        ValueError: If it is not a duration, or negative.
    """
    seconds = duration.total_seconds() if isinstance(duration, datetime.timedelta) else duration
    good = seconds is None or (is_real(seconds) and seconds >= 0)
    require(good, f"{name}: None, a number of seconds >= 0 (0 means no limit), or a timedelta", duration)
    return float(seconds) if seconds else None


def require_creator(creator: _Creator, name: str) -> _Creator:
    """`creator`, if it is None or can be called.

    Raises:
        ValueError: If it is neither.
    """
    require(creator is None or callable(creator), f"{name}: None or a function of the trial", creator)
    return creator
