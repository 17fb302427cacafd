"""TuneBOHB: TPE by rungs under the name, and with the arguments, that Ray Tune has for it."""

from pathlib import Path

import pytest
from kit import fit

import minitune as tune
from minitune.schedulers import HyperBandForBOHB
from minitune.search.bohb import TuneBOHB
from minitune.search.tpe import TPESearch

SPACE = {"x": tune.uniform(0, 1), "kind": tune.choice(["a", "b"])}


def test_all_paths_and_the_name_lead_to_one_class():
    from minitune.tune.search.bohb import TuneBOHB as other
    from minitune.tune.search.bohb.bohb_search import TuneBOHB as below

    assert other is below is TuneBOHB
    assert isinstance(tune.create_searcher("BOHB", metric="loss", mode="min"), TuneBOHB)


def test_bohb_suggests_the_same_as_tpe_by_rungs():
    options = {"metric": "loss", "mode": "min", "seed": 4}
    bohb = TuneBOHB(SPACE, {"min_points_in_model": 5, "top_n_percent": 30, "num_samples": 7}, **options)
    tpe = TPESearch(SPACE, n_initial_points=5, gamma=0.3, n_candidates=7, early_stop="rung", **options)
    for number in range(30):
        config = bohb.suggest(str(number))
        assert config == tpe.suggest(str(number))
        for step in range(1, 4 if number % 3 else 2):
            for search in (bohb, tpe):
                search.on_trial_result(str(number), {"loss": config["x"] / step, "training_iteration": step})
        for search in (bohb, tpe):
            search.on_trial_complete(str(number))


def test_options_that_have_no_counterpart_are_named(caplog):
    TuneBOHB(bohb_config={"random_fraction": 0.25})
    assert "bohb_config: random_fraction=0.25 has no effect" in caplog.text
    with pytest.raises(ValueError, match=r"bohb_config must hold some of .*top_n_percent.*, but got 'gamma'"):
        TuneBOHB(bohb_config={"gamma": 0.2})
    with pytest.raises(ValueError, match="top_n_percent must be"):
        TuneBOHB(bohb_config={"top_n_percent": 100})
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
