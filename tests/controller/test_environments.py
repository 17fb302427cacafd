"""Environment creators reach the trials that ask for them."""

from __future__ import annotations

import pytest

from minitune import RunConfig, TuneConfig, Tuner, grid_search, register_env
from minitune.registry import get_env_creator


def trainable(config):
    return {"made": get_env_creator(config["env"])({"size": 3})}


@pytest.mark.parametrize("executor", ["local", "inline"])
def test_a_trial_finds_the_creator_that_its_config_names(executor):
    prefix = "big"
    register_env("grid-world", lambda env_config: f"{prefix} grid of {env_config['size']}")
    register_env("maze", lambda env_config: f"{prefix} maze of {env_config['size']}")
    space = {"env": grid_search(["grid-world", "maze", "grid-world"])}
    tune_config = TuneConfig(executor=executor, reuse_actors=True, max_concurrent_trials=1)
    results = Tuner(trainable, param_space=space, tune_config=tune_config, run_config=RunConfig(verbose=0)).fit()
    assert [r.metrics.get("made") for r in results] == ["big grid of 3", "big maze of 3", "big grid of 3"]
    assert "_grid-world_" in results[0].path
