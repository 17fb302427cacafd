"""A search space as a tree: find its domains, set values, merge given values into it, and make a trial's tag.

A path is a tuple of dict keys and list indices. Dicts, lists and tuples are inner nodes.
"""

from __future__ import annotations

import numbers
import re
from collections.abc import Iterable, Iterator, Mapping
from copy import copy
from functools import lru_cache
from typing import Any

from minitune.base.checks import did_you_mean
from minitune.error import TuneError
from minitune.space.domains import GRID_KEY, Domain, as_domain, is_grid, is_same

Path = tuple[Any, ...]
"""The path of a value in a tree: dict keys and list indices."""
_TAG_LIMIT = 1_000
"""The most characters of a value in a tag."""
SCALAR_TYPES = frozenset({int, float, bool, str, bytes, type(None)})
"""The types of most values, which have no parts."""
_ABSENT = object()


class RecursiveDependencyError(TuneError):
    """A parameter's function reads a parameter that has no value yet, or never gets one."""


class ConfigView(dict[str, Any]):
    """The configuration that a `sample_from` function gets. Reading a parameter without a value is an error.

    Items can also be read as attributes. If there is no item `config`, it is this object itself: Ray's old functions
    read `spec.config.name`.
    """

    __slots__ = ("_asking",)

    def __init__(self, config: Mapping[str, Any], asking: Domain):
        super().__init__(config)
        self._asking = asking

    def __missing__(self, key: str) -> Any:
        if key == "config":
            return self
        raise KeyError(key)

    def __getitem__(self, key: str) -> Any:
        value = super().__getitem__(key)
        if isinstance(value, ConfigView):
            return value
        if isinstance(value, dict) and not is_grid(value):
            return ConfigView(value, self._asking)
        if has_unresolved_values(value):
            raise RecursiveDependencyError(f"parameter {key!r} has no value yet: {value!r}")
        return value

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            names = ", ".join(map(str, self)) or "nothing"
            raise AttributeError(f"the configuration has no {name!r}; it has {names}") from None

    # The methods of dict do not call `__getitem__`. `**config` checks whether `__iter__` is overridden.
    def __iter__(self) -> Iterator[str]:
        return (key for key in super().__iter__() if dict.__getitem__(self, key) is not self._asking)

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
        return [self[key] for key in self]

    def items(self) -> Any:
        return [(key, self[key]) for key in self]


def copy_tree(value: Any) -> Any:
    """Copy dicts, lists and tuples, but not domains, grids and other leaves."""
    if isinstance(value, dict):
        if len(value) == 1 and GRID_KEY in value:  # a leaf: its values are copied when one of them is chosen
            return value
        if type(value) is dict or isinstance(value, ConfigView):
            copied = {}
            for key, member in dict.items(value):
                if type(member) not in SCALAR_TYPES and not isinstance(member, Domain):
                    member = copy_tree(member)
                copied[key] = member
            return copied
        mapping = copy(value)  # a subclass, such as a defaultdict, keeps its class and what else it holds
        for key, member in value.items():
            mapping[key] = copy_tree(member)
        return mapping
    if type(value) is list:
        # A list of a million numbers is a usual constant, and every trial copies it.
        if is_plain(value):
            return value.copy()
        return [copy_tree(member) for member in value]
    if _is_walked_tuple(value):
        return _rebuild_tuple(value, [copy_tree(member) for member in value])
    return value


