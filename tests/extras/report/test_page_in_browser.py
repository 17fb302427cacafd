"""The report in a real Chromium: what its readers see and do, on a screen, on a phone and on paper."""

from __future__ import annotations

import ast
import json
import random
from pathlib import Path
from typing import Any

import pytest
from browser import Browser, Page
from kit import fit, table_in

from minitune import ResultGrid, uniform
from minitune import visualization as plots
from minitune.commands import cli
from minitune.view.history import RunHistory
from minitune.visualization.page import fill_page

TRIALS = 60
"""The number of trials of the fixture `grid`."""
COUNT = "document.querySelector('.count').textContent"
DRAWN = "[...document.querySelectorAll('[data-view]')].filter((card) => !card.hidden && card.querySelector('svg path'))"
TICKS = "[...card.querySelectorAll('.tick[text-anchor=middle]')].map((mark) => mark.textContent)"


@pytest.fixture(scope="module")
def report(grid: ResultGrid, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The address of the report of the run."""
    return Path(grid.to_html(tmp_path_factory.mktemp("pages") / "report.html")).as_uri()


def draw_all(page: Page) -> list[str]:
    """Make the window as high as the page, so that all plots are drawn. Return the names of the plots."""
    width, height = page.run("[innerWidth, document.documentElement.scrollHeight]")
    page.call(
        "Emulation.setDeviceMetricsOverride", width=width, height=height + 2000, deviceScaleFactor=1, mobile=False
    )
    page.wait_for("[...document.querySelectorAll('[data-view]')].every((root) => root.hidden || !root.card.isDirty)")
    names: list[str] = page.run(f"{DRAWN}.map((card) => card.dataset.view)")
    return names


def type_filter(page: Page, text: str) -> str:
    """Type into the filter, and return what the table says about its rows."""
    words = json.dumps(text)
    page.run(f"(() => {{ const input = document.querySelector('[type=search]'); input.value = {words}; "
             "input.dispatchEvent(new Event('input')); })()")  # fmt: skip
    told: str = page.run(COUNT)
    return told


def drag(page: Page, selector: str, begin: tuple[float, float], end: tuple[float, float]) -> None:
    """Drag the mouse over an element, between two places in shares of its size."""
    page.run(f"document.querySelector('{selector}').scrollIntoView()")
    left, top, width, height = page.run(
        f"(() => {{ const r = document.querySelector('{selector}').getBoundingClientRect(); "
        "return [r.left, r.top, r.width, r.height]; })()"
    )
    for kind, (x, y) in (("mousePressed", begin), ("mouseMoved", end), ("mouseReleased", end)):
        at = {"x": left + x * width, "y": top + y * height}
        page.call("Input.dispatchMouseEvent", type=kind, button="left", buttons=1, clickCount=1, **at)


@pytest.mark.parametrize("width", [1265, 390])
def test_all_plots_are_drawn_and_nothing_is_cut(chromium: Browser, report: str, width: int) -> None:
    page = chromium.open(report, width)
    page.run("document.querySelector('.tools summary').click(); cards.forEach((card) => card.refresh(true))")
    widths = "[...document.querySelectorAll('svg')].map((svg) => [svg.clientWidth, svg.viewBox.baseVal.width])"
    assert all(abs(width - drawn) <= 1 for width, drawn in page.run(widths)), "as wide as it stands there"

    names = draw_all(page)

    assert names == ["history", "curves", "metrics", "importances", "contour", "slice", "parallel"]
    width_of_page, width_of_window = page.run(
        "(({scrollWidth, clientWidth}) => [scrollWidth, clientWidth])(document.documentElement)"
    )
    assert width_of_page == width_of_window, "a scroll bar may take a part of the width"
    outside = page.run(
        f"{DRAWN}.flatMap((card) => [...card.querySelectorAll('text, button, select, p')])"
        ".filter((one) => { const r = one.getBoundingClientRect(), c = one.closest('.card').getBoundingClientRect(); "
        "return r.width && (r.left < c.left - 1 || r.right > c.right + 1); }).map((one) => one.textContent)"
    )
    assert outside == []
    covered = page.run(  # texts of one axis do not lie over each other
        f"{DRAWN}.flatMap((card) => [...card.querySelectorAll('svg')].flatMap((svg) => {{ "
        "const all = [...svg.querySelectorAll('.tick[text-anchor]')].map((one) => one.getBoundingClientRect()); "
        "return all.flatMap((a, i) => all.slice(i + 1).filter((b) => a.left < b.right - 1 && b.left < a.right - 1 "
        "&& a.top < b.bottom - 3 && b.top < a.bottom - 3)); }))"
    )
    assert covered == []
    assert page.errors == []
    assert page.run("document.title") == "minitune: run", "no text of the user's is run as script"


def test_long_names_fit_a_phone(chromium: Browser, tmp_path: Path) -> None:
    metric = "loss_of_" + "a_very_long_name" * 4
    name = "parameter_with_" + "a_very_long_name" * 4
    grid = fit(lambda config: {metric: config[name]}, {name: uniform(0, 1)}, num_samples=3, metric=metric, mode="min")
    page = chromium.open(Path(grid.to_html(tmp_path / "report.html")).as_uri(), 390)
    page.click(".tools summary")

    outside = page.run(
        "[...document.querySelectorAll('main *')].filter((one) => !one.closest('.rows, svg') "
        "&& one.getBoundingClientRect().right > 390).map((one) => one.outerHTML.slice(0, 80))"
    )

    assert outside == []
    assert page.run("innerWidth") == 390, "a page that is too wide is shown smaller"


def test_the_table_has_the_cells_of_those_of_the_commands(
    chromium: Browser, report: str, grid: ResultGrid, capsys: pytest.CaptureFixture[str]
) -> None:
    page = chromium.open(report)
    page.run("tables[0].showAll(true)")
    lines = page.run(
        "[...document.querySelectorAll('.rows tr')]"
        ".map((row) => [...row.cells].map((cell) => cell.textContent.replace(/ [▾▴]$/, '')))"
    )
    shown = [dict(zip(lines[0], line, strict=True)) for line in lines[1:]]
    cli.main(["ls", grid.experiment_path])
    listed = table_in(capsys.readouterr().out)

    names = {"trial": "trial", "loss": "loss", "iter": "training_iteration", "total time (s)": "time_total_s"}
    params = {name: f"config/{name}" for name in RunHistory(grid).params}
    assert {*names, *params} <= shown[0].keys()
    for row, other in zip(shown, listed, strict=True):
        assert {name: row[name] for name in (*names, *params)} == {
            name: other[path] for name, path in (names | params).items()
        }
        assert (row["ended"] or row["status"]) == other["status"]


def test_axes_are_those_of_the_search_space(chromium: Browser, report: str) -> None:
    page = chromium.open(report)
    draw_all(page)
    while page.run("document.querySelector('[data-view=slice] [aria-pressed=false]') !== null"):
        page.click("[data-view=slice] [aria-pressed=false]")

    found = page.run(
        "Object.fromEntries([...document.querySelectorAll('[data-view=slice] .panels .plot:not([hidden]) svg')]"
        f".map((card) => [card.getAttribute('aria-label'), {TICKS}]))"
    )

    ticks = {label.removeprefix("loss over "): marks for label, marks in found.items()}
    assert ticks.keys() == {"lr", "act", "idle", "layers", "only"}
    assert {"1e-4", "0.01"} < set(ticks["lr"])
    assert ticks["act"] == ["tanh", "relu"], "in the order of the space"
    assert {"2", "4"} <= set(ticks["layers"]) <= set("1234")
    assert {"None", "1.5"} <= set(ticks["only"])


def test_a_plot_is_zoomed_with_the_mouse(chromium: Browser, report: str) -> None:
    page = chromium.open(report)
    draw_all(page)
    ticks = "[...document.querySelectorAll('[data-view=history] .tick')].map((mark) => mark.textContent).join()"
    whole = page.run(ticks)
    drag(page, "[data-view=history] svg", (0.3, 0.3), (0.6, 0.6))
    assert page.run(ticks) != whole
    page.click("[data-view=history] .head > button")
    assert page.run(ticks) == whole


def test_a_click_opens_one_trial(chromium: Browser, report: str, grid: ResultGrid) -> None:
    page = chromium.open(report)
    type_filter(page, "failed")
    page.click("tbody tr")

    number = int(page.run("document.querySelector('dialog h2').textContent").removeprefix("Trial "))
    config = ast.literal_eval(page.run("document.querySelector('#config').textContent"))
    assert config == grid[number].config
    assert "document.title='owned'" in page.run("document.querySelector('#error').textContent")
    assert "attempt" not in page.run("document.querySelector('dialog .facts').textContent"), "it was the only one"
    assert page.run("document.title") == "minitune: run"
    page.call("Browser.grantPermissions", permissions=["clipboardReadWrite", "clipboardSanitizedWrite"])
    page.click("dialog .controls button")
    page.wait_for("document.querySelector('dialog .controls button').textContent === 'copied'")
    assert page.errors == []


def test_print_has_all_plots_all_rows_and_light_colours(chromium: Browser, report: str, tmp_path: Path) -> None:
    page = chromium.open(report, 390, 500)
    page.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark"}])
    page.run(
        "addEventListener('beforeprint', () => { window.printed = { "
        "rows: document.querySelectorAll('tbody tr').length, "
        f"plots: {DRAWN}.length, colour: getComputedStyle(document.documentElement).getPropertyValue('--text') }}; }})"
    )
    page.pdf(tmp_path / "page.pdf")

    printed = page.run("window.printed")
    assert (printed["rows"], printed["plots"]) == (TRIALS, 7)
    page.call("Emulation.setEmulatedMedia", media="print", features=[{"name": "prefers-color-scheme", "value": "dark"}])
    assert page.run("getComputedStyle(document.documentElement).getPropertyValue('--text').trim()") == "#1b2230"


def large(grid: ResultGrid, directory: Path, trials: int, reports: int) -> Path:
    """The report of the run, with many more trials than it had."""
    text = Path(grid.to_html(directory / "small.html")).read_text(encoding="utf-8")
    data = json.loads(text.partition('id="data">')[2].partition("</script>")[0])
    run = data["runs"][0]
    draw = random.Random(0)
    made: list[dict[str, Any]] = []
    for number in range(trials):
        trial = dict(run["trials"][number % TRIALS])
        curve = [round(draw.random(), 7) for _ in range(reports)]
        ended = "ok" if curve[-1] < 0.5 else "stopped at 4 by ASHA"
        made.append({**trial, "n": number, "curve": curve, "steps": None, "value": curve[-1], "ended": ended})
    run["trials"] = made
    path = directory / "large.html"
    path.write_bytes(fill_page("large", data))
    return path


def test_a_large_run_is_light_and_its_table_has_500_rows(chromium: Browser, grid: ResultGrid, tmp_path: Path) -> None:
    path = large(grid, tmp_path, 1000, 100)
    assert path.stat().st_size < 8_000_000

    page = chromium.open(path.as_uri())
    draw_all(page)

    assert page.run(COUNT) == "1000 of 1000 trials"
    marks = "['history', 'curves'].map((view) => document.querySelector(`[data-view=${view}] .marks`) !== null)"
    assert page.run(marks) == [True, False], "so many ends of curves would hide the curves"
    rows = "document.querySelectorAll('.rows tbody tr').length"
    button = "[...document.querySelectorAll('.table > button')].map((one) => [one.textContent, one.hidden])"
    assert page.run(f"[{rows}, {button}]") == [500, [["show all 1000 rows", False]]]
    page.run("dispatchEvent(new Event('beforeprint'))")
    assert page.run(rows) == 1000
    page.run("dispatchEvent(new Event('afterprint'))")
    assert page.run(rows) == 500
    page.click(".table > button")
    assert page.run(f"[{rows}, {button}[0][1]]") == [1000, True]
    type_filter(page, "finished")
    assert page.run(rows) <= 500
    assert page.errors == []


PLOTS = {
    plots.plot_optimization_history: "history",
    plots.plot_intermediate_values: "curves",
    plots.plot_parallel_coordinate: "parallel",
    plots.plot_slice: "slice",
    plots.plot_contour: "contour",
    plots.plot_param_importances: "importances",
    lambda grid: plots.plot_pareto_front(grid, ["loss", "size"], ["min", "max"]): "front",
}


@pytest.mark.parametrize(("plot", "view"), PLOTS.items(), ids=PLOTS.values())
def test_a_single_plot_is_drawn_alone(
    plot: Any, view: str, chromium: Browser, grid: ResultGrid, tmp_path: Path
) -> None:
    page = chromium.open(Path(plot(grid).write_html(tmp_path / "plot.html")).as_uri())

    assert draw_all(page) == [view]
    assert page.errors == []
