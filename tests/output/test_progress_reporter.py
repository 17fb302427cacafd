"""Reporters: the end of a run, columns and limits of the user's choice, errors, and output that cannot be written."""

from __future__ import annotations

import contextlib
import io
import logging
import math
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from kit import REPOSITORY, make_trial, run_trial

from minitune.base import clock
from minitune.error import ProgramError, RemoteError, trial_error, trial_error_of_text
from minitune.experiment.lifecycle import Transition
from minitune.experiment.trial import Trial
from minitune.output.live import render
from minitune.output.live_reporter import CLIReporter, _get_trials_by_state
from minitune.output.reporters import ProgressReporter, RunInfo

SCRIPTS = Path(__file__).with_name("scripts")


def finished(number: int, loss: float, *, config: dict[str, Any] | None = None, **result: Any) -> Trial:
    config = config or {"lr": number / 10}
    trial = run_trial(make_trial(number, config=config, evaluated_params={"lr": number / 10}))
    trial.record_result(
        {
            "loss": loss,
            "training_iteration": 3,
            "time_total_s": 1.23456789,
            "pid": 100 + number,
            "node_ip": "127.0.0.1",
            "date": "today",
            "config": trial.config,
            **result,
        }
    )
    trial.move(Transition.STOP)
    return trial


def failed(number: int, error: BaseException | None = None, text: str = "") -> Trial:
    trial = run_trial(make_trial(number, experiment_path="/results/run"))
    trial.num_failures = 1
    trial.error = trial_error_of_text(text) if error is None else trial_error(RemoteError.of(error))
    trial.move(Transition.FAIL)
    return trial


def show(reporter: ProgressReporter, trials: list[Trial], done: bool = False) -> str:
    """The text that a reporter writes, if standard output is a plain object."""
    with contextlib.redirect_stdout(io.StringIO()) as stream:
        if reporter.should_report(trials, done):
            reporter.report(trials, done)
    return stream.getvalue()


def ready(reporter: CLIReporter | None = None, **kwargs: Any) -> CLIReporter:
    reporter = reporter or CLIReporter(infer_limit=4)
    levels = {"verbose": kwargs.pop("verbose", 1), "print_errors": kwargs.pop("print_errors", True)}
    reporter.configure(**levels)
    reporter.setup(start_time=clock.current.time(), **{"total_samples": 3, "metric": "loss", "mode": "min", **kwargs})
    return reporter


def head_of(reporter: CLIReporter, trials: list[Trial], **settings: Any) -> list[str]:
    """The headers of the table at the end, without those of the trial."""
    text = show(ready(reporter, **settings), trials, done=True)
    header = next(line for line in text.splitlines() if line.startswith("| Trial"))
    return [cell.strip() for cell in header.strip("|").split("|")][2:]


# -- the end -----------------------------------------------------------------------------------------------------------


def test_the_end_of_a_small_run_shows_all_trials_best_first() -> None:
    with clock.use(clock.VirtualClock(1_000_000.0)):
        reporter = ready()
        reporter.note_run(RunInfo("/results/run"))
        clock.current.sleep(3661.239)
        text = show(reporter, [finished(0, 0.5), finished(1, 0.25, acc=True), finished(2, math.nan)], done=True)
    assert text.splitlines() == [
        "3 trials in 3661.24 s: 3 finished",
        "Best: loss=0.25 with lr=0.1 (trial t0001)",
        "+-------------+----------+-----+------+------+----------------+",
        "| Trial name  | status   |  lr | loss | iter | total time (s) |",
        "|-------------+----------+-----+------+------+----------------|",
        "| train_t0001 | finished | 0.1 | 0.25 |    3 |        1.23457 |",
        "| train_t0000 | finished |   0 |  0.5 |    3 |        1.23457 |",
        "| train_t0002 | finished | 0.2 |  nan |    3 |        1.23457 |",
        "+-------------+----------+-----+------+------+----------------+",
        "Results: /results/run",
    ]


