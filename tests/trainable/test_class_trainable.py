"""Class trainables: without a driver, as trials, and made from functions."""

from __future__ import annotations

import inspect
import os
import pickle
import threading
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from kit import BOUND_S, FakeDriver, pull, settle

from minitune import clock
from minitune.checkpoint import Checkpoint, matches
from minitune.context import get_context
from minitune.resources import Resources
from minitune.result import Report
from minitune.trainable import FunctionTrainable, Trainable, TrainingResult, get_checkpoint, report, wrap_function


class Counter(Trainable):
    """Counts its steps, and changes its copy of the configuration."""

    def setup(self, config: dict[str, Any]) -> None:
        self.count = config.get("start", 0)
        config["changed"] = True

    def step(self) -> dict[str, Any]:
        self.count += 1
        return {"count": self.count, "done": self.count >= self.config.get("limit", 100)}

    def save_checkpoint(self, checkpoint_dir: str) -> dict[str, Any] | None:
        return {"count": self.count}

    def load_checkpoint(self, checkpoint: Any) -> None:
        self.count = checkpoint["count"]

    def reset_config(self, new_config: dict[str, Any]) -> bool:
        self.count = new_config.get("start", 0)
        return bool(new_config.get("resettable", True))


class Filer(Counter):
    """Writes its state to a file."""

    returned: Any = None

    def save_checkpoint(self, checkpoint_dir: str) -> Any:
        Path(checkpoint_dir, "count").write_text(str(self.count))
        return checkpoint_dir if self.returned == "dir" else self.returned

    def load_checkpoint(self, checkpoint: Any) -> None:
        self.count = int(Path(checkpoint, "count").read_text())


class Plain(Trainable):
    """Defines nothing but `step`."""

    def step(self) -> dict[str, Any]:
        return {"x": 1}


class StringFiler(Filer):
    returned = "elsewhere"


class DirFiler(Filer):
    returned = "dir"


# -- alone -------------------------------------------------------------------------------------------------------------


def test_a_class_works_by_itself() -> None:
    counter = Counter(config={"start": 5})
    assert (counter.trial_id, counter.trial_name, counter.trial_resources) == ("default", "default", None)
    assert counter.config == {"start": 5}  # setup got a copy
    result = counter.train()
    assert (result["count"], result["training_iteration"], result["done"]) == (6, 1, False)
    assert result["config"] == {"start": 5}
    assert result["trial_id"] == "default"
    counter.train()
    assert (counter.iteration, counter.training_iteration) == (2, 2)
    assert counter.get_config() == {"start": 5}
    assert counter.get_state()["iteration"] == 2
    assert counter.get_state()["last_result"]["count"] == 7
    counter.stop()


def test_the_directory_of_a_trainable_is_made_when_asked_for(tmp_path: Path) -> None:
    counter = Counter()
    counter.train()
    assert not (tmp_path / "minitune_results").exists()
    assert os.path.isdir(counter.logdir)
    assert counter.logdir == counter.logdir
    assert counter.logdir.startswith(str(tmp_path / "minitune_results"))


@pytest.mark.parametrize("kind", [Counter, Filer, DirFiler])
@pytest.mark.parametrize("form", ["result", "checkpoint", "path"])
def test_a_class_goes_on_from_what_it_saved(kind: type[Counter], form: str) -> None:
    one = kind(config={})
    for _ in range(3):
        last = one.train()
    saved = one.save()
    assert saved.metrics["count"] == 3
    x = {"result": saved, "checkpoint": saved.checkpoint, "path": saved.checkpoint.path}[form]

    other = kind(config={})
    other.restore(x)
    assert (other.count, other.iteration) == (3, 3)
    result = other.train()
    assert (result["count"], result["training_iteration"], result["iterations_since_restore"]) == (4, 4, 1)
    assert result["time_total_s"] == pytest.approx(last["time_total_s"] + result["time_this_iter_s"])
    assert result["time_since_restore"] == result["time_this_iter_s"]


