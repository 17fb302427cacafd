"""Checks of arguments. An error names the argument, the rule and the value."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, TypeGuard, TypeVar

from minitune.base.numbers import has_unit
from minitune.base.text import ShortRepr, warn_once

if TYPE_CHECKING:
    import datetime

_Creator = TypeVar("_Creator")
_Made = TypeVar("_Made")

_REPR = ShortRepr(level=3)


def shown(value: object) -> str:
    """A short text of `value` for an error."""
    return _REPR.repr(value)


def of_class(value: object) -> str:
    """The hint for an error if `value` is a class in place of an object; else empty."""
    if isinstance(value, type):
        return f"; make an object of it: {value.__name__}(...)"
    return ""


def require(condition: bool, rule: str, got: object) -> None:
    """Raise a ValueError that names the rule and the value, if `condition` is false."""
    if not condition:
        name, _, what = rule.partition(": ")
        raise ValueError(f"{name} must be {what}, but got {shown(got)}")


def is_whole(value: object) -> TypeGuard[int]:
    """Whether the argument `value` is a whole number of any library; a bool does not count."""
    return isinstance(value, Integral) and not isinstance(value, bool) and not has_unit(value)


def is_real(value: object) -> TypeGuard[float]:
    """Whether the argument `value` is a real number of any library; a bool does not count."""
    return isinstance(value, Real) and not isinstance(value, bool) and not has_unit(value)


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """The hint for an error: the known name most similar to `name`, or empty."""
    from difflib import get_close_matches

    close = get_close_matches(name, list(known), 1)
    return f" (did you mean {close[0]!r}?)" if close else ""


def made_with(kind: Callable[..., _Made], arguments: Mapping[str, Any]) -> _Made:
    """Call a class with the arguments that it takes. A warning names the others."""
    import inspect  # here, because it takes milliseconds and workers do not need it

    known = inspect.signature(kind).parameters
    dropped = sorted(set(arguments) - set(known))
    if dropped:
        warn_once(
            f"{kind.__name__} does not take {', '.join(dropped)}; left out (it takes {', '.join(known) or 'nothing'})"
        )
    return kind(**{name: value for name, value in arguments.items() if name in known})


def require_flag(name: str, value: object) -> None:
    """Require a bool. Text such as `"no"` would count as true.

    Raises:
        ValueError: If the value is neither a bool, a number nor None.
    """
    require(hasattr(type(value), "__bool__"), f"{name}: True or False", value)


def require_texts(name: str, values: Any) -> None:
    """Require a list of texts; otherwise raise a TypeError."""
    if not isinstance(values, (list, tuple)):
        raise TypeError(f"{name} must be a list of texts, but it is {shown(values)}")
    for index, value in enumerate(values):
        if not isinstance(value, str):
            raise TypeError(f"{name} must hold texts only, but {name}[{index}] is {shown(value)}")


def instance_of(name: str, value: Any, kind: type) -> Any:
    """`value`, or a new object of `kind` for None. TypeError: another class."""
    if value is None:
        return kind()
    if not isinstance(value, kind):
        raise TypeError(f"{name} must be a {kind.__name__}, but got {shown(value)}{of_class(value)}")
    return value


def require_metric(name: str, metric: object) -> None:
    """Require None or text; otherwise raise a ValueError."""
    require(metric is None or isinstance(metric, str), f"{name}: None or the metric's name", metric)


def check_num_samples(num_samples: Any) -> int:
    """`num_samples` as an int. ValueError: it is neither >= 1 nor -1."""
    good = is_whole(num_samples) and (num_samples >= 1 or num_samples == -1)
    require(good, "num_samples: an int >= 1, or -1 for no end", num_samples)
    return int(num_samples)


def duration_s(duration: float | datetime.timedelta | None, name: str) -> float | None:
    """Seconds or a timedelta as seconds; None for None and 0, which mean no limit.

    Raises:
        ValueError: If it is not a duration, or negative.
    """
    import datetime  # here, because workers, which load this module, need none

    seconds: Any = duration
    if isinstance(duration, datetime.timedelta):
        seconds = duration.total_seconds()
    good = seconds is None or (is_real(seconds) and seconds >= 0)
    require(good, f"{name}: None, a number of seconds >= 0 (0 means no limit), or a timedelta", duration)
    return float(seconds) if seconds else None


def require_creator(creator: _Creator, name: str) -> _Creator:
    """Return `creator` if it is None or callable; otherwise raise a ValueError."""
    require(creator is None or callable(creator), f"{name}: None or a function of the trial", creator)
    return creator