def test_the_end_has_as_many_rows_as_asked_for() -> None:
    trials = [finished(number, float(number)) for number in range(50)]
    trials += [failed(number, text="no") for number in range(50, 60)]
    reporter = ready(CLIReporter(max_progress_rows=30, max_error_rows=2))
    reporter.note_run(RunInfo("/my runs/it"))
    text = show(reporter, trials, done=True)
    rows = re.findall(r"^\| train_t(\d+)", text, re.MULTILINE)
    assert [int(row) for row in rows] == [*range(30), 50, 51]
    assert "... 28 more: minitune ls '/my runs/it'" in text


def test_a_view_may_have_its_table_at_the_end_only() -> None:
    trials = [finished(0, 1.0), run_trial(make_trial(1))]
    for choice, has_rows in ((None, True), (True, True), (False, False)):
        reporter = ready(CLIReporter(print_intermediate_tables=choice))
        assert any("train_t0001" in line for line in render(reporter._snapshot(trials), 120, 40)) is has_rows
        assert "| train_t0001" in show(reporter, trials, done=True)


@pytest.mark.parametrize(("limit", "told"), [(2, "loss=0.5, a=1"), (0, "loss=0.5")])
def test_of_many_metrics_the_line_of_a_result_has_the_objective_first(limit: int, told: str) -> None:
    reporter = ready(CLIReporter(infer_limit=limit), verbose=2)
    result = {"a": 1, "b": 2, "loss": 0.5, "training_iteration": 3}
    with contextlib.redirect_stdout(io.StringIO()) as stream:
        reporter.trial_result(finished(0, 0.5), result)
    assert stream.getvalue() == f"Trial train_t0000 iteration 3: {told}\n"


@pytest.mark.parametrize(
    ("arguments", "run", "head"),
    [
        ({"infer_limit": 4}, {}, ["loss", "a", "c", "e"]),
        ({}, {}, ["loss", "a", "c"]),
        ({"infer_limit": 0}, {}, ["loss"]),
        ({}, {"metric": "late"}, ["loss", "a"]),  # it has not been reported
        ({"metric": "c", "mode": "min"}, {}, ["c", "loss", "a"]),
        ({}, {"metric": None, "mode": None}, ["loss", "a", "c"]),
    ],
)
def test_metrics_are_found_out_and_limited(arguments: Any, run: dict[str, Any], head: list[str]) -> None:
    trials = [finished(0, 1.0, a=1, b="text", c=2, nested={"d": 3}, e=4, f=5)]
    assert head_of(CLIReporter(**arguments), trials, **run) == ["lr", *head, "iter", "total time (s)"]


def test_the_best_trial_is_shown_with_its_whole_configuration() -> None:
    trial = finished(0, 1.0, config={"lr": 0.1, "net": {"act": "relu"}, "data": list(range(1000)), "none": None})
    data = ", ".join(map(str, range(20)))
    line = f"Best: loss=1 with lr=0.1, data=[{data}, ...], none=None, net/act='relu' (trial t0000)"
    assert line in show(ready(), [trial], done=True)


def test_values_that_are_not_finite_come_last() -> None:
    trials = [finished(0, math.inf), finished(1, 1.0), finished(2, math.nan), finished(3, 2.0)]
    text = show(ready(mode="max"), trials, done=True)
    assert re.findall(r"\| train_t(\d+)", text) == ["0003", "0001", "0000", "0002"]


def test_columns_may_be_named_and_added() -> None:
    reporter = CLIReporter(metric_columns={"loss": "L"}, parameter_columns=["lr"])
    reporter.add_metric_column("acc", "accuracy")
    reporter.add_parameter_column("deep/size")
    trial = finished(0, 1.0, acc=3, config={"lr": 0.5, "deep": {"size": 7}})
    assert head_of(reporter, [trial]) == ["lr", "deep/size", "L", "accuracy"]
    other = CLIReporter()
    other.add_metric_column("acc")
    trial = finished(0, 1.0, acc=3, f1=2)
    assert "f1" not in head_of(other, [trial]), "columns that were added replace those that are found out"
    assert head_of(CLIReporter(metric_columns=[]), [trial]) == ["lr"]
    usual = {**CLIReporter.DEFAULT_COLUMNS, "loss": "LOSS"}
    assert list(usual.values()) == ["acc", "loss", "iter", "total time (s)", "ts", "reward", "LOSS"]
    assert head_of(CLIReporter(metric_columns=usual), [trial]) == ["lr", "iter", "total time (s)", "LOSS"]
    with pytest.raises(ValueError, match="there once"):
        reporter.add_metric_column("acc")
    with pytest.raises(ValueError, match="renamed"):
        reporter.add_parameter_column("x", "y")


