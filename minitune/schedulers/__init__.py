"""Schedulers decide which trial runs next, and which trials continue.

A scheduler returns decisions and makes requests; the driver carries them out.

Modules
-------
::

    trial_scheduler       TrialScheduler, the contract with the driver; FIFOScheduler; MetricScheduler, the base of all
                          others but the replay of a population
    async_hyperband       ASHA: `Entry` is one trial's value in a ranking, also for the next two
    hyperband             HyperBand, and BOHB's form of it
    population            the ranks of a population and the explore step, without a run
    pbt, pb2              population based training with them; pb2 explores with a model
    median_stopping_rule  the median rule

One result
----------
The driver calls `on_trial_result`. The scheduler returns a `Decision`: continue, pause or stop, with its reason and the
facts behind it, which the journal keeps. The driver records it and then acts.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from minitune.base.checks import did_you_mean, made_with, shown
from minitune.base.lazy import listing, submodules
from minitune.experiment.decision import Decision
from minitune.schedulers.trial_scheduler import FIFOScheduler, SchedulerContext, TrialScheduler

if TYPE_CHECKING:
    from minitune.schedulers.async_hyperband import ASHAScheduler as ASHAScheduler
    from minitune.schedulers.async_hyperband import AsyncHyperBandScheduler as AsyncHyperBandScheduler
    from minitune.schedulers.hyperband import HyperBandForBOHB as HyperBandForBOHB
    from minitune.schedulers.hyperband import HyperBandScheduler as HyperBandScheduler
    from minitune.schedulers.median_stopping_rule import MedianStoppingRule as MedianStoppingRule
    from minitune.schedulers.pb2 import PB2 as PB2
    from minitune.schedulers.pbt import PopulationBasedTraining as PopulationBasedTraining
    from minitune.schedulers.pbt import PopulationBasedTrainingReplay as PopulationBasedTrainingReplay

__all__ = [
    "PB2",
    "ASHAScheduler",
    "AsyncHyperBandScheduler",
    "Decision",
    "FIFOScheduler",
    "HyperBandForBOHB",
    "HyperBandScheduler",
    "MedianStoppingRule",
    "PopulationBasedTraining",
    "PopulationBasedTrainingReplay",
    "SchedulerContext",
    "TrialScheduler",
    "create_scheduler",
]

_BY_NAME = {
    "fifo": "trial_scheduler:FIFOScheduler",
    "asha": "async_hyperband:ASHAScheduler",
    "async_hyperband": "async_hyperband:AsyncHyperBandScheduler",
    "asynchyperband": "async_hyperband:AsyncHyperBandScheduler",
    "median_stopping_rule": "median_stopping_rule:MedianStoppingRule",
    "medianstopping": "median_stopping_rule:MedianStoppingRule",
    "hyperband": "hyperband:HyperBandScheduler",
    "hb_bohb": "hyperband:HyperBandForBOHB",
    "pbt": "pbt:PopulationBasedTraining",
    "pbt_replay": "pbt:PopulationBasedTrainingReplay",
    "pb2": "pb2:PB2",
}
"""The module and the class of each name, loaded when first used."""

__dir__ = listing(__all__)
__getattr__ = submodules(
    __name__, {kind: module for module, _, kind in (one.partition(":") for one in _BY_NAME.values())}
)


def check_scheduler_name(scheduler: Any) -> str:
    """The name of a scheduler as it is known here, in lower case."""
    name = ""
    if isinstance(scheduler, str):
        name = scheduler.lower()
    if name not in _BY_NAME:
        raise ValueError(
            f"scheduler must be one of {', '.join(_BY_NAME)}, but got {shown(scheduler)}"
            f"{did_you_mean(name, _BY_NAME)}; pass one of your own as an object"
        )
    return name


def create_scheduler(scheduler: str, **kwargs: Any) -> TrialScheduler:
    """Make a scheduler by its name.

    Args:
        scheduler: Such as `fifo` or `asha`; case does not matter.
        **kwargs: Its arguments. Those that it does not know are left out, with a warning.

    Raises:
        ValueError: If there is no scheduler of that name.
    """
    name = check_scheduler_name(scheduler)
    module, _, kind = _BY_NAME[name].partition(":")
    make: type[TrialScheduler] = getattr(importlib.import_module(f"{__name__}.{module}"), kind)
    return made_with(make, kwargs)
