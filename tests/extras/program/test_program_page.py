"""The commands of the page about programs that need other programs or packages, and sweep files in YAML."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from manual_pages import MANUAL, Block, Home, blocks, where

from minitune import cli
from minitune.commands.sweep import read_sweep

COMMANDS = [block for block in blocks(MANUAL / "programs.md") if block.language == "sh" and block.file_name is None]


def test_the_page_has_commands_for_each_kind_of_program() -> None:
    text = "".join(block.body for block in COMMANDS)
    assert all(kind in text for kind in ("sweep.yaml", "with_click", "with_hydra", "./descent", "papermill"))


@pytest.mark.parametrize("block", COMMANDS, ids=where)
def test_all_trials_of_the_command_finish(block: Block, tmp_path: Path, bound_s: Callable[[float], float]) -> None:
    if "cc -o" in block.body and shutil.which("cc") is None:
        pytest.skip("there is no C compiler")
    shown = Home(tmp_path, bound_s(120)).run_shell(block)
    assert "Best: loss=" in shown
    assert "failed" not in shown


def test_yaml_numbers_without_a_point_are_numbers(tmp_path: Path) -> None:
    file = tmp_path / "sweep.yaml"
    text = "program: a.py\nmethod: random\nrun_cap: 2\nparameters: {x: {distribution: %s, min: 1e-4, max: 1e-1}}\n"
    file.write_text(text % "log_uniform_values", encoding="utf-8")
    domain = read_sweep(str(file)).parameters["x"]
    assert (domain.lower, domain.upper) == (1e-4, 1e-1)


def test_a_bad_yaml_file_is_named_in_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "sweep.yaml"
    file.write_text("{a", encoding="utf-8")
    assert cli.main(["run", str(file)]) == 1
    shown = capsys.readouterr().err
    assert len(shown.splitlines()) == 1
    assert f"{file} cannot be read" in shown
