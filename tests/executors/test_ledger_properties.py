"""For any requests in any order: the ledger is exact, leaves nothing idle without a reason, and each waiter starts."""

import hypothesis
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from minitune.error import TuneError
from minitune.executors.ledger import Ledger
from minitune.resources import Resources

TINY = 2e-4
"""The ledger counts in 1/10,000; thirds and the like may stand a little over."""

fractions = st.sampled_from([0.05, 0.1, 0.2, 0.25, 0.3, 1 / 3, 0.4, 0.5, 0.6, 0.75, 0.9])
cpu_amounts = st.sampled_from([0, 0.1, 0.25, 0.5, 1, 1.5, 2, 3, 4])
gpu_amounts = st.one_of(st.just(0), fractions, st.sampled_from([1, 2]))
bundles = st.fixed_dictionaries({"CPU": cpu_amounts, "GPU": gpu_amounts})
requests = st.lists(bundles, min_size=1, max_size=3).map(Resources)


class Model(RuleBasedStateMachine):
    """A driver that acquires and releases at random, with a plain record of all holdings."""

    def __init__(self):
        super().__init__()
        self.ledger = Ledger({"CPU": 8, "GPU": 4}, "abcd", environ={})
        self.held = {}
        self.count = 0

    @rule(request=requests)
    def acquire(self, request):
        try:
            fits = self.ledger.can_acquire(request)
        except TuneError:
            return
        self.count += 1
        name = f"holder{self.count}"
        if fits:
            self.held[name] = request, self.ledger.acquire(name, request)
        else:
            before = self.ledger.free()
            with pytest.raises(RuntimeError):
                self.ledger.acquire(name, request)
            assert self.ledger.free() == before

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def release(self, data):
        name = data.draw(st.sampled_from(sorted(self.held)))
        del self.held[name]
        self.ledger.release(name)

    @invariant()
    def no_device_is_overcommitted(self):
        load = dict.fromkeys("abcd", 0.0)
        for request, allocation in self.held.values():
            for asked, given in zip(request.bundles, allocation.bundles, strict=True):
                amount = asked.get("GPU", 0)
                assert sum(share.fraction for share in given.gpus) == pytest.approx(amount)
                assert len(given.gpus) == (1 if 0 < amount < 1 else amount)
                for share in given.gpus:
                    load[share.id] += share.fraction
        assert max(load.values()) <= 1 + TINY
        assert self.ledger.free()["GPU"] == pytest.approx(4 - sum(load.values()), abs=0.01)

    @invariant()
    def the_sum_is_right(self):
        used = sum(request.required_resources.get("CPU", 0) for request, _ in self.held.values())
        assert used <= 8 + TINY
        assert self.ledger.free()["CPU"] == pytest.approx(8 - used)

    @invariant()
    def nothing_idles_that_is_wanted(self):
        free = self.ledger.free()
        assert self.ledger.can_acquire(Resources.of({"cpu": 1})) == (free["CPU"] >= 1)
        load = dict.fromkeys("abcd", 0.0)
        for _, allocation in self.held.values():
            for bundle in allocation.bundles:
                for share in bundle.gpus:
                    load[share.id] += share.fraction
        unused = sum(amount == 0 for amount in load.values())
        for whole in (1, 2, 4):
            assert self.ledger.can_acquire(Resources.of({"gpu": whole})) == (unused >= whole)
        assert self.ledger.can_acquire(Resources.of({"gpu": 0.3})) == (min(load.values()) <= 0.7 + TINY / 2)

    def teardown(self):
        for name in self.held:
            self.ledger.release(name)
        assert self.ledger.free() == self.ledger.totals() == {"CPU": 8, "GPU": 4}


Model.TestCase.settings = hypothesis.settings(max_examples=60, stateful_step_count=30)
TestLedger = Model.TestCase


@hypothesis.settings(max_examples=200)
@hypothesis.given(fraction=st.floats(0.01, 1), devices=st.integers(1, 4))
def test_places_are_the_sum_over_devices(fraction, devices):
    book = Ledger({}, [str(index) for index in range(devices)], environ={})
    request = Resources.of({"gpu": fraction})
    places = 0
    while book.can_acquire(request):
        book.acquire(f"holder{places}", request)
        places += 1
    assert places == devices * int(1 / fraction + 1e-9)


@hypothesis.settings(max_examples=100)
@hypothesis.given(
    sizes=st.lists(st.sampled_from([0.5, 1, 2, 3, 4, 6, 8]), min_size=5, max_size=80),
    gpus=st.lists(st.sampled_from([0, 0, 0.5, 1, 2]), min_size=80, max_size=80),
    data=st.data(),
)
def test_each_waiter_starts_sooner_or_later(sizes, gpus, data):
    """Waiters ask in another order in each round, and one holding is released per round: all start within the bound."""
    book = Ledger({"CPU": 8, "GPU": 2}, ["0", "1"], environ={})
    waiting = {f"trial{i}": Resources.of({"cpu": size, "gpu": gpus[i]}) for i, size in enumerate(sizes)}
    running = []
    random = data.draw(st.randoms(use_true_random=False))
    for _ in range(2 * len(sizes) + 10):
        for name in random.sample(sorted(waiting), len(waiting)):
            if book.can_acquire(waiting[name], name):
                book.acquire(f"{name}#1", waiting.pop(name))
                running.append(name)
        if not waiting:
            break
        if book.owed() is None:
            assert not any(book.can_acquire(request) for request in waiting.values())
        assert running, "some wait, but none runs"
        book.release(f"{running.pop(random.randrange(len(running)))}#1")
    assert not waiting
