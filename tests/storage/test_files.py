"""Files of a run: no link is followed where something is written or removed, and nothing is waited for."""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable
from pathlib import Path

import pytest
from kit import make_socket, tree

from minitune.base import files
from minitune.base.files import LinkError, SpecialFileError

CONTENT = b"precious\n"


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """A directory outside the run, with a file, and with a directory that has a file."""
    directory = tmp_path / "outside"
    (directory / "old").mkdir(parents=True)
    for name in ("file", "old/file"):
        (directory / name).write_bytes(CONTENT)
    return directory


@pytest.fixture
def run(tmp_path: Path, outside: Path) -> Path:
    """A run whose trial `linked` is a link to outside; in the trial `t`, the file `file` is one."""
    directory = tmp_path / "run"
    (directory / "t").mkdir(parents=True)
    (directory / "t" / "file").symlink_to(outside / "file")
    (directory / "linked").symlink_to(outside)
    return directory


WRITES: dict[str, Callable[[str, str], object]] = {
    "appending": lambda path, run: files.open_own(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, within=run),
    "emptying": lambda path, run: files.open_own(path, os.O_WRONLY | os.O_TRUNC | os.O_CREAT, within=run),
    "replacing": lambda path, run: files.atomic_write(path, b"new", within=run),
    "making a directory": lambda path, run: files.make_directory(path, within=run),
}
REMOVALS: dict[str, Callable[[str, str], object]] = {
    "a file": lambda path, run: files.remove_file(path, within=run),
    "a tree": lambda path, run: files.remove_tree(path, within=run),
}


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
@pytest.mark.parametrize("place", ["t/file", "linked/file", "linked/new", "linked/old/file"])
def test_nothing_is_written_through_a_link_which_is_named(
    run: Path, outside: Path, place: str, write: Callable[[str, str], object]
) -> None:
    before = tree(outside)
    link = run / ("t/file" if place == "t/file" else "linked")
    with pytest.raises(LinkError, match=f"{link} is a symbolic link"):
        write(str(run / place), str(run))

    assert tree(outside) == before
    assert sorted(os.listdir(run / "t")) == ["file"], "nothing that was prepared is left"


@pytest.mark.parametrize("remove", REMOVALS.values(), ids=REMOVALS)
@pytest.mark.parametrize("place", ["linked/file", "linked/old"])
def test_nothing_is_removed_behind_a_link_which_is_named(
    run: Path, outside: Path, place: str, remove: Callable[[str, str], object]
) -> None:
    before = tree(outside)
    with pytest.raises(LinkError, match=f"{run / 'linked'} is a symbolic link"):
        remove(str(run / place), str(run))
    assert tree(outside) == before


@pytest.mark.parametrize("remove", REMOVALS.values(), ids=REMOVALS)
def test_a_link_itself_can_be_removed(run: Path, outside: Path, remove: Callable[[str, str], object]) -> None:
    before = tree(outside)
    for name in ("linked", "t/file"):
        remove(str(run / name), str(run))
        assert not os.path.lexists(run / name)
    assert tree(outside) == before


def test_links_in_a_tree_are_removed_and_not_followed(run: Path, outside: Path) -> None:
    before = tree(outside)
    (run / "t" / "sub").mkdir()
    (run / "t" / "sub" / "link").symlink_to(outside)

    files.remove_tree(str(run / "t"), str(run))

    assert tree(outside) == before
    assert not (run / "t").exists()


def test_the_run_itself_may_be_reached_by_links(tmp_path: Path, run: Path) -> None:
    (tmp_path / "by-link").symlink_to(run)
    top = str(tmp_path / "by-link")
    files.atomic_write(f"{top}/t/new", b"new", within=top)
    files.make_directory(f"{top}/t/directory", within=top)
    files.make_directory(f"{top}/t/directory", within=top)
    files.remove_file(f"{top}/t/file", within=top)

    assert tree(run / "t") == {"new": b"new", "directory": b""}


def test_a_path_elsewhere_is_refused(tmp_path: Path) -> None:
    for path in (tmp_path / "run2" / "file", tmp_path / "run", tmp_path):
        with pytest.raises(ValueError, match="is not below"):
            files.open_own(str(path), os.O_RDONLY, within=str(tmp_path / "run"))


def test_what_is_missing_is_named_by_its_whole_path(tmp_path: Path) -> None:
    for path in (tmp_path / "gone" / "file", tmp_path / "file"):
        with pytest.raises(FileNotFoundError, match=str(tmp_path)):
            files.open_own(str(path), os.O_RDONLY, within=str(tmp_path))


@pytest.mark.parametrize("kind", ["FIFO", "socket", "device"])
def test_only_regular_files_are_opened_and_others_named(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "x"
    if kind == "FIFO":
        os.mkfifo(path)
    elif kind == "device":
        path = Path("/dev/null")
    else:
        make_socket(path)

    for flags in (os.O_RDONLY, os.O_WRONLY | os.O_APPEND, os.O_RDWR | os.O_CREAT):
        with pytest.raises(SpecialFileError, match=f"{path} is a {kind}, but it must be a regular file"):
            files.open_own(str(path), flags, within=str(path.parent))
    with pytest.raises(SpecialFileError, match=f"{path} is a {kind}"):
        files.open_to_read(path)


def test_directories_that_cannot_be_read_or_written_are_removed_too(tmp_path: Path) -> None:
    tmp_path.chmod(0o777)

    def make_and_remove() -> None:
        for mode in (0o000, 0o100, 0o400, 0o500):
            directory = Path("tree", str(mode), "deeper")
            directory.mkdir(parents=True)
            (directory / "file").touch()
            directory.chmod(mode)
            directory.parent.chmod(mode)
        files.remove_tree("tree", within="")

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
