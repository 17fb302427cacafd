"""ASHA: asynchronous successive halving, by stopping or by promotion.

Source: Li et al., "A System for Massively Parallel Hyperparameter Tuning" (MLSys 2020, arXiv 1810.05934). The promoting
variant is the paper's algorithm 2. The stopping variant needs no checkpoints: it stops a trial that is not among the
best 1/eta when it reaches a rung.

The share 1/eta is computed from the factor as the user wrote it (`exact`): rounded, a trial could fall on the wrong
side of the cut.
"""

from __future__ import annotations

import logging
import math
import random
from bisect import bisect_left, bisect_right, insort
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import chain
from typing import Any, NamedTuple

from minitune.base.calls import explains_calls
from minitune.base.checks import is_whole, require, require_flag
from minitune.base.text import number_text
from minitune.experiment import decision
from minitune.experiment.decision import Decision
from minitune.experiment.endings import EndKind
from minitune.experiment.lifecycle import PAUSED, PENDING, RUNNING
from minitune.experiment.trial import Trial
from minitune.schedulers.trial_scheduler import (
    SUPPLY_OPEN,
    MetricScheduler,
    SchedulerContext,
    has_failed_for_good,
    number_above,
)

logger = logging.getLogger("minitune")


# -- rungs -----------------------------------------------------------------------------------------------------------


class Entry(NamedTuple):
    """The value of one trial at a rung. Entries sort from best to worst; of equal ones the earlier arrival is
    better.
    """

    loss: float
    arrival: int
    trial_id: str


def exact(factor: float) -> Fraction:
    """`factor` as the number that the user wrote, so that division by it does not round: 1.1 is eleven tenths."""
    return Fraction(repr(float(factor)))


def bracket_size(brackets: int, index: int, factor: Fraction) -> int:
    """The number of trials in bracket p of B brackets: `ceil(B / (B - p) * eta^(B-1-p))`. ASHA draws brackets as often.

    Source: Li et al., "Hyperband" (arXiv 1603.06560), algorithm 1.
    """
    return math.ceil(Fraction(brackets, brackets - index) * factor ** (brackets - 1 - index))


@dataclass(slots=True)
class Rung:
    """The values recorded at one rung. All lists are sorted from best to worst.

    Attributes:
        ranked: The entries of all trials that have reached the rung.
        waiting: The entries of trials that are paused here. Only ASHA's promotion and HyperBand pause any.
        lost: Only with ASHA's promotion: the entries of trials that failed for good.
    """

    time: float
    ranked: list[Entry] = field(default_factory=list)
    waiting: list[Entry] = field(default_factory=list)
    lost: list[Entry] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.ranked)

    def rank(self, entry: Entry) -> int:
        """The rank of a recorded value, 1 for the best, in O(log n)."""
        return bisect_left(self.ranked, entry) + 1

    def holds(self, entry: Entry) -> bool:
        """Whether that entry is recorded here, in O(log n)."""
        index = bisect_left(self.ranked, entry)
        return index < len(self.ranked) and self.ranked[index] == entry

    def discard_waiting(self, entry: Entry) -> None:
        """Remove `entry` from `waiting`, if it is there, with O(log n) comparisons."""
        index = bisect_left(self.waiting, entry)
        if index < len(self.waiting) and self.waiting[index] == entry:
            del self.waiting[index]


# -- schedulers -------------------------------------------------------------------------------------------------------


class HalvingScheduler(MetricScheduler):
    """A scheduler that compares trials at rungs below `max_t`."""

    def __init__(
        self,
        time_attr: str,
        metric: str | None,
        mode: str | None,
        max_t: float,
        reduction_factor: float,
        stop_last_trials: bool,
        reward_attr: str | None,
    ):
        super().__init__(time_attr, metric, mode, reward_attr)
        require_flag("stop_last_trials", stop_last_trials)
        self._max_t = number_above("max_t", max_t, 0)
        self._reduction_factor = number_above("reduction_factor", reduction_factor, 1)
        self._eta = exact(self._reduction_factor)
        self._stop_last_trials = bool(stop_last_trials)
        self._arrivals = 0
        self._num_stopped = 0  # before `max_t`

    def debug_string(self) -> str:
        return f"Using {type(self).__name__.removesuffix('Scheduler')}: num_stopped={self._num_stopped}"

    def _new_entry(self, trial: Trial, result: dict[str, Any]) -> Entry:
        entry = Entry(-self._score_of(result), self._arrivals, trial.trial_id)
        self._arrivals += 1
        return entry

    def _rank_at(self, rung: Rung, entry: Entry, **about: Any) -> tuple[str, dict[str, Any]]:
        """The rank of an entry at a rung, as text and as facts."""
        rank = rung.rank(entry)
        reason = f"rank {rank} of {len(rung)} at {self._time_attr} {number_text(rung.time)}"
        return reason, {"rule": self._rule, "rung": rung.time, **about, "rank": rank, "of": len(rung)}

    def _end(self, at: float, **facts: Any) -> Decision:
        """Stop a trial that has trained for its full time, which does not count as stopped."""
        reason = f"{self._time_attr} {number_text(at)} has reached max_t={number_text(self._max_t)}"
        facts = {"rule": self._rule, "time": at, "rung": self._max_t, **facts}
        return Decision(decision.STOP, reason, facts=facts, kind=EndKind.MAX_T)


