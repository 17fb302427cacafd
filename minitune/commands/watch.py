"""`minitune watch` and `minitune logs`: follow a run, or the output of a trial, from another process without a lock."""

from __future__ import annotations

import argparse
import codecs
import os
import shlex
import sys
import time

from minitune.base.files import local_path
from minitune.base.text import echo
from minitune.commands import Commands, set_command
from minitune.commands.selecting import (
    RUN_HELP,
    TRIAL_HELP,
    count_from,
    existing_run,
    exit_status,
    find_trial,
    note,
    run_and_trial,
)
from minitune.commands.telling import echo_prose
from minitune.config import default_storage_path
from minitune.experiment.trial import Trial
from minitune.record.layout import LAST
from minitune.record.reading import RunFollower
from minitune.record.standing import RUNNING_RUN, Standing, read_on

_LOOK_S = 0.2
"""The interval between two looks at a run or a file."""
_CHUNK_BYTES = 1 << 20


# -- watch -------------------------------------------------------------------------------------------------------------
def add_parser(commands: Commands) -> None:
    """Add the parsers of `minitune watch` and `minitune logs`."""
    parser = commands.add_parser(
        "watch",
        description="Watch a run until it ends. A terminal shows the live view; a pipe or a file gets a line now and "
        "then. With --web, a browser shows the page of the run, until Ctrl-C.",
        epilog="Without --web, the exit status is 0 if all trials have finished, 3 if some have failed, 4 if the run "
        "was interrupted or killed, or if a stopper or the time budget ended it before all trials had started.",
    )
    parser.add_argument("run", nargs="?", help=f"{RUN_HELP} (default: {LAST}; with --web: the list of all runs)")
    parser.add_argument("--web", action="store_true", help="serve the page of the run at 127.0.0.1, for this user only")
    parser.add_argument(
        "--port", type=count_from(0), default=0, metavar="N", help="the port of --web (default: any free one)"
    )
    parser.add_argument("--no-browser", action="store_true", help="with --web, only print the address")
    set_command(parser, watch, "minitune watch", "minitune watch valley --web")
    parser = commands.add_parser(
        "logs",
        description="Show what a trial has printed.",
        epilog="The exit status is 1 if there is no such run, trial or file, else 0.",
    )
    parser.add_argument("run", help=f"{RUN_HELP}; or a trial's directory")
    parser.add_argument("trial", nargs="?", help=TRIAL_HELP)
    parser.add_argument("-f", "--follow", action="store_true", help="follow the output until the trial ends")
    parser.add_argument("--stderr", action="store_true", help="show the standard error instead of the standard output")
    set_command(parser, logs, "minitune logs valley 3", "minitune logs valley 3 --follow")


def watch(options: argparse.Namespace) -> int:
    """Run `minitune watch`. Blocks until the run ends, and with `--web` until Ctrl-C."""
    if options.web:
        return _serve(options)
    options.run = options.run or LAST
    try:
        follower = RunFollower(existing_run(options.run))
        state = _show_until_end(follower)
    except KeyboardInterrupt:
        note(f"the run continues; `minitune watch {shlex.quote(options.run)}` shows it again")
        raise
    echo_prose(f"State of the run: {state.text}")
    return exit_status(follower.run, state)


def _serve(options: argparse.Namespace) -> int:
    """Serve the page of a run, or the list of runs. Blocks until Ctrl-C, which ends the server and not the run."""
    from minitune.visualization.server import PageServer

    path = existing_run(options.run) if options.run else local_path(default_storage_path())
    server = PageServer(path, is_list=not options.run, port=options.port)
    try:
        echo(f"{server.address}\nopen this address in a browser; Ctrl-C ends the server, and no run")
        sys.stdout.flush()
        if not options.no_browser and sys.stdout.isatty():
            import webbrowser

            webbrowser.open(server.address)
        server.serve()
    except KeyboardInterrupt:
        return 0
    finally:
        server.release()
    return 0


def _show_until_end(follower: RunFollower) -> Standing:
    """Show a run until it ends. Blocks."""
    from minitune.output.live_reporter import default_reporter
    from minitune.output.reporters import RunInfo
    from minitune.view.summary import early_end

    _, state = read_on(follower)
    run = follower.run
    is_live = state.name == RUNNING_RUN
    reporter = default_reporter()
    reporter.configure(verbose=1, print_errors=True)
    begin_s = run.driver.opened_s if is_live else time.time() - run.elapsed_s
    reporter.setup(begin_s, run.total_samples, *run.setup.goal.given)
    reporter.note_run(
        RunInfo(run.path, ended_before=len(run.driver.ended_before), time_budget_s=run.driver.time_budget_s)
    )
    try:
        # No lock and no signal from the run: the growth of its journal is all that is looked at.
        while state.name == RUNNING_RUN:
            if reporter.should_report(run.trials):
                reporter.report(run.trials, False)
            time.sleep(_LOOK_S)
            _, state = read_on(follower)
        reporter.note_run(RunInfo(run.path, ending=early_end(run.trials), took_s=run.elapsed_s))
        reporter.report(run.trials, True)
    finally:
        reporter.close()
    return state


# -- logs --------------------------------------------------------------------------------------------------------------
def logs(options: argparse.Namespace) -> int:
    """Run `minitune logs`. Blocks until the trial has ended if the command follows it."""
    path, wanted = run_and_trial(options.run, options.trial)
    follower = RunFollower(path)
    follower.read_new()
    trial = find_trial(follower.run.trials, wanted)
    name = "stderr" if options.stderr else "stdout"
    shown = _show_file(follower, trial, name, follows=options.follow)
    other = os.path.join(trial.local_path, "stdout" if options.stderr else "stderr")
    if not shown:
        hint = ""
        if os.path.exists(other) and os.path.getsize(other):
            hint = "; --stderr shows its stderr"
            if options.stderr:
                hint = "; without --stderr you see its stdout"
        note(f"trial {trial.number} has printed nothing to {name}{hint}")
    return 0


def _show_file(follower: RunFollower, trial: Trial, name: str, *, follows: bool) -> bool:
    """Print a file of a trial, and return whether it has any content. If it `follows`, block until the trial has
    ended.
    """
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    position_bytes = 0
    while True:
        # Decided before the file is read, so that what a trial prints before its end is always shown.
        is_over = not follows or read_on(follower)[1].name != RUNNING_RUN or trial.is_finished()
        path = os.path.join(trial.local_path, name)
        if is_over and not os.path.exists(path):
            raise FileNotFoundError(_why_missing(trial, path))
        if os.path.exists(path):
            with open(path, "rb") as file:
                position_bytes = min(position_bytes, file.seek(0, os.SEEK_END))  # the trial may have truncated it
                file.seek(position_bytes)
                while data := file.read(_CHUNK_BYTES):
                    position_bytes += len(data)
                    echo(decoder.decode(data), end="")
            sys.stdout.flush()
        if is_over:
            return position_bytes > 0
        time.sleep(_LOOK_S)


def _why_missing(trial: Trial, path: str) -> str:
    if not os.path.isdir(trial.local_path):
        return f"trial {trial.trial_id} has no directory: it is {trial.state}"
    return (
        f"there is no {path}: trials that run in the process of the script (inline) print to its console, and "
        "log_to_file gives other names"
    )
