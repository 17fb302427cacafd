"""The live view on a terminal: its lines, and that it leaves all other output on the screen unchanged."""

from __future__ import annotations

import logging
import os
import re
import signal
import sys
import threading
import time
import types
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import Any

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
from minitune.base.text import Console, width_of, without_codes
from minitune.commands import cli
from minitune.error import trial_error_of_text
from minitune.executors.devices import Machine
from minitune.executors.inline import InlineTrialExecutor
from minitune.experiment.lifecycle import Transition
from minitune.experiment.trial import Trial
from minitune.output.live import (
    ErrorKind,
    RunSnapshot,
    best_row_text,
    progress_text,
    render,
    render_html,
)
from minitune.output.live_reporter import default_reporter
from minitune.output.reporters import ProgressReporter, RunInfo
from minitune.output.screen import Screen, open_screen
from minitune.view.rows import TrialRow

ROW = TrialRow(
    name="train_日本_00001",
    number=1,
    state="running",
    ended="running",
    params={"lr": 0.1, "opt/decay": 1e-5},
    metrics={"loss": 0.5, "acc": 1, "training_iteration": 3, "time_total_s": 62.0},
)
DONE = replace(ROW, state="finished", ended="finished")
FULL = RunSnapshot(
    "train_today",
    83.2,
    {"running": 8, "finished": 21, "failed": 2},
    total=50,
    per_s=0.3,
    rest_s=222.0,
    goal=("loss", "min"),
    best=[replace(DONE, number=number) for number in range(2, 7)],
    running=[replace(ROW, number=number) for number in (1, *range(7, 14))],
    params={"lr": "lr", "opt/decay": "opt/decay"},
    metrics={"loss": "loss", "acc": "acc", "training_iteration": "iter", "time_total_s": "total time (s)"},
    errors=[ErrorKind("ValueError: \x1b[2Jno", 2, "/results/error.txt")],
    resources=["2/4 CPUs"],
)


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Terminal:
    """A terminal; a parameter is its encoding."""
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    return Terminal(encoding=getattr(request, "param", "utf-8"))


def train(config: dict[str, Any]) -> None:
    if config["x"] % 10 == 9:
        raise ValueError(f"no {config['x']}")
    tune.report({"loss": config["x"]})


def fit_four(count: int = 4, callbacks: Any = (), at_once: int | None = None, **run: Any) -> None:
    space = {"x": tune.grid_search(list(range(count)))}
    settings = {"metric": "loss", "mode": "min", "max_concurrent_trials": at_once, "name": None, "verbose": None, **run}
    fit(train, space, callbacks=list(callbacks), **settings)


# -- lines -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("width", [10, 40, 60, 100, 250])
@pytest.mark.parametrize("height", [1, 2, 5, 12, 50])
def test_the_view_keeps_to_the_size_it_is_given(width: int, height: int) -> None:
    lines = render(FULL, width, height)
    assert 0 < len(lines) <= height
    assert max(map(width_of, lines)) <= width
    assert not any("\x1b" in line for line in lines)


@pytest.mark.parametrize("width", [10, 40, 100, 250])
def test_colours_change_no_text_of_the_view(width: int) -> None:
    drawn = render(FULL, width, 30, color=True)
    assert [without_codes(line) for line in drawn] == render(FULL, width, 30)


def test_states_have_their_colours_in_the_view() -> None:
    snapshot = replace(FULL, counts={"running": 8, "stopped": 20, "failed": 2})
    text = "\n".join(render(snapshot, 250, 30, color=True))
    assert "\x1b[36m8 running\x1b[0m\x1b[1m, \x1b[90m20 stopped\x1b[0m\x1b[1m, \x1b[31m2 failed\x1b[0m\x1b[1m" in text
    assert "\x1b[36mrunning\x1b[0m" in text


