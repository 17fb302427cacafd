"""What the searchers that stand on other libraries have in common."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from minitune._checks import shown
from minitune._samplers import Quantized, Sampler
from minitune.search.parameters import Parameter
from minitune.search.space_tree import path_text
from minitune.space import Categorical, Float, Integer

LISTED = 1000
"""Of a longer list of categories a library sees the indices only, as numbers: it keeps a weight for each category."""


class _Given(Sampler):
    """Draws what it was given: only the domain's rounding is wanted.

    Args:
        value: The value.
    """

    def __init__(self, value: float):
        self._value = value

    def draw(self, domain: Any, config: Any, rng: Any) -> Any:
        """See `Sampler.draw`."""
        return self._value


def quantized(domain: Float | Integer, value: float) -> Any:
    """The multiple of a quantised domain's step next to `value`, which for ints counts these steps."""
    sampler = domain.get_sampler()
    q = sampler.q if isinstance(sampler, Quantized) else 1
    return domain.draw_quantized(_Given(value), q, None, None)  # type: ignore[arg-type]  # nothing is drawn


def indices_of(parameter: Parameter) -> tuple[int, int] | None:
    """For what is a whole number to a library, the first and the last one: ints count steps, long lists categories."""
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


def nested(point: Mapping[str, Any], space: Mapping[str, Any]) -> dict[str, Any]:
    """A point whose keys may be paths, such as `"a/b"`, nested as the space is."""
    as_it_is = {key: value for key, value in point.items() if key in space or "/" not in str(key)}
    return {**as_it_is, **unflatten({key: value for key, value in point.items() if key not in as_it_is})}


def unflatten(flattened: Mapping[str, Any]) -> dict[str, Any]:
    """`{"a/b": 1}` as `{"a": {"b": 1}}`."""
    tree: dict[str, Any] = {}
    for name, value in flattened.items():
        *outer, last = name.split("/")
        place = tree
        for key in outer:
            place = place.setdefault(key, {})
        place[last] = value
    return tree


def flat(tree: Mapping[str, Any], path: tuple[str, ...] = ()) -> dict[str, Any]:
    """The inverse of `unflatten`."""
    found: dict[str, Any] = {}
    for key, value in tree.items():
        whole = (*path, str(key))
        found.update(flat(value, whole) if isinstance(value, Mapping) and value else {path_text(whole): value})
    return found


def usable(value: Any) -> bool:
    """Whether Optuna takes a value: it is a number and not NaN."""
    try:
        return not isinstance(value, (str, bytes)) and not math.isnan(float(value))
    except (TypeError, ValueError, OverflowError):
        return False
