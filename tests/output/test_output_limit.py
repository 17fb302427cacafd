"""A trial that prints without end: one warning."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from kit import fit

from minitune import grid_search, report
from minitune.output import trial_output

FLOOD = b"y" * 999 + b"\n"


def flood(config):
    for _ in range(config["lines"]):
        os.write(1, FLOOD)
    report({"loss": 1})


@pytest.mark.parametrize(("lines", "named"), [([99, 1001, 1002], 1001), ([99, 999], None)])
def test_the_first_trial_that_prints_too_much_is_named_and_its_output_stays(lines, named, monkeypatch, caplog):
    monkeypatch.setattr(trial_output, "LARGE_OUTPUT_BYTES", 1_000_000)
    grid = fit(flood, {"lines": grid_search(lines)}, executor="local", max_concurrent_trials=1)
    files = {result.config["lines"]: Path(result.path, "stdout") for result in grid}
    assert {count: file.stat().st_size for count, file in files.items()} == {count: 1000 * count for count in lines}
    warnings = [message for message in caplog.messages if "has printed more than 1 MB to " in message]
    assert [str(files[named]) in warning for warning in warnings] == ([] if named is None else [True])
