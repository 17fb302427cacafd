"""`--json`: one object, with the keys that the manual has."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from command_runs import Minitune
from kit import fit, raiser

import minitune as tune
from minitune.commands import cli
from minitune.experiment import states

MANUAL = Path(cli.__file__).parent / "docs" / "command-line.md"
COUNTS = ["running", "pending", "finished", "stopped", "failed", "interrupted", "not_started"]


def keys_in_manual(command: str) -> set[str]:
    """The keys that the manual names for a command; of a list, those of the list only."""
    rows = dict(re.findall(r"^\| (.+?) \| (.+) \|$", MANUAL.read_text(encoding="utf-8"), flags=re.MULTILINE))
    text = re.sub(r"\(.*?\)", "", rows[command]).partition(": ")
    keys = set(re.findall(r"`(\w+)`", text[0])) | {"schema"}
    if "those of one run" in text[0]:
        keys |= keys_in_manual("of one run")
    return keys


def told(minitune: Minitune, *arguments: str) -> dict[str, Any]:
    status, out, _ = minitune(*arguments, "--json")
    assert status == 0
    value: dict[str, Any] = json.loads(out)
    return value


@pytest.mark.parametrize(
    ("arguments", "row"),
    [
        (["ls"], "`ls`, `ls DIR`"),
        (["ls", "run"], "`ls RUN`"),
        (["show", "run"], "`show RUN`"),
        (["show", "run", "2"], "`show RUN TRIAL`"),
        (["best", "run"], "`best`"),
        (["compare", "run", "run"], "`compare`"),
        (["explain", "run"], "`explain`"),
    ],
)
def test_the_object_has_the_keys_of_the_manual(minitune: Minitune, arguments: list[str], row: str) -> None:
    value = told(minitune, *arguments)
    assert value["schema"] == 1
    assert set(value) == keys_in_manual(row)


def test_importances_have_the_keys_of_the_manual(minitune: Minitune, tmp_path: Path) -> None:
    fit(lambda config: {"loss": config["x"]}, {"x": tune.uniform(0, 1)}, num_samples=3, storage_path=tmp_path)
    (path,) = tmp_path.iterdir()
    value = told(minitune, "importance", str(path), "--metric", "loss", "--mode", "min")
    assert set(value) == keys_in_manual("`importance`")
    assert [set(row) for row in value["importances"]] == [{"parameter", "share"}]


def test_every_command_that_shows_data_has_it() -> None:
    have = {name for name in cli.COMMANDS if "--json" in cli.parser_of(name)._option_string_actions}
    assert have == {"ls", "show", "best", "compare", "explain", "importance"}


def test_the_whole_state_of_a_run_is_in_one_object(minitune: Minitune, storage: Path) -> None:
    value = told(minitune, "show", "run")

    assert value["counts"] == {**dict.fromkeys(COUNTS, 0), "finished": 2, "failed": 1}
    assert list(value["counts"]) == [state.replace(" ", "_") for state in states.STATES] == COUNTS
    assert value["total_trials"] == 3
    assert (value["run"], value["name"], value["state"]) == (str(storage / "run"), "run", "finished")
    best = value["best"]
    assert (best["trial"], best["value"], best["iteration"], best["config"]) == (0, 1, 3, {"x": 0})
    (group,) = value["errors"]
    assert (group["error"], group["count"], group["trials"]) == ("ZeroDivisionError: nothing left", 1, [2])
    assert group["rerun"] == f"minitune rerun {storage / 'run'} 2"


def test_errors_are_grouped_by_kind_and_a_run_without_a_result_has_no_best(minitune: Minitune, tmp_path: Path) -> None:
    fit(
        raiser(ValueError("no")),
        num_samples=3,
        give_up_after=0,
        storage_path=tmp_path,
        name="run",
        metric="a",
        mode="min",
    )
    value = told(minitune, "show", str(tmp_path / "run"))
    assert (value["best"], value["rest_s"]) == (None, None)
    assert [(group["error"], group["trials"]) for group in value["errors"]] == [("ValueError: no", [0, 1, 2])]


def test_a_metric_does_not_replace_a_key_of_a_row(minitune: Minitune, tmp_path: Path) -> None:
    fit(lambda config: {"status": 7, "trial": "x", "loss": 1}, storage_path=tmp_path, name="run")
    (row,) = told(minitune, "ls", str(tmp_path / "run"))["trials"]
    assert (row["trial"], row["status"], row["loss"]) == (0, "finished", 1)


def test_trials_by_number_and_id_are_the_same_in_all_objects(minitune: Minitune) -> None:
    ids = {row["trial"]: row["trial_id"] for row in told(minitune, "ls", "run")["trials"]}
    shown = told(minitune, "show", "run", "1")
    best = told(minitune, "best", "run")
    compared = told(minitune, "compare", "run")["runs"][0]["best"]
    decisions = told(minitune, "explain", "run")["decisions"]
    for each in (shown, best, compared, *decisions):
        assert ids[each["trial"]] == each["trial_id"]
    assert shown["trial"] == 1
