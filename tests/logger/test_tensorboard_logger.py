"""TBXLoggerCallback: what it gives to tensorboardX. The files themselves are tried in `tests/extras`."""

from __future__ import annotations

import math
import os
import sys
from typing import ClassVar

import pytest
from kit import Scalar, fit, make_trial, report_n, stand_ins

from minitune import grid_search

PREFIX = "ray/tune/"


class Writer:
    """A SummaryWriter that keeps what it gets."""

    made: ClassVar[list[Writer]] = []

    def __init__(self, directory, flush_secs, filename_suffix):
        assert os.path.isdir(directory)
        self.directory = directory
        self.suffix = filename_suffix
        self.shown = []
        self.hparams = []
        self.flushed = 0
        self.is_closed = False
        self.file_writer = self
        self.made.append(self)

    def add_scalar(self, name, value, global_step):
        assert type(value) is float
        self._add("scalar", name, value, global_step)

    def _add(self, kind, name, value, step):
        assert not self.is_closed
        self.shown.append((kind, name.removeprefix(PREFIX), value, step))

    def __getattr__(self, method):
        if not method.startswith("add_"):
            raise AttributeError(method)

        def add(name, value, global_step, **options):
            if value == ["bad"]:
                raise ValueError("no numbers")
            self._add(method.removeprefix("add_"), name, options or "", global_step)

        return add

    def add_summary(self, summary):
        self.hparams.append(summary)

    def flush(self):
        self.flushed += 1

    def close(self):
        self.is_closed = True


def hparams(hparam_dict, metric_dict):
    if "refused" in hparam_dict:
        raise ValueError("not this one")
    return [hparam_dict, {name.removeprefix(PREFIX): value for name, value in metric_dict.items()}]


LIBRARY = {
    "tensorboardX": {"SummaryWriter": Writer},
    "tensorboardX.summary": {"hparams": hparams},
}


@pytest.fixture
def module():
    Writer.made.clear()
    with stand_ins(LIBRARY, "minitune.logger.tensorboardx") as module:
        yield module


def trial_in(tmp_path, number=0, **params):
    return make_trial(number, evaluated_params=params, experiment_path=str(tmp_path))


class Array:
    """An array of so many dimensions."""

    def __init__(self, dimensions, size=8):
        self.ndim = dimensions
        self.size = size
        self.shape = (2,) * 3


def test_numbers_are_written_at_their_step_and_lists_as_histograms(module, tmp_path):
    logger = module.TBXLoggerCallback()
    trial = trial_in(tmp_path)
    arrays = {"image": Array(3), "vector": Array(1), "empty": Array(3, size=0)}
    metrics = {"loss": 0, "on": False, "deep": {"a": 1.5}, "nan": math.nan, "huge": 10**400, "text": "a", "none": None}
    others = {"list": [1, 2], "nothing": [], "dicts": [{"a": 1}], "odd": Array("3")}
    of_run = {"config": {"x": 1}, "pid": 7, "timestamp": 1, "time_total_s": 2.0}
    result = {**metrics, **arrays, **others, "training_iteration": 3, "timesteps_total": 50, **of_run}
    logger.log_trial_result(1, trial, result)
    (writer,) = Writer.made
    assert writer.directory == trial.local_path
    assert {one[1]: one[2] for one in writer.shown if one[0] == "scalar"} == {
        "loss": 0.0,
        "on": 0.0,
        "huge": math.inf,
        "deep/a": 1.5,
        "timesteps_total": 50.0,
    }
    assert {one[1]: one[0] for one in writer.shown if one[0] != "scalar"} == {
        "image": "histogram",
        "vector": "histogram",
        "list": "histogram",
    }
    assert {one[3] for one in writer.shown} == {50}
    assert writer.flushed == 1, "a killed run has lost nothing"


def test_what_cannot_be_shown_is_logged_once(module, tmp_path, caplog):
    logger = module.TBXLoggerCallback()
    for step in (1, 2):
        logger.log_trial_result(step, trial_in(tmp_path), {"bad": ["bad"], "training_iteration": step})
    assert caplog.messages == ["ray/tune/bad is not shown in TensorBoard: ValueError: no numbers"]


