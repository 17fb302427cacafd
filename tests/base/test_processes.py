"""What the system shows of processes."""

from __future__ import annotations

import os

import psutil
import pytest

from minitune.base.processes import children, start_s


def test_the_start_of_a_process_is_in_seconds_since_the_epoch() -> None:
    assert start_s(os.getpid()) == pytest.approx(psutil.Process().create_time(), abs=2)
    assert start_s(2**22 + 1) is None


def test_a_process_that_has_ended_has_no_children() -> None:
    assert children(2**22 + 1) == []
