"""A search space for searchers: a list of parameters. Some of them exist only below a category of a choice.

A searcher supports choices, and numbers that are drawn uniformly, log-uniformly or normally, also quantised. Functions,
and domains or samplers of the user, get their values when the trial is created.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple, NoReturn, TypeGuard

from minitune.base.checks import shown
from minitune.base.text import plain_or_short
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
    Integer: (Integer._Uniform, LogUniform),
    Categorical: (Categorical._Uniform,),
}
_COUNTED = 1_000_000
"""A space with more configurations than this counts as infinite, since no run tries them all."""
_MOST_CATEGORIES = 100
"""No plot shows more categories in their order."""
_SDS = 8.0
"""How many standard deviations of a normal distribution have length 1 on the axis."""


# -- parameters --------------------------------------------------------------------------------------------------------
class Parameter(NamedTuple):
    """One searched value.

    Attributes:
        name: Unique in the space: the path, joined with `/`. Below a choice that contains domains, it has the
            category's index: `model/1/depth` is the one at `("model", "depth")`.
        parent: The name of the choice and the category's index below which it exists, or None.
    """

    name: str
    path: Path
    domain: Searchable
    parent: tuple[str, int] | None = None


def parameters(space: Any) -> list[Parameter]:
    """All parameters of a search space. A parent comes before its children.

    Raises:
        ValueError: If there is a grid, or two parameters have the same name.
    """
    found = list(_all(space, _Root()))
    names: set[str] = set()
    for name in (each.name for each in found):
        if name in names:
            raise ValueError(f"each parameter must have a name of its own, but two are called {name!r}; rename a key")
        names.add(name)
    return found


def draw(space: Any, choose: Callable[[Parameter], Any]) -> Any:
    """Create a configuration, parameter by parameter. Those below a category follow only if it was chosen. `choose`
    returns a value; for a choice, the index.

    Raises:
        ValueError: If there is a grid.
    """
    return _resolve(space, _Root(), choose)


def values_of(space: Any, config: Any, on_outside: Callable[[Parameter, Any], None] | None = None) -> dict[str, Any]:
    """The parameters' values in a configuration, or a part of one: the inverse of `draw`. `on_outside` is called for
    each value that the parameter cannot have, which is left out.

    Returns:
        By parameter name; for a choice, the index of the category. Of several that match, the best one is used, in this
        order: the same object, an equal object of the same type, an equal object, a category whose domains can have the
        value, one that contains it as a part.

    Raises:
        ValueError: If there is a grid; or, without `on_outside`, if a parameter cannot have its value.
    """
    found: dict[str, Any] = {}
    _read(space, config, _Root(), found, on_outside or _refuse)
    return found


def scales(space: Any) -> dict[str, dict[str, Any]]:
    """The scale on which a plot shows each searched value, by path, as plain data.

    A scale has a `kind`: `linear`, `log`, `integer` or `integer log` with `low` and `high`, the first and the last
    value; or `category` with `values` in their order. A computed value, one from a normal distribution and one below a
    choice have none.
    """
    found = {}
    for path, domain in find_unresolved(space):
        scale: dict[str, Any] = {}
        sampler, step = sampler_and_step(domain)
        is_log = isinstance(sampler, LogUniform)
        if isinstance(domain, Categorical) and len(domain.categories) <= _MOST_CATEGORIES:
            scale = {"kind": "category", "values": [plain_or_short(value) for value in domain.categories]}
        elif isinstance(domain, Integer):
            whole_step = int(step or 1)
            first, end = domain.index_range(whole_step)
            kind = "integer log" if is_log else "integer"
            scale = {"kind": kind, "low": first * whole_step, "high": (end - 1) * whole_step}
        elif isinstance(domain, Float) and isinstance(sampler, (Uniform, LogUniform)):
            scale = {"kind": "log" if is_log else "linear", "low": domain.lower, "high": domain.upper}
        if scale:
            found[path_text(path)] = scale
    return found


def is_searchable(domain: Domain) -> TypeGuard[Searchable]:
    """Whether a domain can be a parameter. If not, its value is drawn when the trial is created."""
    sampler, _ = sampler_and_step(domain)
    if type(sampler) not in _SAMPLERS.get(type(domain), ()):
        return False
    has_bounds = not isinstance(domain, Float) or domain.upper - domain.lower < float("inf")
    return has_bounds or isinstance(sampler, Normal)


class _Root(NamedTuple):
    """The root of a space or of a category."""

    path: Path = ()
    name: str = ""
    parent: tuple[str, int] | None = None


def _below(choice: Parameter, index: int) -> _Root:
    return _Root(choice.path, f"{choice.name}/{index}", (choice.name, index))


def _direct(space: Any, root: _Root) -> Iterator[Parameter]:
    """The parameters of `space` that exist whenever `root` exists."""
    for path, domain in find_unresolved(space):
        whole = root.path + path
        if domain.is_grid():
            raise ValueError(
                f"a searcher cannot cover a grid, but parameter {path_text(whole)!r} is one; use choice() there, or "
                "run without a searcher"
            )
        if is_searchable(domain):
            name = path_text((root.name, *path) if root.name else path)
            yield Parameter(name, whole, domain, root.parent)


def _all(space: Any, root: _Root) -> Iterator[Parameter]:
    for parameter in _direct(space, root):
        yield parameter
        if isinstance(parameter.domain, Categorical):
            for index, category in enumerate(parameter.domain.categories):
                yield from _all(category, _below(parameter, index))


def _resolve(space: Any, root: _Root, choose: Callable[[Parameter], Any]) -> Any:
    config = copy_tree(space)
    for parameter in _direct(space, root):
        value = choose(parameter)
        if isinstance(parameter.domain, Categorical):
            value = _resolve(parameter.domain.categories[value], _below(parameter, value), choose)
        config = assign_value(config, parameter.path[len(root.path) :], value)
    return config


def _read(
    space: Any, config: Any, root: _Root, found: dict[str, Any], on_outside: Callable[[Parameter, Any], None]
) -> None:
    for parameter in _direct(space, root):
        try:
            value = get_value(config, parameter.path[len(root.path) :])
        except (LookupError, TypeError):
            continue
        domain = parameter.domain
        if isinstance(value, Domain):  # it is not drawn yet
            continue
        if isinstance(domain, Categorical):
            index = category_of(domain.categories, value)
            if index is not None:
                found[parameter.name] = index
                _read(domain.categories[index], value, _below(parameter, index), found, on_outside)
                continue
        elif domain.is_valid(value):
            found[parameter.name] = domain.cast(value)
            continue
        on_outside(parameter, value)


def category_of(categories: Any, value: Any) -> int | None:
    """The index of the category that matches `value` best, as `values_of` says; None if none matches."""
    # The strictest test first, over all categories: with [1, True] the value True must not become the first one.
    tests: tuple[Callable[[Any], bool], ...] = (
        lambda category: category is value,
        lambda category: type(category) is type(value) and is_same(category, value),
        lambda category: is_same(category, value),
        lambda category: fits(category, value),
        lambda category: _is_part(category, value),
    )
    for test in tests:
        for index, category in enumerate(categories):
            if test(category):
                return index
    return None


def first_equals(categories: Sequence[Any]) -> list[int] | None:
    """For each category, the index of the first one of its type that is equal to it; None if all differ. A record has
    the value alone, of which `category_of` finds the first index.
    """
    try:
        firsts: dict[Any, int] = {}
        found = [firsts.setdefault((type(category), category), i) for i, category in enumerate(categories)]
    except TypeError:  # a list, a dict, or another object without a hash
        found = []
        for i, category in enumerate(categories):
            same = (j for j in range(i) if type(categories[j]) is type(category) and is_same(categories[j], category))
            found.append(next(same, i))
    return None if found == list(range(len(found))) else found


def _is_part(space: Any, value: Any) -> bool:
    """Whether `value` is a part of a possible value of `space`."""
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
    """A short text that is the same for equal configurations, in every process.

    Numbers are compared by value (1, 1.0, numpy's), but True is no number. NaN equals itself. A list equals a tuple,
    and the order of keys does not matter. Other objects are equal if their pickles are.
    """
    return _digest(_canonical(config).encode("utf-8", "surrogatepass"))


def _digest(data: bytes) -> str:
    import hashlib

    return hashlib.blake2b(data, digest_size=12).hexdigest()


def _canonical(value: Any) -> str:
    """A text for `value`, different for different ones."""
    if value is None or isinstance(value, (bool, bytes)):
        return repr(value)
    if isinstance(value, str):
        return repr(str(value))  # `str` also converts numpy's strings, whose repr shows the type
    if isinstance(value, float) and not isinstance(value, int):
        if value.is_integer():
            return str(int(value))
        return repr(float(value))
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
    except Exception:  # a user's class may raise anything
        return f"<{type(value).__name__} {id(value)}>"  # then an object equals only itself


def space_size(space: Any) -> float:
    """An upper limit for the number of configurations of a space; `math.inf` if there are too many or it is unknown."""
    size = _size(space)
    if size > _COUNTED:
        return math.inf
    return size


def _size(space: Any) -> float:
    domain = as_domain(space)
    if domain is None:
        if isinstance(space, dict):
            return math.prod(map(_size, dict.values(space)))
        if isinstance(space, (list, tuple)):
            return math.prod(map(_size, space))
        return 1
    if isinstance(domain, Categorical) and (domain.is_grid() or is_searchable(domain)):
        # Equal categories give one configuration. Those with domains count as often as these have values.
        plain = set()
        size: float = 0
        for category in domain.categories:
            if has_unresolved_values(category):
                size += _size(category)
            else:
                plain.add(_canonical(category))
        return size + len(plain)
    if not is_searchable(domain) or isinstance(domain, Categorical):
        return math.inf
    return Axis(domain).count or math.inf


# -- axes --------------------------------------------------------------------------------------------------------------
class Axis:
    """Maps a numeric parameter to an axis on which a searcher can put kernels.

    The domain becomes the interval from 0 to 1, on its own scale. Integers and quantised numbers are cells, with the
    value in the middle, except that the cell of an integer n goes from n to n + 1, since a draw is rounded down. Of a
    normal distribution, it covers four standard deviations to either side.

    Attributes:
        prior_sd: The standard deviation of the prior, a kernel at 0.5.
        width: The mean width of a cell; 0 for a continuous parameter.
        count: The number of values; None for a continuous parameter.
    """

    def __init__(self, domain: Float | Integer):
        self._domain = domain
        sampler, self._step = sampler_and_step(domain)
        self.low = 0.0
        self.high = 1.0
        self.prior_sd = 1.0
        self.width = 0.0
        self.count: int | None = None
        self._to: Callable[[float], float] = float
        self._from: Callable[[float], float] = float
        if isinstance(sampler, Normal):
            self.low = -math.inf
            self.high = math.inf
            self.prior_sd = 1 / _SDS
            self._span = _SDS * sampler.sd
            self._begin = sampler.mean - self._span / 2
            self.width = (self._step or 0.0) / self._span
            return
        if isinstance(sampler, LogUniform):
            self._to = math.log
            self._from = math.exp
        low: float = domain.lower
        high: float = domain.upper
        if isinstance(domain, Integer):
            self._step = int(self._step or 1)
            self._first, stop = domain.index_range(self._step)
            self._edge = 0.0  # where the cell of a step begins, in steps from it
        elif self._step is not None:
            self._first = round(low / self._step)
            stop = round(high / self._step) + 1
            self._edge = -0.5
        if self._step is not None:
            low = self._first + self._edge
            high = stop + self._edge
            self.count = stop - self._first
        self._begin = self._to(low)
        self._span = self._to(high) - self._begin
        if self._span <= 0:
            self.count = 1
        elif self.count is not None:
            self.width = self._mean_width(low, self.count)

    def encode(self, value: Any) -> float:
        """The position of a value on the axis."""
        if self.count == 1:
            return 0.5
        coordinate = self._to(value)
        if self.count is not None and self._step is not None:
            edge = round(value / self._step) + self._edge
            coordinate = (self._to(edge) + self._to(edge + 1)) / 2
        return (coordinate - self._begin) / self._span

    def decode(self, coordinate: float) -> Any:
        """The value of the domain at a position; for a cell, the cell's value."""
        number = self._from(self._begin + coordinate * self._span)
        if self._step is None:
            return min(max(number, self._domain.lower), self._domain.upper)
        if self.count is None:
            return self._value(number / self._step)
        number = math.floor(number - self._edge)
        return self._value(min(max(number, self._first), self._first + self.count - 1))

    def values(self) -> Iterator[Any]:
        """All values of a domain that has a `count`, in ascending order."""
        if self._step is None:
            yield self.decode(0.5)
        else:
            yield from map(self._value, range(self._first, self._first + (self.count or 0)))

    def _value(self, number_of_steps: float) -> Any:
        step = self._step or 1
        if isinstance(self._domain, Integer):
            return number_of_steps * step
        return self._domain.snap(number_of_steps * step, step)

    def _mean_width(self, begin: float, count: int) -> float:
        """The mean width of the cells, weighted by width: the mean width of the cell that a uniform draw hits."""
        if self._to is not math.log:
            return 1 / count
        # After this many cells, the remaining ones are too narrow to change the mean.
        edges = [math.log(begin + index) for index in range(min(count, 1000) + 1)]
        return sum((right - left) ** 2 for left, right in pairwise(edges)) / self._span**2
