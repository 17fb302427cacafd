"""Checks of arguments."""

from __future__ import annotations

import datetime

import pytest

from minitune.base.checks import duration_s


@pytest.mark.parametrize(
    ("given", "seconds"),
    [
        (None, None),
        (0, None),
        (1.5, 1.5),
        (datetime.timedelta(days=1, seconds=2), 86402.0),
        (datetime.timedelta(), None),
    ],
)
def test_a_duration_is_seconds_whatever_its_unit_was(given: float | datetime.timedelta | None, seconds: float) -> None:
    assert duration_s(given, "time_budget_s") == seconds
