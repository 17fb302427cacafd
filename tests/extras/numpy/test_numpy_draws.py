"""A seed also decides the draws of users' functions from numpy's global generator, whose state is restored."""

from __future__ import annotations

import numpy as np
import pytest
from kit import fit

import minitune as tune


def test_functions_may_draw_from_numpy() -> None:
    def drawn(seed: int | None, state: int) -> list[float]:
        np.random.seed(state)
        before = np.random.get_state()[1].tolist()
        space = {"x": tune.sample_from(lambda: float(np.random.uniform()))}
        grid = fit(lambda config: {"x": config["x"]}, space, num_samples=3, seed=seed, name=None)
        found = [result.metrics["x"] for result in grid]
        assert seed is None or np.random.get_state()[1].tolist() == before
        return found

    assert len(set(drawn(1, 1))) == 3
    assert drawn(1, 1) == drawn(1, 2) != drawn(2, 1)
    assert drawn(None, 1) == drawn(None, 1) != pytest.approx(drawn(None, 2))


def test_generators_and_numbers_of_numpy_seed_a_draw():
    domain = tune.uniform(0, 1)
    for make in (np.random.default_rng, np.random.RandomState):
        assert domain.sample(random_state=make(1)) == domain.sample(random_state=make(1))
    assert domain.sample(random_state=np.int64(3)) == domain.sample(random_state=3)
