"""Names, values and errors that hold control characters: no output lets a terminal obey them."""

from __future__ import annotations

import contextlib
import io
import json
import logging
import os
import re
import shlex
from unittest.mock import patch

import pytest
from kit import fit

from minitune import report
from minitune.base.text import Console, printable
from minitune.commands import cli
from minitune.output.screen import Screen

HOSTILE = "a\x1b[2J\x1b]0;title\x07b\rc\x9b31m\x07\x7f"
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain\ttext\n日本", "plain\ttext\n日本"),
        ("\x1b[31mred\x1b[0m\x1b[2J\x1b(B!", "red!"),
        ("\x1b]8;;http://x\x1b\\link\x1b]8;;\x07", "link"),
        ("100%\r\nover\rwritten", "100%\nover\nwritten"),
        ("bell\x07 csi\x9b2J nel\x85 del\x7f", "bell? csi?2J nel? del?"),
        ("\x1b\x1b[2J[2J", "?[2J"),
        ("\x1b]0;no end\n\x1b[", "0;no end\n"),
        ("half \udcff", "half ?"),
    ],
)
def test_nothing_that_controls_a_terminal_is_left(text, shown):
    assert printable(text) == shown


def train(config):
    print(HOSTILE)
    report({"loss": 1.0, HOSTILE: HOSTILE})
    if config[HOSTILE] == 1:
        raise ValueError(HOSTILE)


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    """A run with such names, values and errors."""
    space = {HOSTILE: {"grid_search": [0, 1]}}
    storage = tmp_path_factory.mktemp("hostile")
    grid = fit(train, space, metric="loss", mode="min", storage_path=storage, executor="local", name="run")
    return str(grid.experiment_path)


@pytest.mark.parametrize(
    "command",
    [
        "ls {}",
        "ls {} --json",
        "ls",
        "show {}",
        "show {} 1",
        "show {} 1 --json",
        "best {}",
        "ls {} {}",
        "show {} --why",
        "watch {}",
        "logs {} 1",
        "logs {} 1 --stderr",
        "rerun {} 1",
        "ls {} --no-such-\x1b[2J",
        "ls {} --columns \x9b",
    ],
)
def test_commands_print_no_control_characters(command, path, capfd):
    # `rerun` gives this process the surroundings of a trial; wrong arguments exit
    with patch.dict(os.environ), contextlib.chdir("."), contextlib.suppress(SystemExit):
        cli.main(shlex.split(command.format(*[path] * command.count("{}"))))
    shown = capfd.readouterr()

    assert shown.out + shown.err
    if command.startswith("rerun"):  # the trial prints in this process, as its author wants
        shown = shown._replace(out=shown.out.replace(f"{HOSTILE}\n", ""))
    assert CONTROL.findall(shown.out + shown.err) == []


def test_json_has_the_exact_texts(path, capfd):
    assert cli.main(["show", path, "1", "--json"]) == 0
    assert json.loads(capfd.readouterr().out)["metrics"][HOSTILE] == HOSTILE


def test_a_run_prints_and_logs_no_control_characters(capfd, caplog):
    space = {HOSTILE: {"grid_search": [0, 1]}}
    with caplog.at_level(logging.INFO, "minitune"):
        fit(train, space, metric="loss", mode="min", verbose=2, show_output=True, executor="local")
        fit(train, space, verbose=1, progress=False, executor="local")
    shown = capfd.readouterr()

    assert "ValueError: a" in shown.out
    assert "ValueError: a" in caplog.text
    assert CONTROL.findall(shown.out + shown.err + caplog.text) == []


def test_a_name_with_a_line_break_makes_no_line_of_its_own(tmp_path, capfd):
    space = {"x\nBest: loss=0 with y": 1, "z": {"grid_search": [1, 2]}}
    grid = fit(lambda config: {"loss": 2.0}, space, metric="loss", mode="min", verbose=1, storage_path=tmp_path)
    for command in ("best", "watch", "show"):
        assert cli.main([command, grid.experiment_path, *(["0"] if command == "show" else [])]) == 0
    shown = capfd.readouterr().out
    assert shown.count("x Best: loss=0 with y: 1\n") == 2
    assert "Best: loss=2 with x Best: loss=0 with y=1, z=1" in shown
    assert re.search(r"^ *Best: loss=0", shown, re.MULTILINE) is None


def test_a_message_that_cannot_be_made_is_left_to_the_handlers():
    record = logging.makeLogRecord({"msg": "%d", "args": ("no number",)})
    assert logging.getLogger("minitune").filter(record)
    assert record.args == ("no number",)


def test_the_traceback_of_a_message_is_clean(caplog):
    logging.getLogger("minitune").warning("failed", exc_info=ValueError(HOSTILE))
    assert "ValueError: a" in caplog.text
    assert CONTROL.findall(caplog.text) == []


def test_output_above_a_live_view_is_clean_and_the_view_keeps_its_own_codes():
    stream = io.StringIO()
    screen = Screen(stream)
    screen.write(HOSTILE)
    assert CONTROL.findall(stream.getvalue()) == []
    screen.draw(["\x1b[1mtitle\x1b[0m"])
    screen.close()
    assert "\x1b[1mtitle" in stream.getvalue()
    Console(stream).write("\x1b[1m")
    assert stream.getvalue().count("\x1b[1m") == 1
