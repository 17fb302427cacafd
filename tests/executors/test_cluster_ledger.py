"""What the actors of a run hold on a cluster, and which of them wait beyond that. Ray is played."""

import json
import re
from types import SimpleNamespace

import pytest

from minitune import Resources
from minitune.error import TuneError
from minitune.executors import ray_cluster
from minitune.executors.ray_cluster import ClusterLedger

ONE_CPU = Resources([{"CPU": 1}])


class Cluster:
    """Nodes with CPUs, a clock, and what Ray tells of an autoscaler. It takes the places of Ray and `time`."""

    def __init__(self, *cpus):
        self.cpus = list(cpus)
        self.now_s = 0.0
        self.used = 0.0
        self.told_after_s = 0.0
        self.node_types = ["node_0"]  # without an autoscaler, each node is a type of its own
        self.has_flag = False
        self.experimental = SimpleNamespace(internal_kv=SimpleNamespace(_internal_kv_get=self.value_of))
        self._private = SimpleNamespace(ray_constants=SimpleNamespace(DEBUG_AUTOSCALING_STATUS="status"))
        self._raylet = SimpleNamespace(GCS_AUTOSCALER_V2_ENABLED_KEY="v2", GCS_AUTOSCALER_STATE_NAMESPACE="autoscaler")

    def nodes(self):
        return [{"Alive": True, "NodeID": str(number), "Resources": {"CPU": n}} for number, n in enumerate(self.cpus)]

    def value_of(self, key, namespace=None):
        if (key, namespace) == ("v2", "autoscaler"):
            return b"1" if self.has_flag else b"0"
        assert (key, namespace) == ("status", None)
        if self.now_s < self.told_after_s:
            return None
        return json.dumps({"autoscaler_report": {"node_type_mapping": dict(enumerate(self.node_types))}}).encode()

    def cluster_resources(self):
        return {"CPU": sum(self.cpus)}

    def available_resources(self):
        return {"CPU": sum(self.cpus) - self.used}

    def monotonic(self):
        return self.now_s

    def sleep(self, seconds):
        self.now_s += seconds


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
    ledger.note_node("a#1", "0")
    assert ledger.queued() == {"b#1"}

    ledger.release("a#1")

    assert not ledger.queued()
    assert ledger.free()["CPU"] == 0


HUGE = Resources([{"CPU": 5}])


def second(cluster):
    cluster.has_flag = True


def first(cluster):
    cluster.node_types.append("small")


def unknown(cluster):
    cluster.told_after_s = 1e9


def fixed(cluster):
    """None."""


@pytest.mark.parametrize("autoscaler", [second, first, unknown])
def test_a_request_beyond_every_node_waits_if_an_autoscaler_may_add_one(cluster, autoscaler, caplog):
    """Also if it is not known whether there is one."""
    autoscaler(cluster)
    ledger = ClusterLedger(cluster)
    ledger.can_acquire(HUGE)
    start(ledger, "a#1", HUGE)

    assert ledger.queued() == {"a#1"}
    assert "node" in ledger.why_waits("a#1")
    assert not caplog.records  # the executor warns after a while


@pytest.mark.parametrize(("autoscaler", "most"), [(second, 16), (first, 16), (unknown, 1), (fixed, 1)])
def test_so_many_trials_wait_for_nodes(cluster, autoscaler, most):
    autoscaler(cluster)
    ledger = ClusterLedger(cluster)
    start(ledger, "0#1")
    for number in range(1, most + 1):
        start(ledger, f"{number}#1")

    assert not ledger.can_acquire(ONE_CPU, "one more")


def test_a_new_cluster_is_asked_until_it_tells_that_it_has_no_autoscaler(cluster):
    cluster.told_after_s = 5.0
    ledger = ClusterLedger(cluster)

    with pytest.raises(TuneError, match="can never be met"):
        ledger.can_acquire(HUGE)
    assert cluster.now_s >= 5.0


def test_a_cluster_of_the_run_itself_has_no_autoscaler(cluster):
    unknown(cluster)

    with pytest.raises(TuneError, match="can never be met"):
        ClusterLedger(cluster, is_own=True).can_acquire(HUGE)
    assert cluster.now_s == 0


