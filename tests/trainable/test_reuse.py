"""reuse_actors=True: the next trial finds its own directory, output and counters in the worker of the previous one."""

import os
from pathlib import Path

import pytest
from kit import fit, pull, settle

from minitune import Trainable, get_checkpoint, get_context, get_gpu_ids, grid_search
from minitune.resources import Allocation
from minitune.trainable import report, with_parameters, with_resources


class Reused(Trainable):
    def setup(self, config, data=None):
        self.settings, self.data = config, data

    def step(self):
        print("trial", self.settings["i"])
        is_home = Path.cwd() == Path(self.logdir)
        return {"i": self.settings["i"], "seen": (self.iteration, is_home, sum(self.data)), "done": True}

    def reset_config(self, new_config):
        self.settings = new_config
        return True


def reused(config, data=None):
    print("trial", config["i"])
    is_home = get_checkpoint() is None and Path.cwd() == Path(get_context().get_trial_dir() or "")
    report({"i": config["i"], "seen": (0, is_home, sum(data))})


# On a machine with more CPUs, the next trial need not wait for a worker that is slow to leave.
IN_TURN = pytest.mark.usefixtures("one_cpu")


@IN_TURN
@pytest.mark.parametrize(("kind", "is_reversed"), [(Reused, False), (reused, True)])
def test_nothing_of_the_previous_trial_is_seen(kind, is_reversed):
    if is_reversed:
        trainable = with_parameters(with_resources(kind, {"cpu": 1}), data=[1, 2])
    else:
        trainable = with_resources(with_parameters(kind, data=[1, 2]), lambda config: {"cpu": 1})
    space = {"i": grid_search([1, 2, 3])}
    grid = fit(trainable, space, executor="local", reuse_actors=True, max_concurrent_trials=1)
    assert not grid.errors
    assert len({result.metrics["pid"] for result in grid} - {os.getpid()}) == 1  # one worker for all
    assert [(result.metrics["i"], result.metrics["seen"]) for result in grid] == [(i, (0, True, 3)) for i in (1, 2, 3)]
    assert [Path(result.path, "stdout").read_text() for result in grid] == ["trial 1\n", "trial 2\n", "trial 3\n"]


class Fails(Trainable):
    def setup(self, config):
        self.settings = config

    def step(self):
        if self.settings["fails_in"] == "step" and self.iteration == 1:
            raise ValueError("no second step")
        name = "matric" if self.settings["fails_in"] == "metric" and self.iteration == 1 else "metric"
        return {name: 1, "pid_now": os.getpid(), "done": self.iteration == 1}

    def save_checkpoint(self, checkpoint_dir):
        if self.settings["fails_in"] == "save":
            raise ValueError("no checkpoint")

    def reset_config(self, new_config):
        self.settings = new_config
        return True


@IN_TURN
def test_a_worker_whose_trial_has_failed_is_not_handed_on():
    grid = fit(
        Fails,
        {"fails_in": grid_search(["step", "nothing", "save", "nothing", "metric", "nothing"])},
        executor="local",
        reuse_actors=True,
        max_concurrent_trials=1,
        metric="metric",
        mode="max",
        checkpoint_frequency=2,
    )
    assert [result.error is None for result in grid] == [False, True] * 3
    pids = [result.metrics["pid_now"] for result in grid]
    assert pids[1::2][:2] == pids[2::2], "the worker of a finished trial is handed on"
    assert len(set(pids)) == 4, "one whose trial has failed is not"


class Choosy(Trainable):
    """Cannot be used again. It notes whether an object takes a step after it has said so."""

    def setup(self, config):
        self.has_refused = False

    def step(self):
        with open(Path(self.logdir, "steps"), "a") as steps:
            steps.write(f"{self.has_refused}\n")
        return {"metric": 1, "pid_now": os.getpid(), "done": True}

    def save_checkpoint(self, checkpoint_dir):
        """There is nothing to save."""

    def reset_config(self, new_config):
        self.has_refused = True
        if new_config["how"] == "raises":
            raise ValueError("not again")
        return False


@IN_TURN
def test_an_object_that_refuses_the_next_trial_takes_no_step_of_it():
    """Its worker is parked by the save, and gets the first call of the next trial together with the reset."""
    grid = fit(
        Choosy,
        {"how": grid_search(["", "refuses", "raises"])},
        executor="local",
        reuse_actors=True,
        max_concurrent_trials=1,
        checkpoint_frequency=1,
    )
    assert not grid.errors
    assert [Path(result.path, "steps").read_text() for result in grid] == ["False\n"] * 3
    assert len({result.metrics["pid_now"] for result in grid}) == 3


@pytest.mark.parametrize("kind", ["function", "class"])
def test_a_trial_that_follows_has_the_devices_that_it_was_given(kind, driver):
    class Shows(Trainable):
        def step(self):
            return {"gpus": get_gpu_ids()}

        def reset_config(self, new_config):
            return True

    def shows(config):
        report({"gpus": get_gpu_ids()})

    actor = driver.start(shows if kind == "function" else Shows, allocation=Allocation(gpu_ids=("0",)))
    seen = []
    for number, given in enumerate((None, Allocation(gpu_ids=("1",)), None)):
        if number:
            settle(actor.stop())
            assert actor.reset(driver.info(f"t_{number}").fields(), given)
        seen.append((pull(actor).metrics or {})["gpus"])
    assert seen == [[0], [1], [1]]
