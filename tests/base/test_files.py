"""Files of a run: a link is replaced or removed and not followed."""

import errno
import os
import sys
from pathlib import Path

import pytest
from kit import files_below

from minitune.base import files
from minitune.error import DiskError


@pytest.fixture
def outside(tmp_path):
    """A directory outside the run, with a file."""
    directory = tmp_path / "outside"
    directory.mkdir()
    (directory / "file").write_text("precious")
    return directory


@pytest.mark.parametrize("remove", [files.remove_file, files.remove_tree])
def test_removing_a_link_leaves_its_target(tmp_path, outside, remove):
    before = files_below(outside)
    for target in (outside, outside / "file"):
        (tmp_path / "link").symlink_to(target)
        remove(str(tmp_path / "link"))
        assert not os.path.lexists(tmp_path / "link")
    assert files_below(outside) == before


def test_links_in_a_tree_are_removed_and_not_followed(tmp_path, outside):
    before = files_below(outside)
    (tmp_path / "top" / "sub").mkdir(parents=True)
    (tmp_path / "top" / "sub" / "link").symlink_to(outside)

    files.remove_tree(str(tmp_path / "top"))

    assert files_below(outside) == before
    assert not (tmp_path / "top").exists()


def test_a_file_replaces_a_link_in_its_place(tmp_path, outside):
    before = files_below(outside)
    (tmp_path / "file").symlink_to(outside / "file")

    files.atomic_write(tmp_path / "file", b"new")

    assert (tmp_path / "file").read_bytes() == b"new"
    assert files_below(outside) == before


def test_a_tree_that_cannot_be_removed_is_discarded_without_an_error(tmp_path):
    os.mkfifo(tmp_path / "fifo")
    for path in ("/proc/self", str(tmp_path / "fifo"), str(tmp_path / "missing")):
        files.discard_tree(path)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(("size", "most", "begin"), [(5, 10, 0), (15, 10, 5), (30, 10, 20)])
def test_the_end_of_a_file_has_so_many_bytes_at_most(tmp_path, size, most, begin):
    data = bytes(range(size))
    (tmp_path / "file").write_bytes(data)
    assert files.read_end(tmp_path / "file", most) == data[begin:]


def test_the_empty_entry_of_the_search_path_is_the_working_directory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", ["", "/absolute", "relative", None])
    assert files.search_path() == [str(tmp_path), "/absolute", str(tmp_path / "relative")]


@pytest.mark.parametrize("whole", [b"", b"1\n2\n"])
@pytest.mark.parametrize("torn", [b"t", bytes(200_000)], ids=len)
def test_a_torn_last_line_of_any_length_is_cut_off(tmp_path, whole, torn):
    path = tmp_path / "result.json"
    path.write_bytes(whole + torn)
    appended = files.AppendFiles()
    assert appended.open("trial", str(path)) == len(whole)
    assert appended.append("trial", b"3\n")
    appended.close_all()
    assert path.read_bytes() == whole + b"3\n"


def test_a_file_that_cannot_be_written_is_told_once(tmp_path, caplog):
    appended = files.AppendFiles()
    for path in ("one", "one", "two"):
        appended.lapse("trial", str(tmp_path / path), PermissionError(errno.EACCES, "Permission denied"))
    assert [text.partition(" could not")[0] for text in caplog.messages] == [str(tmp_path / p) for p in ("one", "two")]


# -- opening and writing -----------------------------------------------------------------------------------------------


def test_a_file_to_append_is_made_with_the_usual_mode_and_grows_at_its_end(tmp_path):
    path = tmp_path / "lines"
    before = os.umask(0o022)
    try:
        for line in (b"one\n", b"two\n"):
            appended = files.AppendFiles()
            appended.open("key", str(path))
            appended.append("key", line)
            appended.close_all()
    finally:
        os.umask(before)
    assert files.read_bytes(path) == b"one\ntwo\n"
    assert path.stat().st_mode & 0o777 == 0o644


def test_a_missing_file_is_not_made_by_reading_it(tmp_path):
    for read in (files.read_bytes, lambda path: files.read_end(path, 10)):
        with pytest.raises(FileNotFoundError):
            read(tmp_path / "missing")
    assert os.listdir(tmp_path) == []


