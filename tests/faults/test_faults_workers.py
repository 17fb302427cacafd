"""Workers that die or do harm in ways that are rare: in the midst of a message, while they load, over and over."""

import json
import os
import re
import signal
import time
from pathlib import Path

import pytest
from kit import control_group, fit, is_gone, journal_of

from minitune import Trainable, grid_search, report
from minitune.error import WorkerStartError

SCRIPTS = Path(__file__).with_name("scripts")

# -- in the midst of a message -----------------------------------------------------------------------------------------


# -- signals and memory ------------------------------------------------------------------------------------------------


def test_no_memory_is_an_ordinary_error_and_costs_the_worker():
    def limit(more_bytes):
        import resource

        used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + more_bytes, resource.getrlimit(resource.RLIMIT_AS)[1]))

    def take_too_much():
        return bytes(2 * 10**9)

    def trainable(config):
        report({"pid": os.getpid()})
        if config["x"] == "own":
            limit(50_000_000)
            take_too_much()
        if config["x"] == "report":
            blob = bytes(40_000_000)
            limit(20_000_000)
            report({"pid": os.getpid(), "blob": blob})

    space = {"x": grid_search(["own", "report", "last"])}
    own, in_report, last = grid = fit(trainable, space, executor="local", reuse_actors=True, max_concurrent_trials=1)
    assert isinstance(own.error.__cause__, MemoryError)
    assert "in take_too_much" in str(own.error)
    assert isinstance(in_report.error.__cause__, MemoryError)
    assert "not enough memory to send" in str(in_report.error)
    assert last.error is None
    assert len({result.metrics["pid"] for result in grid}) == 3, "no worker is used again"


def test_a_death_for_lack_of_memory_is_known_from_the_kernel(script):
    limits = {"/sys/fs/cgroup/memory": "memory.limit_in_bytes", "/sys/fs/cgroup": "memory.max"}
    group = control_group(limits, 200_000_000)
    if not group:
        pytest.skip("no control group with a limit of memory can be made here")
    try:
        stdout = script.run(
            SCRIPTS / "takes_all_memory.py",
            group,
        )
    finally:
        os.rmdir(group)
    higher, _, error = stdout.partition(" ")
    assert higher == "True", "the driver is never the victim"
    assert "died: SIGKILL (9), out of memory: the kernel's count of such kills rose" in error
    assert "possibly" not in error
    peak = re.search(r"peak memory (\d+) MiB", error)
    assert peak
    assert 150 < int(peak[1]) < 250  # with what is shared


def test_a_setup_that_fails_counts_like_any_failure():
    tries = []

    class Fails(Trainable):
        def setup(self, config):
            tries.append(1)
            raise ValueError("not today")

    (result,) = fit(Fails, max_failures=2)
    assert isinstance(result.error, WorkerStartError)
    assert isinstance(result.error.__cause__, ValueError)
    assert str(result.error).startswith("the trainable could not be loaded or set up:")
    assert "not today" in str(result.error)
    assert len(tries) == 3


# -- over and over -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("max_failures", [0, 1])
def test_the_record_of_a_death_has_its_time(max_failures, tmp_path):
    witness = tmp_path / "killed"

    def trainable(config):
        report({"y": 1})
        if not witness.exists():
            witness.write_text(str(time.time()))
            os.kill(os.getpid(), signal.SIGKILL)

    fit(trainable, executor="local", max_failures=max_failures)
    [record] = [record for record in journal_of() if record.get("facts")]
    assert record["status"] == ("PENDING" if max_failures else "ERROR")
    assert float(witness.read_text()) <= record["facts"]["died_at"] <= record["at"]


def test_unkillable_worker_is_named_and_keeps_its_resources(script):
    """The driver's kill does nothing here. A later trial that needs the same resources fails."""
    process = script.start(
        SCRIPTS / "unkillable.py",
        MINITUNE_NUM_CPUS="2",
        MINITUNE_FORCE_TRIAL_CLEANUP_S="0.1",
        MINITUNE_START_METHOD="interpreter",
    )
    stdout, stderr = script.finish(process)
    stuck, half, most, all_, pid = json.loads(stdout)
    assert f"could not be killed, pid {pid}" in stuck
    assert f"could not be killed, pid {pid}: its resources stay in use" in stderr
    assert (half, most) == ("None", "None")
    assert "CPU: 2 requested, 1 in total" in all_
    script.wait_until(lambda: is_gone(pid))  # the channel closes with the driver


def test_a_flood_of_output_goes_to_its_file_and_not_through_the_driver(script):
    stdout = script.run(SCRIPTS / "floods.py")
    assert stdout == "None True\n"
    [path] = script.storage.glob("run/trainable*/stdout")
    size = path.stat().st_size
    path.unlink()
    assert size == 200_000_000
