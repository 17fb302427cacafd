"""The configs: their fields in order, assignments, and what a Tuner makes of them. Bad values: see tests/surface."""

import copy
import dataclasses
import datetime
import pickle
import threading
from pathlib import Path

import pytest

from minitune import (
    CheckpointConfig,
    FailureConfig,
    RunConfig,
    TuneConfig,
    TuneError,
    Tuner,
    report,
    run,
    with_parameters,
    with_resources,
)
from minitune.base import text
from minitune.config import ResumeConfig, ResumeType, SyncConfig

pytestmark = pytest.mark.usefixtures("inline")


@pytest.mark.parametrize(
    ("kind", "field", "value"),
    [
        (TuneConfig, "mode", "max"),
        (TuneConfig, "metric", "loss"),
        (TuneConfig, "num_samples", -1),
        (TuneConfig, "max_concurrent_trials", 0),
        (TuneConfig, "time_budget_s", datetime.timedelta(minutes=1)),
        (TuneConfig, "time_budget_s", 3.5),
        (TuneConfig, "trial_dirname_creator", str),
        (TuneConfig, "seed", 3),
        (TuneConfig, "executor", "inline"),
        (FailureConfig, "max_failures", -1),
        (FailureConfig, "fail_fast", "raise"),
        (CheckpointConfig, "num_to_keep", 1),
        (CheckpointConfig, "checkpoint_score_order", "min"),
        (CheckpointConfig, "checkpoint_frequency", 2),
        (CheckpointConfig, "checkpoint_at_end", False),
        (RunConfig, "storage_filesystem", None),
        (RunConfig, "log_to_file", ("a", "b")),
        (RunConfig, "log_to_file", True),
        (RunConfig, "failure_config", FailureConfig(2)),
        (RunConfig, "name", "name"),
        (ResumeConfig, "errored", ResumeType.RESTART),
    ],
)
def test_a_field_may_be_assigned(kind, field, value):
    config = kind()
    setattr(config, field, value)
    assert getattr(config, field) == value
    assert config == kind(**{field: value})
    assert dataclasses.replace(config) == config == copy.deepcopy(config) == pickle.loads(pickle.dumps(config))


def test_an_unknown_field_is_refused_with_the_known_ones():
    with pytest.raises(AttributeError, match="RunConfig has no field 'nmae'; its fields are name, "):
        RunConfig().nmae = "x"


def test_fail_fast_and_retries_exclude_each_other():
    with pytest.raises(ValueError, match="max_failures must be 0 when fail_fast is set"):
        FailureConfig(max_failures=1, fail_fast=True)
    assert FailureConfig(fail_fast="RAISE").fail_fast == "raise"
    config = FailureConfig(max_failures=1)
    with pytest.raises(ValueError, match="max_failures must be 0"):
        config.fail_fast = True
    assert config == FailureConfig(1)


def test_a_run_config_has_defaults_and_takes_none_for_them(tmp_path):
    config = RunConfig(storage_path=tmp_path, verbose=7)
    assert config.failure_config == FailureConfig()
    assert config.checkpoint_config == CheckpointConfig()
    assert config.storage_path == str(tmp_path)
    assert config.verbose == 2
    config.failure_config = None
    assert config.failure_config == FailureConfig()
    assert RunConfig(local_dir=tmp_path).storage_path == str(tmp_path)


def test_the_list_of_callbacks_is_not_changed():
    callbacks = []
    config = RunConfig(name="x", callbacks=callbacks, verbose=0)
    Tuner(lambda config: {"a": 1}, run_config=config).fit()
    assert callbacks == []
    assert config.callbacks == []


def test_repr_shows_the_differences_from_the_defaults():
    assert repr(RunConfig(name="x")) == "RunConfig(name='x')"
    assert repr(CheckpointConfig(num_to_keep=2)) == "CheckpointConfig(num_to_keep=2)"
    assert repr(TuneConfig(metric="loss", mode="min")) == "TuneConfig(mode='min', metric='loss')"


