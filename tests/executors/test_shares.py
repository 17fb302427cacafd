"""Test processes that run side by side: each has its share of the machine's CPUs and GPUs."""

import pytest

from minitune.executors.devices import MachineFiles, machine_resources
from minitune.executors.ledger import Ledger
from minitune.resources import Resources


def of_worker(number, count, **environ):
    xdist = {"PYTEST_XDIST_WORKER": f"gw{number}", "PYTEST_XDIST_WORKER_COUNT": str(count)}
    return machine_resources(host=MachineFiles({**xdist, **environ}))


@pytest.fixture(autouse=True)
def eight_cpus(monkeypatch):
    monkeypatch.setattr("minitune.executors.devices.usable_cpus", lambda host=None: 8)


def test_each_worker_has_its_part_of_the_cpus_and_at_least_one():
    assert machine_resources(host=MachineFiles({})).totals["CPU"] == 8
    assert of_worker(0, 4).totals["CPU"] == 2
    assert of_worker(2, 3).totals["CPU"] == 2
    assert of_worker(5, 16).totals["CPU"] == 1


def test_the_numbers_of_the_user_count():
    assert of_worker(0, 4, MINITUNE_NUM_CPUS="6").totals["CPU"] == 6
    xdist = {"PYTEST_XDIST_WORKER": "gw0", "PYTEST_XDIST_WORKER_COUNT": "4"}
    assert machine_resources(num_cpus=5, host=MachineFiles(xdist)).totals["CPU"] == 5


def test_devices_are_divided_and_shared_where_there_are_fewer_than_workers():
    def ids(number, count, visible):
        return of_worker(number, count, CUDA_VISIBLE_DEVICES=visible).gpu_ids

    assert [ids(number, 2, "0,1,2") for number in range(2)] == [("0", "2"), ("1",)]
    assert [ids(number, 3, "4,5") for number in range(3)] == [("4",), ("5",), ("4",)]
    assert ids(7, 2, "0,1,2,3") == ("1", "3")  # it stands in for one that has crashed
    assert ids(0, 2, "") == ()


def test_a_trial_may_have_more_than_a_share_but_not_more_than_the_machine():
    assert [of_worker(0, count).cpu_limit for count in (1, 2, 4)] == [0, 8, 8]
    machine = of_worker(0, 4)
    ledger = Ledger(machine.totals, cpu_limit=machine.cpu_limit)
    large = Resources([{"CPU": 5}])
    assert ledger.can_acquire(large)
    ledger.acquire("large", large)
    assert ledger.totals()["CPU"] == 5
    assert not ledger.can_acquire(Resources([{"CPU": 1}]))
    with pytest.raises(Exception, match="can never be met"):
        ledger.can_acquire(Resources([{"CPU": 9}]))
