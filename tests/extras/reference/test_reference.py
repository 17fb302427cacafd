"""The site: it is built without a warning, has every page of the manual, and every public name in the reference."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import minitune
from minitune import integration, schedulers, search, sklearn, stopper, visualization
from minitune.ray.names import MOVED

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
    reference = tmp_path / "reference"
    index = (reference / "index.html").read_text(encoding="utf-8")
    shown = {}
    for page in reference.glob("*.html"):
        text = page.read_text(encoding="utf-8")
        names = set(re.findall(r'<h2 id="[^"]*?([^."]+)"', text))
        names |= set(re.findall(r'<h2 id="\w+">(\w+)<a', text))  # other names of the same
        shown[page.name] = names
    for module in (minitune, schedulers, search, stopper, sklearn, visualization):
        linked = {name: file for file, name in re.findall(r'href="([\w.]+html)">(\w+)</a>', index)}
        for name in module.__all__:
            if not name.startswith("__"):
                assert name in shown[linked[name]], f"{module.__name__}.{name}"
    assert not (reference / "minitune.search.Searcher.html").exists(), "it has a page below minitune"
    assert (reference / "minitune.Tuner.html").exists()
    for page in tmp_path.rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        assert "<blockquote>" not in text, (
            f"{page.name}: an example is shown as a quotation; it belongs below `Examples:`"
        )
        assert len(text) < 300_000, page.name
    manual = (tmp_path / "llms.txt").read_text(encoding="utf-8")
    assert all(f"<!-- {page.name} -->" in manual for page in (ROOT / "minitune" / "docs").glob("*.md"))
    for name in integration.__all__:
        module = MOVED.get(f"integration.{name}", f"minitune.integration.{name}")
        text = (tmp_path / "reference" / f"{module}.html").read_text(encoding="utf-8")
        assert "Callback" in text, name
    assert "search_index" in str(list((tmp_path / "search").iterdir()))
