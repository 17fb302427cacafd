"""The live view on a terminal: its lines, and that it leaves all other output on the screen unchanged."""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
import time
from itertools import pairwise

import pytest
from kit import (
    cut as cut_off,
)
from kit import (
    fit,
    listening,
    make_trial,
    raiser,
    report_state,
    restored_state,
    resume,
    run_path,
    run_trial,
)
from terminal import Terminal

import minitune as tune
from minitune import Callback
from minitune.base import clock
from minitune.base.clock import VirtualClock
from minitune.base.text import Console
from minitune.commands import cli
from minitune.error import trial_error_of_text
from minitune.executors.devices import Machine
from minitune.executors.inline import InlineTrialExecutor
from minitune.experiment.lifecycle import Transition
from minitune.output.live import (
    RunSnapshot,
    progress_text,
    render_html,
)
from minitune.output.live_reporter import default_reporter
from minitune.output.reporters import RunInfo
from minitune.output.screen import open_screen


@pytest.fixture
def terminal(monkeypatch, request):
    """A terminal; a parameter is its encoding."""
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    return Terminal(encoding=getattr(request, "param", "utf-8"))


def train(config):
    if config["x"] % 10 == 9:
        raise ValueError(f"no {config['x']}")
    tune.report({"loss": config["x"]})


def fit_four(count=4, callbacks=(), **run):
    space = {"x": tune.grid_search(list(range(count)))}
    settings = {"metric": "loss", "mode": "min", "name": None, "verbose": None, **run}
    fit(train, space, callbacks=list(callbacks), **settings)


# -- lines -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("counts", "total", "rest_s", "text"),
    [
        ({"finished": 1, "running": 3}, 9, 60.0, "1/9 trials, about 1 min to go"),
        ({"finished": 1, "running": 3}, 9, 0.2, "1/9 trials, about 1 s to go"),
        ({"finished": 1, "running": 3}, 9, None, "1/9 trials"),
        ({"finished": 1}, None, 60.0, "1 trial, about 1 min to go"),
        ({"finished": 7}, None, None, "7 trials"),
        ({"finished": 1}, 1, None, "1/1 trial"),
        ({"finished": 9}, 9, 60.0, "9/9 trials"),
        ({"failed": 1, "stopped": 1, "interrupted": 1, "pending": 5}, 8, None, "3/8 trials"),
    ],
)
def test_progress_tells_what_is_left(counts, total, rest_s, text):
    assert progress_text(RunSnapshot("run", 5, counts, total=total, rest_s=rest_s)) == text


# -- the screen --------------------------------------------------------------------------------------------------------


def begin():
    screen = open_screen()
    assert screen is not None
    return screen


def test_other_output_stays_above_the_block(terminal):
    log = logging.Logger("mine")
    with terminal:
        log.addHandler(logging.StreamHandler())  # uses the present stream
        print("before")
        screen = begin()
        for i in range(4):
            screen.draw([f"block {i}", "second line"])
        print("printed")
        screen.draw(["block 5"])
        log.warning("logged")
        screen.draw(["block 6"])
        print("warned", file=sys.stderr)
        print("half a", end=" ")
        screen.draw(["block 7", "second line"])
        print("line")
        screen.write("said\n")
        screen.draw(["block 8"])
        screen.close()
        print("after")
        assert "write" not in vars(terminal.stream)

    assert terminal.lines() == [
        *("before", "printed", "logged", "warned", "half a", "line", "said", "block 8", "after", "")
    ]
    assert ["before", "block 3", "second line", ""] in terminal.frames
    assert any(frame[-4:] == ["half a", "block 7", "second line", ""] for frame in terminal.frames)


def test_after_a_resize_the_block_is_found_again(terminal):
    with terminal:
        print("before")
        terminal.resize(200, 30)
        screen = begin()
        assert screen.size() == (199, 28)
        screen.draw(["x" * 120, "y"])  # the terminal has 100 columns by now, so it has broken the first line
        terminal.resize(100, 30)
        screen.draw(["z"])
        screen.close()
    assert terminal.lines() == ["before", "z", ""]