def test_the_view_shows_pace_states_errors_and_what_it_leaves_out() -> None:
    text = "\n".join(render(FULL, 100, 18))
    assert "23/50 trials, 18 per min, about 3 min 42 s to go" in text
    assert "8 running, 21 finished, 2 failed" in text
    assert "2 errors: ValueError: no (/results/error.txt)" in text
    assert "... 2 more running" in text
    assert any(line.startswith("\x1b[") for line in render(FULL, 100, 30, color=True))
    assert "█" not in "".join(render(FULL, 100, 30, ascii_only=True))


def test_the_bar_tells_trials_that_have_ended_from_those_that_run() -> None:
    half = replace(FULL, total=40, counts={"running": 10, "finished": 18, "failed": 2})
    (line,) = (line for line in render(half, 120, 18) if "20/40" in line)
    marks = line.split()[0]
    assert (marks.count("█"), marks.count("▒"), marks.count("░")) == (15, 7, 8)
    (line,) = (line for line in render(half, 120, 18, ascii_only=True) if "20/40" in line)
    assert line.split()[0] == f"[{'#' * 15}{'=' * 7}{'-' * 8}]"
    assert 'style="width:50.0%"></div><div class="light" style="width:25.0%"' in render_html(half)


def heads(lines: list[str]) -> list[str]:
    """The headers of the table of trials."""
    (head,) = (line for line in lines if line.startswith("Trial name "))
    return re.split(" {2,}", head)


def test_the_best_five_stand_above_those_that_run_in_the_same_columns() -> None:
    others = [
        replace(DONE, name=f"train_{n}", params={"lr": n / 10}, metrics={"loss": n}, number=n) for n in range(1, 6)
    ]
    lines = render(replace(FULL, best=others, errors=[]), 100, 40)
    head = next(n for n, line in enumerate(lines) if line.startswith("Trial name "))
    assert heads(lines) == ["Trial name", "status", "lr", "opt/decay", "loss", "acc", "iter", "total time (s)"]
    assert lines[head + 1] == "best so far (min loss)"
    assert [line.split()[:4] for line in lines[head + 2 : head + 7]] == [
        [f"train_{n}", "finished", str(n / 10), str(n)] for n in range(1, 6)
    ]
    assert "finished" in lines[head + 2]
    assert lines[head + 7] == "running"
    assert lines[head + 8].split()[1:5] == ["running", "0.1", "1e-05", "0.5"]
    assert len(lines) == head + 16


def test_no_trial_is_shown_twice() -> None:
    rows = [replace(ROW, name=f"train_{n}", number=n) for n in range(4)]
    finished = replace(DONE, name="train_9", number=9)
    view = replace(FULL, counts={"running": 4, "finished": 1}, best=[rows[2], finished, rows[0]], errors=[])

    lines = render(replace(view, running=rows), 100, 40)
    names = [line.split()[0] for line in lines[lines.index("best so far (min loss)") + 1 :]]
    assert names == ["train_2", "train_9", "train_0", "also", "train_1", "train_3"]
    html = render_html(replace(view, running=rows))
    assert [html.count(f">train_{n}<") for n in (0, 1, 2, 3, 9)] == [1] * 5
    assert "more running" not in html

    lines = render(replace(view, running=rows), 100, 8)
    names = [line.split()[0] for line in lines[lines.index("best so far (min loss)") + 1 :]]
    assert names == ["train_2", "train_9", "..."], "train_0 does not fit among the best"
    assert lines[-1] == "... 3 more running"

    lines = render(replace(view, running=[rows[2], rows[0]], counts={"running": 2, "finished": 1}), 100, 40)
    assert len(lines) == lines.index("best so far (min loss)") + 4, "all that run are among the best"


@pytest.mark.parametrize(
    ("width", "shown"),
    [
        (100, ["Trial name", "status", "lr", "opt/decay", "loss", "acc", "iter", "total time (s)"]),
        (80, ["Trial name", "status", "lr", "opt/decay", "loss", "acc", "iter"]),
        (50, ["Trial name", "status", "lr", "opt/decay", "loss"]),
        (40, ["Trial name", "status", "lr", "loss"]),
        (30, ["Trial name", "loss"]),
    ],
)
def test_the_objective_the_status_and_the_parameters_are_dropped_last(width: int, shown: list[str]) -> None:
    lines = render(replace(FULL, best=[]), width, 40)
    assert heads(lines) == shown
    assert any(line.startswith("(no space") for line in lines) is (width < 100)


