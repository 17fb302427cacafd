"""The global random generators of a trial's process follow from the trial's seed."""

import random
from pathlib import Path

import pytest
from kit import PauseOnce, SavedCounter, fit, report_state

from minitune import Trainable, get_checkpoint, grid_search
from minitune.trainable import report

SCRIPTS = Path(__file__).with_name("scripts")


def drawing(config):
    import random  # of the process that this runs in, whatever travels with the function

    report({"r": random.random()})
    return {"r": random.random()}


class Drawing(Trainable):
    def setup(self, config):
        import random

        self.first = random.random()

    def step(self):
        import random

        return {"r": (self.first, random.random()), "done": True}

    def reset_config(self, new_config):
        self.setup(new_config)
        return True


def drawn(trainable, **settings):
    grid = fit(trainable, {"x": grid_search([1, 2, 3])}, **{"name": None, "executor": "local", **settings})
    assert not grid.errors
    assert grid.get_best_result("training_iteration", "max").config
    return [result.metrics["r"] for result in grid]


@pytest.mark.parametrize("trainable", [drawing, Drawing])
def test_a_seed_fixes_the_random_numbers_of_trials(trainable):
    in_turn = {"reuse_actors": True, "max_concurrent_trials": 1}
    one = drawn(trainable, seed=1)
    assert len(set(one)) == 3
    assert drawn(trainable, seed=1, **in_turn) == one
    assert not set(one) & set(drawn(trainable, seed=2))
    before = random.getstate()
    assert drawn(trainable, seed=1, executor="inline") == one
    assert drawn(trainable, seed=1, executor="inline", **in_turn) == one
    assert random.getstate() == before


def test_draws_after_a_checkpoint_are_new_but_fixed():
    def fails_once(config):
        import random

        if get_checkpoint() is None:
            first = random.random()
            report_state(first, {"r": first})
            raise RuntimeError("once")
        return {"r": random.random(), "first": float(Path(get_checkpoint().path, "state").read_text())}

    def run():
        (result,) = fit(fails_once, name=None, executor="local", seed=1, max_failures=1)
        return result.metrics["first"], result.metrics["r"]

    first, second = run()
    assert first != second
    assert run() == (first, second)


class Draws(SavedCounter):
    """Draws in each step, and keeps what it has drawn over pauses."""

    def setup(self, config):
        super().setup(config)
        self.drawn = []

    def step(self):
        import random

        self.drawn.append(random.random())
        return {**super().step(), "drawn": list(self.drawn)}

    def save_checkpoint(self, checkpoint_dir):
        return {"n": self.n, "drawn": self.drawn}

    def load_checkpoint(self, checkpoint):
        self.n, self.drawn = checkpoint["n"], list(checkpoint["drawn"])


@pytest.mark.parametrize("executor", ["inline", "local"])
def test_a_class_that_was_restored_does_not_draw_the_same_again(executor):
    def draw(name):
        (result,) = fit(Draws, {"end": 6}, seed=1, scheduler=PauseOnce(3), executor=executor, name=name)
        return result.metrics["drawn"]

    first = draw("first")
    assert len(set(first)) == 6
    assert draw("second") == first


@pytest.mark.parametrize("executor", ["inline", "local"])
def test_retry_has_another_seed_that_is_the_same_in_each_run(executor, tmp_path):
    def unlucky(config):
        import random

        draws = tmp_path / f"draws_{config['run']}"
        with draws.open("a") as file:
            file.write(f"{random.random()}\n")
        if len(draws.read_text().split()) < 4:
            raise RuntimeError("bad luck")
        return {"r": draws.read_text().split()}

    def run(number):
        (result,) = fit(unlucky, {"run": number}, name=None, executor=executor, seed=1, max_failures=3)
        return result.metrics["r"]

    one = run(1)
    assert len(set(one)) == 4
    assert run(2) == one


def test_libraries_are_seeded_where_they_are_loaded(script):
    script.run(SCRIPTS / "seeds_libraries.py")
