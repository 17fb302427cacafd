"""The commands of `minitune`, by subject. `add_parser` of a module adds the parsers of its commands.

::

    cli.main     finds the module of a command in its table, imports only that one, and calls `add_parser`
      look       ls, show, best, compare: what the journal of a run says. `about` has the facts, and `facts` prints
                 them for people and for programs. `config_text` writes configurations
      watch      watch, logs: follow a run that is still going on
      why        explain, replay, importance, report: understand a run
      again      resume, rerun
      manage     stop, rm
      run        run: programs as trials. `sweep` reads its sweep files, with `sweep_parameters`
      health     doctor, ci
      port       changes the imports of scripts and notebooks
      manual     help. `page_text` makes text of the Markdown of a page
      completion completion: the candidates for a word of a command line come from the parsers of the other modules
    selecting    the arguments that several commands have, and the run and the trial that they name

All but `run`, `resume`, `rerun`, `stop`, `rm`, `ci` and `doctor` only read runs. They take no lock and unpickle
nothing, so a run may go on meanwhile, and it may belong to somebody else.

A parser has a default `command`: the function that does the work. If the user's own program also gets arguments, the
parser has a second default, `own_begins` (see `behind_dashes`). A command that cannot do its work raises an error: an
`argparse.ArgumentError` for wrong arguments, otherwise one of `selecting.ERRORS`. `cli.main` prints these errors as a
line on standard error.

All commands use the same exit statuses: 0 success; 1 the command failed, and standard error has the reason in one line;
2 wrong arguments; 3 the command worked, but trials have failed; 4 the run has ended before all its trials.
"""

from __future__ import annotations

import argparse
from typing import TypeAlias


def add_examples(parser: argparse.ArgumentParser, *lines: str) -> None:
    """Show these command lines in the help."""
    parser.add_argument_group("examples", "\n".join(lines))


Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"
"""Makes the parser of a command: `commands.add_parser(name, description=...)`."""


def behind_dashes(arguments: list[str]) -> int:
    """Return the position at which the arguments of the user's own program begin: that of `--`, or else the end.

    A command that passes these arguments on calls `parser.set_defaults(own_begins=behind_dashes)`. It finds them in
    `options.own`, without the `--`.
    """
    if "--" in arguments:
        return arguments.index("--")
    return len(arguments)
