"""The Gaussian process of `AutoSearch` suggests the same with numpy as without it."""

from __future__ import annotations

import math
from typing import Any

import pytest

from minitune.search import AutoSearch, gaussian_process
from minitune.space.domains import choice, lograndint, loguniform, quniform, uniform

SPACE = {
    "lr": loguniform(1e-5, 1e-1),
    "units": lograndint(8, 512),
    "drop": quniform(0, 0.5, 0.1),
    "x": uniform(0, 1),
    "act": choice(["relu", "tanh", "gelu"]),
}


def played(pending: int) -> list[dict[str, Any]]:
    """The configurations of a search with `pending` trials at a time; some trials fail."""
    searcher = AutoSearch(SPACE, metric="loss", mode="min", seed=4)
    configs: list[dict[str, Any]] = []
    for number in range(60 + pending):
        if number < 60:
            config = searcher.suggest(str(number))
            assert isinstance(config, dict)
            configs.append(config)
        if number >= pending:
            config = configs[number - pending]
            loss = (math.log10(config["lr"]) + 3) ** 2 + (config["x"] - 0.3) ** 2 + (config["act"] != "tanh")
            loss += (math.log2(config["units"]) - 6) ** 2 / 8 + config["drop"]
            searcher.on_trial_complete(str(number - pending), {"loss": loss}, error=config["x"] > 0.9)
    return configs


@pytest.mark.parametrize("pending", [1, 8])
def test_numpy_changes_no_suggestion_by_more_than_rounding(pending: int, monkeypatch: pytest.MonkeyPatch) -> None:
    assert gaussian_process.covariance_kind() is gaussian_process.NumpyCovariance
    with_numpy = played(pending)
    monkeypatch.setattr(gaussian_process, "covariance_kind", lambda: gaussian_process.Covariance)

    without = played(pending)

    for left, right in zip(with_numpy, without, strict=True):
        assert left["act"] == right["act"]
        assert all(left[name] == pytest.approx(right[name], rel=1e-6) for name in SPACE if name != "act")


def test_both_covariances_predict_the_same() -> None:
    inputs = [(math.sin(3 * i) * 2, math.cos(5 * i) * 3, i / 40) for i in range(70)]
    values = [sum(point) ** 2 for point in inputs[:60]]  # nothing is known at the last ten
    found = []
    for kind in (gaussian_process.Covariance, gaussian_process.NumpyCovariance):
        covariance = kind(inputs, 1e-6)
        squares = covariance.solve(values)
        predicted = [(mean, [*shares][-1]) for mean, shares in covariance.predict([(0.1, 0.2, 0.3), *inputs[55:65]])]
        found.append([covariance.log_determinant, squares, *(each for pair in predicted for each in pair)])

    assert found[0] == pytest.approx(found[1], rel=1e-6, abs=1e-9)
