"""Status blocks of reporters: their content, their limits, their intervals, and output that cannot be written."""

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
from types import SimpleNamespace
from typing import Any

import pytest
from kit import REPOSITORY, make_trial, run_trial

from minitune import clock
from minitune.error import ProgramError, RemoteError, trial_error, trial_error_of_text
from minitune.experiment.lifecycle import Transition
from minitune.experiment.trial import Trial
from minitune.output.reporters import CLIReporter, ProgressReporter, _get_trials_by_state
from minitune.output.status_block import RunInfo, retried_text, time_line, total_time_line

SCRIPTS = Path(__file__).with_name("scripts")

SYS_INFO = (
    "Memory usage on this node: 1.2/23.4 GiB",
    "Using FIFO scheduling algorithm.",
    "Logical resource usage: 1/2 CPUs, 0/0 GPUs",
    "Result logdir: /results/run",
)


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
            reporter.report(trials, done, *SYS_INFO)
    return stream.getvalue()


def blocks() -> CLIReporter:
    """A reporter of status blocks that shows the best trials first."""
    return CLIReporter(max_report_frequency=30, infer_limit=4, sort_by_metric=True)


def ready(reporter: CLIReporter | None = None, **kwargs: Any) -> CLIReporter:
    reporter = reporter or blocks()
    levels = {"verbose": kwargs.pop("verbose", 1), "print_errors": kwargs.pop("print_errors", True)}
    reporter.configure(**levels)
    reporter.setup(start_time=clock.current.time(), **{"total_samples": 3, "metric": "loss", "mode": "min", **kwargs})
    return reporter


# -- the block -----------------------------------------------------------------------------------------------------


def test_the_last_table_of_a_small_run_shows_all_trials_best_first() -> None:
    with clock.use(clock.VirtualClock(1_000_000.0)):
        reporter = ready()
        clock.current.sleep(3661.239)
        text = show(reporter, [finished(0, 0.5), finished(1, 0.25, acc=True), finished(2, math.nan)], done=True)
    lines = text.splitlines()
    assert lines[0] == "== Status =="
    assert lines[1].startswith("Current time: ")
    assert lines[1].endswith("(running for 01:01:01.24)")
    assert lines[2:] == [
        *SYS_INFO,
        "Best: loss=0.25 with lr=0.1 (trial t0001)",
        "Number of trials: 3/3 (3 finished)",
        "+-------------+----------+---------------+-----+------+------+----------------+",
        "| Trial name  | status   | loc           |  lr | loss | iter | total time (s) |",
        "|-------------+----------+---------------+-----+------+------+----------------|",
        "| train_t0001 | finished | 127.0.0.1:101 | 0.1 | 0.25 |    3 |        1.23457 |",
        "| train_t0000 | finished | 127.0.0.1:100 |   0 |  0.5 |    3 |        1.23457 |",
        "| train_t0002 | finished | 127.0.0.1:102 | 0.2 |  nan |    3 |        1.23457 |",
        "+-------------+----------+---------------+-----+------+------+----------------+",
        "",
    ]


def test_of_many_trials_that_never_started_the_first_ones_are_shown() -> None:
    trials = [make_trial(number) for number in range(30)]
    for trial in trials:
        trial.move(Transition.STOP)
    text = show(ready(), [*trials, finished(30, 0.5)], done=True)
    assert re.findall(r"^\| train_t(\d+)", text, re.MULTILINE) == ["0030", "0000", "0001", "0002", "0003", "0004"]


def test_of_many_metrics_the_line_of_a_result_has_the_objective_first() -> None:
    reporter = ready(CLIReporter(infer_limit=2), verbose=2)
    result = {"a": 1, "b": 2, "loss": 0.5, "training_iteration": 3}
    with contextlib.redirect_stdout(io.StringIO()) as stream:
        reporter.trial_result(finished(0, 0.5), result)
    assert stream.getvalue() == "Trial train_t0000 iteration 3: loss=0.5, a=1\n"


def test_before_anything_has_run_there_is_no_table() -> None:
    text = show(ready(total_samples=200), [make_trial(number) for number in range(30)])
    assert text.splitlines()[2:] == [*SYS_INFO, "Number of trials: 30/200 (30 pending)", ""]
    assert "Number of trials: 0/200\n" in show(ready(total_samples=200), [])


@pytest.mark.parametrize(
    ("total", "shown"), [(None, "2 ("), (5, "2/5 ("), (-1, "2/infinite ("), (sys.maxsize, "2/infinite (")]
)
def test_the_total_may_be_unknown_or_endless(total: int | None, shown: str) -> None:
    trials = [make_trial(0), finished(1, 1)]
    assert f"Number of trials: {shown}1 pending, 1 finished)" in show(ready(total_samples=total), trials)


