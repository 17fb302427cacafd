"""Parts of the page's script that take values and give values, in plain Node.js: texts, axes, ranks, the filter."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from made_run import LOG, run_of

import minitune.visualization
from minitune.base.text import number_text

NODE = shutil.which("node")
SCRIPT = Path(minitune.visualization.__file__).parent / "script"
PARTS = ("core", "run", "filter")
CASES = json.loads((Path(__file__).parents[1] / "filter_cases.json").read_text(encoding="utf-8"))


def evaluated(rows, before=""):
    """The values of the expressions that are the keys of the rows. Undefined and NaN are None."""
    if NODE is None:
        pytest.skip("no Node.js here; on Debian: apt-get install nodejs")
    script = "".join((SCRIPT / f"{name}.js").read_text(encoding="utf-8") for name in PARTS)
    values = ", ".join(f"(() => {{ const it = {each}; return it === undefined ? null : it; }})()" for each in rows)
    whole = f"{script}\n{before};\nprocess.stdout.write(JSON.stringify([{values}]))"
    environment = {**os.environ, "TZ": "UTC"}
    done = subprocess.run([NODE, "-"], input=whole, capture_output=True, text=True, env=environment, check=False)
    assert done.stderr[-500:] == ""
    return dict(zip(rows, json.loads(done.stdout), strict=True))


TEXTS = {
    "number(3)": "3",
    "number(1 / 3)": "0.333333",
    "number(1e12)": "1000000000000",
    "number(1e12, 4)": "1e+12",
    "number(123456, 4)": "123456",
    "number(123456789.5)": "1.23457e+08",
    "number(-1e-7)": "-1e-07",
    "number(1234567.1, 8)": "1234567.1",
    "text(undefined)": "(none)",
    "text(null)": "None",
    "[text(true), text(false)]": ["True", "False"],
    "text(0.1 + 0.2)": "0.3",
    "text('a')": "a",
    "seconds(0.5)": "0.5 s",
    "seconds(119)": "119 s",
    "seconds(120)": "2 min",
    "seconds(7199)": "120 min",
    "seconds(7200)": "2 h",
    "date(0)": "",
    "date(86400 * 366).includes('1971')": True,
    "[cut('abcdef', 4), cut('abcd', 4)]": ["abc…", "abcd"],
    "[0, 1, 2].map((count) => counted(count, 'trial'))": ["0 trials", "1 trial", "2 trials"],
    "python([{a: [1, null, 'x'], b: {}}, true])": (
        '[\n    {\n        "a": [1, None, "x"],\n        "b": {},\n    },\n    True,\n]'
    ),
    "[false, 0, '', 'False'].map((value) => python(value))": ["False", "0", '""', '"False"'],
    "[0.4, 61.9, 7322, 90000].map(clockText)": ["0 s", "1 min 1 s", "2 h 2 min", "1 d 1 h"],
}
AXES = {
    "linearTicks(0, 10, 5)": [[0, "0"], [2, "2"], [4, "4"], [6, "6"], [8, "8"], [10, "10"]],
    "linearTicks(0, 3, 10, true)": [[0, "0"], [1, "1"], [2, "2"], [3, "3"]],
    "linearTicks(0.1, 0.3, 2)": [[0.1, "0.1"], [0.2, "0.2"], [0.30000000000000004, "0.3"]],
    "linearTicks(5, 5, 4)": [[5, "5"]],
    "linearTicks(0, 1e9, 5).map(([, label]) => label)": ["0", "2e+08", "4e+08", "6e+08", "8e+08", "1e+09"],
    "linearTicks(-1e9, 0, 2).map(([, label]) => label)": ["-1e+09", "-5e+08", "0"],
    "linearTicks(1.7e9, 1.7e9 + 100, 2).map(([, label]) => label)": ["1700000000", "1700000050", "1700000100"],
    "logTicks(-5, -2, 9).map(([, label]) => label)": ["1e-5", "1e-4", "0.001", "0.01"],
    "logTicks(3, 5, 9).map(([, label]) => label)": ["1000", "10000", "1e5"],
    "logTicks(0, 8, 3)": [[0, "1"], [3, "1000"], [6, "1e6"]],
    "logTicks(Math.log10(2), Math.log10(5), 3).map(([, label]) => label)": ["2", "3", "4", "5"],
    "logTicks(0, Math.log10(4), 9, true).map(([, label]) => label)": ["1", "2", "3", "4"],
    "timeTicks(0, 100, 2)": [[0, "0 s"], [50, "50 s"], [100, "100 s"]],
    "timeTicks(0, 600, 2)": [[0, "0 min"], [300, "5 min"], [600, "10 min"]],
    "timeTicks(0, 36000, 2)": [[0, "0 h"], [18000, "5 h"], [36000, "10 h"]],
    "numberAxis('a', [1, 100], {isLog: true}).at(10)": 1,
    "numberAxis('a', [1, 100], {isLog: true}).at(-10)": None,
    "numberAxis('a', [0, 100], {isLog: true}).at(10)": 10,
    "numberAxis('a', [5, 10], {fromZero: true}).low": 0,
    "(({low, high}) => [low, high])(numberAxis('a', [0, 100]))": [-3, 103],
    "(({low, high}) => [low, high])(numberAxis('a', [0, 200], {low: -100, high: 100}))": [-109, 209],
    "(({low, high}) => [low, high])(numberAxis('a', [], {}))": [-0.03, 1.03],
    "[[1, 2, 3, 4, 1e9], [1, 2, 3, 1e9], [1, 2, 1e9]].map((values) => valueAxis('a', values, 1).edge !== '')": [
        *(True, True, False)
    ],
    "valueAxis('a', [1, 2, 3, 4, 1e9], 1, {isLog: true}).edge": "",
    "categoryAxis('a', ['x', 1, 'x', null]).texts": ["x", "1", "None"],
    "categoryAxis('a', ['x', 1]).at('1')": 1,
    "categoryAxis('a', ['x', 1]).at('y')": None,
    "categoryAxis('a', [...'abcdef']).ticks(0, 9, 3)": [[0, "a"], [2, "c"], [4, "e"]],
    "categoryAxis('a', [...'abcdef']).ticks(1, 3, 9)": [[1, "b"], [2, "c"], [3, "d"]],
}
PARAMETERS = {
    "axis('rate').ticks(-3, 1, 9).map(([, label]) => label)": ["0.001", "0.01", "0.1", "1", "10"],
    "Math.round(axis('rate').low)": -3,
    "axis('act').texts": ["tanh", "relu", "new"],
    "axis('mixed').texts": ["2", "10", "x"],
    "axis('some').ticks(-9, 9, 9)[0][1]": "(none)",
    "axis('some').at(undefined) < axis('some').at(1)": True,
    "axis('some').at(2)": 2,
    "['rate', 'steps', 'wide', 'size'].map((name) => axis(name).isLog)": [True, True, True, False],
    "axis('size').ticks(1, 3, 9).map(([, label]) => label)": ["1", "2", "3"],
}
TRIALS = [
    {"params": {"rate": 0.1, "size": 1, "steps": 1, "wide": 1, "act": "relu", "mixed": 10, "some": 1}},
    {"params": {"rate": 1.0, "size": 3, "steps": 2, "wide": 100, "act": "new", "mixed": "x", "some": 2}},
    {"params": {"rate": 5.0, "size": 2, "steps": 3, "wide": 3.5, "act": "tanh", "mixed": 2}},
]
SCALES = {
    "rate": LOG,
    "steps": {"kind": "integer log", "low": 1, "high": 64},
    "act": {"kind": "category", "values": ["tanh", "relu"]},
}


def test_texts_and_axes_round_as_a_reader_expects():
    assert evaluated(TEXTS) == TEXTS
    assert evaluated(AXES) == AXES
    run = json.dumps(run_of(TRIALS, scales=SCALES))
    before = f"const run = new Run({run}), axis = (name) => paramAxis(run, name, run.trials)"
    assert evaluated(PARAMETERS, before) == PARAMETERS


def test_numbers_have_the_text_that_they_have_elsewhere():
    numbers = [0.1, 3.0, 3, 1e8, 1e-7, 123456.7, 1234567.5, 2e30, -0.0, 999999.7, 0.0001, 0.00012345678, -1e-5, 1e16]
    rows = {f"number({json.dumps(value)})": number_text(value) for value in numbers}
    assert evaluated(rows) == rows


def test_filters_are_read_as_those_of_the_commands():
    before = (
        f"const cases = {json.dumps(CASES)}; let columns, read, kept, every; "
        "columns = cases.columns.map((column) => ({...column, get: (row) => row[column.name]})); "
        "read = (words) => { try { return filterOf(words, columns, cases.rows); } "
        "catch (error) { if (error instanceof FilterError) return {told: error.message}; throw error; } }; "
        "kept = (test) => cases.rows.filter((row) => !test || test(row)).map((row) => row.trial).join(''); "
        "every = (cases, how) => Object.fromEntries(Object.keys(cases).map((words) => [words, how(read(words))]))"
    )
    rows = {
        "every(cases.kept, kept)": CASES["kept"],
        "every(cases.refused, ({told}) => told)": CASES["refused"],
        "[kept(read('toString')), kept(read('constructor'))]": ["", ""],
    }
    assert evaluated(rows, before) == rows


RANKS = {
    "run.sign": -1,
    "run.params": ["y", "x"],
    "run.shown.map((trial) => trial.number)": [0, 1, 2, 4],
    "[...levelsOf(run, run.scored)].map(([trial, level]) => [trial.number, level])": [
        [1, 0],
        [4, 2],
        [2, 5],
        [0, 7],
    ],
    "[...positionsBy(run, 'trial').values()]": [0, 1, 2, 3, 4],
    "[...positionsBy(run, 'end')].map(([trial, at]) => [trial.number, at])": [[0, 10], [1, 40], [4, 100]],
    "bestSoFar(run, positionsBy(run, 'trial'))": [[0, 1], [1, 9], [2, 9], [4, 9]],
    "thinned(run, run.trials, 3).map((trial) => trial.number)": [0, 1, 4],
    "thinned(run, run.trials, 5).length": 5,
    "run.about(run.trials[3])": "trial 3 · failed\ny: 3\nx: 3\nValueError: no",
    "run.about(run.trials[1]).split('\\n').slice(0, 2)": ["trial 1 · stopped at 2", "loss: 9"],
    # a trial that confirms another one is no news in the history
    "bestSoFar(...(other = like((trial) => ({...trial, repeats: trial.number === 1 ? 't0' : null})), "
    "[other, positionsBy(other, 'trial')]))": [[0, 1], [2, 7], [4, 8]],
    # a tip has room for ten parameters
    "(names = [...'abcdefghijkl'], other = like((trial) => "
    "({...trial, params: Object.fromEntries(names.map((key) => [key, trial.number]))}), names), "
    "other.about(other.trials[0]).split('\\n').length)": 12,
}
POINTS = {
    "dominates([1, 2], [1, 3])": True,
    "dominates([1, 2], [1, 2])": False,
    "dominates([1, 4], [2, 3])": False,
}


def test_trials_get_their_ranks_and_places():
    trials = [
        {"curve": [1.0], "reported_s": 1e9 + 10},
        {"curve": [9.0], "reported_s": 1e9 + 40, "status": "stopped", "ended": "stopped at 2"},
        {"curve": [7.0]},
        {"curve": [], "value": None, "status": "failed", "ended": "failed", "error": "ValueError: no"},
        {"curve": [8.0], "reported_s": 1e9 + 100},
    ]
    for n, trial in enumerate(trials):
        trial["params"] = {"x": n, "y": n, "same": 1}
    importances = {"shares": {"y": 0.9, "x": 0.1}, "note": "by ranks"}
    run = run_of(trials, mode="max", best=1, importances={"loss": importances})
    before = (
        f"const run = new Run({json.dumps(run)}); let other, names; "
        "const like = (change, params = run.data.params) => "
        "new Run({...run.data, params, trials: run.trials.flatMap(change)})"
    )
    assert evaluated(RANKS, before) == RANKS
    assert evaluated(POINTS) == POINTS
