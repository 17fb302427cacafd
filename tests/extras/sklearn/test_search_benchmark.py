"""The benchmark of the search runs and prints its results. Its speed is not tested here."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

BENCHMARK = Path(__file__).resolve().parents[3] / "benchmarks" / "sklearn_search.py"


def test_the_benchmark_compares_both_searches() -> None:
    command = [sys.executable, str(BENCHMARK), "--seeds", "1", "--candidates", "2", "--epochs", "3"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stderr == ""
    assert done.returncode in (0, 1)  # with two candidates there is little to stop
    lines = done.stdout.splitlines()
    assert [line.split()[1] for line in lines[1:3]] == ["RandomizedSearchCV", "TuneSearchCV"]
    assert "times as fast, mean accuracy" in lines[3]
