"""SciPy's distributions in a search space."""

from __future__ import annotations

from typing import Any

import pytest
from scipy import stats

from minitune import loguniform, randint, randn, uniform
from minitune.space.distributions import own_space


@pytest.mark.parametrize(
    ("distribution", "domain"),
    [
        (stats.uniform(1, 2), uniform(1, 3)),
        (stats.loguniform(0.1, 1), loguniform(0.1, 1)),
        (stats.randint(1, 5), randint(1, 5)),
        (stats.norm(1, 2), randn(1, 2)),
    ],
)
def test_a_distribution_of_scipy_becomes_a_domain(distribution: Any, domain: Any) -> None:
    assert repr(own_space({"x": distribution})["x"]) == repr(domain)


@pytest.mark.parametrize("distribution", [stats.beta(1, 2), stats.uniform])
def test_other_distributions_of_scipy_are_refused(distribution: Any) -> None:
    with pytest.raises(ValueError, match="parameter 'x' is a distribution of scipy"):
        own_space({"x": distribution})
