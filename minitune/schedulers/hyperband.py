"""HyperBand: synchronous successive halving in brackets of several sizes.

Source: Li et al., "Hyperband: A Novel Bandit-Based Approach to Hyperparameter Optimization" (JMLR 2018, arXiv
1603.06560). As in the paper, the bracket that cuts hardest comes first, and the best floor(m / eta) continue.

A rung of a `Bracket` closes when all members that are left have arrived and no more come. So a trial that ends or fails
must leave its bracket, or the others would wait for ever.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, NamedTuple

from minitune import decision
from minitune.base.calls import explains_calls
from minitune.base.text import number_text
from minitune.decision import Decision
from minitune.experiment.lifecycle import ERROR, PAUSED, PENDING, RUNNING, TERMINATED
from minitune.experiment.trial import Trial
from minitune.schedulers.async_hyperband import Entry, HalvingScheduler, bracket_size
from minitune.schedulers.trial_scheduler import (
    SUPPLY_ENDED,
    SUPPLY_OPEN,
    SchedulerContext,
    has_failed_for_good,
    supply_of,
)

_DROPPED = "it was not among the best when its rung ended"


# -- brackets ---------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class BracketMember:
    """One live trial in a bracket; `entry` is None while it trains towards its rung."""

    rung: int = 0
    time: float = -math.inf
    entry: Entry | None = None


class Closing(NamedTuple):
    """The outcome of closing a rung: its time, how many trained towards it, and the entries that continue and that
    stop, best first.
    """

    time: float
    entered: int
    kept: list[Entry]
    dropped: list[Entry]

    @property
    def cutoff(self) -> float | None:
        """The worst loss among those that continue."""
        if self.kept:
            return self.kept[-1].loss
        return None

    def rank(self, entry: Entry) -> int:
        """The rank of an entry, 1 for the best, in O(log n)."""
        index = bisect_left(self.kept, entry)
        if index < len(self.kept):
            return index + 1
        return index + bisect_left(self.dropped, entry) + 1


@dataclass
class Bracket:
    """Some trials, of which each rung keeps the best 1/eta.

    Trials that left in another way count as members of the rung, but cannot be kept.

    Attributes:
        index: Its number s in the paper: it has at most s rungs below the end.
        band: How many rounds of all brackets came before.
        times: Its rungs, ascending; the last one is the end.
        leaving: The ids of trials that were dropped and are not stopped yet.
        ended: How many of its trials have ended, by status.
        ready: The trials that were kept and have not run again since, best first, each with the rung's time, its rank
            there, and the number of ranked trials.
        entered: The number of trials that the present rung compares, with those that have left since.
        arrived: The number of members that have arrived at their rung.
    """

    index: int
    band: int
    capacity: int
    times: list[float]
    eta: int | Fraction
    is_open: bool = True
    members: dict[str, BracketMember] = field(default_factory=dict)
    rung: int = 0
    ready: dict[str, tuple[float, int, int]] = field(default_factory=dict)
    leaving: dict[str, None] = field(default_factory=dict)
    ended: dict[str, int] = field(default_factory=dict)
    entered: int = 0
    arrived: int = 0

    # -- members ---------------------------------------------------------------------------------------------------

    @property
    def num_moving(self) -> int:
        """How many members train towards a rung."""
        return len(self.members) - self.arrived

    @property
    def is_over(self) -> bool:
        """Whether it has no trial left and gets no more."""
        return not (self.is_open or self.members or self.leaving)

    @property
    def is_at_end(self) -> bool:
        """Whether the members that are left train towards the end."""
        return self.rung == len(self.times) - 1

    @property
    def time(self) -> float:
        """Where the rung lies at which the trials are compared next, or the end."""
        return self.times[self.rung]

    @property
    def size(self) -> int:
        """How many trials it takes while it is open; then, how many the present rung compares."""
        if self.is_open:
            return self.capacity
        return self.entered

    def add(self, trial_id: str) -> None:
        """Take in a new trial; the last one fills the bracket."""
        self.members[trial_id] = BracketMember()
        self.entered += 1
        if self.entered >= self.capacity:
            self.is_open = False

    def remove(self, trial_id: str, status: str) -> None:
        """A trial has ended."""
        member = self.members.pop(trial_id, None)
        self.ready.pop(trial_id, None)
        self.leaving.pop(trial_id, None)
        self.arrived -= member is not None and member.entry is not None
        self.ended[status] = self.ended.get(status, 0) + 1

    # -- rungs ----------------------------------------------------------------------------------------------------

    def arrive(self, member: BracketMember, time: float, entry: Entry) -> None:
        """A member has reached its rung."""
        member.time = time
        member.entry = entry
        self.arrived += 1

    def close(self) -> list[Closing]:
        """Close every rung that can be closed: a trial may have passed several at once.

        At the end no trials are compared.
        """
        closings = []
        while not self.is_open and self.members and self.num_moving == 0 and not self.is_at_end:
            arrived = sorted(member.entry for member in self.members.values() if member.entry is not None)
            # Those that have left since count, too: a failure does not change how many of the others go on.
            quota = max(1, self.entered // self.eta)
            # None may be left: the bracket then has no member, and the loop ends.
            kept = [entry for entry in arrived[:quota] if entry.loss < math.inf]
            dropped = arrived[len(kept) :]
            closings.append(Closing(self.time, self.entered, kept, dropped))
            self.rung += 1
            self.entered = len(kept)
            self.arrived = 0
            for entry in kept:  # they train towards the next rung, or have passed it already
                member = self.members[entry.trial_id]
                member.rung = self.rung
                if member.time >= self.time:
                    self.arrived += 1
                else:
                    member.entry = None
            for entry in dropped:
                del self.members[entry.trial_id]
                self.leaving[entry.trial_id] = None
        if closings:  # one that has passed the next rung, too, still waits there
            self.ready = {}
            last = closings[-1]
            for rank, entry in enumerate(last.kept, 1):
                if self.is_at_end or self.members[entry.trial_id].entry is None:
                    self.ready[entry.trial_id] = last.time, rank, last.entered
        return closings

    def get_state(self) -> dict[str, Any]:
        """The bracket as plain data. `dataclasses.asdict` takes twenty times as long."""
        members = {
            trial_id: (member.rung, member.time, member.entry and tuple(member.entry))
            for trial_id, member in self.members.items()
        }
        state = {name: value for name, value in vars(self).items() if name not in ("eta", "arrived")}
        state |= {"ready": dict(self.ready), "leaving": list(self.leaving), "ended": dict(self.ended)}
        return {**state, "members": members}

    @classmethod
    def of_state(cls, state: dict[str, Any], eta: int | Fraction) -> Bracket:
        """The bracket that `get_state` has described."""
        members = {
            trial_id: BracketMember(rung, time, entry and Entry(*entry))
            for trial_id, (rung, time, entry) in state["members"].items()
        }
        bracket = cls(**{**state, "eta": eta, "members": members, "ended": dict(state["ended"])})
        bracket.arrived = sum(member.entry is not None for member in members.values())
        bracket.ready = dict(state["ready"])
        bracket.leaving = dict.fromkeys(state["leaving"])
        return bracket


def rung_times(max_t: float, eta: float, index: int) -> list[float]:
    """Where the rungs of bracket s lie: `max(1, round(max_t * eta^(i - s)))` for i = 0..s-1, then `max_t` itself."""
    below = (max(1, round(max_t / eta ** (index - i))) for i in range(index))
    return [*dict.fromkeys(time for time in below if time < max_t), max_t]


# -- schedulers -------------------------------------------------------------------------------------------------------


@explains_calls()
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
    _supports_buffered_results = False

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
        self._homes: dict[str, Bracket] = {}  # the bracket of each live trial
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
        member = bracket.members.get(trial.trial_id)
        if member is None:  # dropped while it was saved, or by an earlier driver: it was not stopped yet
            return Decision(decision.STOP, _DROPPED)
        if bracket.ready:
            bracket.ready.pop(trial.trial_id, None)  # it runs again
        # Its own rung and not that of the bracket: after a leap over several rungs the two differ until all have come.
        if at < bracket.times[member.rung]:
            return decision.GO_ON
        self._at_rung(result, bracket.times[member.rung])
        if at >= self._max_t and self._stop_last_trials:
            return self._end(at, bracket=bracket.index, band=bracket.band)
        if at >= self._max_t and bracket.is_at_end:
            return decision.GO_ON
        if member.entry is not None:  # started again while it waited: its first entry counts
            return Decision(decision.PAUSE, "it is again at the rung where it waits for the others")
        entry = self._new_entry(trial, result)
        bracket.arrive(member, at, entry)
        closings = self._close(tune_controller, bracket, reporting=trial)
        return self._decide(bracket, member, entry, at, closings)

    def on_trial_complete(self, tune_controller: SchedulerContext, trial: Trial, result: dict[str, Any]) -> None:
        """The others do not wait for it any more."""
        self._leave(tune_controller, trial, TERMINATED)

    def on_trial_remove(self, tune_controller: SchedulerContext, trial: Trial) -> None:
        self._leave(tune_controller, trial, TERMINATED)

    def on_trial_error(self, tune_controller: SchedulerContext, trial: Trial) -> None:
        """A trial that has failed for good leaves its bracket; for one that is retried, the others wait."""
        if has_failed_for_good(trial):
            self._leave(tune_controller, trial, ERROR)

    def choose_trial_to_run(self, tune_controller: SchedulerContext) -> Trial | None:
        """The oldest bracket comes first: trials that were kept, then new ones.

        None: a new trial may be drawn, since a free worker begins a bracket rather than wait for stragglers.
        """
        for bracket in self._brackets:  # trials that were dropped while they were saved, or by an earlier driver
            for trial_id in list(bracket.leaving):
                trial = self._find(tune_controller, trial_id)
                if trial is not None and trial.status != RUNNING:
                    tune_controller.stop_trial(trial, _DROPPED)
        chosen = self._first_ready(tune_controller)
        if chosen is None and self._is_complete(tune_controller):
            self._brackets[-1].is_open = False
            self._close(tune_controller, self._brackets[-1])
            chosen = self._first_ready(tune_controller)
        return chosen

    def why_chosen(self, trial: Trial) -> tuple[str, Mapping[str, Any]]:
        bracket = self._homes.get(trial.trial_id)
        if bracket is None or trial.trial_id not in bracket.ready:
            return "", {}
        time, rank, count = bracket.ready[trial.trial_id]
        facts = {"rule": self._rule, "rung": time, "bracket": bracket.index, "band": bracket.band}
        reason = f"rank {rank} of {count} at {self._time_attr} {number_text(time)}"
        return reason, {**facts, "rank": rank, "of": count}

    def debug_string(self) -> str:
        lines = [f"Using HyperBand: num_stopped={self._num_stopped} total_brackets={self._num_brackets}"]
        bands = [bracket.band for bracket in self._brackets] or [max(0, self._num_brackets - 1) // (self._largest + 1)]
        for band in dict.fromkeys(bands):
            lines.append(f"Round #{band}:")
            lines += [f"  {self._describe(bracket)}" for bracket in self._brackets if bracket.band == band]
        return "\n".join(lines)

    def state(self) -> dict[str, int]:
        """The number of brackets so far, and of the trials that were stopped."""
        return {"num_brackets": self._num_brackets, "num_stopped": self._num_stopped}

    # -- state ---------------------------------------------------------------------------------------------------

    def get_state(self) -> dict[str, Any]:
        return {
            "max_t": self._max_t,
            "reduction_factor": self._reduction_factor,
            "brackets": [bracket.get_state() for bracket in self._brackets],
            "num_brackets": self._num_brackets,
            "num_stopped": self._num_stopped,
            "arrivals": self._arrivals,
        }

    def set_state(self, state: dict[str, Any]) -> None:
        saved = (state["max_t"], state["reduction_factor"])
        own = (self._max_t, self._reduction_factor)
        if saved != own:
            raise ValueError(
                f"the saved brackets belong to max_t={saved[0]}, reduction_factor={saved[1]}, but this scheduler has "
                f"max_t={own[0]}, reduction_factor={own[1]}; use the same as before"
            )
        self._brackets = [Bracket.of_state(bracket, self._eta) for bracket in state["brackets"]]
        self._homes = {
            trial_id: bracket for bracket in self._brackets for trial_id in (*bracket.members, *bracket.leaving)
        }
        self._num_brackets = state["num_brackets"]
        self._num_stopped = state["num_stopped"]
        self._arrivals = state["arrivals"]

    # -- brackets ------------------------------------------------------------------------------------------------

    def _at_rung(self, result: dict[str, Any], time: float) -> None:
        """A trial has reached its rung. A subclass may tell the search algorithm."""

    def _home_of(self, trial: Trial) -> Bracket:
        bracket = self._homes.get(trial.trial_id)
        if bracket is None:
            if not (self._brackets and self._brackets[-1].is_open):
                band, index = divmod(self._num_brackets, self._largest + 1)
                times = rung_times(self._max_t, self._reduction_factor, self._largest - index)
                size = bracket_size(self._largest + 1, index, self._eta)
                self._brackets.append(Bracket(self._largest - index, band, size, times, self._eta))
                self._num_brackets += 1
            bracket = self._brackets[-1]
            self._homes[trial.trial_id] = bracket
            bracket.add(trial.trial_id)
        self._trials[trial.trial_id] = trial
        return bracket

    def _close(self, context: SchedulerContext, bracket: Bracket, reporting: Trial | None = None) -> list[Closing]:
        """Close the rungs of a bracket that can be closed, and stop the trials that are dropped."""
        if supply_of(context) == SUPPLY_ENDED:
            bracket.is_open = False
        closings = bracket.close()
        for closing in closings:
            self._num_stopped += len(closing.dropped)
            for entry in closing.dropped:
                trial = self._find(context, entry.trial_id)
                # The reporting trial gets its answer. One that is being saved is RUNNING until then, and is stopped
                # when the scheduler is asked next.
                if trial is not None and trial is not reporting and trial.status != RUNNING:
                    about = {"rung": closing.time, "rank": closing.rank(entry), "of": closing.entered}
                    context.stop_trial(trial, self._why(closing, entry), {"rule": self._rule, **about})
        if bracket.is_over:
            self._brackets.remove(bracket)
        return closings

    def _leave(self, context: SchedulerContext, trial: Trial, status: str) -> None:
        """A trial has ended and leaves its bracket.

        `stop_trial` in `_close` leads here again, but not within its loop: requests of a hook are met after the hook.
        """
        self._trials.pop(trial.trial_id, None)
        bracket = self._homes.pop(trial.trial_id, None)
        if bracket is not None:
            bracket.remove(trial.trial_id, status)
            self._close(context, bracket)

    def _is_complete(self, context: SchedulerContext) -> bool:
        """Whether no more trials will come to the open bracket, or none before one that waits goes on."""
        if not (self._brackets and self._brackets[-1].is_open) or supply_of(context) == SUPPLY_OPEN:
            return False
        if supply_of(context) == SUPPLY_ENDED:
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
            for trial_id in bracket.ready:
                trial = self._find(context, trial_id)
                if trial is not None and trial.status == PAUSED:
                    return trial
            if pending is not None and pending.trial_id in bracket.members:
                return pending
        return pending

    # -- decisions -----------------------------------------------------------------------------------------------

    def _decide(
        self, bracket: Bracket, member: BracketMember, entry: Entry, at: float, closings: list[Closing]
    ) -> Decision:
        facts = self._facts(-entry.loss, at, bracket=bracket.index, band=bracket.band)
        if not closings:
            facts |= {"rung": bracket.time, "of": bracket.size}
            reason = (
                f"at {self._time_attr} {number_text(bracket.time)} it waits for the others of its bracket "
                f"({bracket.num_moving} still run): {self._metric}={self._shown(-entry.loss)}"
            )
            return Decision(decision.PAUSE, reason, facts=facts)
        last = next((closing for closing in closings if entry in closing.dropped), closings[-1])
        reason = self._why(last, entry)
        facts |= {"rung": last.time, "rank": last.rank(entry), "of": last.entered}
        facts["cutoff"] = None
        if last.cutoff is not None:
            facts["cutoff"] = self._value(-last.cutoff)
        if entry in last.dropped:
            return Decision(decision.STOP, reason, facts=facts)
        goes_on = bracket.is_at_end or member.entry is None  # else it has come to the next rung, too, and waits there
        # This answer lets it go on. In `ready`, `choose_trial_to_run` would choose it a second time.
        bracket.ready.pop(entry.trial_id, None)
        return Decision(decision.CONTINUE if goes_on else decision.PAUSE, reason, facts=facts)

    def _why(self, closing: Closing, entry: Entry) -> str:
        cutoff = ""
        if closing.cutoff is not None:
            cutoff = f", cutoff {self._shown(-closing.cutoff)}"
        return (
            f"rank {closing.rank(entry)} of {closing.entered} at {self._time_attr} {number_text(closing.time)}, "
            f"where the best {len(closing.kept)} go on: {self._metric}={self._shown(-entry.loss)}{cutoff}"
        )

    def _describe(self, bracket: Bracket) -> str:
        statuses = Counter(bracket.ended)
        statuses.update(
            self._trials[trial_id].status
            for trial_id in (*bracket.members, *bracket.leaving)
            if trial_id in self._trials
        )
        counts = ", ".join(f"{status}: {count}" for status, count in sorted(statuses.items()))
        if bracket.is_over:
            done = 1.0
        else:  # a rung at which all wait counts half, because it is not closed
            share = bracket.arrived / max(1, bracket.entered)
            done = (bracket.rung + share / 2) / len(bracket.times)
        return (
            f"Bracket(Max Size (n)={bracket.size}, Rung (r)={number_text(bracket.time)}, "
            f"completed={done:.1%}): {{{counts}}}"
        )


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
