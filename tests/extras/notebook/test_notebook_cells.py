"""A run in a cell of a notebook, in a real kernel: one place that is updated, and nothing else."""

from __future__ import annotations

import os
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

SETUP = """
import minitune as tune

def train(config):
    print("from a trial")
    if config["x"] == 2:
        raise ValueError("no <good>")
    tune.report({"loss": config["x"]})
"""
RUN = """
print("mine")
tune.Tuner(
    train,
    param_space={"x": tune.grid_search([1, 2, 3])},
    tune_config=tune.TuneConfig(metric="loss", mode="min"),
    run_config=tune.RunConfig(verbose=VERBOSE),
).fit();
"""


@pytest.fixture(scope="session", autouse=True)
def warm_up() -> None:
    """The client keeps its event loop. So it is made before the first test, and no test leaves it behind."""
    NotebookClient(nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("1")]), timeout=120).execute()


def outputs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *cells: str) -> list[list[nbformat.NotebookNode]]:
    """The outputs of each cell, without the first one, which defines `train`."""
    monkeypatch.setenv("MINITUNE_STORAGE_PATH", str(tmp_path / "results"))
    monkeypatch.setenv("PYTHONPATH", os.getcwd())
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(text) for text in (SETUP, *cells)])
    NotebookClient(notebook, timeout=120, resources={"metadata": {"path": str(tmp_path)}}).execute()
    return [cell.outputs for cell in notebook.cells[1:]]


def of_level(verbose: int) -> str:
    """A cell with a run."""
    return RUN.replace("VERBOSE", str(verbose))


def test_a_cell_shows_the_run_in_one_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ((printed, shown),) = outputs(tmp_path, monkeypatch, of_level(1))
    assert printed.text == "mine\n"
    html = shown.data["text/html"]
    assert " s: 2 finished, 1 failed</div>" in html
    assert "ValueError: no &lt;good&gt;" in html
    assert "raise ValueError(&quot;no &lt;good&gt;&quot;)" in html, "the line of the cell"
    assert "Results: " in html
    assert html.count("<circle ") == 2
    assert 'class="bar"' not in html.partition("</style>")[2]
    text = shown.data["text/plain"]
    assert " s: 2 finished, 1 failed\n" in text
    assert "| Trial name " in text
    assert "</" not in text


LIVE = """
from minitune.output import screen

shown = []
show = screen.NotebookCell.show
screen.NotebookCell.show = lambda self, html, text: (shown.append((html, text)), show(self, html, text))
"""
LOOK = """
live = [both for both in shown if 'class="bar"' in both[0]]
html, text = live[-1]
print(len(live) > 1, "best so far (min loss)" in html, "best so far (min loss)" in text)
"""


def test_while_it_runs_the_cell_is_updated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = of_level(1).replace("train,", "slow,")
    slow = "import time\ndef slow(config):\n    tune.report({'loss': config['x']})\n    time.sleep(2.5)\n"
    *_, (printed,) = outputs(tmp_path, monkeypatch, LIVE + slow, run, LOOK)
    assert printed.text == "True True True\n"


def test_results_at_the_end_of_a_cell_show_as_tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = (
        of_level(0)
        .replace(").fit();", ").fit()")
        .replace('print("mine")', "")
        .replace("tune.Tuner", "grid = tune.Tuner")
    )
    analysis = "tune.ExperimentAnalysis(grid.experiment_path)"
    found = outputs(tmp_path, monkeypatch, run, "grid", analysis)
    for (shown,) in found[1:]:
        assert shown.output_type == "execute_result"
        assert "<table>" in shown.data["text/html"]
        assert shown.data["text/plain"]


def test_verbose_2_shows_the_output_of_trials(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (found,) = outputs(tmp_path, monkeypatch, of_level(2))
    assert [output.output_type for output in found].count("display_data") == 1
    text = "".join(output.text for output in found if output.output_type == "stream")
    assert text.count(") from a trial\n") == 3


def test_verbose_0_shows_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ((printed,),) = outputs(tmp_path, monkeypatch, of_level(0))
    assert printed.text == "mine\n"
