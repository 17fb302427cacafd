"""`minitune watch --web` in a real Chromium: the page follows a run, and keeps what the reader has chosen."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from browser import Browser, Page
from kit import fit, run_path

from minitune import Callback, grid_search, report, uniform
from minitune.visualization.server import PageServer

OBJECTIVE = {"metric": "loss", "mode": "min"}
COUNT = "document.querySelector('.count').textContent"
POINTS = (
    "['marks.finished', 'marks.stopped', 'marks.failed', 'marks.running'].reduce((sum, kind) => sum + "
    "(document.querySelector(`[data-view=history] .${kind}`)?.getAttribute('d').match(/M/g) || []).length, 0)"
)


@contextmanager
def served(path: Path, **choices: Any) -> Iterator[PageServer]:
    """A server of this run, in a thread."""
    server = PageServer(str(path), **choices)
    thread = threading.Thread(target=server.serve)
    thread.start()
    try:
        yield server
    finally:
        server.close()
        thread.join()


class Steps(Callback):
    """Holds the run at each result until the test lets it go on."""

    def __init__(self) -> None:
        self.may_go_on = threading.Semaphore(0)

    def on_trial_result(self, iteration: int, trials: Any, trial: Any, result: Any, **info: Any) -> None:
        self.may_go_on.acquire(timeout=60)


@pytest.mark.parametrize("width", [1265, 390])
def test_reports_come_to_the_page_while_it_is_open(chromium: Browser, width: int) -> None:
    def train(config: dict[str, Any]) -> None:
        for step in range(3):
            report({"loss": config["x"] + 1 / (step + 1)})

    steps = Steps()
    space = {"x": uniform(0, 1), "i": grid_search([0, 1, 2])}
    settings = {"max_concurrent_trials": 1, "callbacks": [steps], "seed": 1, **OBJECTIVE}
    run = threading.Thread(target=lambda: fit(train, space, **settings))
    run.start()
    try:
        steps.may_go_on.release()
        steps.may_go_on.release()
        while not (run_path() / "journal").exists() or b'"result"' not in (run_path() / "journal").read_bytes():
            run.join(0.01)
        with served(run_path()) as server:
            page = chromium.open(server.address, width)
            page.run("document.querySelector('[data-view=history]').scrollIntoView()")
            page.wait_for(f"{POINTS} === 1")
            page.run("window.was = document.querySelector('[data-view=history] svg')")
            page.run("document.querySelector('[type=search]').value = 'x > -1'")
            page.click("[data-view=history] [data-name=isLog]")
            assert page.run("document.querySelector('[data-view=contour]').hidden"), "one trial has no contours"
            for trials in (2, 3):
                for _ in range(3):
                    steps.may_go_on.release()
                page.wait_for(f"{POINTS} === {trials}")
                assert page.run("document.querySelector('[type=search]').value") == "x > -1"
                assert page.run("document.querySelector('[data-view=history] svg') === window.was")
                assert page.run("document.querySelector('[data-view=history]').card.charts[0].spec.y.isLog")
            assert page.run("document.querySelector('.badge').textContent") == "running"
            for _ in range(9):
                steps.may_go_on.release()
            run.join()
            page.wait_for("document.querySelector('.badge').textContent === 'finished'")
            page.run("document.querySelector('[data-view=contour]').scrollIntoView()")
            page.wait_for("document.querySelector('[data-view=contour] .seen') !== null")
            assert page.run(COUNT) == "3 of 3 trials"
            page.click("tbody tr")
            page.wait_for("document.querySelector('#config') !== null")
            assert page.run("document.documentElement.scrollWidth") <= width
            assert page.errors == []
    finally:
        for _ in range(30):
            steps.may_go_on.release()
        run.join()


def test_an_update_leaves_the_table_where_the_reader_is(chromium: Browser) -> None:
    trials = 80
    row = "[...document.querySelectorAll('tbody tr')].find((one) => one.cells[0].textContent === '40')"
    steps = Steps()
    space = {"x": uniform(0, 1), "i": grid_search(range(trials))}
    settings = {"max_concurrent_trials": 1, "callbacks": [steps], "seed": 1, "executor": "inline", **OBJECTIVE}
    run = threading.Thread(target=lambda: fit(lambda config: {"loss": float(config["i"])}, space, **settings))
    run.start()
    try:
        for _ in range(trials - 2):
            steps.may_go_on.release()
        while not (run_path() / "journal").exists():
            run.join(0.01)
        with served(run_path()) as server:
            page = chromium.open(server.address)
            page.wait_for(f"{COUNT}.startsWith('{trials - 1} of')")
            page.run("document.querySelector('.rows').scrollTop = 1000")
            page.wait_for(row)
            page.run(f"{row}.focus()")
            before = page.run("document.querySelector('.rows').scrollTop")
            assert before >= 1000
            steps.may_go_on.release()
            page.wait_for(f"{COUNT}.startsWith('{trials} of')")
            assert page.run("document.querySelector('.rows').scrollTop") == before
            assert page.run("document.activeElement.cells[0].textContent") == "40"
            assert page.errors == []
    finally:
        for _ in range(trials):
            steps.may_go_on.release()
        run.join()


def test_an_update_leaves_the_open_trial_where_the_reader_is(chromium: Browser) -> None:
    def train(config: dict[str, Any]) -> None:
        report({"loss": 3.0})
        report({"loss": 2.0})

    steps = Steps()
    space = {f"p{number}": number for number in range(60)}
    run = threading.Thread(target=lambda: fit(train, space, callbacks=[steps], executor="inline", **OBJECTIVE))
    run.start()
    try:
        steps.may_go_on.release()
        while not (run_path() / "journal").exists() or b'"result"' not in (run_path() / "journal").read_bytes():
            run.join(0.01)
        with served(run_path()) as server:
            page = chromium.open(server.address, height=400)
            page.click("tbody tr")
            page.wait_for("document.querySelector('#config') !== null")
            page.run("dialog.scrollTop = 100")
            steps.may_go_on.release()
            page.wait_for("document.querySelector('dialog .facts').textContent.includes('loss2')")
            assert page.run("dialog.scrollTop") == 100
            assert page.errors == []
    finally:
        for _ in range(3):
            steps.may_go_on.release()
        run.join()


def test_the_list_of_runs_leads_to_their_pages(chromium: Browser) -> None:
    fit(lambda config: {"loss": 1.0}, {"x": uniform(0, 1)}, name="project/a <b>b", **OBJECTIVE)
    fit(lambda config: {"loss": 1.0}, {"x": uniform(0, 1)}, name="other", **OBJECTIVE)
    with served(run_path().parent, is_list=True) as server:
        page: Page = chromium.open(server.address)
        names = "[...document.querySelectorAll('td:nth-child(2)')].map((cell) => cell.textContent)"
        assert page.run(names) == ["other", "project/a <b>b"], "the newest first"
        page.follow("document.querySelectorAll('td a')[1]")
        page.wait_for(
            "document.querySelector('h1')?.textContent === 'minitune: a <b>b' && !!document.querySelector('.count')"
        )
        page.follow("document.querySelector('main > a')")
        page.wait_for("document.querySelectorAll('td a').length === 2")
        assert page.errors == []
