"""The commands of `minitune`, by subject.

::

    cli          the program `minitune`: finds the command, and shows errors
    look         ls
    show         show, best, report
    watch        watch, logs
    again        resume, rerun
    manage       stop, rm
    run          run; `sweep` reads sweep files
    health       doctor
    manual       help
    completion   completion
    selecting    the run and the trial that arguments name
    telling      facts as lines and as JSON

`cli.main` imports only the module of a command, and calls its `add_parser`. A parser has the default `command`, and
`own_begins` if the user's program also gets arguments (`behind_dashes`). A command that cannot work raises an
`argparse.ArgumentError`, or one of `selecting.ERRORS`.

Commands that only look take no lock and unpickle nothing.

Exit statuses: 0 success; 1 failed, with the reason on standard error; 2 wrong arguments; 3 trials have failed; 4 the
run has ended early.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any, TypeAlias


def set_command(
    parser: argparse.ArgumentParser, command: Callable[[argparse.Namespace], int], *examples: str, **defaults: Any
) -> None:
    """Set the function of a command, other defaults of its options, and the command lines that its help shows."""
    parser.set_defaults(command=command, **defaults)
    parser.add_argument_group("examples", "\n".join(examples))


Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"
"""Makes the parser of a command: `commands.add_parser(name, description=...)`."""


def behind_dashes(arguments: list[str]) -> int:
    """Return the position at which the arguments of the user's own program begin: that of `--`, or else the end.

    A command that passes these arguments on has the default `own_begins=behind_dashes`. It finds them in
    `options.own`, without the `--`.
    """
    if "--" in arguments:
        return arguments.index("--")
    return len(arguments)