def test_the_hyperparameters_come_at_the_end_with_the_last_numbers(module, tmp_path):
    logger = module.TBXLoggerCallback()
    values = {"zero": 0, "off": False, "word": "", "none": None, "n": Scalar(3), "sizes": [1, 2], "pair": (3, 4)}
    trial = trial_in(tmp_path, **values, net={"depth": 2}, object=object(), long="x" * 1001, most="y" * 1000)
    logger.log_trial_start(trial)
    for step in (1, 2):
        logger.log_trial_result(step, trial, {"loss": 1 / step, "nan": math.nan, "training_iteration": step})
    assert Writer.made[0].hparams == []
    logger.log_trial_end(trial)
    shown, numbers = Writer.made[0].hparams
    assert shown["long"].startswith("xxx")
    assert len(shown.pop("long")) < 1000
    assert shown == {
        "zero": 0,
        "off": False,
        "word": "",
        "n": 3,
        "sizes": "[1, 2]",
        "pair": "(3, 4)",
        "net/depth": 2,
        "most": "y" * 1000,
    }
    assert numbers["loss"] == 0.5
    assert "nan" not in numbers
    assert Writer.made[0].is_closed


def test_hyperparameters_that_are_refused_are_logged(module, tmp_path, caplog):
    logger = module.TBXLoggerCallback()
    trial = trial_in(tmp_path, refused=1)
    logger.log_trial_result(1, trial, {"loss": 1})
    logger.log_trial_end(trial)
    assert caplog.messages == [f"the hyperparameters of trial {trial.name} are not shown in TensorBoard: not this one"]
    assert Writer.made[0].is_closed


def test_each_attempt_has_a_file_of_its_own_in_their_order(module, tmp_path):
    logger = module.TBXLoggerCallback()
    trial = trial_in(tmp_path, x=1)
    for step in (1, 2):
        logger.log_trial_start(trial)
        logger.log_trial_result(step, trial, {"loss": 1, "training_iteration": step})
    first, second = Writer.made
    assert (first.is_closed, second.is_closed) == (True, False)
    assert first.suffix < second.suffix
    logger.on_experiment_end([trial])
    assert second.is_closed
    assert first.hparams == second.hparams == [], "the trial has not ended"


def test_few_files_are_open_at_a_time(module, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "_MAX_OPEN", 2)
    logger = module.TBXLoggerCallback()
    trials = [trial_in(tmp_path, number, x=number) for number in range(3)]
    for trial in trials:
        logger.log_trial_result(1, trial, {"loss": 1, "training_iteration": 1})
    assert [writer.is_closed for writer in Writer.made] == [True, False, False]
    logger.log_trial_result(2, trials[0], {"loss": 0, "training_iteration": 2})
    assert [writer.is_closed for writer in Writer.made] == [True, True, False, False]
    assert Writer.made[-1].directory == trials[0].local_path
    logger.on_experiment_end(trials)
    assert all(writer.is_closed for writer in Writer.made)


def test_a_directory_that_is_gone_costs_one_warning(module, tmp_path, caplog):
    logger = module.TBXLoggerCallback()
    trial = trial_in(tmp_path)
    trial.begin_attempt(1)
    for step in (1, 2):
        logger.log_trial_result(step, trial, {"loss": 1})
    logger.log_trial_end(trial)
    (message,) = caplog.messages
    assert message.startswith(f"trial {trial.name} is not shown in TensorBoard: ")
    assert Writer.made == []


def test_a_run_writes_metrics_and_hyperparameters(module):
    fit(report_n(2), {"x": grid_search([1])}, callbacks=[module.TBXLoggerCallback()])
    (writer,) = Writer.made
    assert [value for kind, name, value, step in writer.shown if name == "n"] == [1.0, 2.0]
    assert writer.hparams[0] == {"x": 1}


def test_without_the_library_the_way_to_install_it_is_told(monkeypatch):
    with stand_ins({}, "minitune.logger.tensorboardx") as module:
        monkeypatch.setitem(sys.modules, "tensorboardX", None)
        with pytest.raises(ImportError, match=r"TBXLoggerCallback needs tensorboardX .*: pip install tensorboardX"):
            module.TBXLoggerCallback()
