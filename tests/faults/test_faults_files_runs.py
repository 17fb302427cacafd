"""Damage to a run's directory from outside: the run goes on, or says why it cannot, and the record stays."""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from kit import cut, fit, journal_of, resume, run_path

from minitune import (
    Checkpoint,
    ExperimentAnalysis,
    Tuner,
    get_checkpoint,
    get_context,
    grid_search,
    report,
    sample_from,
)
from minitune.error import JournalCorruptError, TuneError
from minitune.record import journal, run_files

SCRIPTS = Path(__file__).with_name("scripts")

STARTS = []
"""(x, step that it goes on from) of each start of a trial in this test."""


@pytest.fixture(autouse=True)
def no_starts_yet():
    STARTS.clear()


def counter(config):
    """Counts to 6, with a checkpoint of two files at each step."""
    checkpoint = get_checkpoint()
    done = json.loads(Path(checkpoint.path, "state.json").read_text()) if checkpoint else 0
    STARTS.append((config["x"], done))
    for n in range(done + 1, 7):
        with tempfile.TemporaryDirectory() as directory:
            Path(directory, "state.json").write_text(json.dumps(n))
            Path(directory, "weights").write_bytes(bytes([n]) * 1000)
            report({"n": n}, checkpoint=Checkpoint.from_directory(directory))


pytestmark = pytest.mark.usefixtures("hurried")

IN_TURN = {"space": {"x": grid_search([1, 2])}, "max_concurrent_trials": 1}
"""Two trials, one after the other."""


def rows(grid):
    return [[row["n"] for row in result.get_rows()] for result in grid]


# -- the journal -------------------------------------------------------------------------------------------------------


def test_a_damaged_journal_is_refused_and_its_beginning_can_be_kept():
    cut(counter, results=9, **IN_TURN)
    file = run_path() / "journal"
    lines = file.read_bytes().splitlines(keepends=True)
    place = next(i for i, line in enumerate(lines) if b'"number":3' in line and b'"type":"result"' in line)
    damaged = lines[place].replace(b'"n":3', b'"n":9')
    assert damaged != lines[place]
    file.write_bytes(b"".join([*lines[:place], damaged, *lines[place + 1 :]]))

    with pytest.raises(JournalCorruptError, match=rf"bad line at byte {len(b''.join(lines[:place]))}") as caught:
        resume(counter, callbacks=())
    assert file.read_bytes() == b"".join([*lines[:place], damaged, *lines[place + 1 :]]), "nothing was touched"

    subprocess.run([sys.executable, "-c", re.search('python -c "(.*)"', str(caught.value))[1]], check=True)
    assert file.read_bytes() == b"".join(lines[:place])
    grid = resume(counter, callbacks=())
    assert [result.metrics["n"] for result in grid] == [6, 6]
    assert STARTS[-2:] == [(1, 2), (2, 0)], "what stands after the bad line is not known any more"


@pytest.mark.parametrize(
    ("again", "what"),
    [
        (b'{"type":"run"', "the record of the run's beginning"),
        (b'{"type":"trial"', r"trial \w+"),
        (b'{"type":"result"', r"report 1 of trial \w+"),
    ],
)
def test_a_journal_that_holds_a_part_of_itself_twice_is_damaged(again, what):
    cut(counter, results=9, **IN_TURN)
    file = run_path() / "journal"
    whole = file.read_bytes()
    file.write_bytes(whole + next(line for line in whole.splitlines(keepends=True) if again in line))

    wanted = rf"{file} holds a part of itself twice: {what} comes again; put back a copy"
    with pytest.raises(JournalCorruptError, match=wanted):
        ExperimentAnalysis(run_path())
    with pytest.raises(JournalCorruptError, match=wanted):
        resume(counter, callbacks=())
    file.write_bytes(whole)
    assert [result.metrics["n"] for result in resume(counter, callbacks=())] == [6, 6]


def test_a_space_with_code_of_another_python_is_refused_with_both_versions(monkeypatch):
    """Such code may crash the interpreter that runs it."""
    space = {"x": grid_search([1, 2]), "y": sample_from(lambda spec: 1)}
    fit(counter, space, stop={"n": 1})
    before = run_files.PYTHON
    wanted = rf"param_space in .*tuner\.pkl contains code of Python {before}, which Python 3\.99 cannot run"
    with monkeypatch.context() as other:
        other.setattr(run_files, "PYTHON", "3.99")
        with pytest.raises(TuneError, match=wanted):
            resume(counter, callbacks=())
    assert resume(counter, callbacks=()).num_terminated == 2