def test_save_takes_a_directory(tmp_path: Path) -> None:
    counter = Counter()
    saved = counter.save(str(tmp_path / "here"))
    assert saved.checkpoint == Checkpoint(tmp_path / "here")
    assert pickle.loads((tmp_path / "here" / "_dict_checkpoint.pkl").read_bytes()) == {"count": 0}


def test_a_foreign_string_from_save_checkpoint_is_refused() -> None:
    with pytest.raises(ValueError, match=r"must return None, a dict, or the directory .*'elsewhere'"):
        StringFiler().save()


def test_a_file_outside_of_the_checkpoint_is_refused(tmp_path: Path) -> None:
    (tmp_path / "weights").touch()

    class Elsewhere(Filer):
        returned = str(tmp_path / "weights")

    with pytest.raises(ValueError, match="must return None, a dict, or the directory"):
        Elsewhere().save(str(tmp_path / "checkpoint"))


@pytest.mark.parametrize("config", [[], 3, "text"])
def test_a_configuration_that_is_no_dict_is_refused(config: Any) -> None:
    with pytest.raises(TypeError, match="config must be None or a dict"):
        Counter(config=config)


def test_the_time_between_two_steps_does_not_count() -> None:
    virtual = clock.VirtualClock(1_000.0)

    class Timed(Plain):
        def step(self) -> dict[str, Any]:
            virtual.sleep(2.0)
            return {"x": 1}

    with clock.use(virtual):
        timed = Timed()
        virtual.sleep(50.0)
        timed.train()
        virtual.sleep(50.0)
        result = timed.train()
    assert (result["time_this_iter_s"], result["time_total_s"]) == (2.0, 4.0)


def test_the_result_that_is_given_with_a_checkpoint_counts() -> None:
    saved = Counter().save()
    counter = Counter()
    counter.restore(TrainingResult(saved.checkpoint, {"training_iteration": 7, "time_total_s": 3.0}))
    assert (counter.iteration, counter.get_state()["time_total"]) == (7, 3.0)
    assert counter.get_state()["last_result"] == {"training_iteration": 7, "time_total_s": 3.0}


def test_a_class_shows_its_attributes_without_an_object() -> None:
    assert dict(inspect.getmembers(Plain)).keys() >= {"experiment_id", "_logdir", "logdir"}


def test_the_id_of_an_experiment_is_the_same_in_each_attempt(driver: FakeDriver) -> None:
    class Telling(Plain):
        def step(self) -> dict[str, Any]:
            return {"id": self.experiment_id}

    ids = [pull(driver.start(Telling, name=name)).metrics["id"] for name in ("t_1", "t_1", "t_2")]
    assert ids[0] == ids[1] != ids[2]
    assert [len(one) for one in ids] == [32, 32, 32]
    one = Plain()
    assert one.experiment_id == one.experiment_id != Plain().experiment_id
    one.experiment_id = "mine"  # type: ignore[misc]
    assert one.experiment_id == "mine"


def test_a_class_without_checkpoints_says_so() -> None:
    with pytest.raises(NotImplementedError, match="save_checkpoint"):
        Plain().save()
    with pytest.raises(NotImplementedError, match="step"):
        Trainable().train()


def test_restoring_needs_a_checkpoint(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="but got int"):
        Counter().restore(3)
    with pytest.raises(FileNotFoundError):
        Counter().restore(tmp_path / "gone")


def test_step_must_return_a_dict() -> None:
    class Bad(Trainable):
        def step(self) -> Any:
            return 3

    with pytest.raises(TypeError, match=r"step\(\) of Bad must return a dict .* int: 3"):
        Bad().train()


def test_reset_takes_another_config() -> None:
    counter = Counter(config={"start": 1})
    counter.train()
    assert counter.reset({"start": 9}) is True
    assert counter.config == {"start": 9}
    assert counter.train()["count"] == 10
    assert counter.iteration == 1
    assert counter.reset({"resettable": False}) is False
    assert Plain().reset({}) is False


def test_log_result_sees_each_result() -> None:
    seen: list[Any] = []

    class Logging(Plain):
        def log_result(self, result: dict[str, Any]) -> None:
            seen.append((result["x"], result["training_iteration"]))

    trainable = Logging()
    trainable.train()
    trainable.train()
    assert seen == [(1, 1), (1, 2)]


