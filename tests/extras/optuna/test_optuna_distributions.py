"""Optuna's distributions in a search space."""

from __future__ import annotations

from typing import Any

import pytest
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

from minitune import choice, lograndint, loguniform, qrandint, quniform, randint, uniform
from minitune.space.distributions import own_space


@pytest.mark.parametrize(
    ("distribution", "domain"),
    [
        (FloatDistribution(0, 1), uniform(0, 1)),
        (FloatDistribution(0.1, 1, log=True), loguniform(0.1, 1)),
        (FloatDistribution(0, 1, step=0.25), quniform(0, 1, 0.25)),
        (IntDistribution(1, 4), randint(1, 5)),
        (IntDistribution(1, 4, log=True), lograndint(1, 5)),
        (IntDistribution(2, 9, step=2), qrandint(2, 8, 2)),
        (CategoricalDistribution(["a", None]), choice(["a", None])),
    ],
)
def test_a_distribution_of_optuna_becomes_a_domain(distribution: Any, domain: Any) -> None:
    assert repr(own_space({"x": distribution})["x"]) == repr(domain)
