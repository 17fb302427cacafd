"""The `minitune` command: `minitune <command> [arguments]`, also as `python -m minitune`.

`COMMANDS` has a row for each command. Only the module of the requested one is imported, so help and errors appear at
once. `main` handles all errors.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import os
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

from minitune.base import __version__
from minitune.base.collecting import collector_paused

COMMANDS: dict[str, tuple[str, str]] = {
    "run": ("commands.run", "Tune a program: any script with arguments, in any language."),
    "ls": ("commands.look", "List runs, the trials of one, or some runs side by side."),
    "show": ("commands.show", "Show a run: what is best, what matters, what went wrong; or one of its trials."),
    "best": ("commands.show", "Show the best trial of a run: short for `show RUN best`."),
    "report": ("commands.show", "Write a report of a run into one HTML file, with plots."),
    "watch": ("commands.watch", "Watch a run from another terminal until it ends."),
    "logs": ("commands.watch", "Show the prints of a trial; -f follows them."),
    "resume": ("commands.again", "Continue a run that was interrupted or killed."),
    "stop": ("commands.manage", "End a run that goes on, so that it can be resumed."),
    "rm": ("commands.manage", "Remove runs from the disk."),
    "rerun": ("commands.again", "Run one trial again in this process, for the debugger."),
    "doctor": ("commands.health", "Check this machine: resources, versions, and whether a trial runs."),
    "demo": ("examples.quickstart", "Tune a small classifier on real data and measure the best model."),
    "completion": ("commands.completion", "Print a script that completes command lines in a shell."),
    "help": ("commands.manual", "Show a page of the manual, or find a word in it."),
}
"""The module and the description of each command, by its name, in the order of the help."""

_GROUPS = {
    "run": "tune",
    "ls": "look at runs",
    "resume": "continue and debug runs",
    "doctor": "other",
}
"""The headings of the help, each by the first command below it."""

_BRIEF = frozenset(("ls", "show", "best", "report"))
"""Commands that read runs, print and end: nearly all objects that they make stay until then."""

_STATUSES = (
    "Exit status: 0 success, 1 the command failed, 2 wrong arguments,\n3 trials have failed, "
    "4 the run ended early, 130 Ctrl-C."
)


def build_parser() -> argparse.ArgumentParser:
    """The parser for a command line without a command: help, version and errors."""
    lines = []
    for name, (_, description) in COMMANDS.items():
        lines += ["", f"{_GROUPS[name]}:"] if name in _GROUPS else []
        lines.append(f"  {name:<10} {description}")
    parser = _Parser(
        prog="minitune",
        description="Hyperparameter tuning on one machine.",
        epilog="\n".join([*lines[1:], "", "`minitune COMMAND --help` shows the arguments of a command.", _STATUSES]),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"minitune {__version__}")
    parser.add_argument("command", nargs="?", choices=COMMANDS, metavar="COMMAND", help="one of the commands below")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="the command's own arguments")
    return parser


class _HelpFormatter(argparse.HelpFormatter):
    """Wraps the lines of a help, except those of examples; see `commands.set_command`."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        if text.startswith("minitune "):
            return "\n".join(f"{indent}{line}" for line in text.splitlines())
        return super()._fill_text(text, width, indent)


class _Parser(argparse.ArgumentParser):
    """A parser whose help has examples, and whose errors begin as all messages do, and are safe to print."""

    def __init__(self, **options: Any):
        options.setdefault("formatter_class", _HelpFormatter)
        super().__init__(**options)

    def error(self, message: str) -> NoReturn:
        """Print the usage and the error, and exit with status 2."""
        from minitune.base.text import printable

        self.print_usage(sys.stderr)
        self.exit(2, f"minitune: {printable(message)}\n")


def parser_of(name: str) -> argparse.ArgumentParser:
    """The parser of the command with this name in `COMMANDS`. Imports the module of the command."""
    commands = _Parser(prog="minitune").add_subparsers()
    importlib.import_module(f"minitune.{COMMANDS[name][0]}").add_parser(commands)
    return commands.choices[name]


def _similar_option(unknown: Sequence[str], parser: argparse.ArgumentParser) -> str:
    """The hint for unknown arguments: the option most similar to the first one; may be empty."""
    from minitune.base.checks import did_you_mean

    option = unknown[0].partition("=")[0]
    return did_you_mean(option, parser._option_string_actions) if option.startswith("--") else ""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command with the arguments after `minitune`; return the exit status (see `minitune.commands`)."""
    name, *rest = list(sys.argv[1:] if arguments is None else arguments) or [""]
    if name not in COMMANDS:
        parser = build_parser()
        if name and not name.startswith("-"):
            from minitune.base.checks import did_you_mean

            parser.error(f"there is no command {name!r}{did_you_mean(name, COMMANDS)}; `minitune` lists them")
        parser.parse_args([name, *rest] if name else [])  # exits for --help, --version and unknown options
        parser.print_help(sys.stderr)
        return 2
    parser = parser_of(name)
    try:
        own_begins = parser.get_default("own_begins") or len  # without it, all arguments are the command's
        end = own_begins(rest)
        options, unknown = parser.parse_known_args(rest[:end])
        if unknown:
            way_out = "" if own_begins is len else "; a program and its arguments go behind --"
            parser.error(f"unrecognized arguments: {' '.join(unknown)}{_similar_option(unknown, parser)}{way_out}")
        options.own = rest[end + 1 :] if rest[end : end + 1] == ["--"] else rest[end:]
        with collector_paused() if name in _BRIEF else contextlib.nullcontext():
            status: int = options.command(options)
        sys.stdout.flush()
    except argparse.ArgumentError as error:
        parser.error(str(error))
    except BrokenPipeError:  # the reader has closed the pipe (`| head`), so the work is done
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # Python flushes stdout when it exits
        return 0
    except KeyboardInterrupt:
        return 130  # the usual status after Ctrl-C
    except Exception as error:
        from minitune.base.text import echo
        from minitune.commands.selecting import ERRORS, EXIT_CANNOT

        if not isinstance(error, ERRORS):
            raise
        echo(f"minitune: {error}", file=sys.stderr)
        return EXIT_CANNOT
    return status
