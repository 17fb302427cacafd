"""Search algorithms choose the configurations of trials."""

from __future__ import annotations

from typing import TYPE_CHECKING

from minitune._alias import listing, submodules
from minitune.search.basic_variant import BasicVariantGenerator
from minitune.search.by_name import HOMES, create_searcher
from minitune.search.search_algorithm import SearchAlgorithm, SearchGenerator
from minitune.search.searcher import Searcher
from minitune.search.wrappers import ConcurrencyLimiter, Repeater
from minitune.space.domains import grid_search

if TYPE_CHECKING:
    from minitune.search.auto import AutoSearch as AutoSearch
    from minitune.search.tpe import TPESearch as TPESearch

__all__ = [
    "UNDEFINED_METRIC_MODE",
    "UNDEFINED_SEARCH_SPACE",
    "UNRESOLVED_SEARCH_SPACE",
    "AutoSearch",
    "BasicVariantGenerator",
    "ConcurrencyLimiter",
    "Evaluation",
    "Repeater",
    "SearchAlgorithm",
    "SearchGenerator",
    "Searcher",
    "Study",
    "TPESearch",
    "create_searcher",
    "grid_search",
]

__dir__ = listing(__all__)
__getattr__ = submodules(__name__, {"Evaluation": "study", "Study": "study", **HOMES})

UNRESOLVED_SEARCH_SPACE = (
    "{cls}: {par} must be a search space in the library's own terms, but it holds domains of minitune; give those to "
    "Tuner(param_space=...), and they are converted"
)
UNDEFINED_SEARCH_SPACE = "{cls} has no search space: give it as {space}, or to Tuner(param_space=...)"
UNDEFINED_METRIC_MODE = (
    "{cls} needs a metric and a mode, but got metric={metric!r}, mode={mode!r}: give them to it or to TuneConfig"
)
