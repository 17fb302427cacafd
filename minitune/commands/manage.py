"""`minitune stop` and `rm`: end a run that goes on, and remove runs from the disk."""

from __future__ import annotations

import argparse
import os
import shlex
import signal
import socket
import sys
import time

from minitune.base import files
from minitune.base.text import counted, echo
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
from minitune.output.rows import ended, titled
from minitune.record.layout import RunDirectory
from minitune.record.lock import Holder, RunLock, check_trusted, read_holder
from minitune.record.reading import RunFollower
from minitune.record.standing import read_standing
from minitune.record.stop_requests import ask_to_stop, is_heard

_LOOK_S = 0.02
_ANSWER_S = 5.0
"""So long `stop` waits for the end of a trial."""


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
        description="Remove runs with all their files. The command asks first. A run that goes on is refused.",
        epilog="The exit status is 1 if there is no such run, if one goes on, or if you decline, else 0.",
    )
    parser.add_argument("runs", nargs="+", metavar="RUN", help=RUN_HELP)
    parser.add_argument("--yes", action="store_true", help="do not ask")
    set_command(parser, rm, "minitune rm valley", "minitune rm --yes valley results/old")


# -- stop --------------------------------------------------------------------------------------------------------------
def stop(options: argparse.Namespace) -> int:
    """Run `minitune stop`."""
    path, wanted = run_and_trial(options.run, options.trial)
    holder = read_holder(RunDirectory(path).lock)
    if holder is None:
        _, state = read_standing(path)
        raise NotFoundError(f"the run {path} does not go on: it {state.said}")
    if holder.host != socket.gethostname():
        raise NotFoundError(f"the run {path} belongs to {holder}: stop it there")
    # The lock's file names the process. If another user can write it, it may name any process of this user.
    check_trusted(path)
    if wanted is not None:
        return _stop_trial(path, wanted, holder)
    os.kill(holder.pid, signal.SIGTERM)  # unlike SIGINT, no shell lets its background processes ignore it
    echo(f"{path}: process {holder.pid} ends its trials and then itself; `minitune resume {path}` continues the run")
    return 0


def _stop_trial(path: str, wanted: str, holder: Holder) -> int:
    """Stop one trial of a live run. Blocks until that is on record, or for a few seconds."""
    follower = RunFollower(path)
    follower.read_new()
    trial = find_trial(follower.run.trials, wanted)
    if trial.is_finished():
        raise NotFoundError(f"trial {titled(trial)} does not go on: it is {trial.state}")
    run = RunDirectory(path)
    if not is_heard(run):
        raise ValueError(
            f"{holder} stops no single trial, because its run is not in its main thread, or has not begun yet or ends "
            f"just now; `minitune stop {shlex.quote(path)}` ends the run"
        )
    ask_to_stop(run, trial.trial_id, holder.pid)
    until_s = time.monotonic() + _ANSWER_S
    while not trial.is_finished():
        if time.monotonic() >= until_s:
            note(f"trial {titled(trial)} is asked to stop, and will when code of the user's in its driver comes back")
            return 0
        time.sleep(_LOOK_S)
        follower.read_new()
    echo(f"trial {titled(trial)}: {ended(trial)}; the run goes on")
    return 0


# -- rm ----------------------------------------------------------------------------------------------------------------
def rm(options: argparse.Namespace) -> int:
    """Run `minitune rm`. Blocks while it removes files."""
    paths = list(dict.fromkeys(map(existing_run, options.runs)))
    for path in paths:
        if os.path.islink(path):
            raise ValueError(f"{path} is a link to {os.path.realpath(path)}: pass that path to remove the run")
        _refuse_live(path)
    if not options.yes and not _agrees(paths):
        note("nothing is removed")
        return 1
    for path in paths:
        with RunLock(RunDirectory(path).lock):  # so that no driver starts to work on it meanwhile
            files.remove_tree(path)
    echo(f"removed {counted(len(paths), 'run')}")
    return 0


def _refuse_live(path: str) -> None:
    with RunLock(RunDirectory(path).lock):
        pass


def _agrees(paths: list[str]) -> bool:
    if not sys.stdin.isatty():
        raise ValueError("there is no terminal to ask on: pass --yes to remove without a question")
    echo(*paths, f"Remove {counted(len(paths), 'run')}? [y/N] ", sep="\n", end="", flush=True)
    answer = sys.stdin.readline()
    if not answer.endswith("\n"):  # Ctrl-D: the cursor stays behind the question
        echo()
    return answer.strip().lower() in ("y", "yes")
