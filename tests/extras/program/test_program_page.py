"""The commands of the manual that need other programs or packages."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from manual_pages import MANUAL, Block, Home, blocks, where

PAGES = ("programs", "recipes", "sweeps")
COMMANDS = [
    block
    for page in PAGES
    for block in blocks(MANUAL / f"{page}.md")
    if block.language == "sh" and block.file_name is None and "minitune run" in block.body
]


def test_the_pages_have_commands_for_each_kind_of_program() -> None:
    text = "".join(block.body for block in COMMANDS)
    assert all(kind in text for kind in ("sweep.yaml", "with_click", "with_hydra", "./descent", "papermill"))


@pytest.mark.parametrize("block", COMMANDS, ids=where)
def test_all_trials_of_the_command_finish(block: Block, tmp_path: Path, bound_s: Callable[[float], float]) -> None:
    if "cc -o" in block.body and shutil.which("cc") is None:
        pytest.skip("there is no C compiler")
    shown = Home(tmp_path, bound_s(120)).run_shell(block)
    assert "Best: loss=" in shown
    assert "failed" not in shown
