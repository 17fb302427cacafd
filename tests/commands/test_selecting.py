"""The arguments that several commands have: which run and which trial a word means, and which words are refused."""

from __future__ import annotations

import argparse
import os
from types import SimpleNamespace

import pytest
from command_runs import fit_three
from kit import make_trial

from minitune.commands.selecting import NotFoundError, count_from, exit_status, find_trial, seconds
from minitune.experiment.endings import Ending, EndKind
from minitune.experiment.lifecycle import Transition
from minitune.record.standing import Standing


# -- a run -------------------------------------------------------------------------------------------------------------
def test_the_newest_run_is_named_unless_its_own_name_is_last(run, tmp_path):
    fit_three(tmp_path, name="old")
    fit_three(tmp_path, name="new")
    os.utime(tmp_path / "old" / "journal", (1, 1))
    assert run("show", "last")[1:] == (run("show", "new")[1], f"minitune: last is {tmp_path / 'new'}\n")
    os.utime(tmp_path / "new" / "journal", (0, 0))
    assert run("show", "last")[2] == f"minitune: last is {tmp_path / 'old'}\n"

    fit_three(tmp_path, name="last")
    os.utime(tmp_path / "last" / "journal", (0, 0))
    assert run("show", "last") == (0, run("show", tmp_path / "last")[1], ""), "a name comes before the newest run"


def test_a_run_that_is_missing_is_told_with_what_there_is(run, tmp_path):
    elsewhere = "set MINITUNE_STORAGE_PATH to the directory of the runs"
    missing = f"minitune: there is no run 'valey', neither here nor below {tmp_path}; "
    assert run("show", "valey") == (1, "", f"{missing}pass the directory of one, or {elsewhere}\n")
    none = f"minitune: there is no run below {tmp_path} yet; pass the directory of one, or {elsewhere}\n"
    assert run("show", "last") == (1, "", none)
    fit_three(tmp_path, name="valley")
    fit_three(tmp_path / "far", name="other")
    assert run("show", "valey") == (1, "", f"{missing}did you mean valley?\n")
    assert run("show", "far/othr")[2].endswith("; did you mean far/other?\n")
    assert run("show", "xyz")[2].endswith(f"; `minitune ls {tmp_path}` lists those there\n")


# -- a trial -----------------------------------------------------------------------------------------------------------
def numbered(*numbers, **details):
    return [make_trial(number, **details) for number in numbers]


@pytest.mark.parametrize(
    ("wanted", "number"),
    [
        ("3", 3),
        ("12", 12),
        ("t0012", 12),
        ("train_t0003", 3),
        ("0003", 3),  # an end of its id, and its number
        ("t0004/", 4),
        ("/any/where/t0004", 4),
        ("/any/where/mine", 7),
    ],
)
def test_a_word_means_one_trial(wanted, number):
    trials = numbered(*range(20))
    trials[7].custom_dirname = "mine"
    assert find_trial(trials, wanted).number == number


def test_five_digits_are_a_part_of_an_id_and_fewer_a_number():
    long, short = numbered(10_203, 1020)
    long.trial_id, short.trial_id = "ab_1020x", "ab_10203"
    assert find_trial([long, short], "10203") is short
    assert find_trial([long, short], "1020") is short
    assert find_trial([long, short], "1020x") is long
    long.trial_id = "12345_00000"
    assert find_trial([long, short], "12345") is long


def test_the_only_trial_of_a_run_needs_no_name():
    (trial,) = numbered(7)
    assert find_trial([trial], None) is trial


