"""Candidates: reads `param_distributions` as a list of parameters, drawn ahead, or as a search space.

Without a searcher, scikit-learn draws the candidates: the same seed gives those of `RandomizedSearchCV`. A searcher
chooses by the scores so far, so it gets a space. Both are one parameter, `params`: of several dicts, a choice among
them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sklearn.model_selection import ParameterSampler

from minitune.base.checks import shown
from minitune.space.distributions import scipy_domain
from minitune.space.domains import Domain, choice, grid_search

PARAMS = "params"
"""The parameter of a trial that holds all parameters of its candidate."""


class _Drawn:
    """A domain as scikit-learn knows distributions: with `rvs`."""

    def __init__(self, domain: Domain):
        self._domain = domain

    def rvs(self, random_state: Any = None) -> Any:
        """Draw a value."""
        return self._domain.sample(random_state=random_state)


def drawn_ahead(distributions: Any, n_iter: int, random_state: Any) -> dict[str, Any]:
    """The space whose trials are the candidates of a `RandomizedSearchCV`; fewer, with a warning, if lists do not give
    as many.

    Raises:
        TypeError: See `dicts_of`.
    """
    # The searcher of scikit-learn calls `rvs` of each distribution in the order of the names, which decides what a seed
    # gives.
    drawn = [
        {name: _Drawn(value) if isinstance(value, Domain) else value for name, value in one.items()}
        for one in dicts_of(distributions)
    ]
    sampler = ParameterSampler(drawn, n_iter, random_state=random_state)
    return {PARAMS: grid_search(list(sampler))}


def space_of(distributions: Any) -> dict[str, Any]:
    """The space from which a searcher draws candidates.

    Raises:
        TypeError: See `dicts_of`.
        ValueError: If a searcher cannot learn from a distribution.
    """
    spaces = [{name: _domain(name, value) for name, value in one.items()} for one in dicts_of(distributions)]
    return {PARAMS: spaces[0] if len(spaces) == 1 else choice(spaces)}


def dicts_of(distributions: Any) -> Sequence[Mapping[str, Any]]:
    """`param_distributions` as a list of dicts.

    Raises:
        TypeError: If it is neither a dict nor a list of dicts, or if something in it is no distribution.
    """
    found = [distributions] if isinstance(distributions, Mapping) else list(distributions)
    for one in found:
        if not isinstance(one, Mapping):
            raise TypeError(f"param_distributions must be a dict or a list of dicts, but one entry is {shown(one)}")
        for name, value in one.items():
            if isinstance(value, Domain) and value.is_function():
                raise TypeError(
                    f"{name} must be drawn alone, but sample_from computes it from other parameters; give a list "
                    "of dicts if parameters depend on each other"
                )
            is_list = isinstance(value, Iterable) and not isinstance(value, (str, Mapping))
            if not (is_list or isinstance(value, Domain) or hasattr(value, "rvs")):
                raise TypeError(f"{name} must be a list of values or a distribution, but got {shown(value)}")
    return found


def _domain(name: str, value: Any) -> Any:
    """A distribution as a domain; the frozen distributions of scipy tell their ranges."""
    if isinstance(value, Domain):
        return value
    if hasattr(value, "rvs"):
        domain = scipy_domain(value)
        if domain is not None:
            return domain
        kind = getattr(getattr(value, "dist", None), "name", type(value).__name__)
        raise ValueError(
            f"a searcher needs to know the range of {name}, but a distribution {kind!r} does not tell it; give a list, "
            "a domain such as minitune.loguniform(1e-4, 1), one of scipy's uniform, loguniform, randint and norm, or "
            "search at random: search_alg=None"
        )
    return choice(list(value))
