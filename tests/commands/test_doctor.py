"""`minitune doctor`: the facts and the broken parts that it names."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from kit import raiser

from minitune.commands import health


def told_by(out):
    """The facts of the doctor by name."""
    facts = {}
    for line in out.splitlines():
        name, _, text = line.partition(" ")
        facts[name] = text.strip()
    return facts


def test_the_doctor_lists_the_machine_and_the_packages(minitune, storage):
    status, out, _ = minitune("doctor")
    told = told_by(out)

    assert (status, "broken:" in out) == (0, False)
    assert int(told["cpus"].split()[0]) >= 1
    assert told["storage"].startswith(f"{storage}, ")
    assert told["packages"].startswith("cloudpickle ")
    assert ", psutil " in told["packages"]


def test_the_doctor_names_broken_parts(minitune, tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("MINITUNE_STORAGE_PATH", str(tmp_path / "file" / "runs"))
    status, out, _ = minitune("doctor")

    assert status == 1
    assert "broken: " in out
    assert "set MINITUNE_STORAGE_PATH" in out


GB = 10**9


@pytest.mark.parametrize(
    ("found", "line"),
    [
        ({"memory": (64 * GB, 0), "memory_bytes": 8 * GB}, "memory       8.0 GB (of 64.0 GB)\n"),
        ({"usable_cpus": 2, "os.cpu_count": 8}, "cpus         2 (of 8)\n"),
        ({"detect_gpus": []}, "gpus         none\n"),
        ({"detect_gpus": ["0", "1"]}, "gpus         0, 1\n"),
        (
            {"shutil.disk_usage": SimpleNamespace(free=5 * GB)},
            "storage      /a/b, 5.0 GB free (it does not exist",
        ),
    ],
)
def test_the_doctor_looks_at_the_machine(minitune, monkeypatch, found, line):
    monkeypatch.setenv("MINITUNE_STORAGE_PATH", "/a/b")
    monkeypatch.setattr(health, "_trial", lambda: "")
    for name, value in found.items():
        monkeypatch.setattr(f"minitune.commands.health.{name}", lambda *arguments, value=value: value)
    out = minitune("doctor")[1]
    assert f"\n{line}" in f"\n{out}", out


def test_a_trial_that_fails_is_a_broken_part(minitune, monkeypatch):
    def fails(config):
        raise ValueError("no luck")

    monkeypatch.setattr(health, "_probe", fails)
    monkeypatch.setenv("MINITUNE_EXECUTOR", "inline")
    status, out, _ = minitune("doctor")
    assert status == 1
    assert "broken: a trial in its own process fails: " in out
    assert "ValueError: no luck" in out


def test_a_trial_that_cannot_begin_is_a_broken_part(minitune, monkeypatch):
    monkeypatch.setattr("minitune.Tuner", raiser(OSError(11, "Resource temporarily unavailable")))
    status, out, _ = minitune("doctor")
    assert status == 1
    assert out.endswith("broken: a trial cannot be run: [Errno 11] Resource temporarily unavailable\n")
