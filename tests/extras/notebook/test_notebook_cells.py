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
    """The client keeps its event loop for the next time; that is not left by a test then."""
    NotebookClient(nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("1")]), timeout=120).execute()


def outputs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, verbose: int) -> list[nbformat.NotebookNode]:
    """What the cell with the run shows at its end."""
    monkeypatch.setenv("MINITUNE_STORAGE_PATH", str(tmp_path / "results"))
    monkeypatch.setenv("PYTHONPATH", os.getcwd())
    notebook = nbformat.v4.new_notebook()
    notebook.cells = [nbformat.v4.new_code_cell(text) for text in (SETUP, RUN.replace("VERBOSE", str(verbose)))]
    NotebookClient(notebook, timeout=120, resources={"metadata": {"path": str(tmp_path)}}).execute()
    found: list[nbformat.NotebookNode] = notebook.cells[1].outputs
    return found


def test_a_cell_shows_the_run_in_one_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    printed, shown = outputs(tmp_path, monkeypatch, 1)
    assert printed.text == "mine\n"
    html = shown.data["text/html"]
    assert "Number of trials: 3/3 (2 TERMINATED, 1 ERROR)" in html
    assert "ValueError: no &lt;good&gt;" in html
    assert "raise ValueError(&quot;no &lt;good&gt;&quot;)" in html, "the line of the cell"
    assert "Total run time: " in html
    assert "<progress" not in html


def test_at_level_2_what_trials_print_is_printed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = outputs(tmp_path, monkeypatch, 2)
    assert [output.output_type for output in found].count("display_data") == 1
    text = "".join(output.text for output in found if output.output_type == "stream")
    assert text.count(") from a trial\n") == 3


def test_at_level_0_there_is_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (printed,) = outputs(tmp_path, monkeypatch, 0)
    assert printed.text == "mine\n"
