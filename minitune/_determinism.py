"""What `deterministic=True` cannot make repeatable: what goes by the clock, and a run that was stopped halfway."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator

from minitune._assemble import Components
from minitune._plan import Plan
from minitune._warnings import warn_once
from minitune.experiment.trial import Trial
from minitune.result import TIME_SINCE_RESTORE, TIME_THIS_ITER_S, TIME_TOTAL_S, TIMESTAMP
from minitune.stopper.stopper import ASKED_EVERY_S

logger = logging.getLogger("minitune")

_TIMES = (TIME_TOTAL_S, TIME_SINCE_RESTORE, TIME_THIS_ITER_S, TIMESTAMP)


def warn_of_clocks(plan: Plan, components: Components) -> None:
    """Warn, once, of settings by which a deterministic run would depend on the speed of the machine.

    Args:
        plan: What is to be run.
        components: Its plug-ins.
    """
    found = ", ".join(_clocks(plan, components))
    if found:
        warn_once(
            f"deterministic=True cannot make repeatable what goes by the clock, and this run has: {found}. Count in "
            "training_iteration instead of seconds where it has to be the same every time"
        )


def warn_of_resume(unfinished: Iterable[Trial], seed: int) -> None:
    """Warn of trials that have begun under an earlier driver: where each of them was within a step is not known.

    Args:
        unfinished: The trials that go on.
        seed: The base seed of the run.
    """
    begun = sum(trial.report_count > 0 for trial in unfinished)
    if begun:
        logger.warning(
            "deterministic=True: trials that were running when this run stopped (%d have begun) go on from their last "
            "checkpoints, so results may count in another order than without the stop; only a new run with seed=%d "
            "gives the table of an uninterrupted one",
            begun,
            seed,
        )


def _clocks(plan: Plan, components: Components) -> Iterator[str]:
    tune, time_attr = plan.tune_config, components.scheduler.time_attr
    if time_attr in _TIMES:
        yield f"time_attr={time_attr!r} of {type(components.scheduler).__name__}"
    for name in ("time_budget_s", "trial_timeout_s"):
        if getattr(tune, name):
            yield f"{name}={getattr(tune, name)}"
    if not tune.time_budget_s and components.stopper.seconds_left() not in (None, ASKED_EVERY_S):
        yield type(components.stopper).__name__
    for name in sorted({name for one in plan.experiments for name in one.stopping_criterion} & {*_TIMES}):
        yield f"the stop criterion {name!r}"
    if components.scheduler.metric in _TIMES or tune.metric in _TIMES:
        yield f"the metric {components.scheduler.metric or tune.metric!r}"
    if any(one.max_failures < 0 for one in plan.experiments):
        yield "max_failures=-1, since a trial that fails again and again rests before it is tried again"