def test_the_nodes_are_shown_if_there_are_several() -> None:
    here, there = replace(ROW, node="10.0.0.1"), replace(ROW, node="10.0.0.2")
    there, unknown = replace(there, number=2), replace(ROW, number=3)
    lines = render(replace(FULL, best=[here], running=[there, unknown]), 120, 40)
    assert heads(lines)[-2:] == ["total time (s)", "node"]
    assert re.findall(r"10\.0\.0\.\d", "".join(lines)) == ["10.0.0.1", "10.0.0.2"]
    lines = render(replace(FULL, best=[here], running=[here, unknown]), 120, 40)
    assert not any("10.0.0.1" in line for line in lines)


def test_a_small_terminal_keeps_the_bar_and_the_best() -> None:
    lines = render(FULL, 100, 2)
    assert lines[0].startswith(("█", "23/50"))
    assert lines[1].startswith("best loss=0.5, iteration 3, train_日本_00001: lr=0.1, opt/decay=1e-05")


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
def test_progress_tells_what_is_left(
    counts: dict[str, int], total: int | None, rest_s: float | None, text: str
) -> None:
    assert progress_text(RunSnapshot("run", 5, counts, total=total, rest_s=rest_s)) == text


@pytest.mark.parametrize(
    ("per_s", "text"),
    [
        (2.5, "2.5 per s"),
        (1.0, "1 per s"),
        (0.5, "30 per min"),
        (1 / 60, "1 per min"),
        (0.01, "36 per h"),
        (0.0001, "0.36 per h"),
    ],
)
def test_the_rate_has_the_unit_in_which_it_is_at_least_one(per_s: float, text: str) -> None:
    assert progress_text(RunSnapshot("run", 5, {"finished": 2}, per_s=per_s)) == f"2 trials, {text}"


def test_the_best_trial_is_told_with_twenty_parameters_and_without_an_iteration_before_it_has_one() -> None:
    params = {f"p{n}": n for n in range(30)}
    told = ", ".join(f"p{n}={n}" for n in range(20))
    assert (
        best_row_text(TrialRow(name="train_1", params=params, metrics={"loss": 0.5, "acc": 1}))
        == f"loss=0.5, train_1: {told}"
    )
    assert best_row_text(TrialRow(name="train_1")) == "train_1"


def test_the_view_says_why_the_run_ends() -> None:
    assert (
        "1 min 23 s (interrupted by SIGINT): 8 running"
        in render(replace(FULL, note="interrupted by SIGINT"), 200, 9)[0]
    )


def test_of_many_kinds_of_errors_three_are_told_and_the_trials_of_the_others_counted() -> None:
    errors = [ErrorKind(f"E{n}", 10 - n, f"/{n}/error.txt") for n in range(5)]
    assert render(replace(FULL, errors=errors), 100, 40)[-4:] == [
        "10 errors: E0 (/0/error.txt)",
        "9 errors: E1 (/1/error.txt)",
        "8 errors: E2 (/2/error.txt)",
        "13 more errors of other kinds",
    ]


def test_the_path_of_an_error_is_told_whole_or_not_at_all() -> None:
    view = replace(FULL, errors=[ErrorKind("ValueError: no", 2, "/results/error.txt")])
    assert render(view, 45, 40)[-1] == "2 errors: ValueError: no (/results/error.txt)"
    assert render(view, 44, 40)[-1] == "2 errors: ValueError: no"


# -- the screen --------------------------------------------------------------------------------------------------------


def begin() -> Screen:
    screen = open_screen()
    assert screen is not None
    return screen