def test_columns_of_the_users_choice_are_those_of_the_view() -> None:
    reporter = ready(CLIReporter(metric_columns={"acc": "accuracy"}, parameter_columns={"lr": "rate"}))
    trial = run_trial(make_trial(0, config={"lr": 0.5}))
    trial.record_result({"acc": 0.25, "f1": 1.0})
    (head,) = (line for line in render(reporter._snapshot([trial]), 120, 40) if line.startswith("Trial name"))
    assert head.split() == ["Trial", "name", "status", "rate", "accuracy"]


def test_cells_are_short_and_on_one_line() -> None:
    trial = finished(0, 1.0)

    class Odd:
        def __repr__(self) -> str:
            raise RuntimeError("no text")

    trial.evaluated_params = {"long": "x" * 50 + "end", "two": "a\nb", "odd": Odd(), "none": None, "big": 10**30}
    text = show(ready(), [trial], done=True)
    assert f"| ...{'x' * 14}end " in text
    assert "| a b " in text
    assert "| <Odd> " in text
    assert f"{10**30}" in text


def test_without_a_metric_there_is_no_best_trial() -> None:
    assert "Best" not in show(ready(metric=None, mode=None), [finished(0, 1.0)], done=True)
    assert "Best: _metric=3" in show(ready(metric=None, mode="max"), [finished(0, 1.0, _metric=3)], done=True)


# -- errors --------------------------------------------------------------------------------------------------------


def test_equal_errors_are_shown_once_and_last() -> None:
    def train(number: int) -> None:
        raise ValueError(f"bad value {number}")

    trials = []
    for number in range(100):
        try:
            train(number)
        except ValueError as error:
            trials.append(failed(number, error))
    text = show(ready(), trials, done=True)
    assert text.count("Traceback") == 1
    assert "Error of trial train_t0000 and 99 more trials with the same error:" in text
    last = text.rstrip().splitlines()[-15:]
    assert any(Path(__file__).name in line for line in last)
    assert last[-2] == "ValueError: bad value 0"


def test_errors_that_name_their_trials_are_equal() -> None:
    trials = [failed(number) for number in range(2)]
    for trial, id_ in zip(trials, ("ab_cd", "ef_gh"), strict=True):
        trial.trial_id = id_
        trial.error = trial_error_of_text(f"ValueError: trial {id_} is bad")
    assert "and 1 more trial with the same error:" in show(ready(), trials, done=True)


def test_different_errors_are_shown_each_and_may_be_left_out() -> None:
    trials = [failed(0, text="worker died with signal 9 at report 3")]
    trials += [failed(number, text=f"worker died with signal 9 at report {number}") for number in (7, 8)]
    trials += [failed(9, text="disk full")]
    text = show(ready(), trials, done=True)
    assert "Error of trial train_t0009:\ndisk full\n" in text
    assert "Error of trial train_t0000 and 2 more trials with the same error:" in text
    text = show(ready(print_errors=False), trials, done=True)
    assert f"Error of trial train_t0009: disk full ({trials[3].error_file})\n" in text


def test_a_long_error_has_its_first_and_its_last_lines() -> None:
    lines = [f"line {number}" for number in range(100)]
    text = show(ready(), [failed(0, text="\n".join(lines))], done=True)
    found = text.partition("Error of trial train_t0000:\n")[2].splitlines()[:40]
    assert found == [*lines[:3], "  ... [61 lines left out] ...", *lines[64:]]


