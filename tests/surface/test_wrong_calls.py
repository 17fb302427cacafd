"""Calls whose arguments do not fit, and failing functions of a search space: the error names what is meant."""

import traceback

import pytest
from kit import fit

import minitune as tune
from minitune import (
    RunConfig,
    Study,
    TuneConfig,
    TuneError,
    Tuner,
    sample_from,
    schedulers,
    uniform,
)


def f(config):
    return {"x": 1}


class Mine(schedulers.ASHAScheduler):
    """A user's subclass, whose constructor is inherited."""


CALLS = {
    "run": (lambda: tune.run(f, num_sample=3), ["run() takes no argument 'num_sample' (did you mean 'num_samples'?)"]),
    "experiment": (lambda: tune.Experiment("x", f, confg={}), ["Experiment()", "did you mean 'config'"]),
    "name of Optuna": (
        lambda: TuneConfig(n_trials=3),
        ["'n_trials'; write TuneConfig(num_samples=...) or TuneSearchCV(n_iter=...)"],
    ),
    "config": (lambda: RunConfig(nme=1), ["RunConfig()", "did you mean 'name'?", "it takes name, storage_path,"]),
    "tuner": (lambda: Tuner(f, metric="x"), ["Tuner()", "write TuneConfig(metric="]),
    "tuner's run": (lambda: Tuner(f, name="x"), ["Tuner()", "write RunConfig(name="]),
    "failures": (lambda: RunConfig(max_failures=2), ["RunConfig()", "write FailureConfig(max_failures=...)"]),
    "points": (lambda: TuneConfig(points_to_evaluate=[]), ["TuneConfig(search_alg=TPESearch(points_to_evaluate=...))"]),
    "epochs": (lambda: TuneConfig(metric="a", max_epochs=3), ['write RunConfig(stop={"training_iteration": ...})']),
    "checkpoints": (lambda: RunConfig(keep_checkpoints_num=1), ["write CheckpointConfig(num_to_keep=...)"]),
    "space as config": (lambda: Tuner(f, config={}), ["write Tuner(param_space=...)"]),
    "space of run": (lambda: tune.run(f, param_space={}), ["run() takes no argument 'param_space'; write run(config="]),
    "searcher of a study": (lambda: Study({}, search_alg="tpe"), ["Study(searcher=...)"]),
    "metric of a run": (lambda: RunConfig(metric="loss"), ["write TuneConfig(metric=...)"]),
    "scheduler": (lambda: schedulers.ASHAScheduler(max_iter=10), ["Scheduler()", "did you mean 'max_t'"]),
    "subclass": (lambda: Mine(max_iter=10), ["Mine() takes no argument 'max_iter'"]),
    "stopper": (lambda: tune.stopper.MaximumIterationStopper(max_it=1), ["did you mean 'max_iter'?"]),
    "product of a domain": (lambda: 2 * -uniform(0, 1), ["uniform(0.0, 1.0) has no value yet", "compute in the"]),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_wrong_call_names_the_right_arguments(name):
    call, parts = CALLS[name]
    with pytest.raises(TypeError) as caught:
        call()
    for part in parts:
        assert part in str(caught.value)


class Misnamed(tune.Callback):
    def on_trial_finish(self, iteration, trials, trial):
        pass


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda: fit(f, callbacks=[Misnamed()]), "Misnamed.on_trial_finish() is never called; "),
        (lambda: tune.with_resources(f, {"memory": 2}), "memory is counted in bytes, so 2 is less than any process"),
    ],
)
def test_what_was_hardly_meant_is_told(make, told, caplog):
    make()
    assert [message[: len(told)] for message in caplog.messages] == [told]


def test_a_study_without_a_mode_names_what_is_missing():
    with pytest.raises(ValueError, match="a Study needs only the mode"):
        Study({"x": uniform(0, 1)}, "tpe")


def half(config):
    return 1 / (config["x"] - 1)


def test_a_failing_function_of_the_space_is_shown_with_its_own_frames():
    space = {"x": 1, "deep": {"half": sample_from(half)}}
    with pytest.raises(TuneError, match=r"^sample_from of parameter 'deep/half' failed: ZeroDivisionError") as caught:
        fit(f, space)

    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    cause = caught.value.__cause__
    assert [frame.name for frame in traceback.extract_tb(cause.__traceback__)] == ["half"]
    own = [frame for frame in traceback.extract_tb(caught.value.__traceback__) if frame.filename != __file__]
    assert len(own) <= 4  # the kit's, and those of `fit` and of the driver
    assert cause.__cause__ is None


def test_all_frames_are_shown_on_request(monkeypatch):
    monkeypatch.setenv("MINITUNE_FULL_TRACEBACKS", "1")
    with pytest.raises(TuneError) as caught:
        fit(f, {"x": 1, "half": sample_from(half)})
    assert len(traceback.extract_tb(caught.value.__cause__.__traceback__)) > 1
