"""`minitune ls`, `show`, `best`, `compare`: show runs, their trials, one trial in full, and runs side by side.

These commands only read, and unpickle nothing. A run may be live, killed or damaged.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import difflib
import json
import operator
import os
import re
import shlex
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

from minitune.base import json_text
from minitune.base.files import local_path, open_to_read
from minitune.base.table import Column, Table, short_repr
from minitune.base.text import counted, date, echo, mebibytes, number_text, one_line
from minitune.commands import Commands
from minitune.commands.config_text import CONFIG_FORMS, config_text
from minitune.commands.selecting import (
    RUN_HELP,
    TRIAL_HELP,
    NotFoundError,
    add_objective,
    add_run,
    count_from,
    existing_run,
    find_trial,
    run_and_trial,
)
from minitune.config import default_storage_path
from minitune.error import TuneError
from minitune.experiment import states
from minitune.experiment.goal import (
    SCOPES,
    best_of,
    best_trial,
    confirmations,
    once_better,
    require_reported,
    scored_by,
    why_no_best,
)
from minitune.experiment.lifecycle import ERROR
from minitune.experiment.trial import KeptCheckpoint, Trial
from minitune.output.comparison import compared
from minitune.output.rows import (
    LISTED,
    ending,
    facts_of,
    last_line,
    metric_columns,
    parameter_names,
    row_of,
    shown_metric,
    shown_metrics,
    titled,
    trials_table,
)
from minitune.output.table import best_first, once_better_text
from minitune.record.layout import find_runs, last_error_text, locate_run
from minitune.record.standing import FINISHED_RUN, Standing, put_back, read_standing, state_of
from minitune.record.standing import RUNNING as RUNNING_RUN
from minitune.record.story import Decisions, Story, TrialDecision, read_overview
from minitune.result import (
    CONFIG,
    EXPR_COMMAND_FILE,
    TIME_TOTAL_S,
    TRAINING_ITERATION,
    TRIAL_ID,
    flatten,
)
from minitune.space.tree import value_at_text

Row = dict[str, Any]

_OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "<=": operator.le,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    ">": operator.gt,
}
_FILTER = re.compile(r"\s*(?P<column>.+?)\s*(?P<sign>[<>=!]=|[<>](?!=))\s*(?P<value>.+?)\s*")

_WORDS = {"true": True, "false": False}
DAMAGED = "damaged"
_WIDTH = 15
"""The width of the names of facts."""
_ERRORS_SHOWN = 5

Facts = dict[str, Any]
"""Facts by name: plain values, dicts, lists of lines, and `_Said` if people get another text."""


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
    parser.add_argument("--desc", action="store_true", help="sort in descending order")
    parser.add_argument(
        "--filter",
        metavar='"COL OP VALUE"',
        action="append",
        default=[],
        help="show only rows for which this holds; OP is one of < <= == != >= >; may be repeated",
    )
    parser.add_argument(
        "--columns", metavar="A,B", help="show only these columns; x stands for config/x if there is no column x"
    )
    parser.add_argument("--limit", type=count_from(0), metavar="N", help="show only the first N rows")
    parser.add_argument("--output", metavar="FILE.csv", help="write all columns to a CSV file instead of a table")
    parser.add_argument("--json", action="store_true", help="print one JSON object for each row, with all columns")
    parser.set_defaults(command=ls)
    parser = commands.add_parser(
        "show",
        description="Show a run, or one of its trials in full.",
        epilog="The exit status is 1 if there is no such run or trial, else 0.",
    )
    add_run(parser, "; or a trial's directory")
    parser.add_argument("trial", nargs="?", help=TRIAL_HELP)
    parser.add_argument("--json", action="store_true", help="one JSON object")
    parser.set_defaults(command=show)
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
    shown.add_argument("--json", action="store_true", help="one JSON object")
    shown.add_argument(
        "--config",
        choices=CONFIG_FORMS,
        help="only the configuration, in this form; args: the options of a command line",
    )
    parser.set_defaults(command=best)
    parser = commands.add_parser(
        "compare",
        description="Compare runs side by side: state, number of trials, and the best trial of each.",
        epilog="The exit status is 1 if there is no such run, or if the runs have different metrics and --metric is "
        "not given, else 0.",
    )
    parser.add_argument("runs", nargs="+", metavar="RUN", help=RUN_HELP)
    add_objective(parser)
    parser.set_defaults(command=compare)


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
    """The remark on a trial or run of which there is nothing to say."""
    return ""


@dataclass(frozen=True)
class Listing:
    """Trials or runs in the order in which they are shown by default, and how to show them."""

    items: Sequence[Any]
    facts: Callable[[Any], Row]
    table: Callable[[Sequence[Any]], Table]
    usual: Sequence[str]
    heading: str
    remark: Callable[[Any], str] = _no_remark

    @cached_property
    def rows(self) -> list[Row]:
        """The rows of all."""
        return [self.facts(item) for item in self.items]

    def columns(self) -> Sequence[str]:
        """The names of all columns."""
        return list(dict.fromkeys(name for row in self.rows for name in row)) or self.usual

    def column(self, name: str) -> str:
        """The column with this name, or the one of the parameter with this name.

        Raises:
            NotFoundError: If there is neither. The error names similar columns.
        """
        columns = self.columns()
        name = name.strip()
        for wanted in (name, f"{CONFIG}/{name}"):
            if wanted in columns or wanted in self.usual:
                return wanted
        # Columns have long names with prefixes, so the usual limit of 0.6 would find too few.
        near = difflib.get_close_matches(name, columns, 3, 0.5)
        hint = f"there are {', '.join(columns)}"
        if near:
            hint = f"did you mean {' or '.join(near)}?"
        raise NotFoundError(f"there is no column {name!r}; {hint}")


def _list(listing: Listing, options: argparse.Namespace) -> int:
    """Show the requested rows, or write them to a file."""
    items = _chosen(listing, options)
    columns: Sequence[str] | None = None
    if options.columns:
        columns = [listing.column(name) for name in options.columns.split(",")]
    if options.output:
        with open(options.output, "w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, columns or listing.columns(), extrasaction="ignore")
            writer.writeheader()
            writer.writerows(map(listing.facts, items))
    if options.json:
        for row in map(listing.facts, items):
            # Not the default columns: a program wants everything, and picks by itself.
            echo(json_text.dumps({name: row.get(name) for name in columns or row}))
    elif options.output:
        echo(f"{len(items)} rows are in {options.output}")
    else:
        heading = listing.heading
        if len(items) < len(listing.items):
            heading += f"; shown: {len(items)}"
        echo(heading)
        _print_table(listing.table(items) if columns is None else _table([*map(listing.facts, items)], columns))
        for remark in filter(None, map(listing.remark, items)):
            echo(remark)
    return 0


# -- rows --------------------------------------------------------------------------------------------------------------
def _trials(name: str) -> Listing:
    run, state = read_standing(existing_run(name))
    goal = run.setup.goal
    metrics = {name: name for name in metric_columns(run.trials, goal)}
    params = {name: name for name in parameter_names(run.trials)}
    counts = [counted(len(run.trials), "trial")]
    if run.not_drawn:
        counts.append(f"{run.not_drawn} more {state.undrawn}")
    return Listing(
        best_first(run.trials, goal),
        lambda trial: facts_of(trial, goal),
        lambda trials: trials_table(trials, LISTED, goal, params, metrics),
        ["trial", TRIAL_ID, "status", "ended", *(f"{CONFIG}/{name}" for name in params), *metrics],
        f"{run.path}: {', '.join(counts)}, {state.text}",
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
    counts_shown = ["total_trials", *(state.replace(" ", "_") for state in states.STATES)]
    shown = ["name", "state", *counts_shown, "begun", "last_updated"]
    return Listing(
        rows,
        lambda row: row,
        lambda rows: _table(rows, shown),
        shown,
        f"{directory}: {counted(len(rows), 'run')}",
        lambda row: f"{row['name']} is damaged: {row['why']}" if row["state"] == DAMAGED else "",
    )


def _run_row(name: str, run: Story) -> Row:
    state = state_of(run)
    if state.name != RUNNING_RUN:
        put_back(run.trials)
    counts = state.counts(run)
    metric, mode = run.setup.goal.given
    return {
        "name": name,
        "state": state.name,
        "total_trials": len(run.trials) + run.not_drawn,
        **{word.replace(" ", "_"): counts[word] for word in states.STATES},
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
        ValueError: If a filter is malformed.
    """
    items = list(listing.items)
    if options.filter or options.sort:
        rows = list(listing.rows)
        for text in options.filter:
            rows = list(_filtered(rows, text, listing))
        names = []
        if options.sort:
            names = [listing.column(name) for name in options.sort.split(",")]
        # Sorting by the last column first gives the order of all columns, because the sort is stable. NaN has no order:
        # in the sort, it would leave the rest unsorted.
        for name in reversed(names):
            there = [row for row in rows if _is_there(row.get(name))]
            missing = [row for row in rows if not _is_there(row.get(name))]
            rows = [*sorted(there, key=lambda row: _rank(row[name]), reverse=options.desc), *missing]
        of_row = {id(row): item for row, item in zip(listing.rows, items, strict=True)}
        items = [of_row[id(row)] for row in rows]
    if options.desc and not options.sort:
        items.reverse()
    return items[: options.limit]