def test_a_resume_config_takes_the_names_of_its_types():
    assert ResumeConfig.ResumeType is ResumeType
    assert ResumeConfig(errored="restart").errored is ResumeType.RESTART
    assert [kind.name for kind in ResumeType] == ["RESUME", "RESTART", "SKIP"]


def test_sync_config_has_no_effect(monkeypatch, caplog):
    monkeypatch.setattr(text, "_said", set())
    config = SyncConfig(sync_period=10, sync_artifacts=True)
    RunConfig(sync_config=config)
    run(lambda config: {"a": 1}, sync_config=config, verbose=0)
    assert caplog.text.count("sync_config is ignored") == 1


def test_a_config_that_changes_after_the_tuner_was_made():
    def trainable(config):
        report({"a": 1})

    tune_config, run_config = TuneConfig(num_samples=2), RunConfig(name="before", verbose=0)
    tuner = Tuner(trainable, tune_config=tune_config, run_config=run_config)
    tune_config.num_samples, run_config.name = 3, "after"
    grid = tuner.fit()
    assert len(grid) == 2
    assert Path(grid.experiment_path).name == "before"
    assert Path(Tuner(trainable, run_config=run_config).fit().experiment_path).name == "after"


# -- nothing is on disk before everything was checked ----------------------------------------------------------------


def trainable(config, bound=None):
    report({"loss": 1})


REFUSED = {
    "a GPU on a machine without one": (with_resources(trainable, {"gpu": 1}), {}, {}, "can never be met"),
    "more CPUs than there are": (
        with_resources(trainable, {"cpu": 5}),
        {},
        {},
        r"\(CPU: 5 requested, 4 in total\)",
    ),
    "an unknown resource": (with_resources(trainable, {"license": 1}), {}, {}, "can never be met"),
    "more side by side than there is room for": (
        with_resources(trainable, {"cpu": 2}),
        {"deterministic": True, "max_concurrent_trials": 3},
        {},
        "side by side",
    ),
    "a bound value that cannot be pickled": (
        with_parameters(trainable, bound=threading.Lock()),
        {},
        {},
        r"a value that is bound to the trainable cannot be pickled: it is a _thread\.lock",
    ),
    "an executor": (
        trainable,
        {"executor": "local"},
        {"MINITUNE_EXECUTOR": "fog"},
        "must be 'local', 'inline' or 'ray'",
    ),
    "a number of CPUs": (trainable, {}, {"MINITUNE_NUM_CPUS": "some"}, "MINITUNE_NUM_CPUS must be a number"),
    "a number": (
        trainable,
        {},
        {"MINITUNE_WARN_THRESHOLD_S": "soon"},
        "MINITUNE_WARN_THRESHOLD_S must be a number >= 0",
    ),
}


@pytest.mark.parametrize(("kind", "tune", "environment", "rule"), REFUSED.values(), ids=REFUSED)
@pytest.mark.parametrize("executor", ["inline", "local"])
def test_refused_arguments_leave_nothing_on_disk(kind, tune, environment, rule, executor, tmp_path, monkeypatch):
    for name, value in {"MINITUNE_NUM_CPUS": "4", "MINITUNE_NUM_GPUS": "0", **environment}.items():
        monkeypatch.setenv(name, value)
    storage = tmp_path / "storage"
    tune_config, run_config = TuneConfig(**{"executor": executor, **tune}), RunConfig(name="run", storage_path=storage)
    with pytest.raises((TuneError, ValueError, TypeError), match=rule):
        Tuner(kind, tune_config=tune_config, run_config=run_config).fit()

    assert not storage.exists()


def test_a_refused_resume_changes_nothing_on_disk(tmp_path, monkeypatch):
    monkeypatch.setenv("MINITUNE_NUM_GPUS", "0")
    Tuner(
        trainable,
        tune_config=TuneConfig(executor="inline"),
        run_config=RunConfig(name="run", storage_path=tmp_path, verbose=0),
    ).fit()
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file() and path.name != "lock"}

    with pytest.raises(TuneError, match="can never be met"):
        Tuner.restore(str(tmp_path / "run"), with_resources(trainable, {"gpu": 1})).fit()

    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file() and path.name != "lock"} == before
