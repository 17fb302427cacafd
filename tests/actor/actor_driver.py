"""Drives actors for tests, in processes of the local executor. Every wait for an event has a bound."""

import os
import sys
import time
from contextlib import suppress
from functools import partial

import psutil
import pytest
from actor_samples import Counter, Hosted, counter
from kit import BOUND_S

from minitune.actor.launcher import start_method
from minitune.actor.messages import Boot, CallReturned, Exited, Started, Workplace
from minitune.actor.process import WorkerProcess
from minitune.base.pickling import dumps
from minitune.base.script import script_here
from minitune.executors import local
from minitune.executors.devices import Machine
from minitune.executors.local import LocalTrialExecutor
from minitune.executors.trial_executor import ActorSpec
from minitune.resources import Resources

however_it_started = pytest.mark.parametrize("start_method", [start_method()], indirect=True)
"""For tests of behaviour that all workers share: they run with the usual start method only."""
PYTHONPATH = os.pathsep.join(path for path in sys.path if path)
"""With this variable, a script can import what these tests can import."""

_ONE = Resources([{"CPU": 1}])


def zygote_pids():
    """The children of this process with a session of their own: not the one that starts scripts."""
    pids = []
    for child in psutil.Process().children():
        with suppress(ProcessLookupError):  # it has ended, reaped or not
            if os.getsid(child.pid) == child.pid:
                pids.append(child.pid)
    return pids


class Group(LocalTrialExecutor):
    """A local executor that starts an actor of any factory in any workplace."""

    def __init__(self, cpus=1000, **options):
        super().__init__(Machine({"CPU": cpus}, ()), directory=str, **options)

    def __enter__(self):
        return self

    def __exit__(self, *exc_info):
        self.shutdown()

    def start_in(self, actor_id, factory, workplace=None, preload=True):
        """Start `factory(host)`."""
        allocation = self._ledger.acquire(actor_id, _ONE)
        actor = self._actors[actor_id] = local.Actor(ActorSpec(actor_id, counter, _ONE, reuse_key="key"), allocation)
        workplace = workplace or Workplace()
        process = WorkerProcess(self._loop, self._launcher, self._processes, self._memory_kills)
        self._put_into(process, actor, workplace)
        data = factory if isinstance(factory, bytes) else dumps(factory, "the factory")
        boot = Boot(0, workplace, script_here(), True, payload=data)
        try:
            actor.remote.start(boot, preload)
        except ValueError:
            del self._actors[actor_id]
            raise

    def move(self, actor_id, workplace, timeout_s=BOUND_S):
        """Hand the only parked process on. Started is an event in any case."""
        [[parked]] = filter(None, self._parked.values())
        self._parked.clear()
        self._ledger.acquire(actor_id, _ONE)
        parked.spec = parked.spec._replace(actor_id=actor_id)
        self._actors[actor_id] = parked
        self._put_into(parked.remote.process, parked, workplace)
        started = parked.remote.take_over(dumps((None,), "an argument"), timeout_s)
        if started is not None:
            self._told.append(started)

    def kill(self, actor_id):
        self._actors[actor_id].remote.process.kill()

    def preload(self, action):
        self._launcher.preload(dumps(action, "the action"))

    def pids(self):
        """The process of each actor that has one."""
        pids = {actor_id: actor.remote.process.pid for actor_id, actor in self._actors.items()}
        return {actor_id: pid for actor_id, pid in pids.items() if pid}


class Driver:
    """A group, and the waiting that tests do with it."""

    def __init__(self, group):
        self.group = group
        self.events = []

    def start(self, actor_id, factory=Counter, **options):
        """Start a plain object's actor and wait until it is ready; returns its pid."""
        self.group.start_in(actor_id, partial(Hosted, factory=factory), **options)
        event = self.next(actor_id)
        assert isinstance(event, Started), event
        assert event.pid > 1  # tests send signals to it, and 0 would be this process and all its group
        return event.pid

    def next(self, actor_id):
        """Wait for the next event of an actor; those of others are kept."""
        until = time.monotonic() + BOUND_S
        while True:
            for event in self.events:
                if event.actor_id == actor_id:
                    self.events.remove(event)
                    return event
            left_s = until - time.monotonic()
            assert left_s > 0, f"no event of {actor_id!r} within {BOUND_S} s"
            self.events += self.group.wait(left_s)

    def call(self, actor_id, method, *args):
        """Call and wait for the value."""
        self.group.call(actor_id, method, *args)
        event = self.next(actor_id)
        assert isinstance(event, CallReturned), event
        return event.value

    def ended(self, actor_id):
        """Wait for the end, which must be the next event, and see that nothing follows."""
        event = self.next(actor_id)
        assert isinstance(event, Exited), event
        self.events += self.group.wait(0)
        assert not [e for e in self.events if e.actor_id == actor_id]
        return event

    def stop(self, actor_id, grace_s=BOUND_S):
        self.group.stop(actor_id, grace_s)
        return self.ended(actor_id)


class Leaps:
    """Sets the clock of the driver forward."""

    def __init__(self, monkeypatch, driver):
        self._driver = driver
        self._ahead_s = 0.0
        real = time.monotonic
        monkeypatch.setattr(time, "monotonic", lambda: real() + self._ahead_s)

    def by(self, seconds, parts=1):
        """Let so many seconds pass. After each part the driver looks at its limits."""
        for _ in range(parts):
            self._ahead_s += seconds / parts + 0.001
            self._driver.events += self._driver.group.wait(0)
