"""OrderedExecutor: the events of another executor, in an order that depends only on the calls.

Real workers answer at different times in each run, so a searcher that learns from the answers would decide differently.
Here, each call gets a position in *logical time*: a step of a trial takes one unit, all other calls take none. Events
that are due at the same time come in the order of their calls. An early answer waits for its turn, and the executor
waits for a late one. So a trial may have to wait for the slowest one with the same number of reports.

The death of a worker is the answer to its call; a stopped worker exits at the time of the stop. One that is stopped
because of a time limit exits when its answer was due. A timeout and `wake` are passed on at once.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from minitune.base.shared_values import Handle
from minitune.base.text import warn_once
from minitune.error import TuneError
from minitune.executors.admission import Admission, idle
from minitune.executors.ledger import Ledger
from minitune.executors.trial_executor import TRAIN, ActorSpec, Event, Exited, Placed, TrialExecutor
from minitune.resources import GPU, Resources, amount_text


@dataclass(eq=False)
class _OrderedActor:
    """The state of an actor from the caller's view.

    Attributes:
        due: The logical time and the number of the call in flight, or of the exit; None without one.
        end: The `Exited` event, if it arrives before the caller has taken the last answer.
    """

    actor_id: str
    due: tuple[int, int] | None = None
    answer: Event | None = None
    end: Exited | None = None

    @property
    def is_busy(self) -> bool:
        """Whether it has a call in flight."""
        return self.due is not None


class OrderedExecutor(Admission[_OrderedActor, None]):
    """Puts the events of another executor into logical order; an actor holds its resources until the caller has
    received its exit. So the trials that can start depend on the requests and the machine's totals, not on the speed of
    workers.

    Args:
        window: How many actors run at the same time, on every machine.
    """

    only_events_count = True

    def __init__(self, executor: TrialExecutor, window: int):
        super().__init__(_ledger_like(executor))
        self.clock = executor.clock
        self.isolates = executor.isolates
        self.has_queue = executor.has_queue
        self._executor = executor
        self._window = window
        self._queue: list[tuple[int, int, _OrderedActor]] = []  # outdated positions are skipped
        self._placed: list[Event] = []
        self._numbers = itertools.count()
        self._time = 0

    # -- resources and values ----------------------------------------------------------------------------------------

    def resources(self) -> tuple[Mapping[str, float], Mapping[str, float]]:
        return self._executor.resources()[0], self._ledger.free()

    def can_start(self, request: Resources, waiter: str | None = None) -> bool:
        """Warns once if the machine allows fewer actors than the window."""
        # The other executor has at least as much room, unless processes that cannot be killed use some of it, or a node
        # is lost. Then the waiter may wait in its queue.
        other_waiter = waiter if self.has_queue else None
        has_room_there = self._executor.can_start(request, other_waiter)
        # In any case: a waiter that is refused here is owed resources if others overtake it too often.
        has_room = self._ledger.can_acquire(request, waiter) and has_room_there
        if not has_room and len(self._actors) < self._window:
            warn_once(
                f"deterministic=True: with {len(self._actors)} trials running there is no room for one more, although "
                f"max_concurrent_trials={self._window} would allow it; so this run is the same only where the totals "
                f"are {_text(self._ledger.totals())}",
                "deterministic=True limited by the machine",
            )
        return has_room

    def forget(self, waiter: str) -> None:
        super().forget(waiter)
        self._executor.forget(waiter)

    def share(self, value: Any) -> Handle:
        """See `TrialExecutor.share`."""
        return self._executor.share(value)

    def wake(self) -> None:
        """See `TrialExecutor.wake`."""
        self._executor.wake()

    def check_room(self, request: Resources) -> None:
        """See `TrialExecutor.check_room`: there must be room for a whole window of actors."""
        self._executor.can_start(request)
        ledger = _ledger_like(self._executor)
        for found in range(self._window):
            if not ledger.can_acquire(request):
                needed = request.required_resources
                all_there = ledger.totals()
                totals = {name: all_there.get(name, 0) for name in needed}
                way_out = "set the totals with init(num_cpus=...) or MINITUNE_NUM_CPUS"
                if self.has_queue:
                    way_out = "add nodes to the cluster"
                raise TuneError(
                    f"deterministic=True runs max_concurrent_trials={self._window} trials side by side "
                    f"everywhere, but there is room for {found} here: a trial needs {_text(needed)}, the totals are "
                    f"{_text(totals)}. Lower max_concurrent_trials (each number is repeatable, but gives another run), "
                    f"let trials ask for less, or {way_out}"
                )
            ledger.acquire(str(found), request)

    # -- actors ------------------------------------------------------------------------------------------------------

    def start(self, spec: ActorSpec) -> None:
        """See `TrialExecutor.start`."""
        actor_id = spec.actor_id
        # Its own ledger decides, and it depends on the order of events only. The other executor's has at least as much.
        self._ledger.acquire(actor_id, spec.request)
        try:
            started = self._executor.start(spec)
        except BaseException:
            self._ledger.release(actor_id)
            raise
        actor = _OrderedActor(actor_id, answer=started)
        self._actors[actor_id] = actor
        self._expect(actor)

    def call(self, actor_id: str, method: str, *args: Any) -> None:
        """See `TrialExecutor.call`."""
        actor = idle(self._actors, actor_id)
        if actor.end is None:
            self._executor.call(actor_id, method, *args)
        else:  # it has died; for the caller, this happens during this call
            actor.answer = actor.end
        self._expect(actor, after=method == TRAIN)  # each report takes one unit of logical time

    def stop(self, actor_id: str, grace_s: float, keep: bool = False, dump: bool = False) -> None:
        """See `TrialExecutor.stop`. With `dump` (a time limit), the exit is due when the answer was due."""
        actor = self._actors.get(actor_id)
        if actor is None:
            return
        if actor.end is None:
            actor.end = self._executor.stop(actor_id, grace_s, keep, dump)
        actor.answer = actor.end
        if not dump or actor.due is None:
            self._expect(actor)

    def wait(self, timeout_s: float | None) -> list[Event]:
        """See `TrialExecutor.wait`. Returns at most one event, after those that concern only time limits."""
        end_s = math.inf
        if timeout_s is not None:
            end_s = self.clock.monotonic() + timeout_s
        while (event := self._take_due()) is None:
            if timeout_s is not None:
                timeout_s = max(0.0, end_s - self.clock.monotonic())
            arrived = self._executor.wait(timeout_s)
            if not arrived:
                return []
            for one in arrived:
                self._keep(one)
        placed = list(self._placed)
        self._placed.clear()
        return [*placed, event]

    def shutdown(self, grace_s: float = 0.0) -> None:
        """See `TrialExecutor.shutdown`."""
        self._executor.shutdown(grace_s)
        for actor_id in self._actors:
            self._ledger.release(actor_id)
        self._actors.clear()
        self._queue.clear()

    def is_late(self, actor_id: str) -> bool:
        """See `TrialExecutor.is_late`."""
        actor = self._actors.get(actor_id)
        return actor is not None and actor.answer is not None

    # -- order -------------------------------------------------------------------------------------------------------

    def _expect(self, actor: _OrderedActor, after: int = 0) -> None:
        actor.due = (self._time + after, next(self._numbers))
        heapq.heappush(self._queue, (*actor.due, actor))

    def _keep(self, event: Event) -> None:
        """Store an event; if an actor has died after it answered, its end comes after the answer."""
        if isinstance(event, Placed):  # it concerns only time limits, so it needs no position
            self._placed.append(event)
            return
        actor = self._actors.get(event.actor_id)
        if actor is None:
            return
        if isinstance(event, Exited):
            actor.end = event
        if actor.answer is None:
            actor.answer = event
            if actor.due is None:
                self._expect(actor)

    def _take_due(self) -> Event | None:
        # A stop gives an actor another position, and a heap cannot move entries: the old one is skipped here.
        while self._queue and self._queue[0][2].due != self._queue[0][:2]:
            heapq.heappop(self._queue)
        if not self._queue or self._queue[0][2].answer is None:
            return None
        self._time, _, actor = heapq.heappop(self._queue)
        event = actor.answer
        actor.answer = None
        actor.due = None
        # Not when the exit arrives: the free resources must follow from the order of events, not from a worker's speed.
        if isinstance(event, Exited):
            del self._actors[actor.actor_id]
            self._ledger.release(actor.actor_id)
        return event


def _ledger_like(executor: TrialExecutor) -> Ledger:
    totals = executor.resources()[0]
    return Ledger(totals, [str(number) for number in range(int(totals.get(GPU, 0)))])


def _text(amounts: Mapping[str, float]) -> str:
    return "{" + ", ".join(f"{name}: {amount_text(name, amount)}" for name, amount in amounts.items()) + "}"
