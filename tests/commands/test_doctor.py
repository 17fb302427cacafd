"""`minitune doctor`: the facts and the broken parts that it names, and the runs that can be resumed."""

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
from minitune import RunConfig, Tuner, report

def train(config):
    report({"n": 3})
    while not os.path.exists(config["go"]):
        time.sleep(0.01)

run = RunConfig(name="live", verbose=0)
Tuner(train, param_space={"go": os.path.abspath("go")}, run_config=run).fit()
"""


def told_by(out: str) -> dict[str, str]:
    """The facts of the doctor by name."""
    facts = {}
    for line in out.splitlines():
        name, _, text = line.partition(" ")
        facts[name] = text.strip()
    return facts


def doctor(script: Script) -> dict[str, str]:
    done = script.run_command([sys.executable, "-m", "minitune", "doctor"])
    assert done.returncode == 0, done.stderr
    return told_by(done.stdout)


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


def test_a_living_run_is_not_unfinished_and_a_killed_one_is(script: Script) -> None:
    live = script.start(LIVE)
    script.wait_for_reports(1, "live")
    workers = descendants_of(live)
    assert doctor(script)["unfinished"] == "none"
    os.kill(live.pid, signal.SIGKILL)
    script.finish(live)
    for process in workers:
        process.wait(30)
    assert doctor(script)["unfinished"] == str(script.storage / "live")


@pytest.mark.parametrize("how", ["raise", "SIGINT"])
def test_a_run_that_has_failed_or_was_interrupted_can_go_on(script: Script, how: str) -> None:
    fit(counting(2), num_samples=3, name="whole", storage_path=script.storage)
    cut(counting(2), num_samples=3, results=3, how=how, storage_path=script.storage)
    assert doctor(script)["unfinished"] == str(script.storage / "run")
