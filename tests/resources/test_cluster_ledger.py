"""The books of a cluster: the node for each request, and requests that can never be met."""

from __future__ import annotations

import sys

import pytest

import minitune as tune
from minitune import Resources, TuneConfig, Tuner
from minitune.base import text
from minitune.error import TuneError
from minitune.execution.ray import ClusterLedger


@pytest.fixture
def books() -> ClusterLedger:
    """Two nodes, of which one has a GPU."""
    return ClusterLedger({"a": {"CPU": 2, "node:10.0.0.1": 1}, "b": {"CPU": 4, "GPU": 1}})


def gang(*cpus: float, strategy: str = "PACK") -> Resources:
    return Resources([{"CPU": each} for each in cpus], strategy=strategy)


def test_totals_are_those_of_all_nodes(books):
    assert books.totals() == books.free() == {"CPU": 6, "GPU": 1}


def test_a_request_goes_to_one_node_whole(books):
    books.acquire("x#1", gang(4))

    assert books.free() == {"CPU": 2, "GPU": 1}
    assert not books.can_acquire(gang(3))
    assert books.can_acquire(gang(2))
    books.release("x#1")
    assert books.free() == books.totals()


def test_a_request_that_no_node_has_is_refused_with_what_the_nodes_have(books):
    with pytest.raises(TuneError, match=r"can never be met.*\{CPU: 2\}; \{CPU: 4, GPU: 1\}"):
        books.can_acquire(gang(5))


def test_a_gang_is_spread_where_no_node_has_room_for_all(books):
    assert books.can_acquire(gang(2, 3))
    books.acquire("x#1", gang(2, 3))

    assert books.free() == {"CPU": 1, "GPU": 1}
    books.release("x#1")
    assert books.free() == books.totals()


@pytest.mark.parametrize(("request_", "can"), [
    (gang(2, 3, strategy="STRICT_PACK"), False),
    (gang(2, 2, strategy="STRICT_PACK"), True),
    (gang(2, 2, strategy="STRICT_SPREAD"), True),
    (gang(1, 1, 1, strategy="STRICT_SPREAD"), False),
])  # fmt: skip
def test_strategies(books, request_, can):
    if can:
        books.acquire("x#1", request_)
        spread = [place[0] for place in books._places["x#1"]]
        assert len({id(ledger) for ledger in spread}) == (2 if request_.strategy == "STRICT_SPREAD" else 1)
    else:
        with pytest.raises(TuneError, match=request_.strategy):
            books.can_acquire(request_)


def test_holdings_on_a_node_are_forgotten_with_it(books):
    books.acquire("x#1", Resources([{"CPU": 1, "GPU": 1}]))
    books.update({"a": {"CPU": 2}, "c": {"CPU": 8}})

    assert books.free() == books.totals() == {"CPU": 10}
    books.release("x#1")
    assert books.free() == {"CPU": 10}


def test_an_owed_waiter_gets_what_becomes_free(books):
    """The big request is overtaken, and then room is kept for it."""
    books.acquire("a#1", gang(2))
    books.acquire("b#1", gang(1))
    for number in range(40):
        assert not books.can_acquire(gang(4), "big")
        if not books.can_acquire(gang(1), f"small{number}"):
            break
        books.acquire(f"small{number}#1", gang(1))
        books.release(f"small{number}#1")
    else:
        pytest.fail("small requests overtake the big one for ever")
    books.release("b#1")
    assert books.can_acquire(gang(4), "big")


def test_without_ray_the_extra_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ImportError, match=r"pip install 'minitune\[ray\]'"):
        Tuner(lambda config: {"loss": 1}, tune_config=TuneConfig(executor="ray")).fit()
    assert not list(tmp_path.iterdir())


def test_a_run_without_the_executor_of_a_cluster_uses_this_machine(caplog, monkeypatch):
    monkeypatch.setattr(text, "_said", set())
    tune.shutdown()  # what an earlier test has used
    tune.init(address="10.0.0.1:6379")
    try:
        for _ in range(2):
            assert Tuner(lambda config: {"loss": 1}).fit()[0].metrics["loss"] == 1
        (node,) = tune.nodes()
        assert node["Alive"]
        assert node["Resources"] == tune.cluster_resources()
    finally:
        tune.shutdown()
    said = [message for message in caplog.messages if "cluster" in message]
    assert said == [
        "init(address=...) names a Ray cluster, but the run uses this machine: "
        'TuneConfig(executor="ray") uses the cluster'
    ]
    with pytest.raises(ValueError, match="num_cpus"):
        tune.init(address="10.0.0.1:6379", num_cpus=4)
