"""A group of actors for each start method."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from actor_driver import Driver, marked_processes

from minitune.actor.group import ActorGroup

START_METHODS = {
    "zygote": {"MINITUNE_START_METHOD": "zygote"},
    "interpreter": {"MINITUNE_START_METHOD": "interpreter"},
    "pump": {"MINITUNE_START_METHOD": "interpreter", "MINITUNE_CHANNEL": "pump"},
}


@pytest.fixture(params=list(START_METHODS))
def start_method(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    for name, value in START_METHODS[request.param].items():
        monkeypatch.setenv(name, value)
    return request.param


@pytest.fixture
def group(start_method: str, storage_of_its_own: None) -> Iterator[ActorGroup]:
    """A group by each start method; closed at the end, after which nothing of it must be alive."""
    with ActorGroup() as group:
        yield group
    assert marked_processes(group.run_id) == []


@pytest.fixture
def driver(group: ActorGroup) -> Driver:
    return Driver(group)
