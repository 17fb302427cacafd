"""Ctrl-C and other signals to the driver."""

import os
import signal
import subprocess
import threading
from pathlib import Path

import psutil
import pytest
from kit import SavedCounter, descendants_of, fit, listening, resume, scaled_s

from minitune import TuneError, report

SCRIPTS = Path(__file__).with_name("scripts")

INTERRUPTED = SCRIPTS / "interrupted.py"


def test_ctrl_c_ends_the_run_with_its_results_and_a_hint_and_a_resume_goes_on(script):
    driver = script.start(INTERRUPTED, str(script.directory), MINITUNE_NUM_CPUS="2")
    script.wait_for_reports()
    workers = descendants_of(driver)
    driver.send_signal(signal.SIGINT)
    stdout, stderr = script.finish(driver)
    assert driver.returncode == 0, stderr
    assert "interrupted: True 4 0" in stdout
    assert "Tuner.restore(" in stderr + stdout
    unwound = {path.name for path in script.directory.glob("unwound-*")}
    assert unwound == {"unwound-0", "unwound-1"}, "finally blocks of what ran have run"
    _, alive = psutil.wait_procs(workers, timeout=scaled_s(5))
    assert not alive
    stdout = script.run(SCRIPTS / "resumes_it.py")
    assert stdout.splitlines()[-1] == "[0, 1, 2, 3] False"


def test_ctrl_c_ends_the_script_if_that_is_wanted(script):
    driver = script.start(INTERRUPTED, str(script.directory), "raises", MINITUNE_NUM_CPUS="2")
    script.wait_for_reports()
    driver.send_signal(signal.SIGINT)
    stdout, stderr = script.finish(driver)
    assert driver.returncode == -signal.SIGINT, stderr
    assert "interrupted:" not in stdout
    assert stderr.endswith(f"KeyboardInterrupt: the run {script.storage / 'run'} was interrupted\n")
    assert "Tuner.restore(" in stderr + stdout


def test_a_second_ctrl_c_kills_at_once(script):
    driver = script.start(INTERRUPTED, str(script.directory), "stubborn", MINITUNE_NUM_CPUS="2")
    script.wait_for_reports()
    workers = descendants_of(driver)
    driver.send_signal(signal.SIGINT)
    script.wait_until(lambda: len(list(script.directory.glob("stuck-*"))) == 2)  # the driver has seen the first one
    driver.send_signal(signal.SIGINT)
    _, stderr = script.finish(driver)
    assert driver.returncode in (130, -signal.SIGINT)
    assert "a second Ctrl-C kills them at once" in stderr, "said while the trials unwind"
    assert f"Tuner.restore({str(script.storage / 'run')!r}, trainable).fit()" in stderr
    assert "KeyboardInterrupt" in stderr
    assert stderr.count("  File ") <= 3, "the traceback has the script's own call, and no frames of the driver's loop"
    _, alive = psutil.wait_procs(workers, timeout=scaled_s(5))
    assert not alive


@pytest.mark.parametrize(("name", "code"), [("SIGTERM", -signal.SIGTERM), ("SIGHUP", -signal.SIGHUP)])
def test_a_termination_signal_ends_the_run_in_order_and_then_the_process(script, name, code):
    driver = script.start(INTERRUPTED, str(script.directory), MINITUNE_NUM_CPUS="2")
    script.wait_for_reports()
    workers = descendants_of(driver)
    driver.send_signal(getattr(signal, name))
    script.finish(driver)
    assert driver.returncode == code
    assert {path.name for path in script.directory.glob("unwound-*")} == {"unwound-0", "unwound-1"}
    assert b'"ending":"interrupted"' in (script.storage / "run" / "journal").read_bytes()
    _, alive = psutil.wait_procs(workers, timeout=scaled_s(5))
    assert not alive


def test_an_exception_in_a_callback_leaves_nothing():
    """What each test checks: no process and no thread, also not of the trials."""

    def bad(**info):
        raise RuntimeError("on purpose")

    def trainable(config):
        child = subprocess.Popen(["sleep", "600"])
        for i in range(1000):
            report({"i": i, "pid": child.pid})

    with pytest.raises(TuneError, match="raised RuntimeError: on purpose") as caught:
        fit(trainable, num_samples=2, executor="local", callbacks=[listening(on_trial_result=bad)])
    assert repr(caught.value.__cause__) == "RuntimeError('on purpose')"


ENDED_TOGETHER = SCRIPTS / "ended_together.py"