def test_a_table_of_many_trials_has_at_most_five_rows_per_state() -> None:
    trials = [finished(number, float(number)) for number in range(30)]
    trials += [run_trial(make_trial(number)) for number in range(30, 40)]
    trials += [make_trial(number) for number in range(40, 43)]
    text = show(ready(), trials, done=True)
    rows = [line.split("|")[2].strip() for line in text.splitlines() if line.startswith("| train")]
    assert rows == ["running"] * 5 + ["pending"] * 3 + ["finished"] * 5
    assert "... 30 more trials not shown (5 running, 25 finished)" in text
    assert [f"train_t{number:04d}" in text for number in (0, 4, 5)] == [True, True, False], "the best ones are shown"


def test_of_many_trials_the_first_that_wait_and_the_last_that_have_ended_are_shown() -> None:
    trials = [finished(number, float(number)) for number in range(10)]
    trials += [failed(number, text="no") for number in range(10, 20)]
    for steps in (
        [],
        [Transition.START, Transition.RESTORE, Transition.TRAIN],
        [Transition.START, Transition.RESTORE, Transition.TRAIN, Transition.PAUSE],
    ):
        for number in range(len(trials), len(trials) + 10):
            trials.append(trial := make_trial(number))
            for step in steps:
                trial.move(step)
    text = show(ready(CLIReporter()), trials).partition("Number of errored trials")[0]
    rows = [line.split("|")[1:3] for line in text.splitlines() if line.startswith("| train")]
    shown: dict[str, list[int]] = {}
    for name, status in rows:
        shown.setdefault(status.strip(), []).append(int(name.strip()[-2:]))
    assert shown == {
        "running": list(range(30, 35)),
        "pending": list(range(20, 25)),
        "finished": list(range(5, 10)),
        "failed": list(range(15, 20)),
    }


def test_a_reporter_with_more_rows_shows_more() -> None:
    trials = [finished(number, float(number)) for number in range(50)]
    text = show(ready(CLIReporter(max_progress_rows=40)), trials)
    assert sum(line.startswith("| train") for line in text.splitlines()) == 40
    assert "... 10 more trials not shown (10 finished)" in text


def test_two_hundred_trials_are_at_most_forty_lines() -> None:
    reporter = ready(total_samples=200)
    text = show(reporter, [make_trial(number) for number in range(200)])
    trials = [finished(number, float(number), acc=1.0, f1=2.0) for number in range(200)]
    text += "".join(show(reporter, trials) for _ in range(100))
    text += show(reporter, trials, done=True) + total_time_line(1.5, 1.25)
    assert text.count("\n") <= 40
    assert text.endswith("Total run time: 1.50 seconds (1.25 seconds for the tuning loop).")


def test_metrics_are_found_out_and_limited() -> None:
    trials = [finished(0, 1.0, a=1, b="text", c=2, nested={"d": 3}, e=4, f=5)]
    header = next(line for line in show(ready(), trials).splitlines() if line.startswith("| Trial"))
    assert [cell.strip() for cell in header.strip("|").split("|")][4:] == [
        *("loss", "a", "c", "e", "iter", "total time (s)")
    ]


def test_shown_metric_is_detected() -> None:
    trials = [finished(0, 1.0, a=1, b=2, c=3, d=4)]
    for metric, shown in (("loss", ["loss", "a", "b"]), ("d", ["d", "loss", "a"])):
        text = show(ready(CLIReporter(metric=metric, mode="min")), trials)
        header = next(line for line in text.splitlines() if line.startswith("| Trial"))
        assert [cell.strip() for cell in header.strip("|").split("|")][4:-2] == shown


def test_the_best_trial_is_shown_with_its_whole_configuration() -> None:
    trial = finished(0, 1.0, config={"lr": 0.1, "net": {"act": "relu"}, "data": list(range(1000)), "none": None})
    data = ", ".join(map(str, range(20)))
    line = f"Best: loss=1 with lr=0.1, data=[{data}, ...], none=None, net/act='relu' (trial t0000)"
    assert line in show(ready(), [trial])


def test_the_best_trial_is_shown_with_at_most_twenty_parameters() -> None:
    text = show(ready(), [finished(0, 1.0, config={f"p{number}": number for number in range(30)})])
    assert ", p19=19 (trial t0000)\n" in text


def test_values_that_are_not_finite_come_last() -> None:
    trials = [finished(0, math.inf), finished(1, 1.0), finished(2, math.nan), finished(3, 2.0)]
    text = show(ready(CLIReporter(sort_by_metric=True), mode="max"), trials)
    assert re.findall(r"\| train_t(\d+)", text) == ["0003", "0001", "0000", "0002"]


