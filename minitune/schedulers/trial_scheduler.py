"""The base of all schedulers: what each must answer, and what it may ask of the run.

`TrialScheduler` is the contract, `SchedulerContext` the first argument of its hooks, `FIFOScheduler` the default.
`MetricScheduler` is the base of those that compare trials by one metric along one measure of time. The hooks run on the
driver's thread, one at a time. A scheduler decides from what the hooks tell it, its state and its seed alone: a resumed
run tells it the last events again, and must get the same decisions.
"""

from __future__ import annotations

import math
import os
import pickle
from collections.abc import Sequence
from typing import Any, Protocol

from minitune import decision
from minitune.base.checks import is_real, is_whole, require, require_metric, shown
from minitune.base.text import warn_once
from minitune.decision import Decision
from minitune.experiment.trial import Trial, check_mode
from minitune.resources import Resources
from minitune.result import AUTO_RESULT_KEYS, DEFAULT_METRIC

WORST = float("-inf")
"""The score of NaN, None, non-numbers and infinities on the bad side: below every number, equal among themselves."""

CONTINUE = Decision(decision.CONTINUE)
"""Go on, without a reason. It is one shared object, since most results get it."""

REACHES_MAX_T = "has reached max_t="
"""In the reason of a decision that ends a trial which has had all its time."""


class ResourceTotals(Protocol):
    """The machine's resources, for schedulers that hand them out."""

    def get_num_cpus(self) -> float:
        """CPUs of the run in all."""
        ...

    def get_num_gpus(self) -> float:
        """GPUs of the run in all."""
        ...


class SchedulerContext(Protocol):
    """The first argument of every hook. The verbs enqueue a request, which is carried out after the hook.

    Attributes:
        search_alg: The run's search algorithm.
        is_replaying: Whether hooks are told again of what an earlier driver has seen: its effects outside are there.
        supply: `OPEN` while new trials can come at any time, `WAITING` while the search algorithm has none just now,
            `ENDED` once there will be no new trial.
    """

    search_alg: Any
    is_replaying: bool
    _resource_updater: ResourceTotals

    @property
    def supply(self) -> str:
        """`OPEN`, `WAITING` or `ENDED`."""
        ...

    def get_trials(self) -> Sequence[Trial]:
        """All trials of the run, in order of submission."""
        ...

    def get_live_trials(self) -> Sequence[Trial]:
        """The trials that have not ended, in order of submission."""
        ...

    def first_pending(self) -> Trial | None:
        """The first PENDING trial that may be started now, or None. O(log n)."""
        ...

    def first_paused(self) -> Trial | None:
        """The first PAUSED trial that may be resumed now, or None. O(log n)."""
        ...

    def stop_trial(self, trial: Trial, reason: str = "") -> None:
        """Ask for the end of `trial`, for a reason that a user can read; nothing happens if it has ended by then."""
        ...

    def pause_trial(self, trial: Trial, should_checkpoint: bool = True) -> None:
        """Ask to put `trial` aside, saved first unless `should_checkpoint` is False."""
        ...

    def exploit_trial(self, trial: Trial, donor: Trial, config: dict[str, Any], reason: str = "") -> None:
        """Ask `trial` to go on from the latest checkpoint of `donor`, under `config`; the reason is for people."""
        ...

    def set_resources(self, trial: Trial, request: Resources) -> None:
        """Ask that `trial` holds `request` from now on."""
        ...


