"""The examples of the package; the quickstart has tests of its own."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from kit import fit, raiser

from minitune import examples
from minitune.examples import pbt, resume


def test_the_package_names_every_example() -> None:
    directory = Path(examples.__file__).parent
    names = {path.stem for path in directory.glob("*.py")} - {"__init__"}
    assert set(re.findall(r"^(\w+)  ", examples.__doc__ or "", re.MULTILINE)) == names


def test_a_population_finds_a_better_schedule_than_any_constant_rate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MINITUNE_EXECUTOR", "inline")
    assert pbt.main(["--storage", str(tmp_path)]) == 0
    told = capsys.readouterr().out
    found, constant = (float(re.search(rf"{what}: +([\d.]+)", told)[1]) for what in ("training", "constant rate"))  # type: ignore[index]  # it is there
    assert found < constant


def test_a_killed_tuning_goes_on_at_its_checkpoints(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert resume.main(["--storage", str(tmp_path)]) == 0
    told = capsys.readouterr().out
    assert told.count(" 10 epochs, ") == 4
    assert max(map(int, re.findall(r"from epoch (\d+) on", told))) > 0


@pytest.mark.parametrize("example", [pbt, resume])
def test_an_example_whose_trial_fails_has_a_bad_exit_status(
    example: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    failed = fit(raiser(ValueError("no luck")), {})
    for name in ("tune", "resume", "crash"):
        monkeypatch.setattr(example, name, lambda *args: failed, raising=False)
    assert example.main(["--storage", str(tmp_path)]) == 1
    assert capsys.readouterr().err == f"1 trials failed: see {failed.experiment_path}\n"