def _filtered(rows: Sequence[Row], text: str, listing: Listing) -> Iterator[Row]:
    match = _FILTER.fullmatch(text)
    if match is None:
        raise ValueError(f'--filter takes "COLUMN OP VALUE" with one of {" ".join(_OPERATORS)}, but got {text!r}')
    column = listing.column(match["column"])
    holds = _OPERATORS[match["sign"]]
    text = match["value"].strip("\"'")
    # The shell has taken the quotes of the whole condition. Users put quotes around a text in it as well.
    wanted: Any = _WORDS.get(text.lower(), text)
    with contextlib.suppress(ValueError):
        wanted = float(wanted)
    there = [row[column] for row in rows if _is_there(row.get(column))]
    # A text can only be compared with a column of numbers by mistake: two conditions in one, or a typing error. An
    # empty table would hide it.
    if isinstance(wanted, str) and there and all(isinstance(value, (int, float)) for value in there):
        raise ValueError(f"{column} holds numbers, but --filter got {wanted!r}; use --filter once for each condition")
    for row in rows:
        value = row.get(column)
        if isinstance(value, (int, float)) and isinstance(wanted, (int, float)):
            fits = holds(value, wanted)
        elif _is_there(value):
            fits = holds(str(value), text)
        else:  # a missing value is equal to nothing
            fits = match["sign"] == "!="
        if fits:
            yield row