def test_one_run_at_a_time_draws(terminal):
    with terminal:
        screen = begin()
        screen.draw(["block"])
        assert open_screen() is None
        fit_four(1)
        screen.draw(["block"])
        screen.close()
        begin().close()
    lines = terminal.lines()
    assert lines[0].startswith("Run of 1 trial ")
    assert any(line.startswith("Results: ") for line in lines)
    assert lines[-2:] == ["block", ""]
    assert lines.count("block") == 1


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")  # the terminal's reader is a thread
def test_a_fork_prints_plainly(terminal):
    with terminal:
        screen = begin()
        screen.draw(["block"])
        pid = os.fork()
        if pid == 0:
            sys.stdout.write("child\n")
            os._exit(0)
        os.waitpid(pid, 0)
        screen.close()
    assert terminal.lines() == ["block", "child", ""]


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_fork_may_have_a_screen_of_its_own(terminal):
    with terminal:
        screen = begin()
        pid = os.fork()
        if pid == 0:
            os._exit(open_screen() is None)
        assert os.waitpid(pid, 0)[1] == 0
        screen.close()


def test_a_terminal_without_a_size_counts_as_one_of_80_columns(terminal):
    with terminal:
        terminal.resize(0, 0)
        screen = begin()
        assert screen.size() == (79, 22)
        assert Console().columns() is None, "a table has all its columns"
        screen.close()


def test_a_process_in_the_background_draws_nothing(terminal, monkeypatch):
    group = [os.getpgrp() + 1]
    monkeypatch.setattr(os, "tcgetpgrp", lambda descriptor: group[0])
    with terminal:
        screen = begin()
        screen.draw(["in the background"])
        group[0] = os.getpgrp()
        screen.draw(["in the foreground"])
        screen.close()
    assert terminal.lines() == ["in the foreground", ""]
    assert not any("in the background" in frame for frame in terminal.frames)


def test_a_function_that_other_code_has_put_in_place_of_write_stays(terminal):
    written = []
    write = terminal.stream.write

    def noting(text):
        written.append(text)
        return write(text)

    with terminal:
        terminal.stream.write = noting  # type: ignore[method-assign]
        begin().close()
        assert terminal.stream.write is noting
        print("after", end="")
    assert "".join(written) == "after"


# -- runs --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["dumb", "unknown"])
def test_a_terminal_that_cannot_move_its_cursor_gets_lines(name, terminal, monkeypatch):
    monkeypatch.setenv("TERM", name)
    with terminal:
        fit_four()
    assert "\x1b" not in terminal.raw
    assert terminal.lines()[0].startswith("Run of 4 trials (min loss); results in")


class OnResult(Callback):
    def __init__(self, function):
        self._function = function

    def on_trial_result(self, iteration, trials, trial, result, **info):
        self._function(trial.config["x"])


