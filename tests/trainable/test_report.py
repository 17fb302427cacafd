"""report(), get_checkpoint() and get_context() inside a trial, and the automatic keys of results."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import threading
from datetime import date
from enum import Enum
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from kit import FakeDriver, Script, pull, reports_of, settle

from minitune import clock
from minitune.checkpoint import Checkpoint, matches
from minitune.context import get_context, get_gpu_ids, get_trial_dir, get_trial_id, get_trial_name, get_trial_resources
from minitune.resources import Allocation, BundleAllocation, GpuShare, Resources
from minitune.result import flatten, with_plain_keys
from minitune.trainable import get_checkpoint, report, session

SCRIPTS = Path(__file__).with_name("scripts")


def in_trial(driver: FakeDriver, body: Any, **kwargs: Any) -> Any:
    """Call `body` in a trial; returns its value."""
    found: list[Any] = []
    actor = driver.start(lambda config: found.append(body()), **kwargs)
    reports_of(actor)
    return found[0]


# -- automatic keys ----------------------------------------------------------------------------------------------------


def test_the_automatic_keys_count_iterations_and_the_time_of_the_trial_alone(driver: FakeDriver) -> None:
    virtual = clock.VirtualClock(1_000_000.0)

    def fn(config: dict[str, Any]) -> None:
        for _ in range(2):
            virtual.sleep(2.0)
            report({"loss": 1})

    with clock.use(virtual):
        actor = driver.start(fn, {"a": 1})
        first = pull(actor).metrics
        virtual.sleep(100.0)  # the driver's time does not count
        second = pull(actor).metrics
    assert first["timestamp"] == 1_000_002
    assert (first["done"], first["trial_id"], first["pid"]) == (False, "t_00000", os.getpid())
    assert "config" not in first
    keys = ("training_iteration", "time_this_iter_s", "time_total_s", "time_since_restore", "iterations_since_restore")
    assert [first[key] for key in keys] == [1, 2.0, 2.0, 2.0, 1]
    assert [second[key] for key in keys] == [2, 2.0, 4.0, 4.0, 2]
    assert "timesteps_total" not in first
    assert "should_checkpoint" not in first
    assert len(first["date"]) == len("2026-01-01_00-00-00")


def test_the_users_own_values_win_where_they_may(driver: FakeDriver) -> None:
    own = {"training_iteration": 7, "timestamp": 3, "time_this_iter_s": 1.5, "should_checkpoint": True, "done": False}
    metrics = pull(driver.start(lambda config: {**own, "pid": "mine"})).metrics
    assert {key: metrics[key] for key in own} == own
    assert metrics["time_total_s"] == 1.5
    assert metrics["pid"] == os.getpid()


def test_increments_are_summed_up(driver: FakeDriver) -> None:
    def fn(config: dict[str, Any]) -> None:
        report({"timesteps_this_iter": 5, "episodes_this_iter": 1})
        report({"timesteps_this_iter": 6, "episodes_this_iter": 2})
        report({})

    actor = driver.start(fn)
    actor.restore(str(driver.directory), {"timesteps_total": 100, "training_iteration": 4, "time_total_s": 9.0})
    seen = [pull(actor).metrics for _ in range(3)]
    assert [one["timesteps_total"] for one in seen] == [105, 111, 111]
    assert [one["timesteps_since_restore"] for one in seen] == [5, 11, 11]
    assert [one["episodes_total"] for one in seen] == [1, 3, 3]


def test_totals_of_the_users_own_are_not_summed_up(driver: FakeDriver) -> None:
    def fn(config: dict[str, Any]) -> None:
        report({"timesteps_total": 50, "episodes_total": 7})
        report({"timesteps_total": 60, "timesteps_this_iter": 4})
        report({})

    seen = [pull(actor).metrics for actor in [driver.start(fn)] * 3]
    assert [one.get("timesteps_total") for one in seen] == [50, 60, 4]
    assert [one.get("episodes_total") for one in seen] == [7, None, None]
    assert [one.get("timesteps_since_restore") for one in seen] == [None, 4, 4]


def test_each_report_of_a_function_says_which_checkpoint_came_with_it(driver: FakeDriver, tmp_path: Path) -> None:
    (tmp_path / "source").mkdir()

    def fn(config: dict[str, Any]) -> None:
        report({"i": 0})
        report({"i": 1}, checkpoint=Checkpoint(tmp_path / "source"))

    actor = driver.start(fn)
    seen = [pull(actor).metrics for _ in range(2)]
    assert [one["checkpoint_dir_name"] for one in seen] == [None, "checkpoint_000000"]
    assert ["should_checkpoint" in one for one in seen] == [False, True]


def test_the_source_of_a_checkpoint_may_go_or_change(driver: FakeDriver) -> None:
    contents: list[str] = []

    def fn(config: dict[str, Any]) -> None:
        directory = Path(get_context().get_trial_dir(), "model")  # inside the trial's own
        directory.mkdir()
        for i in range(2):
            (directory / "i").write_text(str(i))
            report({"i": i}, checkpoint=Checkpoint(directory))
        with tempfile.TemporaryDirectory() as temporary:
            Path(temporary, "i").write_text("2")
            report({"i": 2}, checkpoint=Checkpoint.from_directory(temporary))
        report({"i": 3}, checkpoint=Checkpoint.from_dict({"i": "3"}))
        contents.append(get_checkpoint().to_dict()["i"])

    actor = driver.start(fn)
    records = [pull(actor).checkpoint for _ in range(4)]
    reports_of(actor)
    trial_directory = driver.directory / "t_00000"
    assert [(trial_directory / one.directory / "i").read_text() for one in records[:3]] == ["0", "1", "2"]
    assert contents == ["3"]


def test_counters_go_on_from_the_checkpoints_metrics(driver: FakeDriver) -> None:
    actor = driver.start(lambda config: {"path": get_checkpoint().path})
    actor.restore(str(driver.directory), {"training_iteration": 4, "time_total_s": 9.0, "time_this_iter_s": 1.0})
    metrics = pull(actor).metrics
    assert metrics["path"] == str(driver.directory)
    assert metrics["training_iteration"] == 5
    assert metrics["iterations_since_restore"] == 1
    assert metrics["time_total_s"] == pytest.approx(9.0 + metrics["time_since_restore"])


@pytest.mark.parametrize("value", [float("inf"), float("nan"), 10**400, "seven", None])
def test_a_value_that_cannot_be_counted_does_not_prevent_a_restore(driver: FakeDriver, value: Any) -> None:
    metrics = {"training_iteration": value, "time_total_s": value, "timesteps_total": value}
    actor = driver.start(lambda config: {**metrics, "time_this_iter_s": value, "timesteps_this_iter": value, "n": 1})
    actor.restore(str(driver.directory), metrics)
    assert pull(actor).metrics["n"] == 1


def test_a_running_function_cannot_be_restored(driver: FakeDriver) -> None:
    actor = driver.start(lambda config: 1)
    pull(actor)
    with pytest.raises(RuntimeError, match="before its first train"):
        actor.restore(str(driver.directory), {})


def test_the_trials_own_directory_is_saved_without_its_checkpoints(driver: FakeDriver) -> None:
    def train(config: dict[str, Any]) -> None:
        for step in range(3):
            Path(get_context().get_trial_dir(), "model").write_text(str(step))
            report({"step": step}, checkpoint=Checkpoint(get_context().get_trial_dir()))

    actor = driver.start(train)
    reports = [pull(actor) for _ in range(3)]
    directory = driver.directory / "t_00000" / reports[-1].checkpoint.directory
    assert sorted(os.listdir(directory)) == ["model"]
    assert (directory / "model").read_text() == "2"


def test_a_vanished_checkpoint_is_an_error(driver: FakeDriver) -> None:
    with pytest.raises(FileNotFoundError, match="does not exist"):
        driver.start(lambda config: 1).restore(str(driver.directory / "gone"), {})


def test_the_machines_use_is_added_on_demand(driver: FakeDriver) -> None:
    perf = pull(driver.start(lambda config: 1, {"log_sys_usage": True})).metrics["perf"]
    assert set(perf) == {"cpu_util_percent", "ram_util_percent"}


# -- checkpoints -------------------------------------------------------------------------------------------------------


def test_a_checkpoint_is_committed_before_the_report_crosses(driver: FakeDriver, tmp_path: Path) -> None:
    found: list[Any] = []

    def fn(config: dict[str, Any]) -> None:
        assert get_checkpoint() is None
        for i in range(2):
            source = tmp_path / f"source{i}"
            source.mkdir()
            (source / "weights").write_text(str(i))
            report({"x": i}, checkpoint=Checkpoint.from_directory(source))
            found.append(get_checkpoint())

    actor = driver.start(fn, next_checkpoint=3)
    assert settle(actor.save()) is None
    one = pull(actor)
    trial_directory = tmp_path / "t_00000"
    assert one.checkpoint.number == 3
    assert one.metrics["checkpoint_dir_name"] == "checkpoint_000003"
    assert matches(one.checkpoint, trial_directory)
    assert settle(actor.save()) == one.checkpoint
    two = pull(actor)
    pull(actor)
    assert two.checkpoint.number == 4
    assert [one.path for one in found] == [str(trial_directory / f"checkpoint_00000{n}") for n in (3, 4)]
    assert (tmp_path / "source0" / "weights").exists()  # copied, not moved
    assert sorted(os.listdir(trial_directory)) == ["checkpoint_000003", "checkpoint_000004"]


@pytest.mark.parametrize("checkpoint", ["some/path", 3])
def test_a_checkpoint_must_be_one(driver: FakeDriver, checkpoint: Any) -> None:
    actor = driver.start(lambda config: report({"x": 1}, checkpoint=checkpoint))
    with pytest.raises(TypeError, match="must be a Checkpoint"):
        pull(actor)


def test_a_checkpoint_without_directory_is_refused(driver: FakeDriver, tmp_path: Path) -> None:
    actor = driver.start(lambda config: report({"x": 1}, checkpoint=Checkpoint(tmp_path / "none")))
    with pytest.raises(FileNotFoundError):
        pull(actor)


# -- what can be reported ----------------------------------------------------------------------------------------------


class Color(Enum):
    RED = 1


def _generator() -> Any:
    yield 1


@pytest.mark.parametrize(
    ("make", "kind"),
    [
        (threading.Lock, "lock"),
        (_generator, "generator"),
        (lambda: lambda: 1, "function"),
        (threading.current_thread, "Thread"),
    ],
)
@pytest.mark.parametrize(
    ("wrap", "path"), [(lambda v: v, "'bad'"), (lambda v: {"in": [1, (2, v)]}, "'bad'['in'][1][1]")]
)
def test_a_value_that_cannot_be_sent_is_refused_in_the_users_frame(
    driver: FakeDriver, make: Any, kind: str, wrap: Any, path: str
) -> None:
    caught: list[TypeError] = []

    def fn(config: dict[str, Any]) -> None:
        try:
            report({"good": 1, "bad": wrap(make())})
        except TypeError as error:
            caught.append(error)
        report({"still": "alive"})

    assert pull(driver.start(fn)).metrics["still"] == "alive"
    assert f"metric {path} of type" in str(caught[0])
    assert kind in str(caught[0])


@pytest.mark.parametrize(
    ("metrics", "fits"),
    [
        ({"x": "e" * 900}, True),
        ({"x": "e" * 1100}, False),
        ({"x": "é" * 450}, True),
        ({"x": "é" * 550}, False),
        ({"x": ["é" * 300, "è" * 300]}, False),
        ({"x": {("é" * 550,): 1}}, False),
        ({"x": "e" * 600, "y": b"e" * 600}, False),
        ({"x": 1 << 7000}, True),
        ({"x": 1 << 9000}, False),
        ({"x": [1.5] * 90}, True),
        ({"x": [1.5] * 200}, False),
    ],
)
def test_the_size_of_a_report_counts_in_bytes(
    driver: FakeDriver, monkeypatch: pytest.MonkeyPatch, metrics: dict[str, Any], fits: bool
) -> None:
    monkeypatch.setattr(session, "LIMIT_BYTES", 1000)
    actor = driver.start(lambda config: report(metrics))
    if fits:
        assert pull(actor).metrics["x"] == metrics["x"]
    else:
        with pytest.raises(ValueError, match="most of it in metric 'x'"):
            pull(actor)


def test_awkward_metrics_travel_unchanged(driver: FakeDriver) -> None:
    deep: Any = 1
    for _ in range(500):
        deep = {"d": deep}
    metrics = {
        "ellipsis": ...,
        "day": date(2026, 1, 2),
        "enum": Color.RED,
        "inf": float("inf"),
        "bytes": b"\x00",
        "none": None,
        "big": 10**400,
        "surrogate": "\ud800",
        3: "key",
        ("a", 1): "tuple key",
        "a/b.c\n": 1,
        "path": Path("x"),
        "deep": deep,
        "shared": [deep, deep],
    }

    def fn(config: dict[str, Any]) -> None:
        report(metrics)

    received = settle(driver.start(fn).train()).metrics
    assert {key: received[key] for key in metrics} == metrics


def test_a_metric_that_contains_itself_is_refused(driver: FakeDriver) -> None:
    endless: list[Any] = []
    endless.append(endless)
    with pytest.raises(TypeError, match="contains itself"):
        pull(driver.start(lambda config: {"x": endless}))


def test_metrics_that_contain_themselves_are_refused() -> None:
    endless: dict[str, Any] = {"loss": 1.0}
    endless["again"] = endless
    assert with_plain_keys(endless) is endless  # its keys are plain, and looking at them comes to an end
    with pytest.raises(ValueError, match="must be nested at most"):
        flatten(endless)


def test_torch_tensors_are_refused(driver: FakeDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    class Tensor:
        pass

    class Parameter(Tensor):
        pass

    torch = ModuleType("torch")
    torch.Tensor = Tensor  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "torch", torch)
    with pytest.raises(ValueError, match=r"'x'\[0\] is a torch tensor"):
        pull(driver.start(lambda config: {"x": [Parameter()]}))


@pytest.mark.parametrize("metrics", [None, 3, [("a", 1)], "text"])
def test_metrics_must_be_a_dict(driver: FakeDriver, metrics: Any) -> None:
    actor = driver.start(lambda config: report(metrics))
    with pytest.raises(TypeError, match="must be a dict"):
        pull(actor)


def test_metrics_may_be_keywords(driver: FakeDriver) -> None:
    assert pull(driver.start(lambda config: report(loss=1))).metrics["loss"] == 1
    with pytest.raises(TypeError, match="unexpected keywords"):
        pull(driver.start(lambda config: report({"loss": 1}, acc=1), name="t_1"))
    ignored = driver.start(lambda config: report({"loss": 2}, checkpoint_dir_name="mine"), name="t_2")
    assert pull(ignored).metrics["loss"] == 2


# -- context -----------------------------------------------------------------------------------------------------------


def test_the_context_tells_about_the_trial(driver: FakeDriver, tmp_path: Path) -> None:
    bundle = BundleAllocation({"CPU": 2, "GPU": 1}, (GpuShare("3", 1.0),), {"CUDA_VISIBLE_DEVICES": "3"})

    def look() -> dict[str, Any]:
        context = get_context()
        storage = context.get_storage()
        return {
            "id": context.get_trial_id(),
            "name": context.get_trial_name(),
            "dir": context.get_trial_dir(),
            "experiment": context.get_experiment_name(),
            "cpus": context.get_trial_resources().required_resources["CPU"],
            "trial_path": storage.trial_fs_path,
            "env": context.get_bundles()[0].env["CUDA_VISIBLE_DEVICES"],
            "gpus": get_gpu_ids(),
            "seed": context.get_trial_seed(),
            "attempt": context.get_attempt(),
            "ranks": (context.get_world_size(), context.get_world_rank(), context.get_local_rank()),
        }

    directory = str(tmp_path / "t_00000")
    assert in_trial(driver, look, allocation=Allocation((bundle,), gpu_ids=("3",)), attempt=2) == {
        "id": "t_00000",
        "name": "fn_t_00000",
        "dir": directory,
        "experiment": "exp",
        "cpus": 2,
        "trial_path": directory,
        "env": "3",
        "gpus": [3],
        "seed": 17,
        "attempt": 2,
        "ranks": (1, 0, 0),
    }


def test_the_old_getters_forward(driver: FakeDriver) -> None:
    def look() -> Any:
        return get_trial_id(), get_trial_name(), get_trial_dir(), get_trial_resources()

    expected = ("t_00000", "fn_t_00000", str(driver.directory / "t_00000"), Resources([{"CPU": 2}]))
    assert in_trial(driver, look) == expected


def test_outside_of_trials_everything_warns_once_and_gives_none(script: Script) -> None:
    _, stderr = script.finish(script.start(SCRIPTS / "outside_of_a_trial.py"))
    lines = stderr.splitlines()
    assert len(lines) == 4
    assert all("outside of a trial" in line for line in lines)


def test_reporting_loads_no_heavy_module() -> None:
    script = "import sys, minitune.trainable.trial_actor; print(sorted({'cloudpickle', 'psutil', 'numpy', 'torch', "
    script += "'multiprocessing', 'socket', 'asyncio'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "[]"


def test_a_forked_child_of_the_trial_does_not_report(script: Script) -> None:
    stdout = script.run(SCRIPTS / "forked_child.py")
    assert "'parent'" in stdout
    assert "'child'" not in stdout
