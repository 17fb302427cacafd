"""ResourceChangingScheduler: takes the decisions of another scheduler and changes the resources of running trials.

A trial never has less than it asked for at its start.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Mapping
from typing import Any

from minitune import decision
from minitune.base.calls import explains_calls
from minitune.base.checks import is_whole, require, require_flag, require_metric, shown
from minitune.decision import Decision
from minitune.experiment.goal import check_mode
from minitune.experiment.lifecycle import PAUSED
from minitune.experiment.trial import Trial
from minitune.resources import CPU, GPU, Resources
from minitune.result import DEFAULT_METRIC, TRAINING_ITERATION, flatten
from minitune.schedulers.trial_scheduler import (
    FIFOScheduler,
    SchedulerContext,
    TrialScheduler,
    score,
)

logger = logging.getLogger("minitune")

_HANDED_OUT = (CPU, GPU)
_ROUNDING = 1e-9

Allocate = Callable[[SchedulerContext, Trial, dict[str, Any], "ResourceChangingScheduler"], Any]
"""Returns the resources of a trial from now on, or None if they do not change."""


def _amounts(name: str, amounts: Any) -> dict[str, float]:
    """Amounts of CPUs and GPUs under their usual names; not all may be zero."""
    if amounts is None or amounts == {}:
        return {}
    require(isinstance(amounts, Mapping), f"{name}: None or a dict such as {{'CPU': 1}}", amounts)
    clean = Resources([amounts]).bundles[0]
    if not clean or not set(clean) <= set(_HANDED_OUT):
        raise ValueError(f"{name} must hold an amount of CPU or GPU, and of nothing else, but got {shown(amounts)}")
    return clean


class DistributeResources:
    """Gives the CPUs and GPUs that are left to the live trials in equal shares.

    A trial grows to its share with the resources that are free. If others have joined and the trials together have too
    much, it shrinks.

    Args:
        add_bundles: Whether a trial grows by bundles. If not, the amounts are added to its only one.
        increase_by: A trial grows by these resources at a time. By default, by its last bundle with `add_bundles`; else
            by 1 GPU if it has GPUs, or by 1 CPU.
        increase_by_times: The limit of units for a trial, if it is positive and `increase_by` is given.
        reserve_resources: Resources that no trial gets, such as `{"CPU": 1}`.
    """

    def __init__(
        self,
        add_bundles: bool = False,
        increase_by: Mapping[str, float] | None = None,
        increase_by_times: int = -1,
        reserve_resources: Mapping[str, float] | None = None,
    ):
        require_flag("add_bundles", add_bundles)
        require(is_whole(increase_by_times), "increase_by_times: an int; below 1 means no limit", increase_by_times)
        self.add_bundles = add_bundles
        self.increase_by = _amounts("increase_by", increase_by)
        self.increase_by_times = increase_by_times
        self.reserve_resources = _amounts("reserve_resources", reserve_resources)

    def __call__(
        self,
        tune_controller: SchedulerContext,
        trial: Trial,
        result: dict[str, Any],
        scheduler: ResourceChangingScheduler,
    ) -> Resources | None:
        """The resources of the trial from now on, even if they are unchanged; None before its first iteration.

        Raises:
            ValueError: If trials have several bundles and `add_bundles` is False, or a metric is needed and not known.
        """
        base = scheduler.base_trial_resources or Resources.of(None)
        if not self.add_bundles and len(base.bundles) > 1:
            raise ValueError(
                f"{type(self).__name__} can add to only one bundle, but trials ask for {len(base.bundles)}; pass "
                "add_bundles=True"
            )
        if result.get(TRAINING_ITERATION, 1) < 1:
            return None
        unit: Mapping[str, float] = {GPU: 1} if base.bundles[0].get(GPU) else {CPU: 1}
        if self.increase_by:
            unit = self.increase_by
        elif self.add_bundles:
            last = {name: amount for name, amount in base.bundles[-1].items() if name in _HANDED_OUT}
            unit = last or {CPU: 1}
        # The requests that trials will have, not those that they have: a change takes effect at the trial's next start,
        # and until then nothing may be given out twice.
        planned = {other: scheduler.planned_resources(other) for other in tune_controller.get_live_trials()}
        units = {other: self._units(request, base, unit) for other, request in planned.items()}
        totals = tune_controller._resource_updater
        pool = {CPU: float(totals.get_num_cpus()), GPU: float(totals.get_num_gpus())}
        free_amounts = {}
        beyond_bases = {}
        for name in _HANDED_OUT:
            pool[name] -= self.reserve_resources.get(name, 0)
            used = (request.required_resources.get(name, 0) for request in planned.values())
            free_amounts[name] = pool[name] - sum(used)
            beyond_bases[name] = pool[name] - base.required_resources.get(name, 0) * len(planned)
        free = _count(unit, free_amounts)  # below 0 if others have joined and there is too little for all
        mine = units[trial]
        limit = self._limit(trial, result, scheduler, units, max(0, _count(unit, beyond_bases)))
        if free >= 0:
            grown = min(max(mine, limit), mine + free)
        else:
            grown = max(0, mine + free)
        if self.add_bundles:
            labels = None
            if base.labels:
                labels = [*base.labels, *([base.labels[-1]] * grown)]
            bundles = [*base.bundles, *([dict(unit)] * grown)]
            return Resources(bundles, base.strategy, bundle_label_selector=labels)
        bundle = dict(base.bundles[0])
        for name, amount in unit.items():
            bundle[name] = bundle.get(name, 0) + amount * grown
        return Resources([bundle], base.strategy, bundle_label_selector=base.labels)

    def _limit(
        self,
        trial: Trial,
        result: dict[str, Any],
        scheduler: ResourceChangingScheduler,
        units: Mapping[Trial, int],
        all_units: int,
    ) -> int:
        share, left = divmod(all_units, len(units))
        index = list(units).index(trial)
        if index < left:  # the units that cannot be divided go to the first trials
            share += 1
        return min(share, self._cap())

    def _cap(self) -> int:
        bounded = self.increase_by and self.increase_by_times >= 1
        if bounded:
            return self.increase_by_times
        return 2**31

    def _units(self, request: Resources, base: Resources, unit: Mapping[str, float]) -> int:
        if self.add_bundles:
            return max(0, len(request.bundles) - len(base.bundles))
        name, amount = next(iter(unit.items()))
        more = request.required_resources.get(name, 0) - base.required_resources.get(name, 0)
        return max(0, round(more / amount))


class DistributeResourcesToTopJob(DistributeResources):
    """Gives all free resources to the best trial. The others keep theirs. The other arguments are those of
    `DistributeResources`.

    Args:
        metric, mode: By which the best trial is chosen; by default those of the scheduler or the run.
    """

    def __init__(
        self,
        add_bundles: bool = False,
        increase_by: Mapping[str, float] | None = None,
        increase_by_times: int = -1,
        reserve_resources: Mapping[str, float] | None = None,
        metric: str | None = None,
        mode: str | None = None,
    ):
        super().__init__(add_bundles, increase_by, increase_by_times, reserve_resources)
        require_metric("metric", metric)
        if mode is not None:
            check_mode(mode)
        self.metric = metric
        self.mode = mode

    def objective(self, scheduler: ResourceChangingScheduler) -> tuple[str, str]:
        """The metric and the mode that make a trial the best.

        Raises:
            ValueError: If neither this nor the scheduler has them.
        """
        metric = self.metric or scheduler.metric
        mode = self.mode or scheduler.mode
        if metric is None or mode is None:
            raise ValueError(
                f"{type(self).__name__} needs a metric and a mode, but got "
                f"metric={None if metric == DEFAULT_METRIC else metric!r}, mode={mode!r}: give them to it, to the base "
                "scheduler, or to TuneConfig"
            )
        return metric, mode

    def _limit(
        self,
        trial: Trial,
        result: dict[str, Any],
        scheduler: ResourceChangingScheduler,
        units: Mapping[Trial, int],
        all_units: int,
    ) -> int:
        """All units for the best trial that is below the cap; no more for the others."""
        metric, mode = self.objective(scheduler)

        def standing(other: Trial) -> float:
            if other is trial:
                last = result
            else:
                last = flatten(other.last_result)
            return score(last.get(metric), mode)

        cap = self._cap()
        growing = [other for other, count in units.items() if count < cap]
        if max(growing, key=standing, default=None) is trial:
            return cap
        return 0


@explains_calls()
class ResourceChangingScheduler(TrialScheduler):
    """Changes the resources of trials while they run; all other decisions are those of another scheduler.

    If a trial continues after a result, a function returns its resources. If they change, the trial is saved and
    paused, and continues there once there is room. `get_context().get_trial_resources()` or `Trainable.trial_resources`
    return the new ones. Trials must save checkpoints. It cannot be combined with `reuse_actors=True`.

    Args:
        base_scheduler: Makes the other decisions; FIFO by default.
        resources_allocation_function: Gets the context, the trial, its result and this scheduler; returns a request (a
            dict or a `PlacementGroupFactory`), or None if nothing changes. Without a function no resources
            change, with a warning.
    """

    def __init__(
        self,
        base_scheduler: TrialScheduler | None = None,
        resources_allocation_function: Allocate | None = DistributeResources(),  # noqa: B008 - it has no state
    ):
        good = base_scheduler is None or isinstance(base_scheduler, TrialScheduler)
        require(good, "base_scheduler: None or a scheduler", base_scheduler)
        good = resources_allocation_function is None or callable(resources_allocation_function)
        require(good, "resources_allocation_function: None or a function", resources_allocation_function)
        if resources_allocation_function is None:
            logger.warning("resources_allocation_function is None: no trial's resources will be changed")
        self._base = base_scheduler or FIFOScheduler()
        self._allocate = resources_allocation_function
        self._base_trial_resources: Resources | None = None  # functions that are written for Ray Tune read it
        self._planned: dict[str, Resources] = {}
        self._put_aside: dict[str, Trial | None] = {}  # None: after a restore, only the id is known

    @property
    def metric(self) -> str | None:
        return self._base.metric or self._metric

    @property
    def mode(self) -> str | None:
        """The base scheduler's mode, or the run's."""
        return self._base._mode or self._mode

    @property
    def time_attr(self) -> str | None:
        return self._base.time_attr

    @property
    def first_turn(self) -> float | None:
        return self._base.first_turn

    @property
    def required_attrs(self) -> tuple[str, ...]:
        return self._base.required_attrs

    @property
    def base_trial_resources(self) -> Resources | None:
        """The resources of every trial at its start, or None if there is no trial yet."""
        return self._base_trial_resources

    def planned_resources(self, trial: Trial) -> Resources:
        """The resources that a trial has, or will have at its next start."""
        return self._planned.get(trial.trial_id, trial.resources)

    def set_search_properties(self, metric: str | None, mode: str | None, **spec: Any) -> bool:
        """See `TrialScheduler.set_search_properties`.

        Raises:
            ValueError: If workers are reused, the base scheduler refuses something, or nothing says which trial is the
                best for `DistributeResourcesToTopJob`.
        """
        if spec.get("reuse_actors"):
            raise ValueError(
                "ResourceChangingScheduler cannot be used with reuse_actors=True, because a worker keeps its "
                "resources; pass reuse_actors=False to TuneConfig"
            )
        self._metric = metric
        self._mode = mode
        takes_it = self._base.set_search_properties(metric, mode, **spec)
        if isinstance(self._allocate, DistributeResourcesToTopJob):
            self._allocate.objective(self)
        return takes_it

    def set_seed(self, seed: int) -> None:
        self._base.set_seed(seed)

    # -- hooks ---------------------------------------------------------------------------------------------------

    def on_trial_add(self, tune_controller: SchedulerContext, trial: Trial) -> None:
        """Note the first trial's request, which must be that of all trials.

        Raises:
            RuntimeError: If another trial asks for something else.
        """
        if self._base_trial_resources is None:
            self._base_trial_resources = trial.resources
        elif trial.trial_id not in self._planned and trial.resources != self._base_trial_resources:
            raise RuntimeError(
                "with ResourceChangingScheduler all trials must ask for the same resources at the start, but the "
                f"first one asked for {self._base_trial_resources}, and trial {trial} for {trial.resources}"
            )
        self._base.on_trial_add(tune_controller, trial)

    def on_trial_result(self, tune_controller: SchedulerContext, trial: Trial, result: dict[str, Any]) -> str:
        self._put_aside.pop(trial.trial_id, None)
        decided = Decision.of(self._base.on_trial_result(tune_controller, trial, result) or decision.CONTINUE)
        if decided != decision.CONTINUE or decided.exploit is not None or self._allocate is None:
            return decided
        answer = self._allocate(tune_controller, trial, result, self)
        if not answer:
            return decided
        request = Resources.of(answer)
        now = self.planned_resources(trial)
        if request == now:
            return decided
        self._planned[trial.trial_id] = request
        self._put_aside[trial.trial_id] = trial
        return Decision(
            decision.PAUSE,
            f"continues with {_text(request)} instead of {_text(now)}",
            resources=request,
            facts={"rule": "resources", "old": _text(now), "new": _text(request)},
        )

    def on_trial_complete(self, tune_controller: SchedulerContext, trial: Trial, result: dict[str, Any]) -> None:
        self._forget(trial)
        self._base.on_trial_complete(tune_controller, trial, result)

    def on_trial_remove(self, tune_controller: SchedulerContext, trial: Trial) -> None:
        self._forget(trial)
        self._base.on_trial_remove(tune_controller, trial)

    def on_trial_error(self, tune_controller: SchedulerContext, trial: Trial) -> None:
        self._base.on_trial_error(tune_controller, trial)

    def choose_trial_to_run(self, tune_controller: SchedulerContext) -> Trial | None:
        """A trial that this scheduler has paused, before new ones. A trial that the base scheduler resumes is first."""
        chosen = self._base.choose_trial_to_run(tune_controller)
        if chosen is not None and chosen.status == PAUSED:
            return chosen
        for trial_id in list(self._put_aside):
            trial = self._put_aside[trial_id] or self._found_again(tune_controller, trial_id)
            if trial is not None and trial.status == PAUSED:
                return trial
            if trial is None or trial.is_finished():
                del self._put_aside[trial_id]
        return chosen

    def why_chosen(self, trial: Trial) -> tuple[str, Mapping[str, Any]]:
        return self._base.why_chosen(trial)

    @property
    def short_name(self) -> str:
        return self._base.short_name

    def debug_string(self) -> str:
        return f"(ResourceChangingScheduler) {self._base.debug_string()}"

    def get_state(self) -> dict[str, Any]:
        return {
            "base": self._base.get_state(),
            "base_resources": _plain(self._base_trial_resources),
            "planned": {trial_id: _plain(request) for trial_id, request in self._planned.items()},
            "put_aside": list(self._put_aside),
        }

    def set_state(self, state: dict[str, Any]) -> None:
        self._base.set_state(state["base"])
        self._base_trial_resources = _request_of(state["base_resources"])
        planned = {trial_id: _request_of(plain) for trial_id, plain in state["planned"].items()}
        self._planned = {trial_id: request for trial_id, request in planned.items() if request is not None}
        self._put_aside = dict.fromkeys(state["put_aside"])

    def _found_again(self, context: SchedulerContext, trial_id: str) -> Trial | None:
        found = next((trial for trial in context.get_live_trials() if trial.trial_id == trial_id), None)
        self._put_aside[trial_id] = found
        return found

    def _forget(self, trial: Trial) -> None:
        self._planned.pop(trial.trial_id, None)
        self._put_aside.pop(trial.trial_id, None)


def _count(unit: Mapping[str, float], amounts: Mapping[str, float]) -> int:
    """The number of units in `amounts`, which may be below zero."""
    return min(math.floor(amounts[name] / amount + _ROUNDING) for name, amount in unit.items())


def _plain(request: Resources | None) -> tuple[Any, ...] | None:
    if request is None:
        return None
    return request.bundles, request.strategy, request.labels


def _request_of(plain: tuple[Any, ...] | None) -> Resources | None:
    if plain is None:
        return None
    bundles, strategy, labels = plain
    return Resources(bundles, strategy, bundle_label_selector=labels)


def _text(request: Resources) -> str:
    return ", ".join(f"{amount:g} {name}" for name, amount in request.required_resources.items()) or "nothing"
