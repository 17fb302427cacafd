"""The local executor's parts without processes: hints of errors, and the surroundings of an actor."""

import os

import pytest

from minitune.error import RemoteError
from minitune.executors.local import _has_one_thread, with_hint

NO_TERMINAL = "hint: a trial's process has no terminal; MINITUNE_EXECUTOR=inline runs the trials in this one"


def missing(path, kind=FileNotFoundError):
    return RemoteError.of(kind(2, "No such file or directory", path))


@pytest.fixture
def here(tmp_path, monkeypatch):
    """The driver's working directory, with some data."""
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "train.csv").touch()
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("path", "is_hinted"),
    [
        ("data/train.csv", True),
        ("data", True),
        ("data/other.csv", True),
        ("./data/../data/train.csv", True),
        ("missing.csv", False),
        ("missing/train.csv", False),
        ("/data/train.csv", False),
        ("", False),
        (None, False),
        (3, False),
        (b"data/train.csv", False),
    ],
)
def test_a_file_beside_the_script_is_told_by_its_absolute_path(here, path, is_hinted):
    error = missing(path)
    found = with_hint(error, "/run/trial", True)
    if not is_hinted:
        assert found is error
        return
    assert f"use the absolute path, {here / os.path.normpath(path)}, or set MINITUNE_CHDIR_TO_TRIAL_DIR=0" in found.hint
    assert (found.type_name, found.message) == (error.type_name, error.message)


def test_a_missing_file_has_no_hint_where_the_directory_is_that_of_the_script(here):
    error = missing("data/train.csv")
    assert with_hint(error, "/run/trial", False) is error
    assert with_hint(error, None, True) is error
    refused = missing("data/train.csv", PermissionError)
    assert with_hint(refused, "/run/trial", True) is refused


@pytest.mark.parametrize(
    ("error", "is_hinted"),
    [
        (RemoteError("bdb.BdbQuit", "", ""), True),
        (RemoteError("EOFError", "EOF when reading a line", ""), True),
        (RemoteError("EOFError", "Ran out of input", ""), False),
        (RemoteError("SystemExit", "", '  File "bdb.py", line 3, in do_quit\n    sys.exit()\n'), True),
        (RemoteError("SystemExit", "", '  File "mine.py", line 3, in train\n'), False),
        (RemoteError("ValueError", "", '  File "bdb.py", line 3, in do_quit\n'), False),
    ],
)
@pytest.mark.parametrize("directory", ["/run/trial", None])
def test_a_debugger_or_a_question_to_the_user_needs_a_terminal(error, is_hinted, directory):
    assert with_hint(error, directory, directory is None).hint == (NO_TERMINAL if is_hinted else "")


@pytest.mark.parametrize(
    ("own", "given", "has_one"),
    [
        ({}, {"OMP_NUM_THREADS": "1"}, True),
        ({}, {"OMP_NUM_THREADS": "2"}, False),
        ({}, {}, False),
        ({"OMP_NUM_THREADS": "1"}, {}, True),
        ({"OMP_NUM_THREADS": "4"}, {"OMP_NUM_THREADS": "1"}, True),
        ({"OMP_NUM_THREADS": "1"}, {"OMP_NUM_THREADS": None}, False),
        ({"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "4"}, {}, False),
        ({"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}, {}, True),
        ({"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": ""}, {}, True),
        ({"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "4"}, {"MKL_NUM_THREADS": "1"}, True),
    ],
)
def test_only_workers_with_one_thread_share_what_was_loaded_with_one(monkeypatch, own, given, has_one):
    for name in [name for name in os.environ if name.endswith(("_NUM_THREADS", "MAXIMUM_THREADS"))]:
        monkeypatch.delenv(name)
    for name, value in own.items():
        monkeypatch.setenv(name, value)
    assert _has_one_thread(given) is has_one
