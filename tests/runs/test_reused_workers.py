"""A worker that is handed on: what its first trial did to the process is undone before the next one."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from kit import PRELUDE, fit, report_state

from minitune import get_context, grid_search, report

pytestmark = pytest.mark.usefixtures("one_cpu")


@pytest.fixture(params=["zygote", "interpreter"])
def start_method(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a fresh worker is like depends on it."""
    monkeypatch.setenv("MINITUNE_START_METHOD", request.param)


@pytest.fixture(autouse=True)
def short_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MINITUNE_FORCE_TRIAL_CLEANUP_S", "0.2")


def on_one_worker(trainable: Any, **settings: Any) -> Any:
    """The results of trials 0 and 1; that the second one had the worker of the first is part of the test."""
    grid = fit(trainable, {"x": grid_search([0, 1])}, executor="local", reuse_actors=True, **settings)
    assert grid[0].error is None
    assert grid[0].metrics["pid"] == grid[1].metrics["pid"]
    return grid


def careless(config: dict[str, Any]) -> None:
    Path(get_context().get_trial_dir(), "mine").touch()
    umask = os.umask(0o022)
    os.umask(umask)
    report_state("state", {"pid": os.getpid(), "umask": umask})
    os.umask(0)


@pytest.mark.usefixtures("start_method")
def test_files_of_the_next_trial_are_not_open_to_all() -> None:
    umask = os.umask(0o027)
    try:
        grid = on_one_worker(careless)
    finally:
        os.umask(umask)
    assert [result.metrics["umask"] for result in grid] == [0o027] * 2
    for result in grid:
        written = [path for path in Path(result.path).rglob("*") if path.name in ("mine", "stdout")]
        assert {stat.S_IMODE(path.stat().st_mode) for path in written} == {0o640}


def deaf(config: dict[str, Any]) -> None:
    report({"pid": os.getpid()})
    if config["x"] == 0:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        return
    try:
        while True:
            time.sleep(0.01)
    finally:
        Path("unwound").touch()


def test_stop_reaches_the_next_trial_of_a_reused_worker() -> None:
    """One that never reports is ended by SIGTERM, upon which its `finally` blocks run."""
    grid = on_one_worker(deaf, report_timeout_s=2)
    assert type(grid[1].error).__name__ == "TrialTimeoutError"
    assert Path(grid[1].path, "unwound").exists()


def masked(config: dict[str, Any]) -> None:
    handlers = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGHUP, signal.SIGUSR1)]
    report({"pid": os.getpid(), "handlers": list(map(str, handlers))})
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGUSR1):
        signal.signal(number, lambda number, frame: None)
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM, signal.SIGUSR1])


@pytest.mark.usefixtures("start_method")
def test_handlers_are_those_of_a_fresh_worker() -> None:
    grid = on_one_worker(masked)
    assert grid[0].metrics["handlers"] == grid[1].metrics["handlers"]


def asked_to_end(config: dict[str, Any]) -> None:
    report({"pid": os.getpid(), "is_over": int(config["x"] == 0)})
    if config["x"] == 1 and get_context().get_attempt() == 1:
        Path("pid").write_text(str(os.getpid()))
        os.kill(os.getpid(), signal.SIGTERM)
        for _ in range(1000):
            pass
        Path("survived").touch()


@pytest.mark.usefixtures("hurried")
def test_an_unexpected_signal_ends_the_process() -> None:
    """It had been asked to end its first trial; it must not take this one for the same."""
    space = {"x": grid_search([0, 1])}
    grid = fit(asked_to_end, space, executor="local", reuse_actors=True, stop={"is_over": 1})
    assert Path(grid[1].path, "pid").read_text() == str(grid[0].metrics["pid"]), "the worker was handed on"
    assert not Path(grid[1].path, "survived").exists()
    assert grid[1].metrics["pid"] != grid[0].metrics["pid"], "the next attempt has another worker"


def leaves_something(config: dict[str, Any]) -> None:
    report({"pid": os.getpid()})
    if config["left"] == "thread":
        threading.Thread(target=time.sleep, args=(3600,), daemon=True).start()
    elif config["left"] == "daemon":
        subprocess.run(["sh", "-c", "setsid sleep 3600 &"], check=True)


@pytest.mark.usefixtures("start_method")
def test_leftovers_of_a_function_end_before_the_next_trial() -> None:
    """A function that has returned is not asked to end; all the same its worker is looked at."""
    space = {"left": grid_search(["nothing", "thread", "daemon", "nothing"])}
    pids = [result.metrics["pid"] for result in fit(leaves_something, space, executor="local", reuse_actors=True)]
    assert pids[0] == pids[1]
    assert len(set(pids)) == 3


@pytest.mark.parametrize("verb", ["stop_trial", "pause_trial"])
@pytest.mark.parametrize(
    ("phase", "cpus", "options"),
    [("TRAINING", "1", ""), ("STARTING", "2", "deterministic=True, max_concurrent_trials=2")],
)
def test_trial_ended_before_its_report_leaves_its_worker_to_the_next(
    phase: str, cpus: str, options: str, verb: str, script: Any
) -> None:
    """Its worker is there at once, but in a run with logical order the driver sees that only in the next turn.

    The run waits for no other event, because no other trial has a worker.
    """
    stdout = script.run(
        PRELUDE
        + f"""
    from minitune.schedulers import FIFOScheduler

    class Hasty(FIFOScheduler):
        met = None

        def on_trial_add(self, controller, trial):
            for other in controller.get_live_trials():
                if other.phase.name == "{phase}" and other.number > 0 and not self.met:
                    self.met = other
                    controller.{verb}(other)

    def trainable(config):
        return {{"y": 1}}

    hasty = Hasty()
    results = fit(trainable, range(6), scheduler=hasty, reuse_actors=True, {options})
    print([result.metrics.get("y") for result in results], hasty.met.number)
    """,
        MINITUNE_NUM_CPUS=cpus,
        MINITUNE_MAX_PENDING_TRIALS="2",
    )
    ends, _, met = stdout.strip().rpartition(" ")
    assert ends == str([None if verb == "stop_trial" and n == int(met) else 1 for n in range(6)])


@pytest.mark.skipif(sys.platform != "linux", reason="a worker's parent is the driver itself")
def test_a_trial_that_pauses_well_has_not_lost_its_worker_again_and_again(script: Any) -> None:
    """Three losses in a row are held against a trial. A pause between them ends the row."""
    stdout = script.run(
        PRELUDE
        + """
    from minitune import Trainable
    from minitune.schedulers import FIFOScheduler

    class Pausing(FIFOScheduler):
        def on_trial_result(self, controller, trial, result):
            return self.PAUSE if result["attempt"] == 2 else self.CONTINUE

    class Killing(Trainable):
        def setup(self, config):
            pass

        def step(self):
            attempt = get_context().get_attempt()
            if attempt in (1, 3, 4):
                os.kill(os.getppid(), signal.SIGKILL)
                time.sleep(600)
            return {"attempt": attempt, "done": attempt > 2}

        def save_checkpoint(self, directory):
            open(os.path.join(directory, "i"), "w").close()

        def load_checkpoint(self, directory):
            pass

        def reset_config(self, config):
            return True

    [result] = fit(Killing, scheduler=Pausing(), reuse_actors=True)
    print(result.metrics["attempt"], result.error)
    """,
        MINITUNE_START_METHOD="zygote",
    )
    assert stdout == "5 None\n"
