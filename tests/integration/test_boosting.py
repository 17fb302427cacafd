"""The base of the callbacks for gradient boosting, without a library for it."""

from __future__ import annotations

from typing import Any

import pytest

from minitune.integration._metrics import Boosting


@pytest.mark.parametrize(("frequency", "saved"), [(0, []), (1, [0, 1, 2, 3, 4, 5, 6]), (3, [2, 5])])
def test_every_so_many_rounds_the_model_is_saved(frequency: int, saved: list[int]) -> None:
    callback = Boosting(frequency=frequency)
    assert [number for number in range(7) if callback._is_due(number)] == saved


def test_metrics_are_reported_under_the_names_that_are_wanted() -> None:
    logged = {"train-loss": 1.0, "eval-loss": 2.0}
    assert Boosting()._reported(logged) == logged
    assert Boosting("eval-loss")._reported(logged) == {"eval-loss": 2.0}
    assert Boosting({"loss": "eval-loss"})._reported(logged) == {"loss": 2.0}
    doubled = Boosting(["eval-loss"], results_postprocessing_fn=lambda metrics: {"twice": metrics["eval-loss"] * 2})
    assert doubled._reported(logged) == {"twice": 4.0}
    emptied = Boosting(results_postprocessing_fn=lambda metrics: {"n": len([metrics.popitem(), metrics.popitem()])})
    assert emptied._reported(logged) == {"n": 2}
    assert len(logged) == 2, "the library's own dict stays as it is"
    with pytest.raises(KeyError, match="no metric 'acc' was logged; there are eval-loss, train-loss"):
        Boosting({"eval-loss": "acc"})._reported(logged)


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"frequency": -1}, ValueError),
        ({"frequency": 1.5}, ValueError),
        ({"metrics": [3]}, TypeError),
        ({"results_postprocessing_fn": 3}, TypeError),
    ],
)
def test_wrong_arguments_are_refused(options: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error, match=next(iter(options))):
        Boosting(**options)
