"""Callbacks in a run: the order of their hooks, changes that they can make, callbacks that the environment names."""

from __future__ import annotations

import json
import logging
import time
from pathlib import Path

import pytest
from kit import SavedCounter, fit, listening, wait_until

import minitune as tune
from minitune import Callback

# -- what they get: `test_driver_order` and `tests/ported` have the order of hooks -------------------------------------


def test_hooks_get_keywords():
    keywords = {}
    hooks = [name for name in vars(Callback) if name == "setup" or name.startswith("on_")]
    noting = {name: lambda self, name=name, **info: keywords.update({name: set(info)}) for name in hooks}
    fit(SavedCounter, {"end": 4}, callbacks=[type("Noting", (Callback,), noting)()])
    loop = {"iteration", "trials"}
    assert keywords == {
        "setup": {"stop", "num_samples", "total_num_samples", "time_budget_s"},
        "on_step_begin": loop,
        "on_step_end": loop,
        "on_trial_start": {*loop, "trial"},
        "on_trial_result": {*loop, "trial", "result"},
        "on_checkpoint": {*loop, "trial", "checkpoint"},
        "on_trial_save": {*loop, "trial"},
        "on_trial_complete": {*loop, "trial"},
        "on_experiment_end": {"trials"},
    }


# -- what they can change ----------------------------------------------------------------------------------------------


def test_a_change_is_seen_by_loggers_and_kept():
    class Change(Callback):
        def on_trial_result(self, iteration, trials, trial, result, **info):
            result["twice"] = 2 * result["n"]
            result["should_checkpoint"] = result["n"] == 2

    (result,) = fit(SavedCounter, {"end": 4}, callbacks=[Change()], checkpoint_at_end=False)
    assert result.metrics["twice"] == 8
    lines = [json.loads(line) for line in Path(result.path, "result.json").read_text().splitlines()]
    assert [line["twice"] for line in lines] == [2, 4, 6, 8]
    assert [metrics["n"] for _, metrics in result.best_checkpoints] == [2]


@pytest.mark.usefixtures("inline")
def test_a_report_belongs_to_the_configuration_of_its_attempt():
    """A hook sets another configuration in the middle of an attempt, which only a next attempt would use."""

    class Sets(Callback):
        def on_trial_result(self, trial, result, **info):
            if result["i"] == 1:
                trial.set_config({"x": 2})

    def trainable(config):
        for i in range(4):
            tune.report({"i": i})

    grid = fit(trainable, {"x": 1}, callbacks=[Sets()])
    lines = [json.loads(line) for line in Path(grid[0].path, "result.json").read_text().splitlines()]
    assert [line["config"] for line in lines] == 4 * [{"x": 1}]
    assert [row["config/x"] for row in grid[0].get_rows()] == 4 * [1]
    assert (grid[0].config, grid[0].metrics["config"]) == ({"x": 1}, {"x": 1})
    (read,) = tune.ExperimentAnalysis(grid.experiment_path).trials
    assert read.last_result["config"] == {"x": 1}


def test_a_slow_hook_is_named_once(monkeypatch, caplog):
    class Slow(Callback):
        def on_trial_result(self, **info):
            time.monotonic()

    monkeypatch.setenv("TUNE_WARN_THRESHOLD_S", "0")
    with caplog.at_level(logging.WARNING, "minitune"):
        fit(SavedCounter, {"end": 4}, callbacks=[Slow()])
    assert caplog.text.count("Slow.on_trial_result took") == 1


def test_errors_of_other_callbacks_are_logged_if_the_user_interrupts_one_at_the_end(caplog):
    def interrupted(**info):
        raise KeyboardInterrupt

    def fails(**info):
        raise ValueError("the file is gone")

    callbacks = [listening(on_experiment_end=interrupted), listening(on_experiment_end=fails)]
    with pytest.raises(KeyboardInterrupt):
        fit(lambda config: {"loss": 1}, callbacks=callbacks)
    assert [text for text in caplog.messages if "the file is gone" in text]


def test_a_callback_has_its_turns_while_a_trial_works_and_a_budget_has_time(tmp_path):
    turns = []

    def turn(iteration, **info):
        turns.append(iteration)
        if len(turns) == 5:
            (tmp_path / "mark").touch()

    def train(config):
        wait_until((tmp_path / "mark").exists, "the callback has had five turns")
        return {"loss": 1}

    callbacks = [listening(on_step_begin=turn)]
    (result,) = fit(train, callbacks=callbacks, time_budget_s=1000, executor="local")
    assert (result.error, turns[:5]) == (None, [0, 1, 2, 3, 4])
