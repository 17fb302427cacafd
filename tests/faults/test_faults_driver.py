"""Faults that hit the driver: signals, a stop, a place where nothing can be printed, plug-ins that raise, its end."""

import asyncio
import logging
import os
import signal
import sys
import time
from pathlib import Path

import psutil
import pytest
from kit import KERNEL, Spy, descendants_of, fit, is_gone, live_reports, report_n, scaled_s

from minitune import grid_search, report

SCRIPTS = Path(__file__).with_name("scripts")

RESUME = SCRIPTS / "resumes_slow_trials.py"


def assert_gone(processes):
    psutil.wait_procs(processes, timeout=scaled_s(5))
    assert all(is_gone(process.pid) for process in processes)


# -- signals -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "told"), [("SIGUSR1", ""), ("SIGTERM", "mine SIGTERM True\n")])
def test_a_signal_ends_the_run_in_order_before_the_users_own_handler_is_called(script, name, told):
    """That of SIGUSR1 is not called at all. The code that follows `fit` is reached if the handler lets it."""
    driver = script.start(SCRIPTS / "handles_a_signal.py", name, MINITUNE_NUM_CPUS="2")
    script.wait_for_reports()
    driver.send_signal(signal.Signals[name])
    stdout, stderr = script.finish(driver)
    assert (stdout, driver.returncode) == (f"{told}True 2 0 True\n", 0), stderr
    assert len(list(script.storage.glob("unwound-*"))) == 2
    assert script.run(RESUME) == "[0, 1] 0 False\n"


def test_five_hundred_signals_at_bad_moments_tear_nothing(script):
    stdout = script.run(
        SCRIPTS / "five_hundred_signals.py",
        MINITUNE_NUM_CPUS="2",
    )
    assert stdout == "500 0 True True\n"
    seen = {}
    for record in script.records(type="result"):
        seen.setdefault(record["trial"], []).append(record["metrics"]["i"])
    assert len(seen) == 2
    assert all(numbers == list(range(1, len(numbers) + 1)) for numbers in seen.values())


def test_ctrl_c_in_a_notebook_reaches_the_cell_and_no_worker(script):
    """The trainable is made by `exec`, a loop runs, and the signal goes to the whole group, as a terminal sends it."""
    kernel = [sys.executable, str(KERNEL), str(SCRIPTS / "cell_of_a_notebook.py")]
    driver = script.start_command(["setsid", *kernel], MINITUNE_NUM_CPUS="2")
    script.wait_for_reports()
    workers = descendants_of(driver)
    os.killpg(driver.pid, signal.SIGINT)
    stdout, stderr = script.finish(driver)
    assert (stdout, driver.returncode) == ("True 2\n", 0), stderr
    assert len(list(script.storage.glob("unwound-*"))) == 2
    assert_gone(workers)


def test_a_run_in_another_thread_leaves_signals_alone():
    def handlers():
        return [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1)]

    async def main():
        before = handlers()  # the loop has one of its own
        look = Spy(lambda trial, result: is_same.append(handlers() == before))
        return await asyncio.to_thread(fit, report_n(1), num_samples=2, executor="local", callbacks=[look])

    is_same = []
    assert asyncio.run(main()).num_terminated == 2
    assert is_same == [True, True]


# -- no place to print -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("place", "buffered"),
    [("| head -1", ""), ("> /dev/full", "1"), (">&-", "1")],
)
def test_a_run_that_cannot_print_is_completed(script, place, buffered):
    path = script.write(SCRIPTS / "prints_much.py")
    line = f'"$0" "$1" {place}'
    command = ["bash", "-c", f'set -o pipefail; {line}; echo "code $?" >&2', sys.executable, str(path)]
    shell = script.start_command(command, PYTHONUNBUFFERED=buffered)
    _, stderr = script.finish(shell)
    assert (script.storage / "done").exists(), stderr
    assert "code 0\n" in stderr
    assert "Traceback" not in stderr
    assert "Exception ignored" not in stderr
    assert len([text for text in stderr.splitlines() if text != "code 0"]) <= 1


