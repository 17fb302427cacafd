"""The block that is redrawn and the end of a run, made of data: each has a file with what its reader sees.

`MINITUNE_UPDATE_VIEWS=1` writes the files again, as in `test_views`.
"""

import contextlib
import html
import io
import math
import re
from dataclasses import replace

import pytest
from kit import make_trial, run_trial
from test_views import check

from minitune.base import clock
from minitune.base.clock import VirtualClock
from minitune.base.text import width_of, without_codes
from minitune.error import ProgramError, RemoteError, trial_error, trial_error_of_text
from minitune.experiment.goal import Goal
from minitune.experiment.lifecycle import Transition
from minitune.output.live import RunSnapshot, render, render_html
from minitune.output.live_reporter import CLIReporter
from minitune.output.reporters import RunInfo

# -- the block ---------------------------------------------------------------------------------------------------------
RUNNING = {
    "trial": 1,
    "trial_name": "train_日本_00001",
    "status": "running",
    "ended": None,
    "config/lr": 0.1,
    "config/opt/decay": 1e-5,
    "loss": 0.5,
    "acc": 1,
    "training_iteration": 3,
    "time_total_s": 62.0,
}
DONE = {**RUNNING, "status": "finished", "ended": "finished", "loss": 0.25, "acc": 0, "training_iteration": 9}
del DONE["time_total_s"]
ERROR = (2, "ValueError: \x1b[2Jno")
FULL = RunSnapshot(
    "train_today",
    83.2,
    {"running": 8, "finished": 21, "failed": 2},
    total=50,
    rest_s=222.0,
    goal=Goal("loss", "min"),
    best=[{**DONE, "trial": number} for number in range(2, 7)],
    running=[{**RUNNING, "trial": number} for number in (1, *range(7, 14))],
    params={"lr": "lr", "opt/decay": "opt/decay"},
    metrics={"loss": "loss", "acc": "acc", "training_iteration": "iter", "time_total_s": "total time (s)"},
    errors=[ERROR],
    resources=["2/4 CPUs"],
)
ROWS = [{**RUNNING, "trial_name": f"train_{number}", "trial": number} for number in range(4)]
AMONG = replace(
    FULL,
    counts={"running": 4, "finished": 1},
    best=[ROWS[2], {**DONE, "trial": 9}, ROWS[0]],
    running=ROWS,
    errors=[],
)
NODES = [{**RUNNING, "trial": number, "node_ip": node} for number, node in enumerate(("10.0.0.1", "10.0.0.2", None))]
QUIET = [{**RUNNING, "trial": number, "quiet_s": quiet_s} for number, quiet_s in enumerate((1.0, 90.0, None))]
MANY = {**DONE, **{f"config/p{number}": number for number in range(30)}}
BLOCKS = {
    **{f"{width} columns": (FULL, width, 40) for width in (250, 100, 80, 60, 44, 30)},
    **{f"{height} lines": (FULL, 100, height) for height in (18, 12, 5, 2, 1)},
    "running among the best": (AMONG, 100, 40),
    "no room for all that run": (AMONG, 100, 8),
    "all that run are among the best": (replace(AMONG, running=ROWS[:1], counts={"running": 2}), 100, 40),
    "no best trial": (replace(FULL, best=[]), 100, 40),
    "several nodes": (replace(FULL, best=NODES[:1], running=NODES[1:]), 120, 40),
    "one node": (replace(FULL, best=NODES[:1], running=NODES[2:]), 120, 40),
    "last reports": (replace(FULL, best=[], running=QUIET), 120, 40),
    "why it ends": (replace(FULL, note="interrupted by SIGINT"), 200, 9),
    "it starts": (RunSnapshot("train", 0.2, {}, total=3, starting="starting 2 workers"), 100, 40),
    "five kinds of errors": (replace(FULL, errors=[(9 - n, f"E{n}") for n in range(5)]), 100, 40),
    "thirty parameters": (replace(FULL, best=[MANY], params={f"p{n}": f"p{n}" for n in range(30)}), 250, 4),
}


def test_the_block_is_drawn_as_the_file_says():
    parts = {title: "\n".join(render(*drawn)) for title, drawn in BLOCKS.items()}
    parts["colours"] = "\n".join(render(FULL, 100, 12, color=True)).replace("\x1b", "ESC")
    without = re.sub(r"<style>.*?</style>|<svg.*?</svg>", "", render_html(AMONG))
    parts["notebook"] = html.unescape(re.sub(r"(?=<div|<tr)", "\n", without))
    check("block", parts)


@pytest.mark.parametrize("width", [10, 40, 60, 100, 250])
@pytest.mark.parametrize("height", [1, 2, 5, 12, 50])
def test_the_block_keeps_to_the_size_it_is_given(width, height):
    lines = render(FULL, width, height)
    assert 0 < len(lines) <= height
    assert max(map(width_of, lines)) <= width
    assert not any("\x1b" in line for line in lines)
    assert [without_codes(line) for line in render(FULL, width, height, color=True)] == lines


# -- the end -----------------------------------------------------------------------------------------------------------
def finished(number, loss, *, config=None, **result):
    config = config or {"lr": number / 10}
    trial = run_trial(make_trial(number, config=config, evaluated_params={"lr": config["lr"]}))
    times = {"training_iteration": 3, "time_total_s": 1.23456789, "pid": 100 + number, "node_ip": "127.0.0.1"}
    trial.record_result({"loss": loss, **times, "date": "today", "config": trial.config, **result})
    trial.move(Transition.STOP)
    return trial


