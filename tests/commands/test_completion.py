"""`minitune completion`: what Tab makes of a word, in the shells that are installed."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from kit import scaled_s

from minitune.commands import cli

COMPLETES = Path(__file__).with_name("scripts") / "completes.py"

NAMES = ["run", "my run", "it's", "$(touch x)", "`touch x`", '"; touch x; "', "a\\b", "-n x", "e!!x", "last one"]
"""Names of runs, all with another first letter."""

SHELLS = {"bash": ["--norc", "--noprofile"], "zsh": ["-f"]}
SET_UP = {
    "bash": "set -o history; PS1=; ",
    "zsh": "PS1=; unsetopt prompt_cr; autoload -Uz compinit; compinit -u -D; ",
}

needs = {shell: pytest.mark.skipif(shutil.which(shell) is None, reason=f"needs {shell}") for shell in SHELLS}


@pytest.fixture
def home(storage, storage_of_its_own, tmp_path, monkeypatch):
    """A directory with `minitune` in its `bin`, which is in the PATH, and runs with these names in its `runs`."""
    for name in NAMES:
        shutil.copytree(storage / "run", tmp_path / "runs" / name)
    monkeypatch.setenv("MINITUNE_STORAGE_PATH", str(tmp_path / "runs"))
    program = tmp_path / "bin" / "minitune"
    program.parent.mkdir()
    program.write_text(f"#!{sys.executable}\n{COMPLETES.read_text()}")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
    return tmp_path


def typed(shell, keys, home):
    """The arguments of each command `minitune` after these keys were pressed in an interactive shell."""
    ours, theirs = pty.openpty()
    env = {**os.environ, "TERM": "dumb", "HISTFILE": "/dev/null", "INPUTRC": "/dev/null"}
    process = subprocess.Popen(
        [shell, *SHELLS[shell], "-i"], stdin=theirs, stdout=theirs, stderr=theirs, cwd=home, env=env
    )
    os.close(theirs)
    os.write(ours, f'{SET_UP[shell]}eval "$(minitune completion {shell})"\r{keys}\rexit\r'.encode())
    with contextlib.suppress(OSError):  # the shell has closed the terminal
        while os.read(ours, 4096):
            pass
    process.wait(scaled_s(30))
    os.close(ours)
    assert not (home / "x").exists()
    arguments = home / "arguments"
    return [json.loads(line) for line in arguments.read_text().splitlines()] if arguments.exists() else []


LINES = [
    ("doc\t", ["doctor"]),
    ("show r\t", ["show", "run"]),
    ("show --js\tr\t", ["show", "--json", "run"]),
    ("report r\tm\t", ["report", "run", "my run"]),
    ("show my\\ \t", ["show", "my run"]),
    ('show "m\t', ["show", "my run"]),
    ("show it\t", ["show", "it's"]),
    ("show 'i\t", ["show", "it's"]),
    ("show \\$\t", ["show", "$(touch x)"]),
    ('show "\\$\t', ["show", "$(touch x)"]),
    ("show '$\t", ["show", "$(touch x)"]),
    ("show \\`\t", ["show", "`touch x`"]),
    ('show "\\`\t', ["show", "`touch x`"]),
    ("show '`\t", ["show", "`touch x`"]),
    ('show \\"\t', ["show", '"; touch x; "']),
    ("show '\"\t", ["show", '"; touch x; "']),
    ("show 'a\t", ["show", "a\\b"]),
    ('show "a\t', ["show", "a\\b"]),
    ("show e\t", ["show", "e!!x"]),
    ("run -- comp\t", ["run", "--", "completes.py"]),
    ("doctor comp\t", ["doctor", "completes.py"]),
]
"""What is typed behind `minitune`, and its arguments then."""


@pytest.mark.parametrize("shell", [pytest.param(shell, marks=needs[shell]) for shell in SHELLS])
@pytest.mark.parametrize("command", ["minitune", "~/bin/minitune"])
def test_words_are_completed_and_nothing_of_them_is_executed(shell, command, home, monkeypatch):
    monkeypatch.setenv("HOME", str(home))
    shutil.copy(COMPLETES, home)
    lines = LINES if command == "minitune" else LINES[1:2]
    found = typed(shell, "\r".join(f"{command} {keys}" for keys, _ in lines), home)
    assert found == [words for _, words in lines]


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_the_scripts_know_the_commands_and_their_options(minitune):
    script = minitune("completion", "bash")[1]
    asks = script + 'for name in "" "$@"; do _minitune_words "$name"; done'
    shown = subprocess.run(["bash", "-c", asks, "bash", *cli.COMMANDS], capture_output=True, text=True, check=True)
    commands, *options = [line.split() for line in shown.stdout.splitlines()]
    assert commands == list(cli.COMMANDS)
    parsers = [cli.parser_of(name) for name in cli.COMMANDS]
    assert options == [[one for one in parser._option_string_actions if one[:2] == "--"] for parser in parsers]
    takes_runs = [
        subprocess.run(["bash", "-c", f'{script}_minitune_takes_runs "$1"', "bash", name], check=False).returncode == 0
        for name in cli.COMMANDS
    ]
    runs = (
        {"run", "runs", "target"} & {action.dest for action in parser._positionals._group_actions} for parser in parsers
    )
    assert takes_runs == list(map(bool, runs))


def test_names_of_runs_are_lines(minitune, storage, tmp_path, monkeypatch):
    assert minitune("completion", "runs") == (0, "run\n", "")
    for name in ("deep/er", "a\nb"):
        shutil.copytree(storage / "run", tmp_path / name)
    monkeypatch.setenv("MINITUNE_STORAGE_PATH", str(tmp_path))
    assert minitune("completion", "runs") == (0, "deep/er\n", "")
    monkeypatch.setenv("MINITUNE_STORAGE_PATH", str(tmp_path / "none"))
    assert minitune("completion", "runs") == (0, "", "")


def test_another_shell_is_refused(minitune):
    status, _, err = minitune("completion", "fish")
    assert (status, "minitune: argument what: invalid choice: 'fish'" in err) == (2, True)
