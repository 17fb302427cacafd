"""Actors whose report is known: what they answer, and that no other actor waits because of them."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from typing import Any

import pytest

from minitune.error import TuneError
from minitune.executors.devices import Machine
from minitune.executors.inline import InlineTrialExecutor
from minitune.executors.known_reports import KnownReports
from minitune.executors.trial_executor import ActorSpec, CallReturned, Exited, Started
from minitune.resources import Resources
from minitune.result import Report

KNOWN = Report({"loss": 1}, done=True)
ONE_CPU = Resources([{"CPU": 1}])
TWO_CPUS = Resources([{"CPU": 2}])


class Trainer:
    def __init__(self, host: Any, allocation: Any):
        pass

    def train(self) -> str:
        return "trained"


def spec(actor_id: str, request: Resources = ONE_CPU) -> ActorSpec:
    return ActorSpec(actor_id, Trainer, request)


@pytest.fixture
def executor() -> Iterator[KnownReports]:
    """The report of each actor is known whose id begins with `known`. There are two CPUs."""

    def find(spec: ActorSpec) -> Report | None:
        return KNOWN if spec.actor_id.startswith("known") else None

    executor = KnownReports(InlineTrialExecutor(Machine({"CPU": 2.0}, ())), find, is_ordered=False)
    yield executor
    executor.shutdown()


def test_a_known_actor_answers_without_training(executor: KnownReports) -> None:
    assert isinstance(executor.start(spec("known#1")), Started)
    executor.call("known#1", "restore", "a checkpoint", {})
    assert executor.wait(None) == [CallReturned("known#1", None)]
    executor.call("known#1", "train")
    assert executor.wait(None) == [CallReturned("known#1", KNOWN)]
    assert isinstance(executor.stop("known#1", 0.0), Exited)
    assert executor.stop("known#1", 0.0) is None
    assert executor.wait(0) == []


def test_only_the_exit_follows_a_stop(executor: KnownReports) -> None:
    executor.start(spec("known#1"))
    executor.call("known#1", "train")
    assert isinstance(executor.stop("known#1", 0.0), Exited)
    assert executor.wait(0) == []


def test_a_known_actor_takes_nothing_from_the_others(executor: KnownReports) -> None:
    executor.start(spec("known#1", TWO_CPUS))
    assert executor.can_start(TWO_CPUS)


def test_the_others_are_heard_although_there_are_always_known_actors(executor: KnownReports) -> None:
    executor.start(spec("other#1"))
    heard: list[Any] = []
    for number in range(3):
        executor.start(spec(f"known#{number}"))
        executor.call(f"known#{number}", "train")
        heard += executor.wait(None)
        executor.stop(f"known#{number}", 0.0)
    assert "other#1" in {event.actor_id for event in heard}


def test_no_resources_are_kept_for_a_known_actor_that_has_waited(executor: KnownReports) -> None:
    executor.start(spec("other#1"))
    assert not executor.can_start(TWO_CPUS, waiter="known")
    number = 0
    while executor.can_start(ONE_CPU, waiter="small"):  # until it was overtaken so often that resources are reserved
        actor_id = f"small#{number}"
        executor.start(spec(actor_id))
        executor.stop(actor_id, 0.0)
        while not any(isinstance(event, Exited) for event in executor.wait(None)):
            pass
        number += 1
    executor.start(spec("known#1", TWO_CPUS))
    assert executor.can_start(ONE_CPU, waiter="small")


def test_so_many_known_actors_fit_at_the_same_time(executor: KnownReports) -> None:
    """Otherwise one turn of the driver would start all of them."""
    number = 0
    while executor.can_start(ONE_CPU):
        executor.start(spec(f"known#{number}"))
        number += 1
    assert 1 < number < 1_000
    executor.stop("known#0", 0.0)
    assert executor.can_start(ONE_CPU)


@pytest.mark.parametrize("is_ordered", [True, False])
def test_in_a_fixed_order_known_answers_come_alone(is_ordered: bool) -> None:
    inner = InlineTrialExecutor(Machine({"CPU": 2.0}, ()))
    executor = KnownReports(
        inner, lambda spec: KNOWN if spec.actor_id.startswith("known") else None, is_ordered=is_ordered
    )
    executor.start(spec("other#1"))
    executor.start(spec("known#1"))
    executor.call("known#1", "train")
    first = [event.actor_id for event in executor.wait(None)]
    assert first == (["known#1"] if is_ordered else ["known#1", "other#1"])
    if is_ordered:
        assert [event.actor_id for event in executor.wait(None)] == ["other#1"]
    executor.shutdown()


def test_a_known_actor_starts_in_this_process_without_resources(executor: KnownReports) -> None:
    started = executor.start(spec("known#1", TWO_CPUS))
    assert started is not None
    assert (started.pid, started.host, started.reused) == (os.getpid(), socket.gethostname(), False)
    assert executor.resources() == ({"CPU": 2.0}, {"CPU": 2.0})
    exited = executor.stop("known#1", 0.0)
    assert exited is not None
    assert (exited.kind, exited.cause, exited.exit_code) == ("stopped", "stopped", 0)


def test_what_can_never_start_is_refused_although_it_may_be_known(executor: KnownReports) -> None:
    with pytest.raises(TuneError, match="can never be met"):
        executor.can_start(Resources([{"CPU": 3}]))


def test_after_a_shutdown_nothing_is_known(executor: KnownReports) -> None:
    executor.start(spec("known#1"))
    executor.call("known#1", "train")
    executor.shutdown()
    assert executor.wait(0) == []
    assert executor.stop("known#1", 0.0) is None
