"""A search space as searchers see it: a list of parameters, some of which exist only below a category of a choice.

What a searcher can search: numbers drawn uniformly, log-uniformly or from a normal distribution, quantised or not, and
choices. Functions, and domains or samplers that the user has written, are no parameters: they stay in what `draw`
returns, and are resolved when the trial is made.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NoReturn, TypeGuard

from minitune._checks import shown
from minitune.experiment.tags import Path
from minitune.search.space_tree import assign_value, copy_tree, find_unresolved, get_value, path_text
from minitune.space import (
    Categorical,
    Domain,
    Float,
    Integer,
    LogUniform,
    Normal,
    Quantized,
    Uniform,
    fits,
    is_same,
)

Searchable = Float | Integer | Categorical

_SAMPLERS: dict[type[Domain], tuple[type, ...]] = {
    Float: (Uniform, LogUniform, Normal),
    Integer: (Uniform, LogUniform),
    Categorical: (Uniform,),
}


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
        whose domains give it, one of which it is a part.

    Raises:
        ValueError: If there is a grid; or, without `on_outside`, a value that the parameter cannot have.
    """
    found: dict[str, Any] = {}
    _read(space, config, _Place(), found, on_outside or _refuse)
    return found


def is_searchable(domain: Domain) -> TypeGuard[Searchable]:
    """Whether a domain can be a parameter; if not, its values are drawn when the trial is made."""
    sampler = domain.get_sampler()
    if isinstance(sampler, Quantized):
        sampler = sampler.get_sampler()
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
        lambda category: fits(category, value),
        lambda category: _is_part(category, value),
    )
    return next((index for test in tests for index, category in enumerate(categories) if test(category)), None)


def _is_part(space: Any, value: Any) -> bool:
    """Whether `space` could resolve to `value` and more; of an empty part nobody knows whose it is."""
    if type(space) is dict and isinstance(value, dict):
        return bool(value) and all(key in space and _is_part(space[key], value[key]) for key in value)
    return fits(space, value)


def _refuse(parameter: Parameter, value: Any) -> NoReturn:
    domain = parameter.domain
    raise ValueError(
        f"parameter {parameter.name!r} must be one of the values of {type(domain).__name__}{domain.domain_str}, but "
        f"got {shown(value)}; correct it, or leave it out"
    )