def busy_workers(script):
    """The first two trials' processes, once user code runs there."""
    paths = [script.directory / f"busy-{x}" for x in (0, 1)]
    script.wait_until(lambda: all(path.exists() and path.read_text().endswith("\n") for path in paths))
    return [int(path.read_text()) for path in paths]


def statuses(script):
    """Each change of a trial's status on record, with its cause."""
    return [(record["status"], record["cause"]) for record in script.records(type="status")]


@pytest.mark.parametrize(
    ("to_workers", "to_driver", "kind"),
    [
        (signal.SIGTERM, signal.SIGTERM, "function"),
        (signal.SIGINT, signal.SIGINT, "class"),
        (signal.SIGHUP, signal.SIGUSR1, "class"),
        (signal.SIGTERM, signal.SIGKILL, "function"),
    ],
    ids=str,
)
def test_trials_killed_just_before_the_driver_are_interrupted(script, to_workers, to_driver, kind):
    """The driver gets its signal once the deaths are on record; until then, other trials may start and report."""
    driver = script.start(
        ENDED_TOGETHER, str(script.directory), kind, MINITUNE_NUM_CPUS="2", MINITUNE_FORCE_TRIAL_CLEANUP_S="0.1"
    )
    for pid in busy_workers(script):
        os.kill(pid, to_workers)
    script.wait_until(lambda: sum(status == "PENDING" for status, _ in statuses(script)) >= 2)
    driver.send_signal(to_driver)
    stdout, stderr = script.finish(driver)
    assert "ERROR" not in [status for status, _ in statuses(script)], stderr
    if to_driver in (signal.SIGINT, signal.SIGUSR1):
        assert stdout.startswith("True 0 [True, True, ")
    assert driver.returncode == (0 if stdout else -to_driver)
    stdout = script.run(ENDED_TOGETHER, str(script.directory), kind, MINITUNE_NUM_CPUS="1")
    assert stdout == "False 0 [True, True, True, True]\n"
    began_ns = [(script.directory / f"resumed-{x}").stat().st_mtime_ns for x in range(4)]
    assert max(began_ns[:2]) < min(began_ns[2:]), "those that ran before go on first"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=lambda number: number.name)
def test_trial_killed_by_the_drivers_signal_is_interrupted(script, number):
    driver = script.start(ENDED_TOGETHER, str(script.directory), "class", MINITUNE_NUM_CPUS="2")
    workers = busy_workers(script)
    driver.send_signal(number)
    script.wait_until(lambda: list((script.storage / "run").glob("plugins-*")))
    for pid in workers:
        os.kill(pid, number)
    _, stderr = script.finish(driver)
    assert "ERROR" not in [status for status, _ in statuses(script)], stderr
    stdout = script.run(ENDED_TOGETHER, str(script.directory), "class", MINITUNE_NUM_CPUS="1")
    assert stdout == "False 0 [True, True, True, True]\n"


def test_a_signal_that_is_ignored_stays_so():
    """As under `nohup`."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:

        def trainable(config):
            for i in range(3):
                os.kill(os.getpid(), signal.SIGHUP)
                report({"i": i})

        grid = fit(trainable, num_samples=2)
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)
    assert not grid.interrupted
    assert [result.metrics["i"] for result in grid] == [2, 2]


def test_an_interrupted_class_is_saved_even_if_it_is_not_saved_at_its_end():
    def interrupt(trial, result, **info):
        if result["n"] == 2:
            os.kill(os.getpid(), signal.SIGINT)

    callbacks = [listening(on_trial_result=interrupt)]
    (result,) = fit(SavedCounter, {"end": 9}, callbacks=callbacks, checkpoint_at_end=False)
    assert result.checkpoint is not None
    (rows,) = [[row["n"] for row in each.get_rows()] for each in resume(SavedCounter)]
    assert rows == [1, 2, 3, 4, 5, 6, 7, 8, 9], "nothing is done twice"


def test_a_class_whose_step_hangs_is_waited_for_no_longer_than_its_grace(monkeypatch):
    class Hangs(SavedCounter):
        def step(self):
            if self.n == 1:
                threading.Event().wait()
            return super().step()

    monkeypatch.setenv("MINITUNE_FORCE_TRIAL_CLEANUP_S", "0.2")
    callbacks = [listening(on_trial_result=lambda **info: os.kill(os.getpid(), signal.SIGINT))]
    grid = fit(Hangs, {"end": 9}, callbacks=callbacks, executor="local")
    assert (grid.interrupted, grid[0].metrics["n"], grid[0].error) == (True, 1, None)