@dataclass(slots=True)
class _Standing:
    bracket: int
    rung: int = -1
    entry: Entry | None = None
    promoted: bool = True


@explains_calls
class AsyncHyperBandScheduler(HalvingScheduler):
    """Compares trials at rungs `r, r * eta, r * eta^2, ...`; about the best 1/eta of each continue.

    A value that is NaN or no number ranks below all others; of equal ones the first ranks better. A trial that
    ends by itself counts at its rung.

    Args:
        time_attr: The result key that measures progress.
        time_attr, metric, mode, reward_attr: See `MetricScheduler`.
        reduction_factor: eta, above 1.
        brackets: Their number. Each starts one rung higher than the one before. One is best for nearly all searches;
            three train about 1.5 times as much.
        stop_last_trials: If False, a trial continues beyond `max_t`, and is no longer compared.
        variant: `stop` stops the worse trials at once. `promote` pauses every trial at every rung and resumes the best,
            so that a slow start is forgiven; trials must save checkpoints.

    Raises:
        ValueError: If an argument is out of range.
    """

    _short_name = "ASHA"
    _rule = "asha"
    _STATE = ("_brackets", "_standings", "_rng", "_arrivals", "_num_stopped")

    def __init__(
        self,
        time_attr: str = "training_iteration",
        metric: str | None = None,
        mode: str | None = None,
        max_t: float = 100,
        grace_period: float = 1,
        reduction_factor: float = 4,
        brackets: int = 1,
        stop_last_trials: bool = True,
        variant: str = "stop",
        reward_attr: str | None = None,
    ):
        super().__init__(time_attr, metric, mode, max_t, reduction_factor, stop_last_trials, reward_attr)
        grace_period = number_above("grace_period", grace_period, 0)
        if grace_period > self._max_t:
            raise ValueError(f"expected grace_period <= max_t, but got grace_period={grace_period}, max_t={max_t}")
        require(is_whole(brackets) and brackets >= 1, "brackets: an int >= 1", brackets)
        if variant not in ("stop", "promote"):
            raise ValueError(f"variant must be 'stop' or 'promote', but got {variant!r}")
        self._promotes = variant == "promote"
        self._brackets = _make_brackets(brackets, grace_period, self._max_t, self._reduction_factor)
        self._times = [[rung.time for rung in rungs] for rungs in self._brackets]
        self._shares = [bracket_size(len(self._brackets), index, self._eta) for index in range(len(self._brackets))]
        self._rng = random.Random(0)
        self._left_behind: set[str] = set()  # those stopped since no trial is left to promote
        self._standings: dict[str, _Standing] = {}
        # The trial that was found running last. While it runs, the others need not be checked.
        self._busy: Trial | None = None

    @property
    def first_turn(self) -> float | None:
        return next(iter(self._times[0]), None)

    def set_seed(self, seed: int) -> None:
        self._rng = random.Random(seed)

    # -- hooks ---------------------------------------------------------------------------------------------------

    def on_trial_add(self, tune_controller: SchedulerContext, trial: Trial) -> None:
        """Draw the trial's bracket. A trial that is queued again keeps its bracket."""
        super().on_trial_add(tune_controller, trial)
        self._standing_of(trial)

    def on_trial_result(self, tune_controller: SchedulerContext, trial: Trial, result: dict[str, Any]) -> str:
        """Record the result if the trial has reached a rung, and decide. O(log n) comparisons."""
        at = self._time_of(result)
        if at is None:
            return decision.GO_ON
        if at >= self._max_t:
            if self._stop_last_trials:
                return self._end(at)
            return decision.GO_ON
        standing = self._standing_of(trial)
        recorded = self._record(trial, standing, at, result)
        if recorded is not None:
            return self._decide(standing, *recorded, at)
        if standing.promoted or at < self._times[standing.bracket][standing.rung]:
            return decision.GO_ON
        # It was started again without a promotion, so it stays at its rung.
        return Decision(decision.PAUSE, "it is again at the rung where it waits to be promoted")

    def on_trial_complete(self, tune_controller: SchedulerContext, trial: Trial, result: dict[str, Any]) -> None:
        at = self._time_of(result or {})
        # A short training that has ended by itself is a real result, to which longer ones are compared.
        if at is not None and at < self._max_t:
            self._record(trial, self._standing_of(trial), at, result)
        self._forget(trial)

    def on_trial_remove(self, tune_controller: SchedulerContext, trial: Trial) -> None:
        """Forget the trial; its values stay. It counts as stopped if this scheduler has asked to stop it."""
        if trial.trial_id in self._left_behind:
            self._left_behind.remove(trial.trial_id)
            self._num_stopped += 1
        self._forget(trial)

    def on_trial_error(self, tune_controller: SchedulerContext, trial: Trial) -> None:
        if not has_failed_for_good(trial):
            return
        standing = self._forget(trial)
        if self._promotes and standing is not None and standing.entry is not None:
            insort(self._brackets[standing.bracket][standing.rung].lost, standing.entry)

    def choose_trial_to_run(self, tune_controller: SchedulerContext) -> Trial | None:
        """Promote the best trial of the highest rung possible; if there is none, start a new trial.

        Once no new trial comes and nothing runs, every rung promotes at least its best trial, so that one reaches
        `max_t`. When none is left to promote, those that are still paused are stopped.
        """
        if not self._promotes:
            return super().choose_trial_to_run(tune_controller)
        chosen = self._best_to_promote(tune_controller, at_least=0) or tune_controller.first_pending()
        if chosen is not None or tune_controller.supply == SUPPLY_OPEN:
            return chosen
        if self._busy is not None and self._busy.status in (PENDING, RUNNING):
            return None
        live = tune_controller.get_live_trials()  # O(n), so only when the trial that was busy last has ended
        self._busy = next((trial for trial in live if trial.status in (PENDING, RUNNING)), None)
        if self._busy is not None:
            return None
        chosen = self._best_to_promote(tune_controller, at_least=1)
        if chosen is None:
            self._left_behind.update(trial.trial_id for trial in live)
            for trial in live:
                rank, facts = self._rank_of(trial)
                tune_controller.stop_trial(trial, f"no trial can be promoted any more{rank and f': {rank}'}", facts)
        return chosen

    @property
    def chooses_in_order(self) -> bool:
        """See `TrialScheduler.chooses_in_order`. It holds for the stopping variant, which promotes no trial."""
        chooses = getattr(self.choose_trial_to_run, "__func__", None)
        return not self._promotes and chooses is AsyncHyperBandScheduler.choose_trial_to_run

    # -- state ---------------------------------------------------------------------------------------------------

    def set_state(self, state: dict[str, Any]) -> None:
        # A value belongs to its rung: with other rungs the saved ones would be compared at the wrong times.
        saved = [[rung.time for rung in rungs] for rungs in state["_brackets"]]
        if saved != self._times:
            raise ValueError(
                f"the saved rungs {saved} must be those of this scheduler, but it has {self._times}; "
                "use the same max_t, grace_period, reduction_factor and brackets as before"
            )
        super().set_state(state)

    # -- the rule ------------------------------------------------------------------------------------------------

    def _standing_of(self, trial: Trial) -> _Standing:
        self._trials[trial.trial_id] = trial
        standing = self._standings.get(trial.trial_id)
        if standing is None:
            count = len(self._brackets)
            bracket = 0
            if count > 1:  # in the proportion of HyperBand's bracket sizes
                bracket = self._rng.choices(range(count), self._shares)[0]
            standing = _Standing(bracket)
            self._standings[trial.trial_id] = standing
        return standing

    def _record(
        self, trial: Trial, standing: _Standing, at: float, result: dict[str, Any]
    ) -> tuple[Rung, Entry] | None:
        """Record the result at the highest rung passed, unless that was done; None if nothing was recorded.

        Rungs that were skipped stay empty: their values would come from a later time.
        """
        index = bisect_right(self._times[standing.bracket], at) - 1
        if index <= standing.rung:
            return None
        if standing.entry is not None:
            self._brackets[standing.bracket][standing.rung].discard_waiting(standing.entry)
        rung = self._brackets[standing.bracket][index]
        entry = self._new_entry(trial, result)
        standing.rung = index
        standing.entry = entry
        insort(rung.ranked, entry)
        return rung, entry

    def _rank_of(self, trial: Trial) -> tuple[str, dict[str, Any]]:
        """The rank of a trial at the rung where it waits, as text and as facts; empty without one."""
        standing = self._standings.get(trial.trial_id)
        if standing is None or standing.entry is None:
            return "", {}
        rung = self._brackets[standing.bracket][standing.rung]
        return self._rank_at(rung, standing.entry, bracket=standing.bracket)

    def _decide(self, standing: _Standing, rung: Rung, entry: Entry, at: float) -> Decision:
        """The decision about a trial that was just recorded at a rung.

        The promoting variant pauses the trial. The stopping variant lets it continue if it is among the best floor(n /
        eta), itself included, or the best of all.
        """
        reason, about = self._rank_at(rung, entry, bracket=standing.bracket)
        value = f"{self._metric}={self._shown(-entry.loss)}"
        facts = {**self._facts(-entry.loss, at), **about}
        if self._promotes:
            standing.promoted = False
            insort(rung.waiting, entry)
            return Decision(decision.PAUSE, f"{reason}, waiting to be promoted: {value}", facts=facts)
        keep = self._kept(rung)
        passes = rung.rank(entry) <= keep and entry.loss < math.inf
        if not passes:
            self._num_stopped += 1
        cutoff = rung.ranked[keep - 1].loss
        facts["cutoff"] = self._value(-cutoff)
        reason += f", where the best {keep} go on: {value}, cutoff {self._shown(-cutoff)}"
        return Decision(decision.CONTINUE if passes else decision.STOP, reason, facts=facts)

    def _kept(self, rung: Rung) -> int:
        kept = int(len(rung) // self._eta)
        if self._promotes or not rung.ranked:
            return kept
        return max(1, kept)  # a trial that is the best so far is never stopped

    def _best_to_promote(self, context: SchedulerContext, at_least: int) -> Trial | None:
        """The best trial that waits and is among the top floor(n / eta), or the top `at_least`, from the highest rung
        down. A positive `at_least` leaves out trials that failed for good.
        """
        # The highest rung first: a trial there is worth more than one that has barely begun.
        for rung in sorted(chain(*self._brackets), key=lambda each: -each.time):
            found = self._first_available(context, rung)
            if found is None or found[0].loss == math.inf:
                continue
            entry, trial = found
            quota = max(at_least, self._kept(rung))
            rank = rung.rank(entry)
            if at_least:  # the slot of a trial that has failed goes to the next one, or no trial would reach `max_t`
                rank -= bisect_left(rung.lost, entry)
            if rank <= quota:
                self._standings[trial.trial_id].promoted = True
                return trial
        return None

    def _first_available(self, context: SchedulerContext, rung: Rung) -> tuple[Entry, Trial] | None:
        """The best trial that waits at `rung` and can be resumed now.

        Trials that run are passed over: they are being saved, or on their way to the next rung.
        """
        index = 0
        while index < len(rung.waiting):
            entry = rung.waiting[index]
            trial = self._find(context, entry.trial_id)
            standing = self._standings.get(entry.trial_id)
            if trial is None or standing is None or trial.is_finished():
                del rung.waiting[index]  # it was stopped by something else
            elif trial.status == PAUSED or (trial.status == PENDING and standing.promoted):
                return entry, trial
            else:
                index += 1
        return None

    def _forget(self, trial: Trial) -> _Standing | None:
        self._trials.pop(trial.trial_id, None)
        standing = self._standings.pop(trial.trial_id, None)
        if standing is not None and standing.entry is not None:
            self._brackets[standing.bracket][standing.rung].discard_waiting(standing.entry)
        return standing


ASHAScheduler = AsyncHyperBandScheduler


def _make_brackets(count: int, grace_period: float, max_t: float, factor: float) -> list[list[Rung]]:
    """The rungs of each bracket that has any; at least one bracket.

    Those of bracket s lie at `r * eta^s, r * eta^(s+1), ...` below `max_t`, computed by multiplication.
    """
    times = []
    at = grace_period
    while at < max_t:
        times.append(at)
        at *= factor
    brackets = [[Rung(at) for at in times[bracket:]] for bracket in range(min(count, len(times)))]
    if not brackets:
        logger.warning("ASHA stops no trial before max_t=%s: grace_period=%s leaves no rung below", max_t, grace_period)
    elif len(brackets) < count:
        logger.warning(
            "ASHA uses %d brackets instead of %d: the others have no rung below max_t=%s",
            len(brackets),
            count,
            max_t,
        )
    return brackets or [[]]
