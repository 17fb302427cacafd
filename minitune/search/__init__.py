"""Search algorithms: who decides which configurations are tried."""

from __future__ import annotations

import importlib
import inspect
import logging
from typing import TYPE_CHECKING, Any

from minitune._alias import submodules
from minitune._checks import shown
from minitune.search.basic_variant import BasicVariantGenerator
from minitune.search.concurrency_limiter import ConcurrencyLimiter
from minitune.search.repeater import Repeater
from minitune.search.search_algorithm import SearchAlgorithm
from minitune.search.search_generator import SearchGenerator
from minitune.search.searcher import Searcher
from minitune.space import grid_search

if TYPE_CHECKING:
    from minitune.search.tpe import TPESearch as TPESearch

_HOME = {"TPESearch": "tpe"}
"""Searchers by the module below this package that has them; it is loaded when the searcher is first used."""

__all__ = [
    "UNDEFINED_METRIC_MODE",
    "UNDEFINED_SEARCH_SPACE",
    "UNRESOLVED_SEARCH_SPACE",
    "BasicVariantGenerator",
    "ConcurrencyLimiter",
    "Repeater",
    "SearchAlgorithm",
    "SearchGenerator",
    "Searcher",
    "TPESearch",
    "create_searcher",
    "grid_search",
]

__getattr__ = submodules(__name__, _HOME)

UNRESOLVED_SEARCH_SPACE = (
    "{cls}: {par} must be a search space in the library's own terms, but it holds domains of minitune; give those to "
    "Tuner(param_space=...), and they are converted"
)
UNDEFINED_SEARCH_SPACE = "{cls} has no search space: give it as {space}, or to Tuner(param_space=...)"
UNDEFINED_METRIC_MODE = (
    "{cls} needs a metric and a mode, but got metric={metric!r}, mode={mode!r}: give them to it or to TuneConfig"
)

_BY_NAME = {
    "variant_generator": "basic_variant:BasicVariantGenerator",
    "random": "basic_variant:BasicVariantGenerator",
    "optuna": "optuna:OptunaSearch",
    "tpe": "tpe:TPESearch",
}
"""Module below this package, and class; both are loaded when they are asked for."""

_OUT = {
    "ax": "subclass minitune.search.Searcher: suggest() and on_trial_complete() are enough to use its library",
    "bayesopt": "use 'tpe', or subclass minitune.search.Searcher: suggest() and on_trial_complete() are enough",
    "bohb": "use TPESearch together with the scheduler HyperBandForBOHB: they are that algorithm",
    "hebo": "subclass minitune.search.Searcher: suggest() and on_trial_complete() are enough to use its library",
    "hyperopt": "use 'tpe', which is its algorithm, or 'optuna'",
    "nevergrad": "use 'optuna' with one of its samplers, such as CmaEsSampler, or subclass minitune.search.Searcher",
    "zoopt": "subclass minitune.search.Searcher: suggest() and on_trial_complete() are enough to use its library",
}
"""Names that Ray Tune knows and that are not here, with the way out."""


def create_searcher(search_alg: str, **kwargs: Any) -> Searcher | SearchAlgorithm:
    """Make a searcher by its name.

    Args:
        search_alg: Such as `random`; case does not matter.
        **kwargs: Its arguments. Those that it does not know are left out, with a warning.

    Returns:
        The searcher.

    Raises:
        ValueError: If there is no searcher of that name.
        ImportError: If the library that it wraps is not installed.
    """
    name = search_alg.lower() if isinstance(search_alg, str) else ""
    if name in _OUT:
        raise ValueError(
            f"search_alg {search_alg!r} is not supported; there are {', '.join(_BY_NAME)}; instead, {_OUT[name]}"
        )
    if name not in _BY_NAME:
        raise ValueError(
            f"search_alg must be one of {', '.join(_BY_NAME)}, but got {shown(search_alg)}; others are passed "
            "as an object, such as one of your own subclass of minitune.search.Searcher"
        )
    module, _, kind_name = _BY_NAME[name].partition(":")
    kind = getattr(importlib.import_module(f"{__name__}.{module}"), kind_name)
    known = inspect.signature(kind).parameters
    dropped = sorted(set(kwargs) - set(known))
    if dropped:
        logging.getLogger("minitune").warning("%s does not take %s; left out", kind_name, ", ".join(dropped))
    searcher: Searcher | SearchAlgorithm = kind(**{key: value for key, value in kwargs.items() if key in known})
    return searcher
