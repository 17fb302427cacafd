"""The `minitune` command: `minitune <command> [arguments]`, also as `python -m minitune`.

A command is one function here: it takes the arguments that follow its name, parses them itself, and returns the exit
status; its docstring is its line in the help. What it needs is imported inside it, so that help and errors are instant.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence

from minitune._version import __version__

Command = Callable[[list[str]], int]


def demo(arguments: list[str]) -> int:
    """Tune a small classifier on real data and measure the best model."""
    from minitune.examples import quickstart

    return quickstart.main(arguments, prog="minitune demo")


def explain(arguments: list[str]) -> int:
    """Tell why each trial of a run was stopped, paused or promoted."""
    from minitune.commands import why

    return why.explain(arguments, prog="minitune explain")


def replay(arguments: list[str]) -> int:
    """Tell what another scheduler would have saved on a past run."""
    from minitune.commands import why

    return why.replay(arguments, prog="minitune replay")


def ls(arguments: list[str]) -> int:
    """List the trials of a run."""
    from minitune.commands import look

    return look.list_trials(arguments, prog="minitune ls")


def lsx(arguments: list[str]) -> int:
    """List the runs in a directory."""
    from minitune.commands import look

    return look.list_experiments(arguments, prog="minitune lsx")


def show(arguments: list[str]) -> int:
    """Show a run, or all about one of its trials."""
    from minitune.commands import look

    return look.show(arguments, prog="minitune show")


def best(arguments: list[str]) -> int:
    """Show the best trial of a run: value, step, checkpoint, configuration."""
    from minitune.commands import look

    return look.best(arguments, prog="minitune best")


def watch(arguments: list[str]) -> int:
    """Watch a run from another terminal until it ends."""
    from minitune.commands import watch

    return watch.watch(arguments, prog="minitune watch")


def logs(arguments: list[str]) -> int:
    """Show, and follow, what a trial prints."""
    from minitune.commands import watch

    return watch.logs(arguments, prog="minitune logs")


def resume(arguments: list[str]) -> int:
    """Go on with a run that was interrupted or killed."""
    from minitune.commands import again

    return again.resume(arguments, prog="minitune resume")


def rerun(arguments: list[str]) -> int:
    """Run one trial again, here, with a debugger at hand."""
    from minitune.commands import again

    return again.rerun(arguments, prog="minitune rerun")


def doctor(arguments: list[str]) -> int:
    """Tell what this machine offers to trials, and what is broken."""
    from minitune.commands import health

    return health.doctor(arguments, prog="minitune doctor")


def ci(arguments: list[str]) -> int:
    """Run a script, and fail if its tuning does not go well."""
    from minitune.commands import health

    return health.ci(arguments, prog="minitune ci")


def help_(arguments: list[str]) -> int:
    """Show a page of the manual, or find a word in it."""
    from minitune.commands import manual

    return manual.main(arguments, prog="minitune help")


COMMANDS: dict[str, Command] = {
    "ls": ls,
    "lsx": lsx,
    "show": show,
    "best": best,
    "watch": watch,
    "logs": logs,
    "resume": resume,
    "rerun": rerun,
    "explain": explain,
    "replay": replay,
    "ci": ci,
    "doctor": doctor,
    "demo": demo,
    "help": help_,
}
"""Every command by the name that users type, in the order of the help."""

_GROUPS = {"ls": "look at runs", "resume": "go on with them, and debug", "explain": "understand them", "ci": "and more"}
"""What is said in the help above some of them."""

ALIASES = {"list-trials": "ls", "list-experiments": "lsx"}
"""Longer names of commands, as users of Ray Tune know them."""


_STATUSES = (
    "Exit statuses: 0 all went well, 1 it could not be done, 2 the command line makes no\nsense, 3 it was done and "
    "trials have failed, 4 the run has ended before its trials,\n130 Ctrl-C."
)


def build_parser() -> argparse.ArgumentParser:
    """The parser of what comes before a command's own arguments."""
    lines = []
    for name, command in COMMANDS.items():
        lines += ["", f"{_GROUPS[name]}:"] if name in _GROUPS else []
        lines.append(f"  {name:<8} {(command.__doc__ or '').partition(chr(10))[0]}")
    parser = argparse.ArgumentParser(
        prog="minitune",
        description="Hyperparameter tuning on one machine.",
        epilog="\n".join([*lines[1:], "", "`minitune COMMAND --help` tells more about one.", _STATUSES]),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"minitune {__version__}")
    parser.add_argument(
        "command", nargs="?", choices=(*COMMANDS, *ALIASES), metavar="COMMAND", help="what to do; see below"
    )
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="the command's own arguments")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command.

    Args:
        arguments: What follows `minitune` on the command line; by default this process's.

    Returns:
        The exit status: 0 if all went well; 2 if the command line makes no sense.
    """
    parser = build_parser()
    options = parser.parse_args(arguments)
    if options.command is None:
        parser.print_help(sys.stderr)
        return 2
    try:
        status = COMMANDS[ALIASES.get(options.command, options.command)](options.arguments)
        sys.stdout.flush()
    except BrokenPipeError:  # nobody reads any more (`| head`); what was to be done is done
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for the flush at the interpreter's end
        return 0
    except KeyboardInterrupt:
        return 130  # as shells have it
    return status
