"""Files of a run: a link is replaced or removed and not followed, and no FIFO is waited for."""

from __future__ import annotations

import errno
import os
import sys
import traceback
from collections.abc import Callable
from pathlib import Path

import pytest
from kit import make_socket, tree

from minitune.base import files
from minitune.base.files import SpecialFileError


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """A directory outside the run, with a file."""
    directory = tmp_path / "outside"
    directory.mkdir()
    (directory / "file").write_text("precious")
    return directory


@pytest.mark.parametrize("remove", [files.remove_file, files.remove_tree])
def test_removing_a_link_leaves_its_target(tmp_path: Path, outside: Path, remove: Callable[[str], object]) -> None:
    before = tree(outside)
    for target in (outside, outside / "file"):
        (tmp_path / "link").symlink_to(target)
        remove(str(tmp_path / "link"))
        assert not os.path.lexists(tmp_path / "link")
    assert tree(outside) == before


def test_links_in_a_tree_are_removed_and_not_followed(tmp_path: Path, outside: Path) -> None:
    before = tree(outside)
    (tmp_path / "top" / "sub").mkdir(parents=True)
    (tmp_path / "top" / "sub" / "link").symlink_to(outside)

    files.remove_tree(str(tmp_path / "top"))

    assert tree(outside) == before
    assert not (tmp_path / "top").exists()


def test_a_file_replaces_a_link_in_its_place(tmp_path: Path, outside: Path) -> None:
    before = tree(outside)
    (tmp_path / "file").symlink_to(outside / "file")

    files.atomic_write(tmp_path / "file", b"new")

    assert (tmp_path / "file").read_bytes() == b"new"
    assert tree(outside) == before


def test_a_new_file_is_whole_when_it_is_synced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A power cut after the rename would otherwise leave an empty file under its name."""
    path = tmp_path / "file"
    synced: list[tuple[str, int, bool]] = []
    monkeypatch.setattr(
        files, "sync_descriptor", lambda found: synced.append(("content", os.fstat(found).st_size, path.exists()))
    )
    monkeypatch.setattr(files, "sync_directory", lambda found: synced.append(("names", 0, path.exists())))

    with files.new_file(str(path), sync=True) as file:
        file.write(b"content")

    assert synced == [("content", 7, False), ("names", 0, True)]
    assert path.read_bytes() == b"content"


OPENERS: dict[str, Callable[[Path], object]] = {
    "to read": files.open_to_read,
    "its end": lambda path: files.read_end(path, 10),
    "to append": files.open_to_append,
    "to append lines": lambda path: files.AppendFiles().open("key", str(path)),
}


@pytest.mark.parametrize("kind", ["FIFO", "socket", "device"])
@pytest.mark.parametrize("how", OPENERS)
def test_only_regular_files_are_opened_and_others_named(tmp_path: Path, kind: str, how: str) -> None:
    path = tmp_path / "x"
    if kind == "FIFO":
        os.mkfifo(path)
    elif kind == "device":
        path = Path("/dev/null")
    else:
        make_socket(path)

    with pytest.raises(SpecialFileError, match=f"{path} is a {kind}, but it must be a regular file"):
        OPENERS[how](path)


def test_a_tree_that_cannot_be_removed_is_discarded_without_an_error(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    for path in ("/proc/self", str(tmp_path / "fifo"), str(tmp_path / "missing")):
        files.discard_tree(path)
    assert os.listdir(tmp_path) == []


def test_the_end_of_a_file_is_read_without_the_rest(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"0123456789")
    assert [files.read_end(tmp_path / "file", most_bytes) for most_bytes in (3, 100)] == [b"789", b"0123456789"]


def test_directories_that_cannot_be_read_or_written_are_removed_too(tmp_path: Path) -> None:
    tmp_path.chmod(0o777)

    def make_and_remove() -> None:
        for mode in (0o000, 0o100, 0o400, 0o500):
            directory = Path("tree", str(mode), "deeper")
            directory.mkdir(parents=True)
            (directory / "file").touch()
            directory.chmod(mode)
            directory.parent.chmod(mode)
        files.remove_tree("tree")

    assert as_a_user(make_and_remove, tmp_path) == 0
    assert not (tmp_path / "tree").exists()


def as_a_user(work: Callable[[], object], directory: Path) -> int:
    """The exit code of a child that works in a directory as a user whom modes stop, unlike an administrator."""
    pid = os.fork()
    if pid:
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    try:
        os.chdir(directory)
        if os.getuid() == 0:
            os.setuid(65534)
        work()
    except BaseException:
        traceback.print_exc()
        os._exit(1)
    os._exit(0)


@pytest.mark.parametrize(("size", "most", "begin"), [(5, 10, 0), (15, 10, 5), (30, 10, 20)])
def test_the_end_of_a_file_has_so_many_bytes_at_most(tmp_path: Path, size: int, most: int, begin: int) -> None:
    data = bytes(range(size))
    (tmp_path / "file").write_bytes(data)
    assert files.read_end(tmp_path / "file", most) == data[begin:]


def test_a_device_is_written_as_by_any_program() -> None:
    descriptor = files.open_regular(os.devnull, os.O_WRONLY, allows_devices=True)
    try:
        assert os.get_blocking(descriptor)
    finally:
        os.close(descriptor)


def test_a_file_of_which_only_a_part_was_written_is_written_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = os.write
    monkeypatch.setattr(os, "write", lambda descriptor, data: write(descriptor, data[:2]))
    assert files.write_again(str(tmp_path / "file"), b"whole")
    assert (tmp_path / "file").read_bytes() == b"whole"


def test_an_address_of_a_file_may_have_quoted_characters() -> None:
    assert files.local_path("file:///runs/a%20b") == "/runs/a b"
    assert files.local_path("/runs/a%20b") == "/runs/a%20b"


def test_the_empty_entry_of_the_search_path_is_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", ["", "/absolute", "relative", None])
    assert files.search_path() == [str(tmp_path), "/absolute", str(tmp_path / "relative")]


def test_a_torn_last_line_of_any_length_is_cut_off(tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    path.write_bytes(b"1\n2\n" + bytes(200_000))
    appended = files.AppendFiles()
    assert appended.open("trial", str(path)) == 4
    assert appended.append("trial", b"3\n")
    appended.close_all()
    assert path.read_bytes() == b"1\n2\n3\n"


def test_a_file_that_cannot_be_written_is_told_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    appended = files.AppendFiles()
    for path in ("one", "one", "two"):
        appended.lapse("trial", str(tmp_path / path), PermissionError(errno.EACCES, "Permission denied"))
    assert [text.partition(" could not")[0] for text in caplog.messages] == [str(tmp_path / p) for p in ("one", "two")]
