"""A run with a damaged journal: every command says so in one line, and uses no other run instead."""

from __future__ import annotations

import json
import shutil

import pytest


def damaged(storage, path, damage):
    """A copy of the run with a damaged journal."""
    shutil.copytree(storage / "run", path)
    journal = path / "journal"
    lines = journal.read_bytes().splitlines(keepends=True)
    middle = len(lines) // 2
    journal.write_bytes(
        {
            "in its middle": b"".join([*lines[:middle], b"?" + lines[middle][1:], *lines[middle + 1 :]]),
            "beginning": b"".join([b"?" + lines[0][1:], *lines[1:]]),
            "beginning gone": b"".join(lines[1:]),
            "garbage": bytes(range(256)) * 20,
            "emptied": b"",
            "torn": lines[0][:40],
            "twice": b"".join([*lines, *lines]),
        }[damage]
    )
    return path


@pytest.mark.parametrize(
    ("damage", "way_out"),
    [
        ("in its middle", "Put back a copy; or to keep the lines before the bad one: "),
        ("beginning", "Put back a copy; without its beginning it is lost"),
        ("beginning gone", "its beginning is missing; put back a copy"),
        ("garbage", "put back a copy, or start a run with another name"),
        ("emptied", "put back a copy, or start a run with another name"),
        ("twice", "the record of the run's beginning comes again; put back a copy"),
        ("torn", "put back a copy, or start a run with another name"),
    ],
)
def test_a_damaged_run_is_called_that_with_the_way_out(minitune, storage, tmp_path, damage, way_out):
    run = damaged(storage, tmp_path / "broken", damage)
    before = (run / "journal").read_bytes()

    status, out, _ = minitune("ls", tmp_path)
    assert (status, out.count("| damaged |")) == (0, 1)
    assert f"broken is damaged: the journal {run / 'journal'} " in out
    assert way_out in out
    (row,) = json.loads(minitune("ls", tmp_path, "--json")[1])["runs"]
    assert (row["state"], way_out in row["why"]) == ("damaged", True)

    for command in ("ls", "show", "watch", "best", "resume"):
        status, out, err = minitune(command, run)
        assert (command, status, out, err.count("\n")) == (command, 1, "", 1), err
        assert way_out in err
    for command in ("logs", "rerun"):
        status, _, err = minitune(command, run, "0")
        assert (command, status, way_out in err) == (command, 1, True), err
    assert (run / "journal").read_bytes() == before


@pytest.mark.parametrize("content", [b"garbage", b"", None])
def test_a_trainable_that_cannot_be_read_is_told_with_the_way_out(minitune, storage, tmp_path, content):
    shutil.copytree(storage / "run", tmp_path / "broken")
    kept = tmp_path / "broken" / "trainable.pkl"
    kept.unlink() if content is None else kept.write_bytes(content)

    for command, way_out in (
        (["resume", tmp_path / "broken"], "resume it with its script: minitune resume FILE.py"),
        (["rerun", tmp_path / "broken", "0"], "pass its script: --script FILE.py"),
    ):
        status, out, err = minitune(*command)
        assert (status, out, err.count("\n")) == (1, "", 1)
        assert way_out in err


def test_a_killed_run_with_a_torn_end_is_not_damaged(minitune, storage, tmp_path):
    shutil.copytree(storage / "run", tmp_path / "killed")
    journal = tmp_path / "killed" / "journal"
    journal.write_bytes(journal.read_bytes()[:-5])

    (row,) = json.loads(minitune("ls", tmp_path, "--json")[1])["runs"]
    assert (row["state"], row["total_trials"]) == ("killed", 3)
    assert "damaged" not in minitune("ls", tmp_path)[1]
    assert f"`minitune resume {tmp_path / 'killed'}` continues it" in minitune("ls", tmp_path / "killed")[1]