class TrialScheduler:
    """Decides which trial runs next and, after each result, whether it goes on. Every default is that of FIFO.

    A subclass overrides `on_trial_result`, and what else it needs. Hooks may not block: they return data or ask the
    context for something. They run in the driver's only thread.
    """

    CONTINUE = decision.CONTINUE
    PAUSE = decision.PAUSE
    STOP = decision.STOP
    NOOP = decision.NOOP

    _metric: str | None = None
    _mode: str | None = None
    _supports_buffered_results = True

    @property
    def metric(self) -> str | None:
        """The flattened name of the metric that decides, or None if none has been set."""
        return self._metric

    @property
    def time_attr(self) -> str | None:
        """The flattened name of the result that tells how far a trial is, or None if that plays no part."""
        return None

    @property
    def short_name(self) -> str:
        """The name by which people know the scheduler, such as `ASHA`; by default that of its class."""
        return str(vars(type(self)).get("_short_name", type(self).__name__))

    @property
    def required_attrs(self) -> tuple[str, ...]:
        """The flattened names that every result must hold. A trial whose result lacks one fails."""
        return (self._metric,) if self._metric else ()

    @property
    def supports_buffered_results(self) -> bool:
        """Whether results may be handed over in batches."""
        return self._supports_buffered_results

    def set_search_properties(self, metric: str | None, mode: str | None, **spec: Any) -> bool:
        """Take over the run's metric and mode, once, before the start.

        Args:
            metric: The run's metric, or None.
            mode: `min` or `max`, or None.
            **spec: The experiment's public settings (`stop`, `num_samples`, `time_budget_s`), and three facts about
                the run: the name of the `searcher`'s class (None if configurations come from the search space alone),
                `reuse_actors`, and `objectives`: of a run with several, whose `metric` and `mode` are None here, the
                modes by metric.

        Returns:
            False if metric or mode has been set here already, so that the two could contradict each other.

        Raises:
            ValueError: If `mode` is neither `min`, `max` nor None. A subclass may refuse the run in this way, too.
        """
        if mode is not None:
            check_mode(mode)
        if (self._metric and metric) or (self._mode and mode):
            return False
        self._metric = self._metric or metric or DEFAULT_METRIC
        self._mode = self._mode or mode
        return True

    def set_seed(self, seed: int) -> None:
        """Seed the scheduler's own random numbers, unless the user gave it a seed. Called before the first trial.

        Args:
            seed: The scheduler's share of the run's seed.
        """

    def on_trial_add(self, tune_controller: SchedulerContext, trial: Trial) -> None:
        """Emitted when a trial joins the run, and again when it is queued for another attempt."""

    def on_trial_error(self, tune_controller: SchedulerContext, trial: Trial) -> None:
        """Emitted at each failure, whether there will be another attempt or not."""

    def on_trial_result(self, tune_controller: SchedulerContext, trial: Trial, result: dict[str, Any]) -> str:
        """Emitted for each result that does not end the trial.

        Args:
            tune_controller: The context.
            trial: The trial that reported.
            result: Its result, flattened.

        Returns:
            CONTINUE, PAUSE, STOP or NOOP; best as a `Decision` with a reason.
        """
        return CONTINUE

    def on_trial_complete(self, tune_controller: SchedulerContext, trial: Trial, result: dict[str, Any]) -> None:
        """Emitted when a RUNNING trial has finished or is stopped; `result` is its last one, flattened."""

    def on_trial_remove(self, tune_controller: SchedulerContext, trial: Trial) -> None:
        """Emitted when a PENDING or PAUSED trial is ended."""

    def choose_trial_to_run(self, tune_controller: SchedulerContext) -> Trial | None:
        """Choose what to start next: a PENDING or PAUSED trial, or None. Idempotent; asked in every loop."""
        if hasattr(tune_controller, "first_pending"):
            return tune_controller.first_pending() or tune_controller.first_paused()
        # A stand-in in a user's test knows the methods of Ray Tune only.
        trials = tune_controller.get_trials()
        return next((t for status in (Trial.PENDING, Trial.PAUSED) for t in trials if t.status == status), None)

    @property
    def chooses_in_order(self) -> bool:
        """Whether `choose_trial_to_run` starts what has waited longest, as it does here, whatever has been reported.

        Such a scheduler is asked again only after a trial has started, ended or come.
        """
        return getattr(self.choose_trial_to_run, "__func__", None) is TrialScheduler.choose_trial_to_run

    def debug_string(self) -> str:
        """The scheduler's text for the status block."""
        return f"Using {type(self).__name__}."

    def get_state(self) -> dict[str, Any]:
        """The state that is saved with the run, as plain data; by default all attributes."""
        return dict(self.__dict__)

    def set_state(self, state: dict[str, Any]) -> None:
        """Take over what `get_state` returned.

        Raises:
            ValueError: If the state does not fit the scheduler's arguments.
        """
        self.__dict__.update(state)

    def save(self, checkpoint_path: str) -> None:
        """Write the state to a file, which is replaced in one step.

        Raises:
            OSError: If the file cannot be written.
        """
        # Imported here because only a save needs it: a plain state of a user's subclass may hold lambdas.
        import cloudpickle

        temporary = f"{checkpoint_path}.tmp"
        with open(temporary, "wb") as file:
            cloudpickle.dump(self.get_state(), file)
        os.replace(temporary, checkpoint_path)

    def restore(self, checkpoint_path: str) -> None:
        """Read the state from a file that `save` wrote.

        Raises:
            OSError: If the file cannot be read.
            ValueError: If the state does not fit the scheduler's arguments.
        """
        with open(checkpoint_path, "rb") as file:
            self.set_state(pickle.load(file))


class FIFOScheduler(TrialScheduler):
    """Runs the trials in the order of submission and ends none. The default."""

    def debug_string(self) -> str:
        """See `TrialScheduler.debug_string`."""
        return "Using FIFO scheduling algorithm."


