"""Large data frames are stored once and private to each trial. A run imports pandas once, with or without pyarrow."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from kit import fit

import minitune as tune
from minitune.actor.launcher import start_method

SCRIPTS = Path(__file__).with_name("scripts")


@pytest.mark.skipif(start_method() != "zygote", reason="workers are new interpreters here")
def test_frames_are_private_and_pandas_is_imported_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(SCRIPTS))
    monkeypatch.setenv("IMPORTS", str(tmp_path / "imports"))
    users: Any = __import__("users_of_frames")
    try:
        rows = 300_000
        data = pd.DataFrame({"number": range(rows), "text": [f"row {n % 10}" for n in range(rows)]})
        data["kind"] = data["text"].astype("category")
        trainable = tune.with_parameters(users.train, data=data)
        grid = fit(trainable, {"x": tune.grid_search([1, 2, 3])}, executor="local")
    finally:
        del sys.modules["users_of_frames"]
    assert [result.error for result in grid] == [None] * 3
    assert [result.metrics["before"] for result in grid] == [(rows * (rows - 1) // 2, "row 9", 1)] * 3
    assert [result.metrics["after"] for result in grid] == [-1] * 3
    assert data["number"].iloc[0] == 0
    pids = (tmp_path / "imports").read_text().split()
    assert (len(pids), pids[0]) == (2, str(os.getpid()))