def _is_there(value: Any) -> bool:
    """Whether a value is neither missing nor NaN."""
    return value is not None and value == value


def _rank(value: Any) -> tuple[int, Any]:
    """A sort key for any values: numbers come before texts."""
    if isinstance(value, (int, float)):
        return (0, value)
    return (1, str(value))


# -- showing -----------------------------------------------------------------------------------------------------------
def _table(rows: Sequence[Row], names: Sequence[str]) -> Table:
    """These columns of rows, without those that have no value. A narrow terminal lacks the last ones."""
    shown = [name for name in names if any(row.get(name) is not None for row in rows)]
    return Table([Column(name, [row.get(name) for row in rows], LISTED.cell) for name in shown], range(len(shown)))


def _print_table(table: Table) -> None:
    """Print a table. On a terminal, the least important columns go if they do not fit."""
    if not table.columns:
        return
    # A pipe gets all columns: the next program must not depend on the width of the terminal.
    width = None
    if sys.stdout.isatty():
        width = shutil.get_terminal_size().columns
    table, left_out = table.narrowed(width)
    echo("\n".join(table.lines()))
    if left_out:
        echo(f"columns left out for lack of space: {', '.join(left_out)}; choose with --columns")


# -- show, best --------------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class _Said:
    """A fact as data for programs, and as a text for people."""

    data: Any
    text: str


def show(options: argparse.Namespace) -> int:
    """Run `minitune show`."""
    directory, wanted = run_and_trial(options.run, options.trial)
    if wanted is None:
        _tell(_about_run(*read_standing(directory)), options.json)
    else:
        decisions = Decisions()
        run, state = read_standing(directory, decisions)
        trial = find_trial(run.trials, wanted)
        _tell(_about_trial(run, state, trial, decisions.by_trial.get(trial.trial_id, [])), options.json)
    return 0