class MetricScheduler(FIFOScheduler):
    """A scheduler that reads from each result how far a trial is, and how good.

    Args:
        time_attr: The result key that tells how far a trial is: any number that grows.
        metric: The result key to optimise; by default the run's.
        mode: `min` or `max`; by default the run's.
        reward_attr: Old name of `metric`; `mode` is then `max`.

    Raises:
        ValueError: If an argument is of the wrong kind.
    """

    def __init__(self, time_attr: str, metric: str | None, mode: str | None, reward_attr: str | None = None):
        if reward_attr is not None:
            warn_once("reward_attr is deprecated: pass metric, and mode='max'")
            metric, mode = metric or reward_attr, mode or "max"
        require(isinstance(time_attr, str), "time_attr: the name of a result that grows", time_attr)
        require_metric("metric", metric)
        if mode is not None:
            check_mode(mode)
        self._time_attr = time_attr
        self._metric = metric
        self._mode = mode
        self._trials: dict[str, Trial] = {}  # by id, those that the scheduler has seen since it was made or restored

    @property
    def time_attr(self) -> str:
        """See `TrialScheduler.time_attr`."""
        return self._time_attr

    def set_search_properties(self, metric: str | None, mode: str | None, **spec: Any) -> bool:
        """See `TrialScheduler.set_search_properties`.

        Raises:
            ValueError: If no mode is known afterwards, or the run has several objectives and this has none of its own.
        """
        several: dict[str, str] = spec.get("objectives") or {}
        if several and (self._metric is None or self._mode is None):
            name, kind = next((name for name, mode in several.items() if mode != "obs"), ""), type(self).__name__
            raise ValueError(
                f"{kind} compares trials by one metric, but the run has several objectives ({', '.join(several)}): "
                f"name the one by which it decides, such as {kind}(metric={name!r}, mode={several[name]!r}), or use "
                "no scheduler"
            )
        if not super().set_search_properties(metric, mode, **spec):
            return False
        self._require_mode()
        return True

    def on_trial_add(self, tune_controller: SchedulerContext, trial: Trial) -> None:
        """See `TrialScheduler.on_trial_add`.

        Raises:
            ValueError: If neither the scheduler nor the run has a metric and a mode.
        """
        self._require_mode()

    def _require_mode(self) -> None:
        if not self._metric or self._mode is None:
            named = None if self._metric == DEFAULT_METRIC else self._metric  # the default is no name of the user's
            raise ValueError(
                f"{type(self).__name__} needs a metric and a mode, but got metric={named!r}, mode={self._mode!r}: "
                "give metric='...' and mode='min' or mode='max' to it or to TuneConfig"
            )

    def _time_of(self, result: dict[str, Any]) -> float | None:
        """How far the trial is, or None if the result does not tell or lacks the metric."""
        if self._metric not in result:
            return None
        time = as_number(result.get(self._time_attr))
        if time is None:
            names = ", ".join(key for key in result if key not in AUTO_RESULT_KEYS)
            warn_once(
                f"{type(self).__name__} uses time_attr={self._time_attr!r}, but a result has no such number, so "
                f"it is not compared; reported were: {names}. 'training_iteration' is in every result"
            )
        return time

    def _score_of(self, result: dict[str, Any]) -> float:
        """How good the result is: larger is better, `WORST` for what is no number."""
        return score(result[self._metric or ""], self._mode or "max")

    def _find(self, context: SchedulerContext, trial_id: str) -> Trial | None:
        """The live trial of that id; after a restore the scheduler knows ids only."""
        if trial_id not in self._trials:
            self._trials.update((trial.trial_id, trial) for trial in context.get_live_trials())
        return self._trials.get(trial_id)

    def _value(self, scored: float) -> float | None:
        """A score as the user's metric; None for what is no number."""
        if scored == WORST:
            return None
        return scored if self._mode == "max" else -scored

    def _shown(self, scored: float) -> str:
        """A score as the user's metric, for people."""
        value = self._value(scored)
        return "no number" if value is None else number_text(value)


def has_failed_for_good(trial: Trial) -> bool:
    """Whether the trial gets no other attempt, as far as that is known when the scheduler hears of a failure."""
    return trial.is_finished() or trial.error is not None or 0 <= trial.max_failures < trial.num_failures


def supply_of(context: Any) -> str:
    """`SchedulerContext.supply`. A stand-in in a user's test may know the methods of Ray Tune only: then `OPEN`."""
    return getattr(context, "supply", "OPEN")


def as_number(value: Any) -> float | None:
    """`value` as a number that compares (an int stays one, however large), or None if it is none; NaN is none."""
    if type(value) is not float and not isinstance(value, int):
        if isinstance(value, (str, bytes, complex)) or getattr(value, "shape", ()) != ():
            return None
        try:
            value = float(value)
        except Exception:
            return None
    return None if value != value else value


def score(value: Any, mode: str) -> float:
    """The score of a metric's value: larger is better.

    Args:
        value: What was reported.
        mode: `min` or `max`.

    Returns:
        `value` for `max` and `-value` for `min`; `WORST` for NaN and for all that is no number.
    """
    number = as_number(value)
    if number is None:
        return WORST
    return number if mode == "max" else -number


def number_above(name: str, value: Any, least: float, *, or_equal: bool = False) -> float:
    """`value`, a finite number above `least`, as a plain int or float.

    Raises:
        ValueError: With the broken inequality and the value.
    """
    good = is_real(value) and math.isfinite(value) and (value >= least if or_equal else value > least)
    if not good:
        sign = "<=" if or_equal else "<"
        raise ValueError(f"expected {least:g} {sign} {name} < infinity, but got {shown(value)}")
    return int(value) if is_whole(value) else float(value)


def number_text(number: float) -> str:
    """A number for people, whatever its size."""
    try:
        return f"{number:.6g}"
    except OverflowError:
        return "a number above 1e308" if number > 0 else "a number below -1e308"
