"""The resources of the machine: quotas, limits, visible devices, and a fake `nvidia-smi`."""

import io
import logging
import os
import types

import psutil
import pytest

from minitune.base import cgroups
from minitune.executors import devices
from minitune.executors.devices import (
    detect_gpus,
    machine_resources,
    memory,
    memory_bytes,
    usable_cpus,
    visible_devices,
)

AFFINITY = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
TWO_CARDS = """GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-0aa0)
GPU 1: NVIDIA H100 80GB HBM3 (UUID: GPU-1bb1)
"""
SPLIT_CARD = """GPU 0: NVIDIA A100-SXM4-40GB (UUID: GPU-0aa0)
  MIG 3g.20gb     Device  0: (UUID: MIG-c7384736-a75d)
"""


@pytest.fixture
def make_host(tmp_path, monkeypatch):
    """Makes a directory the machine: environment, cgroup files, own cgroups, and device files."""

    def make(environ=None, files=None, own="0::/\n", device_files=""):
        root, dev, own_file = tmp_path / "cgroup", tmp_path / "dev", tmp_path / "own_cgroup"
        for directory in (root, dev, tmp_path / "bin"):
            directory.mkdir(exist_ok=True)
        for name, text in (files or {}).items():
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text + "\n")
        for name in device_files.split():
            (dev / name).touch()
        own_file.write_text(own)
        for name in ("CUDA_VISIBLE_DEVICES", "MINITUNE_NUM_CPUS", "MINITUNE_NUM_GPUS"):
            monkeypatch.delenv(name, raising=False)
        for name, text in {"PATH": str(tmp_path / "bin"), **(environ or {})}.items():
            monkeypatch.setenv(name, text)
        monkeypatch.setattr(cgroups, "ROOT", str(root))
        monkeypatch.setattr(cgroups, "OWN", str(own_file))
        monkeypatch.setattr(devices, "_DEV", str(dev))

    return make


@pytest.fixture
def nvidia_smi(tmp_path):
    """Puts a script named nvidia-smi on the host's PATH; what it returns counts how often it was started."""

    def install(body):
        log = tmp_path / "calls"
        command = tmp_path / "bin" / "nvidia-smi"
        command.parent.mkdir()
        command.write_text(f'#!/bin/sh\nPATH=/usr/bin:/bin\necho "$@" >> {log}\n{body}\n')
        command.chmod(0o755)
        return lambda: log.read_text().splitlines().count("-L") if log.exists() else 0

    return install


def listing(text):
    return f"cat <<'END'\n{text}END"


# -- CPUs and memory -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("files", "own", "quota"),
    [
        ({}, "0::/\n", None),
        ({"cpu.max": "max 100000"}, "0::/\n", None),
        ({"cpu.max": "100000 100000"}, "0::/\n", 1),
        ({"cpu.max": "50000 100000"}, "0::/\n", 1),
        ({"a/cpu.max": "100000 100000", "a/b/cpu.max": "max 100000"}, "0::/a/b\n", 1),
        ({"cpu.max": "100000 100000"}, "0::/not/mounted/here\n", 1),
        ({"cpu.max": "100000 100000"}, "0::/../outside\n", 1),
        ({"../outside/cpu.max": "100000 100000"}, "0::/../outside\n", None),
        ({"cpu.max": "rubbish"}, "0::/\n", None),
        ({"cpu.max": "100000 rubbish"}, "0::/\n", None),
        ({"cpu.max": "100000 0"}, "0::/\n", None),
        ({"cpu.max": "1 1"}, "0::/\n", 1),
        ({"cpu,cpuacct/cpu.cfs_quota_us": "100000", "cpu,cpuacct/cpu.cfs_period_us": "100000"}, "4:cpu,cpuacct:/\n", 1),
        ({"cpu/d/cpu.cfs_quota_us": "100000", "cpu/d/cpu.cfs_period_us": "100000"}, "4:cpuacct,cpu:/d\n0::/\n", 1),
        ({"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"}, "4:cpu:/\n", None),
    ],
)
def test_cpus_are_bounded_by_the_quota(make_host, files, own, quota):
    make_host(files=files, own=own)
    assert usable_cpus() == (AFFINITY if quota is None else min(quota, AFFINITY))


