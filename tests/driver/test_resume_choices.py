"""The choices of a resume: for finished, unfinished and failed trials, and more samples."""

from decimal import Decimal
from enum import Enum
from pathlib import Path

import pytest
from kit import (
    RUN,
    Learner,
    counting,
    cut,
    deciding,
    fit,
    journal_of,
    listening,
    report_state,
    restore,
    restored_state,
    resume,
    run_path,
)

from minitune import (
    Callback,
    ExperimentAnalysis,
    FIFOScheduler,
    TuneError,
    Tuner,
    get,
    get_context,
    grid_search,
    put,
    report,
    run,
    shutdown,
    uniform,
)
from minitune.config import ResumeConfig, ResumeType
from minitune.driver.functions import parse_resume
from minitune.error import UntrustedStateError
from minitune.experiment.decision import Decision
from minitune.record.reading import read_run

pytestmark = pytest.mark.usefixtures("inline")

GRID = {"i": grid_search([0, 1, 2]), "x": uniform(0, 1)}


def outcome_of(grid):
    return [(result.metrics["n"], result.error is not None) for result in grid]


def go_on(trainable, **choice):
    """Resume the run of this test with another choice than those of `Tuner.restore`."""
    analysis = run(
        trainable, config=GRID, name=RUN, verbose=0, resume_config=ResumeConfig(**choice), max_concurrent_trials=1
    )
    return list(analysis.trials)


# -- failed trials -------------------------------------------------------------------------------------------------


def test_a_failed_trial_is_begun_anew_in_the_place_of_the_old_one():
    first = fit(counting(3, bad=[0, 2]), GRID)
    assert outcome_of(first) == [(1, True), (3, False), (1, True)]
    second = resume(counting(3), restart_errored=True)
    assert outcome_of(second) == [(3, False)] * 3
    assert [result.config for result in second] == [result.config for result in first]
    for old, new in zip(first, second, strict=True):
        is_same = old.error is None
        assert (old.metrics["trial_id"] == new.metrics["trial_id"]) == is_same
        assert (old.path == new.path) == is_same
        assert [row["n"] for row in new.get_rows()] == [1, 2, 3]
    assert Path(first[0].path, "error.txt").exists(), "what had failed is still there to be looked at"
    third = resume(counting(3))
    assert [result.metrics for result in third] == [result.metrics for result in second]
    looked = restore(counting(3)).get_results()
    assert [result.metrics for result in looked] == [result.metrics for result in second]


@pytest.mark.parametrize(
    ("choice", "goes_on"),
    [({"restart_errored": True}, True), ({"_resume_config": ResumeConfig(errored=ResumeType.RESTART)}, False)],
    ids=["to go on has precedence", "a resume config stands in place of the flags"],
)
def test_of_two_choices_for_failed_trials_one_holds(choice, goes_on):
    first = fit(counting(3, bad=[1]), GRID)
    second = resume(counting(3), resume_errored=True, **choice)
    assert outcome_of(second) == [(3, False)] * 3
    assert (second[1].metrics["trial_id"] == first[1].metrics["trial_id"]) is goes_on


@pytest.mark.parametrize("how", ["SIGINT", "raise"])
def test_the_results_of_a_restored_run_tell_whether_it_was_interrupted(how):
    cut(counting(3), GRID, results=2, how=how, max_concurrent_trials=1)
    assert restore(counting(3)).get_results().interrupted is (how == "SIGINT")


# -- unfinished trials ---------------------------------------------------------------------------------------------


def test_unfinished_trials_can_be_left_as_they_are():
    cut(counting(4), GRID, results=5, max_concurrent_trials=2, num_samples=2)
    ran = []
    watch = listening(on_trial_start=lambda trial, **info: ran.append(trial.trial_id))
    known = {record["trial"] for record in journal_of() if record["type"] == "trial"}
    grid = resume(counting(4), resume_unfinished=False, callbacks=[watch])
    assert grid.num_terminated == 6
    assert not known & set(ran)
    assert len(known | set(ran)) == 6, "what had not been drawn yet still runs"
    again = resume(counting(4))
    assert [result.metrics for result in again] == [result.metrics for result in grid]


def test_a_searcher_hears_of_the_end_of_those_that_are_left():
    cut(counting(3), None, results=4, search_alg=Learner(), num_samples=4, max_concurrent_trials=1)
    searcher = Learner()
    settings = {"search_alg": searcher, "num_samples": 4, "max_concurrent_trials": 1}
    resume(counting(3), resume_unfinished=False, callbacks=(), **settings)
    assert [line for line in searcher.heard if "complete" in line] == [f"complete {n:05d}" for n in range(4)]
    assert len(set(searcher.heard)) == len(searcher.heard)