def best(options: argparse.Namespace) -> int:
    """Run `minitune best`."""
    run, state = read_standing(existing_run(options.run))
    metric, mode = run.setup.goal.require_one(options.metric, options.mode, run.path, run.trials)
    if options.config is not None:
        echo(config_text(_require_best(run, metric, mode, options.scope).reported_config, options.config))
        return 0
    _tell(_about_best(run, state, metric, mode, options.scope), options.json)
    return 0


def compare(options: argparse.Namespace) -> int:
    """Run `minitune compare`."""
    found = [read_standing(existing_run(name)) for name in options.runs]
    goals = {run.setup.goal.require_one(options.metric, options.mode, run.path, run.trials) for run, _ in found}
    metric, mode = goals.pop()
    if goals:
        raise ValueError("the runs have different metrics or modes; pass --metric and --mode")
    if options.metric is not None:
        require_reported([trial for run, _ in found for trial in run.trials], metric, ", ".join(options.runs))
    columns = [compared(run, state, metric, mode, _once_better_of(run, metric, mode)) for run, state in found]
    names = list(dict.fromkeys(name for column in columns for name in column))
    # The names are enough as heads if they differ. Runs of two storage directories may have equal names.
    heads = [os.path.basename(run.path) for run, _ in found]
    if len(set(heads)) < len(heads):
        heads = [run.path for run, _ in found]
    cells = [
        Column(head, [column.get(name) for name in names], LISTED.cell)
        for head, column in zip(heads, columns, strict=True)
    ]
    echo("\n".join(Table([Column("", names, 10_000), *cells]).lines()))
    return 0


def _once_better_of(run: Story, metric: str, mode: str) -> str:
    best = best_trial(run.trials, metric, mode)
    said = None
    if best is not None:
        said = _once_better(run.trials, best, metric, mode)
    return "" if said is None else said.text


# -- facts -------------------------------------------------------------------------------------------------------------
def _about_run(run: Story, state: Standing) -> Facts:
    counts = state.counts(run)
    shown = [f"{counts[word]} {word}" for word in states.STATES if counts[word]]
    facts: Facts = {
        "run": run.path,
        "state": _Said(state.name, state.text),
        "trainable": run.setup.trainable_name,
        "optimised": str(run.setup.goal) or None,
        "seed": run.setup.seed,
        "versions": _Said(
            run.setup.versions, ", ".join(f"{name} {version}" for name, version in run.setup.versions.items())
        ),
        "begun": date(run.setup.begun_s),
        "last updated": date(run.updated_s),
        "trials": _Said(counts, ", ".join(shown) or "none yet"),
    }
    metric = run.setup.goal.metric
    mode = run.setup.goal.mode
    if metric and mode and (found := best_trial(run.trials, metric, mode)):
        confirmed = confirmations(run.trials, metric, mode)
        value = str(confirmed[0]) if confirmed else _short(shown_metric(found, metric))
        facts["best"] = _Said(found.trial_id, f"trial {titled(found)}: {metric}={value}")
        facts["once better"] = _once_better(run.trials, found, metric, mode)
    if run.setup.goal.objectives:
        front = run.setup.goal.front(run.trials)
        numbers = ", ".join(str(trial.number) for trial in front)
        facts["front"] = _Said([trial.trial_id for trial in front], numbers or "none yet")
    failed = [trial for trial in run.trials if trial.status == ERROR]
    if failed:
        lines = [f"trial {titled(trial)}: {last_line(trial)}" for trial in failed[:_ERRORS_SHOWN]]
        if len(failed) > _ERRORS_SHOWN:
            lines.append(f"and {len(failed) - _ERRORS_SHOWN} more")
        facts["errors"] = lines
    return facts


