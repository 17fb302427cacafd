"""The plot of what many trials cost, with matplotlib."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

GROWTH = Path(__file__).resolve().parents[3] / "benchmarks" / "growth.py"


def test_growth_over_the_number_of_trials_is_drawn(tmp_path: Path, bound_s: Callable[[float], float]) -> None:
    picture, numbers = tmp_path / "growth.png", tmp_path / "growth.json"
    command = [sys.executable, str(GROWTH), "--sizes", "20", "40", "--output", str(picture), "--json", str(numbers)]

    done = subprocess.run(
        [*command, "--directory", str(tmp_path / "runs")],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=bound_s(120),
    )

    assert done.returncode == 0, done.stderr
    assert picture.read_bytes().startswith(b"\x89PNG")
    samples = json.loads(numbers.read_text(encoding="utf-8"))
    assert [sample["trials"] for sample in samples] == [20, 40]
    assert "| 40 | " in done.stdout
