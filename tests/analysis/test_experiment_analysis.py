"""ExperimentAnalysis, also from a run's directory alone."""

import json
import os
import shutil
from contextlib import closing
from pathlib import Path

import pytest
from kit import NoThread, fit, report_state

from minitune import (
    ExperimentAnalysis,
    Result,
    Tuner,
    report,
)
from minitune.commands.cli import main
from minitune.error import JournalCorruptError
from minitune.record.decisions import read_decisions
from minitune.record.journal import Journal
from minitune.record.reading import read_run


@pytest.mark.usefixtures("forbid_unpickling")
def test_an_analysis_needs_the_directory_alone_also_when_it_was_moved(grid, tmp_path):
    moved = tmp_path / "moved"
    shutil.move(grid.experiment_path, moved)
    analysis = ExperimentAnalysis(moved, default_metric="loss", default_mode="min")

    assert analysis.experiment_path == str(moved)
    assert [trial.status for trial in analysis.trials] == ["TERMINATED", "TERMINATED", "ERROR"]
    assert analysis.best_config == {"i": 0, "nested": {"a": "s"}}
    assert analysis.best_result["loss"] == 2.0
    assert analysis.best_result["done"] is True
    assert list(analysis.results) == [trial.trial_id for trial in analysis.trials]
    assert analysis.get_best_config("eval/step", "max", "avg") == {"i": 0, "nested": {"a": "s"}}
    first = analysis.trials[0].trial_id
    assert analysis.get_all_configs()[first] == {"i": 0, "nested": {"a": "s"}}
    assert analysis.get_all_configs(prefix=True)[first] == {"config/i": 0, "config/nested/a": "s"}
    assert Path(analysis.best_checkpoint.path).is_relative_to(moved)
    assert Path(analysis.best_checkpoint.path, "step").read_text() == "1"
    assert [row["loss"] for row in analysis.get_rows("loss", "max")] == [3.0, 5.0, 4.0]


@pytest.mark.parametrize("prefix", ["~", "file://"])
def test_an_analysis_takes_paths_as_users_write_them(grid, monkeypatch, prefix):
    path = Path(grid.experiment_path)
    monkeypatch.setenv("HOME", str(path.parent))
    written = f"~/{path.name}" if prefix == "~" else path.as_uri()

    assert Tuner.can_restore(written, storage_filesystem=None)
    assert not Tuner.can_restore(f"{written}_not")
    assert Result.from_path(f"{written}/{Path(grid[0].path).name}").path == grid[0].path
    assert len(ExperimentAnalysis(written).trials) == 3


def test_an_analysis_finds_the_checkpoints_of_a_trial(grid, caplog):
    analysis = ExperimentAnalysis(grid.experiment_path)
    first, second, third = analysis.trials

    def step(checkpoint):
        return Path(checkpoint.path, "step").read_text()

    assert step(analysis.get_best_checkpoint(first, "loss", "min")) == "1"
    assert step(analysis.get_best_checkpoint(second, "loss", "max")) == "1"  # the last one's is NaN
    assert step(analysis.get_best_checkpoint(first, mode="min")) == "0"
    assert analysis.get_best_checkpoint(first, "nothing", "min") is None
    assert "has no checkpoint with a value of 'nothing'" in caplog.text
    assert step(analysis.get_last_checkpoint(first)) == "2"
    assert step(analysis.get_last_checkpoint(third)) == "1"
    assert analysis.get_best_logdir("loss", "max", "all") == grid[1].path
    assert step(analysis.get_last_checkpoint()) == "2"
    assert step(analysis.get_last_checkpoint(metric="eval/step", mode="min")) == "1"
    with pytest.raises(ValueError, match="metric and mode"):
        analysis.get_best_checkpoint(first, "loss")


def test_values_that_an_analysis_gives_away_can_be_changed(grid):
    trials = list(ExperimentAnalysis(grid.experiment_path).trials)
    analysis = ExperimentAnalysis(grid.experiment_path, trials=trials, default_metric="loss", default_mode="min")
    assert analysis.best_config is not None
    for config in (*analysis.get_all_configs().values(), analysis.best_config):
        config["i"] = "changed"
    trials.clear()
    assert [trial.config["i"] for trial in analysis.trials] == [0, 1, 2]


