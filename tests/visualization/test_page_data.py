"""The data of the page: Python and the script of the page know the same fields."""

from __future__ import annotations

import re
from dataclasses import fields
from typing import Any

import pytest

from minitune.visualization.page import page_script
from minitune.visualization.page_data import ListedRun, Page, PageImportances, PageRun, PageTrial, PageTrialDetails

SCRIPT = page_script()


def names_of(kind: Any) -> set[str]:
    return {field.name for field in fields(kind)}


@pytest.mark.parametrize(
    ("variable", "kind", "others"),
    [
        ("DATA", Page, {"runs"}),
        ("data", PageRun, {"trials"}),
        ("trial", PageTrial, set()),
        ("details", PageTrialDetails, set()),
        ("importances", PageImportances, set()),
        # The bars of a timeline are rows, too.
        ("row", ListedRun, {"begin", "end", "trial", "worker"}),
    ],
)
def test_the_script_reads_the_fields_of_the_data(variable: str, kind: Any, others: set[str]) -> None:
    read = set(re.findall(rf"\b{variable}\.(\w+)", SCRIPT))
    assert read == names_of(kind) | others
