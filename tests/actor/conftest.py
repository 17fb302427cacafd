"""A group of actors for each start method."""

import pytest
from actor_driver import Driver, Group
from kit import marked_processes, scaled_s

START_METHODS = {
    "zygote": {"MINITUNE_START_METHOD": "zygote"},
    "interpreter": {"MINITUNE_START_METHOD": "interpreter"},
}


@pytest.fixture(autouse=True)
def short_limits(monkeypatch):
    """A kill comes sooner, so that a worker that ignores a stop does not cost a second."""
    monkeypatch.setattr("minitune.actor.remote_actor.TERM_TO_KILL_S", scaled_s(0.2))


@pytest.fixture
def time_to_clean_up(short_limits, monkeypatch):
    """A kill comes late, for workers that end by themselves before that, however slow the machine is."""
    monkeypatch.setattr("minitune.actor.remote_actor.TERM_TO_KILL_S", scaled_s(10))


@pytest.fixture(params=list(START_METHODS))
def start_method(request, monkeypatch):
    for name, value in START_METHODS[request.param].items():
        monkeypatch.setenv(name, value)
    return request.param


@pytest.fixture
def group(start_method, storage_of_its_own):
    """A group for each start method. It is closed at the end, and then none of its processes may be alive."""
    with Group() as group:
        yield group
    assert marked_processes(group.run_id) == []


@pytest.fixture
def driver(group):
    return Driver(group)


@pytest.fixture
def zygote(storage_of_its_own, monkeypatch):
    """The driver of a group whose workers are forked."""
    monkeypatch.setenv("MINITUNE_START_METHOD", "zygote")
    with Group() as group:
        yield Driver(group)
    assert marked_processes(group.run_id) == []
