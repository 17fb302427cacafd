"""Domains: what a parameter's value may be. The base class, and the domains of values that are no numbers."""

from __future__ import annotations

import inspect
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from typing import Any, TypeVar

from minitune._checks import shown
from minitune._samplers import Call, Grid, Sampler, Uniform

_Self = TypeVar("_Self", bound="Domain")

GRID_KEY = "grid_search"
_LONGEST_LISTED_RANGE = 100_000
"""A `range` with more values than this stays a range, so that a grid over it costs no memory."""


class Domain:
    """The values that one parameter may take."""

    sampler: Sampler | None = None
    default_sampler_cls: type[Sampler] = Uniform

    def cast(self, value: Any) -> Any:
        """`value` as this domain's type."""
        return value

    def set_sampler(self, sampler: Sampler, allow_override: bool = False) -> None:
        """Choose how values are drawn.

        Args:
            sampler: The sampler.
            allow_override: Replace an earlier choice.

        Raises:
            ValueError: If there is an earlier choice.
        """
        if self.sampler is not None and not allow_override:
            raise ValueError(
                f"a {type(self).__name__} takes one sampler, but has {self.sampler} and got {sampler}; "
                "start from a new domain"
            )
        self.sampler = sampler

    def get_sampler(self) -> Sampler:
        """The sampler that was chosen, else the default one."""
        return self.sampler if self.sampler is not None else self.default_sampler_cls()

    def sample(self, config: Any = None, size: int = 1, random_state: Any = None) -> Any:
        """Draw from the domain.

        Args:
            config: The parameters that are already known, for functions; a list gives one per drawn value.
            size: How many values.
            random_state: See `random_generator`.

        Returns:
            One value, or a list of `size` values for a `size` other than 1.
        """
        return self.get_sampler().sample(self, config=config, size=size, random_state=random_state)

    def is_grid(self) -> bool:
        """Whether all values are to be tried."""
        return isinstance(self.sampler, Grid)

    def is_function(self) -> bool:
        """Whether the value is computed by the user's function."""
        return False

    def is_valid(self, value: Any) -> bool:
        """Whether `value` could have been drawn."""
        raise NotImplementedError(f"{type(self).__name__} must override is_valid()")

    @property
    def domain_str(self) -> str:
        """The values, for people."""
        return "(unknown)"

    def draw_uniform(self, rng: random.Random) -> Any:
        """Draw with all values alike."""
        raise TypeError(f"a {type(self).__name__} cannot be drawn uniformly")

    def draw_loguniform(self, rng: random.Random) -> Any:
        """Draw with all orders of magnitude alike."""
        raise TypeError(f"a {type(self).__name__} cannot be drawn log-uniformly")

    def draw_quantized(self, sampler: Sampler, q: float, config: Any, rng: random.Random) -> Any:
        """Draw with `sampler`, moved to multiples of `q`."""
        raise TypeError(f"a {type(self).__name__} cannot be quantized")

    def draw_call(self, config: Any) -> Any:
        """Compute from `config`."""
        raise TypeError(f"a {type(self).__name__} cannot be called")

    def _with_sampler(self: _Self, sampler: Sampler, allow_override: bool = False) -> _Self:
        new = copy(self)
        new.set_sampler(sampler, allow_override)
        return new

    def __repr__(self) -> str:
        return f"{type(self).__name__}{self.domain_str}.{self.sampler or 'default'}"


class Categorical(Domain):
    """One of several values of any type, which are kept as they are.

    Args:
        categories: The values. Sets, which have no order of their own, are sorted by type and text so that a seed
            means the same in every process.

    Raises:
        ValueError: If there are none.
        TypeError: If `categories` cannot be iterated over.
    """

    def __init__(self, categories: Iterable[Any]):
        if not isinstance(categories, Iterable):
            raise TypeError(f"categories must be a sequence of values, but got {shown(categories)}")
        self.categories: Sequence[Any] = _listed(categories)
        if not self.categories:
            raise ValueError(f"at least one category must be given, but got {shown(categories)}")

    def uniform(self) -> Categorical:
        """These values, drawn uniformly."""
        return self._with_sampler(Uniform())

    def grid(self) -> Categorical:
        """These values, all to be tried."""
        return self._with_sampler(Grid())

    def __len__(self) -> int:
        return len(self.categories)

    def __getitem__(self, index: Any) -> Any:
        return self.categories[index]

    def is_valid(self, value: Any) -> bool:
        """Whether `value` is a category, or one with the domains inside it resolved."""
        if isinstance(self.categories, range):
            return value in self.categories
        return any(fits(category, value) for category in self.categories)

    @property
    def domain_str(self) -> str:
        """The categories."""
        return f"{self.categories}"

    def draw_uniform(self, rng: random.Random) -> Any:
        """See `Domain.draw_uniform`."""
        return self.categories[rng.randrange(len(self.categories))]


