"""A run of an earlier version with the present schema: its journal and its checkpoint are read, and the run is resumed.

`earlier_version/` has what that run left when its driver was killed after the third report. The values below are in its
configuration and in each report.
"""

from __future__ import annotations

import datetime
import http
import json
import math
import os
import shutil
import signal
from collections import OrderedDict
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import kit
import pytest
from test_journal_codec import same

from minitune import ExperimentAnalysis, get_checkpoint, report
from minitune.record import journal

DEEP: list[Any] = [math.nan, {1, 2}, frozenset({"a"}), (1,)]
for _ in range(50):
    DEEP = [DEEP, {"k": 1}]

VALUES = {
    "nan": math.nan,
    "infinities": [math.inf, -math.inf],
    "bytes": b"\x00\xff\n",
    "bytearray": bytearray(b"abc"),
    "ints": [2**64, -(2**70), 10**400],
    "ellipsis": ...,
    "complex": complex(1.5, -0.0),
    "tuple": (1, (2, [3, ()])),
    "sets": [{1, 2}, frozenset({"a", (1, 2)}), set()],
    "dates": [
        datetime.date(2024, 2, 29),
        datetime.datetime(2024, 1, 2, 3, 4, 5, 678),
        datetime.datetime(2024, 1, 2, tzinfo=datetime.timezone.utc),
        datetime.datetime(2024, 1, 2, tzinfo=datetime.timezone(datetime.timedelta(hours=2), "here")),
        datetime.time(1, 2),
        datetime.timedelta(days=-1, microseconds=1),
    ],
    "enums": [http.HTTPStatus.OK, signal.Signals.SIGINT],
    "numbers": [Decimal("1.10"), Fraction(1, 3)],
    "ordered": OrderedDict(a=1, b=2),
    "surrogate": "\ud800",
    "keys": {1: "int", (1, "a"): 2, None: 0},
    "dollar": {"$": "float", "v": "nan"},
    "deep": DEEP,
}


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return Path(shutil.copytree(Path(__file__).parent / "earlier_version", tmp_path / "earlier"))


def test_values_of_an_earlier_version_are_read(run: Path) -> None:
    records = list(journal.read(run / "journal", unpickle=True))
    (trial,) = (record for record in records if record["type"] == "trial")
    assert same(trial["config"], {"x": 1, "values": VALUES})
    for record in records:
        if record["type"] == "result":
            assert record["metrics"]["numpy"] == [1.5, 3, True]  # equal numbers, with NumPy and without
            assert same(record["metrics"]["values"], VALUES)
    assert ExperimentAnalysis(str(run)).trials[0].last_result["n"] == 3


@pytest.mark.parametrize("is_damaged", [False, True])
def test_a_run_of_an_earlier_version_goes_on_from_its_checkpoint(run: Path, is_damaged: bool) -> None:
    (state,) = run.glob("*/checkpoint_000000/state.json")
    if is_damaged:
        os.truncate(state, 0)
    begins: list[int] = []

    def train(config: dict[str, Any]) -> None:
        checkpoint = get_checkpoint()
        n = 0 if checkpoint is None else json.loads(Path(checkpoint.path, "state.json").read_text())
        begins.append(n)
        assert same(config["values"], VALUES)
        while n < 4:
            n += 1
            report({"n": n, "values": config["values"]})

    (result,) = kit.resume(train, path=run, callbacks=(), executor="inline")

    assert result.error is None
    assert begins == [0 if is_damaged else 2]
    assert result.metrics["n"] == 4
    results = [record for record in journal.read(run / "journal", unpickle=True) if record["type"] == "result"]
    assert same(results[-1]["metrics"]["values"], VALUES)
