"""SimulatedExecutor: an executor that follows learning curves instead of training, with a virtual clock.

There are no threads, processes or files: `wait` jumps to the first of a heap of (virtual time, number, event).
"""

from __future__ import annotations

import copy
import heapq
import itertools
import math
import os
import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from minitune.base.checks import is_real
from minitune.base.clock import VirtualClock
from minitune.base.numbers import finite_number
from minitune.checkpoint import CheckpointRecord, directory_name
from minitune.error import RemoteError, TuneError
from minitune.executors.admission import Admission, idle, ledger_of
from minitune.executors.devices import Machine
from minitune.executors.trial_executor import (
    RESTORE,
    SAVE,
    TRAIN,
    ActorSpec,
    CallRaised,
    CallReturned,
    Event,
    Exited,
    Started,
)
from minitune.experiment.trial_info import TrialInfo
from minitune.result import (
    CONFIG,
    DONE,
    ITERATIONS_SINCE_RESTORE,
    TIME_SINCE_RESTORE,
    TIME_THIS_ITER_S,
    TIME_TOTAL_S,
    TIMESTAMP,
    TRAINING_ITERATION,
    TRIAL_ID,
    Report,
    with_plain_keys,
)

Step = tuple[Any, ...]
"""(metrics, seconds), or (metrics, seconds, state) for a curve that depends on a state."""
OpenCurve = Callable[[dict[str, Any], Any, int], Iterator[Step]]
"""`open_curve(config, state, position)`: the steps after the first `position` steps, from `state` (None: the start)."""


@dataclass(frozen=True)
class Costs:
    """Virtual time that is not spent on steps, and failures.

    Attributes:
        start_delay_s: Seconds from the start of a worker to its first step; 0 for a reused worker.
        checkpoint_cost_s: Seconds to write a checkpoint, and to load one.
        failure_rate: The probability that the worker dies in a step.
    """

    start_delay_s: float = 0.0
    checkpoint_cost_s: float = 0.0
    failure_rate: float = 0.0
    seed: int = 0


@dataclass(frozen=True)
class _Saved:
    """A checkpoint: the trial's position on its curve, and the curve's state."""

    position: int
    state: Any


@dataclass(slots=True)
class _Counters:
    """The counters in an actor's results, without facts about a process."""

    iteration: int = 0
    total_s: float = 0.0
    since_restore: int = 0
    since_restore_s: float = 0.0

    def restore(self, metrics: Mapping[str, Any]) -> None:
        """Go on from the result of a checkpoint."""
        self.iteration = int(finite_number(metrics.get(TRAINING_ITERATION)) or 0)
        self.total_s = finite_number(metrics.get(TIME_TOTAL_S)) or 0.0
        self.since_restore = 0
        self.since_restore_s = 0.0

    def complete(self, result: dict[str, Any], trial_id: str, seconds: float, now_s: float) -> None:
        """Count one iteration that took so many seconds, and complete its result."""
        self.iteration += 1
        self.since_restore += 1
        self.total_s += seconds
        self.since_restore_s += seconds
        result.setdefault(DONE, False)
        result.setdefault(TRAINING_ITERATION, self.iteration)
        result[TRIAL_ID] = trial_id
        result.setdefault(TIMESTAMP, int(now_s))
        result.setdefault(TIME_THIS_ITER_S, seconds)
        result[TIME_TOTAL_S] = self.total_s
        result.pop(CONFIG, None)  # see `minitune.result.complete`
        result[TIME_SINCE_RESTORE] = self.since_restore_s
        result[ITERATIONS_SINCE_RESTORE] = self.since_restore


@dataclass(eq=False)
class _SimulatedActor:
    """A trial on its curve."""

    spec: ActorSpec
    info: TrialInfo
    began_s: float
    rng: random.Random | None
    is_busy: bool = False
    steps: Iterator[Step] | None = None
    position: int = 0
    state: Any = None
    next_checkpoint: int = 0
    counters: _Counters = field(default_factory=_Counters)


_Due = tuple[float, int, Event, _SimulatedActor]
"""The time of an event, a number that orders simultaneous ones, the event, and its actor."""


