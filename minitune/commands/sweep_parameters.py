"""The parameters of a sweep file: a domain for each of its distributions.

Parameters may be nested there. Here the space is flat, so `depth` below `model` is the parameter `model.depth`.
`log_normal` has no function of minitune, so its values are drawn at random with every searcher.
"""

from __future__ import annotations

import datetime
import math
import random
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from minitune.base.checks import did_you_mean, is_real, is_whole, shown
from minitune.space.domains import FARTHEST_SDS, Float, Sampler

_DISTRIBUTION = "distribution"
_NESTED = "parameters"
_RANGE = ("min", "max")
_KEYS_OF = {
    "constant": ("value",),
    "categorical": ("values",),
    "int_uniform": _RANGE,
    "uniform": _RANGE,
    "q_uniform": (*_RANGE, "q"),
    "log_uniform": _RANGE,
    "log_uniform_values": _RANGE,
    "q_log_uniform": (*_RANGE, "q"),
    "q_log_uniform_values": (*_RANGE, "q"),
    "normal": ("mu", "sigma"),
    "q_normal": ("mu", "sigma", "q"),
    "log_normal": ("mu", "sigma"),
    "q_log_normal": ("mu", "sigma", "q"),
}
"""The keys of each distribution."""
_DEFAULTS = {"q": 1, "mu": 0, "sigma": 1}
_OF_LOGARITHMS = ("log_uniform", "q_log_uniform")
"""Distributions whose bounds are logarithms."""
_MOST_VALUES = 1_000_000
"""A grid with more values of one parameter would never end."""
_KEYS_READ_AS_DOMAINS = ("grid_search", "eval")


class SweepParameter(NamedTuple):
    """A parameter of a sweep."""

    name: str
    keys: tuple[str, ...]
    domain: Any


def read_parameters(given: Any, *, is_grid: bool) -> list[SweepParameter]:
    """Read the key `parameters` of a sweep file.

    Raises:
        ValueError: If it has anything that minitune lacks. The text names the key.
    """
    found: dict[str, SweepParameter] = {}
    for parameter in _parameters(given, (), is_grid):
        if parameter.name in found:
            raise ValueError(f"{_NESTED}.{parameter.name} is there twice")
        found[parameter.name] = parameter
    return list(found.values())


def check_keys(given: Any, where: str, known: Sequence[str]) -> None:
    """Require a mapping with known keys. Otherwise raise a ValueError."""
    if not isinstance(given, Mapping):
        raise ValueError(f"{where} must be a mapping, but got {shown(given)}")
    for key in given:
        if key not in known:
            hint = did_you_mean(key, known) if isinstance(key, str) else ""
            raise ValueError(f"minitune does not have the key {shown(key)} of {where}{hint}; it has {', '.join(known)}")


def one_of(key: str, value: Any, known: Sequence[str] | Mapping[str, Any]) -> None:
    """Require one of several texts. Otherwise raise a ValueError."""
    if not isinstance(value, str) or value not in known:
        raise ValueError(f"{key} must be one of {', '.join(known)}, but got {shown(value)}")


def number(value: Any, key: str) -> float:
    """A finite number; otherwise raise a ValueError. YAML takes `1e-4`, without a point, for a text."""
    try:
        # `float(True)` would be 1.0.
        if isinstance(value, bool):
            raise TypeError
        if is_whole(value):
            return value
        found = float(value)
    except (TypeError, ValueError):
        raise ValueError(f"{key} must be a number, but got {shown(value)}") from None
    if not math.isfinite(found):
        raise ValueError(f"{key} must be a finite number, but got {found}")
    return found


# -- names -------------------------------------------------------------------------------------------------------------
def _parameters(given: Any, above: tuple[str, ...], is_grid: bool) -> Iterator[SweepParameter]:
    where = ".".join((_NESTED, *above))
    if not isinstance(given, Mapping) or not given:
        raise ValueError(f"{where} must be a mapping of names to domains, but got {shown(given)}")
    for key, content in given.items():
        keys = (*above, _name(key, where))
        name = ".".join(keys)
        if isinstance(content, Mapping) and _NESTED in content:
            check_keys(content, f"{_NESTED}.{name}", (_NESTED,))
            yield from _parameters(content[_NESTED], keys, is_grid)
        else:
            yield SweepParameter(name, keys, _domain(content, f"{_NESTED}.{name}", is_grid))


