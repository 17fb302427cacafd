"""The ledger: exact counts, gangs, devices, and errors for requests that can never be met."""

import pytest

from minitune.error import TuneError
from minitune.executors.ledger import Ledger
from minitune.resources import GpuShare, Resources


def ledger(cpus=0, gpus=0, **others):
    return Ledger({"CPU": cpus, "GPU": gpus, **others}, [str(index) for index in range(gpus)], environ={})


def fill(book, request, prefix="holder"):
    """Acquire until nothing fits any more; returns how often."""
    count = 0
    while book.can_acquire(request):
        book.acquire(f"{prefix}{count}", request)
        count += 1
    return count


# -- counts --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("amount", "total", "places"),
    [(0.1, 1, 10), (0.3, 3, 10), (4, 32, 8), (1 / 3, 1, 3), (1 / 6, 4, 24), (4 / 3, 4, 3), (5 / 3, 5, 3), (0.7, 7, 10)],
)
def test_as_many_fit_as_by_arithmetic(amount, total, places):
    book = ledger(total)
    request = Resources.of({"cpu": amount})
    assert fill(book, request) == places
    for index in range(places):
        book.release(f"holder{index}")
    assert book.free() == book.totals() == {"CPU": total}


def test_fractions_add_up_exactly():
    """Thirteen times three tenths and one tenth are four, although 0.1 * 3 is a little more than 0.3."""
    book = ledger(4)
    for number in range(13):
        book.acquire(f"three {number}", Resources.of({"cpu": 0.1 * 3}))
    book.acquire("one", Resources.of({"cpu": 0.1}))
    assert book.free() == {"CPU": 0}


def test_memory_is_counted_to_the_byte():
    book = ledger(8, memory=16_000_000_000)
    assert fill(book, Resources.of({"memory": 8_000_000_001})) == 1
    book.acquire("rest", Resources.of({"memory": 7_999_999_999}))
    assert book.free()["memory"] == 0


def test_names_hold_once_and_are_released_once():
    book = ledger(4)
    book.acquire("a#1", Resources.of(None))
    with pytest.raises(RuntimeError, match="a#1"):
        book.acquire("a#1", Resources.of(None))
    book.release("a#1")
    with pytest.raises(RuntimeError, match="a#1"):
        book.release("a#1")
    assert book.free() == {"CPU": 4}


# -- what can never be ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("request_", "words"),
    [
        (Resources.of({"cpu": 64}), ["'CPU': 64", "CPU: 64 requested, 4 in total", "CPU: 4", "MINITUNE_NUM_CPUS"]),
        (Resources.of({"gpu": 3}), ["'GPU': 3", "GPU: 3 requested, 2 in total"]),
        (Resources.of({"tokens": 1}), ["(tokens: 1 requested, 0 in total)"]),
        (Resources.of({"tokens": 0.0001}), ["(tokens: 0.0001 requested, 0 in total)"]),
        (
            Resources.of({"memory": 3 << 40}),
            ["(memory: 3072 GiB requested, 1.5 GiB in total)", "totals are {CPU: 4, memory: 1.5 GiB"],
        ),
        (Resources.of({"memory": 10**15}), ["(memory: 931322.6 GiB requested"]),
        (Resources([{"GPU": 0.6}] * 3), ["'GPU': 0.6", "do not fit on the GPUs", "GPU: 2"]),
        (Resources([{"CPU": 3}, {"CPU": 2}]), ["CPU: 5 requested, 4 in total"]),
    ],
)
def test_a_request_that_can_never_fit_is_refused_at_once(request_, words):
    book = ledger(4, 2, memory=1.5 * 2**30)
    for ask in (book.can_acquire, lambda request: book.acquire("holder", request)):
        with pytest.raises(TuneError) as caught:
            ask(request_)
        for word in words:
            assert word in str(caught.value)


def test_written_off_resources_are_gone_for_good():
    book = ledger(4, 2)
    book.can_acquire(Resources.of({"cpu": 4}))
    book.acquire("unkillable", Resources.of({"cpu": 1, "gpu": 0.5}))
    book.write_off("unkillable")
    assert book.totals() == book.free() == {"CPU": 3, "GPU": 1.5}
    with pytest.raises(TuneError):
        book.can_acquire(Resources.of({"gpu": 2}))
    with pytest.raises(TuneError):
        book.can_acquire(Resources.of({"cpu": 4}))
    assert book.acquire("whole", Resources.of({"gpu": 1})).gpu_ids == ("1",)
    assert book.acquire("half", Resources.of({"gpu": 0.5})).gpu_ids == ("0",)


@pytest.mark.parametrize(
    ("totals", "ids"),
    [
        ({"CPU": -1}, []),
        ({"CPU": float("inf")}, []),
        ({"CPU": float("nan")}, []),
        ({"GPU": 2}, ["0"]),
        ({"GPU": 2}, ["0", "0"]),
        ({"GPU": 0.5}, ["0"]),
    ],
)
def test_bad_totals_are_refused(totals, ids):
    with pytest.raises(ValueError):
        Ledger(totals, ids)


# -- devices -------------------------------------------------------------------------------------------------------


def test_fractions_are_packed_and_whole_devices_stay_free():
    book = ledger(gpus=2)
    half = Resources.of({"gpu": 0.5})
    assert [book.acquire(name, half).gpu_ids for name in "abc"] == [("0",), ("0",), ("1",)]
    book.release("a")
    assert book.acquire("quarter", Resources.of({"gpu": 0.25})).gpu_ids == ("0",)
    book.release("c")
    assert book.acquire("whole", Resources.of({"gpu": 1})).bundles[0].gpus == (GpuShare("1", 1.0),)


def test_a_fraction_goes_to_the_most_used_device_with_room():
    book = ledger(gpus=3)
    for name, fraction in (("a", 0.4), ("b", 0.7), ("c", 0.4)):
        book.acquire(name, Resources.of({"gpu": fraction}))
    # 0: 0.2 free, 1: 0.3 free, 2: all
    assert book.acquire("d", Resources.of({"gpu": 0.2})).gpu_ids == ("0",)
    assert book.acquire("e", Resources.of({"gpu": 0.2})).gpu_ids == ("1",)


def test_bundles_of_a_gang_may_share_a_device():
    book = ledger(4, 2)
    allocation = book.acquire("gang", Resources([{"CPU": 1}, {"GPU": 0.5}, {"GPU": 1}, {"GPU": 0.5}]))
    assert [bundle.gpu_ids for bundle in allocation.bundles] == [(), ("1",), ("0",), ("1",)]
    assert allocation.gpu_ids == ("1", "0")
    assert book.free()["GPU"] == 0
    book.release("gang")
    assert book.free()["GPU"] == 2
