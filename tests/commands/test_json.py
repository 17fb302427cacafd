"""`--json`: one object, with the keys that the manual has."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from command_runs import Minitune
from kit import fit

from minitune.commands import cli

MANUAL = Path(cli.__file__).parents[1] / "docs" / "command-line.md"


def keys_in_manual(command: str) -> set[str]:
    """The keys that the manual names for a command; of a list, those of the list only."""
    rows = dict(re.findall(r"^\| (.+?) \| (.+) \|$", MANUAL.read_text(encoding="utf-8"), flags=re.MULTILINE))
    text = re.sub(r"\(.*?\)", "", rows[command]).partition(": ")
    keys = set(re.findall(r"`(\w+)`", text[0])) | {"schema"}
    for other in ("of one run", "of `show RUN TRIAL`"):
        if f"those {other}" in text[0]:
            keys |= keys_in_manual(other.removeprefix("of ") if "`" in other else other)
    return keys


def told(minitune: Minitune, *arguments: str) -> dict[str, Any]:
    status, out, _ = minitune(*arguments, "--json")
    assert status == 0
    value: dict[str, Any] = json.loads(out)
    return value


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
def test_the_object_has_the_keys_of_the_manual(minitune: Minitune, arguments: list[str], row: str) -> None:
    value = told(minitune, *arguments)
    assert value["schema"] == 1
    assert set(value) == keys_in_manual(row)


def test_every_command_that_shows_data_has_it() -> None:
    have = {name for name in cli.COMMANDS if "--json" in cli.parser_of(name)._option_string_actions}
    assert have == {"ls", "show", "best"}


def test_a_metric_does_not_replace_a_key_of_a_row(minitune: Minitune, tmp_path: Path) -> None:
    fit(lambda config: {"status": 7, "trial": "x", "loss": 1}, storage_path=tmp_path, name="run")
    (row,) = told(minitune, "ls", str(tmp_path / "run"))["trials"]
    assert (row["trial"], row["status"], row["loss"]) == (0, "finished", 1)
