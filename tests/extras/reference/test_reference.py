"""The site: it is built without a warning, has every page of the manual, and every public name in the reference."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import minitune
from minitune import integration, schedulers, search, sklearn, stopper, visualization

ROOT = Path(__file__).resolve().parents[3]


def test_the_site_has_every_page_and_every_public_name(tmp_path: Path, bound_s: Callable[[float], float]) -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / ".ci" / "site"), str(tmp_path)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=bound_s(120),
    )
    assert done.returncode == 0, done.stderr
    for page in (ROOT / "minitune" / "docs").glob("*.md"):
        assert (tmp_path / f"{page.stem}.html").exists()
    for module in (minitune, schedulers, search, stopper, sklearn, visualization):
        text = (tmp_path / "reference" / f"{module.__name__}.html").read_text(encoding="utf-8")
        names = re.findall(r'<h2 id="[^"]*?([^."]+)"', text)
        names += re.findall(r'<h2 id="\w+">(\w+)<a', text)  # other names of the same
        missing = [name for name in module.__all__ if name not in names and not name.startswith("__")]
        assert not missing, module.__name__
        if module is minitune:
            assert names[:6] == ["Tuner", "TuneConfig", "RunConfig", "report", "get_checkpoint", "Checkpoint"]
    for name in integration.__all__:
        text = (tmp_path / "reference" / f"minitune.integration.{name}.html").read_text(encoding="utf-8")
        assert "Callback" in text, name
    assert "search_index" in str(list((tmp_path / "search").iterdir()))