def test_a_file_that_could_not_be_written_stays_as_it_was(tmp_path):
    (tmp_path / "file").write_bytes(b"old")

    def write_and_fail():
        with files.new_file(str(tmp_path / "file")) as file:
            file.write(b"new")
            file.flush()
            assert (tmp_path / "file").read_bytes() == b"old"
            assert any(files.WRITE_TEMPORARY.fullmatch(name) for name in os.listdir(tmp_path))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_and_fail()
    assert (tmp_path / "file").read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["file"]


@pytest.mark.parametrize("mode", [0o600, 0o640])
def test_a_file_has_the_mode_that_was_asked_for_also_if_it_replaces_another(tmp_path, mode):
    path = tmp_path / "file"
    for content in (b"one", b"two"):
        files.atomic_write(str(path), content, mode)
        assert (path.read_bytes(), path.stat().st_mode & 0o777) == (content, mode)
        path.chmod(0o666)


def test_a_directory_may_exist_already(tmp_path):
    for mode in (0o700, 0o750):
        files.make_directory(str(tmp_path / "new"), mode)
    assert (tmp_path / "new").stat().st_mode & 0o777 == 0o700


def test_a_free_name_is_the_first_that_neither_a_file_nor_a_link_has(tmp_path):
    (tmp_path / "run-1").touch()
    (tmp_path / "run-2").symlink_to("nowhere")
    (tmp_path / "run-4").touch()
    assert files.free_name(str(tmp_path / "run")) == str(tmp_path / "run-3")


@pytest.mark.parametrize(
    ("number", "refused", "blames"),
    [
        (errno.ENOSPC, errno.ENOSPC, "the disk"),
        (errno.EIO, errno.EROFS, "the disk"),
        (errno.ENOSPC, None, "the trial"),
        (errno.ENOSPC, errno.ENOENT, "the trial"),
        (errno.ENOENT, errno.ENOSPC, "the trial"),
    ],
)
def test_the_disk_is_blamed_only_if_it_refuses_another_block(tmp_path, monkeypatch, number, refused, blames):
    def open_instead(path, *args, **options):
        if refused is not None:
            raise OSError(refused, os.strerror(refused))
        return open(path, *args, **options)

    monkeypatch.setattr(files, "open", open_instead, raising=False)
    trial = tmp_path / "run" / "trial"
    trial.mkdir(parents=True)
    found = files.look_at_disk(str(trial), OSError(number, os.strerror(number)))
    assert (found is not None) == (blames == "the disk")
    if found is not None:
        assert found.run_path == str(tmp_path / "run")
        assert f"{trial} could not be written" in str(found)
    assert os.listdir(trial) == []


def test_an_error_of_another_kind_is_not_looked_at(tmp_path):
    assert files.look_at_disk(str(tmp_path / "missing"), ValueError("no file")) is None


# -- syncing and removing ----------------------------------------------------------------------------------------------


def test_a_tree_is_synced_from_the_inside_out_with_its_name(tmp_path, monkeypatch):
    top = tmp_path / "run" / "trial" / "checkpoint"
    (top / "deep").mkdir(parents=True)
    (top / "deep" / "weights").write_bytes(b"12345")
    (top / "state").write_bytes(b"123")
    (top / "link").symlink_to("state")
    os.mkfifo(top / "fifo")
    synced = []
    monkeypatch.setattr(files, "sync_descriptor", lambda found: synced.append(os.fstat(found).st_size))
    monkeypatch.setattr(files, "sync_directory", synced.append)

    for _ in files.sync_tree_steps(str(top)):
        pass

    assert synced == [5, str(top / "deep"), 3, str(top), str(top.parent), str(top.parent.parent)]
    with pytest.raises(FileNotFoundError):
        list(files.sync_tree_steps(str(tmp_path / "missing")))


def test_only_temporary_files_of_writing_are_removed(tmp_path):
    kept = [".tmp-000001-1", ".tmp-w-12", f"a{files.temporary_name()}", f"{files.temporary_name()}a", "file"]
    for name in (*kept, files.temporary_name()):
        (tmp_path / name).touch()
    (tmp_path / files.temporary_name() / "inner").mkdir(parents=True)
    files.remove_write_temporaries(str(tmp_path))
    files.remove_write_temporaries(str(tmp_path / "missing"))
    assert sorted(os.listdir(tmp_path)) == sorted(kept)