def test_of_many_different_errors_the_five_most_frequent_are_shown_and_the_others_counted() -> None:
    words = ["zero", "one", "two", "three", "four", "five", "six"]
    trials = [failed(10 * kind + n, text=words[kind]) for kind in range(7) for n in range(2 + kind)]
    text = show(ready(), trials, done=True)
    assert "5 more failed trials: see the error files.\n" in text
    assert re.findall(r"^Error of trial .*:\n(\w+)$", text, re.MULTILINE) == words[2:]


def test_an_error_is_told_with_the_command_that_runs_its_trial_again(tmp_path: Path) -> None:
    for error, options in ((ValueError("no"), " --pdb"), (ProgramError("no"), "")):
        trial = failed(3, error)
        trial.experiment_path = str(tmp_path)
        text = show(ready(), [trial], done=True)
        assert f"(`minitune rerun {tmp_path} 3{options}` runs it again):\n" in text


def test_the_same_reporter_shows_the_next_failure_that_is_not_raised() -> None:
    reporter, trial = ready(), failed(0, text="disk full")
    reporter.failure_is_raised(trial)
    assert "Error of trial train_t0000: it is raised now.\n" in show(reporter, [trial], done=True)
    assert "Error of trial train_t0000:\ndisk full\n" in show(ready(reporter), [trial], done=True)


# -- when ----------------------------------------------------------------------------------------------------------


def test_the_time_counts_from_the_start_that_the_driver_names() -> None:
    with clock.use(clock.VirtualClock(1_000.0)):
        reporter = CLIReporter()
        reporter.setup(start_time=900.0)
        assert "0 trials in 100.00 s: none\n" in show(reporter, [], done=True)


def test_a_reporter_may_know_the_total_that_the_driver_does_not() -> None:
    text = show(ready(CLIReporter(total_samples=7), total_samples=None), [], done=True)
    assert text.startswith("0 of 7 trials in ")


def test_the_first_line_comes_after_the_pause_of_the_users_choice(monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = [100.0]
    monkeypatch.setattr("minitune.output.live_reporter.time.monotonic", lambda: now_s[0])
    reporter = ready(CLIReporter(max_report_frequency=30))
    assert show(reporter, []).startswith("Run of 3 trials (min loss)")
    assert reporter.seconds_left() == 30
    now_s[0] += 30
    assert "0/3 trials" in show(reporter, [])
    assert reporter.seconds_left() == 45
    never = ready(CLIReporter(max_report_frequency=0))
    show(never, [])
    assert never.seconds_left() == 0.25, "the driver has other work"


def test_at_level_2_each_step_of_a_trial_is_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    for level in (1, 2):
        reporter = ready(verbose=level)
        trial, broken = finished(4, 1.0, acc=2.0), failed(5, text="broken\nbadly")
        reporter.trial_started(trial)
        reporter.trial_result(trial, trial.last_result)
        reporter.trial_saved(trial, "/results/checkpoint_000001")
        reporter.trial_ended(trial)
        reporter.trial_ended(broken)
        lines = capsys.readouterr().out.splitlines()
        assert level == 2 or lines == [f"broken (trial train_t0005, {broken.error_file})"]
    assert lines == [
        "Trial train_t0004 started: lr=0.4",
        "Trial train_t0004 iteration 3: loss=1, acc=2, total time 1.23457 s",
        "Trial train_t0004 saved a checkpoint: /results/checkpoint_000001",
        "Trial train_t0004 ended after 3 iterations: loss=1, acc=2, total time 1.23457 s",
        f"Trial train_t0005 failed: broken ({broken.error_file})",
    ]


def test_a_trial_that_never_began_ends_without_a_word(capsys: pytest.CaptureFixture[str]) -> None:
    reporter, trial = ready(verbose=2), make_trial(4)
    trial.move(Transition.STOP)
    reporter.trial_ended(trial)
    assert capsys.readouterr().out == ""
    trial.attempt.number = 1
    reporter.trial_ended(trial)
    assert capsys.readouterr().out == "Trial train_t0004 ended after 0 iterations\n"


# -- no one to read ------------------------------------------------------------------------------------------------


class Broken(io.StringIO):
    def __init__(self, error: BaseException):
        super().__init__()
        self.error = error

    def write(self, text: str) -> int:
        raise self.error


@pytest.mark.parametrize(
    "stream",
    [None, Broken(BrokenPipeError(32, "Broken pipe")), Broken(OSError(28, "No space left")), "closed"],
)
def test_output_goes_off_after_one_warning(
    stream: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    if stream == "closed":
        stream = io.StringIO()
        stream.close()
    reporter = ready(verbose=2)
    monkeypatch.setattr(sys, "stdout", stream)
    trial = finished(0, 1.0)
    for _ in range(3):
        reporter.report([trial], True)
        reporter.trial_started(trial)
        assert not reporter.should_report([trial], done=True)
    monkeypatch.undo()
    assert [record.levelno for record in caplog.records] == [logging.WARNING]
    assert reporter.seconds_left() is None


def test_text_that_the_stream_cannot_show_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding="ascii")
    monkeypatch.setattr(sys, "stdout", stream)
    reporter = ready(verbose=2)
    reporter.say("größe \ud800")
    monkeypatch.undo()
    assert raw.getvalue() == b"gr??e ?\n"


def run_script(stdout: Any, waits: bool) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, SCRIPTS / "reports_progress.py", *(["waits"] if waits else [])],
        stdin=subprocess.PIPE,
        stdout=stdout,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
    )


