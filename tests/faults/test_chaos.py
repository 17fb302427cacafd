"""A run whose workers and driver are killed at random, by the benchmark that does it for longer."""

import sys
from pathlib import Path

import pytest

CHAOS = Path(__file__).resolve().parents[2] / "benchmarks" / "chaos.py"


@pytest.mark.skipif(sys.platform != "linux", reason="finds the processes of a run in /proc")
@pytest.mark.parametrize("scheduler", ["fifo", "asha"])
def test_nothing_is_lost_doubled_or_left_when_workers_and_drivers_are_killed(script, scheduler):
    arguments = ["--trials", "8", "--driver-kills", "1", "--worker-kills", "5", "--life-s", "0.6", "--limit-s", "100"]
    process = script.start_command([sys.executable, str(CHAOS), "--scheduler", scheduler, *arguments])
    stdout, stderr = script.finish(process, 120)
    assert process.returncode == 0, stdout + stderr
    assert stdout.count("ok  ") >= 12
