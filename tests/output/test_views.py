"""Small journals, stored as text, in all views: each has a file with what its reader sees.

`MINITUNE_UPDATE_VIEWS=1` writes the files again. Read the difference before you commit it.
"""

from __future__ import annotations

import html
import json
import os
import re
import time
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from minitune.base import clock
from minitune.base.clock import VirtualClock
from minitune.commands.cli import main
from minitune.output.live import render
from minitune.output.live_reporter import default_reporter
from minitune.output.reporters import RunInfo
from minitune.output.summary import run_html
from minitune.record.reading import read_run
from minitune.visualization import RunHistory
from minitune.visualization.page import RunData

UPDATES = "MINITUNE_UPDATE_VIEWS" in os.environ
VIEWS = Path(__file__).with_name("views")
WIDTH = 160
NOW_S = 1_700_000_100.0
"""The runs have begun a hundred seconds before."""


def live(path: str, capsys: pytest.CaptureFixture[str]) -> str:
    """The block that is redrawn, as if the driver went on."""
    run = read_run(path)
    with clock.use(VirtualClock(NOW_S)):
        reporter = default_reporter()
        reporter.configure(verbose=0, print_errors=True)
        reporter.setup(run.setup.begun_s, run.total_samples, *run.setup.goal.given)
        reporter.note_run(RunInfo(path))
        return "\n".join(render(reporter._snapshot(run.trials), WIDTH, 40))


def notebook(path: str, capsys: pytest.CaptureFixture[str]) -> str:
    """The cells of the table in a notebook, and the lines around it."""
    run = read_run(path)
    text = re.sub(r"<style>.*?</style>|<svg.*?</svg>", "", run_html(run.trials, run.setup.goal, path))
    text = re.sub(r"</t[hd]><t[hd][^>]*>", " | ", text)
    return html.unescape(re.sub(r"(<[^>]*>)+", "\n", text)).strip()


def page(path: str, capsys: pytest.CaptureFixture[str]) -> str:
    """What the page has of the run and its trials, without their courses."""
    data = json.loads(RunData(RunHistory(path)).text())
    told = {
        name: data[name]
        for name in ("state", "counts", "params", "metrics", "best", "earlier_best", "total", "compared")
    }
    names = ("number", "ended", "value", "params", "metrics", "error")
    rows = [{name: trial[name] for name in names} for trial in data["trials"]]
    return "\n".join(map(json.dumps, [told, *rows]))


def command(*arguments: str) -> Callable[[str, pytest.CaptureFixture[str]], str]:
    """What a command prints."""

    def printed(path: str, capsys: pytest.CaptureFixture[str]) -> str:
        main([arguments[0], path, *arguments[1:]])
        return capsys.readouterr().out.strip()

    return printed


SURFACES = {
    "live": live,
    "watch": command("watch"),
    "ls": command("ls"),
    "show": command("show"),
    "trial": command("show", "1"),
    "best": command("best"),
    "notebook": notebook,
    "page": page,
}


def written(journal: Path, directory: Path) -> Path:
    """A run with this journal. The stored text lacks the checksums of its lines."""
    directory.mkdir()
    bodies = [line.encode("ascii") for line in journal.read_text("ascii").splitlines()]
    lines = [b"%08x %s\n" % (zlib.crc32(body), body) for body in bodies]
    (directory / "journal").write_bytes(b"".join(lines))
    return directory


@pytest.fixture
def utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Dates as everywhere."""
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "UTC")
        time.tzset()
        yield
    time.tzset()


@pytest.mark.usefixtures("utc")
@pytest.mark.parametrize("name", sorted(path.stem for path in VIEWS.glob("*.journal")))
def test_each_view_shows_the_run_as_its_file_says(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(WIDTH))
    run = written(VIEWS / f"{name}.journal", tmp_path / name)
    parts = []
    for surface, show in SURFACES.items():
        shown = show(str(run), capsys).replace(str(tmp_path), "RUNS")
        parts.append(f"=== {surface} ===\n{shown}\n")
    text = re.sub(r" +$", "", "\n".join(parts), flags=re.MULTILINE)
    expected = VIEWS / f"{name}.txt"
    if UPDATES:
        expected.write_text(text, "utf-8")
    assert text == expected.read_text("utf-8"), "MINITUNE_UPDATE_VIEWS=1 writes the file again"
