"""What is said of the failures of trials: one line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from command_runs import fit_three

Minitune = Callable[..., tuple[int, str, str]]


def verbose(config: dict[str, Any]) -> None:
    raise ValueError("the shapes do not fit\n  left:  3\n  right: 4")


def test_an_error_of_many_lines_is_told_by_its_first(minitune: Minitune, tmp_path: Path) -> None:
    run = str(tmp_path / "run")
    fit_three(tmp_path, verbose)

    for command in (["show", run], ["show", run, "0"], ["explain", run], ["rerun", run, "0"]):
        assert ": ValueError: the shapes do not fit\n" in minitune(*command)[1]
