"""The executor that follows learning curves: its clock, its events, its counters and its checkpoints."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from minitune.error import TuneError
from minitune.executors.devices import Machine
from minitune.executors.simulated import Costs, SimulatedExecutor
from minitune.executors.trial_executor import ActorSpec, CallRaised, CallReturned, Event, Exited, Started
from minitune.experiment.trial_info import TrialInfo
from minitune.resources import Resources

ONE_CPU = Resources([{"CPU": 1}])


def summing(config: dict[str, Any], state: Any, position: int) -> Iterator[Any]:
    """Each step takes two seconds and adds its number to a list, which is the state."""
    numbers = state if state is not None else []
    for n in range(position, config["steps"]):
        numbers.append(n)
        yield {"n": n, "sum": sum(numbers), **config.get("own", {})}, 2.0, numbers


class Simulated:
    """An executor, and the waiting that tests do with it."""

    def __init__(self, open_curve: Any = summing, cpus: float = 2, **costs: Any):
        self.executor = SimulatedExecutor(Machine({"CPU": cpus}, ()), open_curve, Costs(**costs))

    def start(self, name: str, reuse_key: str | None = None, **config: Any) -> Event:
        info = TrialInfo(name, name, f"/run/{name}", "run", 1, {"steps": 5, **config}, next_checkpoint=3)
        spec = ActorSpec(f"{name}#1", object, ONE_CPU, reuse_key=reuse_key, args=(info.fields(),))
        self.executor.start(spec)
        return self.next()

    def next(self, timeout_s: float | None = None) -> Event:
        [event] = self.executor.wait(timeout_s)
        return event

    def call(self, name: str, method: str, *args: Any) -> Any:
        self.executor.call(f"{name}#1", method, *args)
        return self.next()

    def train(self, name: str) -> dict[str, Any]:
        event = self.call(name, "train")
        assert isinstance(event, CallReturned), event
        assert event.value.metrics is not None
        return event.value.metrics

    @property
    def now_s(self) -> float:
        return self.executor.clock.monotonic()


def test_a_step_takes_its_time_and_its_result_has_the_usual_keys() -> None:
    simulated = Simulated(start_delay_s=10.0)
    started = simulated.start("a")
    assert isinstance(started, Started)
    assert (started.reused, simulated.now_s) == (False, 10.0)
    simulated.train("a")
    result = simulated.train("a")
    assert simulated.now_s == 14.0
    assert result == {
        "n": 1,
        "sum": 1,
        "done": False,
        "training_iteration": 2,
        "trial_id": "a",
        "timestamp": 14,
        "time_this_iter_s": 2.0,
        "time_total_s": 4.0,
        "time_since_restore": 4.0,
        "iterations_since_restore": 2,
    }
    totals = simulated.executor.totals
    assert (totals.steps, totals.training_s, totals.checkpoints, totals.failures) == (2, 4.0, 0, 0)


def test_a_curve_may_give_some_keys_itself() -> None:
    own = {"done": True, "training_iteration": 7, "timestamp": 1, "time_this_iter_s": 0.5}
    simulated = Simulated()
    simulated.start("a", own={**own, "time_total_s": 9, "trial_id": "mine", "config": {"x": 1}})
    result = simulated.train("a")
    assert {key: result[key] for key in own} == own
    assert (result["time_total_s"], result["trial_id"], "config" in result) == (2.0, "a", False)


def test_a_curve_that_has_ended_is_done_at_once() -> None:
    simulated = Simulated()
    simulated.start("a", steps=1)
    simulated.train("a")
    event = simulated.call("a", "train")
    assert (event.value.metrics, event.value.done, simulated.now_s) == (None, True, 2.0)


def test_a_trial_goes_on_from_its_checkpoint_as_often_as_one_likes() -> None:
    simulated = Simulated(checkpoint_cost_s=1.0)
    simulated.start("a")
    last = [simulated.train("a") for _ in range(2)][-1]
    record = simulated.call("a", "save").value
    assert (record.number, record.directory, record.total_bytes, simulated.now_s) == (3, "checkpoint_000003", 0, 5.0)
    path = f"/run/a/{record.directory}"
    simulated.train("a")
    for name in ("b", "a"):
        if name == "b":
            simulated.start("b")
        assert simulated.call(name, "restore", path, last) == CallReturned(f"{name}#1", None)
        result = simulated.train(name)
        assert (result["n"], result["sum"]) == (2, 3), "the state is that of the checkpoint"
        assert (result["training_iteration"], result["time_total_s"]) == (3, 6.0)
        assert (result["iterations_since_restore"], result["time_since_restore"]) == (1, 2.0)
    assert simulated.call("a", "save").value.number == 4
    assert simulated.executor.totals.checkpoints == 2


def test_a_restore_begins_the_curve_again_with_the_present_configuration() -> None:
    simulated = Simulated()
    simulated.start("a", own={"from": "a"})
    last = simulated.train("a")
    record = simulated.call("a", "save").value
    simulated.start("b", own={"from": "b"})
    simulated.train("b")
    simulated.call("b", "restore", f"/run/a/{record.directory}", last)
    assert (simulated.train("b")["from"], simulated.train("a")["from"]) == ("b", "a")


def test_a_checkpoint_that_was_dropped_cannot_be_loaded() -> None:
    simulated = Simulated()
    simulated.start("a")
    record = simulated.call("a", "save").value
    simulated.executor.drop_checkpoint("/run/a", 2)
    simulated.executor.drop_checkpoint("/run/a", record.number)
    event = simulated.call("a", "restore", f"/run/a/{record.directory}", {})
    assert isinstance(event, CallRaised)
    assert event.error.type_name == "FileNotFoundError"
    assert "/run/a/checkpoint_000003 does not exist any more" in event.error.message


def test_events_come_in_the_order_of_their_times_then_of_their_calls() -> None:
    def timed(config: dict[str, Any], state: Any, position: int) -> Iterator[Any]:
        yield {"x": 1}, config["s"]

    simulated = Simulated(timed, cpus=4)
    for name, s in (("a", 3.0), ("b", 1.0), ("c", 3.0), ("d", 1)):
        simulated.start(name, s=s)
    for name in "dcba":
        simulated.executor.call(f"{name}#1", "train")
    order = []
    for _ in range(4):
        order.append((simulated.next().actor_id[0], simulated.now_s))
    assert order == [("d", 1.0), ("b", 1.0), ("c", 3.0), ("a", 3.0)]


def test_a_wait_lets_no_more_time_pass_than_its_timeout() -> None:
    simulated = Simulated()
    simulated.start("a")
    simulated.executor.call("a#1", "train")
    assert simulated.executor.wait(0) == []
    assert (simulated.executor.wait(1.5), simulated.now_s) == ([], 1.5)
    assert isinstance(simulated.next(0.5), CallReturned)
    assert simulated.now_s == 2.0
    assert (simulated.executor.wait(3.0), simulated.now_s) == ([], 5.0)
    assert simulated.executor.wait(0) == []
    with pytest.raises(TuneError, match="cannot continue: no trial runs"):
        simulated.executor.wait(None)


def test_a_wake_ends_one_wait() -> None:
    simulated = Simulated()
    simulated.start("a")
    simulated.executor.call("a#1", "train")
    simulated.executor.wake()
    assert simulated.executor.wait(None) == []
    assert isinstance(simulated.next(), CallReturned)


def test_only_the_exit_follows_a_stop_and_takes_no_time() -> None:
    simulated = Simulated()
    simulated.start("a")
    simulated.start("b")
    for name in ("a#1", "b#1"):
        simulated.executor.call(name, "train")
    simulated.executor.stop("a#1", 10.0)
    simulated.executor.stop("never there", 10.0)
    assert simulated.executor.resources()[1]["CPU"] == 0
    event = simulated.next()
    assert (event, simulated.now_s) == (Exited("a#1", "stopped", "stopped"), 0.0)
    assert simulated.executor.resources()[1]["CPU"] == 1
    assert simulated.next().actor_id == "b#1"
    simulated.executor.stop("b#1", 10.0)
    simulated.next()
    assert simulated.executor.totals.worker_s == 2.0
    assert simulated.executor.wait(0) == []


def test_a_worker_that_is_used_again_starts_at_once() -> None:
    simulated = Simulated(start_delay_s=10.0)
    for number, (key, keep, kind, reused) in enumerate(
        [
            ("key", True, "parked", False),
            ("key", False, "stopped", True),
            ("key", True, "parked", False),
            (None, True, "stopped", False),
            ("other", True, "parked", False),
        ]
    ):
        before_s = simulated.now_s
        started = simulated.start(f"t{number}", reuse_key=key)
        assert isinstance(started, Started)
        assert (started.reused, simulated.now_s - before_s) == (reused, 0.0 if reused else 10.0)
        simulated.executor.stop(f"t{number}#1", 0.0, keep=keep)
        event = simulated.next()
        assert isinstance(event, Exited)
        assert event.kind == kind


def test_calls_keep_turns() -> None:
    simulated = Simulated()
    simulated.start("a")
    simulated.executor.call("a#1", "train")
    with pytest.raises(RuntimeError, match="'a#1' has a call in flight"):
        simulated.executor.call("a#1", "train")
    simulated.next()
    with pytest.raises(RuntimeError, match="a simulated trial has no method 'fit'"):
        simulated.executor.call("a#1", "fit")
    with pytest.raises(RuntimeError, match="'b#1' is not there"):
        simulated.executor.call("b#1", "train")


@pytest.mark.parametrize(
    ("step", "type_name", "text"),
    [
        (3, "TypeError", "must yield (metrics, seconds)"),
        ({"x": 1}, "TypeError", "must yield (metrics, seconds)"),
        ({1, 2}, "TypeError", "must yield (metrics, seconds)"),
        (({"x": 1},), "TypeError", "must yield (metrics, seconds)"),
        (({"x": 1}, 1, 2, 3), "TypeError", "must yield (metrics, seconds)"),
        ((1, {"x": 1}), "TypeError", "must yield (metrics, seconds)"),
        (({"x": 1}, "1"), "TypeError", "for the seconds"),
        (({"x": 1}, True), "TypeError", "for the seconds"),
        (({"x": 1}, -0.1), "ValueError", "0 <= seconds < infinity"),
        (({"x": 1}, float("inf")), "ValueError", "0 <= seconds < infinity"),
        (({"x": 1}, float("nan")), "ValueError", "0 <= seconds < infinity"),
    ],
)
def test_a_step_of_another_form_is_the_trials_error(step: Any, type_name: str, text: str) -> None:
    simulated = Simulated(lambda config, state, position: iter([step]))
    simulated.start("a")
    event = simulated.call("a", "train")
    assert isinstance(event, CallRaised)
    assert event.error.type_name == type_name
    assert text in event.error.message
    assert (simulated.now_s, simulated.executor.totals.steps) == (0.0, 0)


@pytest.mark.parametrize("step", [({"x": 1}, 0), [{"x": 1}, 0.0], ({"x": 1}, 0, "state")])
def test_a_step_may_take_no_time(step: Any) -> None:
    simulated = Simulated(lambda config, state, position: iter([step]))
    simulated.start("a")
    assert simulated.train("a")["x"] == 1
    assert simulated.now_s == 0.0


def test_a_worker_dies_within_its_step_with_the_given_probability() -> None:
    simulated = Simulated(failure_rate=1.0)
    simulated.start("a")
    event = simulated.call("a", "train")
    assert isinstance(event, Exited)
    assert (event.kind, event.cause) == ("died", "a simulated failure")
    totals = simulated.executor.totals
    assert (totals.failures, totals.steps) == (1, 1)
    assert 0 < simulated.now_s == totals.training_s == totals.worker_s < 2.0
    assert simulated.executor.resources()[1]["CPU"] == 2
    with pytest.raises(RuntimeError, match="is not there"):
        simulated.executor.call("a#1", "train")


def test_failures_follow_from_the_seed_and_the_trial_alone() -> None:
    def deaths(seed: int, names: str) -> dict[str, float]:
        found = {}
        for name in names:
            simulated = Simulated(failure_rate=1.0, seed=seed)
            simulated.start(name)
            simulated.call(name, "train")
            found[name] = simulated.now_s
        return found

    assert deaths(1, "ab") == deaths(1, "ba")
    assert deaths(1, "a") != deaths(2, "a")
    assert len(set(deaths(1, "abc").values())) == 3


def test_a_shutdown_frees_everything() -> None:
    simulated = Simulated()
    simulated.start("a")
    simulated.start("b")
    simulated.executor.call("a#1", "train")
    simulated.executor.shutdown()
    assert simulated.executor.resources() == ({"CPU": 2.0}, {"CPU": 2.0})
    assert simulated.now_s == 0.0
