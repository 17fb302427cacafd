"""A worker behind a relay, and the events for the driver when the relay dies."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest
from actor_samples import counter
from kit import BOUND_S

from minitune.actor.loop import Loop
from minitune.actor.messages import Boot, CallReturned, Event, Exited, NotReset, Place, Started
from minitune.actor.process import ActorProcess
from minitune.actor.relay import Greeting, Link, RelayLauncher, RelayListener
from minitune.base.files import search_path
from minitune.base.pickling import dumps

SERVE = """
import ast, sys
from minitune.actor.relay import Greeting, serve
serve(Greeting("one", "far", {}), *ast.literal_eval(sys.argv[1]))
"""


class Driver:
    """A driver with one relay and one worker behind it."""

    def __init__(self) -> None:
        self.loop = Loop()
        self.told: list[Event | NotReset] = []
        self.freed: list[RelayLauncher] = []
        self.launcher = RelayLauncher(self.loop, self.freed.append)
        self.listener = RelayListener(self.loop, "127.0.0.1", self._attach)
        self.processes: set[ActorProcess] = set()
        self.process = self.new_process()
        self.boot = Boot(Place(), dumps(counter, "the factory"), search_path(), tuple(sys.argv))

    def new_process(self) -> ActorProcess:
        return ActorProcess(self.loop, self.launcher, self.told.append, self.processes, self.launcher)

    def _attach(self, greeting: Greeting, link: Link) -> bool:
        if greeting.name == "one":
            self.launcher.attach(greeting, link)
        return greeting.name == "one"

    def until(self, condition: object) -> None:
        until_s = self.loop.time() + BOUND_S
        while not condition():  # type: ignore[operator]
            assert self.loop.time() < until_s
            self.loop.turn(until_s - self.loop.time())

    def next(self) -> Event | NotReset:
        self.until(lambda: self.told)
        return self.told.pop(0)

    def serve(self, secret: str) -> subprocess.Popen[bytes]:
        arguments = (self.listener.address, secret, False, (), search_path())
        return subprocess.Popen([sys.executable, "-c", SERVE, repr(arguments)])


@pytest.fixture
def driver() -> Iterator[Driver]:
    made = Driver()
    yield made
    made.launcher.close()
    made.listener.close()
    made.loop.close()


_loaded: list[int] = []


def _load() -> None:
    _loaded.append(os.getpid())


def _who_loaded() -> list[int]:
    return _loaded


@pytest.fixture
def relay(driver: Driver) -> Iterator[subprocess.Popen[bytes]]:
    driver.launcher.preload(dumps(_load, "the action"))
    relay = driver.serve(driver.listener.secret)
    driver.until(lambda: driver.launcher.greeting)
    driver.process.start(Started("a", 0, "far", None), driver.boot)
    assert isinstance(driver.next(), Started)
    yield relay
    driver.launcher.leave()
    relay.wait(BOUND_S)


def test_calls_pass_and_the_exit_is_exact(driver: Driver, relay: subprocess.Popen[bytes]) -> None:
    for total in (7, 14):
        driver.process.call("add", dumps((7,), "an argument"))
        assert driver.next() == CallReturned("a", total)
    os.kill(driver.process.pid, signal.SIGKILL)

    event = driver.next()
    assert isinstance(event, Exited)
    assert (event.kind, event.exit_code, event.counts) == ("died", -9, True)
    assert driver.freed == [driver.launcher]


@pytest.mark.skipif(sys.platform != "linux", reason="workers are forked on Linux only")
def test_a_preload_is_done_where_workers_of_the_relay_are_forked(
    driver: Driver, relay: subprocess.Popen[bytes]
) -> None:
    driver.process.call("call", dumps((_who_loaded,), "an argument"))
    event = driver.next()
    assert isinstance(event, CallReturned)
    (loader,) = event.value
    assert loader not in (os.getpid(), driver.process.pid)


def test_the_death_of_the_relay_is_no_fault_of_the_worker(driver: Driver, relay: subprocess.Popen[bytes]) -> None:
    pid = driver.process.pid
    relay.kill()

    event = driver.next()
    assert isinstance(event, Exited)
    assert (event.kind, event.exit_code, event.counts) == ("lost", None, False)
    assert "the relay on far is gone" in event.cause
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)

    driver.new_process().start(Started("b", 0, "far", None), driver.boot)  # too late
    event = driver.next()
    assert isinstance(event, Exited)
    assert (event.actor_id, event.kind, event.counts) == ("b", "refused", False)
    assert "the relay on far is gone" in event.cause


def test_a_stranger_is_turned_away(driver: Driver) -> None:
    stranger = driver.serve("0" * 64)
    until_s = driver.loop.time() + BOUND_S
    try:
        while stranger.poll() is None and driver.launcher.greeting is None:
            assert driver.loop.time() < until_s
            driver.loop.turn(0.05)
    finally:
        stranger.kill()
        stranger.wait()
    assert driver.launcher.greeting is None
