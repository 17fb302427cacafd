"""The `minitune` command."""

import argparse
import importlib
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from minitune import __version__
from minitune.commands import cli

SCRIPTS = Path(__file__).with_name("scripts")

ROOT = Path(__file__).resolve().parent.parent


def test_the_version_is_shown(script):
    assert script.run_command([sys.executable, "-m", "minitune", "--version"]).stdout == f"minitune {__version__}\n"


def test_the_help_names_every_command(capsys):
    with pytest.raises(SystemExit) as ended:
        cli.main(["--help"])

    shown = capsys.readouterr().out
    assert ended.value.code == 0
    for name, (_, description) in cli.COMMANDS.items():
        assert f"  {name:<10} {description}\n" in shown


@pytest.mark.parametrize("module", sorted({module for module, _ in cli.COMMANDS.values()}))
def test_the_table_of_commands_is_that_of_their_modules(module):
    commands = argparse.ArgumentParser(prog="minitune").add_subparsers()

    importlib.import_module(f"minitune.{module}").add_parser(commands)

    assert set(commands.choices) == {name for name, (own, _) in cli.COMMANDS.items() if own == module}
    assert all(callable(parser.get_default("command")) for parser in commands.choices.values())


def test_without_a_command_the_help_goes_to_standard_error(capsys):
    assert cli.main([]) == 2

    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("usage: minitune")


def test_an_unknown_command_is_named_with_the_one_that_may_be_meant(capsys):
    with pytest.raises(SystemExit) as ended:
        cli.main(["dmeo"])

    assert ended.value.code == 2
    shown = capsys.readouterr().err
    assert "there is no command 'dmeo' (did you mean 'demo'?); `minitune` lists them" in shown


@pytest.mark.parametrize(
    ("arguments", "unneeded"),
    [
        (
            ("--help",),
            "cloudpickle psutil multiprocessing subprocess asyncio logging minitune.error minitune.commands.selecting",
        ),
        (("help", "--help"), "psutil multiprocessing subprocess logging minitune.error minitune.commands.selecting"),
        (("ls", "--help"), "cloudpickle psutil multiprocessing minitune.tuner minitune.commands.again"),
        (("watch", "--help"), "cloudpickle psutil multiprocessing minitune.tuner minitune.output.reporters"),
        (("show", "--help"), "cloudpickle psutil multiprocessing minitune.tuner minitune.commands.look"),
    ],
)
def test_a_command_loads_nothing_that_only_others_need(script, arguments, unneeded):
    path = script.write(SCRIPTS / "loads_needlessly.py")
    done = script.run_command([sys.executable, str(path), unneeded, *arguments])

    assert done.stdout.startswith("usage: minitune")
    assert done.stderr == "[]\n"


@pytest.mark.parametrize("name", cli.COMMANDS)
def test_the_help_of_a_command_has_two_examples_that_it_takes(name):
    parser = cli.parser_of(name)
    lines = parser.format_help().partition("\nexamples:\n")[2].split("\n\n")[0].splitlines()

    assert len(lines) == 2
    for line in lines:
        program, command, *arguments = shlex.split(line.partition(" > ")[0].partition(" >> ")[0])
        assert (program, command) == ("minitune", name)
        own_begins = parser.get_default("own_begins") or len
        parser.parse_args(arguments[: own_begins(arguments)])


def test_a_warning_of_a_command_is_on_standard_error(script):
    done = script.run_minitune("run", "--name", "equal", "--", "echo", "report v=1")
    assert done.returncode == 0
    assert done.stderr.startswith("the command has no parameter, so all trials are equal")


def test_an_option_has_one_name_in_all_commands():
    meant = {}
    for name in cli.COMMANDS:
        for action in cli.parser_of(name)._actions:
            meant.setdefault(action.dest, set()).update(action.option_strings)
    assert {dest: names for dest, names in meant.items() if sum(name.startswith("--") for name in names) > 1} == {}
    assert not meant.keys() & {"samples", "budget", "budget_s"}


