"""Axes: a parameter's values as numbers that a mixture of kernels can be put over.

The domain of a numeric parameter becomes the interval from 0 to 1, logarithmically where it is drawn so. Integers and
quantised numbers are cells of that interval, a value lies in the middle of its cell; an integer n fills what rounds
down to it, from n to n + 1, so that cells and draws from the domain agree. A normal distribution has no bounds:
four standard deviations to either side come to lie between 0 and 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise
from typing import Any, NamedTuple

from minitune._numbers import Float, Integer
from minitune._samplers import LogUniform, Normal, Quantized

_SDS = 8.0
"""Standard deviations of a normal distribution that make up a length of 1."""


class _Cells(NamedTuple):
    """Integers are `step` times `first`, ..., `last`."""

    first: int
    last: int
    step: int


class Axis:
    """One numeric parameter.

    Args:
        domain: A searchable `Float` or `Integer`.

    Attributes:
        low: Where the axis begins, 0, or minus infinity.
        high: Where it ends, 1, or infinity.
        prior_sd: Standard deviation of the kernel in the middle, at 0.5, that stands for the domain itself.
        width: Width of a cell, in the mean over the axis; 0 if every number is a value.
        count: How many values there are; None if they cannot be counted.
    """

    def __init__(self, domain: Float | Integer):
        self._domain = domain
        sampler = domain.get_sampler()
        self._q = sampler.q if isinstance(sampler, Quantized) else None
        inner = sampler.get_sampler() if isinstance(sampler, Quantized) else sampler
        self.low, self.high, self.prior_sd = 0.0, 1.0, 1.0
        self.width = 0.0
        self.count: int | None = None
        self._cells: _Cells | None = None
        self._to: Callable[[float], float] = float
        self._from: Callable[[float], float] = float
        if isinstance(inner, LogUniform):
            self._to, self._from = math.log, math.exp
        if isinstance(inner, Normal):
            self._set_normal(inner)
        elif isinstance(domain, Integer):
            self._set_integer(domain)
        else:
            self._set_float(domain)
        if self._span <= 0:
            self.count = 1

    def encode(self, value: Any) -> float:
        """Where a value of the domain lies."""
        if self._cells is not None:
            cell = int(value) // self._cells.step
            place = (self._to(cell) + self._to(cell + 1)) / 2
        elif self._q is not None and self._to is math.log:
            place = (math.log(value - self._q / 2) + math.log(value + self._q / 2)) / 2
        else:
            place = self._to(value)
        return (place - self._begin) / self._span

    def decode(self, place: float) -> Any:
        """The value at a place, or the one in whose cell it lies; always one of the domain."""
        number = self._from(self._begin + place * self._span)
        if self._cells is not None:
            return min(max(math.floor(number), self._cells.first), self._cells.last) * self._cells.step
        if self._q is not None and isinstance(self._domain, Float):
            return self._domain.snap(number, self._q)
        return min(max(number, self._domain.lower), self._domain.upper)

    def _set_normal(self, normal: Normal) -> None:
        self.low, self.high, self.prior_sd = -math.inf, math.inf, 1 / _SDS
        self._span = _SDS * normal.sd
        self._begin = normal.mean - self._span / 2
        self.width = (self._q or 0.0) / self._span

    def _set_float(self, domain: Float) -> None:
        margin = (self._q or 0.0) / 2
        self._begin = self._to(domain.lower - margin)
        self._span = self._to(domain.upper + margin) - self._begin
        if self._q is not None:
            self._set_width(domain.lower - margin, self._q, round((domain.upper - domain.lower) / self._q) + 1)

    def _set_integer(self, domain: Integer) -> None:
        step = int(self._q or 1)
        first, last = -(-domain.lower // step), domain.upper // step - (1 if step == 1 else 0)
        self._cells = _Cells(first, last, step)
        self._begin = self._to(first)
        self._span = self._to(last + 1) - self._begin
        self._set_width(first, 1, last - first + 1)

    def _set_width(self, begin: float, step: float, count: int) -> None:
        """The mean of the cells' widths, each weighed by itself: what a uniform draw meets."""
        self.count = count
        if self._to is not math.log:
            self.width = 1 / count
            return
        # Beyond some cells the rest is so narrow that it adds nothing.
        edges = [math.log(begin + step * index) for index in range(min(count, 1000) + 1)]
        self.width = sum((right - left) ** 2 for left, right in pairwise(edges)) / self._span**2
