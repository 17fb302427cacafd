"""What the callbacks for gradient boosting have in common, without a library for it."""

from __future__ import annotations

import pytest

from minitune.integration._metrics import Boosting


@pytest.mark.parametrize(("frequency", "saved"), [(0, []), (1, [0, 1, 2, 3, 4, 5, 6]), (3, [2, 5])])
def test_every_so_many_rounds_the_model_is_saved(frequency: int, saved: list[int]) -> None:
    plan = Boosting(None, "model", frequency, True, None)
    assert [number for number in range(7) if plan.is_due(number)] == saved


def test_metrics_are_reported_under_the_names_that_are_wanted() -> None:
    logged = {"train-loss": 1.0, "eval-loss": 2.0}
    assert Boosting(None, "model", 0, True, None).reported(logged) == logged
    assert Boosting("eval-loss", "model", 0, True, None).reported(logged) == {"eval-loss": 2.0}
    assert Boosting({"loss": "eval-loss"}, "model", 0, True, None).reported(logged) == {"loss": 2.0}
    doubled = Boosting(["eval-loss"], "model", 0, True, lambda metrics: {"twice": metrics["eval-loss"] * 2})
    assert doubled.reported(logged) == {"twice": 4.0}
    with pytest.raises(KeyError, match="no metric 'acc' was logged; there are eval-loss, train-loss"):
        Boosting({"eval-loss": "acc"}, "model", 0, True, None).reported(logged)
