"""How many files a driver may have open."""

from __future__ import annotations

import errno
import os

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
