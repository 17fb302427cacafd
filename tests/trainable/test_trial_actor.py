"""The object of a trial that the driver calls: its parameters, its directory, its checkpoints, and its end."""

import os
from pathlib import Path

import pytest
from kit import pull, settle

from minitune.checkpoint import Checkpoint
from minitune.trainable import Trainable, get_checkpoint, report
from minitune.trainable.context import get_context


class Stepping(Trainable):
    """Reports the checkpoint that it would go on from."""

    def setup(self, config):
        self.n = 0

    def step(self):
        self.n += 1
        checkpoint = get_checkpoint()
        return {
            "n": self.n,
            "from": None if checkpoint is None else checkpoint.path,
            "config": "mine",
            "directory": get_context().get_trial_dir(),
        }

    def save_checkpoint(self, checkpoint_dir):
        if self.n == 2:
            raise ValueError("cannot be saved now")
        return {"n": self.n}

    def load_checkpoint(self, checkpoint):
        self.n = checkpoint["n"]

    def reset_config(self, new_config):
        self.n = 0
        return True


def stepping(config):
    for n in range(2):
        directory = Path(get_context().get_trial_dir() or "", "made")
        directory.mkdir(exist_ok=True)
        report({"n": n, "directory": get_context().get_trial_dir()}, checkpoint=Checkpoint(directory))
        report({"n": n})


# -- its parameters and its directory ----------------------------------------------------------------------------------


# -- its checkpoints ---------------------------------------------------------------------------------------------------


def test_the_last_checkpoint_of_a_function_counts_until_the_next_trial(driver):
    actor = driver.start(stepping)
    assert settle(actor.save()) is None
    pull(actor)
    assert settle(actor.save()).number == 0
    pull(actor)
    assert settle(actor.save()).number == 0
    pull(actor)
    assert settle(actor.save()).number == 1
    settle(actor.stop())
    assert settle(actor.reset(driver.info("t_1").fields(), None))
    assert settle(actor.save()) is None


def test_a_class_knows_the_checkpoint_that_it_would_go_on_from(driver):
    actor = driver.start(Stepping, next_checkpoint=4)
    metrics = pull(actor).metrics
    assert (metrics["from"], "config" in metrics) == (None, False)
    directory = driver.directory / "t_00000"
    first = settle(actor.save())
    assert pull(actor).metrics["from"] == str(directory / first.directory)
    with pytest.raises(ValueError, match="cannot be saved now"):
        settle(actor.save())
    assert os.listdir(directory) == [first.directory]
    last = pull(actor).metrics
    assert last["from"] == str(directory / first.directory)
    second = settle(actor.save())
    assert first.number < second.number
    settle(actor.restore(str(directory / first.directory), {"training_iteration": 1}))
    metrics = pull(actor).metrics
    assert (metrics["n"], metrics["training_iteration"]) == (2, 2)
    assert metrics["from"] == str(directory / first.directory)
    settle(actor.stop())
    assert settle(actor.reset(driver.info("t_1").fields(), None))
    assert pull(actor).metrics["from"] is None


def test_a_class_without_a_method_to_save_has_no_checkpoint(driver):
    class Plain(Trainable):
        def step(self):
            return {"x": 1}

    actor = driver.start(Plain)
    pull(actor)
    assert settle(actor.save()) is None
    assert os.listdir(driver.directory / "t_00000") == []


# -- its end -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("done", [True, 1, False])
def test_a_result_of_a_class_may_end_the_trial(driver, done):
    class Ending(Trainable):
        def step(self):
            return {"x": 1, "done": done}

    found = pull(driver.start(Ending))
    assert found.done is bool(done)
    assert found.metrics["done"] == done


@pytest.mark.parametrize(("error", "is_told"), [(SystemExit(0), False), (SystemExit(3), True), (ValueError(), True)])
def test_an_error_at_the_end_of_a_class_is_told_unless_it_is_a_usual_end(driver, caplog, error, is_told):
    class Ending(Trainable):
        def step(self):
            return {"x": 1}

        def cleanup(self):
            assert get_context().get_trial_id() == "t_00000"
            raise error

    actor = driver.start(Ending)
    pull(actor)
    assert settle(actor.stop()) is None
    assert ("cleanup() raised an exception; the trial keeps its status" in caplog.text) == is_told