def test_for_a_trial_that_is_left_its_donor_keeps_no_checkpoint():
    def train(config):
        for n in range(restored_state() + 1, 21):
            if config["i"] == 0:
                report_state(n, {"n": n})
            else:
                report({"n": n})

    def exploit(context, trial, result):
        donor, taker = context.get_trials()
        if trial is taker and result["n"] == 3 and taker.attempt.number == 1:
            return Decision("PAUSE", exploit=(donor, dict(taker.config)))
        return "CONTINUE"

    cut(train, {"i": grid_search([0, 1])}, results=16, scheduler=deciding(exploit), num_to_keep=1)
    donor = run_path() / read_run(run_path()).trials[0].local_path
    assert len(list(donor.glob("checkpoint_*"))) > 1
    resume(train, resume_unfinished=False)
    assert len(list(donor.glob("checkpoint_*"))) == 1


def test_unfinished_trials_can_be_begun_anew():
    cut(counting(4), GRID, results=5, max_concurrent_trials=1)
    before = [record["trial"] for record in journal_of() if record["type"] == "trial"]
    trials = go_on(counting(4), unfinished=ResumeType.RESTART)
    assert [trial.last_result["n"] for trial in trials] == [4, 4, 4]
    assert trials[0].trial_id == before[0]
    assert trials[1].trial_id not in before
    assert [trial.config["i"] for trial in trials] == [0, 1, 2]


# -- finished trials -----------------------------------------------------------------------------------------------


def test_finished_trials_can_go_on():
    fit(counting(2), GRID)
    trials = go_on(counting(4), finished=ResumeType.RESUME)
    assert [trial.last_result["n"] for trial in trials] == [4, 4, 4]
    assert [trial.last_result["training_iteration"] for trial in trials] == [4, 4, 4]
    again = resume(counting(4))
    assert outcome_of(again) == [(4, False)] * 3


def test_finished_trials_can_be_begun_anew():
    first = fit(counting(2), GRID)
    trials = go_on(counting(2), finished=ResumeType.RESTART)
    assert [trial.last_result["n"] for trial in trials] == [2, 2, 2]
    assert not {trial.trial_id for trial in trials} & {result.metrics["trial_id"] for result in first}


# -- more samples --------------------------------------------------------------------------------------------------


def test_a_run_can_be_extended_again_and_again():
    whole = fit(counting(2), GRID, num_samples=4, seed=3, name="whole")
    first = fit(counting(2), GRID, num_samples=1, seed=3)
    paths = [result.path for result in first]
    resume(counting(2), add_samples=2)
    resume(counting(2))
    grid = resume(counting(2), add_samples=1)
    assert [result.config for result in grid] == [result.config for result in whole]
    assert outcome_of(grid) == [(2, False)] * 12
    assert [result.path for result in grid][:3] == paths
    assert all(len(result.get_rows()) == 2 for result in grid), "nothing has run twice"
    assert len(resume(counting(2))) == 12


def test_add_samples_has_to_make_sense():
    fit(counting(1), GRID)
    with pytest.raises(ValueError, match="add_samples"):
        restore(counting(1), add_samples=-1)
    with pytest.raises(ValueError, match="num_samples=-1"):
        restore(counting(1), add_samples=1, num_samples=-1)


# -- what is said to `run` -----------------------------------------------------------------------------------------


def test_the_texts_for_resume_mean_what_they_mean_in_ray_tune():
    resume, restart, skip = ResumeType.RESUME, ResumeType.RESTART, ResumeType.SKIP
    assert parse_resume(None) is None
    assert parse_resume(False) is None
    assert parse_resume(True) == parse_resume("AUTO") == ResumeConfig()
    assert parse_resume("AUTO+ERRORED") == ResumeConfig(errored=resume)
    assert parse_resume("AUTO+RESTART_ERRORED") == ResumeConfig(errored=restart)
    assert parse_resume("AUTO+ERRORED_ONLY") == ResumeConfig(unfinished=skip, errored=resume)
    assert parse_resume("AUTO+RESTART_ERRORED_ONLY") == ResumeConfig(unfinished=skip, errored=restart)
    assert parse_resume("AUTO+ERRORED_ONLY+RESTART_ERRORED") == ResumeConfig(errored=restart), "the last one wins"
    assert parse_resume(True, ResumeConfig(finished=restart)) == ResumeConfig(finished=restart)
    for wrong in ("LOCAL", "REMOTE", "PROMPT", "ERRORED_ONLY", "auto", "AUTO+", "AUTO+ALL", "", 3):
        with pytest.raises(ValueError, match="resume must be"):
            parse_resume(wrong)


# -- results without going on --------------------------------------------------------------------------------------


def test_a_restored_run_has_results_before_it_goes_on():
    with pytest.raises(RuntimeError, match="before fit"):
        Tuner(counting(1)).get_results()
    cut(counting(3), GRID, results=4, max_concurrent_trials=1)
    journal = (run_path() / "journal").read_bytes()
    grid = restore(counting(3)).get_results()
    assert [result.metrics.get("n") for result in grid][:1] == [3]
    assert (run_path() / "journal").read_bytes() == journal, "looking changes nothing"


class Announcer(Callback):
    """Has large values of its own."""

    def __init__(self, *texts):
        self.texts = texts

    def on_trial_start(self, iteration, trials, trial, **info):
        announced.append([text[:1] for text in self.texts])


announced = []


