"""`minitune port` changes the imports of scripts and notebooks, and lists the names that minitune lacks."""

from __future__ import annotations

import json
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
from ray.tune import grid_search

text = "from ray import tune"
ray.init(num_cpus=1)
trials = ray.tune.run(lambda config: 1, num_samples=1, repeat=1, verbose=0).trials
print(trials[0].status, BasicVariantGenerator.__name__)
"""

PORTED = """\
import os, minitune.ray as ray
\f
UNUSUAL = "\u2028"
import minitune.ray as ray
from minitune import (
    train,
    tune as t,
)
from  minitune.tune.suggest.basic_variant import BasicVariantGenerator  # ray stays in comments
from minitune.tune import grid_search

text = "from ray import tune"
"""


def test_a_script_is_changed_in_its_imports_alone_and_runs(minitune: Minitune, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(GOOD)
    status, out, err = minitune("port", script)
    assert (status, err) == (0, "")
    assert "+import os, minitune.ray as ray\n" in out
    assert script.read_text() == GOOD

    assert minitune("port", script, "--write") == (0, f"{script}: changed 5 lines\n", "")
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
        ("if True: import ray", "1: this import of ray stays, because it does not begin a line: change it yourself"),
        ("from \\\n    ray import tune", "1: this import of ray stays"),
    ],
)
def test_missing_names_are_listed_with_their_lines(minitune: Minitune, tmp_path: Path, lines: str, text: str) -> None:
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


def test_a_package_that_is_broken_does_not_end_the_command(
    minitune: Minitune, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "packages" / "xgboost"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("raise OSError('libxgb.so: cannot open\\n shared object file')\n")
    monkeypatch.syspath_prepend(package.parent)
    for name in ("xgboost", "minitune.integration.xgboost"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    script = tmp_path / "script.py"
    script.write_text(
        "from ray import tune\nfrom ray.tune.integration.xgboost import TuneReportCallback\ntune.nothing\n"
    )
    status, out, err = minitune("port", script)
    assert (status, "+from minitune.tune.integration.xgboost import" in out) == (1, True)
    first, second = err.splitlines()
    assert first == (
        f"{script}:2: this needs a package that is installed but cannot be imported here: "
        "OSError: libxgb.so: cannot open shared object file"
    )
    assert second.startswith(f"{script}:3: module 'minitune' has no attribute 'nothing'")


def test_the_module_for_ray_has_the_version_of_ray(minitune: Minitune, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import ray as r, ray.tune as t\nfrom ray import __version__, tune\nimport ray\n"
        "assert ray.__version__ == r.__version__ == __version__\n"
        "assert tuple(map(int, __version__.split('.'))) >= (2, 40)\n"
        "assert ray.tune is tune is t\nprint(ray.tune.schedulers.ASHAScheduler.__module__)\n"
    )
    assert minitune("port", script, "--write")[::2] == (0, "")
    assert script.read_text().startswith(
        "import minitune.ray as r, minitune.tune as t\nfrom minitune.ray import __version__, tune\n"
    )
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=100)
    assert (done.returncode, done.stdout) == (0, "minitune.schedulers.async_hyperband\n"), done.stderr


MAGICS = """\
%%capture
!pip install -q "ray[tune]" \\
    optuna
%matplotlib inline
?tune.run
files = !ls *.csv
if files:
    %cd data