def test_a_request_that_a_lost_node_could_hold_waits_with_one_warning(cluster, caplog):
    """And a larger request remains an error."""
    cluster.cpus = [1, 4]
    ledger = ClusterLedger(cluster)
    wanted = Resources([{"CPU": 4}])
    start(ledger, "a#1", wanted)
    cluster.cpus.pop()
    ledger.refresh()
    ledger.release("a#1")

    start(ledger, "a#2", wanted)
    assert not ledger.can_acquire(wanted, "b")
    assert not ledger.why_waits("a#2")
    with pytest.raises(TuneError, match="can never be met"):
        ledger.can_acquire(HUGE)
    (record,) = caplog.records
    assert "({CPU: 4}) waits: the nodes of the Ray cluster that could hold it are gone" in record.getMessage()

    cluster.cpus.append(4)
    ledger.note_node("a#2", "1")
    assert not ledger.queued()


def test_an_actor_that_waits_already_when_a_node_is_lost_is_told(cluster, caplog):
    cluster.cpus = [1, 4]
    ledger = ClusterLedger(cluster)
    start(ledger, "a#1", Resources([{"CPU": 4}]))
    cluster.cpus.pop()

    assert not ledger.why_waits("a#1")
    assert "are gone" in caplog.text


def test_an_autoscaler_replaces_a_lost_node_without_a_word(cluster, caplog):
    second(cluster)
    cluster.cpus = [1, 4]
    ledger = ClusterLedger(cluster)
    cluster.cpus.pop()
    ledger.refresh()
    start(ledger, "a#1", Resources([{"CPU": 4}]))

    assert not caplog.records


def test_without_any_other_trial_a_searcher_is_asked_for_one_that_waits(cluster):
    """It is asked for trials that can start now. But if nothing runs, nothing else would go on."""
    cluster.cpus = [1, 4]
    ledger = ClusterLedger(cluster)
    cluster.cpus.pop()
    ledger.refresh()
    wanted = Resources([{"CPU": 4}])

    assert ledger.can_acquire(wanted)
    start(ledger, "a#1", wanted)
    assert not ledger.can_acquire(wanted)


# -- which actors are about to start -----------------------------------------------------------------------------------
def test_actors_with_room_on_a_node_are_about_to_start(cluster):
    """A process that gets free does not take them over."""
    cluster.cpus = [1, 2]
    ledger = ClusterLedger(cluster)
    for name in "abcd":
        start(ledger, f"{name}#1")
    ledger.note_node("a#1", "0")

    assert ledger.queued() == {"d#1"}


def test_an_actor_that_fits_into_the_sum_and_into_no_node_is_queued(cluster):
    cluster.cpus = [3, 3]
    ledger = ClusterLedger(cluster)
    two_cpus = Resources([{"CPU": 2}])
    for name, node in (("a", "0"), ("b", "1")):
        start(ledger, f"{name}#1", two_cpus)
        ledger.note_node(f"{name}#1", node)
    start(ledger, "c#1", two_cpus)

    assert ledger.queued() == {"c#1"}


def test_an_actor_that_waits_for_long_is_queued(cluster):
    """Others may use the cluster."""
    cluster.cpus = [2]
    ledger = ClusterLedger(cluster)
    start(ledger, "a#1")
    start(ledger, "b#1")
    ledger.note_slow("a#1")
    assert ledger.queued() == {"a#1"}

    ledger.note_node("a#1", "0")
    assert not ledger.queued()


def test_ten_tenths_of_a_cpu_have_room_on_one(cluster):
    ledger = ClusterLedger(cluster)
    for number in range(10):
        start(ledger, f"{number}#1", Resources([{"CPU": 0.1}]))

    assert not ledger.queued()


def test_bundles_of_a_gang_may_lie_on_several_nodes(cluster):
    cluster.cpus = [1, 2, 1]
    ledger = ClusterLedger(cluster)
    gang = Resources([{"CPU": 1}, {"CPU": 1}])
    start(ledger, "a#1", gang)
    ledger.note_node("a#1", "1")
    start(ledger, "b#1", gang)

    assert not ledger.queued()


@pytest.mark.parametrize(
    ("cpus", "used", "reason"),
    [
        (1, 0, "Ray has room for it, but is slow to start"),
        (1, 1, "Ray is slow to start .* or others use the cluster"),  # Ray may have given it to the actor's process
        (2, 2, "^others use the cluster$"),
    ],
)
def test_the_reason_of_a_wait_says_no_more_than_the_sums_show(cluster, cpus, used, reason):
    cluster.cpus = [cpus]
    cluster.used = used
    ledger = ClusterLedger(cluster)
    start(ledger, "a#1")

    assert re.search(reason, ledger.why_waits("a#1"))


def test_a_start_beyond_the_room_is_the_news_of_another_node(cluster):
    ledger = ClusterLedger(cluster)
    start(ledger, "a#1")
    start(ledger, "b#1")
    cluster.cpus.append(2)
    ledger.note_node("b#1", "1")

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
