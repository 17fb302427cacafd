"""What is said of failures: of a trial's in one line, of a run that was refused before its first trial."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from command_runs import fit_three

from minitune import RunConfig, TuneConfig, TuneError, Tuner, with_resources

Minitune = Callable[..., tuple[int, str, str]]


def verbose(config: dict[str, Any]) -> None:
    raise ValueError("the shapes do not fit\n  left:  3\n  right: 4")


def test_an_error_of_many_lines_is_told_by_its_first(minitune: Minitune, tmp_path: Path) -> None:
    run = str(tmp_path / "run")
    fit_three(tmp_path, verbose)

    for command in (["show", run], ["show", run, "0"], ["explain", run], ["rerun", run, "0"]):
        assert ": ValueError: the shapes do not fit\n" in minitune(*command)[1]


def test_a_run_that_was_refused_has_failed_and_was_not_killed(minitune: Minitune, tmp_path: Path) -> None:
    asks = with_resources(verbose, {"cpu": 10_000})
    run_config = RunConfig(name="refused", storage_path=str(tmp_path), verbose=0)
    with pytest.raises(TuneError, match="can never be met"):
        Tuner(asks, tune_config=TuneConfig(executor="inline"), run_config=run_config).fit()

    assert "failed: an error outside of its trials" in minitune("show", str(tmp_path / "refused"))[1]
