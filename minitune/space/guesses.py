"""Guesses: the points that users want to be tried first (`points_to_evaluate`), as the search space has them.

All searchers use these functions, so that they treat a guess alike. Its values get the types of their domains: 5.0
becomes 5 for an int, and a category is the space's own object. What the space lacks is an error.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from minitune.base.checks import shown
from minitune.result import MISSING, unflatten
from minitune.space.domains import Categorical, Domain, as_domain, is_same
from minitune.space.parameters import category_of
from minitune.space.tree import (
    Path,
    assign_value,
    copy_tree,
    get_value,
    has_unresolved_values,
    overlay,
    path_text,
)


class Guess(NamedTuple):
    """A guess in a search space: the space with its values, and the paths of those that are none of its constants."""

    space: dict[str, Any]
    fixed: list[Path]

    def values(self) -> dict[str, Any]:
        """The values alone, nested like the space. A member of a list is below its index."""
        found: dict[str, Any] = {}
        for path in self.fixed:
            level: dict[Any, Any] = found
            for key in path[:-1]:
                level = level.setdefault(key, {})
            level[path[-1]] = copy_tree(get_value(self.space, path))
        return found


def guess_of(space: dict[str, Any], point: Mapping[str, Any], *, whole: bool = False) -> Guess:
    """Find the values of a guess in a search space.

    `point` is nested like the space, or has paths such as `"a/b"` as keys. With `whole`, a part of a category, such as
    its kind alone, gets the category's other members too.

    Raises:
        ValueError: If a name or a value is not in the space. The message has a similar name.
    """
    merged, fixed = overlay(space, nested(point, space), unknown_keys=False)
    for path in fixed:
        part = get_value(space, path)
        value = get_value(merged, path)
        if has_unresolved_values(value):  # a domain of the user's own for this guess
            continue
        domain = as_domain(part)
        own = MISSING if domain is None else _own_value(domain, value, whole)
        if own is MISSING:
            raise ValueError(
                f"{path_text(path)} of a point to evaluate must be {shown(part)}, as the search space says, but got "
                f"{shown(value)}; correct it, or leave it out"
            )
        merged = assign_value(merged, path, own)
    return Guess(merged, fixed)


def nested(point: Mapping[str, Any], space: Mapping[str, Any]) -> dict[str, Any]:
    """A point, whose keys may be paths such as `"a/b"`, nested as the space is."""
    as_it_is = {key: value for key, value in point.items() if key in space or "/" not in str(key)}
    return {**as_it_is, **unflatten({key: value for key, value in point.items() if key not in as_it_is})}


def agrees(values: Any, config: Any) -> bool:
    """Whether a configuration has all values of a guess, as `Guess.values` returns them."""
    if not isinstance(values, Mapping):
        return is_same(values, config)
    if not isinstance(config, (Mapping, list, tuple)):
        return False
    try:
        return all(agrees(value, config[key]) for key, value in values.items())
    except (LookupError, TypeError):
        return False


def _own_value(domain: Domain, value: Any, whole: bool) -> Any:
    """The value of a domain that a given value means; `MISSING` if the domain cannot have it."""
    if not isinstance(domain, Categorical):
        return domain.cast(value) if domain.is_valid(value) else MISSING
    index = category_of(domain.categories, value)
    if index is None:
        return MISSING
    category = domain.categories[index]
    if not has_unresolved_values(category):
        return copy_tree(category)
    inner = guess_of({"": category}, {"": value}, whole=whole)
    if whole:
        return inner.space[""]
    own = {"": copy_tree(value)}
    for path in inner.fixed:
        own = assign_value(own, path, get_value(inner.space, path))
    return own[""]