def failed(number, error, count=1):
    trials = []
    for each in range(number, number + count):
        trial = run_trial(make_trial(each, experiment_path="/my results/run"))
        trial.num_failures = 1
        is_text = isinstance(error, str)
        trial.error = trial_error_of_text(error.format(each)) if is_text else trial_error(RemoteError.of(error))
        trial.move(Transition.FAIL)
        trials.append(trial)
    return trials


def retried(count):
    trials = [finished(number, 0.5) for number in range(count)]
    for trial in trials:
        trial.num_failures = 2
    return trials


class Odd:
    """It has no text."""

    def __repr__(self):
        raise RuntimeError("no text")


def cells():
    trial = finished(0, 1.0)
    values = {"long": "x" * 50 + "end", "two": "a\nb", "odd": Odd(), "none": None, "big": 10**30}
    trial.evaluated_params = values
    return trial


REPORTED = [finished(0, 1.0, a=1, b="text", c=2, nested={"d": 3}, e=4, f=5)]
WHOLE = {"lr": 0.1, "net": {"act": "relu"}, "data": list(range(1000)), "none": None}
KINDS = [trial for kind in range(7) for trial in failed(10 * kind, f"{'ABCDEFG'[kind]}: no", 2 + kind)]
USUAL = {**CLIReporter.DEFAULT_COLUMNS, "loss": "LOSS"}
NONE = {"metric": None, "mode": None}
ENDS = {
    "a small run": ({}, {}, [finished(0, 0.5), finished(1, 0.25, acc=True), finished(2, math.nan)]),
    "the largest is the best": ({}, {"mode": "max"}, [finished(n, v) for n, v in enumerate((math.inf, 1.0, 2.0))]),
    "a limit of rows": (
        {"max_progress_rows": 3, "max_error_rows": 2},
        {},
        [*(finished(n, float(n)) for n in range(8)), *failed(50, "no", 5)],
    ),
    "four metrics": ({"infer_limit": 4}, {}, REPORTED),
    "three metrics": ({}, {}, REPORTED),
    "no other metric": ({"infer_limit": 0}, {}, REPORTED),
    "an objective that was not reported": ({}, {"metric": "late"}, REPORTED),
    "another objective": ({"metric": "c", "mode": "min"}, {}, REPORTED),
    "no objective": ({}, NONE, REPORTED),
    "a mode alone": ({}, {"metric": None, "mode": "max"}, [finished(0, 1.0, _metric=3)]),
    "the reporter's own mode": ({"mode": "max"}, {}, [finished(0, 1.0), finished(1, 2.0)]),
    "named columns": ({"metric_columns": USUAL, "parameter_columns": {"lr": "rate"}}, {}, REPORTED),
    "no columns of metrics": ({"metric_columns": []}, {}, REPORTED),
    "the whole configuration of the best": ({}, {}, [finished(0, 1.0, config=WHOLE)]),
    "odd cells": ({}, {}, [cells()]),
    "equal errors": ({}, {}, failed(0, "ValueError: bad value {}", 100)),
    "errors that name their trials": ({}, {}, failed(0, "ValueError: t000{} is bad", 2)),
    "different errors": ({}, {}, [*failed(0, "worker died at report 3", 3), *failed(9, "disk full")]),
    "no tracebacks": ({}, {"print_errors": False}, [*failed(0, "A: {}", 3), *failed(9, "disk full")]),
    "many kinds": ({}, {}, KINDS),
    "a program": ({}, {}, failed(0, ProgramError("it ended"))),
    "one retried": ({}, {}, retried(1)),
    "six retried": ({}, {}, retried(6)),
    "the reporter's own total": ({"total_samples": 7}, {"total_samples": None}, []),
}


def end_of(arguments, settings, trials, ending=""):
    with clock.use(VirtualClock(1e6)), contextlib.redirect_stdout(io.StringIO()) as stream:
        reporter = CLIReporter(**arguments)
        reporter.configure(verbose=1, print_errors=settings.get("print_errors", True))
        known = {"total_samples": len(trials), "metric": "loss", "mode": "min", **settings}
        reporter.setup(start_time=1e6 - 100, **known)
        clock.current.sleep(3661.239)
        reporter.note_run(RunInfo("/my runs/it", ending=ending))
        reporter.report(trials, True)
    return re.sub(r'File "[^"]*", line \d+', 'File "F", line N', stream.getvalue()).rstrip()


def test_the_end_of_a_run_is_told_as_the_file_says():
    parts = {title: end_of(*given) for title, given in ENDS.items()}
    trials = [*failed(0, "disk full"), *failed(1, "another")]
    parts["a run that was interrupted"] = end_of({}, {}, trials, "interrupted by SIGINT")
    check("end", parts)


def test_used_resources_are_told_as_the_file_says():
    gib = 2.0**30
    totals = {"CPU": 2.0, "GPU": 1.0, "memory": 2 * gib, "tokens": 3.0}
    free = {"CPU": 1.0, "GPU": 0.5, "memory": gib, "tokens": 3.0}
    full = {"CPU": 2.0, "GPU": 0.0, "memory": gib}
    infos = {
        "half": RunInfo("/runs/a", (20 * 2**30, 8 * 2**30), totals, free),
        "full": RunInfo("/runs/a", (20 * 2**30, 2**30), full, {**full, "CPU": 0.0}),
        "little memory": RunInfo("/runs/a", None, {"CPU": 1.0, "memory": gib}, {"CPU": 0.0, "memory": gib - 2**20}),
        "unknown": RunInfo("/runs/a"),
    }
    check("machine", {title: ", ".join(info.used()) for title, info in infos.items()})
