"""A Ray cluster on this machine. Each node has a separate raylet, so a node can be killed alone."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import ray
from process_state import ProcessSnapshot
from ray.cluster_utils import Cluster

NODE = {"object_store_memory": 100 * 2**20}


@contextmanager
def _running(cuda_devices: str, **head: object) -> Iterator[Cluster]:
    """A cluster with a head node with these arguments. This process is not connected."""
    outside = {name: os.environ.get(name) for name in ("CUDA_VISIBLE_DEVICES", "RAY_ADDRESS", "PYTHONPATH")}
    os.environ["CUDA_VISIBLE_DEVICES"] = cuda_devices
    # The path of a socket may have 107 characters: pytest's own directories are too long for Ray's.
    with tempfile.TemporaryDirectory(dir="/tmp", prefix="ray", ignore_cleanup_errors=True) as directory:
        os.makedirs(os.path.join(tempfile.gettempdir(), "ray"), exist_ok=True)  # Ray expects it
        arguments = {"include_dashboard": False, "temp_dir": directory, **NODE, **head}
        found = Cluster(initialize_head=True, head_node_args=arguments)
        os.environ.pop("CUDA_VISIBLE_DEVICES")
        os.environ["RAY_ADDRESS"] = found.address
        try:
            yield found
        finally:
            ray.shutdown()
            found.shutdown()
            for name, value in outside.items():
                os.environ.pop(name, None)
                if value is not None:
                    os.environ[name] = value


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """A cluster with one node of 8 CPUs, two devices named 7 and 9, and 3 tokens. This process is not connected."""
    with _running("7,9", num_cpus=8, num_gpus=2, resources={"tokens": 3}) as found:
        yield found


@pytest.fixture(scope="module")
def two_nodes() -> Iterator[Cluster]:
    """A cluster with two nodes of 2 CPUs, one of them with two spots. This process is connected."""
    with _running("", num_cpus=2, num_gpus=0) as found:
        found.add_node(num_cpus=2, resources={"spot": 2}, **NODE)
        ray.init(address=found.address, log_to_driver=False, logging_level="ERROR")
        yield found
        ray.shutdown()


@pytest.fixture
def nothing_left(session_temporary: object) -> Iterator[None]:
    """Replaces the fixture of the suite, because Ray starts and ends threads and connections in this process."""
    before = ProcessSnapshot(("environment", "directory", "signals"))
    yield
    problems = before.leftovers(10.0)
    if problems:
        pytest.fail("the test has left something behind:\n  " + "\n  ".join(problems), pytrace=False)


@pytest.fixture(scope="session")
def connection(cluster: Cluster) -> Iterator[Cluster]:
    """This process is connected. Runs use the existing connection and do not close it."""
    ray.init(address=cluster.address, log_to_driver=False, logging_level="ERROR")
    yield cluster
    ray.shutdown()
