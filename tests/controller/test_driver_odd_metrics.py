"""Metrics that are numbers, but not such as one can reckon with: the run goes on and the best trial is found."""

from __future__ import annotations

from typing import Any

import pytest
from kit import fit

from minitune import grid_search, report


def huge(config: dict[str, Any]) -> None:
    for n in range(3):
        report({"x": config["x"], "n": n, "whole": 10**400 if n else 1.5})


@pytest.mark.parametrize(("mode", "best"), [("max", 2), ("min", -1)])
def test_an_int_that_no_float_can_hold_counts_as_infinite(mode: str, best: int) -> None:
    grid = fit(
        huge,
        {"x": grid_search([-1, 10**400, 2, -(10**400)])},
        metric="x",
        mode=mode,
        num_to_keep=1,
        checkpoint_score_attribute="x",
    )
    assert grid.num_terminated == 4
    assert [result.metrics["x"] for result in grid] == [-1, 10**400, 2, -(10**400)]
    assert grid.get_best_result().config["x"] == best
    unfiltered = grid.get_best_result(filter_nan_and_inf=False).config["x"]
    assert unfiltered == (10**400 if mode == "max" else -(10**400))
