"""Reporters: the end of a run, columns and limits of the user's choice, errors, and output that cannot be written."""

from __future__ import annotations

import contextlib
import io
import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest
from kit import REPOSITORY, make_trial, run_trial

from minitune.base import clock
from minitune.error import RemoteError, trial_error, trial_error_of_text
from minitune.experiment.lifecycle import Transition
from minitune.output.live_reporter import CLIReporter
from minitune.output.reporters import ProgressReporter

SCRIPTS = Path(__file__).with_name("scripts")


def finished(number, loss, *, config=None, **result):
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


def failed(number, error=None, text=""):
    trial = run_trial(make_trial(number, experiment_path="/results/run"))
    trial.num_failures = 1
    trial.error = trial_error_of_text(text) if error is None else trial_error(RemoteError.of(error))
    trial.move(Transition.FAIL)
    return trial


def show(reporter, trials, done=False):
    """The text that a reporter writes, if standard output is a plain object."""
    with contextlib.redirect_stdout(io.StringIO()) as stream:
        if reporter.should_report(trials, done):
            reporter.report(trials, done)
    return stream.getvalue()


def ready(reporter=None, **kwargs):
    reporter = reporter or CLIReporter(infer_limit=4)
    levels = {"verbose": kwargs.pop("verbose", 1), "print_errors": kwargs.pop("print_errors", True)}
    reporter.configure(**levels)
    reporter.setup(start_time=clock.current.time(), **{"total_samples": 3, "metric": "loss", "mode": "min", **kwargs})
    return reporter


def head_of(reporter, trials):
    """The headers of the table at the end, without those of the trial."""
    text = show(ready(reporter), trials, done=True)
    header = next(line for line in text.splitlines() if line.startswith("| Trial"))
    return [cell.strip() for cell in header.strip("|").split("|")][2:]


# -- the end -----------------------------------------------------------------------------------------------------------


def test_columns_may_be_named_and_added():
    reporter = CLIReporter()
    reporter.add_metric_column("acc", "accuracy")
    trial = finished(0, 1.0, acc=3, f1=2)
    found = head_of(reporter, [trial])
    assert "accuracy" in found
    assert "f1" not in found, "columns that were added replace those that are found out"
    assert head_of(CLIReporter(metric_columns=[]), [trial]) == ["lr"]
    usual = {**CLIReporter.DEFAULT_COLUMNS, "loss": "LOSS"}
    assert list(usual.values()) == ["acc", "loss", "iter", "total time (s)", "ts", "reward", "LOSS"]
    assert head_of(CLIReporter(metric_columns=usual), [trial]) == ["lr", "iter", "total time (s)", "LOSS"]
    with pytest.raises(ValueError, match="there once"):
        reporter.add_metric_column("acc")


# -- when ----------------------------------------------------------------------------------------------------------


def test_the_first_line_comes_after_the_pause_of_the_users_choice(monkeypatch):
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
    assert never.seconds_left() == 0.5, "the driver has other work"


def test_at_level_2_each_step_of_a_trial_is_a_line(capsys):
    for level in (1, 2):
        reporter = ready(verbose=level)
        trial, broken = finished(4, 1.0, acc=2.0), failed(5, text="broken\nbadly")
        reporter.trial_result(trial, trial.last_result)
        reporter.trial_ended(trial)
        reporter.trial_ended(broken)
        lines = capsys.readouterr().out.splitlines()
        assert level == 2 or lines == [f"broken (trial train_t0005, {broken.error_file})"]
    assert lines == [
        "Trial train_t0004 iteration 3: loss=1, acc=2",
        "Trial train_t0004 ended after 3 iterations: loss=1, acc=2",
        f"Trial train_t0005 failed: broken ({broken.error_file})",
    ]


def test_a_trial_that_never_began_ends_without_a_word(capsys):
    reporter, trial = ready(verbose=2), make_trial(4)
    trial.move(Transition.STOP)
    reporter.trial_ended(trial)
    assert capsys.readouterr().out == ""
    trial.attempt.number = 1
    reporter.trial_ended(trial)
    assert capsys.readouterr().out == "Trial train_t0004 ended after 0 iterations\n"


# -- no one to read ------------------------------------------------------------------------------------------------


class Broken(io.StringIO):
    def __init__(self, error):
        super().__init__()
        self.error = error

    def write(self, text):
        raise self.error


@pytest.mark.parametrize(
    "stream",
    [None, Broken(BrokenPipeError(32, "Broken pipe")), Broken(OSError(28, "No space left")), "closed"],
)
def test_output_goes_off_after_one_warning(stream, monkeypatch, caplog):
    if stream == "closed":
        stream = io.StringIO()
        stream.close()
    reporter = ready(verbose=2)
    monkeypatch.setattr(sys, "stdout", stream)
    trial = finished(0, 1.0)
    for _ in range(3):
        reporter.report([trial], True)
        assert not reporter.should_report([trial], done=True)
    monkeypatch.undo()
    assert [record.levelno for record in caplog.records] == [logging.WARNING]
    assert reporter.seconds_left() is None


def test_text_that_the_stream_cannot_show_is_replaced(monkeypatch):
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding="ascii")
    monkeypatch.setattr(sys, "stdout", stream)
    reporter = ready(verbose=2)
    reporter.say("größe \ud800")
    monkeypatch.undo()
    assert raw.getvalue() == b"gr??e ?\n"


def run_script(stdout, waits):
    return subprocess.Popen(
        [sys.executable, SCRIPTS / "reports_progress.py", *(["waits"] if waits else [])],
        stdin=subprocess.PIPE,
        stdout=stdout,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
    )


def test_a_script_whose_reader_has_gone_ends_well():
    reader, writer = os.pipe()
    process = run_script(writer, waits=True)
    os.close(writer)
    os.close(reader)
    _, errors = process.communicate("", timeout=60)
    assert process.returncode == 0
    assert errors.count("No more progress is shown") == 1
    assert errors.rstrip().endswith("the run goes on")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_a_script_on_a_full_disk_ends_well():
    with open("/dev/full", "w") as full:
        process = run_script(full, waits=False)
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 0
    assert errors.count("No more progress is shown") == 1


def test_a_script_sees_its_own_output_in_order(tmp_path):
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


def test_a_reporter_must_say_when_and_what_it_reports():
    reporter = ProgressReporter()
    with pytest.raises(NotImplementedError, match=r"ProgressReporter has to define should_report\(trials, done\)"):
        reporter.should_report([])
    with pytest.raises(NotImplementedError, match=r"ProgressReporter has to define report\("):
        reporter.report([], False)
