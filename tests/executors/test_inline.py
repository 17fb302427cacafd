"""The inline executor: virtual time, and the debugger. The contract tests what every executor does."""

import functools
import gc
import logging
import sys
import traceback
import weakref
from pathlib import Path

import pytest
from executor_contract import Account, Reusable, Watch, Worker
from kit import fit

import minitune
from minitune.base.clock import VirtualClock
from minitune.executors.devices import Machine
from minitune.executors.inline import InlineTrialExecutor
from minitune.executors.trial_executor import CallReturned
from minitune.resources import Resources

SCRIPTS = Path(__file__).with_name("scripts")

MACHINE = Machine({"CPU": 3.0}, ())


@pytest.fixture
def watch(bound_s):
    executor = InlineTrialExecutor(MACHINE, VirtualClock(100.0))
    yield Watch(executor, bound_s(10))
    executor.shutdown()


# -- virtual time ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("durations_s", "ends"),
    [
        ({"a#1": 5.0, "b#1": 1.0, "c#1": 3.0}, {"b#1": 101.0, "c#1": 103.0, "a#1": 105.0}),
        ({"c#1": 2.0, "a#1": 2.0, "b#1": 2.0}, {"c#1": 102.0, "a#1": 102.0, "b#1": 102.0}),
    ],
    ids=["one after the other", "at the same time"],
)
def test_calls_run_side_by_side_on_the_virtual_clock_and_end_in_their_order(watch, durations_s, ends):
    for name in durations_s:
        watch.start(name)
    for name, duration_s in durations_s.items():
        watch.executor.call(name, "spend", duration_s)

    events = []
    for _ in durations_s:
        events.append((watch.next(), watch.executor.clock.monotonic()))

    assert events == [(CallReturned(name, end_s), end_s) for name, end_s in ends.items()]


def test_a_call_begins_when_it_is_made(watch):
    watch.start("a#1")
    watch.start("b#1")
    watch.executor.call("a#1", "spend", 5.0)
    watch.executor.call("b#1", "spend", 2.0)
    assert watch.next() == CallReturned("b#1", 102.0)
    watch.executor.call("b#1", "spend", 2.0)
    assert watch.next() == CallReturned("b#1", 104.0)
    watch.executor.call("b#1", "spend", 2.0)

    assert watch.take(2) == [CallReturned("a#1", 105.0), CallReturned("b#1", 106.0)]


def test_an_actor_that_is_used_again_has_the_devices_of_its_new_start():
    executor = InlineTrialExecutor(Machine({"CPU": 3.0, "GPU": 2}, ("0", "1")), VirtualClock())
    watch = Watch(executor, 10)
    one_gpu = Resources([{"GPU": 1}])

    def start(name):
        return watch.start(name, Reusable, one_gpu, reuse_key="key", args=(name, "yes"))

    first = [start(name) for name in ("a#1", "b#1")]
    assert [started.allocation.gpu_ids for started in first] == [("0",), ("1",)]
    for name in ("a#1", "b#1"):
        assert watch.stop(name, keep=True).kind == "parked"
    again = start("c#1")
    assert again.reused
    assert again.allocation.gpu_ids == ("0",)
    executor.shutdown()


def test_a_wait_lets_no_more_virtual_time_pass_than_its_timeout(watch):
    watch.start("a#1")
    watch.executor.call("a#1", "spend", 5.0)

    assert watch.executor.wait(0) == []
    assert watch.executor.clock.monotonic() == 100.0
    assert watch.executor.wait(3.0) == []
    assert watch.executor.clock.monotonic() == 103.0
    assert watch.executor.wait(3.0) == [CallReturned("a#1", 105.0)]
    assert watch.executor.clock.monotonic() == 105.0


def test_resources_are_held_until_the_virtual_end(watch):
    def slow_to_unwind(host, *, allocation):
        class Slow(Account):
            def stop(self):
                return self.spend(4.0)

        return Slow(host, allocation=allocation)

    watch.start("a#1", slow_to_unwind)
    watch.executor.stop("a#1", 10.0)

    assert watch.executor.wait(3.0) == []
    assert watch.executor.resources()[1]["CPU"] == 2
    assert watch.executor.wait(3.0)[0].actor_id == "a#1"
    assert watch.executor.clock.monotonic() == 104.0
    assert watch.executor.resources()[1]["CPU"] == 3


# -- the debugger ------------------------------------------------------------------------------------------------------


def _run_script(script, source, typed, *options):
    """Run a script that runs its trials itself; the lines are typed at the debugger."""
    command = [sys.executable, *options, str(script.write(source))]
    return script.run_command(command, stdin="".join(f"{line}\n" for line in typed), MINITUNE_EXECUTOR="inline")


def test_a_breakpoint_in_a_trial_opens_the_debugger(script):
    done = _run_script(
        script,
        SCRIPTS / "breaks.py",
        ["p config", "p doubled", "doubled = 100", "c", "p config", "c"],
    )

    assert done.returncode == 0, done.stderr
    prompts = done.stdout.split("(Pdb) ")[1:]
    assert prompts[:3] == ["{'x': 4}\n", "8\n", ""]
    assert prompts[4].startswith("{'x': 5}\n")
    assert "losses [100, 10]" in done.stdout


def test_a_post_mortem_sees_the_frame_of_the_trial(script):
    done = _run_script(
        script,
        SCRIPTS / "raises.py",
        ["where", "p layers", "q"],
        *("-m", "pdb", "-c", "continue"),
    )

    assert "ValueError: too many: 7" in done.stdout + done.stderr
    where, layers, *_ = done.stdout.split("(Pdb) ")[1:]
    assert "raises.py(8)objective()" in where
    assert layers == "7\n"


def test_the_error_of_a_trial_leads_to_the_users_frame():
    class Odd(Exception):
        pass

    def objective(config):
        local = config["x"] + 1
        raise Odd(local)

    result = fit(objective, {"x": 1})[0]

    assert isinstance(result.error.__cause__, Odd)
    frame, _ = list(traceback.walk_tb(result.error.__cause__.__traceback__))[-1]
    assert frame.f_code is objective.__code__
    assert frame.f_locals["local"] == 2


# -- the end -----------------------------------------------------------------------------------------------------------


def test_code_that_ignores_the_stop_does_not_hold_the_script(script):
    done = _run_script(
        script,
        SCRIPTS / "ignores_the_stop.py",
        [],
    )

    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "the end"
    assert "so its thread stays" in done.stderr


def test_an_unwinding_trial_is_waited_for_at_shutdown(tmp_path, caplog):
    executor = InlineTrialExecutor(MACHINE)
    watch = Watch(executor, 10)
    notes = tmp_path / "notes"
    for name in ("a#1", "b#1"):
        watch.start(name, functools.partial(Worker, notes=str(notes)))
        watch.value(name, "begin")
    with caplog.at_level(logging.WARNING, logger="minitune"):
        executor.shutdown()

    assert notes.read_text(encoding="utf-8").split() == ["unwound", "stop"] * 2
    assert not caplog.records


def test_the_data_of_a_trainable_are_free_after_the_run():
    class Data:
        pass

    def run():
        data = Data()

        class Training(minitune.Trainable):
            def setup(self, config, data):
                self.data = data

            def step(self):
                return {"loss": 0.0, "done": True}

        fit(minitune.with_parameters(Training, data=data), executor="inline")
        return weakref.ref(data)

    data = run()
    gc.collect()  # a class is in a reference cycle

    assert data() is None