@pytest.mark.parametrize(
    ("trials", "wanted", "text"),
    [
        (numbered(0, 1), None, "a trial must be named; pass one of 0: t0000, 1: t0001"),
        (numbered(0, 1), "2", "there is no trial '2'; pass one of 0: t0000, 1: t0001"),
        (numbered(0, 1), "t000", "'t000' could mean each of 2 trials; pass one of 0: t0000, 1: t0001"),
        (numbered(5, 10, 11), "t001", "'t001' could mean each of 2 trials; pass one of 10: t0010, 11: t0011"),
        ([], None, "a trial must be named: the run has none yet"),
        ([], "3", "there is no trial '3': the run has none yet"),
        (numbered(*range(10)), "x", "there is no trial 'x'; pass one of 0: t0000, *9: t0009"),
        (numbered(*range(11)), "x", "there is no trial 'x'; pass one of 0: t0000, *9: t0009, ..."),
    ],
)
def test_a_word_that_means_no_trial_is_answered_with_those_that_it_may_mean(trials, wanted, text):
    with pytest.raises(NotFoundError) as caught:
        find_trial(trials, wanted)
    begin, _, end = text.partition("*")
    assert str(caught.value).startswith(begin)
    assert str(caught.value).endswith(end)


# -- numbers -----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("text", ["", "s", "0", "0m", "-1", "inf", "nan", "1 m x", "5w", "10ms"])
def test_a_text_that_is_no_time_is_refused(text):
    with pytest.raises(argparse.ArgumentTypeError, match="but got"):
        seconds(text)


def test_a_count_is_a_whole_number_from_the_least_one_on():
    assert [count_from(0)("0"), count_from(1)("1"), count_from(1)("20")] == [0, 1, 20]
    for least, text in ((1, "0"), (0, "-1"), (0, "1.0"), (0, ""), (2, "1")):
        with pytest.raises(argparse.ArgumentTypeError, match=f"expected N >= {least}, but got"):
            count_from(least)(text)


# -- the exit status ---------------------------------------------------------------------------------------------------
def ended(how, *, has_started=True):
    trial = make_trial()
    if has_started:
        trial.begin_attempt(1)
        trial.move(Transition.START)
        trial.move(Transition.TRAIN)
    if how is not None:
        trial.move(how)
    return trial


GOOD = ended(Transition.STOP)
BAD = ended(Transition.FAIL)
NEVER = ended(Transition.STOP, has_started=False)
BY_GOAL = Ending.of(EndKind.STOPPER, is_goal=True)
BY_TIME = Ending.of(EndKind.STOPPER)


@pytest.mark.parametrize(
    ("state", "trials", "ending", "not_drawn", "total", "status"),
    [
        ("finished", [GOOD], None, 0, 1, 0),
        ("finished", [GOOD, BAD], None, 0, 2, 3),
        ("finished", [GOOD], None, 3, 4, 0),  # the search has ended by itself
        ("finished", [GOOD, NEVER], None, 0, 2, 4),
        ("stopped", [GOOD], BY_TIME, 0, 1, 0),
        ("stopped", [GOOD], BY_TIME, 3, 4, 4),
        ("stopped", [GOOD, NEVER], BY_TIME, 0, 2, 4),
        ("stopped", [GOOD, BAD], BY_TIME, 3, 5, 3),
        ("stopped", [GOOD], BY_GOAL, 3, 4, 0),
        ("stopped", [GOOD, NEVER], BY_GOAL, 0, 2, 0),
        ("stopped", [GOOD, BAD], BY_GOAL, 0, 2, 3),
        ("stopped", [GOOD, NEVER], BY_TIME, 0, None, 0),  # an endless search owes none
        ("interrupted", [GOOD, BAD], None, 0, 2, 4),
        ("killed", [GOOD], None, 0, 1, 4),
        ("failed", [GOOD], None, 0, 1, 4),
        ("running", [GOOD], None, 0, 1, 4),
    ],
)
def test_the_exit_status_tells_how_a_run_has_ended(state, trials, ending, not_drawn, total, status):
    run = SimpleNamespace(
        trials=trials, driver=SimpleNamespace(ending=ending), not_drawn=not_drawn, total_samples=total
    )
    assert exit_status(run, Standing(state, "")) == status