from ray import tune
text = \'\'\'
!from ray import tune
\'\'\'
tune.nothing
%%time
from ray.tune import grid_search
import ray
"""


def test_lines_for_ipython_stay_in_a_script(minitune: Minitune, tmp_path: Path) -> None:
    script = tmp_path / "exported.py"
    script.write_text(MAGICS)
    status, out, err = minitune("port", script, "--write")
    assert (status, out) == (1, f"{script}: changed 3 lines\n")
    ported = MAGICS.replace("\nfrom ray", "\nfrom minitune").replace("\nimport ray", "\nimport minitune.ray as ray")
    assert script.read_text() == ported
    (line,) = err.splitlines()
    assert line.startswith(f"{script}:13: module 'minitune' has no attribute 'nothing'")


def test_a_script_whose_magics_hide_an_error_is_refused(minitune: Minitune, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text("!ls\nfrom ray import tune\nprint(\n")
    status, out, err = minitune("port", script)
    assert (status, out) == (1, "")
    assert "line 3: '(' was never closed; the file must be a Python script or a notebook" in err


def notebook(*cells: str | list[str], **more: object) -> dict[str, object]:
    found: list[object] = [{"cell_type": "markdown", "metadata": {}, "source": ["from ray import tune: é"]}]
    for source in cells:
        found.append({"cell_type": "code", "execution_count": None, "metadata": {}, "outputs": [], "source": source})
    return {"cells": found, "metadata": {}, "nbformat": 4, "nbformat_minor": 5, **more}


def test_a_notebook_is_changed_in_its_cells(minitune: Minitune, tmp_path: Path) -> None:
    file = tmp_path / "tune.ipynb"
    before = notebook(
        ["%%capture\n", "!pip install ray[tune]\n", "import ray"],
        "from ray import tune\ntune.Tuner(print)",
        [],
        ["%%bash\n", "ls -l\n"],
        ["tune.nothing\n", "ray.get_actor('x')"],
        ["print 'Python 2'\n"],
    )
    file.write_text(json.dumps(before, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    text = file.read_text(encoding="utf-8")
    status, out, err = minitune("port", file)
    assert status == 1
    assert f"--- {file}:cell 2\n" in out
    assert "\n-from ray import tune\n+from minitune import tune\n tune.Tuner(print)\n" in out
    lines = err.splitlines()
    assert lines[0].startswith(f"{file}:cell 5:1: module 'minitune' has no attribute 'nothing'")
    assert lines[1].startswith(f"{file}:cell 5:2: module 'minitune' has no attribute 'get_actor': minitune has no")
    assert lines[2].startswith(f"{file}:cell 6:1: ")
    assert lines[2].endswith(": the cell is not Python, so its names are not looked up")
    assert len(lines) == 3
    assert file.read_text(encoding="utf-8") == text

    assert minitune("port", file, "--write")[1] == f"{file}: changed 2 lines\n"
    ported = text.replace('"import ray"', '"import minitune.ray as ray"').replace(
        '"from ray import', '"from minitune import'
    )
    assert file.read_text(encoding="utf-8") == ported.replace("from minitune import tune: é", "from ray import tune: é")


def test_a_module_that_needs_a_package_is_no_missing_attribute(
    minitune: Minitune, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.delitem(sys.modules, "minitune.legacy.mnist_pytorch", raising=False)
    script = tmp_path / "script.py"
    script.write_text("import ray.tune.examples.mnist_pytorch\nray.tune.examples.mnist_pytorch.ConvNet\n")
    status, _, err = minitune("port", script)
    assert (status, err.count("\n")) == (0, 1)
    assert err.startswith(f"{script}:2: this needs the package torch, which cannot be imported here: ")


def test_broken_notebook_is_an_error(minitune: Minitune, tmp_path: Path) -> None:
    file = tmp_path / "tune.ipynb"
    for found in (notebook("print(1)"), notebook([]), notebook(), {"cells": []}):
        file.write_text(json.dumps(found))
        assert minitune("port", file) == (0, "", f"{file} imports nothing of Ray: nothing to change\n")
    file.write_text("import ray")
    status, _, err = minitune("port", file)
    assert (status, "a notebook must be JSON" in err) == (1, True)
    file.write_text('{"worksheets": [], "nbformat": 3}')
    status, _, err = minitune("port", file)
    assert (status, "must be a notebook of format 4" in err) == (1, True)


def test_script_without_ray_stays_unchanged(minitune: Minitune, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text("print(1)\n")
    assert minitune("port", script) == (0, "", f"{script} imports nothing of Ray: nothing to change\n")
    before = script.stat().st_mtime_ns
    assert minitune("port", script, "--write") == (0, "", f"{script} imports nothing of Ray: nothing to change\n")
    assert script.stat().st_mtime_ns == before
    script.write_text("print(\n")
    status, _, err = minitune("port", script)
    assert (status, "the file must be a Python script" in err) == (1, True)
    status, _, err = minitune("port", tmp_path / "none.py")
    assert (status, "none.py" in err) == (1, True)