def test_a_run_draws_below_its_prints_and_leaves_no_bar_behind(terminal, monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")
    handler = signal.getsignal(signal.SIGCONT)
    with terminal:
        fit_four(12, [OnResult(lambda x: print("result", x))])
        fit_four(1, name="second")
    assert signal.getsignal(signal.SIGCONT) is handler

    lines = terminal.lines()
    assert [line for line in lines if line.startswith("result ")] == [f"result {x}" for x in range(12) if x != 9]
    (error,) = (line for line in lines if line.startswith("ValueError: no 9 (trial "))
    assert lines.index("result 8") < lines.index(error) < lines.index("result 10")
    assert any(line.endswith(" s: 11 finished, 1 failed") for line in lines)
    assert not any("[---" in line for line in lines)
    assert any("[---" in line for frame in terminal.frames for line in frame)
    assert "\x1b[1m" not in terminal.raw
    assert any(line.startswith("Results: ") for line in lines)


def test_the_end_of_a_long_run_on_a_small_terminal(terminal):
    terminal.columns = 60
    terminal.resize(60, 30)
    with terminal:
        fit_four(100)
    lines = terminal.lines()
    (head,) = (line for line in lines if line.startswith("| Trial name"))
    assert {len(line) for line in lines if line.startswith(("| ", "+-"))} == {len(head)}
    assert "| loss " in head
    assert sum("no space for" in line for line in lines) == 1
    assert lines.count("ValueError: no 9") == 1
    assert "9moretrialswiththesameerror" in "".join(lines).replace(" ", "")


@pytest.mark.parametrize(("importing", "what"), [("", "loading the trainable"), ("torch", "importing torch")])
def test_before_a_trial_begins_the_view_tells_the_state(terminal, now_s, importing, what):
    trials = [make_trial(number) for number in range(3)]
    with terminal:
        reporter = ready()
        reporter.note_run(RunInfo(importing=importing))
        reporter.report(trials, False)
        for trial in trials[:2]:
            trial.move(Transition.START)
        now_s[0] += 2
        reporter.report(trials, False)
        trials[0].move(Transition.TRAIN)
        now_s[0] += 2
        reporter.report(trials, False)
        reporter.close()
    has_line = [f"starting 2 workers ({what})" in frame for frame in terminal.frames]
    assert has_line[-3:] == [False, True, False]


def test_of_very_many_running_trials_a_hundred_have_a_row():
    view = default_reporter()._snapshot([run_trial(make_trial(number)) for number in range(130)])
    assert len(view.running) == 100
    assert "... 30 more running<" in render_html(view)


def says_hello(config):
    print("hello")
    tune.report({"loss": 1})


@pytest.mark.parametrize(
    ("run", "line"),
    [
        ({"executor": "local"}, "Prints of trials: minitune logs {path} TRIAL"),
        ({"executor": "local", "log_to_file": "out.txt"}, None),
        ({"executor": "local", "show_output": True}, None),
        ({"executor": "inline"}, None),
    ],
)
def test_one_line_tells_where_prints_go(run, line, capfd):
    fit(says_hello, {"x": tune.grid_search([1, 2])}, verbose=1, **run)
    lines = capfd.readouterr().out.splitlines()
    assert [text for text in lines if "rints of" in text] == ([] if line is None else [line.format(path=run_path())])


def test_a_run_in_a_thread_draws_too(terminal):
    with terminal:
        thread = threading.Thread(target=fit_four)
        thread.start()
        thread.join()
    assert any(line.endswith(" s: 4 finished") for line in terminal.lines())


def test_a_resumed_run_tells_how_many_trials_had_ended(capsys):
    space = {"x": tune.grid_search([1, 2, 3])}
    cut_off(train, space, results=2, metric="loss", mode="min", max_concurrent_trials=1)
    resume(train, verbose=1)
    assert f"Run of 3 trials, 1 already ended (min loss); results in {run_path()}\n" in capsys.readouterr().out


def test_of_a_run_without_a_metric_the_only_reported_one_is_dropped_last(terminal):
    terminal.columns = 36
    terminal.resize(36, 30)
    with terminal:
        fit(train, {"x": tune.grid_search([1, 2])}, verbose=1)
    (head,) = (line for line in terminal.lines() if line.startswith("| Trial name"))
    assert "| loss " in head


def test_a_pipe_gets_few_lines(capfd):
    fit_four(200)
    text, errors = capfd.readouterr()
    assert len(text.splitlines()) <= 40
    assert "\x1b" not in text
    assert text.count("ValueError: no 9 (trial ") == 1
    assert " s: 180 finished, 20 failed\n" in text
    assert errors == ""


# -- when --------------------------------------------------------------------------------------------------------------


@pytest.fixture
def now_s(monkeypatch):
    """A clock to set."""
    now = [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    return now


def ready():
    reporter = default_reporter()
    reporter.configure(verbose=1, print_errors=True)
    reporter.setup(total_samples=10, metric="loss", mode="min")
    return reporter


def test_pauses_between_lines_grow(now_s, capsys):
    reporter = ready()
    at = []
    for second in range(6 * 3600):
        now_s[0] = 1000.0 + second
        if reporter.should_report([]):
            reporter.report([], False)
            at.append(second)
    assert at[:4] == [0, 5, 13, 25]
    assert len(at) < 50
    assert max(b - a for a, b in pairwise(at)) == 600
    assert len(capsys.readouterr().out.splitlines()) == len(at)


def test_redraws_that_take_long_become_rare_but_a_single_one_does_not_count(terminal, now_s, monkeypatch):
    costs_s = [5.0, 0.0, 2.0, 3.0]
    waits_s = []

    def slow(*arguments, **choices):
        now_s[0] += costs_s.pop(0)
        return ["a line"]

    monkeypatch.setattr("minitune.output.live_reporter.render", slow)
    with terminal:
        reporter = ready()
        while costs_s:
            reporter.report([], False)
            waits_s.append(reporter.seconds_left())
        reporter.close()
    assert waits_s == [0.5, 0.5, 0.5, 100.0], "redraws take at most 2 % of the time"


# -- from another process ----------------------------------------------------------------------------------------------


def ten_seconds_each(config):
    for step in range(restored_state(), 4):
        clock.current.sleep(10)
        report_state(step + 1, {"loss": config["x"] / (step + 1), "a": 1, "b": 2, "c": 3})


@pytest.mark.parametrize("is_resumed", [False, True])
@pytest.mark.parametrize("budget_s", [None, 115])
def test_watch_shows_the_view_of_the_driver_in_the_middle_of_a_run(is_resumed, budget_s, capsys, monkeypatch):
    reporter = default_reporter()
    shown = []

    def look(trials, **info):
        capsys.readouterr()
        reporter._tell_progress(trials)
        by_driver = capsys.readouterr().out
        with monkeypatch.context() as patch:
            patch.setattr("minitune.commands.watch.time.sleep", raiser(KeyboardInterrupt()))
            assert cli.main(["watch", str(run_path())]) == 130
        shown.append((by_driver, capsys.readouterr().out.splitlines(keepends=True)[-1]))

    space = {"x": tune.grid_search([3, 2, 1, 4])}
    settings = {
        "metric": "loss",
        "mode": "min",
        "stop": {"training_iteration": 4},
        "max_concurrent_trials": 1,
        "time_budget_s": budget_s,
    }
    views = {"callbacks": [listening(on_step_end=look)], "progress_reporter": reporter, "verbose": 1}
    with clock.use(VirtualClock(1e9)):  # before the run is opened, because its record has the time

        def executor():
            return InlineTrialExecutor(Machine({"CPU": 1}, ()), clock.current)

        if is_resumed:
            cut_off(ten_seconds_each, space, results=5, executor=executor(), **settings)
            resume(ten_seconds_each, executor=executor(), **settings, **views)
        else:
            fit(ten_seconds_each, space, executor=executor(), **settings, **views)

    assert len(shown) > 10
    for by_driver, by_watch in shown:
        assert by_watch == by_driver
    assert any("2/4 trials" in line and " to go" in line for line, _ in shown)


# -- lines in a pipe ---------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("setup", "info", "lines"),
    [
        ({"total_samples": 3}, {}, ["Run of 3 trials; results in /runs/it"]),
        ({"total_samples": 1, "metric": "loss", "mode": "min"}, {}, ["Run of 1 trial (min loss); results in /runs/it"]),
        ({"total_samples": -1}, {}, ["Run of trials without end; results in /runs/it"]),
        ({"total_samples": sys.maxsize}, {}, ["Run of trials without end; results in /runs/it"]),
        ({"total_samples": None}, {}, ["Run of trials without end; results in /runs/it"]),
        ({"total_samples": 3}, {"ended_before": 2}, ["Run of 3 trials, 2 already ended; results in /runs/it"]),
        (
            {"total_samples": 3, "metric": ["loss", "acc"], "mode": ["min", "max"]},
            {"ended_before": 0},
            ["Run of 3 trials (min loss, max acc); results in /runs/it"],
        ),
        ({"total_samples": 3, "metric": "loss"}, {}, ["Run of 3 trials; results in /runs/it"]),
        (
            {"total_samples": 3},
            {"path": "/my runs/it", "outputs": ("stdout", "stderr")},
            ["Run of 3 trials; results in /my runs/it", "Prints of trials: minitune logs '/my runs/it' TRIAL"],
        ),
    ],
)
def test_a_run_begins_with_a_line_on_its_size_its_goal_and_its_place(setup, info, lines, capsys):
    reporter = default_reporter()
    reporter.configure(verbose=1, print_errors=True)
    reporter.setup(start_time=time.time(), **setup)
    reporter.note_run(RunInfo(**{"path": "/runs/it", **info}))
    assert reporter.should_report([])
    reporter.report([], False)
    assert capsys.readouterr().out.splitlines() == lines
    assert not reporter.should_report([]), "the next line comes after some seconds"


def test_a_pipe_gets_a_line_on_the_progress(capsys):
    with clock.use(VirtualClock(1000.0)):
        trials = [
            run_trial(make_trial(number, config={"x": number}, evaluated_params={"x": number})) for number in (0, 1)
        ]
        reporter = default_reporter()
        reporter.configure(verbose=1, print_errors=True)
        reporter.setup(start_time=1000.0, total_samples=4, metric="loss", mode="min")
        reporter.report([], False)
        trials[0].record_result({"loss": 0.5, "training_iteration": 2})
        trials[0].move(Transition.STOP)
        clock.current.sleep(60.0)
        reporter.report(trials, False)
    _, line = capsys.readouterr().out.splitlines()
    assert line.startswith("1 min: 1/4 trials, about ")
    assert line.endswith(" to go, 1 running. Best: loss=0.5 with x=0 (trial t0000)")


def test_errors_are_told_once_for_each_kind_and_at_most_five(capsys):
    reporter = default_reporter()
    reporter.configure(verbose=1, print_errors=True)
    reporter.setup(start_time=time.time(), total_samples=20)
    for number, text in enumerate(["E: a", "E: 1", "E: 2", "E: b", "E: c", "E: d", "E: e"]):
        trial = run_trial(make_trial(number))
        trial.error = trial_error_of_text(text)
        trial.move(Transition.FAIL)
        reporter.trial_ended(trial)
    told = [line.partition(" (trial ")[0] for line in capsys.readouterr().out.splitlines()]
    assert told == ["E: a", "E: 1", "E: b", "E: c", "E: d"]
