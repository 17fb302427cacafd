"""The base of all schedulers: the hooks that the run calls, and the requests that a scheduler can make.

The decisions depend only on what the hooks are told, on the state and on the seed: a resumed run tells the last events
again, and must get the same decisions.
"""

from __future__ import annotations

import math
import pickle
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from minitune.base import files
from minitune.base.checks import is_real, is_whole, require, require_metric, shown
from minitune.base.numbers import known_number
from minitune.base.pickling import dumps_by_value
from minitune.base.saved import Saved
from minitune.base.text import number_text, warn_once
from minitune.experiment import decision
from minitune.experiment.goal import check_mode, score
from minitune.experiment.trial import Trial
from minitune.result import DEFAULT_METRIC, own_metrics

WORST = -math.inf
"""The score of what is no number (`goal.score`): below every number."""

SUPPLY_OPEN = "OPEN"
"""New trials can come at any time."""
SUPPLY_WAITING = "WAITING"
"""No new trial can come at the moment."""
SUPPLY_ENDED = "ENDED"
"""There will be no new trial."""


class SchedulerContext(Protocol):
    """The first argument of every hook. What its methods ask for happens after the hook.

    Attributes:
        is_replaying: Whether the hooks hear again of events of an earlier driver, whose files and other effects exist.
        supply: `OPEN` while new trials can come at any time, `WAITING` while there is none at the moment, `ENDED` once
            there will be none.
    """

    search_alg: Any
    is_replaying: bool

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

    def stop_trial(self, trial: Trial, reason: str = "", facts: Mapping[str, Any] | None = None) -> None:
        """Ask the run to stop `trial`, unless it has ended by then."""
        ...

    def pause_trial(self, trial: Trial, should_checkpoint: bool = True) -> None:
        """Ask the run to pause `trial`, which is saved first unless `should_checkpoint` is False."""
        ...

    def exploit_trial(self, trial: Trial, donor: Trial, config: dict[str, Any], reason: str = "") -> None:
        """Ask that `trial` continues from the latest checkpoint of `donor` with `config`. Users read the reason."""
        ...


class TrialScheduler(Saved):
    """Decides which trial runs next and, after each result, whether the trial continues.

    Hooks run in the driver's only thread and must not block: they return a decision, or make a request to the context.
    """

    CONTINUE = decision.CONTINUE
    PAUSE = decision.PAUSE
    STOP = decision.STOP
    NOOP = decision.NOOP

    _metric: str | None = None
    _mode: str | None = None

    @property
    def metric(self) -> str | None:
        """The flattened name of the metric that decides, or None if none has been set."""
        return self._metric

    @property
    def time_attr(self) -> str | None:
        """The flattened name of the result that measures a trial's progress, or None if the scheduler uses none."""
        return None

    @property
    def first_turn(self) -> float | None:
        """The least progress (`time_attr`) with which it decides about a trial; None if there is none, or unknown."""
        return None

    @property
    def short_name(self) -> str:
        """The name by which people know the scheduler, such as `ASHA`; by default that of its class."""
        return str(vars(type(self)).get("_short_name", type(self).__name__))

    @property
    def required_attrs(self) -> tuple[str, ...]:
        """The flattened names that every result must hold. A trial whose result lacks one fails."""
        if self._metric:
            return (self._metric,)
        return ()

    def set_search_properties(self, metric: str | None, mode: str | None, **spec: Any) -> bool:
        """Take over the run's metric and mode, once, before the start.

        Args:
            metric: The run's metric, or None.
            mode: `min` or `max`, or None.
            **spec: `stop`, `num_samples`, `time_budget_s` of the experiment; `searcher`, the name of the searcher's
                class or None; `reuse_actors`; `objectives`, the modes by metric of a run with several, where `metric`
                and `mode` are None.

        Returns:
            False if metric or mode has been set here already.

        Raises:
            ValueError: If `mode` is unknown, or a subclass refuses the run.
        """
        if mode is not None:
            check_mode(mode)
        if (self._metric and metric) or (self._mode and mode):
            return False
        self._metric = self._metric or metric or DEFAULT_METRIC
        self._mode = self._mode or mode
        return True

    def set_seed(self, seed: int) -> None:
        """Seed the scheduler's random numbers by the run's seed, unless the user gave it one. Called before the first
        trial.
        """

    def on_trial_add(self, tune_controller: SchedulerContext, trial: Trial) -> None:
        """Called when a trial joins the run, and again when it is queued for another attempt."""

    def on_trial_error(self, tune_controller: SchedulerContext, trial: Trial) -> None:
        """Called at each failure, whether there will be another attempt or not."""

    def on_trial_result(self, tune_controller: SchedulerContext, trial: Trial, result: dict[str, Any]) -> str:
        """Called for each result, flattened, that does not end the trial.

        Returns:
            CONTINUE, PAUSE, STOP or NOOP, preferably as a `Decision` with a reason.
        """
        return decision.GO_ON

    def on_trial_complete(self, tune_controller: SchedulerContext, trial: Trial, result: dict[str, Any]) -> None:
        """Called when a RUNNING trial has finished or is stopped; `result` is its last one, flattened."""

    def on_trial_remove(self, tune_controller: SchedulerContext, trial: Trial) -> None:
        """Called when a PENDING or PAUSED trial is stopped."""

    def choose_trial_to_run(self, tune_controller: SchedulerContext) -> Trial | None:
        """Choose the trial to start next: a PENDING or PAUSED one, or None. Idempotent; called in every loop."""
        return tune_controller.first_pending() or tune_controller.first_paused()

    @property
    def chooses_in_order(self) -> bool:
        """Whether `choose_trial_to_run` always starts the trial that has waited longest, as it does here.

        Such a scheduler is called again only after a trial has started, ended or joined.
        """
        return getattr(self.choose_trial_to_run, "__func__", None) is TrialScheduler.choose_trial_to_run

    def debug_string(self) -> str:
        """A line on its state, for reporters."""
        return f"Using {type(self).__name__}."

    def save(self, checkpoint_path: str) -> None:
        """Write the state to a file, which is replaced in one step.

        Raises:
            OSError: If the file cannot be written.
        """
        # By value, since the state of a user's subclass may hold lambdas.
        files.atomic_write(checkpoint_path, dumps_by_value(self.get_state()))

    def restore(self, checkpoint_path: str) -> None:
        """Read the state from a file that `save` wrote.

        Raises:
            OSError: If the file cannot be read.
            ValueError: If the state does not fit the scheduler's arguments.
        """
        with open(checkpoint_path, "rb") as file:
            self.set_state(pickle.load(file))


