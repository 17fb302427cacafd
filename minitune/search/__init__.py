"""Search algorithms: who decides which configurations are tried."""

from minitune.search.basic_variant import BasicVariantGenerator
from minitune.search.concurrency_limiter import ConcurrencyLimiter
from minitune.search.repeater import Repeater
from minitune.search.search_algorithm import SearchAlgorithm
from minitune.search.search_generator import SearchGenerator
from minitune.search.searcher import Searcher

__all__ = [
    "BasicVariantGenerator",
    "ConcurrencyLimiter",
    "Repeater",
    "SearchAlgorithm",
    "SearchGenerator",
    "Searcher",
]
