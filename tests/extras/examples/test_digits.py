"""The digits example, run as users run it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from minitune import Checkpoint, ExperimentAnalysis
from minitune.examples import digits

ROOT = Path(__file__).resolve().parents[3]


def test_the_best_network_reads_digits_that_it_has_never_seen(
    tmp_path: Path, bound_s: Callable[[float], float]
) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "minitune.examples.digits", "--storage", str(tmp_path / "runs")],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=bound_s(120),
    )
    assert done.returncode == 0, done.stdout + done.stderr
    printed = re.search(r"Held-out accuracy: +([\d.]+)", done.stdout)
    path = re.search(r"Best checkpoint: +(.+)", done.stdout)
    assert printed is not None
    assert path is not None
    accuracy = digits.load(Checkpoint(path[1]))["model"].score(*digits.split(1)[2])
    assert float(printed[1]) == round(accuracy, 4) >= 0.95

    (run,) = (tmp_path / "runs").iterdir()
    analysis = ExperimentAnalysis(run, default_metric="accuracy", default_mode="max")
    assert analysis.get_best_trial(scope="all").local_path == os.path.dirname(path[1])
    epochs = [trial.last_result["training_iteration"] for trial in analysis.trials]
    assert max(epochs) == digits.MAX_EPOCHS
    assert min(epochs) < digits.MAX_EPOCHS  # some were stopped early


def test_the_parts_have_nothing_in_common() -> None:
    parts = [{image.tobytes() for image in images} for images, _ in digits.split(1)]
    assert sum(map(len, parts)) == len(set.union(*parts)) == 1797