def _name(key: Any, where: str) -> str:
    """The name of a parameter. YAML takes `7` for a number and `on` for true."""
    if is_real(key):
        return str(key)
    if not isinstance(key, str):
        raise ValueError(f"a name in {where} must be a text, but got {shown(key)}; put it into quotes")
    if not key or not key.isprintable():
        raise ValueError(f"a name in {where} must have characters that can be printed, but got {shown(key)}")
    return key


# -- domains -----------------------------------------------------------------------------------------------------------
def _kind(given: Any, key: str) -> str:
    """The distribution of a parameter, which may follow from its other keys."""
    if not isinstance(given, Mapping):
        raise ValueError(f"{key} must be a mapping, such as {{value: 3}}, but got {shown(given)}")
    # An unknown distribution has unknown keys, too. Its name says more.
    if _DISTRIBUTION in given:
        one_of(f"{key}.{_DISTRIBUTION}", given[_DISTRIBUTION], _KEYS_OF)
    check_keys(given, key, (_DISTRIBUTION, "value", "values", *_RANGE, *_DEFAULTS, _NESTED))
    kind = given.get(_DISTRIBUTION)
    if kind is None:
        kind = _kind_of_keys(given)
    needed = _KEYS_OF[kind]
    # A key of another distribution was meant to do something. If it were ignored, another space would be searched.
    for name in given:
        if name not in (*needed, _DISTRIBUTION):
            raise ValueError(f"{key}: distribution {kind} takes {', '.join(needed)}, but got {name}")
    for name in needed:
        if name not in given and name not in _DEFAULTS:
            raise ValueError(f"{key}: distribution {kind} needs {name}")
    return str(kind)


def _kind_of_keys(given: Mapping[str, Any]) -> str:
    if "value" in given:
        return "constant"
    if "values" in given:
        return "categorical"
    # As there: two whole numbers make an int_uniform.
    if all(is_whole(given.get(name)) for name in _RANGE):
        return "int_uniform"
    return "uniform"


def _domain(given: Any, key: str, is_grid: bool) -> Any:
    """The domain of a parameter, or its value if it is a constant."""
    import minitune as tune

    kind = _kind(given, key)
    if kind == "constant":
        return _plain(given["value"], f"{key}.value")
    if kind == "categorical":
        values = given["values"]
        if not isinstance(values, list) or not values:
            raise ValueError(f"{key}.values must be a list of values, but got {shown(values)}")
        values = [_plain(value, f"{key}.values") for value in values]
        return tune.grid_search(values) if is_grid else tune.choice(values)
    numbers = {name: number(given.get(name, _DEFAULTS.get(name)), f"{key}.{name}") for name in _KEYS_OF[kind]}
    if "q" in numbers and not numbers["q"] > 0:
        raise ValueError(f"{key}.q must be a number above 0, but got {numbers['q']}")
    try:
        if "min" not in numbers:
            if is_grid:
                raise ValueError(f"method grid needs values or a range with steps, but got distribution {kind}")
            return _unbounded(kind, numbers)
        return _range(kind, numbers, is_grid)
    except OverflowError:
        raise ValueError(f"{key}: the numbers are too large for distribution {kind}") from None
    except (ValueError, TypeError) as error:
        raise ValueError(f"{key}: {error}") from None


def _range(kind: str, numbers: Mapping[str, float], is_grid: bool) -> Any:
    """The domain of a distribution with bounds."""
    import minitune as tune

    low = numbers["min"]
    high = numbers["max"]
    if low > high:
        raise ValueError(f"min must be at most max, but got {shown(low)} and {shown(high)}")
    if kind == "int_uniform":
        first = _whole(low, "min")
        last = _whole(high, "max")
        if is_grid:
            return tune.grid_search(_counted(first, last))
        return tune.randint(first, last + 1)
    if kind in _OF_LOGARITHMS:
        low = math.exp(low)
        high = math.exp(high)
    if "q" in numbers:
        return _steps(low, high, numbers["q"], is_log=kind != "q_uniform", is_grid=is_grid)
    if is_grid:
        raise ValueError(f"method grid needs values or a range with steps, but got distribution {kind}")
    if kind == "uniform":
        return tune.uniform(low, high)
    return tune.loguniform(low, high)


