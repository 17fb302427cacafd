"""The channel for Windows, tested on any system: threads of the driver block on a connection."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from actor_driver import Driver, Group
from actor_samples import Family, Sleeper
from kit import BOUND_S, marked_processes, read_pids

from minitune.actor.messages import Exited


@pytest.fixture
def pump(storage_of_its_own: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[Driver]:
    monkeypatch.setenv("MINITUNE_START_METHOD", "interpreter")
    monkeypatch.setenv("MINITUNE_CHANNEL", "pump")
    with Group() as group:
        yield Driver(group)
    assert marked_processes(group.run_id) == []


def test_calls_and_stop(pump: Driver) -> None:
    pump.start("a")
    pump.start("b")
    pump.group.call("a", "add", 1)
    pump.group.call("b", "fail", "what now")
    assert pump.next("a").value == 1
    assert pump.next("b").error.message == "what now"
    assert pump.stop("a").cause == "stopped"
    pump.group.stop("b", BOUND_S, keep=True)
    assert pump.next("b") == Exited("b", "parked")


def test_large_messages_cross_in_both_directions(pump: Driver) -> None:
    pump.start("a")
    data = os.urandom(8_000_000)
    assert pump.call("a", "echo", data) == data


def test_a_frozen_worker_does_not_delay_the_others(pump: Driver) -> None:
    frozen = pump.start("frozen")
    pump.start("other")
    pump.group.call("frozen", "call", bytes, 30_000_000)
    os.kill(frozen, signal.SIGSTOP)
    pump.group.stop("frozen", 1000.0)
    assert pump.call("other", "add", 1) == 1
    pump.group.kill("frozen")
    assert pump.ended("frozen").exit_code == -9


def test_killed_with_descendants(pump: Driver, tmp_path: Path) -> None:
    pid = pump.start("a", partial(Family, str(tmp_path / "pids")))
    count = pump.call("a", "start_all")
    read_pids(tmp_path / "pids", count)
    os.kill(pid, signal.SIGKILL)
    assert pump.ended("a").cause == "SIGKILL (9)"


def test_a_worker_that_ignores_the_stop_is_killed(pump: Driver, tmp_path: Path) -> None:
    pump.start("a", partial(Sleeper, str(tmp_path / "pids")))
    pump.group.call("a", "ignore_everything")
    read_pids(tmp_path / "pids", 1)
    assert pump.stop("a", grace_s=0.05).exit_code == -9


def test_the_channel_closed_by_the_code_that_runs(pump: Driver) -> None:
    pump.start("a")
    pump.group.call("a", "close_descriptors")
    assert pump.ended("a").cause == "control channel closed by the trial's code"