def test_an_analysis_uses_its_default_metric(grid):
    with pytest.raises(ValueError, match="metric and mode must be set"):
        _ = ExperimentAnalysis(grid.experiment_path).best_trial
    assert ExperimentAnalysis(grid.experiment_path, default_mode="max").default_metric == "_metric"


def test_a_metric_without_a_mode_is_searched_as_the_default_one(grid, caplog):
    for mode, number in (("min", 2), ("max", 0)):
        analysis = ExperimentAnalysis(grid.experiment_path, default_metric="loss", default_mode=mode)
        best = analysis.get_best_trial("eval/step")
        assert (best.number, f"{mode!r} is used" in caplog.text) == (number, True)


def test_trials_without_a_journal_have_no_seed(grid, tmp_path):
    analysis = ExperimentAnalysis(grid.experiment_path)
    assert analysis.seed is not None
    assert ExperimentAnalysis(tmp_path, trials=analysis.trials).seed is None


# -- read_run ---------------------------------------------------------------------------------------------------------


def test_a_run_can_be_read_while_it_goes_on():
    seen = []

    def looking(config):
        for n in range(3):
            report({"n": n})
            (trial,) = read_run(Path(os.environ["MINITUNE_STORAGE_PATH"], "run")).trials
            seen.append((trial.status, trial.last_result["n"]))

    fit(looking, {}, metric="n", mode="max")
    run = read_run(Path(os.environ["MINITUNE_STORAGE_PATH"], "run"))

    assert seen == [("RUNNING", 0), ("RUNNING", 1), ("RUNNING", 2)]
    assert (run.setup.goal.metric, run.setup.goal.mode, run.trials[0].status) == ("n", "max", "TERMINATED")
    assert run.driver.ending is not None


def test_a_torn_end_and_unknown_records_are_passed_over(grid):

    journal = Path(grid.experiment_path, "journal")
    with closing(Journal(journal, NoThread(), is_new=False)) as opened:
        opened.append({"type": "of the future", "trial": grid[0].metrics["trial_id"]})
    before = read_run(grid.experiment_path)
    with open(journal, "ab") as file:
        file.write(b'{"type": "resu')

    assert [str(trial) for trial in read_run(grid.experiment_path).trials] == [str(t) for t in before.trials]
    assert before.driver.ending is not None


def test_a_record_of_a_trial_that_was_never_introduced_is_damage(grid):

    with closing(Journal(Path(grid.experiment_path, "journal"), NoThread(), is_new=False)) as opened:
        opened.append({"type": "status", "trial": "stranger", "status": "RUNNING", "cause": ""})
    for read in (read_run, read_decisions, ExperimentAnalysis):
        with pytest.raises(JournalCorruptError, match="'stranger', which it has not introduced"):
            read(grid.experiment_path)


@pytest.mark.parametrize("kept", [{}, {"num_to_keep": 1, "checkpoint_score_attribute": "loss"}])
def test_of_equal_checkpoints_the_newest_is_the_best_however_many_are_kept(kept, capsys):
    def train(config):
        for step in range(3):
            report_state(step, {"loss": 0.5})

    grid = fit(train, metric="loss", mode="min", **kept)
    analysis = ExperimentAnalysis(grid.experiment_path)
    path = grid[0].get_best_checkpoint("loss", "min").path
    assert path.endswith("checkpoint_000002")
    found = analysis.get_best_checkpoint(analysis.trials[0], "loss", "min")
    assert found.path == path
    assert main(["best", grid.experiment_path, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["best_checkpoint"]["path"] == path


def test_a_run_without_a_usable_value_has_no_best_of_anything(grid, caplog):
    analysis = ExperimentAnalysis(grid.experiment_path)
    for best in (
        analysis.get_best_trial("f1", "max"),
        analysis.get_best_config("f1", "max"),
        analysis.get_best_logdir("f1", "max"),
        analysis.get_last_checkpoint(metric="f1"),
    ):
        assert best is None
    assert len(caplog.messages) == 4
    default = ExperimentAnalysis(grid.experiment_path, default_metric="f1", default_mode="max")
    for name in ("best_result", "best_logdir", "best_checkpoint"):
        with pytest.raises(ValueError, match=rf"'f1'.*\({grid.experiment_path}\)$"):
            getattr(default, name)
