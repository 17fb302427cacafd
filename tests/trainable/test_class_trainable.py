"""Class trainables: without a driver, as trials, and made from functions."""

from __future__ import annotations

import os
import pickle
import threading
from pathlib import Path
from typing import Any

import pytest
from kit import pull, raiser, settle

from minitune.base import clock
from minitune.checkpoint import Checkpoint, matches
from minitune.resources import Resources
from minitune.trainable import Trainable, get_checkpoint, report
from minitune.trainable.context import get_context


class Counter(Trainable):
    """Counts its steps, and changes its copy of the configuration."""

    def setup(self, config):
        self.count = config.get("start", 0)
        config["changed"] = True

    def step(self):
        self.count += 1
        return {"count": self.count, "done": self.count >= self.config.get("limit", 100)}

    def save_checkpoint(self, checkpoint_dir):
        return {"count": self.count}

    def load_checkpoint(self, checkpoint):
        self.count = checkpoint["count"]

    def reset_config(self, new_config):
        self.count = new_config.get("start", 0)
        return bool(new_config.get("resettable", True))


class Filer(Counter):
    """Writes its state to a file."""

    returned: Any = None
    """What `save_checkpoint` returns; "dir" stands for its directory."""

    def save_checkpoint(self, checkpoint_dir):
        Path(checkpoint_dir, "count").write_text(str(self.count))
        return checkpoint_dir if self.returned == "dir" else self.returned

    def load_checkpoint(self, checkpoint):
        self.count = int(Path(checkpoint, "count").read_text())


class Plain(Trainable):
    """Defines nothing but `step`."""

    def step(self):
        return {"x": 1}


def filing(value):
    """A `Filer` whose `save_checkpoint` returns this value."""
    return type("Filing", (Filer,), {"returned": value})


def stepping(step):
    """A class of this step."""
    return type("Stepping", (Plain,), {"step": step})


# -- alone -------------------------------------------------------------------------------------------------------------


def test_a_class_works_by_itself():
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
    counter.stop()


def test_the_directory_of_a_trainable_is_made_when_asked_for(tmp_path):
    counter = Counter()
    counter.train()
    assert not (tmp_path / "minitune_results").exists()
    assert os.path.isdir(counter.logdir)
    assert counter.logdir == counter.logdir
    assert counter.logdir.startswith(str(tmp_path / "minitune_results"))


@pytest.mark.parametrize("kind", [Counter, Filer, filing("dir")])
def test_a_class_goes_on_from_what_it_saved(kind):
    one = kind(config={})
    for _ in range(3):
        last = one.train()
    saved = one.save()
    assert saved.metrics["count"] == 3
    other = kind(config={})
    for plain in (saved.checkpoint, saved.checkpoint.path):
        other.restore(plain)
        assert (other.count, other.iteration) == (3, 0), "only the result has the counts"
    other.restore(saved)
    assert (other.count, other.iteration) == (3, 3)
    result = other.train()
    assert (result["count"], result["training_iteration"], result["iterations_since_restore"]) == (4, 4, 1)
    assert result["time_total_s"] == pytest.approx(last["time_total_s"] + result["time_this_iter_s"])
    assert result["time_since_restore"] == result["time_this_iter_s"]


def test_each_save_has_the_directory_that_is_given_or_one_of_its_own(tmp_path):
    counter = Counter()
    counter.train()
    one = counter.save()
    counter.count = 9
    two = counter.save(str(tmp_path / "here"))
    three = counter.save()
    assert two.checkpoint == Checkpoint(tmp_path / "here")
    assert pickle.loads((tmp_path / "here" / "_dict_checkpoint.pkl").read_bytes()) == {"count": 9}
    for saved, count in ((one, 1), (two, 9), (one, 1), (three, 9)):
        counter.restore(saved)
        assert counter.count == count
    assert Path(one.checkpoint.path).parent == Path(three.checkpoint.path).parent == Path(counter.logdir)


@pytest.mark.parametrize("place", ["elsewhere", "{}/outside", "{}/checkpoint/missing"])
def test_a_text_from_save_checkpoint_must_be_its_directory(tmp_path, place):
    (tmp_path / "outside").touch()
    returned = place.format(tmp_path)
    with pytest.raises(ValueError, match=rf"must return None, a dict, or the directory .*'{returned}'"):
        filing(returned)().save(str(tmp_path / "checkpoint"))


