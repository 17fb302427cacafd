"""Libraries that tune with Ray Tune, and trainers of Ray Train with the real libraries: each a program of its own."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).parent / "scripts"
LAST_LINE = {
    "ultralytics_tunes": "2 0 True 2",
    "neuralforecast_tunes": "2 0 True 6",
    "transformers_tunes": "2 0 True 2",
    "flaml_tunes": "4 0 True 2",
    "chemprop_tunes": "2 0 True 4",
    "scvi_tunes": "2 0 True 2",
    "torch_trains": "2 0 True 2",
    "lightning_trains": "2 0 True 2",
    "transformers_trains": "2 0 True 2",
    "tensorflow_trains": "2 0 True 2",
    "xgboost_trains": "2 0 True 2",
}
"""Each script prints: the number of trials, how many failed, whether the best one is as it must be, and a number."""


@pytest.mark.parametrize("name", LAST_LINE)
def test_a_library_tunes_and_a_trainer_trains(name: str, tmp_path: Path) -> None:
    library = name.partition("_")[0]
    if importlib.util.find_spec(library) is None:
        pytest.skip(f"{library} is not installed: .ci/extras libraries")
    env = {
        **os.environ,
        "MINITUNE_STORAGE_PATH": str(tmp_path / "stored"),
        "HF_HUB_OFFLINE": "1",
        "YOLO_CONFIG_DIR": str(tmp_path),
        "YOLO_OFFLINE": "true",
    }
    command = [sys.executable, "-m", "minitune.as_ray", str(SCRIPTS / f"{name}.py")]
    done = subprocess.run(
        command,
        cwd=tmp_path,
        env=env,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-5000:]
    assert done.stdout.splitlines()[-1] == LAST_LINE[name], done.stdout[-5000:] + done.stderr[-5000:]
