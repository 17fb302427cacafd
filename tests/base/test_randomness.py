"""The global generators, lent to the user's code."""

from __future__ import annotations

import random

from minitune.base.randomness import GlobalDraws, is_on_loan, lending


def test_a_loan_goes_on_when_another_one_inside_of_it_ends() -> None:
    before = random.getstate()
    outer, inner, alone = (GlobalDraws(random.Random(seed)) for seed in (1, 2, 1))
    with lending(is_seeded=True):
        with outer.lent():
            drawn = [random.random()]
            with inner.lent():
                random.random()
            assert is_on_loan()
            drawn.append(random.random())
        assert not is_on_loan()
        with alone.lent():
            assert drawn == [random.random(), random.random()]
    assert random.getstate() == before