def test_the_automatic_keys_have_a_fixed_order() -> None:
    keys = list(Counter(config={}).train())
    start = keys.index("done")
    assert keys[start : start + 6] == [
        "done",
        "training_iteration",
        "trial_id",
        "date",
        "timestamp",
        "time_this_iter_s",
    ]


def test_automatic_metrics_can_be_asked_for() -> None:
    counter = Counter(config={"a": 1})
    counter.train()
    metrics = counter.get_auto_filled_metrics(time_this_iter=2.0)
    assert metrics["time_this_iter_s"] == 2.0
    assert metrics["config"] == {"a": 1}
    assert (metrics["iterations_since_restore"], "timesteps_since_restore" in metrics) == (1, False)
    given = counter.get_auto_filled_metrics(now=datetime(2026, 1, 2, 3, 4, 5), timestamp=7)
    assert (given["date"], given["timestamp"]) == ("2026-01-02_03-04-05", 7)
    at_s = datetime(2026, 1, 2, 3, 4, 5).timestamp()
    assert counter.get_auto_filled_metrics(now=datetime(2026, 1, 2, 3, 4, 5))["timestamp"] == int(at_s)
    assert counter.iteration == 1
    debug = counter.get_auto_filled_metrics(debug_metrics_only=True)
    assert set(debug) == {"trial_id", "date", "timestamp", "pid", "hostname", "node_ip", "config"}


def test_foreign_storage_is_refused() -> None:
    with pytest.raises(ValueError, match="storage must be None"):
        Counter({}, storage="s3://x")  # type: ignore[arg-type]


def test_each_save_has_a_directory_of_its_own() -> None:
    counter = Counter()
    counter.train()
    one = counter.save()
    counter.count = 9
    two = counter.save()
    counter.restore(one)
    assert counter.count == 1
    counter.restore(two)
    assert counter.count == 9
    assert Path(one.checkpoint.path).parent == Path(counter.logdir)


@pytest.mark.parametrize("value", [(1, 2), 0])
def test_other_values_of_save_checkpoint_are_ignored_with_a_warning(
    caplog: pytest.LogCaptureFixture, value: object
) -> None:
    class Chatty(Filer):
        returned = value

    saved = Chatty(config={"start": 2}).save()
    other = Chatty()
    other.restore(saved)
    assert other.count == 2
    assert f"({value!r}) is ignored" in caplog.text


def test_the_counter_can_be_read_and_set_under_its_name_in_ray_tune() -> None:
    class Setting(Plain):
        def step(self) -> dict[str, Any]:
            self._iteration += 10
            return {"x": self._iteration}

    result = Setting().train()
    assert (result["x"], result["training_iteration"]) == (10, 11)


def test_the_directory_can_be_read_and_set_under_its_name_in_ray_tune(tmp_path: Path) -> None:
    class Setting(Plain):
        def step(self) -> dict[str, Any]:
            return {"x": self._logdir}

    one, other = Setting(), Setting()
    other._logdir = "mine"
    assert (one.train()["x"], other.train()["x"]) == (one.logdir, "mine")


def test_the_new_config_is_in_force_when_reset_config_is_called() -> None:
    class Looking(Counter):
        def reset_config(self, new_config: dict[str, Any]) -> bool:
            assert new_config == self.config
            new_config["start"] = 0  # a copy
            return True

    looking = Looking(config={"start": 1})
    assert looking.reset({"start": 5})
    assert looking.config == {"start": 5}


def test_a_slow_setup_is_worth_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    virtual = clock.VirtualClock()

    class Slow(Plain):
        def setup(self, config: dict[str, Any]) -> None:
            virtual.sleep(config["s"])

    with clock.use(virtual):
        Slow(config={"s": 10.0})
        assert not caplog.records
        Slow(config={"s": 11.0})
    assert "setup of Slow took 11.0 s" in caplog.text