def test_cpus_are_bounded_by_the_affinity(make_host, monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(16)), raising=False)
    make_host()
    assert usable_cpus() == 16
    make_host(files={"cpu.max": "275000 100000"})
    assert usable_cpus() == 2
    make_host(files={"cpu.max": "9900000 100000"})
    assert usable_cpus() == 16


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (["MemTotal: 9 kB", "MemFree: 2 kB", "MemAvailable: 5 kB", "HugePages_Total: 0"], (9 * 1024, 5 * 1024)),
        (["MemTotal: 9 kB", "MemFree: 2 kB", "MemAvailable: 9 kB"], (9 * 1024, 9 * 1024)),
        (["MemTotal: 9 kB", "MemFree: 2 kB", "MemAvailable: 10 kB"], (9 * 1024, 2 * 1024)),
        (["MemTotal: 9 kB"], (77, 66)),
        (None, (77, 66)),
    ],
)
def test_the_systems_memory_is_found_also_where_the_kernel_tells_less(monkeypatch, lines, expected):
    def open_instead(path, mode):
        if lines is None:
            raise PermissionError(path)
        return io.BytesIO("\n".join(lines).encode())

    monkeypatch.setattr("minitune.executors.devices.open", open_instead, raising=False)
    monkeypatch.setattr(psutil, "virtual_memory", lambda: types.SimpleNamespace(total=77, available=66))
    assert memory() == expected


@pytest.mark.parametrize(
    ("files", "own", "limit"),
    [
        ({}, "0::/\n", None),
        ({"memory.max": "max"}, "0::/\n", None),
        ({"memory.max": "1000000"}, "0::/\n", 1_000_000),
        ({"a/memory.max": "1000000", "a/b/memory.max": "max"}, "0::/a/b\n", 1_000_000),
        ({"memory/d/memory.limit_in_bytes": "1000000"}, "3:memory:/d\n", 1_000_000),
        ({"memory/memory.limit_in_bytes": "9223372036854771712"}, "3:memory:/d\n", None),
    ],
)
def test_memory_is_bounded_by_the_limit(make_host, files, own, limit):
    make_host(files=files, own=own)
    assert memory_bytes() == (limit or psutil.virtual_memory().total)


# -- GPUs ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        ("2,3", ("2", "3")),
        ("0", ("0",)),
        (" 1 , 0 ", ("1", "0")),
        ("GPU-0aa0,MIG-1bb1", ("GPU-0aa0", "MIG-1bb1")),
        ("", ()),
        ("-1", ()),
        ("0,-1,1", ("0",)),
        ("NoDevFiles", ()),
        ("1,1", ("1",)),
    ],
)
def test_visible_devices_are_read_as_cuda_does(monkeypatch, text, ids):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", text)
    assert visible_devices() == ids
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
    assert visible_devices() is None


@pytest.mark.parametrize(
    ("visible", "device_files", "cards", "ids", "calls"),
    [
        ("5", "nvidia0", TWO_CARDS, ("5",), 0),
        ("", "nvidia0", TWO_CARDS, (), 0),
        (None, "", TWO_CARDS, (), 0),
        (None, "dxg", TWO_CARDS, ("0", "1"), 1),
        (None, "nvidiactl nvidia0 nvidia1", TWO_CARDS, ("0", "1"), 1),
        (None, "nvidia0", SPLIT_CARD, ("0",), 1),
    ],
)
def test_the_command_runs_once_where_there_may_be_a_gpu_and_no_variable_spares_it(
    make_host, nvidia_smi, visible, device_files, cards, ids, calls
):
    """Cards do not come and go."""
    count = nvidia_smi(listing(cards))
    make_host({} if visible is None else {"CUDA_VISIBLE_DEVICES": visible}, device_files=device_files)
    for _ in range(2):
        machine = machine_resources()
        assert machine.gpu_ids == detect_gpus() == ids
        assert machine.totals.get("GPU", 0) == len(ids)
    assert count() == calls


