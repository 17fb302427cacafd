"""Whole runs on a real cluster, also when processes and nodes die."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from unittest.mock import patch

import psutil
import pytest
import ray

import minitune as tune
from minitune import Checkpoint, FailureConfig, Resources, RunConfig, TuneConfig, Tuner
from minitune.commands import cli
from minitune.executors.trial_executor import ActorSpec, Started
from minitune.ray.cluster import executor as ray_executor
from minitune.ray.cluster.executor import RayTrialExecutor

SCRIPTS = Path(__file__).with_name("scripts")

pytestmark = pytest.mark.usefixtures("connection")


def counting(config):
    """Reports 1 to 4, each with a checkpoint. `config["fault"]` happens once, after report 2."""
    checkpoint = tune.get_checkpoint()
    begin = int((Path(checkpoint.path) / "n").read_text()) if checkpoint else 0
    for n in range(begin + 1, 5):
        directory = Path(f"saved-{n}-{begin}")
        directory.mkdir()
        (directory / "n").write_text(str(n))
        tune.report({"n": n, "begin": begin}, checkpoint=Checkpoint(directory))
        if n == 2 and begin == 0:
            config.get("fault", lambda: None)()


def fit(trainable, tmp_path, space=None, *, max_failures=0, **tune_settings):
    tuner = Tuner(
        trainable,
        param_space=space or {},
        tune_config=TuneConfig(executor="ray", **tune_settings),
        run_config=RunConfig(
            storage_path=str(tmp_path),
            verbose=0,
            failure_config=FailureConfig(max_failures=max_failures),
        ),
    )
    return tuner.fit()


def processes():
    """The processes of trials on the cluster of this process, whose nodes are its children."""
    found = []
    for process in psutil.Process().children(recursive=True):
        try:
            found += [process.pid] if process.cmdline()[:1] == ["ray::RayActor"] else []
        except psutil.NoSuchProcess:
            continue
    return found


def wait_until(condition, bound_s=120.0):
    until_s = time.monotonic() + bound_s
    while not condition():
        assert time.monotonic() < until_s
        time.sleep(0.05)


def kill_worker():
    os.kill(os.getpid(), signal.SIGKILL)


def kill_node():
    os.kill(int(os.environ["RAY_RAYLET_PID"]), signal.SIGKILL)
    time.sleep(600)


def test_functions_report_checkpoint_and_print(tmp_path, caplog):
    grid = fit(counting, tmp_path, {"x": tune.grid_search([1, 2])})
    assert "the cluster has GPUs, but the trials do not ask for one" in caplog.text

    assert [result.metrics["n"] for result in grid] == [4, 4]
    assert {result.metrics["node_ip"] for result in grid} == {ray.util.get_node_ip_address()}
    assert all(Path(result.checkpoint.path, "n").read_text() == "4" for result in grid)
    wait_until(lambda: not processes())


def test_a_killed_worker_is_a_failure_of_its_trial(tmp_path):
    spoiled, spared = (
        fit(counting, tmp_path / str(spare), {"fault": kill_worker}, max_failures=spare)[0] for spare in (0, 1)
    )

    assert "(Ray does not say which)" in str(spoiled.error).splitlines()[0]
    assert spared.error is None
    assert (spared.metrics["n"], spared.metrics["begin"]) == (4, 2)


@pytest.fixture
def two_more_nodes(connection):
    """Each has room for one trial that asks for a spot."""
    handler = signal.getsignal(signal.SIGTERM)
    nodes = [connection.add_node(num_cpus=1, resources={"spot": 1}, object_store_memory=100 * 2**20) for _ in range(2)]
    yield
    for node in nodes:
        connection.remove_node(node, allow_graceful=False)
    signal.signal(signal.SIGTERM, handler)  # each node that is started here replaces it


@pytest.mark.usefixtures("two_more_nodes")
def test_a_trial_goes_on_on_another_node_when_its_own_dies(tmp_path):
    """After a node's death its trial goes on on another one, and trials of other nodes do not notice."""
    request = {"cpu": 1, "spot": 1}
    faults = {"fault": tune.grid_search([kill_node, int])}
    grid = fit(tune.with_resources(counting, request), tmp_path, faults)

    assert [(each.error, each.metrics["n"], each.metrics["begin"]) for each in grid] == [(None, 4, 2), (None, 4, 0)]


def test_the_last_lines_of_a_trial_that_exits_arrive(tmp_path):
    def failing(config):
        print("the last words", flush=True)
        os._exit(7)

    (result,) = fit(failing, tmp_path)

    assert "the last words" in str(result.error)


