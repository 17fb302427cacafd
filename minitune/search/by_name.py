"""Searchers by their names, for `search_alg="auto"` and `create_searcher`."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from minitune.base.checks import did_you_mean, made_with, of_class, shown
from minitune.search.search_algorithm import SearchAlgorithm
from minitune.search.searcher import Searcher

_BY_NAME = {
    "variant_generator": "minitune.search.basic_variant:BasicVariantGenerator",
    "random": "minitune.search.basic_variant:BasicVariantGenerator",
    "auto": "minitune.search.auto:AutoSearch",
    "ax": "minitune.contrib.ax:AxSearch",
    "bayesopt": "minitune.contrib.bayesopt:BayesOptSearch",
    "bohb": "minitune.search.bohb:TuneBOHB",
    "hyperopt": "minitune.contrib.hyperopt:HyperOptSearch",
    "nevergrad": "minitune.contrib.nevergrad:NevergradSearch",
    "optuna": "minitune.search.optuna:OptunaSearch",
    "tpe": "minitune.search.tpe:TPESearch",
}
"""The module and the class of each name, loaded when first used."""

HOMES = {kind: module for module, _, kind in (one.partition(":") for one in _BY_NAME.values())}
"""The module of each class."""


def check_searcher_name(search_alg: Any, argument: str = "search_alg") -> str:
    """The name of a searcher as it is known here, in lower case. `argument` is for errors."""
    name = ""
    if isinstance(search_alg, str):
        name = search_alg.lower()
    if name not in _BY_NAME:
        raise ValueError(
            f"{argument} must be one of {', '.join(_BY_NAME)}, but got {shown(search_alg)}"
            f"{did_you_mean(name, _BY_NAME)}; pass others as an object, such as one of your own subclass of "
            "minitune.search.Searcher"
        )
    return name


def chosen_searcher(argument: str, choice: Any, points_to_evaluate: Any = None) -> Searcher | SearchAlgorithm:
    """The searcher of a run or a study: the given object, or one made by its name with these points; by default random
    and grid search. `argument` is for errors.

    Raises:
        ValueError: If it is no searcher, there is no searcher of that name, or an object is given with points.
        TypeError: If the points are no list of dicts.
        ImportError: If the searcher of that name needs a library that is not installed.
    """
    name = choice
    if choice is None:
        name = "random"
    found = name
    if isinstance(name, str):
        found = create_searcher(check_searcher_name(name, argument), points_to_evaluate=points_to_evaluate)
    if not isinstance(found, (Searcher, SearchAlgorithm)):
        raise ValueError(
            f"{argument} must be None, a Searcher, a SearchAlgorithm or the name of one, but got {shown(found)}"
            f"{of_class(found)}"
        )
    if points_to_evaluate is not None and found is choice:
        raise ValueError(
            f"points_to_evaluate must be given to the searcher itself, such as {type(found).__name__}"
            f"(points_to_evaluate=[...]), if {argument} is an object, but got {shown(points_to_evaluate)}"
        )
    return found


def create_searcher(search_alg: str, **kwargs: Any) -> Searcher | SearchAlgorithm:
    """Make a searcher by its name; case does not matter. Arguments that it does not have are left out, with a warning.

    Raises:
        ValueError: If there is no searcher of that name.
        ImportError: If it needs a library that is not installed.
    """
    name = check_searcher_name(search_alg)
    module, _, kind_name = _BY_NAME[name].partition(":")
    kind: Callable[..., Searcher | SearchAlgorithm] = getattr(importlib.import_module(module), kind_name)
    return made_with(kind, kwargs)