def _about_trial(run: Story, state: Standing, trial: Trial, decisions: Sequence[TrialDecision]) -> Facts:
    row = row_of(trial, (TRAINING_ITERATION, TIME_TOTAL_S))
    status = row.ending
    if trial.attempt.number > 1:
        status += f", attempt {trial.attempt.number}"
    if trial.num_failures > 1:
        status += f", {trial.num_failures} failures"
    facts: Facts = {
        "trial": _Said(trial.trial_id, titled(trial)),
        "name": row.name,
        "status": _Said(row.state, status),
        "repeats": row.repeats,
        "run": _Said(run.path, f"{run.path}: {state.text}"),
        "directory": trial.local_path if trial.has_started else None,
        "config": trial.reported_config,
        "command": _command_of(trial),
        "resources": {**trial.resources.required_resources},
        "seed": trial.seed,
        "iteration": row.metrics.get(TRAINING_ITERATION),
        "seconds": row.metrics.get(TIME_TOTAL_S),
        "cpu_s": None if trial.usage is None else trial.usage.cpu_s,
        "peak_bytes": None if trial.usage is None else _Said(trial.usage.peak_bytes, mebibytes(trial.usage.peak_bytes)),
        "metrics": shown_metrics(trial, run.setup.goal),
        "checkpoints": [
            _about_checkpoint(trial, kept, run.setup.goal.metric, is_short=True) for kept in trial.checkpoints
        ],
        "decisions": [_Said(asdict(decision), str(decision)) for decision in decisions],
    }
    text = ""
    if trial.num_failures:
        text = last_error_text(trial.local_path)
    if text or trial.error is not None:
        facts["error"] = (text or str(trial.error)).splitlines()
    return facts


def _require_best(run: Story, metric: str, mode: str, scope: str) -> Trial:
    trial = best_trial(run.trials, metric, mode, scope)
    if trial is None:
        raise NotFoundError(f"{why_no_best(run.trials, metric)} ({run.path})")
    return trial


def _about_best(run: Story, state: Standing, metric: str, mode: str, scope: str) -> Facts:
    """The best trial, its value, and the iteration and checkpoint of the value."""
    trial = _require_best(run, metric, mode, scope)
    statistic = scope
    if scope == "all":
        statistic = mode  # the smallest or the largest of all its values
    value = trial.progress.analysis.get(metric, statistic)
    chosen = f"{mode} of {metric}, scope {scope}, of {len(run.trials)} trials"
    if state.name != FINISHED_RUN:
        chosen += f" so far (the run {state.said})"
    waiting = sum(trial.state == states.NOT_STARTED for trial in run.trials)
    if waiting:
        chosen += f", {waiting} of which were not started"
    facts: Facts = {
        "value": _Said(value, f"{metric}={_short(value)}"),
        "chosen by": _Said(
            {"metric": metric, "mode": mode, "scope": scope, "trials": len(run.trials), "run": state.name},
            chosen,
        ),
        "confirmed": _confirmed(run.trials, metric, mode, scope),
        "expected": _expected(run.trials, trial, metric, mode, scope),
        "once better": None,
        "trial": _Said(trial.trial_id, titled(trial)),
        "status": _Said(trial.state, ending(trial)),
        "iteration": None,
        "config": trial.reported_config,
        "command": _command_of(trial),
        "last metrics": shown_metrics(trial, run.setup.goal),
        "directory": trial.local_path,
    }
    if scope in ("all", "last"):  # an average has no iteration
        facts["iteration"] = _iteration_of(trial, metric, value)
    if scope == "last":
        facts["once better"] = _once_better(run.trials, trial, metric, mode)
    # The best value may belong to a report without a checkpoint, or with one that was removed.
    scored = [(value_at_text(kept.progress.metrics, metric), kept) for kept in trial.checkpoints]
    kept = best_of(scored_by(scored), mode)
    facts["best checkpoint"] = kept and _about_checkpoint(trial, kept, metric)
    if trial.checkpoints and trial.checkpoints[-1] is not kept:
        facts["last checkpoint"] = _about_checkpoint(trial, trial.checkpoints[-1], metric)
    return facts


def _confirmed(trials: Sequence[Trial], metric: str, mode: str, scope: str) -> _Said | None:
    """The values of the best trial's repeats, and the other confirmed trials; None without repeats."""
    found = confirmations(trials, metric, mode, scope)
    if not found:
        return None
    data = [{"trial": each.trial.trial_id, "mean": each.mean, "values": each.values} for each in found]
    others = "".join(f"; {number_text(each.mean)} trial {each.trial.number}" for each in found[1:])
    return _Said(data, f"{found[0]}{others}")


