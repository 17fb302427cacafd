"""`minitune doctor`: the facts and the broken parts that it names, and the runs that can be resumed."""

from __future__ import annotations

import json
import os
import platform
import resource
import signal
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from command_runs import Minitune
from kit import Script, counting, cut, descendants_of, fit, raiser

from minitune.commands import health

SCRIPTS = Path(__file__).with_name("scripts")


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


GB = 10**9


@pytest.mark.parametrize(
    ("machine", "line"),
    [
        ({"memory": 64 * GB, "memory_bytes": 64 * GB}, "memory       64.0 GB, 3.0 GB free\n"),
        (
            {"memory": 64 * GB, "memory_bytes": 8 * GB},
            "memory       8.0 GB, 3.0 GB free (a limit; the machine has 64.0 GB)\n",
        ),
        ({"limits": ((64, 64), (-1, -1))}, "limits       64 open files, unlimited processes\n"),
        ({"limits": ((64, 4096), (1 << 60, -1))}, "limits       64 open files (up to 4096), unlimited processes\n"),
        ({"limits": ((64, -1), (99, -1))}, "limits       64 open files (up to unlimited), 99 processes\n"),
        ({"limits": ((64, -1), (99, -1))}, "warning: only 64 files may be open at a time: `ulimit -n 1024`\n"),
        (
            {"usable_cpus": 2, "cores": 8, "allowed": 4},
            "cpus         2 (of 8; affinity 4, the rest is a quota of the container)\n",
        ),
        ({"usable_cpus": 8, "cores": 8}, "cpus         8\n"),
        (
            {"usable_cpus": 8, "cores": 8, "MINITUNE_NUM_CPUS": "3"},
            "cpus         8, MINITUNE_NUM_CPUS=3 counts instead\n",
        ),
        ({"MINITUNE_NUM_CPUS": "3"}, "settings     MINITUNE_NUM_CPUS=3, "),
        ({"gpus": [], "devices": ["/dev/nvidia0"]}, "warning: there are NVIDIA devices, but nvidia-smi does not"),
        ({"gpus": [], "devices": ["/dev/nvidia0"], "CUDA_VISIBLE_DEVICES": ""}, "gpus         none, as CUDA_VISI"),
        ({"gpus": ["0", "1"]}, "gpus         0, 1\n"),
        ({"disk": 5 * GB, "MINITUNE_STORAGE_PATH": "/a/b"}, "storage      /a/b, 5.0 GB free (it does not exist yet; "),
        ({"disk": GB // 2}, "warning: little space is left for "),
    ],
)
def test_the_doctor_looks_at_the_machine(
    minitune: Minitune, monkeypatch: pytest.MonkeyPatch, machine: dict[str, Any], line: str
) -> None:
    for variable in ("MINITUNE_NUM_CPUS", "CUDA_VISIBLE_DEVICES", "MINITUNE_STORAGE_PATH"):
        if variable in machine:
            monkeypatch.setenv(variable, machine[variable])
        elif variable != "MINITUNE_STORAGE_PATH":
            monkeypatch.delenv(variable, raising=False)
    for name in ("_try_trial", "_runs"):
        monkeypatch.setattr(health, name, lambda found: None)
    monkeypatch.setattr(health, "free_memory_bytes", lambda: 3 * GB)
    if "memory" in machine:
        monkeypatch.setattr(health, "memory", lambda: (machine["memory"], 0))
        monkeypatch.setattr(health, "memory_bytes", lambda: machine["memory_bytes"])
    if "usable_cpus" in machine:
        monkeypatch.setattr(health, "usable_cpus", lambda: machine["usable_cpus"])
        monkeypatch.setattr(os, "cpu_count", lambda: machine["cores"])
        monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(machine.get("allowed", 8))))
    if "gpus" in machine:
        monkeypatch.setattr(health, "detect_gpus", lambda asked: machine["gpus"])
        monkeypatch.setattr("glob.glob", lambda pattern: machine.get("devices", []))
    if "limits" in machine:
        files, processes = machine["limits"]
        limits = {resource.RLIMIT_NOFILE: files, resource.RLIMIT_NPROC: processes}
        monkeypatch.setattr(resource, "getrlimit", limits.get)
    if "disk" in machine:
        monkeypatch.setattr("shutil.disk_usage", lambda path: SimpleNamespace(free=machine["disk"]))

    status, out, _ = minitune("doctor")
    assert (status == 0 or "/a/b" in line, f"\n{line}" in f"\n{out}") == (True, True), out
    assert ("NVIDIA devices" in out) == ("NVIDIA devices" in line)


def test_a_missing_package_and_a_trial_that_fails_are_broken_parts(
    minitune: Minitune, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(config: dict[str, Any]) -> None:
        raise ValueError("no luck")

    monkeypatch.setattr(health, "_probe", fails)
    monkeypatch.setenv("MINITUNE_EXECUTOR", "inline")
    status, out, _ = minitune("doctor")
    assert status == 1
    assert "broken: a trial in its own process fails: " in out
    assert "ValueError: no luck" in out
    monkeypatch.setattr(health, "_installed", lambda names: [("psutil", "7")])
    status, out, _ = minitune("doctor")
    assert (status, "broken: cloudpickle must be installed: pip install cloudpickle\n" in out) == (1, True)
    assert "needed       psutil 7\n" in out


def test_a_damaged_run_is_a_warning(minitune: Minitune, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fit(counting(1), name="bad", storage_path=tmp_path)
    (tmp_path / "bad" / "journal").write_bytes(b"?")
    monkeypatch.setenv("MINITUNE_STORAGE_PATH", str(tmp_path))
    monkeypatch.setattr("minitune.commands.health._try_trial", lambda found: None)
    status, out, _ = minitune("doctor")
    path = tmp_path / "bad"
    assert (status, f"warning: the record of {path} is damaged: `minitune ls {path}` shows how\n" in out) == (0, True)


def test_a_living_run_is_not_unfinished_and_a_killed_one_is(script: Script) -> None:
    live = script.start(SCRIPTS / "live.py")
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


def test_a_setting_that_allows_no_process_and_a_trial_that_cannot_begin_are_broken_parts(
    minitune: Minitune, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*args: Any, **settings: Any) -> Any:
        raise OSError(11, "Resource temporarily unavailable")

    monkeypatch.setattr("minitune.Tuner", refuse)
    status, out, _ = minitune("doctor")
    assert status == 1
    assert out.endswith("broken: a trial cannot be run: [Errno 11] Resource temporarily unavailable\n")
    monkeypatch.setattr("minitune.Tuner", raiser(AssertionError("no trial is tried where something is broken")))
    monkeypatch.setattr(health, "start_method", raiser(ValueError("no such method")))
    status, out, _ = minitune("doctor")
    assert (status, out.endswith("broken: no such method\n")) == (1, True)
    told = json.loads(minitune("doctor", "--json")[1])
    assert told["problems"] == ["no such method"]
    assert told["facts"]["python"].startswith(platform.python_version())
