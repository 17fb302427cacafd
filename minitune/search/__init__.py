"""Search: which configurations a run tries.

A searcher proposes configurations and knows nothing of trials. A search algorithm makes trials of them.

::

    search_algorithm   the contract with the driver; SearchGenerator, which asks a searcher
    basic_variant      random and grid search, without a searcher
    searcher           Searcher, the contract of all searchers
    wrappers, filters  limits, repetitions; constraints, duplicates
    by_name            the searchers by their names
    foreign            bases of the searchers of other libraries
    confirm            the repeats of promising trials after a search
    tpe                TPESearch; `bohb` has it under Ray Tune's name
    model              what comes next: `ranking` of the observations, `parzen` mixtures of the parameters' `groups`
    auto               AutoSearch, with `improvement` and `evolution`
    estimate           what to expect of a trial
    surface            the Gaussian process of these and of PB2; needs numpy
    optuna             one of them, imported when used; the others are in `contrib`

The driver asks `SearchGenerator.next_trial`, which asks the outermost wrapper, and so on down to the searcher.
`FilteredSearcher`, the innermost one, may refuse and ask again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from minitune.base.lazy import listing, submodules
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

__dir__ = listing(sorted({*__all__, *HOMES}))
__getattr__ = submodules(__name__, {"Evaluation": "minitune.study", "Study": "minitune.study", **HOMES})

UNRESOLVED_SEARCH_SPACE = (
    "{cls}: {par} must be a search space in the library's own terms, but it holds domains of minitune; give those to "
    "Tuner(param_space=...), and they are converted"
)
UNDEFINED_SEARCH_SPACE = "{cls} has no search space: give it as {space}, or to Tuner(param_space=...)"
UNDEFINED_METRIC_MODE = (
    "{cls} needs a metric and a mode, but got metric={metric!r}, mode={mode!r}: give them to it or to TuneConfig"
)