class FIFOScheduler(TrialScheduler):
    """Runs the trials in the order of submission and stops none. The default."""

    def debug_string(self) -> str:
        return "Using FIFO scheduling algorithm."


class MetricScheduler(FIFOScheduler):
    """A scheduler that reads a trial's progress and score from each result.

    Args:
        time_attr: The result key that measures progress.
        metric: The result key to optimise; by default the run's.
        mode: `min` or `max`; by default the run's. Without one, and with a `metric`, it is `max` as in old versions of
            Ray Tune, with a warning.
        reward_attr: Old name of `metric`; `mode` is then `max`.

    Raises:
        ValueError: If an argument is of the wrong kind.
    """

    _rule = ""
    """The name of the scheduler's rule in the facts of its decisions."""

    def __init__(self, time_attr: str, metric: str | None, mode: str | None, reward_attr: str | None = None):
        if reward_attr is not None:
            warn_once("reward_attr is deprecated: pass metric, and mode='max'")
            metric = metric or reward_attr
            mode = mode or "max"
        require(isinstance(time_attr, str), "time_attr: the name of a result that grows", time_attr)
        require_metric("metric", metric)
        if mode is not None:
            check_mode(mode)
        self._time_attr = time_attr
        self._metric = metric
        self._mode = mode
        self._has_own_metric = metric is not None
        self._trials: dict[str, Trial] = {}  # by id; only those seen since the scheduler was made or restored

    @property
    def time_attr(self) -> str:
        return self._time_attr

    def set_search_properties(self, metric: str | None, mode: str | None, **spec: Any) -> bool:
        """See `TrialScheduler.set_search_properties`.

        Raises:
            ValueError: If no mode is known afterwards, or the run has several objectives and the scheduler has no
                metric of its own.
        """
        several: dict[str, str] = spec.get("objectives") or {}
        if several and (self._metric is None or self._mode is None):
            name = next((name for name, mode in several.items() if mode != "obs"), "")
            kind = type(self).__name__
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
        if self._mode is None and self._has_own_metric:
            warn_once(
                f"{type(self).__name__}(metric={self._metric!r}) has no mode, and neither has the run, so it is 'max', "
                "as in earlier versions of Ray Tune: pass mode='max' or mode='min'"
            )
            self._mode = "max"
        if not self._metric or self._mode is None:
            named = None if self._metric == DEFAULT_METRIC else self._metric  # the user did not write the default
            raise ValueError(
                f"{type(self).__name__} needs a metric and a mode, but got metric={named!r}, mode={self._mode!r}: "
                "give metric='...' and mode='min' or mode='max' to it or to TuneConfig"
            )

    def _time_of(self, result: dict[str, Any]) -> float | None:
        if self._metric not in result:
            return None
        time = known_number(result.get(self._time_attr))
        if time is None:
            names = ", ".join(own_metrics(result))
            warn_once(
                f"{type(self).__name__} uses time_attr={self._time_attr!r}, but a result has no such number, so "
                f"it is not compared; reported were: {names}. 'training_iteration' is in every result"
            )
        return time

    def _score_of(self, result: dict[str, Any]) -> float:
        return score(result[self._metric or ""], self._mode or "max")

    def _find(self, context: SchedulerContext, trial_id: str) -> Trial | None:
        """The live trial of that id: after a restore only ids are known."""
        if trial_id not in self._trials:
            self._trials.update((trial.trial_id, trial) for trial in context.get_live_trials())
        return self._trials.get(trial_id)

    def _value(self, scored: float) -> float | None:
        """A score as the user's metric; None for `WORST`."""
        if scored == WORST:
            return None
        if self._mode == "max":
            return scored
        return -scored

    def _shown(self, scored: float) -> str:
        value = self._value(scored)
        if value is None:
            return "no number"
        return number_text(value)

    def _facts(self, scored: float, at: float, **more: Any) -> dict[str, Any]:
        return {"rule": self._rule, "metric": self._metric, "value": self._value(scored), "time": at, **more}


def has_failed_for_good(trial: Trial) -> bool:
    """Whether the trial gets no other attempt, as far as is known at a failure."""
    return trial.is_finished() or trial.error is not None or 0 <= trial.max_failures < trial.num_failures


def number_above(name: str, value: Any, least: float, *, or_equal: bool = False) -> float:
    """`value`, a finite number above `least`, as a plain int or float.

    Raises:
        ValueError: With the broken inequality and the value.
    """
    good = is_real(value) and math.isfinite(value) and (value >= least if or_equal else value > least)
    if not good:
        sign = "<"
        if or_equal:
            sign = "<="
        raise ValueError(f"expected {least:g} {sign} {name} < infinity, but got {shown(value)}")
    if is_whole(value):
        return int(value)
    return float(value)
