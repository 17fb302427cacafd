"""`minitune ls`, `show`, `best`, `compare`: show runs, their trials, one trial in full, and runs side by side.

These commands only read, and unpickle nothing. A run may be live, killed or damaged.
"""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

from minitune.base import conditions, json_text
from minitune.base.files import local_path
from minitune.base.numbers import number_or_flag
from minitune.base.table import Column, Table
from minitune.base.text import counted, date, echo, echo_codes
from minitune.commands import Commands, set_command
from minitune.commands.about import (
    about_best,
    about_earlier_best,
    about_run,
    about_trial,
    compared_data,
    counts_by_key,
    identity_of,
    key_of,
    require_best,
)
from minitune.commands.facts import Facts, add_json, print_json, tell
from minitune.commands.selecting import (
    RUN_HELP,
    TRIAL_HELP,
    NotFoundError,
    add_objective,
    add_run,
    count_from,
    existing_run,
    find_trial,
    note,
    run_and_trial,
)
from minitune.config import default_storage_path
from minitune.error import TuneError
from minitune.experiment import states
from minitune.experiment.goal import SCOPES, require_reported
from minitune.output.colors import DAMAGED, has_color
from minitune.output.comparison import ComparedRun
from minitune.output.rows import (
    LISTED,
    LISTED_CELL,
    USUAL_METRICS,
    fact_table,
    facts_of_trial,
    metric_columns,
    parameter_names,
    shown_fact,
    trials_table,
)
from minitune.output.summary import best_first
from minitune.record.decisions import Decisions
from minitune.record.layout import find_runs, locate_run
from minitune.record.reading import read_overview
from minitune.record.standing import read_standing, settle
from minitune.record.story import Story
from minitune.result import (
    CONFIG,
    TIME_TOTAL_S,
    TRAINING_ITERATION,
    TRIAL_ID,
    flatten,
)
from minitune.trainable.command_line import argument_of

Row = dict[str, Any]

# The names of columns in other tables.
_FURTHER_NAMES = {TRAINING_ITERATION: ["iter"], TIME_TOTAL_S: ["total time (s)", "total time"]}


def add_parser(commands: Commands) -> None:
    """Add the parsers of these commands."""
    parser = commands.add_parser(
        "ls",
        description="List the runs in a directory, the newest first, or the trials of a run, the best first, with "
        "status, parameters and last result. The run may still be running.",
        epilog="The exit status is 1 if there is no such run, directory or column, else 0.",
    )
    parser.add_argument("run", nargs="?", help=f"{RUN_HELP}; or a directory of runs (default: the storage path)")
    parser.add_argument("--sort", metavar="A,B", help="sort by these columns instead; missing values come last")
    parser.add_argument(
        "--filter",
        metavar="CONDITION",
        action="append",
        default=[],
        help="show only rows for which this holds, such as 'loss < 0.5 and adam'; see `minitune help command-line`; "
        "may be repeated",
    )
    parser.add_argument(
        "--columns", metavar="A,B", help="show only these columns; x stands for config/x or a/x if there is no other x"
    )
    parser.add_argument("--limit", type=count_from(0), metavar="N", help="show only the first N rows")
    add_json(parser)
    set_command(parser, ls, "minitune ls", 'minitune ls valley --filter "loss < 0.5" --columns trial,loss,lr')
    parser = commands.add_parser(
        "show",
        description="Show a run, or one of its trials in full.",
        epilog="The exit status is 1 if there is no such run or trial, else 0.",
    )
    add_run(parser, "; or a trial's directory")
    parser.add_argument("trial", nargs="?", help=TRIAL_HELP)
    add_json(parser)
    set_command(parser, show, "minitune show valley", "minitune show valley 3")
    parser = commands.add_parser(
        "best",
        description="Show the best trial of a run: the one that `ResultGrid.get_best_result` returns.",
        epilog="The exit status is 1 if there is no such run, or no trial has the metric, else 0.",
    )
    add_run(parser)
    add_objective(parser)
    parser.add_argument(
        "--scope",
        choices=SCOPES,
        default="last",
        help="the value that counts for a trial: its last, its best (all) or an average (default: last)",
    )
    shown = parser.add_mutually_exclusive_group()
    add_json(shown)
    shown.add_argument(
        "--config",
        choices=("json", "args"),
        help="only the configuration, in this form; args: the options of a command line",
    )
    set_command(parser, best, "minitune best valley", "minitune best valley --config json")
    parser = commands.add_parser(
        "compare",
        description="Compare runs side by side: state, number of trials, and the best trial of each.",
        epilog="The exit status is 1 if there is no such run, or if the runs have different metrics and --metric is "
        "not given, else 0.",
    )
    parser.add_argument("runs", nargs="+", metavar="RUN", help=RUN_HELP)
    add_objective(parser)
    add_json(parser)
    set_command(
        parser, compare, "minitune compare valley hills", "minitune compare valley hills --metric accuracy --mode max"
    )


