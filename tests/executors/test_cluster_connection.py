"""How a run finds its cluster, and the errors where it finds none. Ray is played."""

from types import SimpleNamespace

import pytest

from minitune.ray.cluster.nodes import connect, in_words, refuse_client, why_died


class Ray:
    """Knows clusters by their addresses, and starts one if it is asked for that."""

    def __init__(self, *clusters, is_client=None):
        self.clusters = clusters
        self.is_client = is_client  # None without a connection
        self.started = {}
        self._private = SimpleNamespace(worker=SimpleNamespace())
        self.util = SimpleNamespace(client=SimpleNamespace(ray=SimpleNamespace(is_connected=lambda: self.is_client)))

    def is_initialized(self):
        return self.is_client is not None

    def init(self, address, **settings):
        if address == "local":
            self.started = settings
        elif address not in self.clusters:
            raise ConnectionError(f"Failed to connect to Ray cluster at {address}")


@pytest.mark.parametrize("how", ["argument", "variable"])
def test_a_cluster_with_a_name_is_not_replaced_by_a_new_one(how, monkeypatch):
    """Ray's own error says neither that a token may be missing, nor that this machine may be no node."""
    if how == "variable":
        monkeypatch.setenv("RAY_ADDRESS", "10.0.0.1:6379")
    ray = Ray()
    with pytest.raises(ConnectionError, match=r"Check .*`ray start --address.*`ray job submit`.*RAY_AUTH_MODE=token"):
        connect(ray, "10.0.0.1:6379" if how == "argument" else None, None)

    assert not ray.started


def test_a_cluster_is_used_or_started(caplog):
    found, alone = Ray("auto"), Ray()

    connect(found, None, None)
    connect(alone, None, None)
    assert (bool(found.started), bool(alone.started)) == (False, True)
    assert not caplog.records


@pytest.mark.parametrize("how", ["script", "variable"])
def test_ray_client_is_refused_at_once(how, monkeypatch):
    """In the script, as by `ray.init`; or by Ray's variable."""
    if how == "variable":
        monkeypatch.setenv("RAY_ADDRESS", "ray://head:10001")
    with pytest.raises(ValueError, match=r"Ray Client, ray://, is not supported: .* `ray job submit`") as caught:
        refuse_client(Ray(is_client=True if how == "script" else None), None)

    assert ("ray.init" if how == "script" else "RAY_ADDRESS is 'ray://head:10001'") in str(caught.value)


def test_other_connections_are_not_refused(monkeypatch):
    """A connection that exists has precedence over the variable, and so has the address of `minitune.init`."""
    refuse_client(Ray(), None)
    monkeypatch.setenv("RAY_ADDRESS", "ray://head:10001")
    refuse_client(Ray(is_client=False), None)
    refuse_client(Ray(), "10.0.0.1:6379")
    monkeypatch.setenv("RAY_ADDRESS", "10.0.0.1:6379")
    refuse_client(Ray(), None)


class ActorDiedError(Exception):
    """As Ray's, whose class says that the process is dead."""


class OutOfMemoryError(Exception):
    """As Ray's."""


LONG = "The actor is dead because its worker process has died. " + "Some common causes include. " * 30


def test_a_death_is_told_in_a_few_words():
    """Ray lists all causes that it can think of."""
    assert why_died(ActorDiedError(f"pid: 5\n{LONG}")).endswith("(Ray does not say which)")
    assert "short of memory" in why_died(OutOfMemoryError(LONG))
    assert why_died(TimeoutError("too late")) == "too late"


def test_other_errors_are_told_in_rays_words():
    """Of a process that could not be started, they are all that is known. Facts about the actor come before them."""
    assert in_words(ActorDiedError("pid: 5\nits creation has failed")) == "its creation has failed"
    assert in_words(ValueError("one\n  two")) == "one two"
    assert len(in_words(ActorDiedError(LONG))) <= 400
