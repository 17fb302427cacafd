"""`--json`: one object, with the keys that the manual has."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from minitune.commands import cli

MANUAL = Path(cli.__file__).parents[1] / "docs" / "command-line.md"


def keys_in_manual(command):
    """The keys that the manual names for a command; of a list, those of the list only."""
    rows = dict(re.findall(r"^\| (.+?) \| (.+) \|$", MANUAL.read_text(encoding="utf-8"), flags=re.MULTILINE))
    text = re.sub(r"\(.*?\)", "", rows[command]).partition(": ")
    keys = set(re.findall(r"`(\w+)`", text[0])) | {"schema"}
    for other in ("of one run", "of `show RUN TRIAL`"):
        if f"those {other}" in text[0]:
            keys |= keys_in_manual(other.removeprefix("of ") if "`" in other else other)
    return keys


def told(minitune, *arguments):
    status, out, _ = minitune(*arguments, "--json")
    assert status == 0
    return json.loads(out)


@pytest.mark.parametrize(
    ("arguments", "row"),
    [
        (["ls"], "`ls`, `ls DIR`, `ls RUN RUN`"),
        (["ls", "run"], "`ls RUN`"),
        (["show", "run", "--why"], "`show RUN`"),
        (["show", "run", "2"], "`show RUN TRIAL`"),
        (["best", "run"], "`best RUN`"),
    ],
)
def test_the_object_has_the_keys_of_the_manual(minitune, arguments, row):
    value = told(minitune, *arguments)
    assert value["schema"] == 1
    assert set(value) == keys_in_manual(row)


def test_every_command_that_shows_data_has_it():
    have = {name for name in cli.COMMANDS if "--json" in cli.parser_of(name)._option_string_actions}
    assert have == {"ls", "show", "best", "run", "resume"}


@pytest.mark.parametrize(
    ("arguments", "status"),
    [
        (["ls"], 0),
        (["ls", "run", "run"], 0),
        (["ls", "rum"], 1),
        (["ls", "run", "--sort", "lass"], 1),
        (["ls", "run", "--filter", "x>="], 2),
        (["show", "run"], 0),
        (["show", "run", "2"], 0),
        (["show", "run", "9"], 1),
        (["show", "run", "--metric", "los"], 1),
        (["best", "run"], 0),
        (["best", "run", "--metric", "acc", "--mode", "max"], 1),
        (["run", "--storage", "{new}", "--", "echo", "report loss={x: grid_search([1])}"], 0),
        (["run", "--storage", "{new}", "--", "sh", "-c", "exit 3"], 3),
        (["run", "--storage", "{new}", "--metric", "los", "--mode", "min", "--", "echo", "report loss=1"], 3),
        (["run", "--", "no_such_program"], 1),
        (["resume", "{copy}"], 3),
        (["resume", "{copy}", "--add-samples", "1"], 3),
        (["resume", "rum"], 1),
        (["resume", "script.py"], 1),
    ],
)
def test_a_command_has_one_exit_status_with_and_without_json(minitune, storage, tmp_path, arguments, status):
    for options in ([], ["--json"]):
        shutil.copytree(storage / "run", copy := tmp_path / f"copy{len(options)}")
        given = [word.format(new=tmp_path, copy=copy) if word in ("{new}", "{copy}") else word for word in arguments]
        found, out, err = minitune(given[0], *options, *given[1:])
        assert found == status, err
        if options and status in (0, 3):
            value = json.loads(out)
            assert value["schema"] == 1
            if given[0] in ("run", "resume"):
                assert set(value) == keys_in_manual("`show RUN`") - {"decisions"}
