"""The commands of `minitune`, by subject. `add_parser` of a module adds the parsers of its commands.

A parser names two defaults: `command`, the function that does the work, takes the parsed options and returns the exit
status; and, where the user's own program gets a command line too, `own_begins` (see `behind_dashes`). A command
raises where it cannot do its work, and `cli.main` alone turns errors into a line on standard error: an
`argparse.ArgumentError` for a command line that makes no sense, one of `selecting.ERRORS` for all else.

Exit statuses mean the same everywhere: 0 all went well; 1 the command could not do it, with the reason in one line on
standard error; 2 the command line makes no sense; 3 it was done, and trials have failed; 4 the run that it was about
has ended before its trials.
"""

from __future__ import annotations

import argparse
from typing import TypeAlias

Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"
"""Makes the parser of a command: `commands.add_parser(name, description=...)`."""


def behind_dashes(arguments: list[str]) -> int:
    """Return where the arguments of the user's own program begin: at `--`, or at the end if there is none.

    A command that passes such arguments on calls `parser.set_defaults(own_begins=behind_dashes)`, and finds them in
    `options.own`, without the `--`.
    """
    return arguments.index("--") if "--" in arguments else len(arguments)