class Function(Domain):
    """A value that the user's function computes, usually from other parameters.

    Args:
        func: Takes nothing, or the configuration.

    Raises:
        ValueError: If it takes anything else.
    """

    default_sampler_cls = Call

    def __init__(self, func: Callable[..., Any]):
        if not callable(func):
            raise ValueError(f"sample_from takes a function of the configuration, but got {shown(func)}")
        self.func = func
        self.pass_config = _takes_config(func)

    def is_function(self) -> bool:
        """True."""
        return True

    def is_valid(self, value: Any) -> bool:
        """True: only the function knows."""
        return True

    @property
    def domain_str(self) -> str:
        """The function."""
        return f"{getattr(self.func, '__name__', self.func)}()"

    def draw_call(self, config: Mapping[str, Any] | None) -> Any:
        """The function's value for `config`; functions that want the old `spec.config.name` get that."""
        if not self.pass_config:
            return self.func()
        config = config if isinstance(config, AttributeDict) else AttributeDict(config or {})
        try:
            return self.func(config)
        except (AttributeError, KeyError) as error:
            try:
                return self.func(AttributeDict(config=config))
            except (AttributeError, KeyError) as old_form_error:
                # Neither form goes: which one was meant shows in what was missing.
                raise old_form_error if "'config'" in str(error) else error from None


class AttributeDict(dict[str, Any]):
    """A dict whose items can also be read as attributes, all the way down."""

    def __getitem__(self, key: str) -> Any:
        value = super().__getitem__(key)
        return type(self)(value) if isinstance(value, dict) and not isinstance(value, AttributeDict) else value

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            names = ", ".join(map(str, self)) or "nothing"
            raise AttributeError(f"the configuration has no {name!r}; it has {names}") from None


def as_domain(value: Any) -> Domain | None:
    """`value` as a domain if it has to be resolved, else None.

    Args:
        value: Any member of a search space.

    Returns:
        The domain; for `{"grid_search": [...]}` a `Categorical` grid.

    Raises:
        ValueError: If it is a grid of nothing, or the old `{"eval": "..."}`, which would run text as code.
    """
    if isinstance(value, Domain):
        return value
    if not isinstance(value, dict) or len(value) != 1:
        return None
    if is_grid(value):
        return Categorical(value[GRID_KEY]).grid()
    if isinstance(value.get("eval"), str):
        raise ValueError(f"{value!r} is not evaluated, for security; write sample_from(lambda config: ...) instead")
    return None


def is_grid(value: Any) -> bool:
    """Whether `value` is the plain dict that `grid_search` returns."""
    return isinstance(value, dict) and len(value) == 1 and GRID_KEY in value


def fits(space: Any, value: Any) -> bool:
    """Whether `value` is what `space`, any part of a search space, could resolve to."""
    domain = as_domain(space)
    if domain is not None:
        return domain.is_valid(value)
    if isinstance(space, dict) and isinstance(value, dict):
        return space.keys() == value.keys() and all(fits(space[key], value[key]) for key in space)
    if isinstance(space, (list, tuple)) and isinstance(value, (list, tuple)):
        return len(space) == len(value) and all(map(fits, space, value))
    return is_same(space, value)


def is_same(left: Any, right: Any) -> bool:
    """Whether two values are equal; objects that cannot tell, such as arrays, are not."""
    try:
        return left is right or bool(left == right)
    except Exception:
        return False


def _listed(values: Any) -> Sequence[Any]:
    if isinstance(values, range) and len(values) > _LONGEST_LISTED_RANGE:
        return values
    if isinstance(values, (set, frozenset)):
        return sorted(values, key=lambda value: (type(value).__name__, repr(value)))
    return list(values)


def _takes_config(func: Callable[..., Any]) -> bool:
    try:
        signature = inspect.signature(func)
    except ValueError:  # some built-in functions have none; those that make sense here take nothing
        return False
    candidates: tuple[tuple[Any, ...], ...] = (({},), ())
    for arguments in candidates:
        try:
            signature.bind(*arguments)
        except TypeError:
            continue
        return bool(arguments)
    raise ValueError(f"a sample_from function takes no argument or one, the configuration, but got {func!r}{signature}")