def test_large_values_of_the_settings_come_back_each_to_its_place():
    """The settings name them by a number; so does the space."""

    def train(config):
        return {"n": 1, "seen": [config[name][:1] for name in ("one", "two")]}

    announced.clear()
    size = 1_100_000
    space = {"i": grid_search([0, 1]), "one": "a" * size, "two": "b" * size}
    cut(train, space, results=1, callbacks=[Announcer("c" * size, "d" * size)], max_concurrent_trials=1)
    grid = resume(train)
    assert [result.metrics["seen"] for result in grid] == [["a", "b"]] * 2
    assert announced[-1] == ["c", "d"]


class Kind(Enum):
    SMALL = 1


class Net:
    """A choice that is a class."""


def test_results_of_a_restored_run_have_the_objects_themselves():
    choices = [Decimal("0.1"), Kind.SMALL, Path("a"), Net, len, (1, 2), frozenset({3})]

    def train(config):
        return {"n": 1, "seen": {"choice": config["choice"]}}

    made = fit(train, {"choice": grid_search(choices), "data": put([1, 2])})
    read = restore(train).get_results()
    assert [result.config["choice"] for result in read] == choices
    assert [result.metrics["seen"] for result in read] == [result.metrics["seen"] for result in made]
    assert get(read[0].config["data"]) == [1, 2]
    shutdown()
    looked = ExperimentAnalysis(run_path())
    assert [trial.config["choice"] == choice for trial, choice in zip(looked.trials, choices, strict=True)].count(
        True
    ) == 1


def test_results_of_a_run_that_others_can_write_are_not_read():
    fit(counting(1), GRID)
    tuner = restore(counting(1))
    (run_path() / "journal").chmod(0o666)
    with pytest.raises(UntrustedStateError, match="journal may be written by another user"):
        tuner.get_results()


def test_unrecorded_plugin_must_be_passed_again():
    class Unsaved(Learner):
        def __reduce__(self):
            raise TypeError("holds a lock")

    fit(counting(1), None, search_alg=Unsaved(), num_samples=2)
    with pytest.raises(TuneError, match=r"tune_config must be passed again.*search_alg"):
        restore(counting(1))
    assert len(resume(counting(1), search_alg=Learner(), num_samples=3)) == 3


def test_changes_by_a_scheduler_survive_a_resume():
    """The scheduler of the second driver counts from 100; what it adds to the first trial does not count."""

    class Numbers(FIFOScheduler):
        def __init__(self, first):
            self.next = first

        def on_trial_add(self, tune_controller, trial):
            if "number" not in trial.config:
                trial.set_config({**trial.config, "number": self.next})
                trial.evaluated_params = {**trial.evaluated_params, "number": self.next}
                self.next += 1

    def trainable(config):
        counting(2)(config)

    settings = {"num_samples": 3, "max_concurrent_trials": 1}
    cut(trainable, results=1, scheduler=Numbers(0), **settings)
    added = [record["config"]["number"] for record in journal_of() if record["type"] == "change"]
    grid = resume(trainable, callbacks=(), scheduler=Numbers(100), **settings)
    assert added == [0]
    assert [result.config["number"] for result in grid] == [0, 101, 102]
    assert [trial.evaluated_params for trial in read_run(run_path()).trials] == [{"number": n} for n in (0, 101, 102)]


# -- which run a script goes on with -------------------------------------------------------------------------------


@pytest.fixture
def script(monkeypatch):
    """Runs as a script under `minitune resume` does, and returns the name of the run."""
    monkeypatch.setenv("MINITUNE_RESUME", "1")

    def script(name=None):
        grid = fit(counting(2), GRID, name=name, max_concurrent_trials=1, callbacks=())
        return Path(grid.experiment_path).name

    return script


def cut_off(name, trainable=None):
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("MINITUNE_RESUME", raising=False)
        cut(trainable or counting(2), GRID, results=3, name=name, max_concurrent_trials=1)


def finish(name, trainable=None):
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("MINITUNE_RESUME", raising=False)
        fit(trainable or counting(2), GRID, name=name, max_concurrent_trials=1)


def test_a_script_goes_on_with_the_newest_unfinished_run_first_and_with_each_run_once(script):
    finish("d")
    cut_off("b")
    cut_off("c")
    finish("a")
    assert [script() for _ in range(4)] == ["c", "b", "a", "d"]
    assert script().startswith("counter_")


def test_a_script_that_names_its_run_goes_on_with_that_name_or_one_with_a_number(script):
    for name in ("mine_7", "mine_old", "mined"):
        cut_off(name)
    assert [script(name="mine"), script(name="mine")] == ["mine_7", "mine"]


def test_a_trial_that_starts_over_has_a_name_by_the_users_function_and_the_same_seed():
    def train(config):
        report({"seed": get_context().get_trial_seed()})
        raise ValueError("on purpose")

    settings = {"trial_name_creator": lambda trial: f"mine-{trial.trial_id}", "seed": 3}
    (first,) = fit(train, **settings)
    (second,) = resume(train, restart_errored=True, **settings)
    assert second.metrics["seed"] == first.metrics["seed"]
    (trial,) = read_run(run_path()).trials
    assert trial.trial_id != first.metrics["trial_id"]
    assert str(trial) == f"mine-{trial.trial_id}"
