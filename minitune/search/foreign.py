"""The common part of the searchers that use other libraries: values, categories and points in these libraries' terms.

A library counts steps where this one has quantised ints, and it sees a long list of categories as indices. The points
of users are checked here against the space, so that all searchers refuse the same points in the same words.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeGuard

from minitune.base.checks import require, shown
from minitune.base.text import warn_once
from minitune.result import unflatten
from minitune.search.searcher import TriedConfig
from minitune.space.domains import Categorical, Float, Integer, Quantized, is_grid
from minitune.space.parameters import Parameter, values_of
from minitune.space.tree import Path, path_text

LISTED = 1000
"""A library gets a longer list of categories as indices, as numbers: it keeps a weight for each category."""


def quantized(domain: Float | Integer, value: float) -> Any:
    """The multiple of a quantised domain's step next to `value`, which for ints counts these steps."""
    sampler = domain.get_sampler()
    q = sampler.q if isinstance(sampler, Quantized) else 1
    return domain.snap(value, q) if isinstance(domain, Float) else int(value) * int(q)


def counted(parameter: Parameter, value: Any) -> Any:
    """The inverse of `quantized`, as far as a library counts steps: those of quantised ints. Other values stay."""
    sampler = parameter.domain.get_sampler()
    if isinstance(parameter.domain, (Categorical, Float)) or not isinstance(sampler, Quantized):
        return value
    return round(value / sampler.q)


def indices_of(parameter: Parameter) -> tuple[int, int] | None:
    """The first and the last number, if a library sees an int: an int's steps are counted, a long list's categories."""
    domain = parameter.domain
    if isinstance(domain, Categorical):
        return (0, len(domain) - 1) if len(domain) > LISTED else None
    if isinstance(domain, Float):
        return None
    sampler = domain.get_sampler()
    first, stop = domain.index_range(int(sampler.q) if isinstance(sampler, Quantized) else 1)
    return first, stop - 1


def checked_points(points: Any) -> list[Mapping[str, Any]]:
    """`points_to_evaluate` as a list.

    Raises:
        TypeError: If they are no list of dicts.
    """
    given = [] if points is None else points
    is_list = isinstance(given, Iterable) and not isinstance(given, (Mapping, str))
    given = list(given) if is_list else []
    if not is_list or not all(isinstance(point, Mapping) for point in given):
        raise TypeError(f"points_to_evaluate must be a list of dicts, but got {shown(points)}")
    return given


def checked_rewards(rewards: Any, count: int) -> list[Any]:
    """`evaluated_rewards` as a list.

    Raises:
        ValueError: If there is not one for each of `count` points.
    """
    is_list = isinstance(rewards, Iterable) and not isinstance(rewards, (Mapping, str))
    found = list(rewards) if is_list else []
    require(
        is_list and len(found) == count, "evaluated_rewards: None or one value for each of points_to_evaluate", rewards
    )
    return found


def nested(point: Mapping[str, Any], space: Mapping[str, Any]) -> dict[str, Any]:
    """A point whose keys may be paths, such as `"a/b"`, nested as the space is."""
    as_it_is = {key: value for key, value in point.items() if key in space or "/" not in str(key)}
    return {**as_it_is, **unflatten({key: value for key, value in point.items() if key not in as_it_is})}


def usable(value: Any) -> TypeGuard[float]:
    """Whether a library can learn from a value: it is a number and not NaN."""
    try:
        return not isinstance(value, (str, bytes)) and not math.isnan(float(value))
    except (TypeError, ValueError, OverflowError):
        return False


# -- points of users --------------------------------------------------------------------------------------------------


def evaluated_values(space: Mapping[str, Any], config: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """The parameters' values in a configuration that was tried elsewhere, or is to be tried; it may lack some.

    Args:
        space: The search space.
        config: The configuration; its keys may be paths, such as `"a/b"`.

    Returns:
        (values by the parameters' names, for a choice the index of the category; the names of those whose values lie
        outside, of which a warning was given).

    Raises:
        ValueError: If it has parameters that the space does not have, and is no `TriedConfig`.
    """
    given = nested(config, space)
    if not isinstance(config, TriedConfig):
        refuse_unknown(space, given)
    outside: list[str] = []

    def note(parameter: Parameter, value: Any) -> None:
        outside.append(parameter.name)
        warn_once(
            f"point: {parameter.name}={shown(value)} lies outside of {parameter.domain.domain_str}; the searcher does "
            "not take up such values of it (said once)",
            about=f"point {parameter.name} {parameter.domain.domain_str}",
        )

    return values_of(space, given, note), outside


def refuse_unknown(space: Mapping[str, Any], config: Mapping[str, Any]) -> None:
    """Refuse a point with parameters that the space does not have.

    Raises:
        ValueError: If there is one. The text names it, and a parameter of the space with a similar name.
    """
    for path in _unknown(space, config):
        known: Any = space
        for key in path[:-1]:
            known = known[key]
        from difflib import get_close_matches

        close = get_close_matches(str(path[-1]), map(str, known), 1)
        raise ValueError(
            f"every key of a point must be one of the search space, but got {path_text(path)!r}"
            + (f" (did you mean {path_text((*path[:-1], close[0]))!r}?)" if close else "")
            + f"; there are {', '.join(map(str, known)) or 'none'}"
        )


def _unknown(space: Any, config: Any, path: Path = ()) -> Iterator[Path]:
    """The paths of a configuration that the space does not have."""
    if isinstance(space, Mapping) and isinstance(config, Mapping) and not is_grid(space):
        for key, value in config.items():
            if key in space:
                yield from _unknown(space[key], value, (*path, key))
            else:
                yield (*path, key)
