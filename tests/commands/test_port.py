"""`minitune port` changes a script's imports, and lists the names that minitune lacks."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from command_runs import Minitune

GOOD = """\
import os, ray
\f
UNUSUAL = "\u2028"
import ray.tune
from ray import (
    train,
    tune as t,
)
from  ray.tune.suggest.basic_variant import BasicVariantGenerator  # ray stays in comments
from \\
    ray.tune import grid_search

text = "from ray import tune"
ray.init(num_cpus=1)
trials = ray.tune.run(lambda config: 1, num_samples=1, repeat=1, verbose=0).trials
print(trials[0].status, BasicVariantGenerator.__name__)
"""

PORTED = """\
import os, minitune as ray
\f
UNUSUAL = "\u2028"
import minitune as ray
from minitune import (
    train,
    tune as t,
)
from  minitune.tune.suggest.basic_variant import BasicVariantGenerator  # ray stays in comments
from \\
    minitune.tune import grid_search

text = "from ray import tune"
"""


def test_a_script_is_changed_in_its_imports_alone_and_runs(minitune: Minitune, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(GOOD)
    status, out, err = minitune("port", script)
    assert (status, err) == (0, "")
    assert "+import os, minitune as ray\n" in out
    assert script.read_text() == GOOD

    assert minitune("port", script, "--write") == (0, f"{script}: changed 5 imports\n", "")
    assert script.read_text().startswith(PORTED)
    env = {**os.environ, "MINITUNE_STORAGE_PATH": str(tmp_path / "runs"), "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, str(script)], env=env, capture_output=True, text=True, timeout=100)
    assert (done.returncode, done.stdout) == (0, "TERMINATED BasicVariantGenerator\n"), done.stderr


@pytest.mark.parametrize(
    ("lines", "text"),
    [
        (
            "from ray.rllib.algorithms.ppo import PPO",
            "'minitune.rllib': minitune has no reinforcement learning",
        ),
        ("from ray import serve", "minitune does not serve models"),
        ("from ray.train.torch import TorchTrainer", "minitune has no distributed training"),
        ("from ray.tune import nothing", "no attribute 'nothing'"),
        (
            "import ray\n@ray.remote\ndef f(): pass",
            "has no attribute 'remote': minitune has no tasks and actors",
        ),
        ("from ray import tune\ntune.Checkpoint.from_uri('x')", "Checkpoint.from_uri is gone: mount the storage"),
        ("from ray import tune\ntune.run(print, samples=3)", "2: run() takes no samples"),
        ("from ray import tune\ntune.TuneConfig(samples=3)", "2: TuneConfig() takes no samples; it takes mode, metric"),
        ("from ray import tune\ntune.run('PPO')", "2: no trainable is registered as 'PPO'"),
    ],
)
def test_what_is_missing_is_listed_with_its_line(minitune: Minitune, tmp_path: Path, lines: str, text: str) -> None:
    script = tmp_path / "script.py"
    script.write_text(lines)
    status, _, err = minitune("port", script)
    assert status == 1
    assert err.startswith(f"{script}:")
    assert text in err
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    "line",
    ["from ray.tune.integration.xgboost import TuneReportCallback", "from ray.tune.integration import xgboost"],
)
def test_a_package_that_is_not_installed_is_no_missing_feature(
    minitune: Minitune, tmp_path: Path, line: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "xgboost", None)
    monkeypatch.delitem(sys.modules, "minitune.integration.xgboost", raising=False)
    script = tmp_path / "script.py"
    script.write_text(f"{line}\n")
    status, _, err = minitune("port", script)
    assert (status, err.count("\n")) == (0, 1)
    assert err.startswith(f"{script}:1: this needs the package xgboost, which cannot be imported here: ")


def test_what_is_no_script_of_ray_is_said(minitune: Minitune, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text("print(1)\n")
    assert minitune("port", script) == (0, "", f"{script} imports nothing of Ray: nothing to change\n")
    script.write_text("from \uff52ay import tune\n", encoding="utf-8")  # for Python, this letter is an r
    assert minitune("port", script) == (0, "", f"{script} imports nothing of Ray: nothing to change\n")
    before = script.stat().st_mtime_ns
    assert minitune("port", script, "--write") == (0, "", f"{script} imports nothing of Ray: nothing to change\n")
    assert script.stat().st_mtime_ns == before
    script.write_text("print(\n")
    status, _, err = minitune("port", script)
    assert (status, "it must be a Python script" in err) == (1, True)
    status, _, err = minitune("port", tmp_path / "none.py")
    assert (status, "none.py" in err) == (1, True)
