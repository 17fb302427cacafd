"""The prints of trials on the console."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from kit import fit, make_trial, resume, run_trial

import minitune as tune
from minitune import ProgressReporter
from minitune.experiment.lifecycle import Transition
from minitune.output import trial_output
from minitune.output.trial_output import TrialOutput


def talk(config):
    print("before")
    print("problem", file=sys.stderr)
    tune.report({"a": 1})
    print("after")
    print("no end", end="")
    if config["fails"]:
        raise ValueError("on purpose")


def fit_talking(fails=False, **run):
    return fit(talk, {"fails": fails}, **{"executor": "local", "verbose": None, **run})


def printed(text, result):
    prefix = f"(talk_{result.metrics['trial_id']}) "
    return [line.removeprefix(prefix) for line in text.splitlines() if line.startswith(prefix)]


def test_trial_output_has_the_name_of_its_trial(capsys):
    (result,) = fit_talking(verbose=1, show_output=True)

    text = capsys.readouterr().out
    assert printed(text, result) == ["before", "problem", "after", "no end"]
    assert text.index(") before") < text.index("Results: ")


def test_trial_output_is_shown_once_over_failures_and_resumes(capsys):
    (result,) = fit_talking(fails=True, verbose=2, max_failures=1, log_to_file="all")
    shown = capsys.readouterr().out
    lines = printed(shown, result)
    assert sum("before" in line for line in lines) == 2
    assert shown.index(") before") < shown.index(" iteration 1: "), "prints come before the report that follows"
    assert any("on purpose" in line for line in lines) is False

    (result,) = resume(talk, resume_errored=True)
    lines = printed(capsys.readouterr().out, result)
    assert sum("before" in line for line in lines) == 2, "an incomplete last line may stand before it"


def test_an_unfinished_line_of_a_failed_attempt_is_not_joined_to_the_next_one(
    capsys,
):
    (result,) = fit_talking(fails=True, verbose=1, show_output=True, max_failures=1)
    lines = printed(capsys.readouterr().out, result)
    assert [line for line in lines if "before" in line or "no end" in line] == ["before", "no end"] * 2


@pytest.mark.parametrize("verbose", [0, 1])
def test_trial_output_is_shown_only_if_asked_for(capfd, verbose):
    (result,) = fit_talking(verbose=verbose)

    assert "before" not in capfd.readouterr().out
    assert Path(result.path, "stdout").read_text() == "before\nafter\nno end"


class Quiet(ProgressReporter):
    """A reporter of the user that shows nothing."""

    def should_report(self, trials, done=False):
        return False


@pytest.mark.parametrize("run", [{"verbose": 0}, {"verbose": 1, "progress": False}, {"progress_reporter": Quiet()}])
def test_only_trial_output_is_shown_if_only_that_is_asked_for(capsys, run):
    (result,) = fit_talking(show_output=True, **run)

    text = capsys.readouterr().out
    assert printed(text, result) == ["before", "problem", "after", "no end"]
    assert len(text.splitlines()) == 4


def draws(config):
    print("\x1b[2J\x1b[31mred\x1b[0m")
    print("\r10 %\r20 %", end="")
    print("\r30 %")


def test_trial_output_cannot_move_the_cursor(capsys):
    fit(draws, executor="local", show_output=True)
    lines = [line.partition(") ")[2] for line in capsys.readouterr().out.splitlines()]
    assert lines == ["red", "30 %"]


# -- when it is shown --------------------------------------------------------------------------------------------------
class Listens(ProgressReporter):
    """Notes what it is to say."""

    def __init__(self):
        self.said = []

    def say(self, text):
        self.said += text.splitlines()


class Prints:
    """A running trial with files for its output, and the view of them."""

    def __init__(self, directory, monkeypatch, names=("stdout", "stderr")):
        self.now_s = 100.0
        monkeypatch.setattr(trial_output.time, "monotonic", lambda: self.now_s)
        self.reporter = Listens()
        self.view = TrialOutput(self.reporter, names)
        self.trial = run_trial(make_trial(experiment_path=str(directory)))
        self.directory = Path(self.trial.local_path)
        self.directory.mkdir()
        self.report = {}

    def prints(self, text, name="stdout"):
        with open(self.directory / name, "a") as file:
            file.write(text)

    def after(self, hook, **info):
        """What is said at a call of a hook."""
        before = len(self.reporter.said)
        about = {} if hook in ("on_step_begin", "on_experiment_end") else {"trial": self.trial, **info}
        turn = {} if hook == "on_experiment_end" else {"iteration": 0}
        getattr(self.view, hook)(**turn, trials=[self.trial], **about)
        return [line.removeprefix(f"({self.trial}) ") for line in self.reporter.said[before:]]

    def waits(self, seconds):
        self.now_s += seconds
        return self.after("on_step_begin")


@pytest.fixture
def prints(tmp_path, monkeypatch):
    return Prints(tmp_path, monkeypatch)


def test_prints_are_shown_at_a_report_an_end_and_now_and_then(prints):
    assert prints.waits(0) == []
    prints.after("on_trial_start")
    prints.prints("a\nb\nunfin")
    prints.prints("c\n", "stderr")
    assert prints.after("on_trial_result", result={}) == ["a", "b", "c"]
    assert prints.after("on_trial_result", result={}) == []
    prints.prints("ished\n")
    assert prints.waits(0.4) == [], "not at each turn"
    assert prints.waits(0.1) == ["unfinished"]
    prints.prints("no end")
    assert prints.waits(1) == []
    assert prints.after("on_experiment_end") == ["no end"]
    assert prints.after("on_experiment_end") == []


@pytest.mark.parametrize("hook", ["on_trial_recover", "on_trial_error"])
def test_a_failure_comes_after_all_that_was_printed_before_it(prints, hook):
    prints.waits(0)
    prints.after("on_trial_start")
    prints.prints("why it fails")
    assert prints.after(hook) == ["why it fails"]


def test_what_comes_after_the_end_of_a_trial_is_shown_at_the_end_of_the_run(prints):
    prints.waits(0)
    prints.after("on_trial_start")
    prints.prints("last")
    prints.trial.move(Transition.STOP)
    assert prints.after("on_trial_complete") == ["last"]
    prints.prints("late\n")
    assert prints.waits(5) == []
    prints.after("on_trial_start")  # a resume of a failed trial
    prints.prints("too late\n")
    assert prints.after("on_experiment_end") == ["late", "too late"]


def test_what_was_printed_in_an_earlier_part_of_the_run_is_not_shown_again(prints):
    prints.prints("before\n")
    assert prints.waits(1) == []
    prints.after("on_trial_start")
    prints.prints("now\n")
    assert prints.after("on_trial_result", result={}) == ["now"]


def test_a_file_that_became_shorter_is_shown_on_from_its_end(prints):
    prints.waits(0)
    prints.after("on_trial_start")
    prints.prints("a\nb\n")
    prints.waits(1)
    (prints.directory / "stdout").write_text("a\n")
    assert prints.waits(1) == []
    prints.prints("c\n")
    assert prints.waits(1) == ["c"]


def test_a_flood_is_shown_in_parts_and_nothing_of_it_is_lost(prints, monkeypatch):
    monkeypatch.setattr(trial_output, "_SHOWN_BYTES", 10)
    prints.waits(0)
    prints.after("on_trial_start")
    prints.prints("0123456789abcde\n")
    assert prints.waits(1) == ["0123456789"]
    assert prints.waits(1) == ["abcde"]
    prints.prints("x" * 25)
    assert prints.after("on_experiment_end") == ["x" * 10, "x" * 10, "x" * 5]


def test_one_file_for_both_outputs_is_shown_once(tmp_path, monkeypatch):
    prints = Prints(tmp_path, monkeypatch, ("all", "all"))
    prints.waits(0)
    prints.after("on_trial_start")
    prints.prints("a\n", "all")
    assert prints.after("on_trial_result", result={}) == ["a"]
