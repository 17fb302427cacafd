"""Parameters of a search space: functions for users (`uniform`, `choice`), the domains they create, and samplers.

Ranges and distributions agree with Ray Tune, but the random numbers differ. Draws use pure Python and the given
`random.Random`: a seed gives the same values everywhere.
"""

from __future__ import annotations

import inspect
import math
import operator
import random
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from typing import Any, TypeVar

from minitune.base.checks import shown
from minitune.base.numbers import known_number
from minitune.base.seeds import random_generator
from minitune.base.text import plain_numbers
from minitune.error import InvalidArgumentError

__all__ = [
    "BaseSampler",
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

_Self = TypeVar("_Self", bound="Domain")
_Numbers = TypeVar("_Numbers", bound="_Range")
GRID_KEY = "grid_search"
_LONGEST_RANGE = 100_000
"""No choice or grid lists more values of a `range`."""


# -- samplers ----------------------------------------------------------------------------------------------------------
class Sampler:
    """Defines how values of a domain are drawn. A subclass overrides `draw`."""

    def draw(self, domain: Any, config: Any, rng: random.Random) -> Any:
        """Draw one value of `domain`."""
        raise NotImplementedError(f"{type(self).__name__} must override draw()")

    def sample(self, domain: Domain, config: Any = None, size: int = 1, random_state: Any = None) -> Any:
        """Draw one value, or a list of them if `size` is not 1."""
        rng = random_generator(random_state)
        values = [self.draw(domain, config, rng) for _ in range(size)]
        return values[0] if size == 1 else values

    def __str__(self) -> str:
        return type(self).__name__.strip("_")

    def __repr__(self) -> str:
        inner = ", ".join(f"{name}={value!r}" for name, value in vars(self).items())
        return f"{self}({inner})"


BaseSampler = Sampler  # Ray Tune has one more class between a domain's sampler and the others


class Uniform(Sampler):
    """Draws all values with the same probability."""

    def draw(self, domain: Any, config: Any, rng: random.Random) -> Any:
        return domain.draw_uniform(rng)


class LogUniform(Sampler):
    """Draws all orders of magnitude with the same probability.

    Args:
        base: Deprecated, without effect, with a warning.
    """

    def __init__(self, base: object = None):
        if base is not None:
            message = "base never changed what is drawn and is ignored; leave it out"
            warnings.warn(message, DeprecationWarning, stacklevel=4)

    def draw(self, domain: Any, config: Any, rng: random.Random) -> Any:
        return domain.draw_loguniform(rng)


class Normal(Sampler):
    """Draws from a normal distribution.

    Raises:
        ValueError: If `sd` is not positive.
    """

    def __init__(self, mean: float = 0.0, sd: float = 1.0):
        if not sd > 0 or not math.isfinite(sd) or not math.isfinite(mean):
            raise ValueError(f"expected 0 < sd < inf and a finite mean, but got mean={mean!r}, sd={sd!r}")
        self.mean = float(mean)
        self.sd = float(sd)

    def draw(self, domain: Any, config: Any, rng: random.Random) -> Any:
        return domain.cast(rng.normalvariate(self.mean, self.sd))


class Quantized(Sampler):
    """Rounds the values of another sampler to multiples of `q`.

    Raises:
        ValueError: If `q` is not positive.
    """

    def __init__(self, sampler: Sampler, q: float):
        if not q > 0 or not math.isfinite(q):
            raise ValueError(f"expected 0 < q < inf, but got q={q!r}")
        self.sampler = sampler
        self.q = q

    def get_sampler(self) -> Sampler:
        """The sampler whose values are quantised."""
        return self.sampler

    def draw(self, domain: Any, config: Any, rng: random.Random) -> Any:
        return domain.draw_quantized(self.sampler, self.q, config, rng)


class Grid(Sampler):
    """Marks a domain as a grid: the search tries each of its values, and never draws one."""

    def draw(self, domain: Any, config: Any, rng: random.Random) -> Any:
        raise RuntimeError("a grid is enumerated, not sampled: iterate over its categories, or use choice()")


class CallSampler(Sampler):
    """Calls the function of a `Function` domain."""

    def draw(self, domain: Any, config: Any, rng: random.Random) -> Any:
        return domain.draw_call(config)


# -- domains -----------------------------------------------------------------------------------------------------------
def _has_no_value(domain: Any, *_: object) -> Any:
    raise TypeError(
        f"{domain} has no value yet, so nothing can be computed with it: compute in the trainable, or with "
        "sample_from(lambda config: ...), which reads the drawn values"
    )


class Domain:
    """The possible values of one parameter."""

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __pow__ = __rpow__ = _has_no_value
    __truediv__ = __rtruediv__ = __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = __neg__ = _has_no_value

    sampler: Sampler | None = None
    default_sampler_cls: type[Sampler] = Uniform

    def cast(self, value: Any) -> Any:
        """Convert `value` to this domain's type."""
        return value

    def set_sampler(self, sampler: Sampler, allow_override: bool = False) -> None:
        """Set the sampler.

        Raises:
            ValueError: If a sampler was set before and `allow_override` is False.
        """
        if self.sampler is not None and not allow_override:
            raise ValueError(
                f"a {type(self).__name__} takes one sampler, but has {self.sampler} and got {sampler}; "
                "start from a new domain"
            )
        self.sampler = sampler

    def get_sampler(self) -> Sampler:
        """The sampler that was set, else the default one."""
        return self.sampler or self.default_sampler_cls()

    def sample(self, config: Any = None, size: int = 1, random_state: Any = None) -> Any:
        """Draw from the domain.

        Args:
            config: The parameters that already have values.
            size: How many values to draw.
            random_state: See `random_generator`.

        Returns:
            One value, or a list of `size` values.
        """
        return self.get_sampler().sample(self, config=config, size=size, random_state=random_state)

    def is_grid(self) -> bool:
        """Whether this is a grid, so that the search tries each value."""
        return isinstance(self.sampler, Grid)

    def is_function(self) -> bool:
        """Whether a user's function computes the value."""
        return False

    def is_valid(self, value: Any) -> bool:
        """Whether the domain contains `value`."""
        raise NotImplementedError(f"{type(self).__name__} must override is_valid()")

    @property
    def domain_str(self) -> str:
        """The values as text, to show to users."""
        return "(unknown)"

    def _with_sampler(self: _Self, sampler: Sampler, allow_override: bool = False) -> _Self:
        # A copy: the user may make several parameters of one range, as in r.uniform() and r.loguniform().
        new = copy(self)
        new.set_sampler(sampler, allow_override)
        return new

    def __repr__(self) -> str:
        return f"{type(self).__name__} {self.domain_str}"


class Categorical(Domain):
    """One of several values of any type. The values are not converted.

    Args:
        categories: The values. A set is sorted by type and text.

    Raises:
        ValueError: If there are no values.
        TypeError: If it is a text, a dict or no iterable.
    """

    class _Uniform(Uniform):
        """Here and of `Integer` its own class, as in Ray Tune: NeuralForecast tells kinds of parameters by it."""

    default_sampler_cls = _Uniform

    def __init__(self, categories: Iterable[Any]):
        if isinstance(categories, (str, bytes, bytearray, Mapping)) or not isinstance(categories, Iterable):
            raise TypeError(
                f"categories must be a list of values, but got {shown(categories)}; put it into a list, or list its "
                "parts"
            )
        if isinstance(categories, range) and len(categories) > _LONGEST_RANGE:
            raise ValueError(
                f"a range must have at most {_LONGEST_RANGE:,} values, since all are listed, but got {categories}; use "
                "randint(start, stop)"
            )
        self.categories: Sequence[Any]
        if isinstance(categories, (set, frozenset)):
            self.categories = sorted(categories, key=lambda value: (type(value).__name__, repr(value)))
        else:
            self.categories = list(categories)
        if not self.categories:
            raise ValueError(f"at least one category must be given, but got {shown(categories)}")

    def uniform(self) -> Categorical:
        """These categories, drawn uniformly."""
        return self._with_sampler(self._Uniform())

    def grid(self) -> Categorical:
        """These categories as a grid: the search tries each of them."""
        return self._with_sampler(Grid())

    def __len__(self) -> int:
        return len(self.categories)

    def __getitem__(self, index: Any) -> Any:
        return self.categories[index]

    def is_valid(self, value: Any) -> bool:
        """Whether `value` is a category, or a category in which the domains have been replaced by values."""
        return any(fits(category, value) for category in self.categories)

    @property
    def domain_str(self) -> str:
        return f"{plain_numbers(self.categories)}"

    def __repr__(self) -> str:
        return f"{'grid_search' if self.is_grid() else 'choice'}({self.domain_str})"

    def draw_uniform(self, rng: random.Random) -> Any:
        """See `Domain.draw_uniform`."""
        return self.categories[rng.randrange(len(self.categories))]


class Function(Domain):
    """A value that a user's function computes, usually from other parameters.

    Raises:
        ValueError: If the function needs other arguments.
    """

    _CallSampler = CallSampler
    default_sampler_cls = CallSampler

    def __init__(self, func: Callable[..., Any]):
        if not callable(func):
            raise ValueError(f"sample_from takes a function of the configuration, but got {shown(func)}")
        self.func = func
        self.pass_config = False
        try:
            signature = inspect.signature(func)
        except ValueError:  # some built-in functions have no signature; those that are useful here take no argument
            return
        try:
            signature.bind({})
            self.pass_config = True
        except TypeError:
            try:
                signature.bind()
            except TypeError:
                raise ValueError(
                    f"a sample_from function takes no argument or one, the configuration, but got {func!r}{signature}"
                ) from None

    def is_function(self) -> bool:
        return True

    def is_valid(self, value: Any) -> bool:
        return True

    @property
    def domain_str(self) -> str:
        return f"{getattr(self.func, '__name__', self.func)}()"

    def draw_call(self, config: Mapping[str, Any] | None) -> Any:
        """Call the function, with `config` if it takes one."""
        return self.func(config or {}) if self.pass_config else self.func()


def sampler_and_step(domain: Domain) -> tuple[Sampler, float | None]:
    """A domain's sampler before rounding, and the step of the rounding; None if values are not rounded."""
    sampler = domain.get_sampler()
    if isinstance(sampler, Quantized):
        return sampler.sampler, sampler.q
    return sampler, None


def as_domain(value: Any) -> Domain | None:
    """Convert an element of a search space to a domain; None if it is a constant.

    Raises:
        InvalidArgumentError: If a grid is no list of values, or is empty.
        ValueError: For the old form `{"eval": "..."}`, which would run text as code.
    """
    if isinstance(value, Domain):
        return value
    if not isinstance(value, dict) or len(value) != 1:
        return None
    if is_grid(value):
        return _grid_of(value[GRID_KEY])
    if isinstance(value.get("eval"), str):
        raise ValueError(f"{value!r} is not evaluated, for security; write sample_from(lambda config: ...) instead")
    return None


def _grid_of(values: Any) -> Categorical:
    try:
        return Categorical(values).grid()
    except (TypeError, ValueError) as error:
        raise InvalidArgumentError(str(error)) from None


def is_grid(value: Any) -> bool:
    """Whether `value` is the plain dict that `grid_search` returns."""
    return isinstance(value, dict) and len(value) == 1 and GRID_KEY in value


def fits(space: Any, value: Any) -> bool:
    """Whether `value` is a possible value of a search space."""
    domain = as_domain(space)
    if domain is not None:
        return domain.is_valid(value)
    if isinstance(space, dict) and isinstance(value, dict):
        return space.keys() == value.keys() and all(fits(space[key], value[key]) for key in space)
    if isinstance(space, (list, tuple)) and isinstance(value, (list, tuple)):
        pairs = zip(space, value, strict=False)
        return len(space) == len(value) and all(fits(part, one) for part, one in pairs)
    return is_same(space, value)


def is_same(left: Any, right: Any) -> bool:
    """Whether two values are equal. False if the comparison raises or gives no truth value, as for arrays."""
    try:
        return left is right or bool(left == right)
    except Exception:
        return False


# -- domains of numbers ------------------------------------------------------------------------------------------------
class _Range(Domain):
    """Numbers from `lower` to `upper`, of which the first is not the larger one."""

    lower: float
    upper: float
    _LogUniform = LogUniform  # the names that Ray Tune has, here and below

    def loguniform(self: _Numbers, base: object = None) -> _Numbers:
        """This range, drawn log-uniformly, without `upper`: for integers as floor(exp(U)), with U uniform.

        Raises:
            ValueError: If a bound is missing or not positive.
        """
        if not 0 < self.lower <= self.upper < math.inf:
            way_out = "pass the smallest value that makes a difference, such as 1e-6, or choice([0, ...])"
            if self.lower < 0:
                way_out = "pass the values themselves, not their logarithms"
            raise ValueError(
                f"expected 0 < lower <= upper < inf, but got lower={self.lower}, upper={self.upper}; {way_out}"
            )
        return self._with_sampler(LogUniform(base))

    @property
    def domain_str(self) -> str:
        return f"({self.lower}, {self.upper})"

    def __repr__(self) -> str:
        """The code that creates it; for classes of the user, class and bounds."""
        sampler, q = sampler_and_step(self)
        call = _CALLS.get((type(self), type(sampler)))
        if call is None:
            return super().__repr__()
        arguments: list[float] = [self.lower, self.upper]
        if isinstance(sampler, Normal):
            arguments = [sampler.mean, sampler.sd]
        if q is not None:
            call = f"q{call}"
            arguments.append(q)
        return f"{call}({', '.join(map(repr, arguments))})"


class Float(_Range):
    """Real numbers from `lower` to `upper`; None means no bound.

    Raises:
        ValueError: If a bound is NaN, or the bounds are in the wrong order.
    """

    _Uniform = Uniform
    _Normal = Normal

    def __init__(self, lower: float | None, upper: float | None):
        self.lower = -math.inf if lower is None else _as_float("lower", lower)
        self.upper = math.inf if upper is None else _as_float("upper", upper)
        _check_order(self.lower, self.upper)

    def cast(self, value: Any) -> float:
        return float(value)

    def uniform(self) -> Float:
        """This range, drawn uniformly from [lower, upper).

        Raises:
            ValueError: If a bound is missing.
        """
        if math.isinf(self.lower) or math.isinf(self.upper):
            raise ValueError(f"expected -inf < lower <= upper < inf for uniform(), but got {self.domain_str}")
        return self._with_sampler(Uniform())

    def normal(self, mean: float = 0.0, sd: float = 1.0) -> Float:
        """Normally distributed numbers.

        Raises:
            ValueError: If there is a bound, or `sd` is not positive.
        """
        if not (math.isinf(self.lower) and math.isinf(self.upper)):
            raise ValueError(f"normal() takes no bounds, but got {self.domain_str}; use Float(None, None)")
        return self._with_sampler(Normal(_as_float("mean", mean), _as_float("sd", sd)))

    def quantized(self, q: float) -> Float:
        """Multiples of `q` in this range, including the upper bound.

        Raises:
            ValueError: If a bound is not a multiple of `q`.
        """
        q = _as_float("q", q)
        sampler = Quantized(self.get_sampler(), q)
        for name, bound in (("lower", self.lower), ("upper", self.upper)):
            if math.isfinite(bound) and not _is_multiple(bound, q):
                raise ValueError(f"{name} must be a multiple of q, but got {name}={bound!r}, q={q!r}")
        return self._with_sampler(sampler, allow_override=True)

    def is_valid(self, value: Any) -> bool:
        """Whether `value` is a number within the bounds, and a multiple of `q` if the values are quantised."""
        number = known_number(value)
        if number is None or not self.lower <= number <= self.upper:
            return False
        return not isinstance(self.sampler, Quantized) or _is_multiple(float(number), self.sampler.q)

    def draw_uniform(self, rng: random.Random) -> float:
        """See `Domain.draw_uniform`."""
        # Not lower + share * (upper - lower): that difference overflows for bounds such as -1e308 and 1e308.
        share = rng.random()
        value = self.lower * (1.0 - share) + self.upper * share
        if self.lower <= value < self.upper:
            return value
        return self._below_upper(value)

    def draw_loguniform(self, rng: random.Random) -> float:
        """See `Domain.draw_loguniform`."""
        low = math.log(self.lower)
        high = math.log(self.upper)
        return self._below_upper(math.exp(low + (high - low) * rng.random()))

    def draw_quantized(self, sampler: Sampler, q: float, config: Any, rng: random.Random) -> float:
        """Draw a value, and round it to the nearest multiple."""
        return self.snap(sampler.draw(self, config, rng), q)

    def snap(self, number: float, q: float) -> float:
        """The multiple of `q` nearest to a number: 0.3, not 0.30000000000000004."""
        mantissa, _, exponent = repr(float(q)).partition("e")
        decimals = mantissa.partition(".")[2]
        num_decimals = max(0, len(decimals if decimals != "0" else "") - int(exponent or 0))  # 2 for 0.25, 5 for 1e-05
        value: float = round(round(number / q) * q, num_decimals)
        # A multiple of q may differ from the user's bound in its last bit.
        for bound in (self.lower, self.upper):
            if math.isfinite(bound) and abs(value - bound) < q / 2:
                return bound
        return min(max(value, self.lower), self.upper)

    def _below_upper(self, value: float) -> float:
        """Move a value back into [lower, upper) if rounding has moved it out."""
        # The upper bound is excluded. math.exp(math.log(x)) may exceed x, by one bit.
        if value >= self.upper > self.lower:
            value = math.nextafter(self.upper, -math.inf)
        return min(max(value, self.lower), self.upper)


class Integer(_Range):
    """Integers from `lower` to `upper`, excluding `upper` (but see `quantized`).

    Raises:
        ValueError: If a bound is not an integer, or the bounds are in the wrong order.
    """

    lower: int
    upper: int

    class _Uniform(Uniform):
        pass

    default_sampler_cls = _Uniform

    def __init__(self, lower: int, upper: int):
        self.lower = _as_int("lower", lower)
        self.upper = _as_int("upper", upper)
        _check_order(self.lower, self.upper)

    def cast(self, value: Any) -> int:
        return int(value)

    def uniform(self) -> Integer:
        """This range, drawn uniformly."""
        return self._with_sampler(self._Uniform())

    def quantized(self, q: int) -> Integer:
        """Multiples of `q` within the range, including `upper` unless `q` is 1. The draw chooses among their indices.

        Raises:
            ValueError: If the range has no multiple of `q`.
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
        number = known_number(value)
        if number is None or number != number // 1:
            return False
        if not isinstance(self.sampler, Quantized):
            return self.lower <= number < self.upper
        q = int(self.sampler.q)
        start, stop = self.index_range(q)
        return number % q == 0 and start <= number // q < stop

    def draw_uniform(self, rng: random.Random) -> int:
        """See `Domain.draw_uniform`."""
        return rng.randrange(self.lower, self.upper)

    def draw_loguniform(self, rng: random.Random) -> int:
        """See `Domain.draw_loguniform`."""
        low = math.log(self.lower)
        high = math.log(self.upper)
        value = math.floor(math.exp(low + (high - low) * rng.random()))
        # Rounding errors of log and exp may leave the range by one.
        return max(self.lower, min(value, self.upper - 1))

    def draw_quantized(self, sampler: Sampler, q: float, config: Any, rng: random.Random) -> int:
        """Draw the index of a multiple, so that the sampler treats all multiples alike."""
        indices = Integer(*self.index_range(int(q)))
        return int(sampler.draw(indices, config, rng)) * int(q)

    def index_range(self, q: int) -> tuple[int, int]:
        """The numbers k for which k * q is in the range, as (first, last + 1)."""
        stop = self.upper // q
        if q != 1:  # as in Ray Tune, the upper bound is included unless q is 1
            stop += 1
        return -(-self.lower // q), stop


# The types of values, as objects and not as texts: FLAML reads them from the signature, where Ray has them.
for _kind, _type in ((Domain, Any), (Categorical, Any), (Function, Any), (Float, float), (Integer, int)):
    _kind.is_valid.__annotations__["value"] = _type


def _is_multiple(value: float, q: float) -> bool:
    steps = value / q
    return math.isfinite(steps) and math.isclose(steps, round(steps), abs_tol=1e-9)


_CALLS: dict[tuple[type[Domain], type[Sampler]], str] = {
    (Float, Uniform): "uniform",
    (Float, LogUniform): "loguniform",
    (Float, Normal): "randn",
    (Integer, Integer._Uniform): "randint",
    (Integer, LogUniform): "lograndint",
}
"""The function that creates a domain; with a `q`, that for multiples."""


def _check_order(lower: float, upper: float) -> None:
    if not lower <= upper:  # NaN is in no order
        raise ValueError(
            f"expected lower <= upper, but got lower={lower}, upper={upper}; write the smaller bound first"
        )


def _as_float(name: str, value: Any) -> float:
    try:
        if not isinstance(value, (str, bytes, bytearray)):  # float() reads texts, but Ray Tune refuses them
            return float(value)
    except (TypeError, ValueError):
        pass
    raise ValueError(f"{name} must be a number, but got {name}={shown(value)}")


def _as_int(name: str, value: Any) -> int:
    if isinstance(value, float) and value.is_integer():
        return int(value)
    try:
        return operator.index(value)
    except TypeError:
        raise ValueError(f"{name} must be an integer, but got {name}={shown(value)}") from None


# -- for users ---------------------------------------------------------------------------------------------------------
def uniform(lower: float, upper: float) -> Float:
    """Floats from [lower, upper), drawn uniformly. If lower == upper, always this value.

    Raises:
        ValueError: Unless both are finite, and in this order.
    """
    return Float(lower, upper).uniform()


def quniform(lower: float, upper: float, q: float) -> Float:
    """Multiples of `q` from [lower, upper]: a uniform draw, rounded to the nearest one.

    Raises:
        ValueError: Unless both bounds are finite multiples of `q`.
    """
    return Float(lower, upper).uniform().quantized(q)


def loguniform(lower: float, upper: float, base: object = None) -> Float:
    """Floats from [lower, upper), drawn log-uniformly. If lower == upper, always this value.

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
    """Integers from [lower, upper), drawn uniformly. `upper` is excluded.

    Raises:
        ValueError: Unless lower < upper.
    """
    return _not_empty(Integer(lower, upper)).uniform()


def qrandint(lower: int, upper: int, q: int = 1) -> Integer:
    """Multiples of `q` from [lower, upper], drawn uniformly. `upper` is excluded if q = 1.

    Raises:
        ValueError: If lower > upper, or the range has no multiple of `q`.
    """
    return Integer(lower, upper).uniform().quantized(q)


def lograndint(lower: int, upper: int, base: object = None) -> Integer:
    """Integers from [lower, upper), drawn log-uniformly. `upper` is excluded.

    Raises:
        ValueError: Unless 0 < lower < upper.
    """
    return _not_empty(Integer(lower, upper)).loguniform(base)


def qlograndint(lower: int, upper: int, q: int, base: object = None) -> Integer:
    """Multiples of `q` from [lower, upper], drawn log-uniformly. `upper` is excluded if q = 1.

    Raises:
        ValueError: Unless 0 < lower <= upper and the range has a multiple of `q`.
    """
    return Integer(lower, upper).loguniform(base).quantized(q)


def choice(categories: Iterable[Any]) -> Categorical:
    """One of `categories`, drawn uniformly. If the drawn category contains domains, these are drawn as well.

    Raises:
        ValueError: If there are no categories.
        TypeError: If `categories` is a text or a dict, or is not iterable.
    """
    return Categorical(categories).uniform()


def grid_search(values: Iterable[Any]) -> dict[str, Sequence[Any]]:
    """Each of `values`, combined with each value of every other grid, as the plain dict `{"grid_search": values}`.

    Raises:
        InvalidArgumentError: If there are no values, or if `values` is a text or a dict, or is not iterable.
    """
    return {GRID_KEY: _grid_of(values).categories}


def sample_from(func: Callable[..., Any]) -> Function:
    """The return value of `func`, which is called after all other parameters have their values.

    Args:
        func: A function without arguments, or of the configuration: `sample_from(lambda config: 2 * config["width"])`.

    Raises:
        ValueError: If the function needs other arguments.
    """
    return Function(func)


def _not_empty(domain: Integer) -> Integer:
    if not domain.lower < domain.upper:
        raise ValueError(f"expected lower < upper, but got lower={domain.lower!r}, upper={domain.upper!r}")
    return domain
