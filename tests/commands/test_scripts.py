"""Scripts of users, as the commands run them."""

import shutil
import sys
from pathlib import Path

import pytest

from minitune.commands.again import plan_of_script
from minitune.error import TuneError

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

    with pytest.raises(TuneError, match="without a fit"):
        plan_of_script("train.py", ["--epochs", "2"], lambda plan: True)

    found = sys.modules["__main__"].train()
    assert found == ("__main__", str(script), ["train.py", "--epochs", "2"], str(tmp_path), 3, {"lr": int})
    assert sys.modules.pop("beside").value == 3
