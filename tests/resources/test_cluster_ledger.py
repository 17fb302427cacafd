"""What the actors of a run hold on a cluster, and which of them wait beyond that. Ray is played."""

from __future__ import annotations

import pytest

from minitune import Resources
from minitune.error import TuneError
from minitune.executors import ray_cluster
from minitune.executors.ray_cluster import ClusterLedger

ONE_CPU = Resources([{"CPU": 1}])


class Cluster:
    """Nodes with CPUs, a clock, and whether there is an autoscaler. It takes the places of Ray and `time`."""

    def __init__(self, *cpus: float):
        self.cpus = list(cpus)
        self.now_s = 0.0

    def nodes(self):
        return [{"Alive": True, "NodeID": str(number), "Resources": {"CPU": n}} for number, n in enumerate(self.cpus)]

    def monotonic(self):
        return self.now_s


@pytest.fixture
def cluster(monkeypatch):
    found = Cluster(1)
    monkeypatch.setattr(ray_cluster, "time", found)
    return found


def start(ledger, actor_id, request=ONE_CPU):
    assert ledger.can_acquire(request, actor_id.partition("#")[0])
    ledger.acquire(actor_id, request)


def test_one_actor_more_than_there_is_room_for_may_wait(cluster):
    ledger = ClusterLedger(cluster)
    start(ledger, "a#1")
    start(ledger, "b#1")

    assert not ledger.can_acquire(ONE_CPU, "c")
    with pytest.raises(RuntimeError, match="no room"):
        ledger.acquire("c#1", ONE_CPU)
    assert ledger.free()["CPU"] == 0


def test_an_actor_that_waits_on_purpose_is_counted_when_there_is_room_for_it(cluster):
    ledger = ClusterLedger(cluster)
    start(ledger, "a#1")
    start(ledger, "b#1")
    assert ledger.counts("a#1")
    assert not ledger.counts("b#1")

    ledger.release("a#1")

    assert ledger.counts("b#1")


def test_with_an_autoscaler_a_request_beyond_every_node_waits(cluster, monkeypatch):
    monkeypatch.setattr(ray_cluster, "has_autoscaler", lambda ray: True)
    ledger = ClusterLedger(cluster)
    start(ledger, "a#1", Resources([{"CPU": 5}]))

    assert ledger.may_grow()
    assert not ledger.counts("a#1")


def test_a_place_beyond_the_room_is_the_news_of_another_node(cluster):
    ledger = ClusterLedger(cluster)
    start(ledger, "a#1")
    start(ledger, "b#1")
    cluster.cpus.append(2)
    ledger.note_place("b#1")

    assert ledger.totals()["CPU"] == 3
    assert ledger.free()["CPU"] == 1
    start(ledger, "c#1")


def test_room_of_a_lost_node_is_not_counted(cluster):
    cluster.cpus.append(1)
    ledger = ClusterLedger(cluster)
    start(ledger, "a#1")
    start(ledger, "b#1")
    cluster.cpus.pop()
    ledger.release("b#1")
    ledger.refresh()

    assert (ledger.totals()["CPU"], ledger.free()["CPU"]) == (1, 0)


def test_nodes_that_are_added_are_found_after_a_while(cluster):
    ledger = ClusterLedger(cluster)
    start(ledger, "a#1")
    start(ledger, "b#1")
    cluster.cpus.append(8)
    assert not ledger.can_acquire(ONE_CPU, "c")
    cluster.now_s = 60

    assert ledger.can_acquire(ONE_CPU, "c")


@pytest.mark.parametrize(
    "request_",
    [
        Resources([{"CPU": 3}]),
        Resources([{"CPU": 1}, {"CPU": 2}], "STRICT_PACK"),
        Resources([{"CPU": 1}] * 3, "STRICT_SPREAD"),
        Resources([{"CPU": 2}] * 3),
        Resources([{"gadget": 1}]),
        Resources([{"CPU": 1}], bundle_label_selector=[{"zone": "a"}]),
    ],
    ids=str,
)
def test_request_larger_than_the_cluster_is_refused(cluster, request_):
    cluster.cpus = [2, 2]

    with pytest.raises(TuneError, match="can never be met"):
        ClusterLedger(cluster).can_acquire(request_, "a")


def test_bundles_that_need_nodes_of_their_own_are_matched_with_the_nodes(cluster):
    """The head of a cluster often has no CPU. And a bundle leaves a node to another one that fits nowhere else."""
    cluster.cpus = [0, 4, 2]

    with pytest.raises(TuneError, match="can never be met"):
        ClusterLedger(cluster).can_acquire(Resources([{"CPU": 1}] * 3, "STRICT_SPREAD"), "a")
    with pytest.raises(TuneError, match="can never be met"):
        ClusterLedger(cluster).can_acquire(Resources([{"CPU": 3}, {"CPU": 3}], "STRICT_SPREAD"), "a")
    assert ClusterLedger(cluster).can_acquire(Resources([{"CPU": 1}, {"CPU": 3}], "STRICT_SPREAD"), "a")


def test_a_request_by_the_name_of_a_node_waits_for_it(cluster):
    """Such names are Ray's own, and not shown."""
    cluster.nodes = lambda: [{"Alive": True, "NodeID": "0", "Resources": {"CPU": 1, "node:10.0.0.1": 1}}]
    ledger = ClusterLedger(cluster)

    start(ledger, "a#1", Resources([{"CPU": 1, "node:10.0.0.1": 0.001}]))
    assert set(ledger.totals()) == {"CPU"}
