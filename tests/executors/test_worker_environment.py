"""The environment of a worker: its devices, and as many threads as it has CPUs."""

import pytest

from minitune.executors.ledger import Ledger
from minitune.resources import Resources

ORDER = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
THREADS = {"OMP_NUM_THREADS": "1"}


@pytest.mark.parametrize(
    ("request_", "environ", "env"),
    [
        ({"cpu": 0}, {}, THREADS),
        ({"cpu": 0.5}, {}, THREADS),
        ({"cpu": 2.9}, {}, {"OMP_NUM_THREADS": "2"}),
        ({"cpu": 4}, {"OMP_NUM_THREADS": ""}, {"OMP_NUM_THREADS": "4"}),
        ({"cpu": 4}, {"OMP_NUM_THREADS": "7"}, {}),
        ({"cpu": 1}, {"CUDA_VISIBLE_DEVICES": "2,3"}, THREADS),
        ({"gpu": 1}, {"CUDA_VISIBLE_DEVICES": "2,3"}, {**THREADS, **ORDER, "CUDA_VISIBLE_DEVICES": "2"}),
        ({"gpu": 0.5}, {}, {**THREADS, **ORDER, "CUDA_VISIBLE_DEVICES": "2"}),
        ({"gpu": 2}, {"CUDA_DEVICE_ORDER": "FASTEST_FIRST"}, {**THREADS, "CUDA_VISIBLE_DEVICES": "2,3"}),
    ],
    ids=str,
)
def test_a_trial_has_its_devices_and_as_many_threads_as_cpus_unless_the_user_sets_them(request_, environ, env):
    assert Ledger({"CPU": 8}, ["2", "3"], environ=environ).acquire("holder", Resources.of(request_)).env == env


def test_each_bundle_has_an_environment_for_its_child():
    gang = Resources([{"CPU": 1}, {"CPU": 2, "GPU": 1}, {"CPU": 4, "GPU": 1}])
    allocation = Ledger({"CPU": 8}, ["2", "3"], environ={}).acquire("gang", gang)
    head, first, second = (bundle.env for bundle in allocation.bundles)
    assert head["CUDA_VISIBLE_DEVICES"] == "", "a child without GPUs must not use those of its siblings"
    assert first["CUDA_VISIBLE_DEVICES"] == "2"
    assert second["CUDA_VISIBLE_DEVICES"] == "3"
    assert [env["OMP_NUM_THREADS"] for env in (head, first, second)] == ["1", "2", "4"]
    own = allocation.env
    assert own["CUDA_VISIBLE_DEVICES"] == "2,3", "the trial's own process sees all its devices"
    assert own["OMP_NUM_THREADS"] == "1"


def test_by_default_the_environment_of_this_process_counts(monkeypatch):
    book = Ledger({"CPU": 8})
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    assert "OMP_NUM_THREADS" not in book.acquire("a", Resources.of({"cpu": 2})).bundles[0].env
    monkeypatch.delenv("OMP_NUM_THREADS")
    assert book.acquire("b", Resources.of({"cpu": 2})).bundles[0].env["OMP_NUM_THREADS"] == "2"