def test_a_failed_trial_fails_again_on_this_machine(tmp_path, capsys):
    """It needs no more than the code: not the tokens, which only the cluster has, and not Ray."""

    def failing(config):
        tune.report({"x": 1})
        raise ValueError("no luck")

    fit(tune.with_resources(failing, {"cpu": 8, "tokens": 1}), tmp_path)
    (run,) = tmp_path.iterdir()
    with patch.dict(os.environ), contextlib.chdir("."):  # `rerun` gives this process the surroundings of a trial
        status = cli.main(["rerun", str(run), "0"])

    shown = capsys.readouterr()
    assert status == 3
    assert "iteration 1: x=1" in shown.out
    assert "ValueError: no luck" in shown.err


def test_trials_have_the_devices_that_ray_assigns(tmp_path):
    def looking(config):
        tune.report({"device": os.environ["CUDA_VISIBLE_DEVICES"]})

    grid = fit(tune.with_resources(looking, {"cpu": 1, "gpu": 1}), tmp_path, num_samples=2)

    assert {result.metrics["device"] for result in grid} <= {"7", "9"}


class Nothing:
    def __init__(self, host, *, allocation):
        pass


@pytest.fixture
def new_executor():
    """Makes executors, one after the other."""
    made = []

    def new():
        for before in made:
            before.shutdown()
        made.append(RayTrialExecutor())
        return made[-1]

    yield new
    made[-1].shutdown()


def test_a_trial_that_waits_on_purpose_is_not_reported(new_executor, monkeypatch, caplog):
    """One more trial than there is room for waits on purpose, for a node that may be added."""
    whole = Resources([{"CPU": 8}])
    executor = new_executor()
    executor.start(ActorSpec("a#1", Nothing, whole))
    wait_until(lambda: any(isinstance(event, Started) for event in executor.wait(1)))
    monkeypatch.setattr(ray_executor, "_SLOW_S", 0.05)
    assert executor.can_start(whole, "b")
    executor.start(ActorSpec("b#1", Nothing, whole))
    assert not executor.wait(1)
    assert not caplog.records

    executor = new_executor()
    assert executor.can_start(Resources([{"gadget": 1}]), "d")
    executor.start(ActorSpec("d#1", Nothing, Resources([{"gadget": 1}])))
    assert "({gadget: 1}): no node has as much" in caplog.text

    executor = new_executor()
    other = ray.remote(num_cpus=8)(object).remote()
    ray.get(other.__ray_ready__.remote())
    executor.start(ActorSpec("c#1", Nothing, whole))
    wait_until(lambda: executor.wait(0.1) or "others use the cluster" in caplog.text)
    ray.kill(other)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_ended_driver_leaves_nothing_on_the_cluster_and_can_be_resumed(tmp_path, number):
    command = [sys.executable, SCRIPTS / "saves_and_waits.py", tmp_path / "results"]
    driver = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    try:
        wait_until(lambda: list(tmp_path.glob("results/run/*/reported")))
        driver.send_signal(number)
        driver.wait(120)
        wait_until(lambda: not processes())
    finally:
        driver.kill()
        driver.wait()

    (result,) = Tuner.restore(str(tmp_path / "results" / "run"), counting).fit()

    assert result.error is None
    assert (result.metrics["n"], result.metrics["begin"]) == (4, 2)
    assert not list(tmp_path.glob("results/run/shared/*"))


def test_a_run_is_resumed_on_another_cluster(tmp_path):
    """From its last checkpoint: its first reports are kept, and the next one is the third."""
    command = [sys.executable, SCRIPTS / "saves_and_waits.py", tmp_path / "results", "own cluster"]
    driver = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    try:
        wait_until(lambda: list(tmp_path.glob("results/run/*/reported")))
    finally:
        for process in [*psutil.Process(driver.pid).children(recursive=True), driver]:
            process.kill()
        driver.wait()

    (result,) = Tuner.restore(str(tmp_path / "results" / "run"), counting).fit()

    rows = [(row["training_iteration"], row["n"], row.get("begin")) for row in result.get_rows()]
    assert rows == [(1, 2, None), (2, 3, 2), (3, 4, 2)]


def test_py_modules_ship_a_package(tmp_path):
    package = tmp_path / "elsewhere" / "far_away"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("from far_away.part import value")
    (package / "part.py").write_text("value = 17")
    command = [sys.executable, SCRIPTS / "needs_a_package.py", tmp_path / "results", package]
    done = subprocess.run(command, capture_output=True, text=True)

    assert done.stdout.split() == ["17"], done.stderr
