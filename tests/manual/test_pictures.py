"""The pictures and listings of README.md and the manual match the screen, the journal and the source."""

import importlib
import inspect
import json
import os
import pkgutil
import re
import subprocess
import sys
from pathlib import Path

from manual_pages import MANUAL, PICTURES, ROOT, blocks

import minitune
from minitune.record import records

SCRIPTS = Path(__file__).with_name("scripts")

FIRST_RUN = MANUAL / "first-run.md"
HOW_IT_WORKS = MANUAL / "how-it-works.md"
RECORDS = MANUAL / "records.md"


def picture(page, name):
    """The picture of that name in a page."""
    (body,) = [block.body for block in blocks(page) if block.language == "text" and PICTURES[name] in block.body]
    return body


def shape(line):
    """A line of the live view without figures, ids, widths, states and the length of the bar: which states trials have
    in a frame depends on the moment.
    """
    line = re.sub(r"\[[-#=]+\]", "BAR", line)
    line = re.sub(r"train_\w+", "TRIAL", line)
    line = re.sub(r"-?\d[\d.]*(e-?\d+)?%?", "N", line)
    line = re.sub(r"N (running|pending|finished|stopped)(, N (running|pending|finished|stopped))*", "STATES", line)
    line = re.sub(r"TRIAL +(running|pending|finished|stopped at N by ASHA)", "TRIAL STATE", line)
    return " ".join(line.split())


def test_the_picture_of_the_live_view_has_the_lines_that_its_example_draws(tmp_path, monkeypatch):
    from output.terminal import Terminal  # beside the tests of what is shown

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NO_COLOR", "1")
    (example,) = [block for block in blocks(FIRST_RUN) if block.file_name == "valley.py"]
    with Terminal(columns=100) as terminal:
        exec(compile(example.body, "example.py", "exec"), {"__name__": "example"})

    drawn = {shape(line) for frame in terminal.frames for line in frame}
    for line in picture(FIRST_RUN, "live view").splitlines():
        assert shape(line) in drawn, "\n".join(["no such line was drawn:", line, *sorted(drawn)])


def line_of(record):
    """One line of the manual's story for a record of the journal."""
    kind, checkpoint = record["type"], record.get("checkpoint")
    if kind == "trial":
        return f"trial   {record['config']}"
    if kind == "start":
        return f"start   attempt {record['attempt']} from {record['from']}"
    if kind == "result":
        return f"result  {record['number']} checkpoint_{checkpoint['number']:06d}"
    if kind == "status":
        cause = f": {record['cause']}" if record["status"] == "PENDING" else ""
        return f"status  {record['status']}{cause}"
    return None


def test_the_story_of_a_killed_trial_is_that_of_a_journal(tmp_path, bound_s):
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "MINITUNE_STORAGE_PATH": str(tmp_path)}
    subprocess.run([sys.executable, SCRIPTS / "killed_trial.py"], env=environment, check=True, timeout=bound_s(60))

    lines = (tmp_path / "run" / "journal").read_text(encoding="utf-8").splitlines()
    story = [line_of(json.loads(line[9:])) for line in lines]
    shown = picture(RECORDS, "journal")
    assert [line for line in story if line is not None] == shown.strip().splitlines()


def test_component_table_names_real_modules():
    text = HOW_IT_WORKS.read_text(encoding="utf-8")
    rows = re.findall(r"^\| \w+ \| `([\w.]+)` \| (public|internal) \|", text, flags=re.MULTILINE)
    assert len(rows) == 8
    for path, mark in rows:
        parent, _, name = path.rpartition(".")
        package = importlib.import_module(parent)
        assert getattr(package, name) is not None
        assert (name in getattr(package, "__all__", ())) == (mark == "public"), path
    drawn = picture(HOW_IT_WORKS, "architecture")
    assert all(path.rpartition(".")[2] in drawn for path, _ in rows[:1] + rows[2:7])


def test_every_folder_of_the_source_is_in_the_table_of_folders():
    table = HOW_IT_WORKS.read_text(encoding="utf-8").partition("## The source")[2]
    folders = {module.name for module in pkgutil.iter_modules(minitune.__path__) if module.ispkg}
    assert folders <= set(re.findall(r"`(\w+)`", table))


def test_every_kind_of_record_is_in_the_table_of_records():
    page = RECORDS.read_text(encoding="utf-8")
    section = page.partition("## The records of the journal")[2].partition("\n## ")[0].partition("|---|")[2]
    rows = dict(re.findall(r"^\| `(\w+)` \|[^|]*\|(.*)\|$", section, flags=re.MULTILINE))
    source = inspect.getsource(records)
    fields = set(re.findall(r'"(\w+)"', source))
    kinds = {value for name, value in vars(records).items() if f"KIND: {name}," in source}
    assert set(rows) == kinds
    assert {field for text in rows.values() for field in re.findall(r"`(\w+)`", text)} <= fields
