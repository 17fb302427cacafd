"""The space that is set aside for the journal, while a disk is full. Real full disks: `test_faults_files_space`."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from minitune.execution.disk_space import PATIENCE_S, RESERVE_BYTES, DiskSpace

FULL = OSError(errno.ENOSPC, "full")


@pytest.fixture
def space(tmp_path: Path) -> Iterator[DiskSpace]:
    space = DiskSpace(str(tmp_path))
    space.hold()
    yield space
    space.free()
    assert os.listdir(tmp_path) == []


def test_the_journal_gets_the_space_piece_by_piece(tmp_path: Path, space: DiskSpace) -> None:
    sizes = []
    while space.give_up_piece(FULL):
        sizes.append((tmp_path / "reserve").stat().st_size)
    assert sizes == sorted(sizes, reverse=True)
    assert len(set(sizes)) == len(sizes) >= 4
    assert sizes[-1] == 0


def test_a_run_ends_while_half_of_the_space_is_left_for_its_last_records(space: DiskSpace, tmp_path: Path) -> None:
    assert space.give_up_piece(FULL)
    space.regain(0.0)
    space.is_short = True
    while not space.is_hopeless(0.0):
        assert space.give_up_piece(FULL)
    assert RESERVE_BYTES / 4 < (tmp_path / "reserve").stat().st_size < RESERVE_BYTES / 2


def test_other_errors_are_no_lack_of_space(space: DiskSpace) -> None:
    assert not space.give_up_piece(OSError(errno.EIO, "broken"))
    assert not space.is_short


def test_after_a_while_a_run_gives_up(space: DiskSpace, monkeypatch: pytest.MonkeyPatch) -> None:
    assert space.is_lack(FULL)

    def refuse(path: str) -> None:
        raise FULL

    monkeypatch.setattr(space, "_write", refuse)
    assert not space.regain(100.0)
    assert not space.is_hopeless(100.0 + PATIENCE_S / 2)
    assert space.is_hopeless(100.0 + PATIENCE_S)