@pytest.mark.parametrize(
    ("stream", "is_ascii"),
    [
        *[(types.SimpleNamespace(encoding=encoding), False) for encoding in ("utf-8", "cp437")],
        *[(types.SimpleNamespace(encoding=encoding), True) for encoding in ("latin-1", "ascii", "unknown", None)],
        (object(), True),
    ],
    ids=str,
)
def test_blocks_are_ascii_unless_the_stream_can_encode_others(stream: object, is_ascii: bool) -> None:
    screen = Screen(stream)
    screen.close()
    assert screen.is_ascii == is_ascii


def test_other_output_stays_above_the_block(terminal: Terminal) -> None:
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
        *("before", "printed", "logged", "warned", "half a line", "said", "block 8", "after", "")
    ]
    assert ["before", "block 3", "second line", ""] in terminal.frames
    assert any(frame[-4:] == ["half a", "block 7", "second line", ""] for frame in terminal.frames)


def test_after_a_resize_the_block_is_found_again(terminal: Terminal) -> None:
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


def test_one_run_at_a_time_draws(terminal: Terminal) -> None:
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
    assert lines[-3].startswith("Total run time: ")
    assert lines[-2:] == ["block", ""]
    assert lines.count("block") == 1


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")  # the terminal's reader is a thread
def test_a_fork_prints_plainly(terminal: Terminal) -> None:
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
def test_a_fork_may_have_a_screen_of_its_own(terminal: Terminal) -> None:
    with terminal:
        screen = begin()
        pid = os.fork()
        if pid == 0:
            os._exit(open_screen() is None)
        assert os.waitpid(pid, 0)[1] == 0
        screen.close()


def test_a_terminal_without_a_size_counts_as_one_of_80_columns(terminal: Terminal) -> None:
    with terminal:
        terminal.resize(0, 0)
        screen = begin()
        assert screen.size() == (79, 22)
        assert Console().columns() is None, "a table has all its columns"
        screen.close()


