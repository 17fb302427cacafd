"""The PyTorch example, run as users run it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from minitune import Checkpoint, Result
from minitune.examples import torch_spirals

ROOT = Path(__file__).resolve().parents[3]


def test_the_best_network_tells_the_spirals_apart(tmp_path: Path, bound_s: Callable[[float], float]) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "minitune.examples.torch_spirals", "--storage", str(tmp_path / "runs")],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=bound_s(180),
    )
    assert done.returncode == 0, done.stdout + done.stderr
    printed = re.search(r"Held-out accuracy: +([\d.]+)", done.stdout)
    path = re.search(r"Best checkpoint: +(.+)", done.stdout)
    assert printed is not None
    assert path is not None
    units = Result.from_path(os.path.dirname(path[1])).config["units"]
    model = torch_spirals.load(Checkpoint(path[1]), units)
    assert float(printed[1]) == round(torch_spirals.accuracy(model, *torch_spirals.spirals(4096, seed=3)), 4) >= 0.9
