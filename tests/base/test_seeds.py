"""Seeds: what gives one, and that of each part of a run."""

import pytest

from minitune.base.seeds import component_seed
from minitune.space import domains


def test_parts_of_a_run_draw_from_seeds_of_their_own():
    """The numbers are written down once: a difference would break the resuming of old runs."""
    found = {name: component_seed(7, name) for name in ("searcher", "scheduler", "ids")}
    assert found == {"searcher": 3450349831, "scheduler": 1160977335, "ids": 4157599793}


def test_numpy_generators_seed_a_draw():
    numpy = pytest.importorskip("numpy")
    domain = domains.uniform(0, 1)
    assert domain.sample(random_state=numpy.random.default_rng(1)) == domain.sample(
        random_state=numpy.random.default_rng(1)
    )
    assert domain.sample(random_state=numpy.random.RandomState(1)) == domain.sample(
        random_state=numpy.random.RandomState(1)
    )
    assert domain.sample(random_state=numpy.int64(3)) == domain.sample(random_state=3)
    with pytest.raises(TypeError, match="random_state must be"):
        domain.sample(random_state="three")
