"""What the page shows of data that is made by hand: numbers, axes, plots, the table, one trial, in a real Chromium."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest
from browser import Browser, Page
from made_run import LOG, RUNNING, run_of

from minitune.visualization.page import fill_page


def opened(chromium: Browser, directory: Path, *runs: dict[str, Any], only: Any = None, width: int = 1265) -> Page:
    """The page of these runs, with all of its plots drawn."""
    path = directory / "made.html"
    path.write_bytes(fill_page("made", {"runs": runs, "only": only}))
    page = chromium.open(path.as_uri(), width)
    height = page.run("document.documentElement.scrollHeight")
    page.call(
        "Emulation.setDeviceMetricsOverride", width=width, height=height + 3000, deviceScaleFactor=1, mobile=False
    )
    page.wait_for("[...document.querySelectorAll('[data-view]')].every((root) => root.hidden || !root.card.isDirty)")
    return page


def found(page: Page, rows: dict[str, Any]) -> dict[str, Any]:
    """The values of the expressions that are the keys of the rows. Undefined and NaN are None."""
    script = ", ".join(
        f"(() => {{ const it = {expression}; return it === undefined ? null : it; }})()" for expression in rows
    )
    values = json.loads(page.run(f"JSON.stringify([{script}])"))
    return dict(zip(rows, values, strict=True))


LINES = "Chart.path({kind: 'lines', %s}, (x) => x, (y) => 10 * y)"
PATHS = {
    LINES % "lines: [[[1, 1], [2, 2]], [[5, 5]]]": "M1 10L2 20M5 50h0",
    LINES % "lines: [[[1, 1], [NaN, NaN], [3, 3], [4, NaN], [5, 5], [6, 6]]]": "M1 10M3 30M5 50L6 60",
    LINES % "isStep: true, lines: [[[1, 1], [2, 2], [NaN, 0], [4, 4], [5, 4]]]": "M1 10H2V20M4 40H5V40",
    LINES % "lines: [[]]": "",
    "Chart.path({kind: 'points', mark: 'dot', points: [[1, 2], [NaN, 3], [4, null]]}, (x) => x, (y) => y)": "M1 2h0",
    "Chart.path({kind: 'points', points: [[5, 5]]}, (x) => x, (y) => y)": "M2 5a3 3 0 1 0 6 0a3 3 0 1 0-6 0",
    "Chart.path({kind: 'bars', boxes: [[1, 2, 3, 4]]}, (x) => x, (y) => y)": "M1 2H3V4H1z",
    "new Set(Object.keys(KINDS).map((kind) => MARKS[kind](0, 0))).size": 5,
}


def test_paths_have_gaps_where_values_are_missing(chromium: Browser, tmp_path: Path) -> None:
    page = opened(chromium, tmp_path, run_of([]))
    assert found(page, PATHS) == PATHS


def test_a_button_that_has_copied_says_so_for_a_moment(chromium: Browser, tmp_path: Path) -> None:
    page = opened(chromium, tmp_path, run_of([]))
    page.run("button = el('button', {}, 'JSON'); document.body.append(button); setTimeout = (end) => { later = end; }")
    page.run("copy('text', button)")
    assert page.run("button.textContent") == "copied"
    page.run("later()")
    assert page.run("button.textContent") == "JSON"
    assert page.run("document.querySelector('textarea')") is None


# -- plots -------------------------------------------------------------------------------------------------------------


def layers(page: Page, view: str) -> list[dict[str, Any]]:
    """The layers of a plot that have something, in coordinates of its axes."""
    script = f"document.querySelector('[data-view={view}]').card.charts[0].spec.layers"
    drawn: list[dict[str, Any]] = json.loads(page.run(f"JSON.stringify({script})"))
    return [one for one in drawn if any(one.get(name) for name in ("points", "lines", "boxes"))]


def hits(page: Page, view: str) -> list[str]:
    """What a plot tells of the things in it, where the mouse is over them."""
    told: list[str] = page.run(
        f"document.querySelector('[data-view={view}]').card.charts[0].hits.map((hit) => hit.text())"
    )
    return told


def choose(page: Page, view: str, name: str, value: str) -> None:
    """Choose an option of a plot."""
    page.run(
        f"(() => {{ const choice = document.querySelector('[data-view={view}] [data-name={name}]'); "
        f"choice.value = '{value}'; choice.dispatchEvent(new Event('change')); }})()"
    )


def choose_metric(page: Page, name: str) -> None:
    """Choose the metric of all plots."""
    page.run(
        f"(() => {{ const choice = document.querySelector('[data-name=metric]'); choice.value = {json.dumps(name)}; "
        "choice.dispatchEvent(new Event('change')); })()"
    )


PARALLEL = "[...document.querySelectorAll('[data-view=parallel] svg > text > title')].map((one) => one.textContent)"
"""The names of the parallel axes."""
CURVES: list[dict[str, Any]] = [
    {"curve": [4.0, 2.0], "params": {"x": 1, "y": 0.5}, "reported_s": 1e9 + 10},
    {"curve": [5.0, None, 1.0], "steps": [10, 20, 30], "params": {"x": 2, "y": 0.6}, "reported_s": 1e9 + 30},
    {
        "curve": [8.0],
        "params": {"x": 3, "y": 0.7},
        "status": "interrupted",
        "ended": "interrupted at 1",
        "reported_s": 1e9 + 30,
    },
]


def test_curves_are_drawn_at_their_steps_and_the_best_one_is_thick(chromium: Browser, tmp_path: Path) -> None:
    page = opened(chromium, tmp_path, run_of(CURVES, best=1))
    drawn = layers(page, "curves")
    assert [(one["kind"], one["cls"], one.get("lines") or one["points"]) for one in drawn] == [
        ("lines", "finished", [[[1, 4], [2, 2]], [[10, 5], [30, 1]]]),
        ("lines", "interrupted", [[[1, 8]]]),
        ("lines", "best", [[[10, 5], [30, 1]]]),
    ]
    assert hits(page, "curves")[3].startswith("iteration 30: 1\ntrial 1 · finished\nloss: 1\n")

    page.click("[data-view=curves] [data-name=isLog]")
    assert layers(page, "curves")[-1]["lines"] == [[[10, pytest.approx(0.69897)], [30, 0]]]


def test_the_history_has_the_trials_and_the_best_so_far(chromium: Browser, tmp_path: Path) -> None:
    page = opened(chromium, tmp_path, run_of(CURVES, best=1))
    places = {"trial": [0, 1, 2], "end": [10, 30, 30]}
    for by, (first, second, third) in places.items():
        choose(page, "history", "by", by)
        dots, marks, line, ring = layers(page, "history")
        assert (dots["points"], marks["points"]) == ([[first, 2], [second, 1]], [[third, 8]])
        assert line["lines"] == [[[first, 2], [second, 1], [third, 1]]]
        assert ring["points"] == [[second, 1]]
    page.click("[data-view=history] [data-name=interrupted]")
    assert "trials that are not selected" in page.run("document.querySelector('[data-view=history] .note').textContent")
    assert len(hits(page, "history")) == 2
    assert len(hits(page, "slice")) == 2, "they are off in all plots"


def test_a_change_of_an_axis_ends_the_zoom(chromium: Browser, tmp_path: Path) -> None:
    page = opened(chromium, tmp_path, run_of(CURVES, best=1))
    chart = "document.querySelector('[data-view=history]').card.charts[0]"
    page.run(f"{chart}.zoomTo([90, 60], [200, 200]); zoom = JSON.stringify({chart}.zoom); {chart}.reset()")
    page.run(f"{chart}.zoomTo([200, 200], [90, 60])")
    assert page.run(f"JSON.stringify({chart}.zoom) === zoom"), "also from the other corner"
    assert page.run(f"{chart}.zoom !== null && !document.querySelector('[data-view=history] .head > button').hidden")
    page.run(f"{chart}.svg.dispatchEvent(new MouseEvent('dblclick'))")
    assert page.run(f"{chart}.zoom === null && document.querySelector('[data-view=history] .head > button').hidden")
    page.run(f"{chart}.zoomTo([90, 60], [94, 200]); {chart}.zoomTo([90, 60], [200, 64])")
    assert page.run(f"{chart}.zoom === null"), "a hand trembles"
    page.run(f"{chart}.zoomTo([90, 60], [200, 200])")
    choose(page, "history", "by", "end")
    assert page.run(f"{chart}.zoom === null && document.querySelector('[data-view=history] .head > button').hidden")


def test_parallel_lines_go_through_the_parameters_to_the_objective(chromium: Browser, tmp_path: Path) -> None:
    page = opened(chromium, tmp_path, run_of(CURVES, best=1, scales={"y": LOG}))
    frame, *lines = layers(page, "parallel")
    assert frame["lines"] == [[[0, 0], [0, 1]], [[1, 0], [1, 1]], [[2, 0], [2, 1]]]
    assert [one["cls"] for one in lines] == ["c7", "c4", "c0"], "the best one lies above the others"
    margin = 0.03 / 1.06
    for one, x, loss in zip(lines, (1, 0, 0.5), (1, 1 / 7, 0), strict=True):
        ((of_x, of_y, of_loss),) = one["lines"]
        assert (of_x, of_loss) == ([0, pytest.approx(margin + x / 1.06)], [2, pytest.approx(margin + loss / 1.06)])
        assert 0.6 < of_y[1] < 0.8, "0.5 to 0.7 on a logarithmic axis from 0.001 to 10"
    assert page.run(PARALLEL) == ["x", "y", "loss"]
    marks = "[...document.querySelectorAll('[data-view=parallel] svg > .tick')].map((mark) => mark.textContent)"
    assert page.run(marks) == [*("1", "2", "3"), *("0.001", "0.1", "10"), *("2", "4", "6", "8")]
    assert page.run("document.querySelector('[data-view=parallel] .scale').textContent") == "best 1worst 8"


def test_a_plot_that_leaves_out_trials_says_so(chromium: Browser, tmp_path: Path) -> None:
    trials = [{"curve": [float(n), n / 2], "params": {"x": n, "y": n % 7}} for n in range(1010)]
    page = opened(chromium, tmp_path, run_of(trials, best=0))
    notes = [
        page.run(f"document.querySelector('[data-view={view}] .note').textContent") for view in ("parallel", "curves")
    ]
    assert notes[0] == "1000 of 1010 trials: the best third, and an even choice of the others."
    assert notes[1].startswith("300 of 1010 curves: the best third, and an even choice of the others. ")
    numbers = (
        "[...new Set(document.querySelector('[data-view=curves]').card.charts[0].hits.map((hit) => hit.trial.number))]"
    )
    kept = page.run(numbers)
    assert (len(kept), kept[:100]) == (300, list(range(100)))
    assert kept[-1] > 1000, "the worst ones are there, too"


def test_importances_have_bars(chromium: Browser, tmp_path: Path) -> None:
    importances = {"shares": {"y": 0.75, "x": 0.25}, "note": "by ranks"}
    page = opened(chromium, tmp_path, run_of(CURVES, importances={"loss": importances}))
    (bars,) = layers(page, "importances")
    assert [box[2] for box in bars["boxes"]] == [0.75, 0.25]
    assert page.run("document.querySelector('[data-view=importances] .note').textContent") == "by ranks"
    assert page.run(PARALLEL) == ["y", "x", "loss"], "the most important one comes first"
    page.run(
        "names = [...Array(25).keys()]; shares = Object.fromEntries(names.map((n) => [`p${n}`, 0.04])); "
        "tables[0].run.data.importances = {loss: {shares, note: ''}}; "
        "document.querySelector('[data-view=importances]').card.mark()"
    )
    assert len(layers(page, "importances")[0]["boxes"]) == 20


def test_a_plot_of_some_parameters_begins_with_these(chromium: Browser, tmp_path: Path) -> None:
    names = "[...document.querySelectorAll('.plot:not([hidden]) > svg')].map((svg) => svg.getAttribute('aria-label'))"
    run = run_of(CURVES, best=1)
    for view, shown in (("slice", ["loss over y"]), ("parallel", [" over "])):
        page = opened(chromium, tmp_path, run, only={"view": view, "params": ["y"]})
        assert page.run(names) == shown
    assert page.run(PARALLEL) == ["y", "loss"]
    page = opened(chromium, tmp_path, run, only={"view": "contour", "params": ["y", "x"]})
    assert page.run(names) == ["x over y"]
    assert page.run("document.querySelector('.scale').textContent") == "best 1worst 8"


def test_slices_are_of_the_parameters_that_the_reader_chooses(chromium: Browser, tmp_path: Path) -> None:
    trials = [{"curve": [float(n)], "params": dict.fromkeys("abcd", n)} for n in range(3)]
    page = opened(chromium, tmp_path, run_of(trials, best=0))
    card = "document.querySelector('[data-view=slice]').card"
    names = (
        f"{card}.places.filter((panel) => !panel.hidden).map((panel) => panel.firstChild.ariaLabel.slice(-1)).join('')"
    )
    shown = [page.run(names)]
    for name in "bdac":
        page.click(f"[data-view=slice] [data-name={name}]")
        shown.append(page.run(names))
    assert shown == ["abc", "ac", "acd", "cd", "d"]
    page.run(f"{card}.charts[0].zoomTo([90, 60], [200, 200])")
    assert page.run(f"{card}.charts[0].zoom !== null")
    page.click("[data-view=slice] [data-name=a]")
    assert page.run(f"{card}.charts[0].zoom") is None, "the panel has another parameter now"
    for name in "ad":
        page.click(f"[data-view=slice] [data-name={name}]")
    assert page.run(f"[{names}, {card}.note.textContent]") == ["", "Choose a parameter."]


def test_trials_of_a_category_lie_in_a_strip(chromium: Browser, tmp_path: Path) -> None:
    trials = [{"curve": [float(n)], "params": {"a": "pq"[n % 2], "b": n}} for n in range(4)]
    page = opened(chromium, tmp_path, run_of(trials))
    drawn = layers(page, "contour")
    assert not [one for one in drawn if one["kind"] == "cells"], "categories have no contours"
    assert [one["cls"] for one in drawn] == ["c7", "c5", "c2", "c0"]
    at = {round(point[0]) for one in drawn for point in one["points"]}
    assert at == {0, 1}


OBJECTIVES = {"loss": "min", "gain": "max"}


def test_a_front_follows_the_modes_of_the_objectives(chromium: Browser, tmp_path: Path) -> None:
    points = [(1.0, 1.0), (2.0, 3.0), (3.0, 2.0), (2.0, 3.0), (0.5, None)]
    trials = [{"curve": [loss], "metrics": {"gain": gain}, "params": {"x": loss}} for loss, gain in points]
    trials.append({"curve": [0.0], "metrics": {"gain": 9.0}, "params": {"x": 0.0}, "status": "failed"})  # best in both
    page = opened(chromium, tmp_path, run_of(trials, best=0, objectives=OBJECTIVES, metrics=["loss", "gain"]))
    dots, line, front = layers(page, "front")
    assert dots["points"] == [[1, 1], [2, 3], [3, 2], [2, 3]]
    assert line["lines"] == [front["points"]] == [[[1, 1], [2, 3], [2, 3]]]
    assert page.run("document.querySelector('[data-view=front] .note').textContent") == (
        "On the front: 3 of 4 trials (0, 1, 3)."
    )
    assert hits(page, "front")[0].startswith("on the front: loss 1, gain 1\n")
    assert page.run("[...document.querySelectorAll('.best-of > .gain')].map((one) => one.textContent)") == [
        "best loss: trial 0 loss 1, gain 1",
        "best gain: trial 1 loss 2, gain 3",
    ]
    assert hits(page, "front")[2].startswith("loss 3, gain 2\n")
    assert page.run("['loss', 'gain', 'x'].map((name) => tables[0].run.signOf(name))") == [1, -1, 1]


def test_one_outlier_does_not_squeeze_a_front(chromium: Browser, tmp_path: Path) -> None:
    trials = [{"curve": [n / 10], "metrics": {"gain": n / 10}} for n in range(20)]
    trials.append({"curve": [1e9], "metrics": {"gain": -1e9}})
    page = opened(chromium, tmp_path, run_of(trials, objectives=OBJECTIVES, metrics=["loss", "gain"]))
    front = "document.querySelector('[data-view=front]').card.charts[0].spec"
    note = "document.querySelector('[data-view={}] .note').textContent"
    assert page.run(f"{front}.x.high") < 10
    assert page.run(f"{front}.y.low") > -10
    assert page.run(note.format("front")).startswith("1 much worse value lies at the edge. On the front: 20 of 21")


def test_only_the_first_button_of_a_mouse_opens_a_trial(chromium: Browser, tmp_path: Path) -> None:
    page = opened(chromium, tmp_path, run_of(CURVES, best=1))
    page.run("document.querySelector('[data-view=history] svg').scrollIntoView()")
    x, y = page.run(
        "(() => { const chart = document.querySelector('[data-view=history]').card.charts[0]; const {px, py} = "
        "chart.hits[2], box = chart.svg.getBoundingClientRect(); return [box.left + px, box.top + py]; })()"
    )
    for button, is_open in (("right", False), ("left", True)):
        for kind in ("mousePressed", "mouseReleased"):
            page.call("Input.dispatchMouseEvent", type=kind, button=button, clickCount=1, x=x, y=y)
        assert page.run("dialog.open") is is_open


def test_a_tip_stays_in_the_window(chromium: Browser, tmp_path: Path) -> None:
    path = tmp_path / "made.html"
    path.write_bytes(fill_page("made", {"runs": [run_of(CURVES)], "only": None}))
    page = chromium.open(path.as_uri(), 800, 400)
    places = {}
    for at in ("100, 100", "790, 100", "100, 390", "2, 2"):
        page.run(f"showTip({{clientX: {at.split(',')[0]}, pageX: {at.split(',')[0]}, clientY: {at.split(',')[1]}, "
                 f"pageY: {at.split(',')[1]}}}, 'a tip of\\nthree\\nlines')")  # fmt: skip
        places[at] = page.run(
            "(({left, top, right, bottom}) => [left >= 0, top >= 0, right <= 800, bottom <= 400])"
            "(tip.getBoundingClientRect())"
        )
    assert places == dict.fromkeys(places, [True] * 4)
    assert page.run("tip.textContent") == "a tip of\nthree\nlines"
    page.run("document.body.dispatchEvent(new PointerEvent('pointerdown', {bubbles: true}))")
    assert page.run("tip.hidden"), "that of a touch, too"


def test_a_range_is_a_mark_on_its_axis_which_esc_and_back_take_away(chromium: Browser, tmp_path: Path) -> None:
    trials = [{"curve": [float(n)], "params": {"rate": 10.0 ** (n - 3), "x": n, "act": "abcc"[n]}} for n in range(4)]
    page = opened(chromium, tmp_path, run_of(trials, best=0, scales={"rate": LOG}))
    chart = "document.querySelector('[data-view=parallel]').card.charts[0]"
    chosen = "tables[0].found.map((trial) => trial.number).join('')"
    ranges = "tables[0].run.ranges.map(([name]) => name).join()"
    page.run(f"{chart}.onRange(0.5, 0, 0.9)")
    assert page.run(ranges) == "", "too far from each axis"
    page.run(f"{chart}.onRange(0.1, 0.9, 0.45)")
    assert page.run(f"[{chosen}, {ranges}]") == ["23", "rate"]
    ((left, low, right, high),) = layers(page, "parallel")[-1]["boxes"]
    assert (left < 0 < right, low, high) == (True, pytest.approx(0.45), pytest.approx(0.9))
    page.run(f"{chart}.onRange(2, 0.4, 1)")
    page.run(f"{chart}.onRange(3, 0.5, 1)")
    assert page.run(f"[{chosen}, {ranges}]") == ["23", "rate,act,loss"]
    write_filter(page, "x = 3")
    write_filter(page, "x = 2")
    for chosen_then, ranges_then in (("23", "rate,act,loss"), ("23", "rate,act"), ("23", "rate")):
        page.run("history.back()")
        page.wait_for(f"{ranges} === '{ranges_then}' && document.querySelector('[type=search]').value === ''")
        assert page.run(chosen) == chosen_then
    page.run("dispatchEvent(new KeyboardEvent('keydown', {key: 'Escape'}))")
    assert page.run(f"[{chosen}, {ranges}]") == ["0123", ""]
    page.run("history.back()")
    page.wait_for(f"{ranges} === 'rate'")
    page.click("[data-view=parallel] .controls button")
    assert page.run(f"[{chosen}, {ranges}]") == ["0123", ""]
    assert page.errors == []


# -- texts -------------------------------------------------------------------------------------------------------------

ROWS = "[...document.querySelectorAll('.rows tbody tr')].map((row) => [...row.cells].map((cell) => cell.textContent))"
ROW = "document.querySelector('.rows tbody tr')"
HEADS = "[...document.querySelectorAll('.rows th')].map((head) => head.textContent)"


def definitions(page: Page, place: str) -> dict[str, str]:
    """A list of facts."""
    terms = f"[...document.querySelectorAll('{place} .facts dt')]"
    return dict(page.run(f"{terms}.map((one) => [one.textContent, one.nextSibling.textContent])"))


LISTED: list[dict[str, Any]] = [
    {"curve": [4.0, 2.0], "params": {"x": 1, "act": None}, "total_s": 10.5},
    {"curve": [], "params": {"x": 10}, "status": "failed", "ended": "failed", "error": "ValueError: No"},
    {"curve": [3.0], "params": {"x": 9.5, "act": "tanh"}, "metrics": {"f1": 0.5}, "facts": {"rank": 2, "of": 3}},
    {"curve": [1.0], "params": {"x": 0, "act": True}, "steps": [7], "why": "because"},
]


def test_the_table_has_all_columns_of_all_trials(chromium: Browser, tmp_path: Path) -> None:
    page = opened(chromium, tmp_path, run_of(LISTED, metrics=["loss", "f1"], best=3))
    assert page.run(HEADS) == ["trial", "loss ▴", "status", "x", "act", "iter", "total time (s)", "error"]
    assert page.run(ROWS) == [
        ["3", "1", "finished", "0", "True", "7", "0", ""],
        ["0", "2", "finished", "1", "None", "2", "10.5", ""],
        ["2", "3", "finished", "9.5", "tanh", "1", "0", ""],
        ["1", "", "failed", "10", "", "", "", "ValueError: No"],
    ]
    for column, order in ((1, "2031"), (4, "2301"), (4, "3201"), (3, "3021"), (3, "1203")):
        page.run(f"document.querySelectorAll('.rows th button')[{column}].click()")
        assert "".join(row[0] for row in page.run(ROWS)) == order
    while page.run("document.querySelector('.columns input:not(:checked)') !== null"):
        page.click(".columns input:not(:checked)")
    heads = [head.rstrip(" ▴▾") for head in page.run(HEADS)]
    assert heads == [
        *("trial", "loss", "status", "repeats", "ended", "f1", "x", "act", "iter", "total time (s)"),
        *("rank", "cutoff", "why", "error", "name"),
    ]
    _, third, _, last = (dict(zip(heads, row, strict=True)) for row in page.run(ROWS))
    assert (third["f1"], third["rank"], last["why"]) == ("0.5", "2 of 3", "because")
    page.click(".columns input")
    assert page.run(HEADS)[0] == "loss"


def test_where_more_is_better_the_table_begins_with_the_largest_value(chromium: Browser, tmp_path: Path) -> None:
    page = opened(chromium, tmp_path, run_of(LISTED, mode="max"))
    assert page.run(HEADS)[1] == "loss ▾"
    assert [row[0] for row in page.run(ROWS)] == ["2", "0", "3", "1"]


FILTERS = {
    "x < 1": "3", "act = None": "0", "act != tanh": "301", "status = failed": "1", "valueerror": "1",
    "finished tanh": "2", "nothing": "", "  ": "3021", "config/x >= 1 x <= 9.5": "02", "iter = 7": "3",
    "training_iteration = 7": "3",
    "'total time' >= 10": "0",
}  # fmt: skip


def test_conditions_and_words_filter_the_table(chromium: Browser, tmp_path: Path) -> None:
    page = opened(chromium, tmp_path, run_of(LISTED))
    shown = {}
    for words in FILTERS:
        write_filter(page, words)
        shown[words] = "".join(row[0] for row in page.run(ROWS))
        assert page.run("document.querySelector('.count').textContent") == f"{len(shown[words])} of 4 trials"
        assert page.run("document.querySelector('input.wrong')") is None, words
    assert shown == FILTERS


def write_filter(page: Page, words: str) -> None:
    """Type into the filter."""
    page.run(
        f"(() => {{ const input = document.querySelector('[type=search]'); input.value = {json.dumps(words)}; "
        "input.dispatchEvent(new Event('input')); })()"
    )


def test_a_filter_that_cannot_be_read_is_red_and_says_why(chromium: Browser, tmp_path: Path) -> None:
    trials = [{"curve": [float(n)], "params": {"a/lr": n, "b/lr": n, "opt/wd": n, "x": n}} for n in range(4)]
    page = opened(chromium, tmp_path, run_of(trials))
    write_filter(page, "x < 2")
    unreadable = {"x <": "a value is missing after x <", "lr < 1": "lr is a/lr or b/lr: write more of its name"}
    for words, sentence in unreadable.items():
        write_filter(page, words)
        assert page.run("document.querySelector('input.wrong').ariaInvalid") == "true"
        assert page.run("document.querySelector('[role=alert]').textContent") == sentence
        assert page.run("document.querySelector('.count').textContent") == "2 of 4 trials", "the last one that was read"
    write_filter(page, "wd = 3")
    assert page.run("[document.querySelector('input.wrong'), document.querySelector('[role=alert]').hidden]") == [
        None,
        True,
    ]
    assert page.run("document.querySelector('.count').textContent") == "1 of 4 trials", "the last part of its name"


def test_one_selection_holds_for_the_table_and_all_plots(chromium: Browser, tmp_path: Path) -> None:
    trials = [{"curve": [float(n), n / 2], "params": {"x": n, "act": "ab"[n % 2]}} for n in range(8)]
    trials[7] |= {"status": "stopped", "ended": "stopped at 2"}
    page = opened(chromium, tmp_path, run_of(trials, best=0))
    views = ("history", "curves", "slice", "parallel")

    def counts() -> list[int]:
        """The numbers of the trials in the plots, and in the table."""
        hits = "document.querySelector('[data-view={}]').card.charts[0].hits"
        script = f"new Set({hits}.map((hit) => hit.trial.number)).size"
        return [*(page.run(script.format(view)) for view in views), page.run("tables[0].found.length")]

    assert counts() == [8] * 5
    logs = (
        "['history', 'curves'].map((view) => document.querySelector(`[data-view=${view}] [data-name=isLog]`).disabled)"
    )
    assert page.run(logs) == [True, True], "0 has no logarithm"
    write_filter(page, "x >= 4")
    assert counts() == [4] * 5
    page.click("[data-view=curves] [data-name=stopped]")
    assert counts() == [3] * 5
    # a range that is dragged along an axis replaces the one before
    write_filter(page, "act = a")
    card = "document.querySelector('[data-view=parallel]').card"
    at = page.run("tables[0].run.params.indexOf('x')")
    for low, high in ((0.0, 0.5), (0.0, 0.6)):
        page.run(f"{card}.charts[0].onRange({at}, {low}, {high})")
    assert counts() == [3] * 5
    page.run(f"{card}.charts[0].onRange({1 - at}, 0.6, 0.9)")
    assert page.run("[tables[0].found.length, " + f"{card}.note.textContent]") == [0, "No trial is selected."]
    assert len(layers(page, "parallel")[-1]["boxes"]) == 2, "the ranges stay on their axes"
    assert page.errors == []


def test_the_address_holds_the_open_trial(chromium: Browser, tmp_path: Path) -> None:
    page = opened(chromium, tmp_path, run_of([{"curve": [float(n)], "params": {"x": n}} for n in range(5)], best=0))
    write_filter(page, "x > 1")
    page.run("openTrial(tables[0].run, tables[0].run.byNumber.get(2))")
    address = page.run("location.href")
    assert address.endswith("#trial=2")
    other = chromium.open(address)
    other.wait_for("dialog.open && dialog.querySelector('h2').textContent === 'Trial 2'")
    odd = chromium.open(address.replace("trial=2", "trial=99"))
    odd.wait_for("document.querySelector('.count')?.textContent === '5 of 5 trials'")
    assert not odd.run("dialog.open")
    page.run("history.back()")
    page.wait_for("!dialog.open")
    assert page.run("document.querySelector('[type=search]').value") == "x > 1"
    page.run("history.back()")
    page.wait_for("document.querySelector('.count').textContent === '5 of 5 trials'")
    assert page.run("document.querySelector('[type=search]').value") == ""
    assert page.errors == []


def test_the_selected_trials_can_be_saved(chromium: Browser, tmp_path: Path) -> None:
    trials = [{"curve": [float(n)], "params": {"x": n, "name, or": ["a", 'a "b"', "a\nb"][n]}} for n in range(3)]
    page = opened(chromium, tmp_path, run_of(trials, best=0))
    page.run("window.saved = []; save = (name, content, type) => saved.push([name, content, type])")
    write_filter(page, "x > 0")
    page.run("[...document.querySelectorAll('.tools button')].find((one) => one.textContent === 'CSV').click()")
    ((name, text, _),) = page.run("saved")
    rows = list(csv.DictReader(io.StringIO(text)))
    assert [(row["trial"], row["x"], row["name, or"]) for row in rows] == [("1", "1", 'a "b"'), ("2", "2", "a\nb")]
    assert name == "made.csv"


def test_one_outlier_does_not_squeeze_the_others(chromium: Browser, tmp_path: Path) -> None:
    trials = [{"curve": [n / 10, n / 10]} for n in range(1, 21)]
    trials.append({"curve": [1e9, 1e9]})
    page = opened(chromium, tmp_path, run_of(trials, best=0))
    chart = "document.querySelector('[data-view={}]').card.charts[0]"
    for view in ("history", "curves"):
        high = page.run(f"{chart.format(view)}.spec.y.high")
        assert high < 10
        assert page.run(f"Math.max(...{chart.format(view)}.hits.map((hit) => hit.y))") == high, "it lies at the edge"
        note = page.run(f"document.querySelector('[data-view={view}] .note').textContent")
        assert "much worse value" in note
        page.click(f"[data-view={view}] [data-name=isLog]")
        assert page.run(f"{chart.format(view)}.spec.y.high") > 9, "a logarithmic axis has all values"
        assert "much worse" not in page.run(f"document.querySelector('[data-view={view}] .note').textContent")
    page.run("axis = valueAxis('score', [0.9, 0.8, 0.7, 0.95, -50], -1)")
    assert page.run("[axis.at(-50) === axis.low, axis.at(0.9), axis.edge]") == [
        *(True, 0.9, "1 much worse value lies at the edge. ")
    ]


def test_the_answer_about_a_trial_that_the_reader_has_left_is_not_shown(chromium: Browser, tmp_path: Path) -> None:
    page = opened(chromium, tmp_path, run_of([{"curve": [1.0]}, {"curve": [2.0]}]))
    page.run("answers = {}; fetch = (path) => new Promise((resolve, reject) => { answers[path] = [resolve, reject]; })")
    page.run("run = tables[0].run; run.isServed = true; for (const trial of run.trials) openTrial(run, trial); 0")
    answer = "({{json: async () => ({{seed: {}}})}})"
    page.run(f"answers['trial/0'][0]({answer.format(70)})")
    page.run("new Promise((done) => setTimeout(done))")
    assert page.run("dialog.querySelector('h2')") is None
    page.run(f"answers['trial/1'][0]({answer.format(71)})")
    page.wait_for("dialog.querySelector('h2')?.textContent === 'Trial 1'")
    told = definitions(page, "dialog")
    assert told["seed"] == "71"
    page.run("openTrial(run, run.trials[0]); answers['trial/0'][1](new Error('gone'))")
    page.wait_for("dialog.querySelector('h2')?.textContent === 'Trial 0'")
    assert page.run("dialog.querySelector('#error').textContent") == "the server does not answer any more"


def test_every_metric_has_a_history_and_curves(chromium: Browser, tmp_path: Path) -> None:
    trials = [
        {
            "curve": [4.0, 3.0, 2.0],
            "metrics": {"val/acc": 0.1 * n},
            "courses": {"at": [0, 2], "seconds": [1.5, 9], "values": {"val/acc": [0.05, 0.1 * n]}},
        }
        for n in range(3)
    ]
    page = opened(chromium, tmp_path, run_of(trials, best=0, metrics=["val/acc"]))
    options = "[...document.querySelectorAll('[data-name=metric] option')].map((one) => one.value)"
    assert page.run(options) == ["loss", "val/acc"], "one choice holds for the page"
    choose_metric(page, "val/acc")
    assert layers(page, "history")[0]["points"] == [[0, 0], [1, 0.1], [2, 0.2]]
    assert [one for one in layers(page, "history") if one["kind"] == "lines"] == [], "no line says what is best"
    assert layers(page, "curves")[0]["lines"][2] == [[1, 0.05], [3, 0.2]]
    page.run("document.querySelector('.rows tbody tr').click()")
    page.wait_for("dialog.querySelectorAll('.panels svg').length === 2")
    names = "[...dialog.querySelectorAll('.panels .plot')].map((one) => one.dataset.metric)"
    assert page.run(names) == ["loss", "val/acc"]
    widths = page.run("[...dialog.querySelectorAll('.panels svg')].map((one) => one.getAttribute('viewBox'))")
    assert widths[0] == widths[1]
    assert page.errors == []


def test_curves_are_over_seconds_and_smooth_and_all_metrics_stand_side_by_side(
    chromium: Browser, tmp_path: Path
) -> None:
    courses = {"at": None, "seconds": [1.5, 9, 10], "values": {"acc": [0.5, 0.25, None]}}
    trials = [{"curve": [4.0, 2.0, 1.0], "metrics": {"acc": 0.25}, "courses": courses}]
    page = opened(chromium, tmp_path, run_of(trials, best=0, metrics=["acc"]))
    panels = (
        "document.querySelector('[data-view=metrics]').card.charts.map(({spec}) => [spec.y.name, spec.layers[0].lines])"
    )
    assert page.run(panels) == [["loss", [[[1, 4], [2, 2], [3, 1]]]], ["acc", [[[1, 0.5], [2, 0.25]]]]]
    choose(page, "curves", "by", "seconds")
    assert layers(page, "curves")[0]["lines"] == [[[1.5, 4], [9, 2], [10, 1]]]
    assert hits(page, "curves")[0].startswith("1.5 s: 4\n")
    page.click("[data-view=curves] [data-name=isSmooth]")
    second, third = (2 + 0.6 * 4) / 1.6, (1 + 0.6 * 2 + 0.36 * 4) / 1.96
    assert layers(page, "curves")[0]["lines"] == [[[1.5, 4], [9, pytest.approx(second)], [10, pytest.approx(third)]]]


def test_the_best_value_of_a_trial_counts_in_plots_and_table_if_the_reader_chooses_it(
    chromium: Browser, tmp_path: Path
) -> None:
    trials = [
        {"curve": [1.0, 3.0], "bests": {"loss": 1.0}, "params": {"x": 0}},
        {"curve": [2.0], "params": {"x": 1}},
        {"curve": [0.5, None], "value": None, "odd": "nan", "bests": {"loss": 0.5}, "params": {"x": 2}},
    ]
    page = opened(chromium, tmp_path, run_of(trials, best=1))
    assert [row[:2] for row in page.run(ROWS)] == [["1", "2"], ["0", "3"], ["2", "nan"]]
    page.run("(({choice}) => { choice.value = 'best'; choice.dispatchEvent(new Event('change')); })"
             "({choice: document.querySelector('[data-name=counts]')})")  # fmt: skip
    assert [row[:2] for row in page.run(ROWS)] == [["2", "0.5"], ["0", "1"], ["1", "2"]]
    assert layers(page, "history")[0]["points"] == [[0, 1], [1, 2], [2, 0.5]]
    assert layers(page, "history")[-1]["points"] == [[2, 0.5]]
    assert "finite" not in page.run("document.querySelector('[data-view=history] .note').textContent")
    other = opened(chromium, tmp_path, run_of(trials[1:2], best=0))
    assert other.run("document.querySelector('[data-name=counts]').parentNode.hidden"), "there is nothing to choose"


def test_one_choice_of_an_objective_holds_for_the_page(chromium: Browser, tmp_path: Path) -> None:
    trials = [
        {"curve": [float(n)], "metrics": {"acc": acc}, "params": {"x": n, "y": (n * 2) % 5, "act": "ab"[n % 2]}}
        for n, acc in enumerate([0.2, 0.1, 0.9, 0.4, 0.5])
    ]
    of_loss = {"shares": {"x": 0.9, "y": 0.1, "act": 0}, "note": "of loss"}
    of_acc = {"shares": {"y": 0.8, "x": 0.2, "act": 0}, "note": "of acc"}
    run = run_of(
        trials,
        best=0,
        objectives={"loss": "min", "acc": "max"},
        metrics=["loss", "acc"],
        importances={"loss": of_loss, "acc": of_acc},
    )

    def told(page: Page) -> list[Any]:
        card = "document.querySelector('[data-view={}]').card"
        card_of = card.format
        best = f"{card_of('history')}.charts[0].spec.layers.at(-1).points"
        scales = [f"{card_of(view)}.scale.textContent" for view in ("contour", "parallel")]
        names = [f"{card_of(view)}.charts[0].spec.y.name" for view in ("history", "slice")]
        names.append(f"{card_of('contour')}.charts[0].spec.x.name")
        notes = [f"{card_of('importances')}.note.textContent", "tables[0].found.map((trial) => trial.number).join('')"]
        values = [page.run(one) for one in (best, *scales, *names, *notes)]
        return [*values, page.run(PARALLEL)]

    page = opened(chromium, tmp_path, run)
    assert told(page) == [
        *([[0, 0]], "best 0worst 4", "best 0worst 4", "loss", "loss", "x", "of loss", "01234"),
        ["x", "y", "act", "loss"],
    ]
    choose_metric(page, "acc")
    page.wait_for("[...document.querySelectorAll('[data-view]')].every((root) => root.hidden || !root.card.isDirty)")
    acc = [
        *([[2, 0.9]], "best 0.9worst 0.1", "best 0.9worst 0.1", "acc", "acc", "y", "of acc", "24301"),
        ["y", "x", "act", "acc"],
    ]
    assert told(page) == acc
    assert layers(page, "history")[1]["lines"] == [[[0, 0.2], [1, 0.2], [2, 0.9], [3, 0.9], [4, 0.9]]]
    assert page.errors == []


def test_a_curve_breaks_where_a_trial_took_over_another_one(chromium: Browser, tmp_path: Path) -> None:
    trials = [
        {"curve": [1.0, 2.0, 3.0, 4.0]},
        {"curve": [0.1, 0.2, 3.1, 4.1], "steps": [1, 2, 3, 4], "copies": [[0, 2], [1, 3]]},
        {"curve": [0.1, 0.2, 2.1], "steps": [1, 2, 2], "copies": [[0, 2]]},
    ]
    page = opened(chromium, tmp_path, run_of(trials, best=0, mode="max"))
    curves, marks = layers(page, "curves")[0], layers(page, "curves")[-1]
    assert curves["lines"][1] == [[1, 0.1], [2, 0.2], [None, None], [3, 3.1], [4, 4.1]]
    assert marks["points"] == [[3, 3.1], [2, 2.1]]


def test_the_best_trial_of_an_objective_has_not_failed(chromium: Browser, tmp_path: Path) -> None:
    trials = [{"curve": [float(n)], "metrics": {"acc": n / 4}} for n in range(4)]
    trials[3] |= {"status": "failed", "ended": "failed"}
    objectives = {"loss": "min", "acc": "max"}
    page = opened(chromium, tmp_path, run_of(trials, best=0, objectives=objectives, metrics=["loss", "acc"]))
    assert page.run("tables[0].run.best.number") == 0
    choose_metric(page, "acc")
    assert page.run("tables[0].run.best.number") == 2
    assert layers(page, "history")[-1]["points"] == [[2, 0.5]]


DETAILS = {
    "config": {"x": 1, "deep": [None]},
    "seed": 77,
    "attempt": 2,
    "directory": "/runs/made/0",
    "decisions": ["after iteration 1: resumed"],
    "checkpoints": [{"path": "/runs/made/0/checkpoint_000001", "iteration": 2, "bytes": 12345}],
    "error": "",
    "output": "hello\nthere",
}


def test_one_trial_is_shown_whole(chromium: Browser, tmp_path: Path) -> None:
    facts = {"rank": 2, "of": 3, "rung": 4, "cutoff": 0.25}
    first = {**LISTED[0], "details": DETAILS, "why": "it has returned", "metrics": {"f1": 0.5}, "facts": facts}
    page = opened(chromium, tmp_path, run_of([first, *LISTED[1:]], metrics=["f1"]))
    page.run("document.querySelectorAll('.rows tbody tr')[1].click()")
    page.wait_for("document.querySelector('#config') !== null")
    assert definitions(page, "dialog") == {
        "name": "train_t0000",
        "status": "finished",
        "why": "it has returned",
        "loss": "2",
        "f1": "0.5",
        "rank": "2 of 3 at 4",
        "cutoff": "0.25",
        "iter": "2",
        "total time (s)": "10.5",
        "attempt": "2",
        "seed": "77",
        "directory": "/runs/made/0",
    }
    told = page.run("dialog.textContent")
    for text in ("after iteration 2, 12,345 bytes", "after iteration 1: resumed", "hello\nthere"):
        assert text in told
    assert page.run("[...dialog.querySelectorAll('.copy pre')].map((one) => one.textContent)") == [
        "/runs/made/0/checkpoint_000001"
    ]
    page.run("dialog.close()")
    page.run(f"{ROW}.dispatchEvent(new KeyboardEvent('keydown', {{key: 'a', bubbles: true}}))")
    assert not page.run("dialog.open")
    page.run(f"{ROW}.dispatchEvent(new KeyboardEvent('keydown', {{key: 'Enter', bubbles: true}}))")
    page.run("dialog.querySelector('h2').click()")
    assert page.run("dialog.open")
    page.run("dialog.click()")
    assert not page.run("dialog.open"), "a click beside it"
    assert page.errors == []


def test_the_head_tells_the_state_of_the_run_and_its_best_trial(chromium: Browser, tmp_path: Path) -> None:
    state = {"state": "killed", "state_text": "killed, after 3 s", "resume": "minitune resume /runs/made"}
    failed = [{**LISTED[1], "error": f"ValueError: {n}"} for n in range(30)]
    counts = {"finished": 3, "failed": 31, "not started": 5}
    errors = [
        {"error": "ValueError: 0", "trials": list(range(4, 34)), "rerun": "minitune rerun /runs/made 4 --pdb"},
        {"error": "ValueError: No", "trials": [1], "rerun": "minitune rerun /runs/made 1 --pdb"},
    ]
    run = run_of([*LISTED, *failed], best=3, counts=counts, errors=errors, bestConfig={"x": 1.18193e-05}, **state)
    run["trials"][3]["params"]["x"] = 1.18193e-05
    page = opened(chromium, tmp_path, run)
    assert page.run("[...document.querySelectorAll('.badge')].map((one) => one.textContent)") == ["killed", "31 failed"]
    assert page.run("[...document.querySelectorAll('.badge')].map((one) => one.className)") == ["badge failed"] * 2
    assert page.run("document.querySelector('.best-of .value').textContent") == "1"
    assert page.run("document.querySelector('.gain').textContent") == "trial 3 finished"
    told = definitions(page, "main")
    assert told.pop("begun")
    assert told == {
        "state": "killed, after 3 s",
        "objective": "loss (min)",
        "trainable": "train",
        "duration": "100 s",
        "seed": "7",
        "directory": "/runs/made",
        "x": "1.18e-05",
        "act": "True",
    }
    bar = "[...document.querySelectorAll('.bar i')].map((part) => [part.className, part.style.flexGrow])"
    assert page.run(bar) == [["finished", "3"], ["failed", "31"], ["pending", "5"]]
    assert page.run("document.querySelector('.counts').textContent") == "3 finished · 31 failed · 5 not started"
    assert page.run("[...document.querySelectorAll('.copy pre')].map((one) => one.textContent)") == [
        "minitune resume /runs/made",
        "minitune rerun /runs/made 4 --pdb",
        "minitune rerun /runs/made 1 --pdb",
    ]
    groups = page.run("[...document.querySelectorAll('.error')].map((one) => one.textContent)")
    assert groups[0].startswith("30 \u00d7 ValueError: 0trials 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15 and 18 more")
    assert page.run("document.title") == "minitune: made"


def test_the_head_says_why_there_is_no_best_trial_and_what_to_expect_of_it(chromium: Browser, tmp_path: Path) -> None:
    live = {"state": "running", "is_live": True}
    kinds = [{"error": f"ValueError: {n}", "trials": [0], "rerun": "minitune rerun"} for n in range(12)]
    remarks = {"confirmed": 1.25, "remark": "1 was lucky"}
    page = opened(
        chromium,
        tmp_path,
        run_of([{}], metric=None, mode=None, compared={}),
        run_of([{}], compared={}),
        run_of([{"status": "running", "ended": "running"}], compared={}, **live),
        run_of([{"curve": [1.0]}], best=0, compared={}, errors=kinds, **remarks),
    )
    none, unreported, running, best = page.run(
        "[...document.querySelectorAll('.best-of')].map((one) => [...one.children].map((part) => part.textContent))"
    )
    assert none[1:] == ["The run has no objective."]
    assert unreported[1:] == ["No trial has reported loss."]
    assert running[1:] == ["No trial has reported loss so far."]
    assert best[1] == "1.25", "the mean of its repeats"
    assert best[3:] == ["1 was lucky."]
    errors = page.run("document.querySelectorAll('#errors')[3].textContent")
    assert "ValueError: 9" in errors
    assert errors.endswith("and 2 more kinds: filter the table by failed")


SERVER = """
fetch = (address) => new Promise((tell, fail) => Object.assign(window, {
    address, fail, answer: (data, ok = true) => tell({ ok, text: async () => ok ? JSON.stringify(data) : data }),
}));
soon = setTimeout;
setTimeout = (done, pause) => soon(done, pause < 1000 ? pause : 0);
start();
"""
"""A server whose answers the test writes, and no pauses between them."""


def tell(page: Page, answer: str) -> None:
    """Answer the page, and wait for its next question."""
    page.run(f"asked = window.answer; {answer}")
    page.wait_for("window.answer !== asked")


def test_a_served_page_follows_its_server(chromium: Browser, tmp_path: Path) -> None:
    trials = [{"curve": [float(n)], "params": {"x": n}} for n in range(3)]
    run = run_of(trials, best=0, is_live=True, state="running", version=4)
    path = tmp_path / "served.html"
    path.write_bytes(fill_page("made", {"runs": [run], "is_served": True}))
    page = chromium.open(path.as_uri())
    page.run(SERVER)
    assert page.run("[address, document.title]") == ["data/4", "(3/∞) made"]
    tell(page, "answer('the disk is full', false)")
    assert page.run("[banner.hidden, banner.textContent]") == [False, "the disk is full"]
    shares = {"shares": {"x": 1.0}, "note": "rough"}
    page.run("data = {...DATA.runs[0], version: 5}")
    tell(page, f"answer({{...data, importances: {{loss: {json.dumps(shares)}}}}})")
    page.wait_for("[...document.querySelectorAll('[data-view=importances]')].some((root) => !root.hidden)")
    assert page.run("[address, banner.hidden]") == ["data/5", True]
    page.run(
        "shown = ['.best-of .value', '.about details', '.progress .bar'].map((one) => document.querySelector(one))"
    )
    page.run("document.querySelector('.about details').open = true")
    page.run("known = tables.at(-1).run.trials")
    tell(page, "answer({...data, trials: [...data.trials.slice(0, 2), {...data.trials[2], value: 5}]})")
    page.wait_for("tables.at(-1).found.at(-1).value === 5")
    assert page.run("tables.at(-1).run.trials.map((trial, i) => trial === known[i])") == [True, True, False]
    assert page.run("document.querySelector('.about details').open"), "what the reader has opened stays open"
    assert page.run("shown.every((one) => one.isConnected)"), "what has not changed is not made again"
    tell(page, "fail()")
    assert page.run("banner.textContent").startswith("Not connected")


def test_time_goes_on_with_each_answer(chromium: Browser, tmp_path: Path) -> None:
    trials = [{"curve": [4.0, 2.0]}, {**RUNNING, "curve": [3.0], "total_s": 40.0, "reported_s": 1e9}, RUNNING]
    facts = {"total": 9, "counts": {"finished": 1, "running": 2, "pending": 6}, "rest_s": 61.0}
    run = run_of(trials, best=0, is_live=True, state="running", **facts)
    path = tmp_path / "served.html"
    path.write_bytes(fill_page("made", {"runs": [run], "is_served": True}))
    page = chromium.open(path.as_uri(), 1265, 4000)
    page.run(SERVER)
    told = "[document.title, document.querySelector('.time').textContent]"
    assert page.run(told) == ["(1/9) made", "1 min 40 s · about 1 min 1 s to go"]
    tell(page, "answer({worked_s: 120, rest_s: 41})")
    assert page.run(told)[1] == "2 min 0 s · about 41 s to go"
    rows = {row[0]: row for row in page.run(ROWS)}
    heads = page.run(HEADS)
    assert rows["1"][heads.index("total time (s)")] == "40"
    last = heads.index("last report")
    assert rows["1"][last] == page.run("new Date(1e12).toLocaleTimeString()")
    assert (rows["0"][last], rows["2"][last]) == ("", ""), "one has ended, the other has not reported"


def test_runs_side_by_side_have_their_counts_and_their_best(chromium: Browser, tmp_path: Path) -> None:
    page = opened(
        chromium,
        tmp_path,
        run_of(CURVES, best=0, name="one", compared={"trials": "3", "best loss": "2", "config/x": "1"}),
        run_of(LISTED[1:2], name="two", compared={"trials": "1", "config/y": "0.5"}),
    )
    rows = dict(
        page.run(
            "[...document.querySelectorAll('table.side tbody tr')].map((row) => [row.cells[0].textContent, "
            "[row.cells[1].textContent, row.cells[2].textContent]])"
        )
    )
    assert rows == {"trials": ["3", "1"], "best loss": ["2", ""], "config/x": ["1", ""], "config/y": ["", "0.5"]}
    assert [one["lines"] for one in layers(page, "history")] == [[[[0, 2], [1, 1], [2, 1]]], [[]]]
    assert page.run("document.querySelector('[data-view=history] .chips').textContent") == "onetwo"


def listed(name: str, state: str, href: str | None = None, **facts: Any) -> dict[str, Any]:
    """A run in the list, with what is unknown of a damaged one."""
    return {"counts": {}, "name": name, "state": state, "href": href, **facts}


def test_the_list_of_runs_tells_their_states(chromium: Browser, tmp_path: Path) -> None:
    facts: Any = {"begun_s": 1e9, "opened_s": 1e11, "earlier_s": 0, "metric": "loss (min)"}
    counts = {"stopped": 1, "running": 2, "pending": 6}
    rows = [
        listed("a", "running", "run/a/", trials=3, ended=1, total=9, counts=counts, **{**facts, "earlier_s": 65}),
        listed("b", "damaged"),
        listed(
            "c", "killed", "run/c/", trials=2, ended=2, failed=2, worked_s=3.5, best=1e-7, counts={"failed": 2}, **facts
        ),
        listed("d d", "finished", "run/d%20d/", trials=1, ended=1, total=1, worked_s=7322, best=0.123456, **facts),
    ]
    path = tmp_path / "list.html"
    path.write_bytes(fill_page("runs", {"listed": rows}))
    page = chromium.open(path.as_uri())
    page.wait_for("document.querySelector('.list td') !== null")
    lines = (
        "[...document.querySelectorAll('.list tbody tr')].map((row) => [...row.cells].map((one) => one.textContent))"
    )
    assert [line[1:8] for line in page.run(lines)] == [
        ["a", "running", "1 of 9", "", "loss (min)", "", "1 min 5 s"],
        ["b", "damaged", "", "", "", "", ""],
        ["c", "killed", "2 of 2", "2", "loss (min)", "1e-07", "3 s"],
        ["d d", "finished", "1 of 1", "", "loss (min)", "0.123456", "2 h 2 min"],
    ]
    bar = (
        "[...document.querySelectorAll('.list .bar')[0].children].map((part) => [part.className, part.style.flexGrow])"
    )
    assert page.run(bar) == [["stopped", "1"], ["running", "2"], ["pending", "6"]]
    states = "[...document.querySelectorAll('.list td:nth-child(3) span')].map((one) => one.className)"
    assert page.run(states) == ["running", "failed", "failed", ""]
    assert page.run("[...document.querySelectorAll('td a')].map((one) => one.textContent)") == ["a", "c", "d d"]

    names = f"{lines}.map((line) => line[1])"
    button = "[...document.querySelectorAll('.list th button')].find((one) => one.textContent.startsWith('{}'))"
    for column, order in (
        ("duration", ["c", "a", "d d", "b"]),
        ("duration", ["d d", "a", "c", "b"]),  # those without a value stay at the end
        ("progress", ["a", "c", "d d", "b"]),
        ("best", ["c", "d d", "a", "b"]),
    ):
        page.run(f"(() => {{ const head = {button.format(column)}; head.focus(); head.click(); }})()")
        assert page.run(names) == order
        assert page.run(f"document.activeElement === {button.format(column)}"), "the keys stay where they are"
    for words, found in (("failed > 1", ["c"]), ("best < 1 loss", ["c", "d d"]), ("LOSS killed", ["c"])):
        write_filter(page, words)
        assert page.run(names) == found
    write_filter(page, "best <")
    assert page.run("document.querySelector('[role=alert]').textContent") == "a value is missing after best <"
    write_filter(page, "LOSS killed")
    page.click(".list [type=checkbox]")
    assert page.run("document.querySelector('.tools a').hidden")
    write_filter(page, "finished")
    page.click(".list [type=checkbox]")
    assert page.run("document.querySelector('.tools a').getAttribute('href')") == "compare/c/d%20d/"
    page.click(".list [type=checkbox]")
    assert page.run("document.querySelector('.tools a').hidden")
    assert page.errors == [] or all("data" in one for one in page.errors)
