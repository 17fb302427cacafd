"""A search space as a tree: walking it, setting values in it, laying given values over it, naming what is searched.

A path is a tuple of dict keys and list indices. Dicts, lists and tuples are walked; everything else is a leaf. A tag
gives a trial's searched values, sorted by path, as text that is fit for file names.
"""

from __future__ import annotations

import numbers
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from copy import copy
from enum import Enum
from functools import lru_cache
from itertools import islice
from typing import Any

from minitune.error import TuneError
from minitune.space.domains import AttributeDict, Domain, as_domain, is_grid, is_same

Path = tuple[Any, ...]
"""The way to a value in a tree: dict keys and list indices."""
_TAG_LIMIT = 1_000
"""Characters of a value, and members of a container, that a tag takes at most. A file name has room for far fewer."""
_PLAIN = frozenset({int, float, bool, str, bytes, type(None)})


class RecursiveDependencyError(TuneError):
    """A parameter's function needs a parameter that has no value yet, or never gets one."""


class ConfigView(AttributeDict):
    """A configuration as a `sample_from` function sees it: a parameter without a value yet cannot be read.

    Args:
        config: The configuration.
        asking: The domain of the parameter whose function is called. It is passed over when all parameters are read
            at once (`**config`, `items()`), which otherwise could never be done.
    """

    __slots__ = ("_asking",)

    def __init__(self, config: Mapping[str, Any], asking: Domain | None = None):
        super().__init__(config)
        self._asking = asking

    def __getitem__(self, key: str) -> Any:
        value = dict.__getitem__(self, key)
        if not isinstance(value, dict) or is_grid(value):
            if has_unresolved_values(value):
                raise RecursiveDependencyError(f"parameter {key!r} has no value yet: {value!r}")
            return value
        return value if isinstance(value, AttributeDict) else ConfigView(value, self._asking)

    # A dict's own versions of these read past `__getitem__`; `**config` asks whether `__iter__` is the dict's own.
    def __iter__(self) -> Iterator[str]:
        asking = self._asking
        return (key for key in super().__iter__() if asking is None or dict.__getitem__(self, key) is not asking)

    def keys(self) -> Any:
        """The names of all parameters."""
        return list(self)

    def get(self, key: str, default: Any = None) -> Any:
        """The value, or `default` if there is no such parameter."""
        try:
            return self[key]
        except KeyError:
            return default

    def values(self) -> Any:
        """All values."""
        return [self[key] for key in self]

    def items(self) -> Any:
        """All pairs of name and value."""
        return [(key, self[key]) for key in self]


def copy_tree(value: Any) -> Any:
    """Copy dicts, lists and tuples; domains, grids and other leaves stay the same objects."""
    if isinstance(value, dict) and not is_grid(value):
        if type(value) is dict or isinstance(value, AttributeDict):
            copied = {}
            for key, member in dict.items(value):
                is_leaf = type(member) in _PLAIN or isinstance(member, Domain)
                copied[key] = member if is_leaf else copy_tree(member)
            return copied
        mapping = copy(value)
        for key, member in value.items():
            mapping[key] = copy_tree(member)
        return mapping
    if type(value) is list:
        return value.copy() if is_plain(value) else [copy_tree(member) for member in value]
    if _is_walked_tuple(value):
        return _rebuild_tuple(value, [copy_tree(member) for member in value])
    return value


def find_unresolved(value: Any, path: Path = ()) -> Iterator[tuple[Path, Domain]]:
    """Find what has to be resolved in `value`.

    Args:
        value: A search space or a part of one.
        path: Where it hangs.

    Yields:
        Paths and domains, a grid as a `Categorical` with the sampler `Grid`. Domains inside the values of another
        domain are not looked for: they come up when that one is resolved.
    """
    domain = as_domain(value)
    if domain is not None:
        yield path, domain
    elif isinstance(value, dict):
        for key, member in dict.items(value):
            yield from find_unresolved(member, (*path, key))
    elif (type(value) is list or _is_walked_tuple(value)) and not is_plain(value):
        for index, member in enumerate(value):
            yield from find_unresolved(member, (*path, index))


