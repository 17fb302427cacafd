"""For tests: `smoke` and `assert_best` for trainables, and contract suites for plug-ins, to subclass.

::

    pytest_plugin         the fixture `minitune_smoke`, which calls `smoke`
    smoke_runs            `smoke`: a short tuning; `assert_best`
    scheduler_contract    what a scheduler must do, without processes: the simulation drives it
    searcher_contract     what a searcher must do: suggest, learn, and continue from its saved state

pytest loads the package's plug-in (`minitune_smoke`), and this package with it, in every environment that has minitune.
So each name here is loaded when it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from minitune.base.lazy import listing, submodules

if TYPE_CHECKING:
    from minitune.testing.scheduler_contract import SchedulerContract as SchedulerContract
    from minitune.testing.searcher_contract import SearcherContract as SearcherContract
    from minitune.testing.smoke_runs import SmokeFailure as SmokeFailure
    from minitune.testing.smoke_runs import assert_best as assert_best
    from minitune.testing.smoke_runs import smoke as smoke

_MODULE_OF = {
    "SchedulerContract": "scheduler_contract",
    "SearcherContract": "searcher_contract",
    "SmokeFailure": "smoke_runs",
    "assert_best": "smoke_runs",
    "smoke": "smoke_runs",
}

__all__ = list(_MODULE_OF)

__dir__ = listing(__all__)
__getattr__ = submodules(__name__, _MODULE_OF)
