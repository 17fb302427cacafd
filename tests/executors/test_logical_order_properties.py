"""The driver sees answers in the same order, in whatever order they arrive."""

import random
from collections import deque

from hypothesis import given, settings
from hypothesis import strategies as st

from minitune.base.clock import VirtualClock
from minitune.executors.logical_order import OrderedExecutor
from minitune.executors.trial_executor import ActorSpec, CallReturned, Exited, Started
from minitune.resources import Allocation, Resources

ONE_CPU = Resources.of({"cpu": 1})
SLOTS, ACTORS = 3, 8


class Racing:
    """An executor whose actors answer in a random order, and die according to a plan.

    Args:
        arrivals: Draws the order.
        deaths: By actor, after how many calls it dies: before the answer if negative, else right after it.
    """

    isolates = True
    has_queue = False

    def __init__(self, arrivals, deaths):
        self.clock = VirtualClock()
        self._arrivals = arrivals
        self._deaths = deaths
        self._calls = {}
        self._coming = {}

    def resources(self):
        return {"CPU": 2 * SLOTS}, {}

    def can_start(self, request, waiter=None):
        return True

    def start(self, spec):
        actor_id = spec.actor_id
        self._calls[actor_id] = 0
        self._coming[actor_id] = deque([Started(actor_id, 1, "", Allocation(()))])

    def call(self, actor_id, method, *args):
        self._calls[actor_id] += 1
        number, death = self._calls[actor_id], self._deaths.get(actor_id)
        if death != -number:
            self._coming[actor_id].append(CallReturned(actor_id, (method, number)))
        if death is not None and abs(death) == number:
            self._coming[actor_id].append(Exited(actor_id, "died"))

    def stop(self, actor_id, grace_s, keep=False, dump=False):
        if actor_id in self._coming:
            self._coming[actor_id] = deque([Exited(actor_id, "stopped")])

    def wait(self, timeout_s):
        ready = sorted(actor_id for actor_id, events in self._coming.items() if events)
        if timeout_s == 0 or not ready:
            return []
        found = []
        for actor_id in self._arrivals.sample(ready, self._arrivals.randint(1, len(ready))):
            event = self._coming[actor_id].popleft()
            found.append(event)
            if isinstance(event, Exited):
                del self._coming[actor_id]
        return found


def drive(arrivals, deaths, policy):
    """Drive actors by a policy that sees only events; returns these events, without the causes of ends."""
    executor = OrderedExecutor(Racing(arrivals, deaths), SLOTS)
    seen = []
    live = {}
    started = running = 0
    while started < ACTORS or running:
        while started < ACTORS and running < SLOTS and executor.can_start(ONE_CPU):
            executor.start(ActorSpec(f"a{started}", object, ONE_CPU))
            live[f"a{started}"] = None
            started, running = started + 1, running + 1
        for event in executor.wait(0 if arrivals.random() < 0.2 else None):  # a clock that strikes between
            seen.append((event.actor_id, type(event).__name__ + str(getattr(event, "value", ""))))
            if isinstance(event, Exited):
                live.pop(event.actor_id, None)
                running -= 1
            elif event.actor_id in live:
                act(executor, event.actor_id, live, policy)
    return seen


def act(executor, actor_id, live, policy):
    """Call or stop the actor that has answered; perhaps stop another one."""
    if len(live) > 1 and policy.random() < 0.15:
        other = policy.choice([one for one in live if one != actor_id])
        executor.stop(other, 1.0, dump=policy.random() < 0.3)
        del live[other]
    if policy.random() < 0.2:
        executor.stop(actor_id, 1.0)
        del live[actor_id]
    else:
        executor.call(actor_id, policy.choice(["train", "train", "save"]))


@given(
    races=st.tuples(st.integers(0, 2**32), st.integers(0, 2**32)),
    policy=st.integers(0, 2**32),
    deaths=st.dictionaries(
        st.sampled_from([f"a{number}" for number in range(ACTORS)]), st.integers(-4, 4).filter(bool), max_size=4
    ),
)
@settings(max_examples=150)
def test_events_have_one_order_however_the_processes_race(races, policy, deaths):
    one, other = (drive(random.Random(race), deaths, random.Random(policy)) for race in races)
    assert one == other
    for number in range(ACTORS):  # a start, answers, one end, and nothing after that
        events = [what for who, what in one if who == f"a{number}"]
        assert events.count("Exited") == 1
        assert events[-1] == "Exited"
