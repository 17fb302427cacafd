"""Trials on a cluster of two nodes.

This is the short form of the tests in `tests/extras/ray`, which take ten minutes.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import time
import types
from pathlib import Path

import numpy
import pytest
import ray
from ray.cluster_utils import Cluster

import minitune as tune
from minitune import Checkpoint, CheckpointConfig, FailureConfig, Resources, RunConfig, TuneConfig, Tuner
from minitune.ray.cluster import executor as ray_executor
from minitune.ray.cluster.actor import RayActor

pytestmark = pytest.mark.usefixtures("two_nodes", "patience")


@pytest.fixture
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run whose processes end without Ray's word hangs."""
    monkeypatch.setattr(ray_executor, "KILL_CONFIRM_S", 3600.0)


def fit(trainable, tmp_path, space=None, *, run=None, **tune_settings):
    tuner = Tuner(
        trainable,
        param_space=space or {},
        tune_config=TuneConfig(executor="ray", **tune_settings),
        run_config=RunConfig(storage_path=str(tmp_path), verbose=0, **(run or {})),
    )
    return tuner.fit()


def training(config):
    """Reports 1 to 4 with checkpoints. `config["fault"]` happens once, after report 2."""
    checkpoint = tune.get_checkpoint()
    begin = int(Path(checkpoint.path, "n").read_text()) if checkpoint else 0
    for n in range(begin + 1, 5):
        saved = Path("saved")
        saved.mkdir(exist_ok=True)
        (saved / "n").write_text(str(n))
        print("step", n, flush=True)
        tune.report({"n": n, "begin": begin}, checkpoint=Checkpoint(saved))
        assert Path(tune.get_checkpoint().path, "n").read_text() == str(n)
        if n == 2 and begin == 0:
            print("before the fault", file=sys.stderr, flush=True)
            config.get("fault", int)()


def die():
    os._exit(3)


def kill_node():
    os.kill(int(os.environ["RAY_RAYLET_PID"]), signal.SIGKILL)
    signal.pause()


class Adding(tune.Trainable):
    def setup(self, config):
        self.total = 0

    def step(self):
        self.total += self.config["x"]
        return {"total": self.total}

    def save_checkpoint(self, directory):
        return {"total": self.total}

    def load_checkpoint(self, state):
        self.total = state["total"]

    def reset_config(self, config):
        self.total = 0
        return True


def test_a_trial_that_dies_goes_on_from_its_checkpoint(tmp_path: Path) -> None:
    """What it has printed is there once."""
    failures = {"failure_config": FailureConfig(max_failures=1)}
    (result,) = fit(training, tmp_path, {"fault": die}, run={**failures, "log_to_file": True})

    assert result.error is None
    assert (result.metrics["n"], result.metrics["begin"]) == (4, 2)
    assert Path(result.checkpoint.path) == Path(result.path, "checkpoint_000003")
    assert (Path(result.checkpoint.path) / "n").read_text() == "4"
    assert Path(result.path, "stdout").read_text().split() == ["step", "1", "step", "2", "step", "3", "step", "4"]
    assert not list(Path(result.path).glob(".tmp*"))


def test_a_node_that_does_not_see_the_runs_directory_ends_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class SeesNothing(RayActor):
        def look(self, *args):
            return super().look(*args)._replace(sees_directory=False)

    monkeypatch.setattr(ray_executor, "RayActor", SeesNothing)
    with pytest.raises(tune.TuneError, match=r"does not see .*: mount one directory at the same path on all nodes"):
        fit(training, tmp_path)


def test_a_directory_of_checkpoint_dir_becomes_the_checkpoint(tmp_path: Path) -> None:
    def saving(config):
        for n in range(3):
            with tune.checkpoint_dir() as directory:
                Path(directory, "n").write_text(str(n))
                if n < 2:
                    tune.report({"n": n}, checkpoint=Checkpoint(directory))
                    assert Path(tune.get_checkpoint().path, "n").read_text() == str(n)
        tune.report({"n": 2})

    (result,) = fit(saving, tmp_path)

    assert result.error is None
    saved = sorted(Path(result.path).glob("checkpoint_*"))
    assert [(path.name, (path / "n").read_text()) for path in saved] == [
        (f"checkpoint_00000{n}", str(n)) for n in (0, 1, 2)
    ]
    assert not list(Path(result.path).glob(".tmp*"))


def test_classes_are_saved_and_workers_are_reused(tmp_path: Path) -> None:
    grid = fit(
        Adding,
        tmp_path,
        {"x": tune.grid_search([1, 2, 3])},
        run={"stop": {"training_iteration": 3}, "checkpoint_config": CheckpointConfig(checkpoint_at_end=True)},
        reuse_actors=True,
        max_concurrent_trials=1,
    )

    assert [result.metrics["total"] for result in grid] == [3, 6, 9]
    assert [result.checkpoint.to_dict() for result in grid] == [{"total": 3}, {"total": 6}, {"total": 9}]
    assert len({result.metrics["pid"] for result in grid}) == 1


class TellsItsNode(Adding):
    def step(self):
        return {"node": ray.get_runtime_context().get_node_id()}


class UntilNodes(tune.Stopper):
    """Ends the run when trials have run on so many nodes."""

    def __init__(self, number):
        self.number = number
        self.seen = set()

    def __call__(self, trial_id, result):
        self.seen.add(result["node"])
        return True

    def stop_all(self):
        return len(self.seen) >= self.number