def _steps(low: float, high: float, q: float, *, is_log: bool, is_grid: bool) -> Any:
    """The domain of the multiples of `q` to which a number from [low, high] may be rounded.

    There, a draw is rounded, so a bound need be no multiple; and a whole `q` makes whole numbers.
    """
    import minitune as tune

    if is_log and not low > 0:
        raise ValueError(f"min must be above 0, but got {low}")
    first = round(low / q)
    last = round(high / q)
    multiples = Float(None, None)
    if is_grid:
        counts = _counted(first, last)
        if is_whole(q):
            return tune.grid_search([count * q for count in counts])
        return tune.grid_search([multiples.snap(count * q, q) for count in counts])
    if is_log and first == 0:  # zero has no logarithm, so it is the value of a small draw
        return _of_powers("uniform", (math.log(low), math.log(high)), q)
    if not is_whole(q):
        make = tune.qloguniform if is_log else tune.quniform
        return make(multiples.snap(first * q, q), multiples.snap(last * q, q), q)
    upper = last * q
    if q == 1:
        upper += 1  # the functions below leave it out
    make_whole = tune.qlograndint if is_log else tune.qrandint
    return make_whole(first * q, upper, q)


def _counted(first: int, last: int) -> range:
    """The whole numbers of a grid."""
    if last - first >= _MOST_VALUES:
        raise ValueError(f"a grid takes at most {_MOST_VALUES} values of a parameter, but got {last - first + 1}")
    return range(first, last + 1)


def _unbounded(kind: str, numbers: Mapping[str, float]) -> Any:
    """The domain of a distribution without bounds."""
    import minitune as tune

    q = numbers.get("q")
    mu = numbers["mu"]
    sigma = numbers["sigma"]
    if kind in ("log_normal", "q_log_normal"):
        if sigma < 0:
            raise ValueError(f"sigma must be at least 0, but got {sigma}")
        math.exp(mu + FARTHEST_SDS * sigma)  # OverflowError if a draw could be too large
        return _of_powers("normalvariate", (mu, sigma), q)
    if q is None:
        return tune.randn(mu, sigma)
    return tune.qrandn(mu, sigma, q)


def _whole(value: float, key: str) -> int:
    if int(value) != value:
        raise ValueError(f"{key} must be a whole number, but got {value}")
    return int(value)


def _plain(value: Any, key: str) -> Any:
    """A value that JSON has, for the program. A date becomes its text."""
    if value is None or isinstance(value, (str, bool, int, float)):
        return value
    if isinstance(value, (datetime.date, datetime.time)):
        return str(value)
    if isinstance(value, list):
        return [_plain(member, key) for member in value]
    if isinstance(value, Mapping):
        if len(value) == 1 and next(iter(value)) in _KEYS_READ_AS_DOMAINS:
            raise ValueError(f"{key} must not be a mapping of {next(iter(value))} alone, which minitune reads itself")
        return {_plain(name, key): _plain(member, key) for name, member in value.items()}
    raise ValueError(
        f"{key} must be a text, a number, true, false, null, or a list or a mapping of these, but got {shown(value)}"
    )


# -- samplers ----------------------------------------------------------------------------------------------------------
class _Powers(Sampler):
    """Draws e to the power of what a method of `random.Random` draws."""

    def __init__(self, method: str, arguments: tuple[float, float]):
        self.method = method
        self.arguments = arguments

    def draw(self, domain: Any, config: Any, rng: random.Random) -> float:
        return math.exp(getattr(rng, self.method)(*self.arguments))


def _of_powers(method: str, arguments: tuple[float, float], q: float | None) -> Float:
    domain = Float(None, None)
    domain.set_sampler(_Powers(method, arguments))
    return domain if q is None else domain.quantized(q)