# -- ls ----------------------------------------------------------------------------------------------------------------
def ls(options: argparse.Namespace) -> int:
    """Run `minitune ls`."""
    return _list(listing_of(options.run), options)


def listing_of(name: str | None) -> Listing:
    """The trials of the run with this name, or the runs of a directory; without a name, those of the storage path.

    Raises:
        RunNotFoundError: If there is neither such a run nor such a directory.
    """
    if not name:
        return _experiments(local_path(default_storage_path()))
    directory = local_path(name)
    # A name of a run comes before a directory of runs, as in all commands.
    if locate_run(name) is None and os.path.isdir(directory):
        return _experiments(directory)
    return _trials(name)


def _no_remark(_: Any) -> str:
    """No remark."""
    return ""


@dataclass(frozen=True)
class Listing:
    """Trials or runs in the order in which they are shown by default, and how to show them.

    Attributes:
        identity: What programs get besides the rows.
        kind: The key of the rows for programs.
    """

    items: Sequence[Any]
    facts: Callable[[Any], Row]
    table: Callable[[Sequence[Any]], Table]
    usual: Sequence[str]
    heading: str
    identity: Facts
    kind: str
    remark: Callable[[Any], str] = _no_remark

    @cached_property
    def rows(self) -> list[Row]:
        """The rows of all."""
        return [self.facts(item) for item in self.items]

    def columns(self) -> Sequence[str]:
        """The names of all columns."""
        return list(dict.fromkeys(name for row in self.rows for name in row)) or self.usual

    def column(self, name: str) -> str:
        """The column with this name, found as in a filter.

        Raises:
            NotFoundError: If there is none, or several.
        """
        try:
            return conditions.column_named(name.strip(), self.described).name
        except conditions.UnknownColumnError as error:
            raise NotFoundError(str(error)) from None

    @cached_property
    def described(self) -> list[conditions.NamedColumn]:
        """The columns of filters."""
        # Words are sought in those that are shown by default.
        columns = self.columns()
        return [
            conditions.NamedColumn(
                name,
                partial(shown_fact, name=name),
                _further_names(name),
                name in self.usual or name == "error_message",
            )
            for name in dict.fromkeys((*columns, *self.usual))
            # Those that libraries report are columns only of runs that have them.
            if name in columns or name not in USUAL_METRICS or name in _FURTHER_NAMES
        ]


def _list(listing: Listing, options: argparse.Namespace) -> int:
    """Show the requested rows."""
    items = _chosen(listing, options)
    columns: Sequence[str] | None = None
    if options.columns:
        columns = [listing.column(name) for name in options.columns.split(",")]
    if options.json:
        # Not the default columns: a program wants everything, and picks by itself.
        rows = [{name: row.get(name) for name in columns or row} for row in map(listing.facts, items)]
        print_json({**listing.identity, listing.kind: rows})
    else:
        heading = listing.heading
        if len(items) < len(listing.items):
            heading += f"; shown: {len(items)}"
        echo(heading)
        _print_table(listing.table(items) if columns is None else fact_table([*map(listing.facts, items)], columns))
        for remark in filter(None, map(listing.remark, items)):
            echo(remark)
    return 0