@dataclass
class SimulationTotals:
    """The resources that a simulation has used."""

    worker_s: float = 0.0
    training_s: float = 0.0
    steps: int = 0
    checkpoints: int = 0
    failures: int = 0


class SimulatedExecutor(Admission[_SimulatedActor, _SimulatedActor]):
    """Runs trials on learning curves."""

    def __init__(self, machine: Machine, open_curve: OpenCurve, costs: Costs):
        super().__init__(ledger_of(machine))
        self.costs = costs
        self._open_curve = open_curve
        self.clock = VirtualClock()
        self.totals = SimulationTotals()
        self._due: list[_Due] = []
        self._numbers = itertools.count()
        self._saved: dict[str, _Saved] = {}
        self._is_woken = False
        self._pid = os.getpid()

    # -- actors ------------------------------------------------------------------------------------------------------

    def start(self, spec: ActorSpec) -> None:
        """See `TrialExecutor.start`. The factory is not called; `args` has the trial."""
        actor_id = spec.actor_id
        info = TrialInfo(*spec.args[0])
        allocation = self._ledger.acquire(actor_id, spec.request)
        rng = None
        if self.costs.failure_rate:
            # Its own seed: the failures of a trial do not depend on the other trials, nor on the order of their steps.
            rng = random.Random(f"{self.costs.seed}/{actor_id}")
        actor = _SimulatedActor(spec, info, self.clock.now_s, rng, next_checkpoint=info.next_checkpoint)
        self._actors[actor_id] = actor
        is_reused = self._take_parked(spec.reuse_key, spec.request) is not None
        started = Started(actor_id, self._pid, "", allocation, reused=is_reused)
        self._enqueue(actor, started, 0.0 if is_reused else self.costs.start_delay_s)

    def call(self, actor_id: str, method: str, *args: Any) -> None:
        """`train`, `save` or `restore`."""
        actor = idle(self._actors, actor_id)
        if method == TRAIN:
            self._train(actor)
        elif method == SAVE:
            self._enqueue(actor, CallReturned(actor_id, self._save(actor)), self.costs.checkpoint_cost_s)
        elif method == RESTORE:
            self._enqueue(actor, self._restore(actor, *args), self.costs.checkpoint_cost_s)
        else:
            raise RuntimeError(f"a simulated trial has no method {method!r}")

    def stop(self, actor_id: str, grace_s: float, keep: bool = False, dump: bool = False) -> None:
        """It takes no time."""
        actor = self._actors.pop(actor_id, None)
        if actor is None:
            return
        if actor.is_busy:  # nothing but Exited follows a stop
            self._due = [due for due in self._due if due[3] is not actor]
            heapq.heapify(self._due)
        is_parked = keep and actor.spec.reuse_key is not None
        self._enqueue(actor, Exited(actor_id, "parked" if is_parked else "stopped", "stopped"), 0.0)

    def wait(self, timeout_s: float | None) -> list[Event]:
        """Does not block: the clock jumps by at most `timeout_s`.

        Raises:
            TuneError: If there is neither a future event nor a timeout.
        """
        if self._is_woken:
            self._is_woken = False
            return []
        clock = self.clock
        due = self._due
        if due and (timeout_s is None or due[0][0] <= clock.now_s + timeout_s):
            at_s, _, event, actor = heapq.heappop(due)
            if at_s > clock.now_s:
                clock.now_s = at_s
            actor.is_busy = False
            if type(event) is Exited:
                self._leave(actor, event)
            return [event]
        if timeout_s is None:
            raise TuneError("the simulation cannot continue: no trial runs, and no event is to come")
        clock.sleep(timeout_s)
        return []

    def wake(self) -> None:
        """See `TrialExecutor.wake`."""
        self._is_woken = True

    def shutdown(self, grace_s: float = 0.0) -> None:
        """See `TrialExecutor.shutdown`."""
        for actor_id in list(self._actors):
            self.stop(actor_id, grace_s)
        while self._due:
            self.wait(None)
        self._drop_held()

    def drop_checkpoint(self, trial_directory: str, number: int) -> None:
        """Delete a checkpoint: a trial that loads it later fails."""
        self._saved.pop(os.path.join(trial_directory, directory_name(number)), None)

    # -- running -----------------------------------------------------------------------------------------------------

    def _enqueue(self, actor: _SimulatedActor, event: Event, after_s: float) -> None:
        actor.is_busy = True
        heapq.heappush(self._due, (self.clock.now_s + after_s, next(self._numbers), event, actor))

    def _leave(self, actor: _SimulatedActor, event: Exited) -> None:
        self._actors.pop(actor.spec.actor_id, None)
        self._ledger.release(actor.spec.actor_id)
        self.totals.worker_s += self.clock.now_s - actor.began_s
        if event.kind == "parked":
            self._park(actor.spec.reuse_key, actor.spec.request, actor)  # only that it is there counts

    def _train(self, actor: _SimulatedActor) -> None:
        """Make the next step now; its event is due when its time has passed."""
        # Now and not when it is due: a generator must not see what the scheduler decides in the meantime.
        try:
            if actor.steps is None:
                actor.steps = self._open_curve(actor.info.config, actor.state, actor.position)
            step = next(actor.steps, None)
            if step is None:
                self._enqueue(actor, CallReturned(actor.spec.actor_id, Report(None, done=True)), 0.0)
                return
            given, seconds, state = _checked(step)
            result = with_plain_keys(dict(given))
        except Exception as error:
            self._enqueue(actor, CallRaised(actor.spec.actor_id, RemoteError.of(error)), 0.0)
            return
        totals = self.totals
        totals.steps += 1
        if actor.rng is not None and actor.rng.random() < self.costs.failure_rate:
            spent_s = seconds * actor.rng.random()  # it dies somewhere in the step, whose time is lost
            totals.training_s += spent_s
            totals.failures += 1
            self._enqueue(actor, Exited(actor.spec.actor_id, "died", "a simulated failure"), spent_s)
            return
        totals.training_s += seconds
        actor.state = state
        actor.position += 1
        actor.counters.complete(result, actor.info.trial_id, seconds, self.clock.now_s + seconds)
        self._enqueue(actor, CallReturned(actor.spec.actor_id, Report(result)), seconds)

    def _save(self, actor: _SimulatedActor) -> CheckpointRecord:
        record = CheckpointRecord(actor.next_checkpoint, file_count=0, total_bytes=0, names_crc=0)
        actor.next_checkpoint += 1
        self.totals.checkpoints += 1
        path = os.path.join(actor.info.directory, record.directory)
        # A copy, because the curve may change its state in place in the next step.
        self._saved[path] = _Saved(actor.position, copy.deepcopy(actor.state))
        return record

    def _restore(self, actor: _SimulatedActor, path: str, metrics: Mapping[str, Any]) -> Event:
        saved = self._saved.get(path)
        if saved is None:
            missing = FileNotFoundError(f"the checkpoint {path} does not exist any more")
            return CallRaised(actor.spec.actor_id, RemoteError.of(missing))
        actor.steps = None  # the curve is opened again, for another member of a population with its new configuration
        actor.position = saved.position
        # A copy again: several trials may start from one checkpoint.
        actor.state = copy.deepcopy(saved.state)
        actor.counters.restore(metrics)
        return CallReturned(actor.spec.actor_id, None)


def _checked(step: Any) -> tuple[Mapping[str, Any], float, Any]:
    if not isinstance(step, (tuple, list)) or len(step) not in (2, 3) or not isinstance(step[0], Mapping):
        raise TypeError(
            f"a curve must yield (metrics, seconds) or (metrics, seconds, state), but yielded {step!r:.200}"
        )
    seconds = step[1]
    if type(seconds) is not float and not is_real(seconds):
        raise TypeError(f"a curve must yield (metrics, seconds), but yielded {seconds!r:.200} for the seconds")
    if not 0 <= seconds < math.inf:
        raise ValueError(f"expected 0 <= seconds < infinity for each step of a curve, but got {seconds!r}")
    metrics, _, state = (*step, None)[:3]
    return metrics, float(seconds), state