def find_constants(value: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Find the leaves of `value` without anything to resolve; see `find_unresolved`."""
    if as_domain(value) is not None:
        return
    if isinstance(value, dict):
        for key, member in dict.items(value):
            yield from find_constants(member, (*path, key))
    elif type(value) is list or _is_walked_tuple(value):
        for index, member in enumerate(value):
            yield from find_constants(member, (*path, index))
    else:
        yield path, value


def has_unresolved_values(value: Any) -> bool:
    """Whether `value` holds a domain or a grid anywhere."""
    return next(find_unresolved(value), None) is not None


def assign_value(tree: Any, path: Path, value: Any) -> Any:
    """Set `value` at `path`, in place except for tuples, which are made again.

    Returns:
        The tree; another object only if it is a tuple itself or `path` is empty.
    """
    if not path:
        return value
    key, rest = path[0], path[1:]
    member = assign_value(tree[key], rest, value) if rest else value
    if isinstance(tree, tuple):
        members = list(tree)
        members[key] = member
        return _rebuild_tuple(tree, members)
    tree[key] = member
    return tree


def get_value(tree: Any, path: Path) -> Any:
    """The value at `path`."""
    for key in path:
        tree = tree[key]
    return tree


def path_text(path: Path) -> str:
    """`a/b/0` for a path."""
    return "/".join(map(str, path))


def path_key(path: Path) -> tuple[tuple[bool, int, str], ...]:
    """A sort key for paths: indices by number, before names by text."""
    return tuple((False, key, "") if isinstance(key, int) else (True, 0, str(key)) for key in path)


def topmost(paths: list[Path]) -> list[Path]:
    """The paths of `paths` that lie below no other, sorted, each once."""
    known = set(paths)
    return sorted((p for p in known if not any(p[:n] in known for n in range(len(p)))), key=path_key)


def leaves(tree: Any, paths: list[Path]) -> dict[Path, Any]:
    """The values at `paths` in a resolved tree; a dict is given leaf by leaf.

    Args:
        tree: A configuration.
        paths: Paths, none below another.
    """
    found: dict[Path, Any] = {}
    for path in paths:
        value = tree
        for key in path:
            value = value[key]
        if isinstance(value, dict) and value:
            keys = sorted(value, key=lambda key: path_key((key,)))
            found |= leaves(tree, [(*path, key) for key in keys])
        else:
            found[path] = value
    return found


def overlay(space: Any, values: Any, path: Path = (), unknown_keys: bool = True) -> tuple[Any, list[Path]]:
    """Lay given values over a search space.

    Args:
        space: The space, or the part of it at `path`; it stays as it is.
        values: Values for some of its parameters, nested alike. For a list that holds domains they may also be a dict
            from indices to values.
        path: Where `space` hangs.
        unknown_keys: Take parameters that the space does not have.

    Returns:
        The space with those values, and the paths that were set to something other than the constant that was there.

    Raises:
        ValueError: If `unknown_keys` is False and there is one.
    """
    if isinstance(space, dict) and isinstance(values, Mapping) and not is_grid(space) and not is_grid(values):
        merged, fixed = copy_tree(space), []
        for key, value in values.items():
            if key not in space and not unknown_keys:
                raise ValueError(
                    f"every key of a point must be one of the search space, but got {path_text((*path, key))!r}; "
                    f"there are {', '.join(map(str, space)) or 'none'}"
                )
            merged[key], below = (
                overlay(space[key], value, (*path, key), unknown_keys)
                if key in space
                else (copy_tree(value), [(*path, key)])
            )
            fixed.extend(below)
        return merged, fixed
    members = _by_index(space, values)
    if members is not None:
        merged, fixed = copy_tree(space), []
        for index, value in members.items():
            member, below = overlay(space[index], value, (*path, index), unknown_keys)
            merged = assign_value(merged, (index,), member)
            fixed.extend(below)
        return merged, fixed
    is_new = has_unresolved_values(space) or not is_same(space, values)
    return copy_tree(values), [path] if is_new else []


def _by_index(space: Any, values: Any) -> dict[int, Any] | None:
    """The values by index if they are meant for the members of a list that holds domains, else None."""
    if not (type(space) is list or _is_walked_tuple(space)) or not has_unresolved_values(space):
        return None
    if isinstance(values, (list, tuple)):
        return dict(enumerate(values)) if len(values) == len(space) else None
    if not isinstance(values, Mapping) or not values:
        return None
    indices = {str(index): index for index in range(len(space))}
    if any(str(key) not in indices for key in values):
        return None
    return {indices[str(key)]: value for key, value in values.items()}


def is_plain(members: list[Any] | tuple[Any, ...]) -> bool:
    """Whether there is nothing but numbers and texts, of which there may be millions: found out in C."""
    return _PLAIN.issuperset(map(type, members))


def _is_walked_tuple(value: Any) -> bool:
    """Plain and named tuples; other subclasses may not be made from a list of members."""
    return type(value) is tuple or (isinstance(value, tuple) and hasattr(value, "_fields"))


def _rebuild_tuple(old: tuple[Any, ...], members: list[Any]) -> tuple[Any, ...]:
    return tuple(members) if type(old) is tuple else type(old)(*members)


# -- tags --------------------------------------------------------------------------------------------------------------
def format_vars(resolved_vars: Mapping[Path, Any]) -> str:
    """Format searched parameters for a tag, fit for file names.

    Args:
        resolved_vars: Values by path, such as `{("model", "width"): 64}`.

    Returns:
        `"width=64,..."`, sorted by path. Floats have four digits; objects are given by name.
    """
    return _tag_of(sorted(resolved_vars.items(), key=lambda item: path_key(item[0])))


def format_tag(counter: int, searched: Mapping[Path, Any]) -> str:
    """A trial's tag: `"<counter>_k=v,k2=v2"`, or the counter alone if nothing is searched.

    Args:
        counter: The trial's number.
        searched: Values by path, in the order of `leaves`.
    """
    return f"{counter}_{_tag_of(searched.items())}" if searched else str(counter)


def _tag_of(pairs: Iterable[tuple[Path, Any]]) -> str:
    parts = []
    for path, value in pairs:
        name = _name_text(path[-1]) if type(path[-1]) is str else _tag_text(path[-1])
        parts.append(f"{name}={_tag_text(value)}")
    return ",".join(parts)


def _tag_text(value: Any) -> str:
    """A value as text for a tag; characters that a file name may not have become `_`."""
    if type(value) is float:
        return f"{value:.4g}"
    try:
        text = _value_text(value)
    except Exception:  # no text of that many digits, a list in itself, or whatever an object's methods raise
        text = type(value).__name__
    is_number = isinstance(value, numbers.Real) and not isinstance(value, numbers.Integral)
    return text if is_number else re.sub(r"[^a-zA-Z0-9_-]+", "_", text).strip("_")


_name_text = lru_cache(maxsize=1_000)(_tag_text)
"""The same for the names of parameters, which are those of all other trials."""


def _value_text(value: Any) -> str:
    if isinstance(value, Enum):
        return value.name
    if isinstance(value, numbers.Real) and not isinstance(value, numbers.Integral):
        return f"{float(value):.4g}"
    if isinstance(value, (str, bytes)):
        return str(value[:_TAG_LIMIT])
    if value is None or isinstance(value, (numbers.Number, os.PathLike)):
        return str(value)
    if isinstance(value, Mapping):
        return "_".join(
            f"{_value_text(key)}_{_value_text(member)}" for key, member in islice(value.items(), _TAG_LIMIT)
        )
    if isinstance(value, (list, tuple, set, frozenset)):
        return "_".join(_value_text(member) for member in islice(value, _TAG_LIMIT))
    if getattr(value, "shape", None) == () and hasattr(value, "item"):
        return str(value.item())
    return str(getattr(value, "__name__", None) or type(value).__name__)
