"""Configurations that users give, in the terms of a search space."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from minitune._checks import shown
from minitune._warnings import warn_once
from minitune.experiment.tags import Path
from minitune.search._foreign import nested
from minitune.search.parameters import Parameter, values_of
from minitune.search.searcher import TriedConfig
from minitune.search.space_tree import path_text
from minitune.space import is_grid


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
        ValueError: If there is one; the text names it, and one that is much like it.
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
