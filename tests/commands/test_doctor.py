"""`minitune doctor`: its facts and its warnings. A live run causes no warning, a killed one does."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest
from command_runs import Minitune
from kit import Script, counting, cut, descendants_of, fit

LIVE = """
import os, time
from minitune import RunConfig, Tuner, report, with_parameters

def train(config, data):
    report({"n": len(data)})
    while not os.path.exists(config["go"]):
        time.sleep(0.01)

run = RunConfig(name="live", verbose=0)
Tuner(with_parameters(train, data=[1, 2, 3]), param_space={"go": os.path.abspath("go")}, run_config=run).fit()
"""


def doctor(script: Script) -> dict[str, Any]:
    done = script.run_command([sys.executable, "-m", "minitune", "doctor", "--json"])
    assert done.returncode == 0, done.stderr
    told: dict[str, Any] = json.loads(done.stdout)
    return told


def about_runs(told: dict[str, Any]) -> list[str]:
    """The warnings about runs; not those about the machine, on which other tests kill drivers at the same time."""
    return [text for text in told["warnings"] if "run" in text and "whose driver is gone" not in text]


def test_the_doctor_tells_what_there_is(minitune: Minitune, storage: Path) -> None:
    status, out, _ = minitune("doctor", "--json")
    told = json.loads(out)

    assert (status, told["problems"]) == (0, [])
    assert told["cpus"]["usable"] >= 1
    assert told["storage"]["path"] == str(storage)
    assert set(told["needed"]) == {"cloudpickle", "psutil"}


def test_the_doctor_says_what_is_broken(minitune: Minitune, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("MINITUNE_STORAGE_PATH", str(tmp_path / "file" / "runs"))
    status, out, _ = minitune("doctor")

    assert status == 1
    assert "broken: " in out
    assert "set MINITUNE_STORAGE_PATH" in out


def test_a_living_run_is_no_leftover_and_a_killed_one_is(script: Script) -> None:
    live = script.start(LIVE)
    script.wait_for_reports(1, "live")
    shared = script.storage / "live" / "shared"
    shared.mkdir(exist_ok=True)  # if the shared value is in memory, the run has not made the directory
    workers = descendants_of(live)
    told = doctor(script)
    assert (told["unfinished"], about_runs(told)) == ([], [])
    orphans = {word.strip(",") for text in told["warnings"] if "whose driver is gone" in text for word in text.split()}
    assert not orphans & {str(worker.pid) for worker in workers}
    os.kill(live.pid, signal.SIGKILL)
    script.finish(live)
    for process in workers:
        process.wait(30)
    told = doctor(script)
    assert told["unfinished"] == [str(script.storage / "live")]
    assert any(str(shared) in text for text in about_runs(told))


@pytest.mark.parametrize("how", ["raise", "SIGINT"])
def test_a_run_that_has_failed_or_was_interrupted_can_go_on(script: Script, how: str) -> None:
    fit(counting(2), num_samples=3, name="whole", storage_path=script.storage)
    cut(counting(2), num_samples=3, results=3, how=how, storage_path=script.storage)
    assert doctor(script)["unfinished"] == [str(script.storage / "run")]


def test_a_process_of_a_trial_whose_driver_is_gone_is_named(script: Script) -> None:
    """This happens if the driver and all processes that end its trials were killed together."""
    orphan = script.run(
        """
        import subprocess, sys
        process = subprocess.Popen(
            [sys.executable, "-c", "import time; print(flush=True); time.sleep(600)"],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            env={"MINITUNE_TRIAL": "some"}, start_new_session=True,
        )
        process.stdout.readline()
        print(process.pid)
        """
    )
    try:
        (text,) = [text for text in doctor(script)["warnings"] if "whose driver is gone" in text]
        assert orphan.strip() in text.split()
    finally:
        os.kill(int(orphan), signal.SIGKILL)
