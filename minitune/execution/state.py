"""RunState: all that the driver knows of a run. Its settings, its trials, and what may happen to them next.

Trials are indexed by where they are, so that no event needs a scan. Only `RunState.move` takes a step of a trial's
life, so the indices agree with the phases of the trials.
"""

from __future__ import annotations

import itertools
import math
import os
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from minitune.checkpoint import CheckpointRecord
from minitune.config import CheckpointConfig, FailureConfig
from minitune.decision import CONTINUE, Decision
from minitune.execution.failure import Deadlines, Overdue, Setbacks
from minitune.execution.trial_executor import Shared
from minitune.experiment.lifecycle import FINISHED, OWNS_ACTOR, STATUS, Phase, Step
from minitune.experiment.trial import KeptCheckpoint, Metric, Trial
from minitune.resources import Allocation, Resources

if TYPE_CHECKING:
    from minitune.execution.report_path import ReportPath

OPEN, WAITING, ENDED = "OPEN", "WAITING", "ENDED"
"""Whether the searcher may give more trials, has none now, or is finished."""

GRACE_S = 10.0
"""How long a trial may take to unwind when it is asked to stop, before it is terminated and then killed."""


# -- settings ----------------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class TrialSettings:
    """The settings that the trials of one experiment have in common.

    Attributes:
        trainable: The trainable, stored once with the executor.
        checkpoints: When class trainables are saved.
        saves: Whether the trainable is a class that can be saved between two steps.
    """

    trainable: Shared
    checkpoints: CheckpointConfig = field(default_factory=CheckpointConfig)
    saves: bool = False


@dataclass(frozen=True)
class RunSettings:
    """The settings of a run that the controller needs, beside its plug-ins.

    Attributes:
        run_name: The run's name.
        experiments: Those of each experiment, in order; `Trial.experiment_number` is an index of it.
        metric: The run's metric, a list of them, or None.
        seed: The base seed.
        failure: Whether a failure ends the run.
        max_concurrent_trials: At most so many trials run at a time; None means no limit.
        max_ahead: So many trials are drawn ahead of their workers; None means what suits the machine.
        reuse_actors: Whether a worker is handed on to the next trial.
        grace_s: Seconds that a trial has to unwind.
        free_restore_failures: How many failed restores of a trial do not count as failures.
        trial_timeout_s: Seconds that one attempt of a trial may take, or None.
        report_timeout_s: Seconds from a pull to the report that answers it, or None.
        reuses_results: Whether a trial whose configuration was tried before gets the result of that one.
        strict_metric: Whether a result without the metric of run, scheduler or searcher is an error of its trial.
        answered: In a run whose events come in logical order, gives the actors whose answer waits for its turn; else
            None.
        rest: In such a run lets time pass, at most so many seconds, without telling any event; else None.
    """

    run_name: str = ""
    experiments: Sequence[TrialSettings] = ()
    metric: Metric = None
    seed: int = 0
    failure: FailureConfig = field(default_factory=FailureConfig)
    max_concurrent_trials: int | None = None
    max_ahead: int | None = None
    reuse_actors: bool = False
    grace_s: float = GRACE_S
    free_restore_failures: int = 0
    trial_timeout_s: float | None = None
    report_timeout_s: float | None = None
    strict_metric: bool = True
    reuses_results: bool = False
    answered: Callable[[], Iterator[str]] | None = None
    rest: Callable[[float], object] | None = None

    @property
    def is_ordered(self) -> bool:
        """Whether nothing may depend on when something has happened."""
        return self.answered is not None


# -- trials ------------------------------------------------------------------------------------------------------------
class TrialQueue:
    """Trials in order of arrival, grouped by what they need.

    Trials with equal requests wait one behind the other. So one question for each distinct request tells that the
    machine is full, however many trials wait. Every operation is O(1) in the number of trials; `heads` is
    O(k log k) in the number k of distinct requests.
    """

    def __init__(self) -> None:
        self._groups: dict[Resources, dict[str, tuple[int, Trial]]] = {}
        self._places: dict[str, Resources] = {}
        self._arrivals = itertools.count()

    def __len__(self) -> int:
        return len(self._places)

    def __contains__(self, trial: Trial) -> bool:
        return trial.trial_id in self._places

    def __iter__(self) -> Iterator[Trial]:
        entries = sorted((entry for group in self._groups.values() for entry in group.values()), key=lambda e: e[0])
        return iter([trial for _, trial in entries])

    def push(self, trial: Trial) -> None:
        """Put `trial` at the end; one that is there already stays where it is."""
        if trial.trial_id not in self._places:
            self._places[trial.trial_id] = trial.resources
            self._groups.setdefault(trial.resources, {})[trial.trial_id] = (next(self._arrivals), trial)

    def remove(self, trial: Trial) -> None:
        """Take `trial` out; nothing happens if it is not there."""
        request = self._places.pop(trial.trial_id, None)
        if request is None:
            return
        group = self._groups[request]
        del group[trial.trial_id]
        if not group:
            del self._groups[request]

    def heads(self) -> list[Trial]:
        """The first trial of each distinct request, in order of arrival."""
        if len(self._groups) == 1:
            for _, trial in next(iter(self._groups.values())).values():
                return [trial]
        firsts = []
        for group in self._groups.values():
            firsts.append(next(iter(group.values())))
        firsts.sort()  # by arrival: no two are equal
        return [trial for _, trial in firsts]

    def first(self) -> Trial | None:
        """The trial that has waited longest, or None."""
        heads = self.heads()
        return heads[0] if heads else None


