"""Numbers: the only place that says which reported values are numbers.

A number is a value that `float()` takes and that has one element and no unit: an int, a float, a Fraction, a Decimal, a
scalar of NumPy, JAX, TensorFlow or torch, an array with one element. A text, a bool, a timedelta, a list or an array
with several elements is none. NaN is a number, and so is a masked element of NumPy, as NaN.

`as_objective` converts the value of an objective where it enters.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from numbers import Integral
from typing import Any

_LARGEST = sys.float_info.max
_TIMES = frozenset("mM")
"""The kinds of NumPy's times, which are a number and a unit."""


def as_objective(value: Any, name: str) -> float:
    """The value of the objective `name` as a plain float or int. Whole numbers become ints.

    Raises:
        ValueError: If it is no number.
    """
    if type(value) is float or type(value) is int:
        return value
    number = _plain(value)
    if number is None:
        raise ValueError(f"the metric {name!r} must be a number, but got {no_number(value)}")
    return number


def as_number(value: Any) -> float | None:
    """`value` as a plain float or int; None if it is no number. An int that no float can hold counts as infinite."""
    number: float | None = value
    if type(value) is not float and type(value) is not int:
        number = _plain(value)
    if type(number) is int and not -_LARGEST <= number <= _LARGEST:
        return _infinite(number)
    return number


def known_number(value: Any) -> float | None:
    """`as_number`, but also None for NaN, which is neither better nor worse than any number."""
    number: float | None = value
    if type(value) is not float and not (type(value) is int and -_LARGEST <= value <= _LARGEST):
        number = as_number(value)  # not always: schedulers ask about each report
    if number != number:
        return None
    return number


def finite_number(value: Any) -> float | None:
    """`as_number`, but also None for NaN and infinities."""
    number = as_number(value)
    if number is None or not math.isfinite(number):
        return None
    return number


def mean_of(values: Sequence[float]) -> float:
    """The mean of one or more numbers; NaN for infinities of both signs."""
    return sum(values) / len(values)


def number_or_flag(value: Any) -> float | None:
    """`as_number`, but a flag counts as 0 or 1. For metrics that need not be objectives."""
    item = item_of(value)
    if isinstance(item, bool):
        return int(item)
    return as_number(value)


def sortable(value: Any) -> float | None:
    """`number_or_flag`, but also None for NaN."""
    return known_number(number_or_flag(value))


def item_of(value: Any) -> Any:
    """The Python object in a scalar of another library or in an array without dimensions; other values as given."""
    try:
        if len(value.shape):
            return value
        return _element(value)
    except Exception:  # the attributes are missing, or a user's object raises any error
        return value


def has_unit(value: Any) -> bool:
    """Whether `value` is a time of NumPy, which Python takes for a whole number."""
    return getattr(getattr(value, "dtype", None), "kind", "") in _TIMES


def no_number(value: Any) -> str:
    """Describe a value that is not a number, and say how to make a number of it."""
    if value is None:
        return "None; where there is no value, give float('nan')"
    value = item_of(value)
    kind = type(value)
    what = f"the text {str(value)!r:.80}" if issubclass(kind, str) else f"a value of type {kind.__name__}"
    return f"{what}; give one plain number, such as float(x) or its mean"


def _plain(value: Any) -> float | None:
    """A float or an int, however large, of equal value; None if `value` is no number."""
    try:
        if value is None or isinstance(value, (bool, str, bytes)):
            return None
        if hasattr(value, "shape"):
            element = _element(value)
            if type(element) is not type(value):
                return _plain(element)
            if has_unit(value) or math.prod(value.shape) != 1:
                return None
        return _as_builtin(value)
    except Exception:  # a user's object may raise any error
        return None


def _as_builtin(value: Any) -> float | None:
    if isinstance(value, Integral):
        return int(value)
    # `float` itself also takes bytes of any kind.
    kind = type(value)
    if not (hasattr(kind, "__float__") or hasattr(kind, "__index__")):
        return None
    try:
        return float(value)
    except OverflowError:
        return _infinite(value)


def _element(value: Any) -> Any:
    """The only element of an array or of a scalar of another library; `value` itself if it has several, or a unit."""
    if math.prod(value.shape) != 1 or has_unit(value):
        return value
    masked = sys.modules.get("numpy.ma")
    if masked is not None and isinstance(value, masked.MaskedArray) and masked.getmaskarray(value).any():
        return math.nan
    if not hasattr(value, "item"):  # TensorFlow's tensors
        value = value.numpy()
    return value.item()


def _infinite(value: Any) -> float:
    if value > 0:
        return math.inf
    return -math.inf
