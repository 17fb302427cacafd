"""The `minitune` command."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from kit import Script

from minitune import __version__, cli

ROOT = Path(__file__).resolve().parent.parent


def test_the_version_is_shown(script: Script) -> None:
    assert script.run_command([sys.executable, "-m", "minitune", "--version"]).stdout == f"minitune {__version__}\n"


def test_the_help_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(["--help"])

    shown = capsys.readouterr().out
    assert ended.value.code == 0
    for name, command in cli.COMMANDS.items():
        assert f"  {name:<8} {(command.__doc__ or '').splitlines()[0]}\n" in shown


def test_without_a_command_the_help_goes_to_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([]) == 2

    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("usage: minitune")


def test_an_unknown_command_is_named_with_the_known_ones(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(["dmeo"])

    assert ended.value.code == 2
    shown = capsys.readouterr().err
    assert "dmeo" in shown
    assert "demo" in shown


def test_what_follows_a_command_is_the_commands_own(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(["demo", "--help"])

    assert ended.value.code == 0
    assert "usage: minitune demo" in capsys.readouterr().out


def test_the_command_line_loads_nothing_that_only_a_run_needs(
    script: Script,
) -> None:
    heavy = ("cloudpickle", "psutil", "multiprocessing", "subprocess", "asyncio", "minitune.tuner")

    done = script.run_command(
        [sys.executable, "-c", f"import sys, minitune.cli; print([name for name in {heavy} if name in sys.modules])"]
    )

    assert (done.stdout.strip(), done.stderr) == ("[]", "")


def test_a_reader_that_goes_away_is_no_error(tmp_path: Path) -> None:
    command = (
        f"'{sys.executable}' -m minitune demo --samples 2 --storage '{tmp_path}' | head -1; exit ${{PIPESTATUS[0]}}"
    )
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(["bash", "-c", command], env=env, capture_output=True, text=True, timeout=60, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "== Status ==\n")
    assert "Traceback" not in done.stderr