# -- rows --------------------------------------------------------------------------------------------------------------
def _trials(name: str) -> Listing:
    run, state = read_standing(existing_run(name))
    goal = run.setup.goal
    metrics = {name: name for name in metric_columns(run.trials, goal)}
    params = {name: f"{CONFIG}/{name}" for name in parameter_names(run.trials)}
    counts = [counted(len(run.trials), "trial")]
    if run.not_drawn:
        counts.append(f"{run.not_drawn} more {state.undrawn}")
    return Listing(
        best_first(run.trials, goal.ranked(run.trials)),
        lambda trial: facts_of_trial(trial, goal),
        lambda trials: trials_table(trials, LISTED, goal, params, metrics, LISTED_CELL),
        ["trial", TRIAL_ID, "status", "ended", *params.values(), *metrics],
        f"{run.path}: {', '.join(counts)}, {state.text}",
        identity_of(run, state),
        "trials",
    )


def _experiments(directory: str) -> Listing:
    dated: list[tuple[float, Row]] = []
    for path in find_runs(directory):
        name = os.path.relpath(path, directory)
        try:
            seen = read_overview(path)
            damage: Exception | None = seen.damage
        except (TuneError, OSError) as error:
            damage = error
        if damage is None:
            dated.append((seen.setup.begun_s, _run_row(name, seen)))
        else:
            # One damaged run must not hide the others. Its dates are unknown, so it comes last.
            dated.append((0.0, {"name": name, "state": DAMAGED, "why": str(damage), "path": path}))
    rows = [row for _, row in sorted(dated, key=lambda pair: -pair[0])]
    # A state in which no run has a trial says nothing, and a terminal has no room for seven.
    counts_shown = [key for key in map(key_of, states.STATES) if any(row.get(key) for row in rows)]
    shown = ["name", "state", "total_trials", *counts_shown, "begun", "last_updated"]
    return Listing(
        rows,
        lambda row: row,
        lambda rows: fact_table(rows, shown),
        shown,
        f"{directory}: {counted(len(rows), 'run')}",
        {"directory": directory},
        "runs",
        lambda row: f"{row['name']} is damaged: {row['why']}" if row["state"] == DAMAGED else "",
    )


def _run_row(name: str, run: Story) -> Row:
    state = settle(run)
    metric, mode = run.setup.goal.given
    return {
        "name": name,
        "state": state.name,
        "total_trials": len(run.trials) + run.not_drawn,
        **counts_by_key(run, state),
        "begun": date(run.setup.begun_s),
        "last_updated": date(run.updated_s),
        "trainable": run.setup.trainable_name,
        "metric": metric,
        "mode": mode,
        "path": run.path,
    }


# -- choosing ----------------------------------------------------------------------------------------------------------
def _chosen(listing: Listing, options: argparse.Namespace) -> list[Any]:
    """Filter and sort the trials or runs by the options.

    Raises:
        NotFoundError: If a column does not exist.
        argparse.ArgumentError: If a filter cannot be read.
    """
    items = list(listing.items)
    if options.filter or options.sort:
        rows = list(listing.rows)
        for text in options.filter:
            condition = _condition_of(text, listing)
            rows = list(filter(condition.holds, rows))
        names = []
        if options.sort:
            names = [listing.column(name) for name in options.sort.split(",")]
        # Sorting by the last column first gives the order of all columns, because the sort is stable. NaN has no order:
        # in the sort, it would leave the rest unsorted.
        for name in reversed(names):
            there = [row for row in rows if _is_there(row.get(name))]
            missing = [row for row in rows if not _is_there(row.get(name))]
            rows = [*sorted(there, key=lambda row: _rank(row[name])), *missing]
        of_row = {id(row): item for row, item in zip(listing.rows, items, strict=True)}
        items = [of_row[id(row)] for row in rows]
    return items[: options.limit]


def _condition_of(text: str, listing: Listing) -> conditions.Condition:
    try:
        condition = conditions.condition_of(text, listing.described, listing.rows)
    except conditions.UnknownColumnError as error:
        raise NotFoundError(str(error)) from None
    except conditions.ConditionError as error:
        raise argparse.ArgumentError(None, f"--filter: {error}") from None
    for each in condition.notes:
        note(each)
    return condition


