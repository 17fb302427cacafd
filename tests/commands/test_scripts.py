"""Scripts of users, as the commands run them."""

import shutil
import sys
from pathlib import Path

import pytest

from minitune.commands.scripts import run_script

SCRIPTS = Path(__file__).parent / "scripts"


def test_a_script_runs_as_python_would_run_it(tmp_path, monkeypatch):
    script = tmp_path / "train.py"
    (tmp_path / "beside.py").write_text("value = 3\n")
    shutil.copy(SCRIPTS / "tells_how_it_runs.py", script)
    for name in ("argv", "path"):
        monkeypatch.setattr(sys, name, list(getattr(sys, name)))
    monkeypatch.setitem(sys.modules, "__main__", sys.modules["__main__"])
    monkeypatch.delitem(sys.modules, "beside", raising=False)
    monkeypatch.chdir(tmp_path)

    run_script("train.py", ["--epochs", "2"], lambda plan: True)

    found = sys.modules["__main__"].train()
    assert found == ("__main__", str(script), ["train.py", "--epochs", "2"], str(tmp_path), 3, {"lr": int})
    assert sys.modules.pop("beside").value == 3


@pytest.mark.parametrize("is_marked", [True, False])
def test_a_script_of_a_package_is_run_again_as_its_module(script, is_marked):
    package = script.directory / "training" / "inner"
    package.mkdir(parents=True)
    if is_marked:
        for directory in (package, package.parent):
            (directory / "__init__.py").touch()
    (package / "data.py").write_text("N = 3\n")
    shutil.copy(SCRIPTS / "module_of_a_package.py", package / "train.py")
    first = script.run_command([sys.executable, "-m", "training.inner.train"])
    again = script.run_minitune("resume", "training/inner/train.py")
    one = script.run_minitune("rerun", "run", "0", "--script", "training/inner/train.py")
    assert [done.returncode for done in (first, again, one)] == [0, 0, 0], (first, again, one)
    assert first.stdout == again.stdout == "GOT [3]\n"
    assert "ended after 1 report" in one.stdout
