"""The environment of a worker: its devices, and as many threads as it has CPUs."""

import pytest

from minitune.executors.ledger import Ledger
from minitune.resources import Resources


def env_of(request, environ, gpus=("2", "3")):
    return Ledger({"CPU": 8}, gpus, environ=environ).acquire("holder", request).env


@pytest.mark.parametrize(("cpus", "threads"), [(0, "1"), (0.5, "1"), (1, "1"), (2.9, "2"), (4, "4")])
def test_threads_follow_the_cpus(cpus, threads):
    assert env_of(Resources.of({"cpu": cpus}), {}) == {"OMP_NUM_THREADS": threads}


def test_the_user_setting_wins():
    assert env_of(Resources.of({"cpu": 4}), {"OMP_NUM_THREADS": "7"}) == {}
    assert env_of(Resources.of({"cpu": 4}), {"OMP_NUM_THREADS": ""}) == {"OMP_NUM_THREADS": "4"}


def test_a_trial_with_gpus_sees_its_own():
    env = env_of(Resources.of({"cpu": 1, "gpu": 1}), {"CUDA_VISIBLE_DEVICES": "2,3"})
    assert env["CUDA_VISIBLE_DEVICES"] == "2"
    assert env["CUDA_DEVICE_ORDER"] == "PCI_BUS_ID"
    assert env_of(Resources.of({"gpu": 0.5}), {})["CUDA_VISIBLE_DEVICES"] == "2"
    assert env_of(Resources.of({"gpu": 2}), {})["CUDA_VISIBLE_DEVICES"] == "2,3"


def test_a_chosen_device_order_stays():
    assert "CUDA_DEVICE_ORDER" not in env_of(Resources.of({"gpu": 1}), {"CUDA_DEVICE_ORDER": "FASTEST_FIRST"})


def test_without_gpus_visible_devices_stay():
    assert "CUDA_VISIBLE_DEVICES" not in env_of(Resources.of({"cpu": 1}), {"CUDA_VISIBLE_DEVICES": "2,3"})


@pytest.mark.parametrize("name", ["MINITUNE_NOSET_CUDA_VISIBLE_DEVICES", "RAY_EXPERIMENTAL_NOSET_CUDA_VISIBLE_DEVICES"])
def test_setting_devices_can_be_turned_off(name):
    request = Resources.of({"gpu": 1})
    assert env_of(request, {name: "1"}) == {"OMP_NUM_THREADS": "1"}
    assert env_of(request, {name: "0"})["CUDA_VISIBLE_DEVICES"] == "2"


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