def test_a_trial_is_found_by_the_process_of_its_attempt() -> None:
    trial = run_trial(make_trial(0))
    trial.attempt.pid = 77
    assert "| 127.0.0.1:77 " in show(ready(), [trial])
    trial.record_result({"loss": 1.0, "pid": 66, "node_ip": "127.0.0.1"})
    assert "| 127.0.0.1:77 " in show(ready(), [trial]), "its last report is of an earlier attempt"


def test_the_objective_takes_the_place_of_a_metric_before_it_was_reported() -> None:
    trial = finished(0, 1.0, a=1, b=2, c=3)
    for infer_limit, shown in ((0, []), (1, []), (3, ["a", "b"])):
        text = show(ready(CLIReporter(infer_limit=infer_limit), metric="late"), [trial])
        header = next(line for line in text.splitlines() if line.startswith("| Trial"))
        assert [cell.strip() for cell in header.strip("|").split("|")][4:-2] == ["loss", *shown][
            : max(0, infer_limit - 1)
        ]


def test_columns_may_be_named_and_added() -> None:
    reporter = CLIReporter(metric_columns={"loss": "L"}, parameter_columns=["lr"])
    reporter.add_metric_column("acc", "accuracy")
    reporter.add_parameter_column("deep/size")
    trial = finished(0, 1.0, acc=3, config={"lr": 0.5, "deep": {"size": 7}})
    text = show(ready(reporter), [trial])
    assert "loc           |  lr | deep/size | L | accuracy |" in text
    assert "127.0.0.1:100 | 0.5 |         7 | 1 |        3 |" in text
    other = CLIReporter()
    other.add_metric_column("acc")
    assert "| acc |" in (shown := show(ready(other), [finished(0, 1.0, acc=3, f1=2)]))
    assert "f1" not in shown, "columns that were added replace those that are found out"
    with pytest.raises(ValueError, match="there once"):
        reporter.add_metric_column("acc")
    with pytest.raises(ValueError, match="renamed"):
        reporter.add_parameter_column("x", "y")


def test_the_usual_columns_can_be_taken_over() -> None:
    columns = {**CLIReporter.DEFAULT_COLUMNS, "loss": "LOSS"}
    assert list(columns.values()) == ["acc", "loss", "iter", "total time (s)", "ts", "reward", "LOSS"]
    shown = show(ready(CLIReporter(metric_columns=columns)), [finished(0, 0.5)])
    assert "| iter" in shown
    assert "| LOSS" in shown


def test_without_columns_for_metrics_none_is_inferred() -> None:
    trials = [finished(0, 0.5)]
    assert re.search(r"\| +loss +\|", show(ready(CLIReporter()), trials))
    assert not re.search(r"\| +loss +\|", show(ready(CLIReporter(metric_columns=[])), trials))


def test_cells_are_short_and_on_one_line() -> None:
    trial = finished(0, 1.0)

    class Odd:
        def __repr__(self) -> str:
            raise RuntimeError("no text")

    trial.evaluated_params = {"long": "x" * 50 + "end", "two": "a\nb", "odd": Odd(), "none": None, "big": 10**30}
    text = show(ready(), [trial])
    assert f"| ...{'x' * 14}end " in text
    assert "| a b " in text
    assert "| <Odd> " in text
    assert f"{10**30}" in text


def test_the_table_can_be_kept_for_the_end() -> None:
    reporter = ready(CLIReporter(print_intermediate_tables=False))
    trials = [finished(0, 1.0)]
    assert "Trial name" not in show(reporter, trials)
    assert "Trial name" in show(reporter, trials, done=True)


def test_without_a_metric_there_is_no_best_trial() -> None:
    assert "Best" not in show(ready(metric=None, mode=None), [finished(0, 1.0)])
    assert "Best: _metric=3" in show(ready(metric=None, mode="max"), [finished(0, 1.0, _metric=3)])


def test_table_of_thousands_of_trials_is_short() -> None:
    trials = [make_trial(number) for number in range(5000)]
    assert show(ready(), trials).count("\n") < 10


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
    assert last[-1] == "ValueError: bad value 0"
    assert "Number of errored trials: 100 (20 shown)" in text
    assert os.path.join(trials[0].local_path, "error.txt") in text
    assert "Traceback" not in show(ready(), trials)


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
    assert "disk full" not in show(ready(print_errors=False), trials, done=True)


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


def test_a_trial_that_was_saved_by_a_retry_is_marked() -> None:
    trial = finished(0, 1.0)
    trial.num_failures = 2
    text = show(ready(), [trial])
    assert "| train_t0000 | 2* " in text
    assert "* The trial finished after a retry." in text


# -- when ----------------------------------------------------------------------------------------------------------


