"""HyperBand: synchronous successive halving in brackets of several sizes.

Source: Li et al., "Hyperband: A Novel Bandit-Based Approach to Hyperparameter Optimization" (JMLR 2018, arXiv
1603.06560). As in the paper, the bracket that cuts hardest comes first, and the best floor(m / eta) continue.

A rung of a `Bracket` closes when all members that are left have arrived and no more come. So a trial that ends or fails
must leave its bracket, or the others would wait for ever.
"""

from __future__ import annotations

import math
from bisect import insort
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from minitune.base.calls import explains_calls
from minitune.base.text import number_text
from minitune.experiment import decision
from minitune.experiment.decision import Decision
from minitune.experiment.lifecycle import PAUSED, PENDING, RUNNING
from minitune.experiment.trial import Trial
from minitune.schedulers.async_hyperband import Entry, HalvingScheduler, Rung, bracket_size
from minitune.schedulers.trial_scheduler import (
    SUPPLY_ENDED,
    SUPPLY_OPEN,
    SchedulerContext,
    has_failed_for_good,
)

# -- brackets ---------------------------------------------------------------------------------------------------------


@dataclass
class Bracket:
    """Some trials, of which each rung keeps the best 1/eta.

    A trial that passes several rungs at once is ranked at the first of them. At a rung before the present one, the
    ranks are final, and those wait that were kept and have not run again since.

    Attributes:
        index: Its number s in the paper: it has at most s rungs below the end.
        rungs: Its rungs, ascending. The last one is the end, where no trials are compared.
        room: How many trials it still takes.
        entered: How many trials the present rung compares, with those that have left since.
        present: The index of the rung towards which the trials train.
        members: The last entry of each trial that is left; None before its first rung.
    """

    index: int
    rungs: list[Rung]
    room: int
    entered: int = 0
    present: int = 0
    members: dict[str, Entry | None] = field(default_factory=dict)

    @property
    def rung(self) -> Rung:
        """The rung at which the trials are compared next, or the end."""
        return self.rungs[self.present]

    @property
    def is_at_end(self) -> bool:
        """Whether the trials that are left train towards the end."""
        return self.present == len(self.rungs) - 1

    @property
    def num_moving(self) -> int:
        """How many trials train towards the present rung."""
        return len(self.members) - len(self.rung)

    @property
    def ready(self) -> list[Entry]:
        """The entries of trials that were kept and have not run again since, best first."""
        if self.present == 0:
            return []
        return self.rungs[self.present - 1].waiting

    def add(self, trial_id: str) -> None:
        """Take in a new trial."""
        self.members[trial_id] = None
        self.entered += 1
        self.room -= 1

    def arrive(self, entry: Entry) -> None:
        """A trial has reached the present rung."""
        self.members[entry.trial_id] = entry
        insort(self.rung.ranked, entry)

    def set_going(self, trial_id: str) -> None:
        """A trial runs again."""
        entry = self.members[trial_id]
        if self.present and entry is not None:
            self.rungs[self.present - 1].discard_waiting(entry)

    def remove(self, trial_id: str) -> None:
        """A trial has ended or is dropped. It still counts at the present rung, but cannot be kept there."""
        self.set_going(trial_id)
        entry = self.members.pop(trial_id)
        if entry is not None and self.rung.holds(entry):
            self.rung.ranked.remove(entry)

    def close(self, eta: Fraction) -> Rung | None:
        """Close the present rung if all trials have come to it. Those that are kept wait there."""
        if self.room or not self.members or self.num_moving or self.is_at_end:
            return None
        rung = self.rung
        # Those that have left since count, too: a failure does not change how many of the others go on.
        quota = max(1, self.entered // eta)
        kept = [entry for entry in rung.ranked[:quota] if entry.loss < math.inf]
        self.present += 1
        self.entered = len(kept)
        rung.waiting = kept
        for entry in rung.ranked[len(kept) :]:
            del self.members[entry.trial_id]
        return rung


def rung_times(max_t: float, eta: float, index: int) -> list[float]:
    """Where the rungs of bracket s lie: `max(1, round(max_t * eta^(i - s)))` for i = 0..s-1, then `max_t` itself."""
    below = (max(1, round(max_t / eta ** (index - i))) for i in range(index))
    return [*dict.fromkeys(time for time in below if time < max_t), max_t]


# -- schedulers -------------------------------------------------------------------------------------------------------


@explains_calls
class HyperBandScheduler(HalvingScheduler):
    """Pauses each trial at the rungs of its bracket until all have come, and resumes the best 1/eta.

    Bracket s, from the largest s with eta^s <= `max_t` down to 0, takes `ceil((s_max + 1) / (s + 1) * eta^s)` trials
    and compares them at `max_t / eta^s`, `max_t / eta^(s-1)`, ... A new bracket begins when one is full. A trial
    without a checkpoint starts over after each pause.

    Trials that end in another way count at their rung.

    Args:
        time_attr, metric, mode, reward_attr: See `MetricScheduler`.
        max_t: Trials are stopped at this time, in units of `time_attr`.
        reduction_factor: eta, above 1.
        stop_last_trials: If False, a trial continues beyond `max_t`, and is no longer compared.

    Raises:
        ValueError: If an argument is out of range.
    """

    _short_name = "HyperBand"
    _rule = "hyperband"
    _STATE = (
        *("_max_t", "_reduction_factor"),
        *("_brackets", "_homes", "_dropped", "_num_brackets", "_num_stopped", "_arrivals"),
    )

    def __init__(
        self,
        time_attr: str = "training_iteration",
        metric: str | None = None,
        mode: str | None = None,
        max_t: float = 81,
        reduction_factor: float = 3,
        stop_last_trials: bool = True,
        reward_attr: str | None = None,
    ):
        super().__init__(time_attr, metric, mode, max_t, reduction_factor, stop_last_trials, reward_attr)
        self._largest = 0  # s, by multiplication: the largest for which eta^s <= max_t
        power = self._reduction_factor
        while power <= self._max_t:
            self._largest = self._largest + 1
            power = power * self._reduction_factor
        self._brackets: list[Bracket] = []  # those that are not over, the oldest first
        self._homes: dict[str, Bracket] = {}  # the bracket of each trial that is left in one
        self._dropped: dict[str, tuple[str, dict[str, Any]]] = {}  # trials to be stopped, with the reason and its facts
        self._num_brackets = 0

    # -- hooks ---------------------------------------------------------------------------------------------------

    def on_trial_add(self, tune_controller: SchedulerContext, trial: Trial) -> None:
        """A new trial gets a slot in a bracket; one that is queued again keeps its own."""
        super().on_trial_add(tune_controller, trial)
        self._home_of(trial)

    def on_trial_result(self, tune_controller: SchedulerContext, trial: Trial, result: dict[str, Any]) -> str:
        at = self._time_of(result)
        if at is None:
            return decision.GO_ON
        bracket = self._home_of(trial)
        if bracket is None:  # dropped while it was saved, or by an earlier driver: it was not stopped yet
            reason, facts = self._dropped[trial.trial_id]
            return Decision(decision.STOP, reason, facts=facts)
        bracket.set_going(trial.trial_id)
        if at < bracket.rung.time:
            return decision.GO_ON
        self._at_rung(result, bracket.rung.time)
        if at >= self._max_t and self._stop_last_trials:
            return self._end(at, bracket=bracket.index)
        if bracket.is_at_end:
            return decision.GO_ON
        earlier = bracket.members[trial.trial_id]
        if earlier is not None and bracket.rung.holds(earlier):  # started again while it waited: that entry counts
            return Decision(decision.PAUSE, "it is again at the rung where it waits for the others")
        entry = self._new_entry(trial, result)
        bracket.arrive(entry)
        closed = self._close(tune_controller, bracket)
        return self._decide(bracket, entry, at, closed)

    def on_trial_complete(self, tune_controller: SchedulerContext, trial: Trial, result: dict[str, Any]) -> None:
        """The others do not wait for it any more."""
        self._leave(tune_controller, trial)

    def on_trial_remove(self, tune_controller: SchedulerContext, trial: Trial) -> None:
        self._leave(tune_controller, trial)

    def on_trial_error(self, tune_controller: SchedulerContext, trial: Trial) -> None:
        """A trial that has failed for good leaves its bracket; for one that is retried, the others wait."""
        if has_failed_for_good(trial):
            self._leave(tune_controller, trial)

    def choose_trial_to_run(self, tune_controller: SchedulerContext) -> Trial | None:
        """The oldest bracket comes first: trials that were kept, then new ones.

        None: a new trial may be drawn, since a free worker begins a bracket rather than wait for stragglers.
        """
        for trial_id in list(self._dropped):
            self._stop_dropped(tune_controller, trial_id)
        chosen = self._first_ready(tune_controller)
        if chosen is None and self._is_complete(tune_controller):
            self._brackets[-1].room = 0
            self._close(tune_controller, self._brackets[-1])
            chosen = self._first_ready(tune_controller)
        return chosen

    # -- state ---------------------------------------------------------------------------------------------------

    def set_state(self, state: dict[str, Any]) -> None:
        saved = (state["_max_t"], state["_reduction_factor"])
        own = (self._max_t, self._reduction_factor)
        if saved != own:
            raise ValueError(
                f"the saved brackets belong to max_t={saved[0]}, reduction_factor={saved[1]}, but this scheduler has "
                f"max_t={own[0]}, reduction_factor={own[1]}; use the same as before"
            )
        super().set_state(state)

    # -- brackets ------------------------------------------------------------------------------------------------

    def _at_rung(self, result: dict[str, Any], time: float) -> None:
        """A trial has reached its rung. A subclass may tell the search algorithm."""

    def _home_of(self, trial: Trial) -> Bracket | None:
        """The bracket of a trial, which may be a new one; None for a trial that was dropped."""
        self._trials[trial.trial_id] = trial
        if trial.trial_id in self._homes or trial.trial_id in self._dropped:
            return self._homes.get(trial.trial_id)
        if not (self._brackets and self._brackets[-1].room):
            place = self._num_brackets % (self._largest + 1)
            index = self._largest - place
            rungs = [Rung(time) for time in rung_times(self._max_t, self._reduction_factor, index)]
            self._brackets.append(Bracket(index, rungs, bracket_size(self._largest + 1, place, self._eta)))
            self._num_brackets += 1
        bracket = self._brackets[-1]
        self._homes[trial.trial_id] = bracket
        bracket.add(trial.trial_id)
        return bracket

    def _close(self, context: SchedulerContext, bracket: Bracket) -> Rung | None:
        """Close the rung of a bracket, if it can be closed, and stop the trials that are dropped."""
        if context.supply == SUPPLY_ENDED:
            bracket.room = 0
        closed = bracket.close(self._eta)
        if closed is not None:
            for entry in closed.ranked[bracket.entered :]:
                del self._homes[entry.trial_id]
                self._dropped[entry.trial_id] = self._outcome(bracket, closed, entry)
                self._num_stopped += 1
                self._stop_dropped(context, entry.trial_id)
        if not (bracket.room or bracket.members):
            self._brackets.remove(bracket)
        return closed

    def _stop_dropped(self, context: SchedulerContext, trial_id: str) -> None:
        """Ask to stop a trial that was dropped, unless it runs: one that reports gets its answer, and one that is being
        saved is stopped when the scheduler is asked next.
        """
        trial = self._find(context, trial_id)
        if trial is not None and trial.status != RUNNING:
            context.stop_trial(trial, *self._dropped[trial_id])

    def _leave(self, context: SchedulerContext, trial: Trial) -> None:
        """A trial has ended and leaves its bracket."""
        self._trials.pop(trial.trial_id, None)
        self._dropped.pop(trial.trial_id, None)
        bracket = self._homes.pop(trial.trial_id, None)
        if bracket is not None:
            bracket.remove(trial.trial_id)
            self._close(context, bracket)

    def _is_complete(self, context: SchedulerContext) -> bool:
        """Whether no more trials will come to the open bracket, or none before one that waits goes on."""
        if not (self._brackets and self._brackets[-1].room) or context.supply == SUPPLY_OPEN:
            return False
        if context.supply == SUPPLY_ENDED:
            return True
        # The search algorithm has none for now. It may wait for results, and the trials here for one another. If none
        # moves, none ever would again. A trial that has come to its rung moves no more, but is RUNNING until it is
        # saved.
        if any(bracket.num_moving for bracket in self._brackets):
            return False
        return not any(trial.status in (PENDING, RUNNING) for trial in context.get_live_trials())

    def _first_ready(self, context: SchedulerContext) -> Trial | None:
        """The first trial that can be started, and is not still being paused."""
        pending = context.first_pending()
        for bracket in self._brackets:
            for entry in bracket.ready:
                trial = self._find(context, entry.trial_id)
                if trial is not None and trial.status == PAUSED:
                    return trial
            if pending is not None and pending.trial_id in bracket.members:
                return pending
        return pending

    # -- decisions -----------------------------------------------------------------------------------------------

    def _decide(self, bracket: Bracket, entry: Entry, at: float, closed: Rung | None) -> Decision:
        """The answer to a trial that has come to its rung, and may have closed it."""
        if entry.trial_id in self._dropped:
            verdict = decision.STOP
            reason, about = self._dropped[entry.trial_id]
        elif closed is not None:
            # This answer lets it go on. If it stayed in `ready`, `choose_trial_to_run` would choose it a second time.
            reason, about = self._outcome(bracket, closed, entry)
            bracket.set_going(entry.trial_id)
            verdict = decision.CONTINUE
        else:
            verdict = decision.PAUSE
            time = bracket.rung.time
            reason = (
                f"at {self._time_attr} {number_text(time)} it waits for the others of its bracket "
                f"({bracket.num_moving} still run): {self._metric}={self._shown(-entry.loss)}"
            )
            about = {"rung": time, "bracket": bracket.index, "of": bracket.entered + bracket.room}
        return Decision(verdict, reason, facts={**self._facts(-entry.loss, at), **about})

    def _outcome(self, bracket: Bracket, rung: Rung, entry: Entry) -> tuple[str, dict[str, Any]]:
        """Why a trial goes on from the rung that has just been closed, or is dropped there, as text and as facts."""
        kept = bracket.entered
        reason, facts = self._rank_at(rung, entry, bracket=bracket.index)
        reason += f", where the best {kept} go on: {self._metric}={self._shown(-entry.loss)}"
        facts["cutoff"] = None
        if kept:
            score = -rung.ranked[kept - 1].loss  # the worst of those that go on
            reason += f", cutoff {self._shown(score)}"
            facts["cutoff"] = self._value(score)
        return reason, facts


@explains_calls
class HyperBandForBOHB(HyperBandScheduler):
    """HyperBand for search algorithms that model each rung by itself.

    The search algorithm finds `hyperband_info = {"budget": <time>}` in each result that reaches a rung, and an empty
    `hyperband_info` in all others.

    Source: Falkner et al., "BOHB: Robust and Efficient Hyperparameter Optimization at Scale" (ICML 2018, arXiv
    1807.01774).
    """

    _short_name = "BOHB"

    def on_trial_result(self, tune_controller: SchedulerContext, trial: Trial, result: dict[str, Any]) -> str:
        result["hyperband_info"] = {}
        return super().on_trial_result(tune_controller, trial, result)

    def _at_rung(self, result: dict[str, Any], time: float) -> None:
        result["hyperband_info"]["budget"] = time
