"""`minitune ls`: list runs, the trials of one, or some runs side by side.

The command only reads, and unpickles nothing. A run may be live, killed or damaged.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

from minitune.base import conditions
from minitune.base.files import local_path
from minitune.base.numbers import number_or_flag
from minitune.base.table import Table
from minitune.base.text import counted, echo_codes
from minitune.commands import Commands, set_command
from minitune.commands.selecting import RUN_HELP, NotFoundError, existing_run
from minitune.commands.telling import add_json, echo_prose, print_json, terminal_width
from minitune.config import default_storage_path
from minitune.record.layout import locate_run
from minitune.record.standing import read_standing
from minitune.result import CONFIG, TIME_TOTAL_S, TRAINING_ITERATION
from minitune.view.best import ranked
from minitune.view.colors import DAMAGED, has_color
from minitune.view.facts import identity_of
from minitune.view.rows import (
    LISTED,
    USUAL_METRICS,
    Field,
    Row,
    fact_field,
    metric_columns,
    parameter_names,
    row_of,
    shown_fact,
    table_of,
    trial_fields,
)
from minitune.view.runs import RUN_FIELDS, RunList, run_row, side_fields
from minitune.view.summary import best_first

_FURTHER_NAMES = {
    TRAINING_ITERATION: ["iter"],
    TIME_TOTAL_S: ["total time (s)", "total time"],
    "ended": ["progress"],
    "worked_s": ["duration"],
    "begun_s": ["age"],
}
"""The names of columns in other tables."""


def add_parser(commands: Commands) -> None:
    """Add the parser of `minitune ls`."""
    parser = commands.add_parser(
        "ls",
        description="List the runs in a directory, the newest first, or the trials of a run, the best first, with "
        "status, parameters and last result, or several runs side by side, each with its best trial. Runs may still be "
        "running.",
        epilog="The exit status is 1 if there is no such run, directory or column, else 0.",
    )
    parser.add_argument(
        "runs", nargs="*", metavar="RUN", help=f"{RUN_HELP}; or a directory of runs (default: the storage path)"
    )
    parser.add_argument("--sort", metavar="A", help="sort by this column instead; missing values come last")
    parser.add_argument(
        "--filter",
        metavar="CONDITION",
        help="show only rows for which this holds, such as 'loss < 0.5 and adam'; see `minitune help command-line`",
    )
    parser.add_argument(
        "--columns", metavar="A,B", help="show only these columns; x stands for config/x or a/x if there is no other x"
    )
    add_json(parser)
    set_command(parser, ls, "minitune ls", 'minitune ls valley --filter "loss < 0.5" --columns trial,loss,lr')


# -- ls ----------------------------------------------------------------------------------------------------------------
def ls(options: argparse.Namespace) -> int:
    """Run `minitune ls`."""
    listing = _listing_of(options.runs)
    rows = _chosen(listing, options)
    fields = listing.fields
    if options.columns:
        fields = [fact_field(listing.column(name)) for name in options.columns.split(",")]
    if options.json:
        if options.columns:  # otherwise everything: a program picks by itself
            rows = [{field.name: row.get(field.name) for field in fields} for row in rows]
        print_json({**listing.identity, listing.kind: rows})
        return 0
    heading = listing.heading
    if len(rows) < len(listing.rows):
        heading += f"; shown: {len(rows)}"
    echo_prose(heading)
    _print_table(table_of(rows, fields))
    for row in rows:
        if row.get("state") == DAMAGED:
            echo_prose(f"{row['name']} is damaged: {row['why']}")
    return 0


@dataclass(frozen=True)
class Listing:
    """Trials or runs in the order in which they are shown by default.

    Attributes:
        rows: All facts of each, by name of column.
        fields: What a table shows by default.
        identity: What programs get besides the rows.
        kind: The key of the rows for programs.
    """

    rows: Sequence[Row]
    fields: Sequence[Field]
    heading: str
    identity: Row
    kind: str

    def column(self, name: str) -> str:
        """The column with this name, found as in a filter.

        Raises:
            NotFoundError: If there is none, or several.
        """
        try:
            return conditions.column_named(name.strip(), self.named).name
        except conditions.UnknownColumnError as error:
            raise NotFoundError(str(error)) from None

    @cached_property
    def named(self) -> list[conditions.NamedColumn]:
        """The columns of filters. Words are sought in those that are shown by default."""
        usual = [field.name for field in self.fields]
        present = list(dict.fromkeys(name for row in self.rows for name in row)) or usual
        return [
            conditions.NamedColumn(
                name, partial(shown_fact, name=name), _further_names(name), name in (*usual, "ended", "error_message")
            )
            for name in dict.fromkeys((*present, *usual))
            # Those that libraries report are columns only of runs that have them.
            if name in present or name not in USUAL_METRICS or name in _FURTHER_NAMES
        ]


def _listing_of(names: Sequence[str]) -> Listing:
    """The trials of a run, the runs of a directory, or several runs; without a name, those of the storage path.

    Raises:
        RunNotFoundError: If there is neither such a run nor such a directory.
    """
    if len(names) > 1:
        return _several(names)
    directory = local_path(names[0] if names else default_storage_path())
    # A name of a run comes before a directory of runs, as in all commands.
    if not names or (locate_run(names[0]) is None and os.path.isdir(directory)):
        rows = RunList(directory).rows()
        heading = f"{directory}: {counted(len(rows), 'run')}"
        return Listing(rows, RUN_FIELDS, heading, {"directory": directory}, "runs")
    return _trials(names[0])


def _trials(name: str) -> Listing:
    run, state = read_standing(existing_run(name))
    goal = run.setup.goal
    trials = best_first(run.trials, ranked(run.trials, goal))
    names = parameter_names(trials)
    counts = counted(len(trials), "trial")
    if run.not_drawn:
        counts += f", {run.not_drawn} more {state.undrawn}"
    rows = [row_of(trial, names, goal.metrics) for trial in trials]
    params = {name: f"{CONFIG}/{name}" for name in names}
    metrics = {name: name for name in metric_columns(trials, goal)}
    return Listing(
        rows,
        trial_fields(rows, LISTED, goal, params, metrics),
        f"{run.path}: {counts}, {state.text}",
        identity_of(run, state),
        "trials",
    )


def _several(names: Sequence[str]) -> Listing:
    """Runs side by side, each with its best trial."""
    paths = [existing_run(name) for name in names]
    # The names are enough if they differ. Runs of two storage directories may have equal names.
    shown = [os.path.basename(path) for path in paths]
    if len(set(shown)) < len(shown):
        shown = paths
    rows = [run_row(name, *read_standing(path)) for name, path in zip(shown, paths, strict=True)]
    return Listing(rows, side_fields(rows), counted(len(rows), "run"), {}, "runs")


# -- choosing ----------------------------------------------------------------------------------------------------------
def _chosen(listing: Listing, options: argparse.Namespace) -> list[Row]:
    """Filter and sort the rows by the options.

    Raises:
        NotFoundError: If a column does not exist.
        argparse.ArgumentError: If a filter cannot be read.
    """
    rows = list(listing.rows)
    if options.filter:
        rows = list(filter(_condition_of(options.filter, listing), rows))
    if options.sort:
        name = listing.column(options.sort)
        rows.sort(key=lambda row: _rank(row.get(name)))
    return rows


def _condition_of(text: str, listing: Listing) -> conditions.Test:
    try:
        return conditions.condition_of(text, listing.named, listing.rows)
    except conditions.UnknownColumnError as error:
        raise NotFoundError(str(error)) from None
    except conditions.ConditionError as error:
        raise argparse.ArgumentError(None, f"--filter: {error}") from None


def _further_names(name: str) -> Sequence[str]:
    if name.startswith(f"{CONFIG}/"):
        return [name.removeprefix(f"{CONFIG}/")]
    return _FURTHER_NAMES.get(name, ())


def _rank(value: Any) -> tuple[int, Any]:
    """A sort key for any values: numbers come before texts, and what is missing or NaN comes last."""
    number = number_or_flag(value)
    if value is None or number != number:
        return (2, 0)
    return (1, str(value)) if number is None else (0, number)


# -- showing -----------------------------------------------------------------------------------------------------------
def _print_table(table: Table) -> None:
    """Print a table. On a terminal, the least important columns may go."""
    if not table.columns:
        return
    table, left_out = table.narrowed(terminal_width())
    echo_codes("\n".join(table.lines(has_color=has_color(sys.stdout))))
    if left_out:
        echo_prose(f"columns left out for lack of space: {', '.join(left_out)}; choose with --columns")
