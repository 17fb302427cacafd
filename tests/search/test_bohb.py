"""TuneBOHB: TPE by rungs under the name, and with the arguments, that Ray Tune has for it."""

from pathlib import Path

import pytest
from kit import fit

import minitune as tune
from minitune.schedulers import HyperBandForBOHB
from minitune.search.bohb import TuneBOHB

SPACE = {"x": tune.uniform(0, 1), "kind": tune.choice(["a", "b"])}


def test_all_paths_and_the_name_lead_to_one_class():
    from minitune.tune.search.bohb import TuneBOHB as other
    from minitune.tune.search.bohb.bohb_search import TuneBOHB as below

    assert other is below is TuneBOHB
    assert isinstance(tune.create_searcher("BOHB", metric="loss", mode="min"), TuneBOHB)


def test_what_has_no_effect_or_breaks_a_rule_is_named(caplog):
    TuneBOHB(bohb_config={"random_fraction": 0.25})
    assert "bohb_config=...) has no effect" in caplog.text
    with pytest.raises(ValueError, match="max_concurrent must be"):
        TuneBOHB(max_concurrent=-1)


def train(config):
    for step in range(1, 10):
        tune.report({"loss": (config["x"] - 0.3) ** 2 + 1 / step})


def test_bohb_runs_with_its_scheduler(tmp_path):
    search = TuneBOHB(points_to_evaluate=[{"x": 0.3}], max_concurrent=3)
    scheduler = HyperBandForBOHB(max_t=9, reduction_factor=3)
    settings = {"metric": "loss", "mode": "min", "num_samples": 9, "seed": 3, "executor": "inline"}
    grid = fit(train, SPACE, search_alg=search, scheduler=scheduler, storage_path=tmp_path, **settings)
    assert (len(grid), grid.num_errors, grid[0].config["x"]) == (9, 0, 0.3)
    assert min(len(list(Path(result.path).joinpath("result.json").open())) for result in grid) < 9
