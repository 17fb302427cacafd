"""The global generators, lent to the user's code."""

import contextlib
import random
import sys
import types

import pytest

from minitune.base.randomness import GlobalDraws, is_on_loan, lending, seed_process


def test_a_loan_goes_on_when_another_one_inside_of_it_ends():
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


def test_without_a_seed_the_generators_of_the_process_are_not_touched():
    before = random.getstate()
    draws = GlobalDraws(random.Random(1))
    for is_seeded in (False, None):
        with contextlib.ExitStack() as stack:
            if is_seeded is not None:
                stack.enter_context(lending(is_seeded))
            with draws.lent():
                assert not is_on_loan()
                assert random.getstate() == before


def test_the_loans_of_a_run_end_with_it():
    draws = GlobalDraws(random.Random(1))
    with lending(True):
        with lending(False), draws.lent():
            assert not is_on_loan()
        with draws.lent():
            assert is_on_loan()
    with draws.lent():
        assert not is_on_loan()


def test_an_error_in_a_loan_gives_the_generators_back():
    before = random.getstate()
    draws = GlobalDraws(random.Random(1))

    def fail():
        with lending(True), draws.lent():
            random.random()
            raise ValueError

    with pytest.raises(ValueError):
        fail()
    assert random.getstate() == before
    assert not is_on_loan()


class Generator:
    """Like those of NumPy and torch."""

    def __init__(self):
        self.state = 0

    def get_state(self):
        return self.state

    def set_state(self, state):
        self.state = state

    def seed(self, seed):
        self.state = seed

    manual_seed = seed


def test_the_generators_of_libraries_are_lent_too(monkeypatch):
    numpy_random, torch = Generator(), types.SimpleNamespace(default_generator=Generator())
    monkeypatch.setitem(sys.modules, "numpy.random", numpy_random)
    monkeypatch.setitem(sys.modules, "torch", torch)
    draws = GlobalDraws(random.Random(1))
    states = []
    with lending(True):
        for _ in range(2):
            numpy_random.state, torch.default_generator.state = 5, 6
            with draws.lent():
                states.append((numpy_random.state, torch.default_generator.state))
                numpy_random.state += 1
                torch.default_generator.state += 2
            assert (numpy_random.state, torch.default_generator.state) == (5, 6)
    seed = random.Random(1).getrandbits(32)
    assert states == [(seed, seed), (seed + 1, seed + 2)]
    monkeypatch.setitem(sys.modules, "numpy.random", types.ModuleType("numpy.random"))  # still being imported
    monkeypatch.delitem(sys.modules, "torch")
    with lending(True), GlobalDraws(random.Random(1)).lent():
        assert is_on_loan()


def test_the_seeds_of_a_process_differ_by_run_iteration_and_failures():
    before = random.getstate()
    try:
        drawn = []
        for arguments in ((1,), (2,), (1, 1), (1, 2), (1, 0, 1), (1, 0, 2), (1, 1, 1)):
            seed_process(*arguments)
            drawn.append(random.random())
        assert len(set(drawn)) == len(drawn)
        seed_process(1, 0, 0)
        assert random.random() == drawn[0]
    finally:
        random.setstate(before)
