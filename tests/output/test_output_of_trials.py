"""The prints of trials on the console."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest
from kit import fit, resume

import minitune as tune
from minitune import ProgressReporter, ResultGrid


def talk(config: dict[str, Any]) -> None:
    print("before")
    print("problem", file=sys.stderr)
    tune.report({"a": 1})
    print("after")
    print("no end", end="")
    if config["fails"]:
        raise ValueError("on purpose")


def fit_talking(fails: bool = False, **run: Any) -> ResultGrid:
    return fit(talk, {"fails": fails}, **{"executor": "local", "verbose": None, **run})


def printed(text: str, result: tune.Result) -> list[str]:
    prefix = f"(talk_{result.metrics['trial_id']}) "
    return [line.removeprefix(prefix) for line in text.splitlines() if line.startswith(prefix)]


def test_trial_output_has_the_name_of_its_trial(capsys: pytest.CaptureFixture[str]) -> None:
    (result,) = fit_talking(verbose=1, show_output=True)

    text = capsys.readouterr().out
    assert printed(text, result) == ["before", "problem", "after", "no end"]
    assert text.index(") before") < text.index("Total run time")


def test_trial_output_is_shown_once_over_failures_and_resumes(capsys: pytest.CaptureFixture[str]) -> None:
    (result,) = fit_talking(fails=True, verbose=2, max_failures=1, log_to_file="all")
    shown = capsys.readouterr().out
    lines = printed(shown, result)
    assert sum("before" in line for line in lines) == 2
    assert shown.index(") before") < shown.index(" iteration 1: "), "prints come before the report that follows"
    assert any("on purpose" in line for line in lines) is False

    (result,) = resume(talk, resume_errored=True)
    lines = printed(capsys.readouterr().out, result)
    assert sum("before" in line for line in lines) == 2, "an incomplete last line may stand before it"


def test_trial_output_is_shown_before_the_failure_that_follows(capsys: pytest.CaptureFixture[str]) -> None:
    fit_talking(fails=True, verbose=2)
    shown = capsys.readouterr().out
    assert shown.index(") no end\n") < shown.index(" failed: ValueError: on purpose")


def test_an_unfinished_line_of_a_failed_attempt_is_not_joined_to_the_next_one(
    capsys: pytest.CaptureFixture[str],
) -> None:
    (result,) = fit_talking(fails=True, verbose=1, show_output=True, max_failures=1)
    lines = printed(capsys.readouterr().out, result)
    assert [line for line in lines if "before" in line or "no end" in line] == ["before", "no end"] * 2


def test_a_line_without_an_end_is_shown_in_parts(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("minitune.output.trial_output._SHOWN_BYTES", 4)

    def print_long(config: dict[str, Any]) -> None:
        print("123456789", flush=True)
        for number in range(3):
            tune.report({"a": number})
        print("end")

    fit(print_long, executor="local", verbose=1, show_output=True)
    lines = capsys.readouterr().out.splitlines()
    assert [line.partition(") ")[2] for line in lines if line.startswith("(")] == ["1234", "5678", "9", "end"]


def test_trial_output_goes_on_after_its_file_was_truncated(capsys: pytest.CaptureFixture[str]) -> None:
    def shorten(config: dict[str, Any]) -> None:
        print("many words before", flush=True)
        show()
        os.truncate(Path(tune.get_context().get_trial_dir(), "stdout"), 0)
        show()
        print("after")

    def show() -> None:
        for number in range(2):  # the driver takes the second one after it has shown the output before the first one
            tune.report({"a": number})

    fit(shorten, executor="local", verbose=1, show_output=True)
    lines = capsys.readouterr().out.splitlines()
    assert [line.partition(") ")[2] for line in lines if line.startswith("(")] == ["many words before", "after"]


@pytest.mark.parametrize("verbose", [0, 1])
def test_trial_output_is_shown_only_if_asked_for(capfd: pytest.CaptureFixture[str], verbose: int) -> None:
    (result,) = fit_talking(verbose=verbose)

    assert "before" not in capfd.readouterr().out
    assert Path(result.path, "stdout").read_text() == "before\nafter\nno end"


@pytest.mark.parametrize("run", [{"verbose": 0}, {"verbose": 1, "progress": False}])
def test_only_trial_output_is_shown_if_only_that_is_asked_for(
    capsys: pytest.CaptureFixture[str], run: dict[str, Any]
) -> None:
    (result,) = fit_talking(show_output=True, **run)

    text = capsys.readouterr().out
    assert printed(text, result) == ["before", "problem", "after", "no end"]
    assert len(text.splitlines()) == 4


def test_trial_output_is_shown_with_a_reporter_of_the_user(capsys: pytest.CaptureFixture[str]) -> None:
    class Mine(ProgressReporter):
        def should_report(self, trials: Any, done: bool = False) -> bool:
            return False

    (result,) = fit_talking(show_output=True, progress_reporter=Mine())

    assert printed(capsys.readouterr().out, result) == ["before", "problem", "after", "no end"]


def draws(config: dict[str, Any]) -> None:
    print("\x1b[2J\x1b[31mred\x1b[0m")
    print("\r10 %\r20 %", end="")
    print("\r30 %")


def test_trial_output_cannot_move_the_cursor(capsys: pytest.CaptureFixture[str]) -> None:
    fit(draws, executor="local", show_output=True)
    lines = [line.partition(") ")[2] for line in capsys.readouterr().out.splitlines()]
    assert lines == ["red", "30 %"]