@pytest.mark.parametrize(
    "body", ["echo 'NVIDIA-SMI has failed'; exit 9", "echo 'No devices were found'", "kill -9 $$", None]
)
def test_failures_mean_no_gpu(make_host, nvidia_smi, body, caplog):
    if body is not None:
        nvidia_smi(body)
    with caplog.at_level(logging.DEBUG, logger="minitune"):
        make_host(device_files="nvidia0")
        assert detect_gpus() == ()
    assert all(record.levelno == logging.DEBUG for record in caplog.records)


def test_a_command_that_hangs_is_ended(make_host, nvidia_smi, monkeypatch):
    monkeypatch.setattr("minitune.executors.devices._NVIDIA_SMI_BOUND_S", 0.2)
    nvidia_smi("exec sleep 1000")
    make_host(device_files="nvidia0")
    assert detect_gpus() == ()


# -- what the user says --------------------------------------------------------------------------------------------


def test_totals_are_detected_from_quota_and_limit(make_host):
    make_host(files={"cpu.max": "100000 100000", "memory.max": "4096000"})
    machine = machine_resources()
    assert machine.totals == {"CPU": 1, "memory": 4_096_000}


def test_arguments_win_over_the_environment_and_that_over_detection(make_host):
    environ = {"MINITUNE_NUM_CPUS": "6", "MINITUNE_NUM_GPUS": "2"}
    make_host(environ)
    machine = machine_resources(resources={"tokens": 3, "Memory": 100})
    assert machine.totals == {"CPU": 6, "GPU": 2, "tokens": 3, "memory": 100}
    assert machine.gpu_ids == ("0", "1")
    make_host(environ)
    machine = machine_resources(3, 0, {"licences": 2, "memory": 100})
    assert machine.totals == {"CPU": 3, "licences": 2, "memory": 100}
    assert machine.gpu_ids == ()


def test_given_gpus_are_the_first_visible_ones(make_host, nvidia_smi):
    nvidia_smi(listing(TWO_CARDS))
    make_host({"CUDA_VISIBLE_DEVICES": "5,3"})
    assert [machine_resources(num_gpus=number).gpu_ids for number in (1, 2)] == [("5",), ("5", "3")]
    make_host(device_files="nvidia0")
    assert machine_resources(num_gpus=1).gpu_ids == ("0",)


def test_more_gpus_than_were_found_are_believed_with_a_warning(make_host, nvidia_smi, caplog):
    nvidia_smi(listing(TWO_CARDS))
    make_host(device_files="nvidia0")
    assert machine_resources(num_gpus=4).gpu_ids == ("0", "1", "2", "3")
    assert "only 2 GPUs were found" in caplog.text


@pytest.mark.parametrize(
    ("environ", "words"),
    [
        ({"MINITUNE_NUM_CPUS": "many"}, ["MINITUNE_NUM_CPUS", "'many'"]),
        ({"MINITUNE_NUM_CPUS": "-1"}, ["MINITUNE_NUM_CPUS", "-1"]),
        ({"MINITUNE_NUM_CPUS": "NaN"}, ["MINITUNE_NUM_CPUS", "nan"]),
        ({"MINITUNE_NUM_GPUS": "0.5"}, ["MINITUNE_NUM_GPUS", "whole", "0.5"]),
        ({"MINITUNE_NUM_GPUS": "true"}, ["MINITUNE_NUM_GPUS", "True"]),
        ({"MINITUNE_NUM_GPUS": "3", "CUDA_VISIBLE_DEVICES": "2,3"}, ["num_gpus=3", "'2,3'"]),
        ({"MINITUNE_NUM_GPUS": "1", "CUDA_VISIBLE_DEVICES": ""}, ["num_gpus=1", "CUDA_VISIBLE_DEVICES=''"]),
    ],
)
def test_bad_text_is_refused(make_host, environ, words):
    make_host(environ)
    with pytest.raises(ValueError) as caught:
        machine_resources()
    for word in words:
        assert word in str(caught.value)


def test_empty_variables_count_as_unset(make_host):
    names = ("MINITUNE_NUM_CPUS", "MINITUNE_NUM_GPUS")
    make_host(dict.fromkeys(names, " "))
    assert set(machine_resources().totals) == {"CPU", "memory"}
