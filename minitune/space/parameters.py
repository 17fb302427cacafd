"""A search space as searchers see it: a list of parameters, some of which exist only below a category of a choice.

A searcher can search choices, and numbers drawn uniformly, log-uniformly or from a normal distribution, quantised or
not. Functions, and domains or samplers that the user has written, are not parameters: they remain in the result of
`draw`, and are resolved when the trial is made. This module also finds out which configurations are equal
(`config_key`), how many there are (`space_size`), and where a parameter's values are on an axis for kernels (`Axis`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple, NoReturn, TypeGuard

from minitune.base.checks import shown
from minitune.space.domains import (
    Categorical,
    Domain,
    Float,
    Integer,
    LogUniform,
    Normal,
    Uniform,
    as_domain,
    fits,
    is_same,
    sampler_and_step,
)
from minitune.space.tree import (
    Path,
    assign_value,
    copy_tree,
    find_unresolved,
    get_value,
    has_unresolved_values,
    path_text,
)

Searchable = Float | Integer | Categorical
_SAMPLERS: dict[type[Domain], tuple[type, ...]] = {
    Float: (Uniform, LogUniform, Normal),
    Integer: (Uniform, LogUniform),
    Categorical: (Uniform,),
}
_COUNTED = 1_000_000
"""A space with more configurations counts as infinite: no run tries them all."""
_SDS = 8.0
"""Standard deviations of a normal distribution that make up a length of 1."""


# -- parameters --------------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Parameter:
    """One value to be found.

    Attributes:
        name: Unique in the space: the path, joined with `/`; below a choice that holds domains the category's index is
            a part of it, so `model/1/depth` lies at `("model", "depth")`.
        path: Where the value goes in the configuration.
        domain: A `Float`, `Integer` or `Categorical`.
        parent: The name of the choice and the index of the category below which it exists; None if it always does.
    """

    name: str
    path: Path
    domain: Searchable
    parent: tuple[str, int] | None = None


def parameters(space: Any) -> list[Parameter]:
    """All parameters of a search space, each after its parent.

    Raises:
        ValueError: If there is a grid.
    """
    return list(_all(space, _Place()))


def draw(space: Any, choose: Callable[[Parameter], Any]) -> Any:
    """Make a configuration, parameter by parameter; those below a category are asked for once it is chosen.

    Args:
        space: The search space; it stays as it is.
        choose: Gives a parameter's value; for a choice the index of the category.

    Returns:
        The space with these values. Its dicts and lists are new; what is no parameter is in it as it was.

    Raises:
        ValueError: If there is a grid.
    """
    return _resolve(space, _Place(), choose)


def values_of(space: Any, config: Any, on_outside: Callable[[Parameter, Any], None] | None = None) -> dict[str, Any]:
    """The parameters' values in a configuration: the inverse of `draw`.

    Args:
        space: The search space.
        config: A configuration, or a part of one: parameters that it lacks, or that are still domains in it, are left
            out.
        on_outside: Is told of each value that the parameter cannot have; it is then left out, with all below it.

    Returns:
        Values by the parameters' names, for a choice the index of the category. If several categories could have given
        the value, the first of those that fit best: the same object, an equal one of its type, an equal one, one
        whose domains give it, one whose functions may give it, one of which it is a part.

    Raises:
        ValueError: If there is a grid; or, without `on_outside`, a value that the parameter cannot have.
    """
    found: dict[str, Any] = {}
    _read(space, config, _Place(), found, on_outside or _refuse)
    return found


def is_searchable(domain: Domain) -> TypeGuard[Searchable]:
    """Whether a domain can be a parameter; if not, its values are drawn when the trial is made."""
    sampler, _ = sampler_and_step(domain)
    if type(sampler) not in _SAMPLERS.get(type(domain), ()):
        return False
    has_bounds = not isinstance(domain, Float) or domain.upper - domain.lower < float("inf")
    return has_bounds or isinstance(sampler, Normal)


@dataclass(frozen=True)
class _Place:
    """The root of a space, or of a category."""

    path: Path = ()
    name: str = ""
    parent: tuple[str, int] | None = None


def _below(choice: Parameter, index: int) -> _Place:
    return _Place(choice.path, f"{choice.name}/{index}", (choice.name, index))


def _direct(space: Any, place: _Place) -> Iterator[Parameter]:
    """The parameters of `space` that always exist if `place` does."""
    for path, domain in find_unresolved(space):
        whole = place.path + path
        if domain.is_grid():
            raise ValueError(
                f"a searcher cannot cover a grid, but parameter {path_text(whole)!r} is one; use choice() there, or "
                "run without a searcher"
            )
        if is_searchable(domain):
            name = "/".join(([place.name] if place.name else []) + _texts(space, path))
            yield Parameter(name, whole, domain, place.parent)


def _texts(tree: Any, path: Path) -> list[str]:
    """The keys of a path as text, so that no two paths of the tree become alike."""
    texts = []
    for key in path:
        text = str(key)
        if isinstance(tree, dict) and (type(key) is not str or "/" in text):
            others = (str(other) for other in tree if other is not key)
            if any(text == other or text.startswith(f"{other}/") for other in others):
                text = f"<{key!r}>"
        texts.append(text)
        tree = tree[key]
    return texts


def _all(space: Any, place: _Place) -> Iterator[Parameter]:
    for parameter in _direct(space, place):
        yield parameter
        # A range that is too long to be listed holds numbers only.
        if isinstance(parameter.domain, Categorical) and not isinstance(parameter.domain.categories, range):
            for index, category in enumerate(parameter.domain.categories):
                yield from _all(category, _below(parameter, index))


def _resolve(space: Any, place: _Place, choose: Callable[[Parameter], Any]) -> Any:
    config = copy_tree(space)
    for parameter in _direct(space, place):
        value = choose(parameter)
        if isinstance(parameter.domain, Categorical):
            value = _resolve(parameter.domain.categories[value], _below(parameter, value), choose)
        config = assign_value(config, parameter.path[len(place.path) :], value)
    return config


def _read(
    space: Any, config: Any, place: _Place, found: dict[str, Any], on_outside: Callable[[Parameter, Any], None]
) -> None:
    for parameter in _direct(space, place):
        try:
            value = get_value(config, parameter.path[len(place.path) :])
        except (LookupError, TypeError):
            continue
        domain = parameter.domain
        if isinstance(value, Domain):
            continue
        index = _category(domain.categories, value) if isinstance(domain, Categorical) else None
        if index is not None and isinstance(domain, Categorical):
            found[parameter.name] = index
            _read(domain.categories[index], value, _below(parameter, index), found, on_outside)
        elif not isinstance(domain, Categorical) and domain.is_valid(value):
            found[parameter.name] = domain.cast(value)
        else:
            on_outside(parameter, value)


def _category(categories: Any, value: Any) -> int | None:
    """Index of the category that has given `value`, or could have."""
    if isinstance(categories, range):
        return categories.index(value) if value in categories else None
    tests: tuple[Callable[[Any], bool], ...] = (
        lambda category: category is value,
        lambda category: type(category) is type(value) and is_same(category, value),
        lambda category: is_same(category, value),
        lambda category: fits(category, value, by_functions=False),
        lambda category: fits(category, value),
        lambda category: _is_part(category, value),
    )
    return next((index for test in tests for index, category in enumerate(categories) if test(category)), None)


def _is_part(space: Any, value: Any) -> bool:
    """Whether `space` could resolve to `value` and more. An empty part is ambiguous and does not count."""
    if type(space) is dict and isinstance(value, dict):
        return bool(value) and all(key in space and _is_part(space[key], value[key]) for key in value)
    return fits(space, value)


def _refuse(parameter: Parameter, value: Any) -> NoReturn:
    domain = parameter.domain
    raise ValueError(
        f"parameter {parameter.name!r} must be one of the values of {type(domain).__name__}{domain.domain_str}, but "
        f"got {shown(value)}; correct it, or leave it out"
    )


# -- equality and size -------------------------------------------------------------------------------------------------
def config_key(config: Any) -> str:
    """Return a short text that equal configurations have in common, in every process.

    Numbers are equal by value, whatever their type (1, 1.0, numpy's), but True is not a number. NaN equals itself. A
    list and a tuple of equal members are equal. The order of a dict's keys does not matter. Other objects are equal if
    their pickles are.
    """
    return _digest(_canonical(config).encode("utf-8", "surrogatepass"))


def _digest(data: bytes) -> str:
    import hashlib

    return hashlib.blake2b(data, digest_size=12).hexdigest()


def _canonical(value: Any) -> str:
    """`value` as text, another one for every value."""
    if value is None or isinstance(value, (bool, bytes)):
        return repr(value)
    if isinstance(value, str):
        return repr(str(value))  # also of numpy's, which shows its type
    if isinstance(value, float) and not isinstance(value, int):
        return str(int(value)) if value.is_integer() else repr(float(value))
    if isinstance(value, int):
        return str(int(value))
    if isinstance(value, dict):
        members = sorted(f"{_canonical(key)}:{_canonical(member)}" for key, member in dict.items(value))
        return f"{{{','.join(members)}}}"
    if isinstance(value, (list, tuple)):
        return f"[{','.join(map(_canonical, value))}]"
    if isinstance(value, (set, frozenset)):
        return f"({','.join(sorted(map(_canonical, value)))})"
    if hasattr(value, "shape") and hasattr(value, "dtype") and hasattr(value, "tolist"):  # numpy's
        plain = value.tolist()
        if isinstance(plain, (list, bool, int, float, str, bytes)):
            return _canonical(plain)
    import cloudpickle

    try:
        return f"<{_digest(cloudpickle.dumps(value))}>"
    except Exception:  # whatever a user's class raises
        return f"<{type(value).__name__} {id(value)}>"


def space_size(space: Any) -> float:
    """Return an upper limit for the number of configurations of a search space; `math.inf` if they are too many or
    unknown.
    """
    size = _size(space)
    return size if size <= _COUNTED else math.inf


def _size(space: Any) -> float:
    domain = as_domain(space)
    if domain is None:
        members = dict.values(space) if isinstance(space, dict) else space
        return math.prod(map(_size, members)) if isinstance(space, (dict, list, tuple)) else 1
    if isinstance(domain, Categorical) and (domain.is_grid() or is_searchable(domain)):
        if isinstance(domain.categories, range):
            return len(domain)
        plain = {_canonical(category) for category in domain.categories if not has_unresolved_values(category)}
        return len(plain) + sum(_size(category) for category in domain.categories if has_unresolved_values(category))
    if not is_searchable(domain):
        return math.inf
    q = sampler_and_step(domain)[1]
    if isinstance(domain, Integer):
        return len(range(*domain.index_range(int(q)))) if q is not None else domain.upper - domain.lower
    if isinstance(domain, Float) and q is not None and math.isfinite(domain.upper - domain.lower):
        return round((domain.upper - domain.lower) / q) + 1
    return 1 if isinstance(domain, Float) and domain.lower == domain.upper else math.inf


# -- axes --------------------------------------------------------------------------------------------------------------
class _Cells(NamedTuple):
    """Integers are `step` times `first`, ..., `last`."""

    first: int
    last: int
    step: int


class Axis:
    """A numeric parameter's values as numbers over which a searcher can put a mixture of kernels.

    The domain becomes the interval from 0 to 1, logarithmically where it is drawn so. Integers and quantised numbers
    are cells of that interval, and a value lies in the middle of its cell. An integer n fills the cell from n to n + 1,
    which rounds down to it, so that cells and draws from the domain agree. A normal distribution has no bounds: there
    four standard deviations to either side lie between 0 and 1.

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
        sampler, self._q = sampler_and_step(domain)
        self.low, self.high, self.prior_sd = 0.0, 1.0, 1.0
        self.width = 0.0
        self.count: int | None = None
        self._cells: _Cells | None = None
        self._to: Callable[[float], float] = float
        self._from: Callable[[float], float] = float
        if isinstance(sampler, LogUniform):
            self._to, self._from = math.log, math.exp
        if isinstance(sampler, Normal):
            self.low, self.high, self.prior_sd = -math.inf, math.inf, 1 / _SDS
            self._span = _SDS * sampler.sd
            self._begin = sampler.mean - self._span / 2
            self.width = (self._q or 0.0) / self._span
        elif isinstance(domain, Integer):
            step = int(self._q or 1)
            first, last = -(-domain.lower // step), domain.upper // step - (1 if step == 1 else 0)
            self._cells = _Cells(first, last, step)
            self._begin = self._to(first)
            self._span = self._to(last + 1) - self._begin
            self._set_width(first, 1, last - first + 1)
        else:
            margin = (self._q or 0.0) / 2
            self._begin = self._to(domain.lower - margin)
            self._span = self._to(domain.upper + margin) - self._begin
            if self._q is not None:
                self._set_width(domain.lower - margin, self._q, round((domain.upper - domain.lower) / self._q) + 1)
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

    def _set_width(self, begin: float, step: float, count: int) -> None:
        """Set the mean of the cells' widths, each weighted by itself: the width that a uniform draw hits on average."""
        self.count = count
        if self._to is not math.log:
            self.width = 1 / count
            return
        # Beyond some cells the rest is so narrow that it adds nothing.
        edges = [math.log(begin + step * index) for index in range(min(count, 1000) + 1)]
        self.width = sum((right - left) ** 2 for left, right in pairwise(edges)) / self._span**2
