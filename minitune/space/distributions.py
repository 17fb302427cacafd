"""Distributions of SciPy and Optuna in a space: each becomes the domain with the same values.

This module imports neither library. It knows their objects by the module of their class. What has no
counterpart is refused: a trial would get the distribution itself. So are an object with a domain in an attribute, and a
function of this package that was not called.
"""

from __future__ import annotations

from collections.abc import Iterator
from types import FunctionType
from typing import Any

from minitune.space.domains import (
    Domain,
    as_domain,
    choice,
    lograndint,
    loguniform,
    qrandint,
    quniform,
    randint,
    randn,
    uniform,
)
from minitune.space.tree import SCALAR_TYPES, Path, assign_value, copy_tree, is_plain, path_text


def own_space(space: Any) -> dict[str, Any]:
    """A copy of a search space, with domains in place of the distributions of other libraries. Other values are not
    copied.

    Raises:
        ValueError: If a distribution has no counterpart.
    """
    own = dict(space)
    found = [*_foreign(own, ())]
    if found:
        own = copy_tree(own)
        for path, domain in found:
            assign_value(own, path, domain)
    return own


def _foreign(value: Any, path: Path) -> Iterator[tuple[Path, Domain]]:
    """The domains for the distributions of other libraries in a space, each with its path."""
    if type(value) in SCALAR_TYPES or as_domain(value) is not None:
        return
    if isinstance(value, dict):
        for key, member in dict.items(value):
            yield from _foreign(member, (*path, key))
    elif type(value) in (list, tuple):
        if not is_plain(value):
            for index, member in enumerate(value):
                yield from _foreign(member, (*path, index))
    else:
        domain = _domain_for(value, path_text(path))
        if domain is not None:
            yield path, domain


def _domain_for(value: Any, name: str) -> Domain | None:
    """The domain for a distribution; None for every other object.

    Raises:
        ValueError: If the object may not be part of a space.
    """
    kind = type(value)
    library, _, module = kind.__module__.partition(".")
    domain = None
    if library == "scipy" and module.startswith("stats") and hasattr(value, "rvs"):
        domain = scipy_domain(value)
        instead = "take uniform, loguniform, randint or norm with numbers, such as scipy.stats.uniform(0, 1)"
    elif library == "optuna" and module == "distributions" and kind.__name__.endswith("Distribution"):
        domain = _optuna_domain(value)
        instead = "write the values as choice([...])"
    elif (library == "hyperopt" and module == "pyll.base") or (library == "ConfigSpace" and module.startswith("hyper")):
        instead = "write a domain, such as uniform(0, 1)"
    else:
        _refuse_misplaced(value, name)
        return None
    if domain is None:
        raise ValueError(
            f"parameter {name!r} is a distribution of {library} ({kind.__name__}) for which there is no domain: "
            f"{instead}; with_parameters passes the object itself to the trials"
        )
    return domain


def scipy_domain(distribution: Any) -> Domain | None:
    """The domain with the values of a frozen distribution of SciPy; None if there is none."""
    kind = getattr(getattr(distribution, "dist", None), "name", "")
    if kind == "norm":
        return randn(float(distribution.mean()), float(distribution.std()))
    if kind not in ("uniform", "loguniform", "reciprocal", "randint"):
        return None
    low, high = distribution.support()
    if kind == "randint":
        return randint(int(low), int(high) + 1)  # SciPy's support has the last value, a domain does not
    return (uniform if kind == "uniform" else loguniform)(float(low), float(high))


def _optuna_domain(value: Any) -> Domain | None:
    if hasattr(value, "choices"):
        return choice(list(value.choices))
    low, high, step = value.low, value.high, value.step
    is_int = isinstance(low, int)
    if step is None or (is_int and step == 1):
        if is_int:
            return (lograndint if value.log else randint)(low, high + 1)
        return (loguniform if value.log else uniform)(low, high)
    # The values of a distribution begin at `low`, those of a domain with a step are its multiples.
    if is_int and low % step == 0:
        return qrandint(low, high, step)
    try:
        return quniform(low, high, step)
    except ValueError:
        return None


def _refuse_misplaced(value: Any, name: str) -> None:
    """Refuse a function of this package that was not called, and a domain in an attribute, such as of a dataclass."""
    if callable(value):
        if isinstance(value, FunctionType) and value.__module__ == Domain.__module__:
            raise ValueError(
                f"parameter {name!r} is the function {value.__name__} itself: call it, {value.__name__}(...)"
            )
        return
    kind = type(value).__name__
    for inner, member in getattr(value, "__dict__", {}).items():
        if as_domain(member) is not None:
            raise ValueError(
                f"domains must be in dicts, lists or tuples, but attribute {inner!r} of parameter {name!r}, a {kind}, "
                f"is {member}: give {{{name!r}: {{{inner!r}: ...}}}}, and make the {kind} in the trainable"
            )