@pytest.mark.parametrize("name", ["export_model", "train_buffered", "resource_help"])
def test_a_removed_method_names_its_replacement(name: str) -> None:
    for holder in (Plain(), Plain):
        with pytest.raises(AttributeError, match=rf"Plain\.{name} is gone: "):
            getattr(holder, name)


def test_the_same_dict_may_be_returned_every_time(driver: FakeDriver) -> None:
    class Same(Trainable):
        def setup(self, config: dict[str, Any]) -> None:
            self.result = {"x": 0, "nested": {"y": 0}}

        def step(self) -> dict[str, Any]:
            self.result["x"] += 1
            return self.result

    actor = driver.start(Same)
    assert [pull(actor).metrics[key] for key in ("x", "training_iteration", "x")] == [1, 2, 3]


class Stored(Plain):
    def __init__(self, config: dict[str, Any], storage: Any):
        super().__init__(config, storage=storage)


class Passing(Plain):
    def __init__(self, *args: Any, **kwargs: Any):
        self.before = True
        super().__init__(*args, **kwargs)


class Old(Plain):
    def __init__(self, config: Any = None, logger_creator: Any = None, storage: Any = None):
        super().__init__(config, storage)


class Bare(Plain):
    def __init__(self, config: dict[str, Any]):
        super().__init__(config)


@pytest.mark.parametrize("kind", [Stored, Passing, Old, Bare])
def test_a_class_may_have_a_constructor_of_the_users(driver: FakeDriver, kind: type[Trainable]) -> None:
    metrics = pull(driver.start(kind)).metrics
    assert (metrics["x"], metrics["trial_id"]) == (1, "t_00000")


def test_a_constructor_that_does_not_call_ours_is_refused(driver: FakeDriver) -> None:
    class Alone(Plain):
        def __init__(self, config: dict[str, Any]):
            self.x = 0

    with pytest.raises(TypeError, match=r"__init__\(\) of Alone must call super\(\)"):
        driver.start(Alone)


# -- as a trial --------------------------------------------------------------------------------------------------------


def test_each_pull_is_a_step(driver: FakeDriver) -> None:
    actor = driver.start(Counter, {"start": 1, "limit": 3})
    one, two = pull(actor), pull(actor)
    assert (one.metrics["count"], one.done, one.checkpoint) == (2, False, None)
    assert (two.metrics["count"], two.done) == (3, True)
    assert "config" not in one.metrics
    assert two.metrics["training_iteration"] == 2


def test_the_trial_is_known_inside(driver: FakeDriver) -> None:
    class Knowing(Trainable):
        def setup(self, config: dict[str, Any]) -> None:
            self.inner = Counter(config={})
            self.at_setup = get_context().get_trial_id()

        def step(self) -> dict[str, Any]:
            return {
                "names": (self.trial_id, self.trial_name, self.inner.trial_id, self.at_setup),
                "logdir": self.logdir,
                "resources": self.trial_resources,
                "context": get_context().get_trial_dir(),
            }

    metrics = pull(driver.start(Knowing)).metrics
    assert metrics["names"] == ("t_00000", "fn_t_00000", "default", "t_00000")
    assert metrics["logdir"] == metrics["context"] == str(driver.directory / "t_00000")
    assert metrics["resources"] == Resources([{"CPU": 2}])


@pytest.mark.parametrize("kind", [Counter, Filer])
def test_a_trial_is_saved_and_restored(driver: FakeDriver, kind: type[Counter]) -> None:
    actor = driver.start(kind, next_checkpoint=2)
    last = [pull(actor) for _ in range(3)][-1].metrics
    record = settle(actor.save())
    directory = driver.directory / "t_00000"
    assert record.number == 2
    assert matches(record, directory)
    names = os.listdir(directory / record.directory)
    assert names == (["_dict_checkpoint.pkl"] if kind is Counter else ["count"])
    assert os.listdir(directory) == [record.directory]
    assert settle(actor.save()).number == 3

    other = driver.start(kind, name="t_1")
    settle(other.restore(str(directory / record.directory), last))
    metrics = pull(other).metrics
    assert (metrics["count"], metrics["training_iteration"], metrics["iterations_since_restore"]) == (4, 4, 1)
    assert metrics["time_total_s"] > last["time_total_s"]