_GO_ON = Decision(CONTINUE)


@dataclass
class Live:
    """All that the driver knows of a trial that owns an actor.

    Attributes:
        trial: The trial.
        actor_id: Its actor.
        decision: The decision to carry out once the save in flight is over.
        requested: What was asked for from outside (a scheduler about another trial, the end of the run); it is
            carried out when the call in flight has returned.
        ends_by_itself: True if the trainable has said that it is done.
        allocation: The actor's resources; None until it is ready.
        idle: True while no call is in flight, within the handling of one event.
        begun_s: When the worker was asked for, by the executor's clock.
        ready_s: When it was ready; infinite until then.
        has_reported: Whether this attempt has reported.
        path: A short way into the files for reports that are like the one before; None if there is none.
        look_s: When the trial's directory is to be looked at again, by `time.monotonic`, while reports take that way.
        overdue: The time limit that it has broken: its worker has been told to end, and its trial fails when it has.
    """

    trial: Trial
    actor_id: str
    decision: Decision = _GO_ON
    requested: Decision | None = None
    ends_by_itself: bool = False
    allocation: Allocation | None = None
    idle: bool = False
    begun_s: float = math.inf
    ready_s: float = math.inf
    has_reported: bool = False
    path: ReportPath | None = None
    look_s: float = 0.0
    overdue: Overdue | None = None


class Request(NamedTuple):
    """A request of a scheduler about a trial; carried out when its hook has returned.

    Attributes:
        verb: `"stop"`, `"pause"`, `"exploit"` or `"resources"`.
        trial: The trial concerned.
        argument: For `stop` the reason, for `pause` whether to save, for `exploit` (donor, config, reason), for
            `resources` the new request.
    """

    verb: str
    trial: Trial
    argument: Any = None


class Donation(NamedTuple):
    """A checkpoint of another trial that a trial goes on from, until it has a newer one of its own.

    Attributes:
        donor: Whose it is.
        record: Which one.
        metrics: The donor's result that belongs to it.
        taken_at: The state in which the taker was given it, to roll back to.
    """

    donor: Trial
    record: CheckpointRecord
    metrics: dict[str, Any]
    taken_at: KeptCheckpoint

    @classmethod
    def of(cls, donor: Trial, record: CheckpointRecord, metrics: dict[str, Any], taker: Trial) -> Donation:
        """A checkpoint of `donor`, given to `taker` as it is now."""
        taken_at = KeptCheckpoint(record, taker.report_count, taker.last_result, taker.analysis.copy())
        return cls(donor, record, metrics, taken_at)

    @property
    def path(self) -> str:
        """Its directory."""
        return os.path.join(self.donor.local_path, self.record.directory)


