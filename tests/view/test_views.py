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
from pathlib import Path

import pytest

from minitune.base import clock
from minitune.base.clock import VirtualClock
from minitune.commands.cli import main
from minitune.output.live import render
from minitune.output.live_reporter import default_reporter
from minitune.output.reporters import RunInfo
from minitune.record.reading import read_run
from minitune.view.history import RunHistory
from minitune.view.summary import run_html
from minitune.visualization.page import run_data

UPDATES = "MINITUNE_UPDATE_VIEWS" in os.environ
VIEWS = Path(__file__).with_name("views")
WIDTH = 160
NARROW = 80
NOW_S = 1_700_000_100.0
"""The runs have begun a hundred seconds before."""


def live(path, capsys):
    """The block that is redrawn, as if the driver went on."""
    run = read_run(path)
    with clock.use(VirtualClock(NOW_S)):
        reporter = default_reporter()
        reporter.configure(verbose=0, print_errors=True)
        reporter.setup(run.setup.begun_s, run.total_samples, *run.setup.goal.given)
        reporter.note_run(RunInfo(path))
        return "\n".join(render(reporter._snapshot(run.trials), WIDTH, 40))


def notebook(path, capsys):
    """The cells of the table in a notebook, and the lines around it."""
    run = read_run(path)
    text = re.sub(r"<style>.*?</style>|<svg.*?</svg>", "", run_html(run.trials, run.setup.goal, path))
    text = re.sub(r"</t[hd]><t[hd][^>]*>", " | ", text)
    return html.unescape(re.sub(r"(<[^>]*>)+", "\n", text)).strip()


def page(path, capsys):
    """What the page has of the run and its trials, without their courses."""
    data = run_data(RunHistory(path))
    told = {name: data[name] for name in ("counts", "params", "metrics", "best", "remark", "compared")}
    names = ("number", "ended", "value", "params", "metrics", "error")
    rows = [{name: trial[name] for name in names} for trial in data["trials"]]
    return "\n".join(map(json.dumps, [told, *rows]))


def command(name, *arguments, columns=None):
    """What a command prints, in a pipe or in a terminal with so many columns."""

    def printed(path, capsys):
        with pytest.MonkeyPatch.context() as patch, clock.use(VirtualClock(NOW_S)):
            if columns is not None:
                patch.setattr("sys.stdout.isatty", lambda: True, raising=False)
                patch.setenv("COLUMNS", str(columns))
                patch.setenv("NO_COLOR", "1")
            main([name, *path.split(), *arguments])
        shown = capsys.readouterr()
        text = (shown.out + shown.err).strip()
        if columns is not None:
            text = text[text.index("+-") :]  # the heading is wrapped by the length of the path
        # Libraries of machines differ in the last digits.
        return re.sub(r"\d+\.\d{7,}", lambda found: f"{float(found[0]):.6g}", text)

    return printed


SURFACES = {
    "live": live,
    "watch": command("watch"),
    "ls": command("ls"),
    "ls in a narrow terminal": command("ls", columns=NARROW),
    "show": command("show", "--why"),
    "trial": command("show", "1"),
    "best": command("best"),
    "show as JSON": command("show", "--json"),
    "best as JSON": command("best", "--json"),
    "notebook": notebook,
    "page": page,
}


def written(journal, directory):
    """A run with this journal. The stored text lacks the checksums of its lines."""
    directory.mkdir()
    bodies = [line.encode("ascii") for line in journal.read_text("ascii").splitlines()]
    lines = [b"%08x %s\n" % (zlib.crc32(body), body) for body in bodies]
    (directory / "journal").write_bytes(b"".join(lines))
    return directory


@pytest.fixture
def utc(monkeypatch):
    """Dates as everywhere."""
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "UTC")
        time.tzset()
        yield
    time.tzset()


def check(name, parts):
    """What is shown is what the file says."""
    told = "\n".join(f"=== {title} ===\n{text}\n" for title, text in parts.items())
    text = re.sub(r" +$", "", told, flags=re.MULTILINE)
    expected = VIEWS / f"{name}.txt"
    if UPDATES:
        expected.write_text(text, "utf-8")
    assert text == expected.read_text("utf-8"), "MINITUNE_UPDATE_VIEWS=1 writes the file again"


NAMES = sorted(path.stem for path in VIEWS.glob("*.journal"))


@pytest.mark.usefixtures("utc")
@pytest.mark.parametrize("name", NAMES)
def test_each_view_shows_the_run_as_its_file_says(name, tmp_path, capsys):
    run = written(VIEWS / f"{name}.journal", tmp_path / name)
    check(name, {title: show(str(run), capsys).replace(str(tmp_path), "RUNS") for title, show in SURFACES.items()})


@pytest.mark.usefixtures("utc")
def test_runs_are_listed_as_the_file_says(tmp_path, capsys):
    for name in NAMES:
        written(VIEWS / f"{name}.journal", tmp_path / name)
    (tmp_path / "damaged").mkdir()
    (tmp_path / "damaged" / "journal").write_bytes(b"x\ny\n")
    two = f"{tmp_path / 'ends'} {tmp_path / 'confirmed'}"
    views = {
        "ls": command("ls")(str(tmp_path), capsys),
        "ls in a narrow terminal": command("ls", columns=NARROW)(str(tmp_path), capsys),
        "ls of two": command("ls")(two, capsys),
        "ls of two in a narrow terminal": command("ls", columns=NARROW)(two, capsys),
        "ls of two as JSON": command("ls", "--json")(two, capsys),
    }
    check("runs", {title: text.replace(str(tmp_path), "RUNS") for title, text in views.items()})
