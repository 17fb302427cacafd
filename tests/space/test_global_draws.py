"""A seed also holds for what the functions of users draw from the global generators, which stay as they were."""

import random
import sys
import time

import pytest

from minitune import RunConfig, Searcher, TuneConfig, Tuner, get_context, sample_from, simulate, uniform
from minitune.schedulers import PopulationBasedTraining

SPACE = {"x": uniform(0, 1), "y": sample_from(lambda config: random.random() + config["x"])}


def trainable(config):
    return {"loss": config["x"], "seed": get_context().get_trial_seed()}


def three_configs(storage, **settings):
    space = None if "search_alg" in settings else SPACE
    config = TuneConfig(**{"num_samples": 3, "executor": "inline", **settings})
    run_config = RunConfig(storage_path=str(storage), verbose=0)
    return [r.config for r in Tuner(trainable, param_space=space, tune_config=config, run_config=run_config).fit()]


class Drawing(Searcher):
    """Of a user who knows nothing of seeds; now and then it has nothing to say."""

    def suggest(self, trial_id):
        return None if random.random() < 0.3 else {"x": random.random()}


@pytest.mark.parametrize("search_alg", [None, Drawing], ids=["functions", "a searcher"])
def test_the_seed_counts_and_the_state_does_not(search_alg, tmp_path):
    def drawn(seed, state, **more):
        random.seed(state)
        before = random.getstate()
        given = {} if search_alg is None else {"search_alg": search_alg()}
        found = three_configs(tmp_path, seed=seed, **given, **more)
        assert random.getstate() == before
        return found

    first = drawn(1, "a")
    assert len({str(config) for config in first}) == 3
    assert first == drawn(1, "b") == drawn(1, "c", max_concurrent_trials=1)
    assert first != drawn(2, "a")


def test_without_a_seed_the_state_counts(tmp_path, monkeypatch):
    monkeypatch.delitem(sys.modules, "numpy", raising=False)  # its state would count instead, if a test has loaded it

    def drawn(state):
        random.seed(state)
        return three_configs(tmp_path)

    first = drawn(1)
    assert three_configs(tmp_path) != first, "a run moves the state on"
    assert first == drawn(1) != drawn(2)


def test_functions_of_a_scheduler_draw_from_the_seed_of_the_run():
    def explored(config):
        return {**config, "z": random.random()}

    def run(state):
        random.seed(state)
        before = random.getstate()
        scheduler = PopulationBasedTraining(
            "training_iteration",
            perturbation_interval=1,
            hyperparam_mutations={"x": lambda: random.uniform(0, 1)},
            custom_explore_fn=explored,
        )
        config = TuneConfig(metric="loss", mode="min", num_samples=4, seed=1, scheduler=scheduler)
        done = simulate(curve, param_space={"x": uniform(0, 1)}, tune_config=config, num_workers=4)
        assert random.getstate() == before
        assert "EXPLOIT" in done.decision_log
        return done.decision_log + str([result.config for result in done.results])

    assert run(time.time()) == run(0)


def curve(config):
    return [({"loss": config["x"] + 1 / step}, 1.0) for step in range(1, 9)]
