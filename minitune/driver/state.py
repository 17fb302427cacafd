"""RunState: trials are indexed by their phase, so that no event needs a scan over all.

In a driver, only `RunState.move` changes a phase, so the indices agree with it.
"""

from __future__ import annotations

import functools
import itertools
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from minitune.base.checks import duration_s
from minitune.base.read_only import ReadOnlyList
from minitune.base.settings import number_setting
from minitune.driver.limits import Backoff, Deadlines, Overdue
from minitune.experiment.completed_result import text_of_config
from minitune.experiment.decision import GO_ON, Decision
from minitune.experiment.endings import Ending
from minitune.experiment.lifecycle import ENDED_PHASES, OWNS_ACTOR, STATUS, Phase, Transition
from minitune.experiment.trial import StartPoint, Trial
from minitune.resources import Allocation, Resources
from minitune.schedulers.trial_scheduler import SUPPLY_OPEN

if TYPE_CHECKING:
    from minitune.driver.plan import Plan

_READ_ONLY = (
    "the list of a run's trials is read-only; change a copy of it: list(trials). A scheduler ends a trial by "
    "controller.stop_trial(trial)"
)


# -- trials ------------------------------------------------------------------------------------------------------------
class TrialQueue:
    """Trials in order of arrival, grouped by their resource requests.

    One check per distinct request shows whether a trial can start.
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
        """Add `trial` at the end, unless it is in the queue."""
        if trial.trial_id not in self._places:
            self._places[trial.trial_id] = trial.resources
            self._groups.setdefault(trial.resources, {})[trial.trial_id] = (next(self._arrivals), trial)

    def remove(self, trial: Trial) -> None:
        """Remove `trial`, if it is there."""
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
        if not self._groups:
            return []
        firsts = []
        for group in self._groups.values():
            firsts.append(next(iter(group.values())))
        firsts.sort()  # by arrival numbers, which are distinct
        return [trial for _, trial in firsts]

    def first(self) -> Trial | None:
        """The trial that has waited longest, or None."""
        heads = self.heads()
        return heads[0] if heads else None


@dataclass
class RunningTrial:
    """The state of a trial that has an actor.

    Attributes:
        start: Where the attempt starts.
        decision: The one on its last report, which is carried out after a save that is due.
        requested: A request from elsewhere, such as a hook for another trial, until the call ends.
        is_final: Whether its last result is its final one: the trainable, a plug-in or a criterion has decided so.
            Then the trial has ended, even if a signal comes meanwhile.
        allocation: The actor's resources, once it is ready.
        idle: Whether no call is in flight: its worker has answered, and waits for the next call.
        look_s: When to check the trial's directory again, by `time.monotonic`.
        overdue: The exceeded time limit: the trial fails when its worker has ended.
        is_cut_short: Whether the actor was stopped during a call, and may have written files without a report.
    """

    trial: Trial
    actor_id: str
    start: StartPoint
    decision: Decision = GO_ON
    requested: Decision | None = None
    is_final: bool = False
    allocation: Allocation | None = None
    idle: bool = False
    look_s: float = 0.0
    overdue: Overdue | None = None
    is_cut_short: bool = False

    @functools.cached_property
    def config_text(self) -> str | None:
        """The configuration of the attempt as JSON; see `text_of_config`."""
        return text_of_config(self.trial.attempt.config)


class WaitingTrials:
    """The trials that wait for a worker, or will when their last actor has exited.

    A QUEUED or PAUSED trial may start unless its last actor has not exited, or it rests. Exactly those that may start
    are in `queue` and `paused`, so an attempt never runs beside the worker of the one before.

    Attributes:
        resting: QUEUED trials whose last attempts were in vain, by id, with the end of their wait.
        leaving: The stopped actors that have not exited yet, by actor id, with their trials.
        num_pending: The number of QUEUED trials that do not rest, also of those whose last actor has not exited.
    """

    def __init__(self) -> None:
        self.queue = TrialQueue()
        self.paused: dict[str, Trial] = {}
        self.resting: dict[str, tuple[float, Trial]] = {}
        self.leaving: dict[str, RunningTrial] = {}
        self.num_pending = 0

    def add(self, trial: Trial) -> None:
        """Add a trial that is new, or has become QUEUED or PAUSED."""
        may_start = trial.attempt.actor_id not in self.leaving
        if trial.phase is Phase.QUEUED:
            self.num_pending += 1
            if may_start:
                self.queue.push(trial)
        elif trial.phase is Phase.PAUSED and may_start:
            self.paused[trial.trial_id] = trial

    def last_actor_left(self, trial: Trial) -> None:
        """The last actor of a waiting trial has exited: it may start, unless it rests."""
        if trial.phase is Phase.PAUSED:
            self.paused[trial.trial_id] = trial
        elif trial.trial_id not in self.resting:
            self.queue.push(trial)

    def remove(self, trial: Trial, phase: Phase) -> None:
        """Remove a trial that was in this phase."""
        if phase is Phase.PAUSED:
            self.paused.pop(trial.trial_id, None)
            return
        self.queue.remove(trial)
        if self.resting.pop(trial.trial_id, None) is None:
            self.num_pending -= 1

    def rest(self, trial: Trial, until_s: float) -> None:
        """Do not start a QUEUED trial before this time, by the executor's clock."""
        if trial.trial_id not in self.resting:
            self.num_pending -= 1
        self.resting[trial.trial_id] = until_s, trial
        # While it rests, the trials behind it may start.
        self.queue.remove(trial)

    def end_rests(self, now_s: float) -> bool:
        """Let trials start that have rested long enough; return whether there were any."""
        rested = [trial for until_s, trial in self.resting.values() if until_s <= now_s]
        for trial in rested:
            del self.resting[trial.trial_id]
            self.add(trial)
        return bool(rested)

    def first_rest_ends_s(self) -> float:
        """When the first rest ends, by the executor's clock."""
        return min(until_s for until_s, _ in self.resting.values())

    def may_start(self, trial: Trial) -> bool:
        """Whether the trial is waiting and its last actor has exited."""
        return trial in self.queue or trial.trial_id in self.paused