def test_an_error_of_a_command_is_one_line_and_a_defect_is_not_hidden(monkeypatch, capsys, tmp_path):
    assert cli.main(["ls", str(tmp_path / "none")]) == 1
    assert len(capsys.readouterr().err.splitlines()) == 1

    def defect(*arguments):
        raise AssertionError("a defect of the command")

    monkeypatch.setattr("minitune.commands.show.run_and_trial", defect)
    with pytest.raises(AssertionError, match="a defect of the command"):
        cli.main(["best"])


def test_a_reader_that_goes_away_is_no_error(tmp_path):
    command = (
        f"'{sys.executable}' -m minitune demo --num-samples 2 --storage '{tmp_path}' | head -1; exit ${{PIPESTATUS[0]}}"
    )
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(["bash", "-c", command], env=env, capture_output=True, text=True, timeout=60, cwd=tmp_path)
    assert done.returncode == 0
    assert done.stdout.startswith("Run of 2 trials (min loss); results in ")
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (["ls", "--sotr", "x"], "unrecognized arguments: --sotr (did you mean '--sort'?)"),
        (["run", "--num-smaples=3", "--", "true"], "--num-smaples=3 (did you mean '--num-samples'?); a program"),
        (["show", "--zzz"], "unrecognized arguments: --zzz\n"),
    ],
)
def test_an_option_that_a_command_lacks_is_looked_for(arguments, hint, capsys):
    with pytest.raises(SystemExit):
        cli.main(arguments)
    assert hint in capsys.readouterr().err


@pytest.mark.parametrize(
    ("error", "status", "err"),
    [
        (KeyboardInterrupt(), 130, ""),
        (OSError(2, "No such file", "/a"), 1, "minitune: [Errno 2] No such file: '/a'\n"),
        (ValueError("wrong\x1b[2J"), 1, "minitune: wrong\n"),
        (ImportError("no numpy"), 1, "minitune: no numpy\n"),
    ],
)
def test_an_end_of_a_command_has_its_exit_status(error, status, err, monkeypatch, capsys):
    def fails(options):
        raise error

    monkeypatch.setattr("minitune.commands.look.ls", fails)
    assert cli.main(["ls"]) == status
    assert capsys.readouterr() == ("", err)


def test_arguments_behind_dashes_are_those_of_the_program(monkeypatch):
    seen = []
    for name, command in (("run", "run"), ("again", "rerun"), ("again", "resume"), ("look", "ls")):
        monkeypatch.setattr(f"minitune.commands.{name}.{command}", lambda options: seen.append(options.own) or 0)
    for line in (
        "run --seed 1 -- python a.py -- --seed 2",
        "run sweep.yaml",
        "rerun a 3 -- --x",
        "resume a.py --run b",
        "resume a -- b",
        "ls a",
    ):
        assert cli.main(line.split()) == 0
    assert seen == [["python", "a.py", "--", "--seed", "2"], [], ["--x"], ["--run", "b"], ["b"], []]


def test_each_argument_of_a_command_is_explained():
    without_placeholder = set()
    without_status = set()
    for name in cli.COMMANDS:
        parser = cli.parser_of(name)
        assert parser.description, name
        assert [action.dest for action in parser._actions if not action.help] == [], name
        for action in parser._actions:
            takes_value = bool(action.option_strings) and action.nargs != 0 and action.choices is None
            if takes_value and action.metavar is None:
                without_placeholder.add(action.dest)
        if "exit status" not in (parser.epilog or "").lower():
            without_status.add(name)
    assert without_placeholder == {"metric", "name", "seed"}, "their own names say what they take"
    assert without_status == {"completion", "demo"}


def test_the_statuses_of_the_help_are_those_of_the_commands(capsys):
    with pytest.raises(SystemExit):
        cli.main(["--help"])
    shown = " ".join(capsys.readouterr().out.split())
    assert (
        "0 success, 1 the command failed, 2 wrong arguments, 3 trials have failed, 4 the run ended early, 130 Ctrl-C."
        in (shown)
    )
    groups = ["tune:", "look at runs:", "continue and debug runs:", "other:"]
    places = [shown.index(f" {group} ") for group in groups]
    assert places == sorted(places)
