"""A run knows its seed, chosen or drawn, and each trial its own: the same ones in every attempt and after a resume."""

from pathlib import Path

import pytest
from kit import fit

from minitune import (
    ExperimentAnalysis,
    Trainable,
    Tuner,
    get_context,
    report,
    uniform,
)


def function(config):
    mark = Path(get_context().get_trial_dir(), "seeds")
    seed, attempt = get_context().get_trial_seed(), get_context().get_attempt()
    with mark.open("a") as file:
        file.write(f"{seed}\n")
    report({"seed": seed})
    if attempt <= 2 and config["x"] < 2:
        raise OSError(f"attempt {attempt}")


class Class(Trainable):
    def setup(self, config):
        self.seed = get_context().get_trial_seed()

    def step(self):
        assert self.seed == get_context().get_trial_seed()
        return {"seed": self.seed, "done": True}


def fit_seeded(trainable, storage, failures=0, **settings):
    settings = {"num_samples": 4, "max_failures": failures, "storage_path": storage, "name": None, **settings}
    return fit(trainable, {"x": uniform(0, 1)}, **settings)


def seeds(grid):
    return [result.metrics["seed"] for result in grid]


@pytest.mark.parametrize("executor", ["inline", "local"])
def test_each_trial_has_a_seed_of_its_own(executor, tmp_path):
    found = seeds(fit_seeded(Class, tmp_path, seed=3, executor=executor))
    assert len(set(found)) == 4
    assert all(type(seed) is int and 0 <= seed < 2**32 for seed in found)
    assert found == seeds(fit_seeded(function, tmp_path, seed=3, failures=2))
    assert found == seeds(fit_seeded(Class, tmp_path, seed=3, num_samples=6))[:4]
    assert not {*found} & {*seeds(fit_seeded(Class, tmp_path, seed=4))}


def test_attempts_and_resumed_runs_keep_the_seed(tmp_path):
    failed = fit_seeded(function, tmp_path, failures=1)
    assert failed.num_errors == 4
    for how in ("resume_errored", "restart_errored"):
        resumed = Tuner.restore(failed.experiment_path, function, **{how: True}).fit()
        assert resumed.seed == failed.seed
        assert resumed[0].config == failed[0].config
        assert seeds(resumed) == seeds(failed)
    for result in failed:
        assert Path(result.path, "seeds").read_text().split() == 3 * [str(result.metrics["seed"])]


@pytest.mark.parametrize("given", [None, 0, 12345])
def test_a_run_tells_its_seed_and_repeats_with_it(given, tmp_path):
    grid = fit_seeded(Class, tmp_path, seed=given)
    assert grid.seed is not None
    assert given is None or grid.seed == given
    assert ExperimentAnalysis(grid.experiment_path).seed == grid.seed
    again = fit_seeded(Class, tmp_path, seed=grid.seed)
    assert [(one.config, one.metrics["seed"]) for one in again] == [(one.config, one.metrics["seed"]) for one in grid]
