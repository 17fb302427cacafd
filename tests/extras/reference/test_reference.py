"""The API reference: it is built without a warning, and has every public name."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import minitune
from minitune import integration, schedulers, search, sklearn, stopper, visualization

ROOT = Path(__file__).resolve().parents[3]


def test_the_reference_has_every_public_name(tmp_path: Path, bound_s: Callable[[float], float]) -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / ".ci" / "reference"), str(tmp_path)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=bound_s(120),
    )
    assert (done.returncode, done.stderr) == (0, "")
    for module in (minitune, schedulers, search, stopper, sklearn, visualization):
        page = (tmp_path / f"{module.__name__.replace('.', '/')}.html").read_text(encoding="utf-8")
        missing = [name for name in module.__all__ if f'id="{name}"' not in page and not name.startswith("__")]
        assert not missing, module.__name__
    for name in integration.__all__:
        page = (tmp_path / "minitune" / "integration" / f"{name}.html").read_text(encoding="utf-8")
        assert "Callback" in page, name
    first = (tmp_path / "minitune.html").read_text(encoding="utf-8")
    names = re.findall(r'<section id="(\w+)"', first)
    assert names[:6] == ["Tuner", "TuneConfig", "RunConfig", "report", "get_checkpoint", "Checkpoint"]
    assert first.index("get_best_result") < first.index('<section id="Tuner"')
