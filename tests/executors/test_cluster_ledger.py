"""What the actors of a run hold on a cluster, and which of them wait beyond that. Ray is played."""

import pytest

from minitune import Resources
from minitune.ray.cluster import nodes as ray_cluster
from minitune.ray.cluster.nodes import ClusterLedger

ONE_CPU = Resources([{"CPU": 1}])
HUGE = Resources([{"CPU": 5}])


class Cluster:
    """Nodes with CPUs, and a clock. It takes the places of Ray and `time`."""

    def __init__(self, *cpus):
        self.found = []
        self.now_s = 0.0
        self.add(*cpus)

    def add(self, *cpus):
        for amount in cpus:
            self.found.append({"Alive": True, "NodeID": str(len(self.found)), "Resources": {"CPU": amount}})

    def lose(self):
        self.found[-1]["Alive"] = False

    def nodes(self):
        return self.found

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
    """Until then a process that gets free may serve it, and no warning tells of it."""
    ledger = ClusterLedger(cluster)
    start(ledger, "a#1")
    start(ledger, "b#1")
    ledger.note_placed("a#1")
    assert ledger.queued() == {"b#1"}
    assert not ledger.why_waits("b#1")

    ledger.release("a#1")

    assert not ledger.queued()
    assert ledger.free()["CPU"] == 0


def test_sixteen_may_wait_after_one_has_waited_for_long(cluster):
    """An autoscaler adds nodes for them, if there is one. Or others use the cluster."""
    ledger = ClusterLedger(cluster)
    start(ledger, "a#1")
    ledger.note_slow("a#1")
    for number in range(16):
        start(ledger, f"{number}#1")

    assert not ledger.can_acquire(ONE_CPU, "one more")
    assert ledger.why_waits("a#1").startswith("others use the cluster")
    assert "a#1" in ledger.queued()
    ledger.note_placed("a#1")
    assert "a#1" not in ledger.queued()


@pytest.mark.parametrize(
    "request_",
    [
        Resources([{"CPU": 3}]),
        Resources([{"CPU": 1}, {"CPU": 3}]),
        Resources([{"gadget": 1}]),
    ],
    ids=str,
)
def test_a_request_beyond_every_node_waits_for_one(cluster, request_):
    """The sum of the nodes is no room for it, so other trials go on."""
    cluster.add(2)
    ledger = ClusterLedger(cluster)
    start(ledger, "a#1", request_)

    assert ledger.queued() == {"a#1"}
    assert ledger.why_waits("a#1") == "no node has as much. Add one, or ask for less"
    assert ledger.is_unknown(request_) is ("gadget" in request_.required_resources)
    start(ledger, "b#1")
    assert not ledger.can_acquire(request_)  # a searcher is not asked for more of them while another trial runs


def test_without_any_other_trial_a_searcher_is_asked_for_one_that_waits(cluster):
    """It is asked for trials that can start now. But if nothing runs, nothing else would go on."""
    ledger = ClusterLedger(cluster)

    assert ledger.can_acquire(HUGE)
    start(ledger, "a#1", HUGE)
    assert not ledger.can_acquire(HUGE)


def test_a_start_beyond_the_room_is_the_news_of_another_node(cluster):
    ledger = ClusterLedger(cluster)
    start(ledger, "a#1")
    start(ledger, "b#1")
    cluster.add(2)
    ledger.note_placed("b#1")

    assert (ledger.totals()["CPU"], ledger.free()["CPU"]) == (3, 1)
    start(ledger, "c#1")


def test_room_of_a_lost_node_is_not_counted(cluster):
    cluster.add(1)
    ledger = ClusterLedger(cluster)
    start(ledger, "a#1")
    start(ledger, "b#1")
    cluster.lose()
    ledger.release("b#1")
    ledger.refresh()

    assert (ledger.totals()["CPU"], ledger.free()["CPU"]) == (1, 0)


def test_nodes_that_are_added_are_found_after_a_while(cluster):
    ledger = ClusterLedger(cluster)
    start(ledger, "a#1")
    start(ledger, "b#1")
    cluster.add(8)
    assert not ledger.can_acquire(ONE_CPU, "c")
    cluster.now_s = 60

    assert ledger.can_acquire(ONE_CPU, "c")


def test_a_request_by_the_name_of_a_node_waits_for_it(cluster):
    """Such names are Ray's own, and not shown."""
    cluster.found[0]["Resources"]["node:10.0.0.1"] = 1
    ledger = ClusterLedger(cluster)

    start(ledger, "a#1", Resources([{"CPU": 1, "node:10.0.0.1": 0.001}]))
    assert set(ledger.totals()) == {"CPU"}
