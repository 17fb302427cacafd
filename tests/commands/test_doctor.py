"""`minitune doctor`: its facts and its warnings. A live run causes no warning, a killed one does."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

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


def told_by(out: str) -> dict[str, str]:
    """The facts of the doctor by name, and its warnings together."""
    facts = {}
    warnings = []
    for line in out.splitlines():
        name, _, text = line.partition(" ")
        if name == "warning:":
            warnings.append(text)
        else:
            facts[name] = text.strip()
    return {**facts, "warnings": "\n".join(warnings)}


def doctor(script: Script) -> dict[str, str]:
    done = script.run_command([sys.executable, "-m", "minitune", "doctor"])
    assert done.returncode == 0, done.stderr
    return told_by(done.stdout)


def about_runs(told: dict[str, str]) -> list[str]:
    """The warnings about runs; not those about the machine, on which other tests kill drivers at the same time."""
    return [text for text in told["warnings"].splitlines() if "run" in text and "whose driver is gone" not in text]


def orphans_in(told: dict[str, str]) -> set[str]:
    """The words of the warning about processes without a driver."""
    return {word for text in told["warnings"].splitlines() if "whose driver is gone" in text for word in text.split()}


def test_the_doctor_lists_the_machine_and_the_packages(minitune: Minitune, storage: Path) -> None:
    status, out, _ = minitune("doctor")
    told = told_by(out)

    assert (status, "broken:" in out) == (0, False)
    assert int(told["cpus"].partition(",")[0].split()[0]) >= 1
    assert told["storage"].startswith(f"{storage}, ")
    assert told["needed"].startswith("cloudpickle ")
    assert ", psutil " in told["needed"]


def test_the_doctor_names_broken_parts(minitune: Minitune, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
    assert (told["unfinished"], about_runs(told)) == ("none", [])
    assert not orphans_in(told) & {str(worker.pid) for worker in workers}
    os.kill(live.pid, signal.SIGKILL)
    script.finish(live)
    for process in workers:
        process.wait(30)
    told = doctor(script)
    assert told["unfinished"] == str(script.storage / "live")
    assert any(str(shared) in text for text in about_runs(told))


@pytest.mark.parametrize("how", ["raise", "SIGINT"])
def test_a_run_that_has_failed_or_was_interrupted_can_go_on(script: Script, how: str) -> None:
    fit(counting(2), num_samples=3, name="whole", storage_path=script.storage)
    cut(counting(2), num_samples=3, results=3, how=how, storage_path=script.storage)
    assert doctor(script)["unfinished"] == str(script.storage / "run")


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
        assert orphan.strip() in orphans_in(doctor(script))
    finally:
        os.kill(int(orphan), signal.SIGKILL)
