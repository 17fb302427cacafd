"""A run whose first trials all fail with the same error ends; a run that may still have a good trial goes on."""

import traceback

import pytest
from kit import RUN, fit, journal_of, restore, resume, run_path, virtual_executor

from minitune import TrialError, choice, grid_search, report, run, uniform
from minitune.base import clock
from minitune.error import CrashLoopError
from minitune.record.standing import read_standing

KEY = {"name": "learning_rate"}
DEFECT = "KeyError: 'learning_rate'"
TRIALS = {"num_samples": 12, "seed": 1}


def broken(config):
    report({"loss": config[KEY["name"]]})


def test_a_run_of_a_broken_function_ends_and_can_be_resumed(monkeypatch):
    with pytest.raises(CrashLoopError, match="5 trials have failed with the same error, and no trial") as caught:
        fit(broken, {"x": uniform(0, 1)}, **TRIALS)

    text = str(caught.value)
    assert text.splitlines()[0].endswith(DEFECT)
    assert f"Tuner.restore({str(run_path())!r}, trainable, restart_errored=True).fit()" in text
    assert isinstance(caught.value.__cause__, TrialError)
    assert traceback.extract_tb(caught.value.__traceback__)[-1].name == "run", "it has no frame of the driver's loop"
    _, state = read_standing(str(run_path()))
    assert state.can_go_on
    assert state.text.startswith(
        f"failed: 5 trials have failed with the same error, and no trial of the run has a result: {DEFECT}; "
    )
    monkeypatch.setitem(KEY, "name", "x")
    grid = resume(broken, restart_errored=True)
    assert len(grid) == 12
    assert grid.num_errors == 0


def test_a_resumed_run_gets_as_many_failures_again():
    for expected in (5, 10):
        with pytest.raises(CrashLoopError):
            fit(broken, {"x": uniform(0, 1)}, **TRIALS) if expected == 5 else resume(broken)
        assert restore(broken).get_results().num_errors == expected


def test_a_limit_of_zero_lets_all_trials_run():
    assert fit(broken, {"x": uniform(0, 1)}, give_up_after=0, **TRIALS).num_errors == 12
    assert fit(broken, give_up_after=13, name="more", **TRIALS).num_errors == 12


def test_a_call_that_does_not_raise_lets_all_trials_run():
    analysis = run(broken, config={"x": uniform(0, 1)}, num_samples=7, raise_on_failed_trial=False, verbose=0)
    assert [trial.status for trial in analysis.trials] == ["ERROR"] * 7


# -- runs that may still have a good trial -----------------------------------------------------------------------------


def bad_corner(config):
    if "bad" in config.values():
        raise ValueError("no such a")
    report({"loss": config["b"]})


def one_good(config):
    if config["n"] == 0:
        report({"loss": 0})
    raise ValueError("later")


def silent(config):
    if config["n"]:
        raise ValueError("later")


def own_error(config):
    raise ValueError(f"n is {config['n'] // 4}")


@pytest.mark.parametrize(
    ("trainable", "space", "num_failed"),
    [
        (bad_corner, {"a": grid_search(["bad", "good"]), "b": grid_search([*range(6)])}, 6),
        (bad_corner, {"b": grid_search([*range(6)]), "z": grid_search(["bad", "good"])}, 6),
        (one_good, {"n": grid_search([*range(8)])}, 8),
        (silent, {"n": grid_search([*range(8)])}, 7),
        (own_error, {"n": grid_search([*range(12)])}, 12),
        (broken, {"n": choice([1])}, 1),
    ],
    ids=["outer parameter", "inner parameter", "report", "end", "errors", "few"],
)
def test_a_run_that_may_have_a_good_trial_goes_on(trainable, space, num_failed):
    assert fit(trainable, space, max_concurrent_trials=1).num_errors == num_failed


def test_a_parameter_that_has_changed_is_not_the_cause():
    space = {"a": grid_search([1, 2, 3]), "b": grid_search([*range(6)])}
    with pytest.raises(CrashLoopError):
        fit(broken, space)
    failed = [record for record in journal_of(RUN) if record.get("status") == "ERROR"]
    assert 5 <= len(failed) <= 13


def test_a_slow_trial_that_began_before_the_failures_may_be_a_good_one():
    def train(config):
        if config["n"]:
            raise ValueError("bad")
        clock.current.sleep(60)
        report({"loss": 1})

    grid = fit(train, {"n": grid_search([*range(9)])}, executor=virtual_executor())
    assert [grid.num_errors, len(grid)] == [8, 9]