class Closed:
    """A stream that cannot be written, such as one of a program that has ended."""

    encoding = "utf-8"

    def write(self, text):
        raise RuntimeError("no place for it")

    def flush(self):
        raise RuntimeError("no place for it")

    def isatty(self):
        return False


@pytest.mark.parametrize("verbose", [0, 1, 2])
def test_a_run_goes_on_if_stdout_and_stderr_raise_errors(monkeypatch, verbose):
    def trainable(config):
        if config["x"] == 1:
            raise ValueError("on purpose")
        report({"x": config["x"]})

    logger = logging.getLogger("minitune")
    handler = logging.StreamHandler(Closed())
    logger.addHandler(handler)
    monkeypatch.setattr(sys, "stdout", Closed())
    monkeypatch.setattr(sys, "stderr", Closed())
    try:
        grid = fit(trainable, {"x": grid_search([0, 1, 2])}, verbose=verbose)
    finally:
        logger.removeHandler(handler)
    assert (grid.num_terminated, grid.num_errors) == (2, 1)


# -- stopped, killed, twice --------------------------------------------------------------------------------------------


def test_stopped_driver_does_not_time_out_trials(script):
    """The trials report every 10 ms and may take 2 s; the driver is frozen for longer than that."""
    driver = script.start(
        SCRIPTS / "reports_often.py",
        MINITUNE_NUM_CPUS="2",
    )
    script.wait_for_reports()
    driver.send_signal(signal.SIGSTOP)
    until = time.monotonic() + 2.2
    script.wait_until(lambda: time.monotonic() > until)
    driver.send_signal(signal.SIGCONT)
    stdout, stderr = script.finish(driver)
    assert stdout == "[30, 30] [None, None]\n", stderr


def test_a_live_run_is_locked_and_free_at_once_when_its_driver_was_killed(script):
    driver = script.start(SCRIPTS / "fits_slow_trials.py", MINITUNE_NUM_CPUS="2")
    script.wait_for_reports()
    second = script.start(RESUME)
    _, stderr = script.finish(second)
    last = stderr.splitlines()[-1]
    assert "RunLockedError" in last
    assert str(driver.pid) in last
    driver.kill()
    assert script.run(RESUME) == "[0, 1] 0 False\n"


def test_acknowledged_reports_survive_a_killed_driver(script):
    """And the run that goes on reports nothing twice."""
    lines = 80
    witness = script.directory / "witness"
    source = SCRIPTS / "witnessed.py"
    driver = script.start(source, str(witness), MINITUNE_NUM_CPUS="2")
    script.wait_until(lambda: witness.exists() and witness.read_text().count("\n") >= lines)
    workers = descendants_of(driver)
    driver.kill()
    driver.wait()
    assert_gone(workers)
    recorded = {(r["trial"][-5:], r["metrics"]["i"]) for r in script.records(type="result")}
    heard = {(f"{int(x):05d}", int(i)) for x, i in map(str.split, witness.read_text().splitlines())}
    assert len(heard) >= lines
    assert heard <= recorded
    assert script.run(source, str(witness), "restore") == "[True, True] 0\n"
    live = live_reports(script.records()).values()
    assert [[metrics["i"] for metrics in reports] for reports in live] == [list(range(1, 101))] * 2


# -- code of the driver's that raises, hangs or ends -------------------------------------------------------------------


def test_a_child_that_a_plug_in_forks_ends_nothing_of_the_run(script):
    """In each hook the child leaves in another way, by turns."""
    ways = ["raise", "exit"]
    driver = script.start(
        SCRIPTS / "forking_plug_ins.py", *ways, MINITUNE_NUM_CPUS="1", MINITUNE_GLOBAL_CHECKPOINT_S="0"
    )
    stdout, stderr = script.finish(driver)
    assert stdout.splitlines() == [
        "ended by the driver",
        "closed by the driver",
        "[4, 4, 4] 0 {'an': 'object'}",
        "10 ['exit 7', 'raise 1']",
    ], stderr
    kinds = [record["type"] for record in script.records()]
    assert [kinds.count(kind) for kind in ("open", "result", "close")] == [1, 15, 1]


