"""The data of the page: Python and the script of the page know the same fields."""

from __future__ import annotations

import math
import re

import pytest
from kit import fit, raiser, run_path

from minitune import grid_search, report
from minitune.view.history import RunHistory
from minitune.view.runs import RunList
from minitune.visualization.page import describe_importances, page_data, page_script, run_data, trial_details
from minitune.visualization.server import listed

SCRIPT = page_script()


@pytest.mark.parametrize(
    ("variable", "others"),
    [
        ("DATA", set()),
        ("data", {"version"}),
        # A filter has a column of this name.
        ("trial", {"details", "get"}),
        ("details", set()),
        ("importances", set()),
        ("row", {"trial"}),
    ],
)
def test_the_script_reads_the_fields_of_the_data(variable, others):
    fit(raiser(ValueError("no")), metric="loss", mode="min", give_up_after=0)
    history = RunHistory(run_path())
    data = run_data(history)
    found = {
        "DATA": page_data(),
        "data": data,
        "trial": data["trials"][0],
        "details": trial_details(history, history.trials[0]),
        "importances": describe_importances(history)["loss"],
        "row": listed(RunList(str(run_path().parent)).rows()[0]),
    }
    read = set(re.findall(rf"\b{variable}\.(\w+)", SCRIPT))
    known = found[variable].keys() | others
    assert read == known or (variable == "row" and read < known), "a row has also what ls shows"


def test_a_best_trial_that_has_failed_and_a_value_that_is_no_number_are_said():
    def train(config):
        report({"loss": config["loss"]})
        if config["loss"] == 0:
            raise ValueError("no")

    fit(train, {"loss": grid_search([1.0, 0.0, math.nan])}, metric="loss", mode="min", give_up_after=0)
    data = run_data(RunHistory(run_path()))
    assert (data["best"], data["order"]) == (1, [1, 0])
    assert [trial["odd"] for trial in data["trials"]] == [None, None, "nan"]