class Request(NamedTuple):
    """A scheduler's request about a trial.

    Attributes:
        argument: For `stop` (reason, facts); for `pause` whether to save; for `exploit` (donor, config, reason).
    """

    verb: str
    trial: Trial
    argument: Any = None


class RunState:
    """The trials of a run in order of submission, with indices, requests and limits, in O(1) or O(log n).

    Attributes:
        seed: That of the run.
        grace_s: Seconds that a trial may take to unwind after a stop; then it gets SIGTERM, and later SIGKILL.
        supply: See `SchedulerContext.supply`.
        ending: Why the run is ending; None while it continues.
        interrupted: Whether a signal ends the run.
        may_start: Whether something has happened since the last launch after which a trial might start: a trial is
            added, waits or ends, a worker exits, the supply ends, or plug-ins may answer otherwise.
        trials: All trials. Plug-ins get this list, so only this class changes it.
        unfinished: The trials that have not ended, by trial id.
        running: The trials that have an actor, by actor id.
    """

    def __init__(self, plan: Plan, seed: int = 0) -> None:
        self.plan = plan
        self.seed = seed
        # The run as a whole.
        self.supply = SUPPLY_OPEN
        self.ending: Ending | None = None
        self.interrupted = False
        self.may_start = True
        self.requests: deque[Request] = deque()
        tune = plan.tune_config
        self.deadlines = Deadlines(
            duration_s(tune.report_timeout_s, "report_timeout_s"), duration_s(tune.trial_timeout_s, "trial_timeout_s")
        )
        self.grace_s = number_setting("FORCE_TRIAL_CLEANUP_S")
        self.backoff = Backoff()
        # Its trials.
        self.trials: list[Trial] = ReadOnlyList((), _READ_ONLY)
        self.unfinished: dict[str, Trial] = {}
        self.waiting = WaitingTrials()
        self.running: dict[str, RunningTrial] = {}

    def add(self, trial: Trial) -> None:
        """Add a trial, in any phase."""
        self.may_start = True
        list.append(self.trials, trial)  # its own methods refuse changes, as plug-ins have it
        if trial.phase not in ENDED_PHASES:
            self.unfinished[trial.trial_id] = trial
        self.waiting.add(trial)

    def replace(self, old: Trial, fresh: Trial) -> None:
        """Replace a trial that has ended by a new one."""
        self.add(fresh)
        list.pop(self.trials)
        list.__setitem__(self.trials, self.trials.index(old), fresh)

    def move(self, trial: Trial, transition: Transition, reason: str | Ending = "") -> bool:
        """Move a trial to its next phase; return whether its public status has changed."""
        before = trial.phase
        trial.move(transition, reason)  # first: if the table refuses it, no index has changed
        after = trial.phase
        # A trial that waits or has ended may let another one start, or the searcher suggest one.
        if after not in OWNS_ACTOR:
            self.may_start = True
        if before is Phase.QUEUED or before is Phase.PAUSED:
            self.waiting.remove(trial, before)
        if after in ENDED_PHASES:
            self.unfinished.pop(trial.trial_id, None)
        else:
            self.unfinished.setdefault(trial.trial_id, trial)
        if after is Phase.QUEUED or after is Phase.PAUSED:
            self.waiting.add(trial)
        return STATUS[before] != STATUS[after]

    def let_go(self, running: RunningTrial) -> None:
        """The trial's actor was stopped, or has died and children may exist."""
        self.may_start = True
        self.running.pop(running.actor_id, None)
        self.waiting.leaving[running.actor_id] = running

    def has_left(self, running: RunningTrial) -> None:
        """An actor that was let go has exited."""
        self.may_start = True
        self.waiting.leaving.pop(running.actor_id, None)
        if running.trial.phase not in ENDED_PHASES:
            self.waiting.last_actor_left(running.trial)
