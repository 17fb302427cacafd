"""Domains of numbers: `Float` and `Integer`."""

from __future__ import annotations

import math
import operator
import random
from typing import Any

from minitune._checks import shown
from minitune._domains import Domain
from minitune._samplers import LogUniform, Normal, Quantized, Sampler, Uniform


class Float(Domain):
    """Real numbers from `lower` to `upper`; None stands for no bound. Bounds in the wrong order are swapped.

    Raises:
        ValueError: If a bound is NaN.
    """

    def __init__(self, lower: float | None, upper: float | None):
        bounds = (
            -math.inf if lower is None else _as_float("lower", lower),
            math.inf if upper is None else _as_float("upper", upper),
        )
        if any(map(math.isnan, bounds)):
            raise ValueError(f"the bounds must not be NaN, but got lower={lower!r}, upper={upper!r}")
        self.lower, self.upper = sorted(bounds)

    def cast(self, value: Any) -> float:
        """`value` as a float."""
        return float(value)

    def uniform(self) -> Float:
        """This range, drawn uniformly from [lower, upper).

        Raises:
            ValueError: If a bound is missing.
        """
        if math.isinf(self.lower) or math.isinf(self.upper):
            raise ValueError(f"-inf < lower <= upper < inf must hold for uniform(), but got {self.domain_str}")
        return self._with_sampler(Uniform())

    def loguniform(self, base: object = None) -> Float:
        """This range, drawn log-uniformly from [lower, upper).

        Raises:
            ValueError: If a bound is missing or not positive.
        """
        _check_log_bounds(self)
        return self._with_sampler(LogUniform(base))

    def normal(self, mean: float = 0.0, sd: float = 1.0) -> Float:
        """Normally distributed numbers.

        Raises:
            ValueError: If there is a bound, or `sd` is not positive.
        """
        if not (math.isinf(self.lower) and math.isinf(self.upper)):
            raise ValueError(f"normal() takes no bounds, but got {self.domain_str}; use Float(None, None)")
        return self._with_sampler(Normal(_as_float("mean", mean), _as_float("sd", sd)))

    def quantized(self, q: float) -> Float:
        """The same, in multiples of `q`; the upper bound is then included.

        Raises:
            ValueError: If a bound is no multiple of `q`.
        """
        q = _as_float("q", q)
        sampler = Quantized(self.get_sampler(), q)
        for name, bound in (("lower", self.lower), ("upper", self.upper)):
            if math.isfinite(bound) and not _is_multiple(bound, q):
                raise ValueError(f"{name} must be a multiple of q, but got {name}={bound!r}, q={q!r}")
        return self._with_sampler(sampler, allow_override=True)

    def is_valid(self, value: Any) -> bool:
        """Whether `value` is a number within the bounds, and a multiple of `q` where there is one."""
        if not _is_number(value) or not self.lower <= value <= self.upper:
            return False
        return not isinstance(self.sampler, Quantized) or _is_multiple(float(value), self.sampler.q)

    @property
    def domain_str(self) -> str:
        """`(lower, upper)`."""
        return f"({self.lower}, {self.upper})"

    def draw_uniform(self, rng: random.Random) -> float:
        """See `Domain.draw_uniform`."""
        share = rng.random()
        return self._below_upper(self.lower * (1.0 - share) + self.upper * share)

    def draw_loguniform(self, rng: random.Random) -> float:
        """See `Domain.draw_loguniform`."""
        low, high = math.log(self.lower), math.log(self.upper)
        return self._below_upper(math.exp(low + (high - low) * rng.random()))

    def draw_quantized(self, sampler: Sampler, q: float, config: Any, rng: random.Random) -> float:
        """Draw, and take the next multiple."""
        return self.snap(sampler.draw(self, config, rng), q)

    def snap(self, number: float, q: float) -> float:
        """The multiple of `q` next to a number, written as a person would: 0.3, not 0.30000000000000004."""
        value: float = round(round(number / q) * q, _count_decimals(q))
        # The last bit of a sum of q's may miss the bound that the user wrote.
        for bound in (self.lower, self.upper):
            if math.isfinite(bound) and abs(value - bound) < q / 2:
                return bound
        return min(max(value, self.lower), self.upper)

    def _below_upper(self, value: float) -> float:
        """Undo a rounding that has left [lower, upper)."""
        if value >= self.upper > self.lower:
            value = math.nextafter(self.upper, -math.inf)
        return min(max(value, self.lower), self.upper)


