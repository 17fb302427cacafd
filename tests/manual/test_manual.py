"""README.md and the manual are true: their examples run and print what is shown, and their links are valid."""

import ast
import configparser
import importlib
import re
import shutil
import subprocess

import pytest
from manual_pages import (
    MANUAL,
    OPTIONAL,
    PICTURES,
    README,
    ROOT,
    Block,
    Home,
    agree,
    alone,
    blocks,
    commands,
    masked,
    outputs,
    pages,
    scripts_of,
    where,
)

HAS_PROGRAMS = True  # see `time_limit`
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
by_page = pytest.mark.parametrize("page", pages(), ids=lambda page: page.stem)


@by_page
@pytest.mark.skipif(shutil.which("bash") is None, reason="the manual shows commands for bash")
def test_examples_print_the_output_on_the_page(page, tmp_path, bound_s):
    for printed in Home(tmp_path, bound_s(120)).run_page(page):
        assert printed.agrees, f"{printed.source}\nshown\n{printed.shown}\nbut printed was\n{printed.actual}"


def test_examples_that_need_a_package_compile_and_import_names_that_exist():
    for page in pages():
        for block, _ in alone(page):
            assert block.package in OPTIONAL, f"{where(block)}: no test has {block.package!r}"
            tree = ast.parse(block.body, where(block))
            for node in ast.walk(tree):
                names = (
                    [f"{node.module}:{entry.name}" for entry in node.names] if isinstance(node, ast.ImportFrom) else []
                )
                for module, _, name in (entry.partition(":") for entry in names if entry.startswith("minitune")):
                    try:
                        imported = importlib.import_module(module)
                    except ModuleNotFoundError as error:
                        if str(error.name).startswith("minitune"):  # else it is the package that the block needs
                            raise
                    else:
                        assert hasattr(imported, name), f"{where(block)}: {module} has no {name}"


def test_every_package_that_an_example_needs_is_installed_for_it():
    for package, directory in OPTIONAL.items():
        requirements = (ROOT / "tests" / "extras" / directory / "requirements.txt").read_text(encoding="utf-8")
        assert re.search(rf"^{package}(-cpu)?>=", requirements, flags=re.MULTILINE), package


def test_no_block_is_left_out():
    for page in pages():
        text = "".join(
            block.body
            for block in blocks(page)
            if block.language == "yaml" or (block.language in ("console", "sh") and block.file_name is None)
        )
        shown = outputs(page)
        for block in blocks(page):
            if block.language == "text":
                known = block in shown or any(part in block.body for part in PICTURES.values())
                assert known, f"{where(block)}: no test looks at this text"
            elif block.file_name is not None:
                assert block.file_name in text, f"{where(block)}: no command or sweep file uses this file"
            else:
                assert block.language in ("python", "console", "sh", "ini"), f"{where(block)}: {block.language!r}"


def test_shell_scripts_and_units_have_no_syntax_error():
    for page in pages():
        for block in blocks(page):
            if block.language == "sh" and shutil.which("bash"):
                done = subprocess.run(["bash", "-n"], input=block.body, capture_output=True, text=True, check=False)
                assert not done.stderr, f"{where(block)}: {done.stderr}"
            elif block.language == "ini":
                configparser.ConfigParser(strict=False).read_string(block.body)
            elif block.language == "console":
                assert commands(block), f"{where(block)}: no command"


def anchors(page):
    """The headings of a page, as GitHub spells them in links."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^#+ (.+)$", text, flags=re.MULTILINE)
    return [re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings]


def test_a_link_to_a_heading_is_not_ambiguous():
    for page in pages():
        headings = anchors(page)
        assert len(set(headings)) == len(headings), f"{page.name}: {sorted(headings)}"


def test_links_lead_to_pages_and_headings_that_exist():
    for page in pages():
        for target in LINK.findall(page.read_text(encoding="utf-8")):
            if target.startswith("https://"):
                continue
            file, _, anchor = target.partition("#")
            path = (page.parent / file).resolve() if file else page
            assert path.exists(), f"{page.name}: {target}"
            if anchor:
                assert anchor in anchors(path), f"{page.name}: {target}; there are {sorted(anchors(path))}"


def test_the_readme_is_short():
    assert README.stat().st_size <= 9_000


def test_a_page_has_at_most_1500_words():
    lengths = {page.name: len(page.read_text(encoding="utf-8").split()) for page in MANUAL.glob("*.md")}
    assert {name: words for name, words in lengths.items() if words > 1_500} == {}


def test_readme_and_index_lead_to_every_page():
    names = {page.name for page in MANUAL.glob("*.md")}
    for start, besides in ((README, set()), (MANUAL / "index.md", {"index.md"})):
        linked = {target.partition("#")[0].rpartition("/")[2] for target in LINK.findall(start.read_text("utf-8"))}
        assert names - besides <= linked, f"{start.name} does not lead to {sorted(names - besides - linked)}"


def test_every_environment_variable_is_in_the_manual():
    settings = importlib.import_module("minitune.base.settings").SETTINGS
    text = (MANUAL / "environment.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`MINITUNE_(\w+)`", text))
    assert named == set(settings)


SMALL = {"best", "completion", "demo", "doctor", "help", "report", "rm"}
"""Commands that the README names below its table, if at all."""


@pytest.mark.parametrize(("page", "besides"), [(MANUAL / "command-line.md", set()), (README, SMALL)])
def test_every_command_is_in_the_table_of_commands(page, besides):
    named = re.findall(r"^\| `minitune (\w+)", page.read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert set(named) >= set(importlib.import_module("minitune.commands.cli").COMMANDS) - besides


def test_continuous_integration_runs_the_readmes_own_commands():
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8").splitlines()
    shown = [line for block in blocks(README) if block.language == "sh" for line in block.body.splitlines()]
    for ending in ("-m pytest", "minitune demo"):
        (line,) = [line for line in shown if line.endswith(ending)]
        # without the last word, a failure of the first steps would go unnoticed: `set -e` ignores it there
        assert f"{line} || exit 1" in [line.strip() for line in script]


def test_masks_hide_only_differences_between_runs():
    first = "train_ab12c_00003  TERMINATED  127.0.0.1:4711  1.25e-05  total 1.62s in /home/a/runs/f_2026-01-02_03-04-05"
    second = "train_0f12e_00003 TERMINATED 10.0.0.1:17 1.25e-05  total 0.9s in /tmp/f_2027-01-02_13-04-05"

    assert masked(first) == masked(second)
    assert masked(first) != masked(second.replace("1.25e-05", "1.26e-05"))
    assert masked(first) != masked(second.replace("_00003", "_00004"))


def test_shown_output_is_all_of_it_or_its_end_and_dots_stand_for_lines():
    printed = "one\ntwo\nthree\nfour\n"
    assert agree(printed, printed)
    assert agree("three\nfour", printed)
    assert agree("one\n...\nfour", printed)
    assert not agree("one\ntwo", printed)
    assert not agree("one\n...\nthree", printed)
    assert not agree("four\n...\none", printed)


def test_the_example_of_the_readme_is_a_script_of_its_own():
    assert [block.package for block, _ in alone(README)] == ["scikit-learn"]
    assert [len(parts) for parts in scripts_of(MANUAL / "results.md")] == [6]


def test_a_block_knows_its_kind(tmp_path):
    assert Block(tmp_path, 1, "python", "# train.py\nx = 1\n").file_name == "train.py"
    assert Block(tmp_path, 1, "python", "# needs torch\nimport torch\n").package == "torch"
    assert Block(tmp_path, 1, "python", "x = 1\n").is_script
