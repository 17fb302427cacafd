"""The space that is set aside for the journal, while a disk is full. Real full disks: `test_faults_files_space`."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from kit import raiser

from minitune.record.disk import PATIENCE_S, RESERVE_BYTES, Disk

FULL = OSError(errno.ENOSPC, "full")


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    disk = Disk(str(tmp_path))
    disk.hold()
    yield disk
    disk.free()
    assert os.listdir(tmp_path) == []


def test_the_journal_gets_the_space_piece_by_piece(tmp_path: Path, disk: Disk) -> None:
    sizes = []
    while disk.give_up_piece(FULL):
        sizes.append((tmp_path / "reserve").stat().st_size)
    assert sizes == sorted(sizes, reverse=True)
    assert len(set(sizes)) == len(sizes) >= 4
    assert sizes[-1] == 0


def test_a_run_ends_while_half_of_the_space_is_left_for_its_last_records(disk: Disk, tmp_path: Path) -> None:
    assert disk.give_up_piece(FULL)
    while not disk.is_hopeless(0.0):
        assert disk.give_up_piece(FULL)
    assert RESERVE_BYTES / 4 < (tmp_path / "reserve").stat().st_size < RESERVE_BYTES / 2


def test_other_errors_are_no_lack_of_space(disk: Disk) -> None:
    assert not disk.give_up_piece(OSError(errno.EIO, "broken"))
    assert not disk.trouble


def test_after_a_while_a_run_gives_up(disk: Disk, monkeypatch: pytest.MonkeyPatch) -> None:
    assert disk.is_to_blame(FULL)
    monkeypatch.setattr(disk, "_write", raiser(FULL))
    assert not disk.regain(100.0)
    assert not disk.is_hopeless(100.0 + PATIENCE_S / 2)
    assert disk.is_hopeless(100.0 + PATIENCE_S)