def test_the_time_between_two_steps_does_not_count():
    virtual = clock.VirtualClock(1_000.0)
    with clock.use(virtual):
        timed = stepping(lambda self: virtual.sleep(2.0) or {"x": 1})()
        virtual.sleep(50.0)
        timed.train()
        virtual.sleep(50.0)
        result = timed.train()
    assert (result["time_this_iter_s"], result["time_total_s"]) == (2.0, 4.0)


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: Plain().save(), NotImplementedError, "save_checkpoint"),
        (lambda: Trainable().train(), NotImplementedError, "step"),
        (lambda: Counter().restore(3), TypeError, "but got int"),
        (lambda: Counter().restore("/nowhere"), FileNotFoundError, "nowhere"),
        (lambda: stepping(lambda self: 3)().train(), TypeError, r"step\(\) of Stepping must return a dict .* int: 3"),
        (lambda: Counter({}, storage="s3://x"), ValueError, "storage must be None"),
    ],
)
def test_wrong_use_is_refused(call, error, text):
    with pytest.raises(error, match=text):
        call()


def test_log_result_sees_each_result():
    seen = []
    log_result = {"log_result": lambda self, result: seen.append((result["x"], result["training_iteration"]))}
    trainable = type("Logging", (Plain,), log_result)()
    trainable.train()
    trainable.train()
    assert seen == [(1, 1), (1, 2)]


@pytest.mark.parametrize("value", [(1, 2), 0])
def test_other_values_of_save_checkpoint_are_ignored_with_a_warning(caplog, value):
    saved = filing(value)(config={"start": 2}).save()
    other = Filer()
    other.restore(saved)
    assert other.count == 2
    assert f"({value!r}) is ignored" in caplog.text


def test_counter_and_directory_have_their_names_in_ray_tune():
    def step(self):
        self._iteration += 10
        return {"x": self._iteration, "logdir": self._logdir}

    one = stepping(step)()
    result = one.train()
    assert (result["x"], result["training_iteration"]) == (10, 11)
    assert result["logdir"] == one.logdir


def test_the_new_config_is_in_force_when_reset_config_is_called():
    class Looking(Counter):
        def reset_config(self, new_config):
            assert new_config == self.config
            new_config["start"] = 0  # a copy
            return True

    looking = Looking(config={"start": 1})
    assert looking.reset({"start": 5})
    assert looking.config == {"start": 5}


def test_the_same_dict_may_be_returned_every_time(driver):
    same = {"x": 0, "nested": {"y": 0}}
    actor = driver.start(stepping(lambda self: same.update(x=same["x"] + 1) or same))
    assert [pull(actor).metrics[key] for key in ("x", "training_iteration", "x")] == [1, 2, 3]


class Passing(Plain):
    def __init__(self, *args, **kwargs):
        self.before = True
        super().__init__(*args, **kwargs)


class Old(Plain):
    def __init__(self, config=None, logger_creator=None, storage=None):
        super().__init__(config, storage)


class Bare(Plain):
    def __init__(self, config):
        super().__init__(config)


@pytest.mark.parametrize("kind", [Passing, Old, Bare])
def test_a_class_may_have_a_constructor_of_the_users(driver, kind):
    metrics = pull(driver.start(kind)).metrics
    assert (metrics["x"], metrics["trial_id"]) == (1, "t_00000")


# -- as a trial --------------------------------------------------------------------------------------------------------


def test_the_trial_is_known_inside(driver):
    class Knowing(Trainable):
        def setup(self, config):
            self.inner = Counter(config={})
            self.at_setup = get_context().get_trial_id()

        def step(self):
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
def test_a_trial_is_saved_and_restored(driver, kind):
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


@pytest.mark.parametrize(
    ("method", "replacement", "error", "text"),
    [
        ("setup", raiser(OSError("no data")), OSError, "no data"),
        ("__init__", lambda self, config: None, TypeError, r"__init__\(\) of Broken must call super\(\)"),
    ],
)
def test_an_error_while_the_object_is_made_is_the_factorys(driver, method, replacement, error, text):
    with pytest.raises(error, match=text):
        driver.start(type("Broken", (Plain,), {method: replacement}))


def test_a_result_that_cannot_travel_names_its_key(driver):
    with pytest.raises(TypeError, match=r"metric 'x' of type _thread\.lock"):
        pull(driver.start(stepping(lambda self: {"x": threading.Lock()})))


def test_reset_hands_the_object_on(driver):
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


def test_report_does_nothing_in_a_class(driver):
    reporting = stepping(lambda self: report({"y": 1}) or {"x": get_checkpoint() is None})
    assert pull(driver.start(reporting)).metrics["x"] is True