def _further_names(name: str) -> Sequence[str]:
    if name.startswith(f"{CONFIG}/"):
        return [name.removeprefix(f"{CONFIG}/")]
    return _FURTHER_NAMES.get(name, ())


def _is_there(value: Any) -> bool:
    """Whether a value is neither missing nor NaN."""
    return value is not None and value == value


def _rank(value: Any) -> tuple[int, Any]:
    """A sort key for any values: numbers come before texts."""
    number = number_or_flag(value)
    if number is None:
        return (1, str(value))
    return (0, number)


# -- showing -----------------------------------------------------------------------------------------------------------
def _print_table(table: Table) -> None:
    """Print a table. On a terminal, the least important columns may go."""
    if not table.columns:
        return
    # A pipe gets all columns: the next program must not depend on the width of the terminal.
    width = None
    if sys.stdout.isatty():
        width = shutil.get_terminal_size().columns
    table, left_out = table.narrowed(width)
    echo_codes("\n".join(table.lines(has_color=has_color(sys.stdout))))
    if left_out:
        echo(f"columns left out for lack of space: {', '.join(left_out)}; choose with --columns")


# -- show, best, compare -----------------------------------------------------------------------------------------------
def show(options: argparse.Namespace) -> int:
    """Run `minitune show`."""
    directory, wanted = run_and_trial(options.run, options.trial)
    decisions = Decisions()
    run, state = read_standing(directory, None if wanted is None else decisions)
    if wanted is None:
        facts = about_run(run, state)
    else:
        trial = find_trial(run.trials, wanted)
        facts = about_trial(run, state, trial, decisions.by_trial.get(trial.trial_id, []))
    tell(facts, as_json=options.json)
    return 0


def best(options: argparse.Namespace) -> int:
    """Run `minitune best`."""
    run, state = read_standing(existing_run(options.run))
    metric, mode = run.setup.goal.require_one(options.metric, options.mode, run.path, run.trials)
    if options.config is not None:
        config = require_best(run, metric, mode, options.scope).reported_config
        echo(json_text.dumps_pretty(config) if options.config == "json" else _command_line(config))
        return 0
    tell(about_best(run, state, metric, mode, options.scope), as_json=options.json)
    return 0


def _command_line(config: Mapping[str, Any]) -> str:
    """A configuration as the options of a command line. A parameter within a dict is one such as `--optimizer.lr`."""
    words = []
    for name, value in flatten(config, delimiter=".").items():
        words += [f"--{name}", argument_of(value)]
    return shlex.join(words)


def compare(options: argparse.Namespace) -> int:
    """Run `minitune compare`."""
    found = [read_standing(existing_run(name)) for name in options.runs]
    goals = {run.setup.goal.require_one(options.metric, options.mode, run.path, run.trials) for run, _ in found}
    metric, mode = goals.pop()
    if goals:
        raise ValueError("the runs have different metrics or modes; pass --metric and --mode")
    if options.metric is not None:
        require_reported([trial for run, _ in found for trial in run.trials], metric, ", ".join(options.runs))
    runs = [ComparedRun.of(run, state, metric, mode) for run, state in found]
    if options.json:
        print_json({"metric": metric, "mode": mode, "runs": [compared_data(facts, mode) for facts in runs]})
        return 0
    columns = [facts.column(_earlier_best_of(facts, mode)) for facts in runs]
    told = dict.fromkeys(name for column in columns for name in column)
    names = [name for name in told if any(column.get(name) not in (None, "") for column in columns)]
    # The names are enough as heads if they differ. Runs of two storage directories may have equal names.
    heads = [os.path.basename(run.path) for run, _ in found]
    if len(set(heads)) < len(heads):
        heads = [run.path for run, _ in found]
    cells = [
        Column(head, [column.get(name) for name in names], LISTED_CELL)
        for head, column in zip(heads, columns, strict=True)
    ]
    echo("\n".join(Table([Column("", names, 10_000), *cells]).lines()))
    return 0


def _earlier_best_of(facts: ComparedRun, mode: str) -> str:
    if facts.best is None:
        return ""
    found = about_earlier_best(facts.run.trials, facts.best.trial, facts.metric, mode)
    return "" if found is None else str(found.text)
