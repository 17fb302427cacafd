"""Search spaces: the functions that users write, and what they make.

Ranges and distributions are those of Ray Tune, its random bits are not. The kinds of domains and samplers are
reachable here and as `minitune.search.sample`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from minitune._domains import GRID_KEY, AttributeDict, Categorical, Domain, Function, as_domain, fits, is_grid, is_same
from minitune._numbers import Float, Integer
from minitune._samplers import Grid, LogUniform, Normal, Quantized, Sampler, Uniform, random_generator

__all__ = [
    "AttributeDict",
    "Categorical",
    "Domain",
    "Float",
    "Function",
    "Grid",
    "Integer",
    "LogUniform",
    "Normal",
    "Quantized",
    "Sampler",
    "Uniform",
    "as_domain",
    "choice",
    "fits",
    "grid_search",
    "is_grid",
    "is_same",
    "lograndint",
    "loguniform",
    "qlograndint",
    "qloguniform",
    "qrandint",
    "qrandn",
    "quniform",
    "randint",
    "randn",
    "random_generator",
    "sample_from",
    "uniform",
]


def uniform(lower: float, upper: float) -> Float:
    """Floats from [lower, upper), uniformly; with lower == upper always this one.

    Here and in the functions below, bounds in the wrong order are swapped.

    Raises:
        ValueError: Unless both are finite.
    """
    return Float(lower, upper).uniform()


def quniform(lower: float, upper: float, q: float) -> Float:
    """Multiples of `q` from [lower, upper]: a uniform draw, rounded to the nearest one.

    Raises:
        ValueError: Unless both bounds are finite multiples of `q`.
    """
    return Float(lower, upper).uniform().quantized(q)


def loguniform(lower: float, upper: float, base: object = None) -> Float:
    """Floats from [lower, upper), log-uniformly; with lower == upper always this one.

    Raises:
        ValueError: Unless both bounds are above 0 and finite.
    """
    return Float(lower, upper).loguniform(base)


def qloguniform(lower: float, upper: float, q: float, base: object = None) -> Float:
    """Multiples of `q` from [lower, upper]: a log-uniform draw, rounded to the nearest one.

    Raises:
        ValueError: Unless both bounds are above 0 and finite, and multiples of `q`.
    """
    return Float(lower, upper).loguniform(base).quantized(q)


def randn(mean: float = 0.0, sd: float = 1.0) -> Float:
    """Normally distributed floats.

    Raises:
        ValueError: Unless sd > 0.
    """
    return Float(None, None).normal(mean, sd)


def qrandn(mean: float, sd: float, q: float) -> Float:
    """Normally distributed floats, rounded to the nearest multiple of `q`.

    Raises:
        ValueError: Unless sd > 0 and q > 0.
    """
    return Float(None, None).normal(mean, sd).quantized(q)


def randint(lower: int, upper: int) -> Integer:
    """Integers from [lower, upper), uniformly: `upper` is excluded.

    Raises:
        ValueError: If the bounds are equal.
    """
    return _not_empty(Integer(lower, upper)).uniform()


def qrandint(lower: int, upper: int, q: int = 1) -> Integer:
    """Multiples of `q` from [lower, upper], uniformly; `upper` is excluded for q = 1.

    Raises:
        ValueError: If there is none.
    """
    return Integer(lower, upper).uniform().quantized(q)


def lograndint(lower: int, upper: int, base: object = None) -> Integer:
    """Integers from [lower, upper), log-uniformly: `upper` is excluded.

    Raises:
        ValueError: Unless both bounds are above 0, and differ.
    """
    return _not_empty(Integer(lower, upper)).loguniform(base)


def qlograndint(lower: int, upper: int, q: int, base: object = None) -> Integer:
    """Multiples of `q` from [lower, upper], log-uniformly; `upper` is excluded for q = 1.

    Raises:
        ValueError: Unless both bounds are above 0, and a multiple lies in the range.
    """
    return Integer(lower, upper).loguniform(base).quantized(q)


def choice(categories: Iterable[Any]) -> Categorical:
    """One of `categories`, uniformly; domains inside the one that was drawn are resolved in their turn.

    Raises:
        ValueError: If there are none.
    """
    return Categorical(categories).uniform()


def grid_search(values: Iterable[Any]) -> dict[str, Sequence[Any]]:
    """Every one of `values`, combined with every value of every other grid.

    Returns:
        The plain dict `{"grid_search": values}`, which can also be written by hand.

    Raises:
        ValueError: If there are none.
        TypeError: If they are a dict: of its keys, or of its values?
    """
    if isinstance(values, Mapping):
        raise TypeError(f"grid_search takes a list of values, but got a dict, {values!r:.200}; list its keys or values")
    return {GRID_KEY: Categorical(values).categories}


def sample_from(func: Callable[..., Any]) -> Function:
    """What `func` returns; it is called after all other parameters have their values.

    Args:
        func: Takes nothing, or the configuration: `sample_from(lambda config: 2 * config["width"])`.

    Raises:
        ValueError: If it takes anything else.
    """
    return Function(func)


def _not_empty(domain: Integer) -> Integer:
    if not domain.lower < domain.upper:
        raise ValueError(f"lower < upper must hold, but got lower={domain.lower!r}, upper={domain.upper!r}")
    return domain
