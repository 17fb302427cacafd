"""How many files a driver may have open."""

from __future__ import annotations

import errno
import os
import resource

import pytest
from kit import raiser

from minitune.base import descriptors


@pytest.mark.parametrize(("number", "has_room"), [(errno.EMFILE, False), (errno.ENFILE, False), (errno.EACCES, True)])
def test_without_a_descriptor_to_count_them_there_is_no_room_for_a_worker(
    number: int, has_room: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(descriptors, "limit", lambda: 1024)
    monkeypatch.setattr(descriptors.os, "listdir", raiser(OSError(number, os.strerror(number))))
    assert descriptors.has_room_for_worker() is has_room


@pytest.mark.parametrize(
    ("limit", "part", "most", "share"),
    [(None, 16, 64, 64), (1024, 16, 64, 64), (256, 16, 64, 16), (8, 16, 64, 1), (1024, 16, 32, 32)],
)
def test_files_get_a_part_of_the_descriptors(
    monkeypatch: pytest.MonkeyPatch, limit: int | None, part: int, most: int, share: int
) -> None:
    monkeypatch.setattr(descriptors, "limit", lambda: limit)
    assert descriptors.share(part, most) == share


@pytest.mark.parametrize(
    ("limit", "used", "has_room"),
    [(None, 5_000, True), (256, 193, True), (256, 194, False), (4096, 3889, True), (4096, 3890, False)],
)
def test_a_worker_starts_if_its_descriptors_and_those_of_the_driver_are_free(
    monkeypatch: pytest.MonkeyPatch, limit: int | None, used: int, has_room: bool
) -> None:
    monkeypatch.setattr(descriptors, "limit", lambda: limit)
    monkeypatch.setattr(descriptors.os, "listdir", lambda path: [""] * (used + 1))
    assert descriptors.has_room_for_worker() is has_room


def test_an_endless_limit_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    for found, limit in ((resource.RLIM_INFINITY, None), (300, 300)):
        monkeypatch.setattr(resource, "getrlimit", lambda number, found=found: (found, 4096))
        assert descriptors.limit() == limit


def test_only_too_many_open_files_are_a_lack() -> None:
    assert descriptors.is_lack(OSError(errno.EMFILE, ""))
    assert not descriptors.is_lack(OSError(errno.ENOENT, ""))
    assert not descriptors.is_lack(ValueError())