@pytest.mark.parametrize("damage", ["absent", "empty", "torn"])
@pytest.mark.parametrize("name", ["tuner.pkl", "journal"])
def test_a_run_without_its_main_files_is_an_error_and_no_new_start(name, damage):
    fit(counter, **IN_TURN)
    file = run_path() / name
    whole = file.read_bytes()
    if damage == "absent":
        file.unlink()
    else:
        file.write_bytes(b"" if damage == "empty" else whole[: len(whole.splitlines(keepends=True)[0]) // 2])
    assert Tuner.can_restore(run_path())
    before = sorted(run_path().parent.iterdir())
    with pytest.raises(TuneError, match=name):
        resume(counter, callbacks=())
    assert sorted(run_path().parent.iterdir()) == before
    for aside in run_path().glob("journal.torn-*"):
        aside.unlink()
    file.write_bytes(whole)
    assert rows(resume(counter, callbacks=())) == [[1, 2, 3, 4, 5, 6]] * 2


# -- checkpoints -------------------------------------------------------------------------------------------------------


DAMAGES = {
    "a file removed": lambda directory: (directory / "weights").unlink(),
    "a file shortened": lambda directory: os.truncate(directory / "weights", 10),
    "a file more": lambda directory: (directory / "more").touch(),
    "the directory removed": shutil.rmtree,
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_checkpoint_gives_way_to_the_one_before(damage, caplog):
    cut(counter, results=5, **IN_TURN)
    newest = next(run_path().glob("*/checkpoint_000003"))
    DAMAGES[damage](newest)
    grid = resume(counter, callbacks=())
    assert "checkpoint_000003" in caplog.text
    assert STARTS[1] == (1, 3)
    assert [result.metrics["n"] for result in grid] == [6, 6]
    assert [r["number"] for r in journal_of() if r["type"] == "rollback"] == [3]


def test_without_any_whole_checkpoint_the_trial_begins_anew(caplog):
    cut(counter, results=5, **IN_TURN)
    for directory in run_path().glob("*/checkpoint_*"):
        shutil.rmtree(directory)
    grid = resume(counter, callbacks=())
    assert STARTS[1] == (1, 0)
    assert [r["number"] for r in journal_of() if r["type"] == "rollback"] == [0]
    assert [result.metrics["n"] for result in grid] == [6, 6]


COPY = SCRIPTS / "killed_while_it_copies.py"


def test_a_process_killed_while_it_copies_leaves_no_half_checkpoint(script, tmp_path):
    seen = set(script.run(COPY, str(tmp_path)).split())
    assert "temporary" in seen, "it was never killed in the midst of it"


def test_half_copied_checkpoint_is_removed_at_the_next_open():
    cut(counter, results=3, **IN_TURN)
    trial = max(run_path().glob("*/checkpoint_*")).parent
    half, unknown = trial / ".tmp-000007-1", trial / "checkpoint_000007"
    for directory in (half, unknown):
        directory.mkdir()
        (directory / "weights").touch()
    (trial / "mine.txt").touch()
    resume(counter, callbacks=())
    assert not half.exists()
    assert not unknown.exists()
    assert (trial / "mine.txt").exists()


KILLED_BETWEEN = SCRIPTS / "killed_before_a_checkpoint_goes.py"


@pytest.mark.parametrize("moment", ["committed", "dropped"])
def test_a_driver_killed_between_commit_and_removal_leaves_a_whole_checkpoint(script, moment):
    process = script.start(KILLED_BETWEEN, moment)
    script.finish(process)
    assert process.returncode == -9
    assert script.run(KILLED_BETWEEN, "").split() == ["from", "2", "3"]
    left = [path.name for path in (script.storage / "run").glob("*/*") if "checkpoint" in path.name]
    assert left == ["checkpoint_000002"]


# -- directories -------------------------------------------------------------------------------------------------------


def test_a_trial_whose_directory_was_removed_fails_alone():
    removed = []

    def trainable(config):
        for n in range(1, 4):
            if config["x"] == 1 and n == 2 and not removed:
                removed.append(True)
                aside = run_path().parent / "aside"
                os.rename(get_context().get_trial_dir(), aside)  # in one step: the driver syncs a checkpoint meanwhile
                shutil.rmtree(aside)
            with tempfile.TemporaryDirectory() as directory:
                report({"n": n}, checkpoint=Checkpoint.from_directory(directory))

    grid = fit(trainable, **IN_TURN)
    (error,) = grid.errors
    gone = next(result for result in grid if result.error)
    assert gone.path in str(error)
    assert not os.path.exists(gone.path)
    assert grid.num_terminated == 1
    assert [result.metrics["n"] for result in resume(trainable)] == [1, 3]
    assert [result.metrics["n"] for result in resume(trainable, resume_errored=True)] == [3, 3]


def test_a_trial_whose_directory_was_removed_starts_over_at_a_resume(caplog):
    cut(counter, results=3, **IN_TURN)
    gone = max(run_path().glob("*/checkpoint_*")).parent
    shutil.rmtree(gone)

    grid = resume(counter, callbacks=())

    assert [result.metrics["n"] for result in grid] == [6, 6], grid.errors
    assert STARTS[1] == (1, 0)
    assert caplog.text.count(f"{gone} has gone, so trial ") == 1
    assert os.path.dirname(grid[0].checkpoint.path) == grid[0].path
    assert [record["number"] for record in journal_of() if record["type"] == "rollback"] == [0]


@pytest.fixture
def read_only(tmp_path):
    """A directory in which nothing can be made; modes alone do not stop an administrator."""
    directory = tmp_path / "read-only"
    directory.mkdir()
    if os.geteuid():
        directory.chmod(0o555)
        yield directory
        directory.chmod(0o755)
        return
    mount = ["mount", "-t", "tmpfs", "-o", "ro", "none", str(directory)]
    if not sys.platform.startswith("linux") or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("an administrator can write everywhere, unless a read-only file system can be mounted")
    yield directory
    subprocess.run(["umount", str(directory)], check=True)


@pytest.mark.parametrize("kind", ["read-only", "a file"])
def test_a_storage_path_that_cannot_be_written_is_an_error_before_any_trial(kind, tmp_path, request):
    if kind == "a file":
        storage = tmp_path / "file"
        storage.touch()
    else:
        storage = request.getfixturevalue("read_only")
    with pytest.raises(TuneError, match=r"cannot be made or written .*; choose another storage_path") as caught:
        fit(counter, {"x": 1}, storage_path=storage)
    assert str(storage) in str(caught.value)
    assert STARTS == []


def test_a_run_that_was_moved_goes_on(tmp_path):
    cut(counter, results=9, **IN_TURN)
    moved = tmp_path / "elsewhere" / "other name"
    moved.parent.mkdir()
    run_path().rename(moved)
    assert (Tuner.can_restore(moved), Tuner.can_restore(run_path())) == (True, False)
    grid = resume(counter, path=moved, callbacks=())
    assert rows(grid) == [[1, 2, 3, 4, 5, 6]] * 2
    assert STARTS[2] == (2, 2)
    assert not run_path().exists()
    assert all(result.path.startswith(str(moved)) for result in grid)
    assert str(run_path()) not in (moved / "journal").read_text()


# -- killed while it is resumed ----------------------------------------------------------------------------------------

KILLED_AGAIN = SCRIPTS / "killed_in_each_step_of_a_resume.py"


def test_a_driver_killed_at_every_step_of_a_resume(script):
    lines = script.run(KILLED_AGAIN).splitlines()
    assert lines[-1] == "end 3 [3, 3, 3]"
    assert [line for line in lines[:-1] if not line.endswith(" killed")] == []
    journal_file = script.storage / "run" / "journal"
    found = list(journal.read(journal_file))
    added = [record for record in found if record["type"] == "trial"]
    assert len({record["trial"] for record in added}) == len(added) == 3
    for trial in added:
        own = [record for record in found if record["type"] == "result" and record["trial"] == trial["trial"]]
        assert {record["metrics"]["x"] for record in own} == {trial["config"]["x"]}
        rows = next((script.storage / "run").glob(f"*{trial['trial']}*/result.json")).read_text().splitlines()
        assert len(rows) == len(own)
    first = [record for record in found if record["type"] == "start" and record["trial"] == added[0]["trial"]]
    assert len(first) == 1, "what was finished did not run again"