def test_a_failed_save_leaves_nothing(driver: FakeDriver) -> None:
    actor = driver.start(StringFiler)
    with pytest.raises(ValueError, match="elsewhere"):
        settle(actor.save())
    assert os.listdir(driver.directory / "t_00000") == []


def test_an_error_in_setup_is_the_factorys(driver: FakeDriver) -> None:
    class Broken(Trainable):
        def setup(self, config: dict[str, Any]) -> None:
            raise OSError("no data")

    with pytest.raises(OSError, match="no data"):
        driver.start(Broken)


@pytest.mark.parametrize("error", [ValueError("v"), SystemExit(4), KeyboardInterrupt()])
def test_an_error_in_a_step_is_the_answer(driver: FakeDriver, error: BaseException) -> None:
    class Failing(Plain):
        def step(self) -> dict[str, Any]:
            raise error

    assert driver.start(Failing).train().exception(BOUND_S) is error


@pytest.mark.parametrize("error", [SystemExit(0), StopIteration()])
def test_a_step_that_exits_cleanly_ends_the_trial(driver: FakeDriver, error: BaseException) -> None:
    class Ending(Plain):
        def step(self) -> dict[str, Any]:
            raise error

    assert pull(driver.start(Ending)) == Report(None, None, True)


def test_a_result_that_cannot_travel_names_its_key(driver: FakeDriver) -> None:
    class Locked(Plain):
        def step(self) -> dict[str, Any]:
            return {"x": threading.Lock()}

    with pytest.raises(TypeError, match=r"metric 'x' of type _thread\.lock"):
        pull(driver.start(Locked))


def test_reset_hands_the_object_on(driver: FakeDriver) -> None:
    actor = driver.start(Counter, {"start": 1})
    pull(actor)
    settle(actor.stop())
    info = driver.info("t_1", config={"start": 7})
    assert settle(actor.reset(info.fields(), None)) is True
    metrics = pull(actor).metrics
    assert (metrics["count"], metrics["trial_id"], metrics["training_iteration"]) == (8, "t_1", 1)
    assert settle(actor.save()).number == 0
    assert os.listdir(driver.directory / "t_1") == ["checkpoint_000000"]
    assert settle(actor.reset(driver.info("t_2", config={"resettable": False}).fields(), None)) is False
    assert settle(driver.start(Plain, name="t_3").reset(driver.info("t_4").fields(), None)) is False


def test_errors_of_cleanup_are_logged_only(driver: FakeDriver, caplog: pytest.LogCaptureFixture) -> None:
    class Messy(Plain):
        def cleanup(self) -> None:
            raise OSError("cannot clean up")

    actor = driver.start(Messy)
    pull(actor)
    assert settle(actor.stop()) is None
    assert "cannot clean up" in caplog.text


def test_report_does_nothing_in_a_class(driver: FakeDriver) -> None:
    class Reporting(Plain):
        def step(self) -> dict[str, Any]:
            report({"y": 1})
            return {"x": get_checkpoint() is None}

    assert pull(driver.start(Reporting)).metrics["x"] is True


# -- a function as a class ---------------------------------------------------------------------------------------------


def counting(config: dict[str, Any]) -> None:
    start = 0
    checkpoint = get_checkpoint()
    if checkpoint is not None:
        start = int(Path(checkpoint.path, "i").read_text()) + 1
    for i in range(start, config["n"]):
        directory = Path(config["scratch"], str(i))
        directory.mkdir(exist_ok=True)
        (directory / "i").write_text(str(i))
        report({"i": i}, checkpoint=Checkpoint(directory))


def test_a_wrapped_function_works_by_itself(tmp_path: Path) -> None:
    kind = wrap_function(counting)
    assert issubclass(kind, FunctionTrainable)
    assert kind.__name__ == "counting"
    config = {"n": 3, "scratch": str(tmp_path)}
    one = kind(config=config)
    assert [one.train()["i"] for _ in range(2)] == [0, 1]
    assert one.iteration == 2
    saved = one.save()
    one.stop()

    for x in (saved, saved.checkpoint.path):
        other = kind(config=config)
        other.restore(x)
        result = other.train()
        assert (result["i"], result["training_iteration"], result["config"]) == (2, 3, config)
        last = other.train()
        assert (last["i"], last["done"], last["__duplicate__"]) == (2, True, True)
        assert "__duplicate__" not in result
        other.stop()


