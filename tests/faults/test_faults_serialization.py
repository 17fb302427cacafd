"""Values that cannot be pickled, loaded or sent: their trial gets a typed error, and the others go on."""

import json
import sys
from pathlib import Path

import pytest
from kit import fit, report_state, run_path

from minitune import get_checkpoint, grid_search, report, sample_from

SCRIPTS = Path(__file__).with_name("scripts")

MATRIX = SCRIPTS / "breaks_at_each_stage.py"


def cells_of(script, stages, ways):
    """Run a trial for each cell and one that is fine; returns the error's classes and its text by stage and way."""
    *cells, fine = map(json.loads, script.run(MATRIX, stages, ways).splitlines())
    assert fine == ["fine", 1, ["NoneType", "object"], "None"]
    return {tuple(cell): (kinds, text) for cell, _, kinds, text in cells}


def test_each_way_to_break_at_each_stage_is_a_typed_error_of_that_trial_alone(script):
    stages = "config loaded in worker,run,result pickled in worker,result loaded in worker"
    cells = cells_of(script, stages, "raise,exit,vanish,crash")
    assert len(cells) == 16
    for (stage, way), (kinds, text) in cells.items():
        assert "TrialError" in kinds, (stage, way)
        starts = stage.startswith("config")
        assert ("WorkerStartError" in kinds) == starts
        assert ("WorkerDiedError" in kinds) == (way in ("vanish", "crash") and not starts)
        assert {"raise": "list index out of range", "exit": "leaves", "vanish": "exit code 3", "crash": "SIGSEGV (11)"}[
            way
        ] in text
        if stage.startswith("result") and way == "raise":
            assert "TypeError" in kinds
            assert "metric 'bomb' of type __main__.Bomb" in text
            assert 'report({"bomb": bomb_of("result", config)})' in text, "in the user's own line"


def test_value_that_fails_in_the_driver_fails_its_trial(script):
    cells = cells_of(script, "config pickled in driver,result loaded in driver", "raise")
    (config_kinds, config_text), (result_kinds, result_text) = cells.values()
    assert {"TrialError", "TypeError"} <= set(config_kinds) & set(result_kinds)
    for text in ("configuration of trial", "item 'x' is a __main__.Bomb", "list index out of range"):
        assert text in config_text
    assert "list index out of range" in result_text


def test_a_result_that_only_the_record_cannot_hold_is_on_record_as_text(script):
    """It has come through to the driver, so the user has it; the record says what it was and why it is not there."""
    [(kinds, _)] = cells_of(script, "result pickled in driver", "raise").values()
    assert kinds == ["NoneType", "object"]
    stdout = script.run(SCRIPTS / "counts_reports.py")
    assert stdout == "[[3, 'TERMINATED'], [3, 'TERMINATED']]\n"
    assert '{"$":"unrecorded","text":"<__main__.Bomb' in (script.storage / "run" / "journal").read_text()


# -- too large ---------------------------------------------------------------------------------------------------------


MB = 2**20
TOO_LARGE = {
    "104.9 MB": lambda: "x" * (100 * MB),
    "83.9 MB": lambda: {"a": [bytes(40 * MB), bytes(40 * MB)]},
}


def test_a_report_that_is_too_large_is_refused_where_it_is_made():
    def trainable(config):
        try:
            report({"fine": 1, "y": TOO_LARGE[config["size"]]()})
        except ValueError as error:
            report({"caught": str(error)})
        report({"z": TOO_LARGE[config["size"]]()})

    for result in fit(trainable, {"size": grid_search(list(TOO_LARGE))}, executor="local"):
        assert isinstance(result.error.__cause__, ValueError)
        caught = result.metrics["caught"]
        assert caught == str(result.error).splitlines()[-1].partition(": ")[2].replace("'z'", "'y'")
        for text in (result.config["size"], "at most 64 MB", "checkpoint"):
            assert text in caught
        assert 'report({"z": TOO_LARGE[config["size"]]()})' in str(result.error)


def test_a_report_just_below_the_limit_arrives():
    (result,) = fit(lambda config: {"y": "x" * 63_900_000, "n": [1.5] * 1000}, executor="local")
    assert (result.error, len(result.metrics["y"])) == (None, 63_900_000)


@pytest.mark.usefixtures("one_cpu")
def test_a_configuration_may_be_larger_than_a_message():
    """It goes by file, which is gone with the trial, also where a retry restores and where workers are used again."""

    def trainable(config):
        if get_checkpoint() is None and config["x"] == 1:
            report_state(1, {"y": 1})
            raise ValueError("once")
        return {"y": len(config["data"])}

    space = {"x": grid_search([0, 1]), "data": sample_from(lambda config: bytes(68 * MB if config["x"] else 10))}
    grid = fit(trainable, space, executor="local", max_failures=1, reuse_actors=True)
    assert [(result.error, result.metrics["y"]) for result in grid] == [(None, 10), (None, 68 * MB)]
    assert not (run_path() / "shared").exists()


@pytest.mark.skipif(sys.platform != "linux", reason="reads the memory of a process as Linux shows it")
def test_large_values_of_a_configuration_are_stored_once(script):
    """Neither a trial's files nor the journal repeat it, and resuming, looking and running again work with it."""
    lines = script.run(SCRIPTS / "large_configuration.py")
    assert lines.splitlines()[-1] == "good"
    lines = script.run(SCRIPTS / "large_configuration.py", "resumed")
    assert lines.splitlines()[-1] == "good"


def test_metrics_may_change_their_type():
    def changes(config):
        for y in (1, "two", None, [3], float("nan"), 6.5):
            report({"y": y, "z": y if y != 6.5 else {"part": y}})

    grid = fit(changes, num_samples=2)
    assert grid.num_errors == 0
    assert grid.get_best_result("y", "max").metrics["y"] == 6.5
    assert grid[0].metrics["z"] == {"part": 6.5}