def test_trials_shorter_than_a_start_use_all_nodes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that is ready first serves one trial after the other, and the others start meanwhile."""
    node_of_driver = ray.get_runtime_context().get_node_id()

    class StartsSlowlyElsewhere(RayActor):
        def __init__(self):
            super().__init__()
            time.sleep(0 if ray.get_runtime_context().get_node_id() == node_of_driver else 2)

    monkeypatch.setattr(ray_executor, "RayActor", StartsSlowlyElsewhere)
    stopper = UntilNodes(2)
    fit(TellsItsNode, tmp_path, run={"stop": stopper}, reuse_actors=True, num_samples=-1, time_budget_s=30)

    assert len(stopper.seen) == 2


def test_values_come_from_the_object_store(tmp_path: Path) -> None:
    def looking(config, bound, reference):
        inline = numpy.asarray(config["inline"])
        sums = [float(array.sum()) for array in (bound, reference, tune.get(config["reference"]), inline)]
        tune.report({"sums": sums, "owns": bool(bound.flags.owndata)})

    ones = numpy.ones(300_000)
    bound = tune.with_parameters(looking, bound=ones, reference=tune.put(ones * 2))
    (result,) = fit(bound, tmp_path, {"reference": tune.put(ones * 3), "inline": ones * 4})

    assert result.metrics["sums"] == [3e5, 6e5, 9e5, 12e5]
    assert not result.metrics["owns"]


def test_a_module_missing_on_the_nodes_gets_an_error_with_the_way_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    only_here = types.ModuleType("only_here")
    monkeypatch.setitem(sys.modules, "only_here", only_here)

    (result,) = fit(lambda config: only_here.loss, tmp_path)

    assert "No module named 'only_here'\nhint: " in str(result.error)
    assert "runtime_env" in str(result.error)


def test_bundles_choose_nodes(tmp_path: Path) -> None:
    spread = Resources([{"CPU": 1}, {"CPU": 1}], "STRICT_SPREAD")
    (on_two,) = fit(tune.with_resources(lambda config: {"n": 1}, spread), tmp_path)

    assert on_two.error is None
    assert not [group for group in ray.util.placement_group_table().values() if group["state"] != "REMOVED"]


def test_a_trial_of_a_dead_node_continues_on_another_one(tmp_path: Path, two_nodes: Cluster) -> None:
    """It does not count as a failure. A node that is added later is used."""
    handler = signal.getsignal(signal.SIGTERM)
    lost = two_nodes.add_node(num_cpus=1, resources={"stand": 1}, object_store_memory=100 * 2**20)

    class AddsANode(tune.Callback):
        has_added = False

        def on_trial_result(self, iteration, trials, trial, result, **info):
            if result["n"] == 2 and not self.has_added:
                self.has_added = True
                two_nodes.add_node(num_cpus=1, resources={"stand": 1}, object_store_memory=100 * 2**20)

    request = {"cpu": 1, "stand": 1}
    added = AddsANode()
    faults = {"fault": tune.grid_search([kill_node, int])}
    grid = fit(tune.with_resources(training, request), tmp_path, faults, run={"callbacks": [added]})
    two_nodes.remove_node(lost, allow_graceful=False)
    signal.signal(signal.SIGTERM, handler)  # each node that is started here replaces it

    assert added.has_added
    assert [(result.error, result.metrics["n"]) for result in grid] == [(None, 4), (None, 4)]
    assert grid[0].metrics["begin"] == 2


class AddsNodeWhenWarned(logging.Handler):
    """Adds a node as soon as a warning says that one is missing."""

    def __init__(self, cluster):
        super().__init__(logging.WARNING)
        self.cluster = cluster
        self.heard = []

    def emit(self, record):
        if "no node has as much" in record.getMessage():
            self.heard.append(record)
            self.cluster.add_node(num_cpus=1, resources={"seat": 1}, object_store_memory=100 * 2**20)


@pytest.mark.parametrize("is_deterministic", [False, True])
def test_trials_wait_for_a_node_like_the_lost_one(
    tmp_path: Path, two_nodes: Cluster, caplog: pytest.LogCaptureFixture, is_deterministic: bool
) -> None:
    """The second trial, in Ray's queue, loses nothing with the node but its place there."""
    sigterm = signal.getsignal(signal.SIGTERM)
    lost = two_nodes.add_node(num_cpus=1, resources={"seat": 1}, object_store_memory=100 * 2**20)
    handler = AddsNodeWhenWarned(two_nodes)
    logging.getLogger("minitune").addHandler(handler)
    window = {"deterministic": True, "max_concurrent_trials": 1} if is_deterministic else {}
    faults = {"fault": tune.grid_search([kill_node, int])}
    try:
        grid = fit(tune.with_resources(training, {"cpu": 1, "seat": 1}), tmp_path, faults, **window)
    finally:
        logging.getLogger("minitune").removeHandler(handler)
        for node in list(two_nodes.worker_nodes):
            if node is lost or (node._ray_params.resources or {}).get("seat"):
                two_nodes.remove_node(node, allow_graceful=False)
        signal.signal(signal.SIGTERM, sigterm)  # each node that is started here replaces it

    assert [(result.error, result.metrics["n"], result.metrics["begin"]) for result in grid] == [
        (None, 4, 2),
        (None, 4, 0),
    ]
    assert len(handler.heard) == 1
    assert caplog.text.count("lost its worker") in (1, 2)
