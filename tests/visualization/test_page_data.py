"""The data of the page: Python and the script of the page know the same fields."""

from __future__ import annotations

import re

import pytest
from kit import fit, raiser, run_path

from minitune.view.history import RunHistory
from minitune.visualization.page import RunData, describe_importances, page_data, page_script, trial_details
from minitune.visualization.server import LiveList

SCRIPT = page_script()


@pytest.mark.parametrize(
    ("variable", "others"),
    [
        ("DATA", {"runs"}),
        ("data", {"trials"}),
        # A filter has a column of this name.
        ("trial", {"details", "get"}),
        ("details", set()),
        ("importances", set()),
        # The bars of a timeline are rows, too.
        ("row", {"begin", "end", "trial", "worker"}),
    ],
)
def test_the_script_reads_the_fields_of_the_data(variable, others):
    fit(raiser(ValueError("no")), metric="loss", mode="min", give_up_after=0)
    history = RunHistory(run_path())
    data = RunData(history)
    found = {
        "DATA": page_data(),
        "data": data._of_run(),
        "trial": data._of_trial(history.trials[0]),
        "details": trial_details(history, history.trials[0]),
        "importances": describe_importances(history)["loss"],
        "row": LiveList(str(run_path().parent)).rows()[0],
    }
    read = set(re.findall(rf"\b{variable}\.(\w+)", SCRIPT))
    assert read == found[variable].keys() | others
