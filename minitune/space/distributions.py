"""Distributions of SciPy and Optuna in a space: each becomes the domain with the same values.

This module imports neither library. It knows their objects by the module of their class. What has no
counterpart is refused: a trial would get the distribution itself. So are an object with a domain in an attribute, and a
function of this package that was not called.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
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
        for path, value, convert in found:
            assign_value(own, path, convert(value, path_text(path)))
    return own


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


# -- where they are ----------------------------------------------------------------------------------------------------
_Convert = Callable[[Any, str], Any]


def _foreign(value: Any, path: Path) -> Iterator[tuple[Path, Any, _Convert]]:
    """The distributions of other libraries in a space, each with its path and the function that converts it."""
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
        convert = _converter(value)
        if convert is not None:
            yield path, value, convert


def _converter(value: Any) -> _Convert | None:
    """The function that converts a distribution; None for every other object."""
    kind = type(value)
    library, _, rest = kind.__module__.partition(".")
    if library == "scipy" and rest.startswith("stats") and hasattr(value, "rvs"):
        return _of_scipy
    if library == "optuna" and rest == "distributions" and kind.__name__.endswith("Distribution"):
        return _of_optuna
    if (library == "hyperopt" and rest == "pyll.base") or (library == "ConfigSpace" and rest.startswith("hyper")):
        return _not_taken
    if kind is FunctionType and value.__module__ == Domain.__module__:
        return _not_called
    if any(as_domain(member) is not None for member in _attributes(value).values()):
        return _not_searched
    return None


def _attributes(value: Any) -> dict[str, Any]:
    """The attributes of an object, such as a Namespace or an instance of a dataclass; none of what can be called."""
    found = {} if callable(value) else getattr(value, "__dict__", None)
    return found if isinstance(found, dict) else {}


# -- each library ------------------------------------------------------------------------------------------------------
def _of_scipy(value: Any, name: str) -> Domain:
    if not hasattr(value, "dist"):
        raise _refusal(value, name, f"call it, such as scipy.stats.{getattr(value, 'name', 'uniform')}(0, 1)")
    domain = scipy_domain(value)
    if domain is None:
        raise _refusal(value.dist, name, "take uniform, loguniform, randint or norm, or sample_from(...)")
    return domain


def _of_optuna(value: Any, name: str) -> Domain:
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
        raise _refusal(value, name, "write the values as choice([...])") from None


def _not_taken(value: Any, name: str) -> Domain:
    raise _refusal(value, name, "write a domain, such as uniform(0, 1)")


def _not_called(value: Any, name: str) -> Domain:
    raise ValueError(f"parameter {name!r} is the function {value.__name__} itself: call it, {value.__name__}(...)")


def _not_searched(value: Any, name: str) -> Domain:
    kind = type(value).__name__
    attributes = _attributes(value)
    inner, domain = next((inner, member) for inner, member in attributes.items() if as_domain(member) is not None)
    raise ValueError(
        f"domains must be in dicts, lists or tuples, but attribute {inner!r} of parameter {name!r}, a {kind}, is "
        f"{domain}: give {{{name!r}: {{{inner!r}: ...}}}}, and make the {kind} in the trainable"
    )


def _refusal(value: Any, name: str, instead: str) -> ValueError:
    library = type(value).__module__.partition(".")[0]
    return ValueError(
        f"parameter {name!r} is a distribution of {library} ({type(value).__name__}) for which there is no domain: "
        f"{instead}; with_parameters passes the object itself to the trials"
    )
