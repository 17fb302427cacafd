"""The order of waiters: small requests pass big ones, but not for ever."""

import pytest

from minitune.error import TuneError
from minitune.executors.ledger import Ledger
from minitune.resources import Resources

SMALL, BIG = Resources.of({"cpu": 1}), Resources.of({"cpu": 4})


def busy_ledger():
    """Four CPUs, all of them held by small ones."""
    book = Ledger({"CPU": 4, "GPU": 1}, ["0"], environ={})
    for index in range(4):
        book.acquire(f"first{index}", SMALL)
    return book


def overtake(book, times, request=SMALL):
    """Release one and admit another, so many times or until that is refused; how many were admitted."""
    for count in range(times):
        holder = f"first{count}" if count < 4 else f"next{count - 4}"
        book.release(holder)
        if not book.can_acquire(request, f"next{count}"):
            return count
        book.acquire(f"next{count}", request)
    return times


def test_request_overtaken_sixteen_times_goes_next():
    book = busy_ledger()
    assert not book.can_acquire(BIG, "big")
    assert overtake(book, 100) == 16
    assert book.owed() == "big"
    for holder in ("next13", "next14", "next15"):
        assert not book.can_acquire(SMALL, "another")
        assert not book.can_acquire(SMALL)
        assert not book.can_acquire(BIG, "big")
        book.release(holder)
    assert book.free()["CPU"] == 4
    assert not book.can_acquire(SMALL, "another"), "it asks first, but the big one has a right to go first"
    assert book.can_acquire(BIG, "big")
    book.acquire("big", BIG)
    assert book.owed() is None
    book.release("big")
    assert book.can_acquire(SMALL, "another")


def become_infeasible(book):
    book.write_off("next15")
    assert book.owed() is None
    book.release("next14")
    with pytest.raises(TuneError):
        book.can_acquire(BIG, "big")


@pytest.mark.parametrize(
    "end",
    [
        lambda book: book.forget("big"),
        lambda book: book.can_acquire(Resources.of({"cpu": 3}), "big"),
        become_infeasible,
    ],
    ids=["it is forgotten", "it asks for something else", "it can never be met"],
)
def test_a_request_that_does_not_wait_any_more_is_owed_nothing(end):
    book = busy_ledger()
    book.can_acquire(BIG, "big")
    assert overtake(book, 100) == 16
    book.forget("never heard of")
    assert book.owed() == "big"
    end(book)
    assert book.owed() is None
    assert book.can_acquire(SMALL, "another")


def test_others_may_start_beside_a_request_that_goes_next():
    book = busy_ledger()
    three = Resources.of({"cpu": 3})
    book.can_acquire(three, "three")
    overtake(book, 100)
    assert book.owed() == "three"
    assert book.can_acquire(Resources.of({"gpu": 1}), "gpu only"), "it needs no CPU"
    for holder in ("next13", "next14", "next15"):
        book.release(holder)
    assert book.can_acquire(SMALL, "small"), "four are free, three are owed"
    book.acquire("small", SMALL)
    assert not book.can_acquire(SMALL, "small too")
    assert book.can_acquire(three, "three")


def test_a_gpu_that_is_owed_is_not_given_away_in_parts():
    book = Ledger({"CPU": 64, "GPU": 2}, ["0", "1"], environ={})
    half, both = Resources.of({"cpu": 1, "gpu": 0.5}), Resources.of({"cpu": 1, "gpu": 2})
    for index in range(4):
        book.acquire(f"first{index}", half)
    book.can_acquire(both, "both")
    assert overtake(book, 100, half) == 16
    assert book.can_acquire(SMALL, "cpu only")
    for holder in ("next12", "next13", "next14", "next15"):
        assert not book.can_acquire(half, "half")
        if holder != "next12":
            book.release(holder)
    assert book.can_acquire(both, "both")


def test_an_actor_that_could_start_but_does_not_is_owed_nothing():
    """The scheduler has chosen others."""
    book = Ledger({"CPU": 4}, environ={})
    assert book.can_acquire(BIG, "big")
    for index in range(4):
        book.acquire(f"first{index}", SMALL)
    assert overtake(book, 40) == 40


def test_equal_requests_do_not_overtake_each_other():
    book = busy_ledger()
    for index in range(100):
        assert not book.can_acquire(SMALL, f"waiter{index}")
    # The scheduler may choose the last ones: there was room for each of the others, too.
    assert [book.can_acquire(SMALL, f"waiter{index}") for index in range(100)] == [False] * 100
    for index in range(40):
        book.release(f"first{index}" if index < 4 else f"waiter{103 - index}")
        assert book.can_acquire(SMALL, f"waiter{99 - index}")
        book.acquire(f"waiter{99 - index}", SMALL)
    assert book.owed() is None


def test_the_first_of_several_owed_goes_first():
    book = busy_ledger()
    book.can_acquire(BIG, "big")
    book.can_acquire(Resources.of({"cpu": 3}), "three")
    overtake(book, 100)
    assert book.owed() == "big"
    for holder in ("next13", "next14", "next15"):
        book.release(holder)
    assert not book.can_acquire(Resources.of({"cpu": 3}), "three")
    book.acquire("big", BIG)
    assert book.owed() is None, "it is counted from now on"
    book.release("big")
    assert book.can_acquire(Resources.of({"cpu": 3}), "three")
