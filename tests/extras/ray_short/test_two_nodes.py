"""Trials on a cluster of two nodes that do not see the run's directory, as if each machine had its own disk.

This is the short form of the tests in `tests/extras/ray`, which take ten minutes.
"""

from __future__ import annotations

import errno
import fcntl
import logging
import os
import signal
import subprocess
import sys
import tempfile
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
from minitune.ray.cluster.files import PIECE_BYTES

SCRIPTS = Path(__file__).with_name("scripts")

pytestmark = pytest.mark.usefixtures("two_nodes", "own_disks")
LARGE_BYTES = 2 * PIECE_BYTES + 1


@pytest.fixture
def own_disks(monkeypatch: pytest.MonkeyPatch) -> None:
    """No node finds the driver's landmark. They are processes of one machine, so the directory itself is there.

    A run whose processes end without Ray's word hangs.
    """
    monkeypatch.setattr(ray_executor, "KILL_CONFIRM_S", 3600.0)
    monkeypatch.setattr(ray_executor, "new_landmark", lambda directory: f"/elsewhere/.node-{os.urandom(8).hex()}")


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
        (saved / "parts" / "empty").mkdir(parents=True, exist_ok=True)
        (saved / "n").write_text(str(n))
        (saved / "n").chmod(0o640)
        (saved / "parts" / "large").write_bytes(bytes([n]) * LARGE_BYTES)
        if begin == 0 and n == 1:
            (saved / "link").symlink_to("n")
        print("step", n, flush=True)
        tune.report({"n": n, "begin": begin, "cwd": os.getcwd()}, checkpoint=Checkpoint(saved))
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


def test_checkpoints_and_output_travel_without_a_shared_disk(tmp_path: Path) -> None:
    """Also those of a trial that dies: what it had printed until its last answer, and its checkpoint."""
    failures = {"failure_config": FailureConfig(max_failures=1)}
    (result,) = fit(training, tmp_path, {"fault": die}, run={**failures, "log_to_file": True})

    assert result.error is None
    assert (result.metrics["n"], result.metrics["begin"]) == (4, 2)
    assert not result.metrics["cwd"].startswith(str(tmp_path))
    saved = Path(result.checkpoint.path)
    assert saved == Path(result.path, "checkpoint_000003")
    assert (saved / "n").read_text() == "4"
    assert (saved / "n").stat().st_mode & 0o777 == 0o640
    assert (saved / "parts" / "large").read_bytes() == bytes([4]) * LARGE_BYTES
    assert (saved / "parts" / "empty").is_dir()
    assert Path(result.path, "checkpoint_000000", "link").readlink() == Path("n")
    assert Path(result.path, "stdout").read_text().split() == ["step", "1", "step", "2", "step", "3", "step", "4"]
    assert not list(Path(result.path).glob(".tmp*"))


@pytest.mark.parametrize("is_seen", [False, True])
def test_a_directory_of_checkpoint_dir_becomes_the_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_seen: bool
) -> None:
    if is_seen:
        monkeypatch.undo()  # what `own_disks` has set

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


def test_a_member_of_a_population_gets_a_checkpoint_whose_number_it_reaches_itself(tmp_path: Path) -> None:
    """The good one saves checkpoints 0 to 3, and the bad one 0 to 2. So its next one is 3, too."""
    saved, taken = tmp_path / "saved-3", tmp_path / "taken"

    def wait_for(path):
        until_s = time.monotonic() + 60
        while not path.exists() and time.monotonic() < until_s:
            time.sleep(0.01)

    def member(config):
        checkpoint = tune.get_checkpoint()
        step = 0
        if checkpoint:
            step = checkpoint.to_dict()["step"]
            taken.touch()
        while step < 8:
            step += 1
            if config["x"] == 1 and step == 3:
                wait_for(saved)
            if not checkpoint and step == 5:
                saved.touch()
                wait_for(taken)
            tune.report({"gain": config["x"], "step": step}, checkpoint=Checkpoint.from_dict({"step": step}))

    scheduler = tune.schedulers.PopulationBasedTraining(
        "training_iteration", perturbation_interval=3, hyperparam_mutations={"y": [1, 2]}, quantile_fraction=0.5
    )
    grid = fit(
        member,
        tmp_path / "results",
        {"x": tune.grid_search([1, 3]), "y": 1},
        metric="gain",
        mode="max",
        scheduler=scheduler,
    )

    assert [(result.error, result.metrics["step"]) for result in grid] == [(None, 8), (None, 8)]
    assert any("exploits another trial" in str(decision) for decision in grid[0].decisions)
    assert grid[0].checkpoint.to_dict() == {"step": 8}


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


def test_the_next_run_removes_the_leftovers_of_a_killed_driver_from_the_nodes(tmp_path: Path) -> None:
    def scratches():
        return set(Path(tempfile.gettempdir()).glob("minitune-ray-*"))

    def wait_until(condition):
        until_s = time.monotonic() + 60
        while not condition():
            assert time.monotonic() < until_s
            time.sleep(0.05)

    before = scratches()  # of nodes that were killed
    runs = tmp_path / "killed"
    command = [sys.executable, SCRIPTS / "hangs_elsewhere.py", tmp_path / "begun", runs]
    driver = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    try:
        wait_until((tmp_path / "begun").exists)
    finally:
        driver.kill()
        driver.wait()
    (left,) = scratches() - before
    with (left / "lock").open("rb") as lock:
        wait_until(lambda: is_free(lock))
    os.utime(left, (0, 0))  # one that is young may be one that its process has not locked yet

    fit(lambda config: 1, tmp_path / "next")

    assert not scratches() - before


def is_free(lock):
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return False
    fcntl.flock(lock, fcntl.LOCK_UN)
    return True


def test_a_full_disk_of_a_node_is_a_failure_of_its_trial(tmp_path: Path) -> None:
    """The run goes on: its own disk has room."""

    def saving(config):
        from minitune import checkpoint

        def refuse(*args):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        if config["full"]:
            checkpoint._copy_file = refuse
        Path("saved").mkdir()
        Path("saved/n").write_text("1")
        tune.report({"n": 1}, checkpoint=Checkpoint("saved"))

    grid = fit(saving, tmp_path, {"full": tune.grid_search([True, False])})

    assert isinstance(grid[0].error.__cause__, OSError)
    assert grid[0].error.__cause__.errno == errno.ENOSPC
    assert "The run has ended" not in str(grid[0].error)
    assert Path(grid[1].checkpoint.path, "n").read_text() == "1"