def test_a_process_that_a_callback_forks_can_be_ended_by_signals(script):
    stdout = script.run(SCRIPTS / "signals_to_children.py")
    assert stdout.split() == ["-15", "5", "-1", "False", "0"]


def test_an_interpreter_that_ends_stops_the_trials_of_its_threads(script):
    driver = script.start(
        SCRIPTS / "runs_in_a_thread.py",
        MINITUNE_NUM_CPUS="2",
    )
    stdout, stderr = script.finish(driver)
    assert (driver.returncode, stderr) == (0, "")
    pids = list(map(int, stdout.split()))
    assert len(pids) >= 3
    script.wait_until(lambda: all(map(is_gone, pids)))
    assert script.run(RESUME) == "[0, 1] 0 False\n"


def test_a_callback_that_hangs_at_the_end_holds_nothing_but_itself(script):
    driver = script.start(SCRIPTS / "hangs_at_the_end.py")
    script.wait_until(lambda: (script.storage / "hangs").exists())
    assert b'"type":"close","reason":"finished"' in (script.storage / "run" / "journal").read_bytes()
    assert descendants_of(driver) == []
    driver.send_signal(signal.SIGINT)
    _, stderr = script.finish(driver)
    assert driver.returncode in (130, -signal.SIGINT)
    assert "KeyboardInterrupt" in stderr


HANGING = SCRIPTS / "hangs.py"


def test_the_second_ctrl_c_ends_a_hook_that_hangs(script):
    driver = script.start(HANGING, MINITUNE_NUM_CPUS="2")
    script.wait_until(lambda: (script.storage / "hangs").exists())
    workers = descendants_of(driver)
    driver.send_signal(signal.SIGINT)
    told = iter(driver.stderr.readline, "")
    assert any("interrupted by SIGINT: Hangs.on_trial_result has run for" in line for line in told)
    driver.send_signal(signal.SIGINT)
    _, rest = script.finish(driver)
    assert driver.returncode in (130, -signal.SIGINT)
    assert f"minitune resume {script.storage / 'run'}" in rest
    assert rest.splitlines()[-1] == "KeyboardInterrupt"
    assert_gone(workers)
    assert [record["ending"] for record in script.records(type="close")] == ["interrupted"]
    assert script.run(RESUME) == "[0, 1] 0 False\n"


# -- runs within runs, and a driver with no one above it ---------------------------------------------------------------


def test_runs_may_be_nested_but_not_without_end(script):
    stdout = script.run(SCRIPTS / "nested_runs.py", "too_deep")
    assert stdout.startswith("True ")
    assert "runs may be nested 4 deep" in stdout
    begun = [path for path in script.storage.glob("level-*/journal") if b'"type":"start"' in path.read_bytes()]
    assert len(begun) == 5


def test_a_run_works_in_a_daemonic_process_of_multiprocessing(script):
    stdout = script.run(SCRIPTS / "nested_runs.py", "daemonic")
    assert stdout == "2\n2\n"


def test_a_driver_reaps_orphans_as_the_first_process_of_its_container(script):
    path = script.write(SCRIPTS / "first_process.py")
    command = ["unshare", "--pid", "--fork", "--mount-proc", sys.executable, str(path)]
    trial = script.start_command(["unshare", "--pid", "--fork", "--mount-proc", "true"])
    script.finish(trial)
    if trial.returncode:
        pytest.skip("no namespace of processes can be made here")
    driver = script.start_command(command)
    stdout, stderr = script.finish(driver)
    assert stdout == "1 [0, 0, 2] 1\n[1]\n", stderr