def find_unresolved(value: Any, path: Path = ()) -> Iterator[tuple[Path, Domain]]:
    """Yield path and domain of each domain and grid in `value`. Those inside the categories of another domain are found
    after that got its value.
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
    """Find the leaves of `value` that are constants; see `find_unresolved`."""
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
    """Whether `value` contains a domain or a grid."""
    return next(find_unresolved(value), None) is not None


def assign_value(tree: Any, path: Path, value: Any) -> Any:
    """Set `value` at `path`. Dicts and lists are changed in place; tuples are replaced. Returns the tree."""
    if not path:
        return value
    key = path[0]
    rest = path[1:]
    member = value
    if rest:
        member = assign_value(tree[key], rest, value)
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
    """A path as text, such as `a/b/0`."""
    return "/".join(map(str, path))


def value_at_text(tree: Any, text: str, default: Any = None) -> Any:
    """The value at the path with this text (see `path_text`), or `default`."""
    if isinstance(tree, (list, tuple)):
        index, slash, rest = text.partition("/")
        if not index.isdecimal() or int(index) >= len(tree):
            return default
        return value_at_text(tree[int(index)], rest, default) if slash else tree[int(index)]
    if not isinstance(tree, Mapping):
        return default
    if text in tree:
        return tree[text]
    for key, member in tree.items():
        name = str(key)
        if name == text:
            return member
        if text.startswith(f"{name}/"):
            value = value_at_text(member, text[len(name) + 1 :], _ABSENT)
            if value is not _ABSENT:
                return value
    return default


def path_key(path: Path) -> tuple[tuple[bool, int, str], ...]:
    """A sort key for paths: indices come first, in numeric order, then names, in the order of their text."""
    return tuple((False, key, "") if isinstance(key, int) else (True, 0, str(key)) for key in path)


def topmost(paths: list[Path]) -> list[Path]:
    """The paths that are not below another one, sorted and without duplicates."""
    # A point may replace a whole part of the space, in which other domains were searched.
    known = set(paths)
    return sorted((p for p in known if not any(p[:n] in known for n in range(len(p)))), key=path_key)


def leaves(tree: Any, paths: list[Path]) -> dict[Path, Any]:
    """The values at `paths` in a configuration. A dict is split."""
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
    """Replace parts of a search space by given values, nested like it. For a list with domains, they may be a dict by
    index. `unknown_keys` admits new parameters.

    Returns:
        The space, and the paths whose values are new or differ from its constants.

    Raises:
        ValueError: If `unknown_keys` is False and `values` has an unknown key.
    """
    if isinstance(space, dict) and isinstance(values, Mapping) and not is_grid(space) and not is_grid(values):
        merged = copy_tree(space)
        fixed = []
        for key, value in values.items():
            if key in space:
                merged[key], below = overlay(space[key], value, (*path, key), unknown_keys)
                fixed.extend(below)
                continue
            if not unknown_keys:
                known = [path_text((*path, name)) for name in space]
                unknown = path_text((*path, key))
                raise ValueError(
                    f"every key of a point must be one of the search space, but got {unknown!r}"
                    f"{did_you_mean(unknown, known)}; there are {', '.join(known) or 'none'}"
                )
            merged[key] = copy_tree(value)
            fixed.append((*path, key))
        return merged, fixed
    members = _by_index(space, values)
    if members is not None:
        merged = copy_tree(space)
        fixed = []
        for index, value in members.items():
            member, below = overlay(space[index], value, (*path, index), unknown_keys)
            merged = assign_value(merged, (index,), member)
            fixed.extend(below)
        return merged, fixed
    # A value that equals the space's constant is not searched, so it does not belong into the tag. The constant stays,
    # which may have another type: 8.0 equals 8.
    if has_unresolved_values(space) or not is_same(space, values):
        return copy_tree(values), [path]
    return copy_tree(space), []


def _by_index(space: Any, values: Any) -> dict[int, Any] | None:
    """The values by index, if `space` is a list with domains and `values` is for its members; else None."""
    if not (type(space) is list or _is_walked_tuple(space)) or not has_unresolved_values(space):
        return None
    if isinstance(values, (list, tuple)):
        if len(values) != len(space):
            return None
        return dict(enumerate(values))
    if not isinstance(values, Mapping) or not values:
        return None
    indices = {str(index): index for index in range(len(space))}
    if any(str(key) not in indices for key in values):
        return None
    return {indices[str(key)]: value for key, value in values.items()}


def is_plain(members: list[Any] | tuple[Any, ...]) -> bool:
    """Whether all members are numbers or strings. There may be millions, so C checks it."""
    return SCALAR_TYPES.issuperset(map(type, members))


def _is_walked_tuple(value: Any) -> bool:
    """True for plain and named tuples. Other subclasses may not accept a list."""
    return type(value) is tuple or (isinstance(value, tuple) and hasattr(value, "_fields"))


def _rebuild_tuple(old: tuple[Any, ...], members: list[Any]) -> tuple[Any, ...]:
    if type(old) is tuple:
        return tuple(members)
    return type(old)(*members)  # a named tuple takes its members one by one


# -- tags --------------------------------------------------------------------------------------------------------------
def format_vars(resolved_vars: Mapping[Path, Any]) -> str:
    """Searched parameters for a tag, sorted by path, such as `width=64,...`, for file names. Floats have four
    digits.
    """
    return _tag_of(sorted(resolved_vars.items(), key=lambda item: path_key(item[0])))


def format_tag(counter: int, searched: Mapping[Path, Any]) -> str:
    """A trial's tag: `"<counter>_k=v,k2=v2"`, or the counter alone if nothing is searched."""
    if not searched:
        return str(counter)
    return f"{counter}_{_tag_of(searched.items())}"


def _tag_of(pairs: Iterable[tuple[Path, Any]]) -> str:
    parts = []
    for path, value in pairs:
        name = path[-1]
        name = _name_text(name) if type(name) is str else _tag_text(name)
        text = f"{value:.4g}" if type(value) is float else _tag_text(value)
        parts.append(f"{name}={text}")
    return ",".join(parts)


def _tag_text(value: Any) -> str:
    """A value as text for a tag."""
    if isinstance(value, numbers.Real) and not isinstance(value, numbers.Integral):
        return f"{float(value):.4g}"  # with its point and the sign of its exponent, which file names allow
    try:
        text = str(getattr(value, "__name__", value))[:_TAG_LIMIT]
    except Exception:  # too many digits, or an error of the object
        text = type(value).__name__
    text = re.sub(r" at 0x[0-9a-fA-F]+", "", text)  # an address would differ from process to process
    return re.sub(r"[^a-zA-Z0-9_-]+", "_", text).strip("_")


_name_text = lru_cache(maxsize=1_000)(_tag_text)
"""The cached version, for names of parameters: all trials have the same names."""