def _expected(trials: Sequence[Trial], best: Trial, metric: str, mode: str, scope: str) -> _Said | None:
    """What to expect of the best trial if it were run again; None if it was run again, without noise, or with too few
    trials.
    """
    from minitune.search.estimate import estimates, remark_on_luck

    if confirmations(trials, metric, mode, scope):
        return None
    found = estimates(trials, metric, mode, scope)
    own = next((each for each in found if each.trial_id == best.trial_id), None)
    if own is None or not own.is_noisy:
        return None
    remark = remark_on_luck(found, mode)
    data = {"value": own.expected, "low": own.low, "high": own.high, "best trial": found[0].trial_id, "remark": remark}
    return _Said(data, f"{own}: {remark}" if remark else str(own))


def _once_better(trials: Sequence[Trial], best: Trial, metric: str, mode: str) -> _Said | None:
    """The trial that was once better than the best one, with its value and iteration; None if there is none."""
    trial = once_better(trials, best, metric, mode)
    if trial is None:
        return None
    value = trial.progress.analysis.get(metric, mode)
    iteration = _iteration_of(trial, metric, value)
    data = {"trial": trial.trial_id, "value": value, "iteration": iteration}
    return _Said(data, once_better_text(trial, metric, mode, iteration))


def _iteration_of(trial: Trial, metric: str, value: float | None) -> Any:
    """The iteration in which a trial first reported this value; None if it is unknown."""
    if value_at_text(trial.progress.metrics, metric) == value:
        return trial.progress.metrics.get(TRAINING_ITERATION)
    from minitune.analysis.trial_rows import trial_rows

    # The last report is in memory. Earlier ones are read from the journal, which takes longer.
    rows = trial_rows(trial.local_path)
    return next((row.get(TRAINING_ITERATION) for row in rows if row.get(metric) == value), None)


def _about_checkpoint(trial: Trial, kept: KeptCheckpoint, metric: str | None, *, is_short: bool = False) -> _Said:
    path = os.path.join(trial.local_path, kept.record.directory)
    iteration = kept.progress.metrics.get(TRAINING_ITERATION)
    value = metric and value_at_text(kept.progress.metrics, metric)
    told = [f"iteration {iteration}"]
    if value is not None:
        told.append(f"{metric}={_short(value)}")
    told.append(f"{kept.record.total_bytes:,} bytes")
    shown_path = path
    if is_short:  # the trial's directory stands above
        shown_path = kept.record.directory
    data = {"path": path, "iteration": iteration, "value": value, "bytes": kept.record.total_bytes}
    return _Said(data, f"{shown_path} ({', '.join(told)})")


def _command_of(trial: Trial) -> _Said | None:
    """The command line of a trial of `minitune run`, to paste into a shell; None for any other trial."""
    try:
        with open_to_read(os.path.join(trial.local_path, EXPR_COMMAND_FILE)) as file:
            words = list(map(str, json.load(file)))
    except (OSError, ValueError, TypeError):
        return None
    return _Said(words, shlex.join(words))


def _short(value: Any) -> str:
    return short_repr(value, rounds=True)


# -- telling -----------------------------------------------------------------------------------------------------------
def _tell(facts: Facts, as_json: bool) -> None:
    if as_json:
        echo(json_text.dumps_pretty({name.replace(" ", "_"): _data(value) for name, value in facts.items()}))
        return
    for name, value in facts.items():
        for line in _lines(name, value):
            echo(line)


def _data(value: Any) -> Any:
    if isinstance(value, list):
        return [_data(part) for part in value]
    if type(value) is _Said:
        return value.data
    return value


def _text(value: Any) -> str:
    if type(value) is _Said:
        return value.text
    if isinstance(value, str):
        return value
    return _short(value)


def _lines(name: str, value: Any) -> Iterator[str]:
    """The lines of a fact: one line for a plain value, otherwise the name and a line for each part."""
    if value is None or value in ("", [], {}):
        return
    if isinstance(value, Mapping):
        parts = [f"{one_line(key)}: {_short(part)}" for key, part in flatten(value).items()]
    elif isinstance(value, list):
        parts = [_text(part) for part in value]
    else:
        yield f"{name:<{_WIDTH}} {_text(value)}"
        return
    yield name
    for part in parts:
        yield f"  {part}"
