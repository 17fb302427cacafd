"""What a reader of a journal says of a run: the same as the run's own memory, also after several drivers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from kit import (
    CutAfter,
    EndAfter,
    Reader,
    SavedCounter,
    Spy,
    check_story,
    counting,
    cut,
    deciding,
    fit,
    journal_of,
    live_reports,
    report_n,
    resume,
    run_path,
)

from minitune import TuneError, grid_search, report, with_resources
from minitune.error import JournalCorruptError
from minitune.experiment.decision import Decision
from minitune.record import records
from minitune.record.decisions import Decisions, read_decisions
from minitune.record.past_run import read_curves
from minitune.record.reading import read_run
from minitune.record.reports import read_reports
from minitune.record.standing import read_standing
from minitune.record.story import Story
from minitune.result import complete

THREE = {"i": grid_search([0, 1, 2])}


def test_the_time_of_a_run_is_that_of_all_its_drivers():
    fit(report_n(2))
    for _ in range(2):
        resume(report_n(2), add_samples=1)
    took = [record["took_s"] for record in journal_of() if record["type"] == "close"]
    assert len(took) == 3
    assert read_run(run_path()).worked_s == pytest.approx(sum(took))


@pytest.mark.parametrize("choice", ["resume_errored", "restart_errored"])
def test_a_trial_that_goes_on_had_not_ended_before(choice):
    fit(counting(3, bad=[0]), THREE)
    resume(counting(3), **{choice: True})
    run = read_run(run_path())
    assert run.driver.ended_before == {trial.trial_id for trial in run.trials[1:]}


def test_each_driver_gives_a_trial_all_its_attempts_again(tmp_path):
    mark = tmp_path / "has failed"

    def train(config):
        report({"n": 1})
        if not mark.exists():
            mark.touch()
            raise ValueError("on purpose")
        report({"n": 2})

    cut(train, results=2, max_failures=1)
    assert [trial.num_failures for trial in read_run(run_path()).trials] == [1]
    resume(train)
    assert [trial.num_failures for trial in read_run(run_path()).trials] == [0]


def test_a_run_that_got_more_samples_goes_on_with_them_after_it_was_killed():
    assert len(fit(counting(2), num_samples=3, stop=EndAfter(2), max_concurrent_trials=1)) == 1
    with pytest.raises(TuneError):
        resume(counting(2), add_samples=2, stop=EndAfter(99), callbacks=[CutAfter(1)])
    assert len(resume(counting(2), stop=EndAfter(99))) == 5


def test_a_timestamp_of_the_users_that_is_no_number_is_no_time_of_the_run():
    fit(report_n(1, timestamp="late"))
    run = read_run(run_path())
    assert run.updated_s == run.noted_s > 0


class Rough(SavedCounter):
    """Counts, and fails at each of the steps in `fails` once."""

    fails: set[tuple[int, int]]

    def step(self):
        moment = self.config["i"], self.n + 1
        if moment in self.fails:
            self.fails.discard(moment)
            raise ValueError("on purpose")
        return super().step()


def rough(*fails):
    """The class, which fails where `i` and the number of the step are such a pair."""
    return type("Rough", (Rough,), {"fails": set(fails)})


class Turns:
    """Answers the first results of a trial with a number `n` in ways of its own, and all others by CONTINUE."""

    def __init__(self, **answers):
        self.answers = {name: list(several) for name, several in answers.items()}

    def __call__(self, context, trial, result):
        answers = self.answers.get(f"trial_{trial.number}_at_{result['n']}")
        return answers.pop(0)(context, trial) if answers else "CONTINUE"


def takes_over(number, **changes):
    """The trial goes on from the newest checkpoint of another one, with changes of its configuration."""
    return lambda context, trial: Decision("PAUSE", exploit=(context.get_trials()[number], {**trial.config, **changes}))


def check_views(trials):
    """Each view that reads only a part of the journal tells what the whole of it tells."""
    check_story(read_run(run_path()), trials)
    decisions = Decisions()
    read_standing(str(run_path()), decisions)
    assert decisions.by_trial == read_decisions(run_path()).by_trial
    reports = read_reports(run_path())
    for trial in trials:
        if not trial.has_started:
            continue
        lines = Path(trial.local_path, "result.json").read_text().splitlines()
        found = reports.of(Path(trial.local_path).name)
        assert [complete(metrics, config) for metrics, config in found] == [json.loads(line) for line in lines]
        assert reports.of(Path(trial.local_path).name, last_only=True) == found[-1:]
    assert reports.of("nowhere") is None
    records = journal_of()
    taken_over = {record["trial"] for record in records if record["type"] == "exploit"}
    live = {name: [one["n"] for one in several] for name, several in live_reports(records).items()}
    curves = {name: [one["n"] for one, _ in curve] for name, curve in read_curves(run_path()).items()}
    ids = {trial.trial_id for trial in trials}  # without those that were started over
    assert curves.keys() <= ids
    for name in ids - taken_over:
        assert curves.get(name, []) == live.get(name, [])


def stops(context, trial):
    return "STOP"


def changes_by_itself(context, trial):
    trial.set_experiment_tag("another")
    trial.set_config({**trial.config, "i": 7})
    return "PAUSE"


FOUR = {"i": grid_search([0, 1, 2, 3]), "end": 6}

LIVES = {
    "goes back to its own checkpoint": ([(0, 4), (1, 6)], {}),
    "goes back to the beginning": ([(0, 2)], {}),
    "goes back to the checkpoint that it has taken over": ([(9, 4)], {"trial_1_at_3": [takes_over(0, i=9)]}),
    "has taken over a checkpoint and then saved its own": ([(9, 6)], {"trial_1_at_3": [takes_over(0, i=9)]}),
    "takes over what another one has taken over": (
        [],
        {"trial_1_at_3": [takes_over(0, i=8)], "trial_2_at_3": [takes_over(1, i=9, more=[1])]},
    ),
    "ends before it has saved": ([], {"trial_1_at_3": [takes_over(0), stops]}),
    "is stopped, and others fail for good": ([(0, 3), (0, 4), (0, 5)], {"trial_1_at_2": [stops]}),
}


@pytest.mark.parametrize("life", LIVES)
def test_a_reader_sees_after_each_turn_what_the_run_knows_of_a_trial_that(life):
    fails, answers = LIVES[life]
    settings = {"max_failures": 2, "num_to_keep": 2, "checkpoint_frequency": 2}
    turns, spy = Turns(**answers), Spy()
    fit(rough(*fails), FOUR, scheduler=deciding(turns), callbacks=[Reader(), spy], **settings)
    assert not any(turns.answers.values())
    check_views(spy.trials)


def test_a_reader_sees_what_a_scheduler_has_changed_of_a_trial_that_has_started_again():
    spy = Spy()
    turns = Turns(trial_1_at_2=[changes_by_itself])
    fit(rough(), FOUR, scheduler=deciding(turns), callbacks=[spy])
    assert spy.trials[1].experiment_tag == "another"
    check_story(read_run(run_path()), spy.trials)


RESUMES = {
    "goes on before there is a checkpoint": (3, {}),
    "goes on": (12, {}),
    "goes on with a trial that had failed": (12, {"resume_errored": True}),
    "starts a failed trial over": (12, {"restart_errored": True}),
    "ends the unfinished trials": (12, {"resume_unfinished": False}),
    "goes on with more trials": (12, {"add_samples": 1}),
}


@pytest.mark.parametrize("how", RESUMES)
def test_a_reader_sees_what_a_second_driver_knows_if_it(how):
    results, choice = RESUMES[how]
    settings = {"max_failures": 1, "num_to_keep": 2, "checkpoint_frequency": 2}
    fails = [(0, 2), (0, 3), (1, 4), (9, 4)]
    turns = Turns(trial_2_at_3=[takes_over(1, i=9)])
    cut(rough(*fails), FOUR, results=results, scheduler=deciding(turns), stop={"n": 5}, **settings)
    spy = Spy()
    resume(rough((1, 4), (9, 4)), callbacks=[Reader(), spy], **settings, **choice)
    check_views(spy.trials)


def test_a_reader_that_skips_the_results_of_a_long_trial_knows_as_much_of_it():
    spy = Spy()
    trainable = with_resources(report_n(40, loss=0.5), {"cpu": 0.5})
    fit(trainable, {"x": grid_search([1, 2])}, callbacks=[Reader(), spy], max_concurrent_trials=1)
    check_views(spy.trials)


def test_a_record_with_an_unknown_ending_names_the_journal():
    fit(report_n(1))
    found = journal_of()
    found[-1][records.ENDING] = "weird"
    with pytest.raises(JournalCorruptError, match=r"the journal of .*run has a 'close' record that is malformed"):
        list(Story(str(run_path())).follow(found))