def test_a_wrapped_function_may_end_with_a_report_that_is_done() -> None:
    before = set(threading.enumerate())

    def fn(config: dict[str, Any]) -> None:
        report({"x": 1})
        report({"x": 2, "done": True})

    trainable = wrap_function(fn)(config={})
    results = [trainable.train() for _ in range(3)]
    assert [(result["x"], result["done"]) for result in results] == [(1, False), (2, True), (2, True)]
    for thread in set(threading.enumerate()) - before:  # it ends with the function, before any stop
        thread.join(BOUND_S)
        assert not thread.is_alive()
    trainable.stop()


def test_a_wrapped_function_may_change_its_configuration() -> None:
    def fn(config: dict[str, Any]) -> None:
        report({"x": config.pop("x"), "n": config["list"].pop()})

    trainable = wrap_function(fn)(config={"x": 1, "list": [2]})
    for config in ({"x": 1, "list": [2]}, {"x": 3, "list": [4]}):
        if config["x"] == 3:
            assert trainable.reset(config)
        result = trainable.train()
        assert (result["x"], result["n"], result["config"]) == (config["x"], config["list"][0], config)
        assert trainable.config == {"x": result["x"], "list": [result["n"]]}
    trainable.stop()


def test_a_wrapped_function_cannot_be_saved_without_a_checkpoint_or_restored_later(tmp_path: Path) -> None:
    trainable = wrap_function(lambda config: report({"x": 1}))(config={})
    trainable.train()
    with pytest.raises(RuntimeError, match="the function has not reported one yet"):
        trainable.save()
    with pytest.raises(RuntimeError, match="only be restored before its first train"):
        trainable.restore(str(tmp_path))
    trainable.stop()


def test_a_wrapped_function_saves_its_checkpoint_where_it_is_told(tmp_path: Path) -> None:
    trainable = wrap_function(counting)(config={"n": 2, "scratch": str(tmp_path)})
    trainable.train()
    saved = trainable.save(str(tmp_path / "copy"))
    assert saved.checkpoint == Checkpoint(tmp_path / "copy")
    assert (tmp_path / "copy" / "i").read_text() == "0"
    assert saved.metrics["i"] == 0
    trainable.stop()


def test_a_wrapped_function_raises_its_own_error_and_resets() -> None:
    def fails(config: dict[str, Any]) -> None:
        report({"x": config["x"]})
        raise OSError("mine")

    trainable = wrap_function(fails)(config={"x": 1})
    trainable.train()
    with pytest.raises(OSError, match="mine"):
        trainable.train()
    assert trainable.reset({"x": 2})
    assert trainable.train()["x"] == 2
    trainable.stop()


def test_a_wrapped_function_is_a_function_for_the_driver(driver: FakeDriver) -> None:
    actor = driver.start(wrap_function(lambda config: 4))
    assert pull(actor).metrics["_metric"] == 4


def test_a_returned_file_that_does_not_exist_is_refused() -> None:
    class Forgets(Counter):
        def save_checkpoint(self, checkpoint_dir: str) -> Any:
            return os.path.join(checkpoint_dir, "weights")

    with pytest.raises(ValueError, match="must return None, a dict, or the directory"):
        Forgets().save()


def test_the_totals_of_a_checkpoint_are_restored_from_its_path() -> None:
    class Totals(Counter):
        def step(self) -> dict[str, Any]:
            return {"timesteps_this_iter": 10, "episodes_this_iter": 1}

    first = Totals()
    for _ in range(2):
        first.train()
    again = Totals()
    again.restore(first.save().checkpoint.path)
    state = again.get_state()
    assert (state["iteration"], state["timesteps_total"], state["episodes_total"]) == (2, 20, 2)
