"""When two configurations are equal, and how many different ones a search space stands for."""

from __future__ import annotations

import math
from typing import Any

from minitune.search.parameters import is_searchable
from minitune.search.space_tree import has_unresolved_values
from minitune.space import Categorical, Domain, Float, Integer, Quantized, as_domain

_COUNTED = 1_000_000
"""Spaces with more configurations count as endless: nobody will have tried them all."""


def config_key(config: Any) -> str:
    """A short text that equal configurations have in common, in every process.

    Numbers are equal by value, whatever their type (1, 1.0, numpy's); True is no number; NaN is equal to itself; so
    are a list and a tuple of equal members; the order of a dict's keys plays no part. Other objects are equal if their
    pickles are.
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
    return _canonical_object(value)


def _canonical_object(value: Any) -> str:
    """Numpy's scalars and arrays as what they hold; anything else by its pickle, or itself if it has none."""
    import cloudpickle

    if hasattr(value, "shape") and hasattr(value, "dtype") and hasattr(value, "tolist"):
        plain = value.tolist()
        if isinstance(plain, (list, bool, int, float, str, bytes)):
            return _canonical(plain)
    try:
        return f"<{_digest(cloudpickle.dumps(value))}>"
    except Exception:  # whatever a user's class raises
        return f"<{type(value).__name__} {id(value)}>"


def space_size(space: Any) -> float:
    """How many configurations a search space stands for, at most; `math.inf` if they are too many or unknown."""
    size = _size(space)
    return size if size <= _COUNTED else math.inf


def _size(space: Any) -> float:
    domain = as_domain(space)
    if domain is not None:
        return _domain_size(domain)
    if isinstance(space, dict):
        return math.prod(map(_size, dict.values(space)))
    if isinstance(space, (list, tuple)):
        return math.prod(map(_size, space))
    return 1


def _domain_size(domain: Domain) -> float:
    if isinstance(domain, Categorical) and (domain.is_grid() or is_searchable(domain)):
        if isinstance(domain.categories, range):
            return len(domain)
        plain = {_canonical(category) for category in domain.categories if not has_unresolved_values(category)}
        return len(plain) + sum(_size(category) for category in domain.categories if has_unresolved_values(category))
    if not is_searchable(domain):
        return math.inf
    sampler = domain.get_sampler()
    q = sampler.q if isinstance(sampler, Quantized) else None
    if isinstance(domain, Integer):
        return len(range(*domain.index_range(int(q)))) if q is not None else domain.upper - domain.lower
    if isinstance(domain, Float) and q is not None and math.isfinite(domain.upper - domain.lower):
        return round((domain.upper - domain.lower) / q) + 1
    return 1 if isinstance(domain, Float) and domain.lower == domain.upper else math.inf