class Integer(Domain):
    """Integers from `lower` to `upper`, without `upper` itself (`quantized` tells the exception).

    Bounds in the wrong order are swapped.

    Raises:
        ValueError: If a bound is no integer.
    """

    def __init__(self, lower: int, upper: int):
        self.lower, self.upper = sorted((_as_int("lower", lower), _as_int("upper", upper)))

    def cast(self, value: Any) -> int:
        """`value` as an int."""
        return int(value)

    def uniform(self) -> Integer:
        """This range, drawn uniformly."""
        return self._with_sampler(Uniform())

    def loguniform(self, base: object = None) -> Integer:
        """This range, drawn as floor(exp(U)) with U uniform from log(lower) to log(upper).

        Raises:
            ValueError: If `lower` is not positive.
        """
        _check_log_bounds(self)
        return self._with_sampler(LogUniform(base))

    def quantized(self, q: int) -> Integer:
        """Multiples of `q` within the range, including `upper` unless `q` is 1; they are drawn by their index.

        Raises:
            ValueError: If there is none.
        """
        q = _as_int("q", q)
        sampler = Quantized(self.get_sampler(), q)
        start, stop = self.index_range(q)
        if start >= stop:
            raise ValueError(
                f"a multiple of q must lie in the range ({'upper excluded' if q == 1 else 'upper included'}), "
                f"but got lower={self.lower}, upper={self.upper}, q={q}"
            )
        return self._with_sampler(sampler, allow_override=True)

    def is_valid(self, value: Any) -> bool:
        """Whether `value` is an integer that could be drawn."""
        if not _is_number(value) or value != value // 1:
            return False
        if not isinstance(self.sampler, Quantized):
            return bool(self.lower <= value < self.upper)
        q = int(self.sampler.q)
        start, stop = self.index_range(q)
        return bool(value % q == 0 and start <= value // q < stop)

    @property
    def domain_str(self) -> str:
        """`(lower, upper)`."""
        return f"({self.lower}, {self.upper})"

    def draw_uniform(self, rng: random.Random) -> int:
        """See `Domain.draw_uniform`."""
        if self.lower >= self.upper:
            raise ValueError(f"lower < upper must hold, but got lower={self.lower}, upper={self.upper}")
        return rng.randrange(self.lower, self.upper)

    def draw_loguniform(self, rng: random.Random) -> int:
        """See `Domain.draw_loguniform`."""
        low, high = math.log(self.lower), math.log(self.upper)
        value = math.floor(math.exp(low + (high - low) * rng.random()))
        return max(self.lower, min(value, self.upper - 1))

    def draw_quantized(self, sampler: Sampler, q: float, config: Any, rng: random.Random) -> int:
        """Draw the index of a multiple, so that all multiples are alike to the sampler."""
        indices = Integer(*self.index_range(int(q)))
        return int(sampler.draw(indices, config, rng)) * int(q)

    def index_range(self, q: int) -> tuple[int, int]:
        """The k with k * q in the range, as (first, last + 1)."""
        return -(-self.lower // q), self.upper // q + (0 if q == 1 else 1)


def _is_number(value: Any) -> bool:
    """Whether `value` can be compared with the bounds: a number or a numpy scalar, but no bool and no NaN."""
    if isinstance(value, (bool, str, bytes, complex)):
        return False
    try:
        return not math.isnan(value)
    except (TypeError, ValueError, OverflowError):
        return False


def _is_multiple(value: float, q: float) -> bool:
    steps = value / q
    return math.isclose(steps, round(steps), abs_tol=1e-9)


def _count_decimals(q: float) -> int:
    """Digits behind the point that it takes to write `q`: 2 for 0.25, 5 for 1e-05."""
    mantissa, _, exponent = repr(float(q)).partition("e")
    decimals = mantissa.partition(".")[2]
    return max(0, len(decimals if decimals != "0" else "") - int(exponent or 0))


def _as_float(name: str, value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        raise ValueError(f"{name} must be a number, but got {name}={shown(value)}") from None


def _as_int(name: str, value: Any) -> int:
    if isinstance(value, float) and value.is_integer():
        return int(value)
    try:
        return operator.index(value)
    except TypeError:
        raise ValueError(f"{name} must be an integer, but got {name}={shown(value)}") from None


def _check_log_bounds(domain: Float | Integer) -> None:
    if not 0 < domain.lower <= domain.upper < math.inf:
        raise ValueError(
            f"0 < lower <= upper < inf must hold, but got lower={domain.lower}, upper={domain.upper}; "
            "pass the values themselves, not their logarithms"
        )
