"""For tests: `smoke` and `assert_best` for trainables, and contract suites for plug-ins, to subclass.

The pytest plug-in (`minitune_smoke`) comes with the package. pytest loads it by itself, and this module with it: so
what is named here is loaded when it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from minitune.testing.contracts import SchedulerContract as SchedulerContract
    from minitune.testing.contracts import SearcherContract as SearcherContract
    from minitune.testing.contracts import TrialExecutorContract as TrialExecutorContract
    from minitune.testing.smoke_runs import SmokeFailure as SmokeFailure
    from minitune.testing.smoke_runs import assert_best as assert_best
    from minitune.testing.smoke_runs import smoke as smoke

_MODULE_OF = {
    "SmokeFailure": "smoke_runs",
    "assert_best": "smoke_runs",
    "smoke": "smoke_runs",
    "TrialExecutorContract": "contracts",
    "SchedulerContract": "contracts",
    "SearcherContract": "contracts",
}

__all__ = ["SchedulerContract", "SearcherContract", "SmokeFailure", "TrialExecutorContract", "assert_best", "smoke"]


def __getattr__(name: str) -> Any:
    """Load a public name when it is first used."""
    import importlib

    if name not in _MODULE_OF:
        raise AttributeError(f"module 'minitune.testing' has no attribute {name!r}")
    return getattr(importlib.import_module(f"minitune.testing.{_MODULE_OF[name]}"), name)