def test_a_large_tree_is_removed_in_steps(tmp_path):
    for number in range(120):
        (tmp_path / "tree" / str(number % 2)).mkdir(parents=True, exist_ok=True)
        (tmp_path / "tree" / str(number % 2) / str(number)).touch()
    assert 2 <= len(list(files.remove_tree_steps(str(tmp_path / "tree")))) <= 4
    assert os.listdir(tmp_path) == []
    for remove in (files.remove_file, files.remove_tree):
        remove(str(tmp_path / "missing"))


# -- paths -------------------------------------------------------------------------------------------------------------


def test_a_path_of_the_user_becomes_absolute(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", "/home/me")
    monkeypatch.chdir(tmp_path)
    expected = {
        "~/runs": "/home/me/runs",
        Path("runs"): str(tmp_path / "runs"),
        "a/../runs": str(tmp_path / "runs"),
        "/x/./y": "/x/y",
        "c:/runs": str(tmp_path / "c:/runs"),
        "file:///runs/a%20b": "/runs/a b",
        "/runs/a%20b": "/runs/a%20b",
    }
    assert {path: files.local_path(path) for path in expected} == expected


@pytest.mark.parametrize("path", ["s3://bucket/runs", "file://host/runs", "hdfs+x://a", None, 3, b"runs"])
def test_a_path_elsewhere_or_of_another_type_is_refused(path):
    error = ValueError if isinstance(path, str) else TypeError
    with pytest.raises(error, match=r"must be (local|text)"):
        files.local_path(path)


# -- appending ---------------------------------------------------------------------------------------------------------


def test_a_line_is_written_whole_or_not_at_all(tmp_path, monkeypatch):
    path = tmp_path / "lines"
    appended = files.AppendFiles()
    assert appended.open("a", str(path)) == 0
    write = os.write
    monkeypatch.setattr(os, "write", lambda descriptor, data: write(descriptor, data[:2]))
    assert appended.append("a", b"first line\n")
    assert path.read_bytes() == b"first line\n"
    parts = iter([3, 2])

    def write_and_fail(descriptor, data):
        count = next(parts, None)
        if count is None:
            raise OSError(errno.ENOSPC, "full")
        return write(descriptor, data[:count])

    monkeypatch.setattr(os, "write", write_and_fail)
    with pytest.raises(OSError, match="full"):
        appended.append("a", b"second line\n")
    assert path.read_bytes() == b"first line\n"
    appended.close_all()


def test_files_beyond_the_limit_are_closed_and_opened_again(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "_MOST_OPEN", 2)
    before = len(os.listdir("/dev/fd"))
    appended = files.AppendFiles()
    for round_ in range(2):
        for name in "abc":
            if not round_:
                assert appended.open(name, str(tmp_path / name)) == 0
            assert appended.append(name, f"{name}{round_}\n".encode())
            assert len(os.listdir("/dev/fd")) <= before + 2
    assert [(tmp_path / name).read_text() for name in "abc"] == [f"{name}0\n{name}1\n" for name in "abc"]
    appended.close("a")
    assert not appended.append("a", b"more\n")
    appended.close_all()
    assert not appended.append("b", b"more\n")
    assert len(os.listdir("/dev/fd")) == before


def test_a_key_that_is_opened_again_stands_for_the_new_file(tmp_path):
    before = len(os.listdir("/dev/fd"))
    appended = files.AppendFiles()
    for name in ("old", "new"):
        appended.open("key", str(tmp_path / name))
    appended.append("key", b"line\n")
    assert [(tmp_path / name).read_bytes() for name in ("old", "new")] == [b"", b"line\n"]
    appended.close("key")
    appended.close("key")
    assert len(os.listdir("/dev/fd")) == before


def test_a_disk_that_refuses_a_line_ends_the_run(tmp_path):
    appended = files.AppendFiles()
    path = str(tmp_path / "trial" / "result.json")
    with pytest.raises(DiskError, match=r"could not be written: .*ENOSPC") as caught:
        appended.lapse("trial", path, OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))
    assert caught.value.run_path == str(tmp_path)