class RunState:
    """The trials of a run in order of submission, the indices over them, and what is asked for or awaited.

    Every operation is O(1) or O(log n).

    Args:
        settings: The settings of the run.

    Attributes:
        settings: The settings of the run.
        supply: Whether the searcher may give more trials: `OPEN`, `WAITING` or `ENDED`.
        requests: The scheduler's requests that are not carried out yet.
        deadlines: The time that each actor has left.
        setbacks: The losses of workers in a row, which say when to start none.
        trials: Every trial of the run.
        queue: Those that could be started: QUEUED, and no actor of theirs is still on its way out.
        paused: Those that are PAUSED and could be chosen, in order.
        live: By actor id, those that own an actor.
        resting: By trial id, QUEUED trials that have failed again and again, and until when they are not started.
        leaving: Actor ids by trial id, where the actor was let go and has not exited yet.
        cut_short: By actor id, the trials whose actor was let go while a call was in flight and has not exited yet.
        counts: Number of trials by public status.
        num_pending: Trials that wait for a worker and do not rest, those included whose last actor has not exited yet.
        donations: By trial id, the checkpoint of another trial that a trial goes on from for now.
        end_reason: Why the run is being ended; empty while it goes on.
        interrupted: Whether it is ended so that it can be resumed.
        may_start: False once nothing more can start, so that there is no need to ask. What may let another trial start
            makes it True again: a trial that comes, waits or ends, a worker that leaves, the end of the supply.
        to_end: RUNNING trials of an earlier driver without an actor, whose final result is on record, with the reason.
    """

    def __init__(self, settings: RunSettings | None = None) -> None:
        self.settings = settings = settings or RunSettings()
        self.supply = OPEN
        self.requests: deque[Request] = deque()
        self.deadlines = Deadlines(settings.report_timeout_s, settings.trial_timeout_s)
        self.setbacks = Setbacks()
        self.trials: list[Trial] = []
        self.queue = TrialQueue()
        self.paused: dict[str, Trial] = {}
        self.live: dict[str, Live] = {}
        self.resting: dict[str, float] = {}
        self.leaving: dict[str, str] = {}
        self.cut_short: dict[str, Trial] = {}
        self.counts: Counter[str] = Counter()
        self.donations: dict[str, Donation] = {}
        self.end_reason = ""
        self.interrupted = False
        self.unfinished: dict[str, Trial] = {}
        self.may_start = True
        self.to_end: list[tuple[Trial, str]] = []
        self.num_pending = 0

    def add(self, trial: Trial) -> None:
        """Take in a trial, whatever its phase."""
        self.may_start = True
        self.trials.append(trial)
        self.counts[trial.status] += 1
        if trial.phase not in FINISHED:
            self.unfinished[trial.trial_id] = trial
        if trial.phase is Phase.QUEUED:
            self.num_pending += 1
        self._index(trial)

    def replace(self, old: Trial, fresh: Trial) -> None:
        """Put a new trial in the place of one that has ended."""
        self.add(fresh)
        del self.trials[-1]
        self.trials[self.trials.index(old)] = fresh
        self.counts[old.status] -= 1

    def move(self, trial: Trial, step: Step, reason: str = "") -> bool:
        """Take one step of a trial's life and keep the indices true.

        Args:
            trial: The trial.
            step: The step.
            reason: Why, for its story.

        Returns:
            Whether its public status has changed.

        Raises:
            TuneError: If the table forbids the step; nothing has changed then.
        """
        before = trial.phase
        trial.move(step, reason)
        after = trial.phase
        if after not in OWNS_ACTOR:
            self.may_start = True
        if before is Phase.QUEUED:
            self.queue.remove(trial)
            if self.resting.pop(trial.trial_id, None) is None:
                self.num_pending -= 1
        elif before is Phase.PAUSED:
            self.paused.pop(trial.trial_id, None)
        if after is Phase.QUEUED:
            self.num_pending += 1
        if after in FINISHED:
            self.unfinished.pop(trial.trial_id, None)
        else:
            self.unfinished.setdefault(trial.trial_id, trial)
        if after is Phase.QUEUED or after is Phase.PAUSED:
            self._index(trial)
        if STATUS[before] == STATUS[after]:
            return False
        self.counts[STATUS[before]] -= 1
        self.counts[STATUS[after]] += 1
        return True

    def let_go(self, live: Live) -> None:
        """The trial's actor was stopped, or has died but its tree may still be there."""
        self.may_start = True
        self.live.pop(live.actor_id, None)
        self.leaving[live.trial.trial_id] = live.actor_id

    def has_left(self, trial_id: str) -> None:
        """The trial's last actor is gone for good; if the trial has not ended, it may be started again."""
        self.may_start = True
        self.leaving.pop(trial_id, None)
        trial = self.unfinished.get(trial_id)
        if trial is not None:
            self._index(trial)

    def rest(self, trial: Trial, until_s: float) -> None:
        """Do not start a QUEUED trial before this time of the executor's clock."""
        if trial.trial_id not in self.resting:
            self.num_pending -= 1
        self.resting[trial.trial_id] = until_s
        self.queue.remove(trial)

    def end_rests(self, now_s: float) -> None:
        """Those that have rested long enough may be started. Few rest at a time, see `CrashLoop`."""
        for trial_id in [trial_id for trial_id, until_s in self.resting.items() if until_s <= now_s]:
            self.may_start = True
            del self.resting[trial_id]
            self.num_pending += 1
            self._index(self.unfinished[trial_id])

    @property
    def is_finished(self) -> bool:
        """Whether every trial has ended and no more will come."""
        return not self.unfinished and self.supply == ENDED

    def seconds_of_rest(self, now_s: float) -> float | None:
        """How long it takes until the next one has rested; None if none rests."""
        return max(0.0, min(self.resting.values()) - now_s) if self.resting else None

    def change_resources(self, trial: Trial, request: Resources) -> None:
        """Give a waiting trial another request."""
        self.may_start = True
        was_queued = trial in self.queue
        self.queue.remove(trial)
        trial.update_resources(request)
        if was_queued:
            self._index(trial)

    def goes_on_from(self, trial: Trial) -> KeptCheckpoint | None:
        """The state in which the trial's next attempt starts; None for the beginning."""
        donation = self.donations.get(trial.trial_id)
        if donation is not None:
            return donation.taken_at
        return trial.checkpoints[-1] if trial.checkpoints else None

    def is_startable(self, trial: Trial) -> bool:
        """Whether the trial waits and no actor of it is still on its way out."""
        return trial in self.queue or trial.trial_id in self.paused

    def format_counts(self) -> str:
        """Such as `3 PENDING, 2 RUNNING`."""
        return ", ".join(f"{count} {status}" for status, count in sorted(self.counts.items()) if count) or "none"

    def _index(self, trial: Trial) -> None:
        if trial.trial_id in self.leaving or trial.trial_id in self.resting:
            return
        if trial.phase is Phase.QUEUED:
            self.queue.push(trial)
        elif trial.phase is Phase.PAUSED:
            self.paused.setdefault(trial.trial_id, trial)
