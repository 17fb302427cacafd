"""`minitune stop` and `rm`: end a run that goes on, and remove runs from the disk."""

from __future__ import annotations

import argparse
import os
import shlex
import signal
import sys

from minitune.base.text import counted, echo, one_line
from minitune.commands import Commands, set_command
from minitune.commands.selecting import (
    RUN_HELP,
    TRIAL_HELP,
    NotFoundError,
    add_run,
    existing_run,
    find_trial,
    note,
    run_and_trial,
)
from minitune.error import RunLockedError, TuneError
from minitune.record.layout import RunDirectory, find_runs
from minitune.record.lock import RunLock, check_trusted, driver_pid
from minitune.record.reading import recorded_directories
from minitune.record.standing import read_standing
from minitune.record.stop_requests import ask_to_stop, is_heard
from minitune.view.rows import titled

_NAMES_SHOWN = 5


def add_parser(commands: Commands) -> None:
    """Add the parsers of these commands."""
    parser = commands.add_parser(
        "stop",
        description="End a run that goes on, as Ctrl-C does: its trials are saved, and `minitune resume` continues it. "
        "Its process ends, too. The command does not wait for that. With a trial, only that one ends, as if a "
        "scheduler had stopped it: its results stay, and the run goes on.",
        epilog="The exit status is 1 if there is no such run or trial, or it does not go on, else 0.",
    )
    add_run(parser, "; or a trial's directory")
    parser.add_argument("trial", nargs="?", help=TRIAL_HELP)
    set_command(parser, stop, "minitune stop valley", "minitune stop valley 3")
    parser = commands.add_parser(
        "rm",
        description="Remove what runs have written: their own files, and the directories of their trials. What else is "
        "in a run's directory stays, and is named. The command asks first. It refuses a run that goes on or holds one "
        "that does, and a directory without the journal of a run.",
        epilog="The exit status is 1 if a run is refused or you decline, else 0.",
    )
    parser.add_argument("runs", nargs="+", metavar="RUN", help=RUN_HELP)
    parser.add_argument("--yes", action="store_true", help="do not ask")
    set_command(parser, rm, "minitune rm valley", "minitune rm --yes valley results/old")


# -- stop --------------------------------------------------------------------------------------------------------------
def stop(options: argparse.Namespace) -> int:
    """Run `minitune stop`."""
    path, wanted = run_and_trial(options.run, options.trial)
    pid = driver_pid(RunDirectory(path).lock)
    if pid is None:
        _, state = read_standing(path)
        raise NotFoundError(f"the run {path} does not go on: it {state.said}")
    if not pid:
        raise NotFoundError(f"the run {path} belongs to a process elsewhere, as in another container: stop it there")
    # Another user who can write to the directory may have put any file into the place of the lock.
    check_trusted(path)
    if wanted is not None:
        return _stop_trial(path, wanted, pid)
    os.kill(pid, signal.SIGTERM)  # unlike SIGINT, no shell lets its background processes ignore it
    echo(f"{path}: process {pid} ends its trials and then itself; `minitune resume {path}` continues the run")
    return 0


def _stop_trial(path: str, wanted: str, pid: int) -> int:
    """Ask a live run to stop one trial."""
    trial = find_trial(read_standing(path)[0].trials, wanted)
    if trial.is_finished():
        raise NotFoundError(f"trial {titled(trial)} does not go on: it is {trial.state}")
    run = RunDirectory(path)
    if not is_heard(run):
        raise ValueError(
            f"process {pid} stops no single trial, because its run is not in its main thread, or has not begun yet or "
            f"ends just now; `minitune stop {shlex.quote(path)}` ends the run"
        )
    ask_to_stop(run, trial.trial_id, pid)
    echo(f"trial {titled(trial)} is asked to stop; the run goes on")
    return 0


# -- rm ----------------------------------------------------------------------------------------------------------------
def rm(options: argparse.Namespace) -> int:
    """Run `minitune rm`. Blocks while it removes files."""
    paths = list(dict.fromkeys(map(existing_run, options.runs)))
    for path in paths:
        _refuse(path)
    if not options.yes and not _agrees(paths):
        note("nothing is removed")
        return 1
    for path in paths:
        with RunLock(RunDirectory(path).lock):  # so that no driver starts to work on it meanwhile
            stays = RunDirectory(path).remove(recorded_directories(path))
        if stays:
            names = ", ".join(one_line(name) for name in stays[:_NAMES_SHOWN])
            more = f" and {len(stays) - _NAMES_SHOWN} more" if len(stays) > _NAMES_SHOWN else ""
            note(f"{path} stays, with what is not the run's: {names}{more}")
    echo(f"removed {counted(len(paths), 'run')}")
    return 0


def _refuse(path: str) -> None:
    """Raise an error unless the directory holds a run of minitune, and no process uses it."""
    if os.path.islink(path):
        raise ValueError(f"{path} is a link to {os.path.realpath(path)}: pass that path to remove the run")
    try:
        recorded_directories(path)
    except TuneError as error:
        raise TuneError(f"{path} is not removed: which files are a run's is in its journal alone; {error}") from error
    with RunLock(RunDirectory(path).lock):
        pass
    for inner in find_runs(path):
        pid = driver_pid(RunDirectory(inner).lock)
        if pid is not None:
            raise RunLockedError(f"{path} is not removed: process {pid} works on the run {inner} in it")


def _agrees(paths: list[str]) -> bool:
    if not sys.stdin.isatty():
        raise ValueError("there is no terminal to ask on: pass --yes to remove without a question")
    echo(*paths, f"Remove {counted(len(paths), 'run')}? [y/N] ", sep="\n", end="", flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")