def test_a_process_in_the_background_draws_nothing(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_a_line_that_other_code_writes_over_is_found_again(terminal: Terminal) -> None:
    with terminal:
        screen = begin()
        print("10 %, and more\r20 %", end="")
        screen.draw(["block"])
        print(", ok", end="")
        screen.close()
    assert terminal.lines()[0] == "20 %, okd more"


def test_a_function_that_other_code_has_put_in_place_of_write_stays(terminal: Terminal) -> None:
    written: list[str] = []
    write = terminal.stream.write

    def noting(text: str) -> int:
        written.append(text)
        return write(text)

    with terminal:
        terminal.stream.write = noting  # type: ignore[method-assign]
        begin().close()
        assert terminal.stream.write is noting
        print("after", end="")
    assert "".join(written) == "after"


# -- runs --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("terminal", ["ascii"], indirect=True)
def test_a_terminal_without_block_characters_gets_others(terminal: Terminal) -> None:
    with terminal:
        fit_four(12)
    assert any("[---" in line for frame in terminal.frames for line in frame)
    assert "?" not in terminal.raw


@pytest.mark.parametrize("name", ["dumb", "unknown"])
def test_a_terminal_that_cannot_move_its_cursor_gets_lines(
    name: str, terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", name)
    with terminal:
        fit_four()
    assert "\x1b" not in terminal.raw
    assert terminal.lines()[0].startswith("Run of 4 trials (min loss); results in ")


class OnResult(Callback):
    def __init__(self, function: Callable[[int], object]):
        self._function = function

    def on_trial_result(self, iteration: int, trials: Any, trial: Trial, result: dict[str, Any], **info: Any) -> None:
        self._function(trial.config["x"])


def test_a_run_draws_below_its_prints_and_leaves_no_bar_behind(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
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
    assert not any("░" in line or "█" in line for line in lines)
    assert any("░" in line for frame in terminal.frames for line in frame)
    assert "\x1b[1m" not in terminal.raw
    assert lines[-2].startswith("Total run time: ")


def test_the_end_of_a_long_run_on_a_small_terminal(terminal: Terminal) -> None:
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
def test_before_a_trial_begins_the_view_tells_the_state(
    terminal: Terminal, now_s: list[float], importing: str, what: str
) -> None:
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


def test_of_very_many_running_trials_a_hundred_have_a_row() -> None:
    view = default_reporter()._snapshot([run_trial(make_trial(number)) for number in range(130)])
    assert len(view.running) == 100
    assert "... 30 more running<" in render_html(view)


def says_hello(config: dict[str, Any]) -> None:
    print("hello")
    tune.report({"loss": 1})


@pytest.mark.parametrize(
    ("run", "line"),
    [
        ({"executor": "local"}, "Prints of trials: minitune logs {path} TRIAL"),
        ({"executor": "local", "log_to_file": "out.txt"}, "Prints of trials: out.txt in each trial's directory"),
        ({"executor": "local", "show_output": True}, None),
        ({"executor": "inline"}, None),
    ],
)
def test_one_line_tells_where_prints_go(
    run: dict[str, Any], line: str | None, capfd: pytest.CaptureFixture[str]
) -> None:
    fit(says_hello, {"x": tune.grid_search([1, 2])}, verbose=1, **run)
    lines = capfd.readouterr().out.splitlines()
    assert [text for text in lines if "rints of" in text] == ([] if line is None else [line.format(path=run_path())])


def test_a_run_in_a_thread_draws_too(terminal: Terminal) -> None:
    with terminal:
        thread = threading.Thread(target=fit_four)
        thread.start()
        thread.join()
    assert any(line.endswith(" s: 4 finished") for line in terminal.lines())


def test_a_run_that_ends_early_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    fit_four(5, [OnResult(lambda x: os.kill(os.getpid(), signal.SIGINT) if x == 2 else None)], at_once=1)
    shown = capsys.readouterr().out
    assert "Ended early: interrupted by SIGINT; 2 of 3 trials had ended, 1 was interrupted\n" in shown
    assert "| interrupted at 1 | 2 | " in shown
    fit_four(1)
    assert "Ended early" not in capsys.readouterr().out


def test_a_resumed_run_tells_how_many_trials_had_ended(capsys: pytest.CaptureFixture[str]) -> None:
    space = {"x": tune.grid_search([1, 2, 3])}
    cut_off(train, space, results=2, metric="loss", mode="min", max_concurrent_trials=1)
    resume(train, verbose=1)
    assert f"Run of 3 trials, 1 already ended (min loss); results in {run_path()}\n" in capsys.readouterr().out


def test_of_a_run_without_a_metric_the_only_reported_one_is_dropped_last(terminal: Terminal) -> None:
    terminal.columns = 36
    terminal.resize(36, 30)
    with terminal:
        fit(train, {"x": tune.grid_search([1, 2])}, verbose=1)
    (head,) = (line for line in terminal.lines() if line.startswith("| Trial name"))
    assert "| loss " in head


def test_a_pipe_gets_few_lines(capfd: pytest.CaptureFixture[str]) -> None:
    fit_four(200)
    text, errors = capfd.readouterr()
    assert len(text.splitlines()) <= 40
    assert "\x1b" not in text
    assert text.count("ValueError: no 9 (trial ") == 1
    assert " s: 180 finished, 20 failed\n" in text
    assert errors == ""


# -- when --------------------------------------------------------------------------------------------------------------


@pytest.fixture
def now_s(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """A clock to set."""
    now = [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    return now


def ready() -> ProgressReporter:
    reporter = default_reporter()
    reporter.configure(verbose=1, print_errors=True)
    reporter.setup(total_samples=10, metric="loss", mode="min")
    return reporter


def test_pauses_between_lines_grow(now_s: list[float], capsys: pytest.CaptureFixture[str]) -> None:
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


def test_a_terminal_is_redrawn_when_there_is_something_to_see(terminal: Terminal, now_s: list[float]) -> None:
    trial = Trial("train")
    with terminal:
        reporter = ready()
        pauses = []
        for happens in (lambda: None, lambda: reporter.trial_result(trial, {}), lambda: print("something")):
            reporter.report([trial], False)
            happens()
            pauses.append(reporter.seconds_left())
            now_s[0] += 10
        assert reporter.should_report([trial])
        reporter.close()
    assert pauses == [1.0, 0.25, 0.25]


def test_redraws_that_take_long_become_rare_but_a_single_one_does_not_count(
    terminal: Terminal, now_s: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    costs_s = [5.0, 0.0, 2.0, 3.0]
    waits_s = []

    def slow(*arguments: Any, **choices: Any) -> list[str]:
        now_s[0] += costs_s.pop(0)
        return ["a line"]

    monkeypatch.setattr("minitune.output.live_reporter.render", slow)
    with terminal:
        reporter = ready()
        while costs_s:
            reporter.report([], False)
            waits_s.append(reporter.seconds_left())
        reporter.close()
    assert waits_s == [1.0, 1.0, 1.0, 100.0], "redraws take at most 2 % of the time"


# -- from another process ----------------------------------------------------------------------------------------------


def ten_seconds_each(config: dict[str, Any]) -> None:
    for step in range(restored_state(), 4):
        clock.current.sleep(10)
        report_state(step + 1, {"loss": config["x"] / (step + 1), "a": 1, "b": 2, "c": 3})


@pytest.mark.parametrize("is_resumed", [False, True])
@pytest.mark.parametrize("budget_s", [None, 115])
def test_watch_shows_the_view_of_the_driver_in_the_middle_of_a_run(
    is_resumed: bool, budget_s: float | None, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    reporter = default_reporter()
    shown: list[tuple[str, str]] = []

    def look(trials: list[Trial], **info: Any) -> None:
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

        def executor() -> InlineTrialExecutor:
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
        (
            {"total_samples": 3},
            {"outputs": ("out", "err")},
            ["Run of 3 trials; results in /runs/it", "Prints of trials: out and err in each trial's directory"],
        ),
        (
            {"total_samples": 3},
            {"outputs": ("all", "all")},
            ["Run of 3 trials; results in /runs/it", "Prints of trials: all in each trial's directory"],
        ),
    ],
)
def test_a_run_begins_with_a_line_on_its_size_its_goal_and_its_place(
    setup: dict[str, Any], info: dict[str, Any], lines: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    reporter = default_reporter()
    reporter.configure(verbose=1, print_errors=True)
    reporter.setup(start_time=time.time(), **setup)
    reporter.note_run(RunInfo(**{"path": "/runs/it", **info}))
    assert reporter.should_report([])
    reporter.report([], False)
    assert capsys.readouterr().out.splitlines() == lines
    assert not reporter.should_report([]), "the next line comes after some seconds"


def test_a_pipe_gets_a_line_on_the_progress_after_growing_pauses(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    now_s = [100.0]
    monkeypatch.setattr("minitune.output.live_reporter.time.monotonic", lambda: now_s[0])
    with clock.use(VirtualClock(1000.0)):
        trials = [
            run_trial(make_trial(number, config={"x": number}, evaluated_params={"x": number})) for number in (0, 1)
        ]
        reporter = default_reporter()
        reporter.configure(verbose=1, print_errors=True)
        reporter.setup(start_time=1000.0, total_samples=4, metric="loss", mode="min")
        reporter.note_run(RunInfo("/runs/it"))
        reporter.report([], False)
        capsys.readouterr()
        trials[0].record_result({"loss": 0.5, "training_iteration": 2})
        trials[0].move(Transition.STOP)
        clock.current.sleep(60.0)
        reported = []
        for _ in range(60):
            now_s[0] += 1
            if reporter.should_report(trials):
                reporter.report(trials, False)
                reported.append(now_s[0])
    assert reported == [105.0, 113.0, 125.0, 142.0]
    lines = capsys.readouterr().out.splitlines()
    assert len(set(lines)) == 1
    assert lines[0].startswith("1 min: 1/4 trials, 1 per min, about ")
    assert lines[0].endswith(" to go, 1 running; best loss=0.5, iteration 2, train_t0000: x=0")


def test_errors_are_told_once_for_each_kind_and_at_most_five(capsys: pytest.CaptureFixture[str]) -> None:
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
