"""RunState: trials are indexed by their phase, so that no event needs a scan over all.

In a driver, only `RunState.move` changes a phase, so the indices agree with it.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from minitune.base.checks import duration_s
from minitune.base.read_only import ReadOnlyList
from minitune.base.settings import number_setting
from minitune.driver.limits import Backoff, Deadlines, Overdue
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
    overdue: Overdue | None = None
    is_cut_short: bool = False


class WaitingTrials:
    """The trials that wait for a worker, or will when their last actor has exited.

    A QUEUED or PAUSED trial may start unless its last actor has not exited, or it rests. Exactly those that may start
    are in `queue` and `paused`, so an attempt never runs beside the worker of the one before.

    Attributes:
        queue: The QUEUED trials that may start, by id, in order of arrival.
        paused: The same of PAUSED ones.
        resting: QUEUED trials whose last attempts were in vain, by id, with the end of their wait.
        leaving: The stopped actors that have not exited yet, by actor id, with their trials.
    """

    def __init__(self) -> None:
        self.queue: dict[str, Trial] = {}
        self.paused: dict[str, Trial] = {}
        self.resting: dict[str, tuple[float, Trial]] = {}
        self.leaving: dict[str, RunningTrial] = {}

    @property
    def num_pending(self) -> int:
        """The number of QUEUED trials that do not rest, also of those whose last actor has not exited."""
        count = len(self.queue)
        for each in self.leaving.values():
            if each.trial.phase is Phase.QUEUED and each.trial.trial_id not in self.resting:
                count += 1
        return count

    def heads(self) -> list[Trial]:
        """The first trial in the queue with each request, in order of arrival: the others cannot start before these."""
        heads: dict[Resources, Trial] = {}
        last: Resources | None = None
        for trial in self.queue.values():
            if trial.resources is not last:  # most trials share one object
                last = trial.resources
                heads.setdefault(last, trial)
        return list(heads.values())

    def add(self, trial: Trial) -> None:
        """Add a trial that is new, has become QUEUED or PAUSED, or may perhaps start now."""
        if trial.attempt.actor_id in self.leaving or trial.trial_id in self.resting:
            return
        if trial.phase is Phase.QUEUED:
            self.queue.setdefault(trial.trial_id, trial)
        elif trial.phase is Phase.PAUSED:
            self.paused[trial.trial_id] = trial

    def remove(self, trial: Trial) -> None:
        """Remove a trial that starts, pauses or ends."""
        for trials in (self.queue, self.paused, self.resting):
            trials.pop(trial.trial_id, None)

    def rest(self, trial: Trial, until_s: float) -> None:
        """Do not start a QUEUED trial before this time, by the executor's clock."""
        self.resting[trial.trial_id] = until_s, trial
        # While it rests, the trials behind it may start.
        self.queue.pop(trial.trial_id, None)

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
        return trial.trial_id in self.queue or trial.trial_id in self.paused


class Request(NamedTuple):
    """A scheduler's request about a trial.

    Attributes:
        argument: For `stop` (reason, facts); for `pause` whether to save; for `exploit` (donor, config, reason).
    """

    verb: str
    trial: Trial
    argument: Any = None


class RunState:
    """The trials of a run in order of submission, with indices, requests and limits.

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

    def move(self, trial: Trial, transition: Transition, why: str | Ending = "") -> bool:
        """Move a trial to its next phase; return whether its public status has changed."""
        before = trial.phase
        trial.move(transition, why)  # first: if the table refuses it, no index has changed
        after = trial.phase
        # A trial that waits or has ended may let another one start, or the searcher suggest one.
        if after not in OWNS_ACTOR:
            self.may_start = True
        if before is Phase.QUEUED or before is Phase.PAUSED:
            self.waiting.remove(trial)
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
        self.waiting.add(running.trial)