def test_a_script_whose_reader_has_gone_ends_well() -> None:
    reader, writer = os.pipe()
    process = run_script(writer, waits=True)
    os.close(writer)
    os.close(reader)
    _, errors = process.communicate("", timeout=60)
    assert process.returncode == 0
    assert errors.count("No more progress is shown") == 1
    assert errors.rstrip().endswith("the run goes on")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_a_script_on_a_full_disk_ends_well() -> None:
    with open("/dev/full", "w") as full:
        process = run_script(full, waits=False)
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 0
    assert errors.count("No more progress is shown") == 1


def test_a_script_sees_its_own_output_in_order(tmp_path: Path) -> None:
    with open(tmp_path / "out", "w") as out:
        script = (
            "from minitune.output.live_reporter import default_reporter\n"
            "r = default_reporter(); r.setup()\n"
            "print('before'); r.say('ours'); print('after')\n"
        )
        env = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
        subprocess.run([sys.executable, "-c", script], stdout=out, check=True, env=env)
    assert (tmp_path / "out").read_text() == "before\nours\nafter\n"


# -- arguments and lines -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kwargs", "words"),
    [
        ({"metric_columns": "loss"}, "metric_columns must be a list"),
        ({"parameter_columns": [1]}, "parameter_columns must hold text"),
        ({"max_progress_rows": 0}, "max_progress_rows >= 1"),
        ({"max_error_rows": -1}, "max_error_rows >= 1"),
        ({"max_column_length": 1}, "max_column_length >= 4"),
        ({"max_report_frequency": -1}, "max_report_frequency >= 0"),
        ({"infer_limit": None}, "infer_limit >= 0"),
        ({"mode": "best"}, "'min' or 'max'"),
    ],
)
def test_bad_arguments_are_refused(kwargs: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        CLIReporter(**kwargs)


@pytest.mark.parametrize(
    ("own", "best"),
    [({}, "t0000"), ({"metric": "loss", "mode": "max"}, "t0001"), ({"mode": "max"}, "t0001")],
)
def test_metric_and_mode_of_the_reporter_stay(own: dict[str, Any], best: str) -> None:
    trials = [finished(0, 1.0), finished(1, 2.0)]
    assert f"(trial {best})" in show(ready(CLIReporter(**own)), trials, done=True)


def test_sorting_needs_a_metric(caplog: pytest.LogCaptureFixture) -> None:
    ready(CLIReporter(sort_by_metric=True), metric=None, mode=None)
    assert "sort_by_metric has no effect" in caplog.text


def test_lines_on_the_machine_tell_what_is_used() -> None:
    totals = {"CPU": 2.0, "GPU": 1.0, "memory": 2.0 * 2**30, "tokens": 3.0}
    free = {"CPU": 1.0, "GPU": 0.5, "memory": 2.0**30, "tokens": 3.0}
    info = RunInfo("/runs/a", (20 * 2**30, 8 * 2**30), totals, free, "Using FIFO scheduling algorithm.")
    assert info.lines(done=False) == [
        "Memory usage on this node: 12.0/20.0 GiB",
        "Using FIFO scheduling algorithm.",
        "Logical resource usage: 1.0/2 CPUs, 0.5/1 GPUs, 1.0/2.0 GiB memory, 0/3 tokens",
        "Result logdir: /runs/a",
    ]
    assert info.used() == ["1.0/2 CPUs", "0.5/1 GPUs", "1.0/2.0 GiB memory", "0/3 tokens", "memory 12.0/20.0 GiB"]


def test_lines_on_the_machine_tell_what_it_lacks() -> None:
    full, none = (20 * 2**30, 2**30), {"CPU": 2.0, "GPU": 0.0, "memory": 2.0**30}
    info = RunInfo("/runs/a", full, none, {**none, "CPU": 0.0}, ending="interrupted by SIGINT")
    assert info.lines(done=False) == [
        "Memory usage on this node: 19.0/20.0 GiB (less than 10 % is free)",
        "Logical resource usage: 2.0/2 CPUs, 0/0 GPUs, 0.0/1.0 GiB memory",
        "Result logdir: /runs/a",
        "Ending: interrupted by SIGINT",
    ]
    assert info.lines(done=True)[-1] == "Ended early: interrupted by SIGINT"
    assert info.used() == ["2.0/2 CPUs", "memory 19.0/20.0 GiB (less than 10 % is free)"]
    little = {"CPU": 1.0, "memory": 2.0**30}
    assert RunInfo("/runs/a", None, little, {"CPU": 0.0, "memory": 2.0**30 - 2**20}).used() == ["1.0/1 CPUs"]
    assert RunInfo("/runs/a").lines(done=True) == ["Result logdir: /runs/a"]


def test_a_reporter_of_a_library_counts_trials_and_finds_the_best_one_as_with_ray_tune() -> None:
    trials = [finished(0, 0.5), finished(1, 0.25), failed(2), make_trial(3)]
    counts = {status: len(found) for status, found in _get_trials_by_state(trials).items()}
    assert counts == {"TERMINATED": 2, "ERROR": 1, "PENDING": 1}
    assert _get_trials_by_state(trials)["RUNNING"] == []
    reporter = CLIReporter()
    reporter.setup(metric="loss", mode="min")
    assert reporter._current_best_trial(trials) == (trials[1], "loss")
    assert reporter._current_best_trial([]) == (None, "loss")
    assert CLIReporter()._current_best_trial(trials) == (None, None)


@pytest.mark.parametrize(("count", "more"), [(1, ""), (5, ""), (6, " and 1 more")])
def test_at_most_five_trials_that_finished_after_a_retry_are_named(count: int, more: str) -> None:
    trials = [finished(number, 0.5) for number in range(count)]
    for trial in trials:
        trial.num_failures = 2
    named = ", ".join(f"train_t{number:04d}" for number in range(min(count, 5)))
    text = show(ready(), trials, done=True)
    assert f"Finished after a retry: {named}{more} (their error.txt has the failures)\n" in text


def test_a_reporter_must_say_when_and_what_it_reports_and_may_leave_the_rest() -> None:
    reporter, trial = ProgressReporter(), finished(0, 1.0)
    with pytest.raises(NotImplementedError, match=r"ProgressReporter has to define should_report\(trials, done\)"):
        reporter.should_report([])
    with pytest.raises(NotImplementedError, match=r"ProgressReporter has to define report\("):
        reporter.report([], False)
    reporter.setup(start_time=1.0, total_samples=3, metric="loss", mode="min", more=1)
    reporter.configure(verbose=2, print_errors=True)
    assert reporter.seconds_left() is None
    for told in (
        reporter.close(),
        reporter.note_run(RunInfo()),
        reporter.say("a"),
        reporter.trial_started(trial),
        reporter.trial_result(trial, {}),
        reporter.trial_saved(trial, "/a"),
        reporter.trial_ended(trial),
        reporter.run_took(1.0),
        reporter.failure_is_raised(trial),
    ):
        assert told is None
