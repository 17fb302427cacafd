"""The commands of the manual that need other programs or packages, and sweep files in YAML."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from manual_pages import MANUAL, Block, Home, blocks, where

from minitune import cli
from minitune.commands.sweep import read_sweep

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


HEAD = "program: a.py\nmethod: random\nrun_cap: 1\nparameters:\n"
ALIASES = "".join(f", &b{i} [{','.join([f'*b{i - 1}'] * 9)}]" for i in range(1, 9))
BOMB = f"[&b0 [x,x,x,x,x,x,x,x,x]{ALIASES}]"
"""Nine aliases of nine aliases ...: 9**9 words."""


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (HEAD + "  x: {values: [&r [*r]]}\n", "parameters is nested too deeply"),
        (HEAD + "  x: &r {parameters: {y: *r}}\n", "parameters is nested too deeply"),
        (HEAD + f"  x: {{value: {'[' * 2000}{']' * 2000}}}\n", "cannot be read: it is nested too deeply"),
        (HEAD + f"  x: {{values: {BOMB}}}\n", "parameters has too many values"),
        (f"name: {BOMB}\n{HEAD}  x: {{value: 1}}\n", "name must be a text, but got [['x', 'x'"),
        (HEAD + '  x: {value: !!int ""}\n', "cannot be read"),
        (HEAD + "  x: {value: !!binary aGVsbG8=}\n", "parameters.x.value must be a text, a number"),
        (HEAD + "  x: {value: !!set {a, b}}\n", "parameters.x.value must be a text, a number"),
        (HEAD + "  x: {value: !!python/name:os.system }\n", "cannot be read"),
        (HEAD + "  on: {value: 1}\n", "a name in parameters must be a text, but got True; put it into quotes"),
        (HEAD + "  ~: {value: 1}\n", "a name in parameters must be a text, but got None"),
        (HEAD + "  x: {value: 1}\ncommand: [a, true]\n", "a word of command must be a text, but got True"),
    ],
)
def test_yaml_that_has_no_end_or_no_meaning_is_refused_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, message: str
) -> None:
    file = tmp_path / "sweep.yaml"
    file.write_text(text, encoding="utf-8")
    assert cli.main(["run", str(file)]) == 1
    shown = capsys.readouterr().err
    assert len(shown.splitlines()) == 1
    assert f"{file}" in shown
    assert message in shown


def test_names_and_values_of_yaml_are_those_in_the_file(tmp_path: Path) -> None:
    file = tmp_path / "sweep.yaml"
    text = "  7: {value: 1e-4}\n  d: {value: 2001-01-01}\n  n: {values: [null, yes, {2001-01-01: 1.50}]}\n"
    file.write_text(HEAD + text, encoding="utf-8")
    sweep = read_sweep(str(file))
    assert sweep.command is not None
    words = [sweep.command.filled({"7": "1e-4", "d": "2001-01-01", "n": n}, "DIR", 0)[-3:] for n in (None, True)]
    assert words == [["--7=1e-4", "--d=2001-01-01", "--n=None"], ["--7=1e-4", "--d=2001-01-01", "--n=True"]]
    assert {name: domain for name, domain in sweep.parameters.items() if name != "n"} == {
        "7": "1e-4",
        "d": "2001-01-01",
    }
    assert sweep.parameters["n"].categories == [None, True, {"2001-01-01": 1.5}]