def test_blocks_come_at_the_start_after_the_interval_and_at_the_end() -> None:
    with clock.use(clock.VirtualClock(50.0)):
        reporter = ready()
        assert reporter.seconds_left() == 0
        assert reporter.should_report([])
        assert not reporter.should_report([])
        assert reporter.seconds_left() == 30
        clock.current.sleep(29)
        assert not reporter.should_report([])
        assert reporter.seconds_left() == 1
        clock.current.sleep(1)
        assert reporter.should_report([])
        assert reporter.should_report([], done=True)


def test_the_time_counts_from_the_start_that_the_driver_names() -> None:
    with clock.use(clock.VirtualClock(1_000.0)):
        reporter = blocks()
        reporter.setup(start_time=900.0)
        assert "(running for 00:01:40.00)" in show(reporter, [])


@pytest.mark.parametrize(
    ("running_s", "text"), [(0.004, "00:00:00.00"), (59.996, "00:01:00.00"), (90_061.5, "1 days, 01:01:01.50")]
)
def test_the_time_of_a_run_is_rounded_to_hundredths_of_a_second(running_s: float, text: str) -> None:
    assert time_line(running_s).endswith(f" (running for {text})")


def test_a_reporter_may_know_the_total_that_the_driver_does_not() -> None:
    assert "Number of trials: 0/7\n" in show(ready(CLIReporter(total_samples=7), total_samples=None), [])


def test_at_level_0_nothing_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    reporter = ready(verbose=0)
    trial = finished(0, 1.0)
    assert not reporter.should_report([trial], done=True)
    reporter.trial_started(trial)
    reporter.trial_ended(trial)
    reporter.say("hello")
    assert reporter.seconds_left() is None
    assert capsys.readouterr().out == ""


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
        assert level == 2 or not lines
    assert lines == [
        "Trial train_t0004 started: lr=0.4",
        "Trial train_t0004 iteration 3: loss=1, acc=2, total time 1.23457 s",
        "Trial train_t0004 saved a checkpoint: /results/checkpoint_000001",
        "Trial train_t0004 ended after 3 iterations: loss=1, acc=2, total time 1.23457 s",
        f"Trial train_t0005 failed: broken ({broken.error_file})",
    ]


def test_at_level_2_the_objective_is_told_also_if_no_other_metric_is(capsys: pytest.CaptureFixture[str]) -> None:
    reporter, trial = ready(CLIReporter(infer_limit=0), verbose=2), finished(4, 1.0, acc=2.0)
    reporter.trial_result(trial, trial.last_result)
    assert capsys.readouterr().out == "Trial train_t0004 iteration 3: loss=1, total time 1.23457 s\n"


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
        reporter.report([trial], False)
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


def test_metric_and_mode_of_the_reporter_stay() -> None:
    trials = [finished(0, 1.0), finished(1, 2.0)]
    assert "(trial t0000)" in show(ready(CLIReporter()), trials)
    assert "(trial t0001)" in show(ready(CLIReporter(metric="loss", mode="max")), trials)
    assert "(trial t0001)" in show(ready(CLIReporter(mode="max")), trials), "the metric of the run, and its own mode"


def test_sorting_needs_a_metric(caplog: pytest.LogCaptureFixture) -> None:
    ready(CLIReporter(sort_by_metric=True), metric=None, mode=None)
    assert "sort_by_metric has no effect" in caplog.text
    text = show(ready(CLIReporter(sort_by_metric=True)), [finished(0, 2.0), finished(1, 1.0)])
    assert text.index("| train_t0001") < text.index("| train_t0000")


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
        trial.num_failures = 1
    named = ", ".join(f"train_t{number:04d}" for number in range(min(count, 5)))
    assert retried_text(trials) == [f"Finished after a retry: {named}{more} (their error.txt has the failures)"]


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


def test_an_erased_block_comes_back_after_a_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = [100.0]
    monkeypatch.setattr("minitune.output.reporters.time.monotonic", lambda: now_s[0])
    with clock.use(clock.VirtualClock(50.0)):
        reporter = ready()
        screen: Any = SimpleNamespace(is_erased=False, size=lambda: (80, 20), draw=lambda lines: None)
        reporter._screen = screen
        assert reporter.should_report([])
        reporter.report([], False)
        assert (reporter.should_report([]), reporter.seconds_left()) == (False, 30)
        screen.is_erased = True
        assert (reporter.should_report([]), reporter.seconds_left()) == (False, pytest.approx(0.1))
        now_s[0] += 0.06
        assert (reporter.should_report([]), reporter.seconds_left()) == (False, pytest.approx(0.04))
        now_s[0] += 0.06
        assert (reporter.should_report([]), reporter.seconds_left()) == (True, 0.0)
        clock.current.sleep(29.95)
        now_s[0] -= 0.12
        assert reporter.seconds_left() == pytest.approx(0.05), "the next block comes sooner"
        reporter._screen = None
