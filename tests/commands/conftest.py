"""Fixtures that run a command, and one small run for all tests of a module, which do not change it."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from command_runs import Minitune, fit_three

from minitune.commands import cli


@pytest.fixture(scope="module")
def storage(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The storage path; the run's name is `run`."""
    path = tmp_path_factory.mktemp("storage")
    fit_three(path)
    return path


def called(capsys: pytest.CaptureFixture[str]) -> Minitune:
    """Calls a command; gives exit status, output and errors."""

    def call(*arguments: str | os.PathLike[str]) -> tuple[int, str, str]:
        argv, environment, directory = sys.argv[:], dict(os.environ), os.getcwd()
        try:
            status = cli.main([os.fspath(argument) for argument in arguments])
        except SystemExit as ended:  # wrong arguments
            status = int(ended.code or 0)
        finally:  # `rerun` and `resume` change them for the code of the user
            sys.argv[:] = argv
            os.chdir(directory)
            os.environ.clear()
            os.environ.update(environment)
        shown = capsys.readouterr()
        return status, shown.out, shown.err

    return call


@pytest.fixture
def minitune(
    storage: Path,
    storage_of_its_own: None,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Minitune:
    """Runs a command, in this process, with that storage; gives exit status, output and errors."""
    monkeypatch.setenv("MINITUNE_STORAGE_PATH", str(storage))

    return called(capsys)


@pytest.fixture
def run(
    tmp_path: Path, storage_of_its_own: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Minitune:
    """Runs a command in this process, where `tmp_path` is its working directory and its storage."""
    monkeypatch.setenv("MINITUNE_STORAGE_PATH", str(tmp_path))
    monkeypatch.chdir(tmp_path)

    return called(capsys)
