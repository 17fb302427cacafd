"""`minitune ls`, `lsx`, `show`, `best`, `compare` show runs, their trials, one trial in full, and runs side by side.

These commands only read. A run may be live, killed or damaged. They unpickle nothing. With `--json`, programs get the
same facts with all digits.
"""

from __future__ import annotations

import argparse
import csv
import difflib
import operator
import os
import re
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from minitune.base import json_text
from minitune.base.files import local_path
from minitune.base.table import Column, Table, short_repr
from minitune.commands import Commands
from minitune.commands.selecting import (
    LAST,
    RUN_HELP,
    TRIAL_HELP,
    NotFoundError,
    existing_run,
    find_trial,
    run_and_trial,
)
from minitune.config import default_storage_path
from minitune.error import TuneError
from minitune.experiment.lifecycle import ERROR, NOT_STARTED, TERMINATED
from minitune.experiment.trial import SCOPES, KeptCheckpoint, Trial, best_of, best_trial, is_number, why_no_best
from minitune.output.table import metrics_of
from minitune.record.layout import is_run, last_error_text
from minitune.record.standing import FINISHED_RUN, STOPPED, RunState, read_standing, state_of
from minitune.record.story import Decisions, Story, TrialDecision, find_runs
from minitune.result import AUTO_RESULT_KEYS, CONFIG, NODE_IP, TIME_TOTAL_S, TRAINING_ITERATION, TRIAL_ID, flatten

Row = dict[str, Any]

_OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "<=": operator.le,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    ">": operator.gt,
}

_FILTER = re.compile(r"\s*(?P<column>.+?)\s*(?P<sign><=|>=|==|!=|<|>)\s*(?P<value>.*?)\s*")

DAMAGED = "damaged"

_WORDS = {"true": True, "false": False}

_ENDED_STATUSES = {TERMINATED, ERROR, NOT_STARTED}

_WIDTH = 15
"""Characters of a fact's name."""

_CELL = 40
"""Characters of a table's cell."""

_ERRORS_SHOWN = 5

_NOT_DRAWN = "not drawn"

Facts = dict[str, Any]
"""Facts by their names: plain values, dicts of them, lists of lines, and `_Said` where people read another text."""


def add_parser(commands: Commands) -> None:
    """Add the parsers of these commands."""
    parser = _add_listing(
        commands,
        "ls",
        "List the runs in a directory, the newest first, or the trials of a run with status, parameters and last "
        "result. The run may still be running.",
    )
    parser.add_argument("run", nargs="?", help=f"{RUN_HELP}; or a directory of runs (default: the storage path)")
    parser.set_defaults(command=ls)
    parser = _add_listing(commands, "lsx", "List the runs in a directory, the newest first: the same as `minitune ls`.")
    parser.add_argument("run", nargs="?", metavar="directory", help="directory of runs (default: the storage path)")
    parser.set_defaults(command=lambda options: _list(_experiments(options.run), options))
    parser = commands.add_parser(
        "show",
        description="Show a run, or one of its trials in full.",
        epilog="The exit status is 1 if there is no such run or trial, else 0.",
    )
    parser.add_argument("run", nargs="?", default=LAST, help=f"{RUN_HELP} (default: {LAST}); or a trial's directory")
    parser.add_argument("trial", nargs="?", help=TRIAL_HELP)
    parser.add_argument("--json", action="store_true", help="one JSON object")
    parser.set_defaults(command=show)
    parser = commands.add_parser(
        "best",
        description="Show the best trial of a run: the one that `ResultGrid.get_best_result` returns.",
        epilog="The exit status is 1 if there is no such run, or no trial has the metric, else 0.",
    )
    parser.add_argument("run", nargs="?", default=LAST, help=f"{RUN_HELP} (default: {LAST})")
    parser.add_argument("--metric", help="metric to compare by (default: as in the run)")
    parser.add_argument("--mode", choices=("min", "max"), help="default: as in the run")
    parser.add_argument(
        "--scope",
        choices=SCOPES,
        default="last",
        help="value of a trial that counts (default: last; all: the best one)",
    )
    parser.add_argument("--json", action="store_true", help="one JSON object")
    parser.set_defaults(command=best)
    parser = commands.add_parser(
        "compare",
        description="Compare runs side by side: state, number of trials, and the best trial of each.",
        epilog="The exit status is 1 if there is no such run, or the runs optimise different metrics and --metric is "
        "not given, else 0.",
    )
    parser.add_argument("runs", nargs="+", metavar="RUN", help=RUN_HELP)
    parser.add_argument("--metric", help="metric to compare by (default: as in the runs)")
    parser.add_argument("--mode", choices=("min", "max"), help="default: as in the runs")
    parser.add_argument("--json", action="store_true", help="one JSON object for each run")
    parser.set_defaults(command=compare)


def _add_listing(commands: Commands, name: str, description: str) -> argparse.ArgumentParser:
    """Add a parser with the arguments that are common to commands that show a table."""
    epilog = "The exit status is 1 if there is no such run, directory or column, else 0."
    parser = commands.add_parser(name, description=description, epilog=epilog)
    parser.add_argument("--sort", metavar="A,B", help="sort by these columns; missing values come last")
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
    parser.add_argument("--limit", type=_count, metavar="N", help="show only the first N rows")
    parser.add_argument("--output", metavar="FILE.csv", help="write all columns to a CSV file instead of a table")
    parser.add_argument("--json", action="store_true", help="print one JSON object for each row, with all columns")
    return parser


def _count(text: str) -> int:
    if not text.isdigit():
        raise argparse.ArgumentTypeError(f"expected a number >= 0, but got {text!r}")
    return int(text)


# -- ls, lsx -----------------------------------------------------------------------------------------------------------


def ls(options: argparse.Namespace) -> int:
    """Run `minitune ls`."""
    directory = local_path(options.run) if options.run else ""
    if not options.run or (os.path.isdir(directory) and not is_run(directory) and any(find_runs(directory))):
        return _list(_experiments(options.run), options)
    return _list(_trials(options.run), options)


class _Listing:
    """Rows, and how they are shown.

    Attributes:
        rows: One for each trial, or run.
        shown: The columns that are shown unless others are asked for.
        heading: A line about them all.
        vital: The columns that are dropped last where the terminal is narrow.
    """

    def __init__(self, rows: list[Row], shown: list[str], heading: str, vital: Sequence[str] = ()):
        self.rows = rows
        self.shown = shown
        self.heading = heading
        self.vital = vital

    def columns(self) -> list[str]:
        """All columns, in the order in which they come."""
        return list(dict.fromkeys(name for row in self.rows for name in row)) or self.shown


def _list(listing: _Listing, options: argparse.Namespace) -> int:
    """Show the rows that are asked for, or write them to a file."""
    rows = _chosen(listing, options)
    columns = [_column(name, listing) for name in options.columns.split(",")] if options.columns else None
    if options.output:
        with open(options.output, "w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, columns or listing.columns(), extrasaction="ignore")
            writer.writeheader()
            writer.writerows(rows)
    if options.json:
        for row in rows:
            print(json_text.dumps({name: row.get(name) for name in columns} if columns else row))
    elif options.output:
        print(f"{len(rows)} rows are in {options.output}")
    else:
        print(listing.heading if len(rows) == len(listing.rows) else f"{listing.heading}; shown: {len(rows)}")
        _print_table(rows, columns or listing.shown, listing.vital)
        for row in rows:
            if row.get("state") == DAMAGED:
                print(f"{row['name']} is damaged: {row['why']}")
    return 0


# -- rows --------------------------------------------------------------------------------------------------------------


def _trials(name: str) -> _Listing:
    from minitune.output.table import cut_short, ending, infer_metrics

    run, state = read_standing(existing_run(name))
    cut = cut_short(run.trials) if state.name in (FINISHED_RUN, STOPPED) else {}
    rows = [_row(trial, ending(trial, trial.trial_id in cut)) for trial in run.trials]
    has_ends = any(row["ended"] for row in rows)
    searched = sorted({f"{CONFIG}/{name}" for trial in run.trials for name in trial.evaluated_params})
    own = infer_metrics(run.trials, run.goal.metrics, 4)
    metrics = [*run.goal.metrics, *own]
    shown = ["trial", TRIAL_ID, "status", *searched, *metrics, TRAINING_ITERATION, TIME_TOTAL_S]
    shown[3:3] = ["ended"] if has_ends else []
    if len({row.get(NODE_IP) for row in rows} - {None}) > 1:  # on a cluster
        shown.append(NODE_IP)
    more = (
        f", {run.not_drawn} not drawn{'' if state.name in (FINISHED_RUN, STOPPED) else ' yet'}" if run.not_drawn else ""
    )
    heading = f"{run.path}: {len(rows)} {'trial' if len(rows) == 1 else 'trials'}{more}, {state.text}"
    how = "ended" if rows and all(row["ended"] for row in rows) else "status"
    vital = ["trial", *(run.goal.metrics or own[:1]), *searched, how]
    return _Listing(rows, shown, heading, vital)


def _row(trial: Trial, ended: str) -> Row:
    from minitune.analysis.experiment_analysis import flat_row

    result = {key: value for key, value in trial.last_result.items() if key not in (CONFIG, TRIAL_ID)}
    automatic = {key: result.pop(key) for key in AUTO_RESULT_KEYS if key in result}
    return {
        "trial": trial.number,
        TRIAL_ID: trial.trial_id,
        "status": trial.shown_status,
        "ended": ended if trial.shown_status in _ENDED_STATUSES else None,
        **flat_row(result),
        **automatic,
        **flat_row({CONFIG: trial.config}),
        "failures": trial.num_failures,
        "logdir": trial.local_path if trial.has_started else None,
    }


def _experiments(where: str | None) -> _Listing:
    from minitune.record.story import read_overview

    directory = local_path(where or default_storage_path())
    if where and not os.path.isdir(directory):
        raise NotADirectoryError(f"there is no directory {directory}")
    dated: list[tuple[float, Row]] = []
    for path in find_runs(directory):
        row: Row = {"name": path[len(directory) :].lstrip("/\\")}
        try:
            seen = read_overview(path)
            damage: Exception | None = seen.damage
        except (TuneError, OSError) as error:
            damage = error
        if damage is not None:
            dated.append((0.0, {**row, "state": DAMAGED, "why": str(damage), "path": path}))
            continue
        counts = seen.counts()
        row |= {"state": state_of(seen).name, "total_trials": len(seen.trials)}
        row |= {status.lower(): counts[status] for status in (TERMINATED, ERROR)}
        row["not_started"] = counts[NOT_STARTED]
        row["left"] = sum(count for status, count in counts.items() if status not in _ENDED_STATUSES)
        row["not_drawn"] = seen.not_drawn
        row |= {"begun": _date(seen.begun_s), "last_updated": _date(seen.updated_s)}
        metric, mode = seen.goal.given
        row |= {"trainable": seen.trainable_name, "metric": metric, "mode": mode, "path": path}
        dated.append((seen.begun_s, row))
    rows = [row for _, row in sorted(dated, key=lambda pair: -pair[0])]
    counted = ["total_trials", "terminated", "error", "not_started", "left", "not_drawn"]
    shown = ["name", "state", *counted, "begun", "last_updated"]
    return _Listing(rows, shown, f"{directory}: {len(rows)} run{'' if len(rows) == 1 else 's'}")


def _date(at_s: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(at_s)) if at_s else ""


# -- choosing ----------------------------------------------------------------------------------------------------------


def _chosen(listing: _Listing, options: argparse.Namespace) -> list[Row]:
    """Select and sort the rows as the options ask.

    Raises:
        NotFoundError: If a column does not exist.
        ValueError: If a filter has a wrong form.
    """
    rows = listing.rows
    for text in options.filter:
        rows = list(_filtered(rows, text, listing))
    names = [_column(name, listing) for name in options.sort.split(",")] if options.sort else []
    for name in reversed(names):  # the sort is stable, and missing values stay last
        there = [row for row in rows if _is_there(row.get(name))]
        missing = [row for row in rows if not _is_there(row.get(name))]
        rows = [*sorted(there, key=lambda row: _rank(row[name]), reverse=options.desc), *missing]
    if options.desc and not names:
        rows = rows[::-1]
    return rows[: options.limit]


def _filtered(rows: Iterable[Row], text: str, listing: _Listing) -> Iterable[Row]:
    match = _FILTER.fullmatch(text)
    if match is None:
        raise ValueError(f'--filter takes "COLUMN OP VALUE" with one of {" ".join(_OPERATORS)}, but got {text!r}')
    column, holds = _column(match["column"], listing), _OPERATORS[match["sign"]]
    rows, wanted = list(rows), _value(match["value"].strip("\"'"))
    there = [row[column] for row in rows if _is_there(row.get(column))]
    if isinstance(wanted, str) and there and all(isinstance(value, (int, float)) for value in there):
        raise ValueError(f"{column} holds numbers, but --filter got {wanted!r}; use --filter once for each condition")
    for row in rows:
        value = row.get(column)
        if isinstance(value, (int, float)) and isinstance(wanted, (int, float)):
            fits = holds(value, wanted)
        elif _is_there(value):
            fits = holds(str(value), match["value"].strip("\"'"))
        else:
            fits = match["sign"] == "!="
        if fits:
            yield row


def _value(text: str) -> Any:
    try:
        return _WORDS[text.lower()] if text.lower() in _WORDS else float(text)
    except ValueError:
        return text


def _is_there(value: Any) -> bool:
    """Whether a value is neither missing nor NaN."""
    return value is not None and value == value


def _rank(value: Any) -> tuple[int, Any]:
    """A key that orders any two values: numbers come before texts."""
    return (0, value) if isinstance(value, (int, float)) else (1, str(value))


def _column(name: str, listing: _Listing) -> str:
    """The column of this name, or that of the parameter of this name.

    Raises:
        NotFoundError: If there is neither; the text names similar ones.
    """
    columns, name = listing.columns(), name.strip()
    for wanted in (name, f"{CONFIG}/{name}"):
        if wanted in columns or wanted in listing.shown:
            return wanted
    near = difflib.get_close_matches(name, columns, 3, 0.5) or columns
    raise NotFoundError(f"there is no column {name!r}; there are {', '.join(near)}")


# -- showing -----------------------------------------------------------------------------------------------------------


def _print_table(rows: Sequence[Row], names: Sequence[str], vital: Sequence[str]) -> None:
    """Print a table of the columns that have a value. On a terminal, leave out columns that do not fit.

    Args:
        rows: The rows.
        names: The names of the columns, in their order.
        vital: The columns that are left out last, the most important one first. Of the other columns, the rightmost is
            left out first.
    """
    names = [name for name in names if any(row.get(name) is not None for row in rows)]
    if not names:
        return
    ranked = [*(name for name in vital if name in names), *(name for name in names if name not in vital)]
    columns = [Column(name, [row.get(name) for row in rows], _CELL) for name in names]
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    table, left_out = Table(columns, [names.index(name) for name in ranked]).narrowed(width)
    print("\n".join(table.lines()))
    if left_out:
        print(f"columns left out for lack of space: {', '.join(left_out)}; choose with --columns")


# -- show, best --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Said:
    """A fact with one form for programs and another one for people.

    Attributes:
        data: For programs.
        text: For people.
    """

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
    metric, mode = run.goal.one(options.metric, options.mode)
    if metric is None and run.goal.objectives:
        raise ValueError(f"{run.path} has several objectives ({run.goal}), so no trial is the best; pass --metric")
    if metric is None or mode is None:
        raise ValueError(f"{run.path} has no metric and mode; pass --metric and --mode")
    _tell(_about_best(run, state, metric, mode, options.scope), options.json)
    return 0


def compare(options: argparse.Namespace) -> int:
    """Run `minitune compare`.

    Raises:
        ValueError: If the runs optimise different metrics and none is given.
    """
    found = [read_standing(existing_run(name)) for name in options.runs]
    goals = {run.goal.one(options.metric, options.mode) for run, _ in found}
    metric, mode = goals.pop()
    if goals or metric is None or mode is None:
        raise ValueError("the runs have different metrics or modes; pass --metric and --mode")
    columns = [_compared(run, state, metric, mode) for run, state in found]
    if options.json:
        for column in columns:
            print(json_text.dumps(column))
        return 0
    names = list(dict.fromkeys(name for column in columns for name in column if name != "run"))
    heads = [os.path.basename(run.path) for run, _ in found]
    if len(set(heads)) < len(heads):
        heads = [run.path for run, _ in found]
    cells = [
        Column(head, [column.get(name) for name in names], _CELL) for head, column in zip(heads, columns, strict=True)
    ]
    print("\n".join(Table([Column("", names, 10_000), *cells]).lines()))
    return 0


def _compared(run: Story, state: RunState, metric: str, mode: str) -> Row:
    """The column of one of several runs."""
    best = best_trial(run.trials, metric, mode, "all")
    row: Row = {
        "run": run.path,
        "state": state.name,
        "trainable": run.trainable_name,
        "begun": _date(run.begun_s),
        "trials": len(run.trials),
        "failed": sum(trial.status == ERROR for trial in run.trials),
        "not started": sum(trial.shown_status == NOT_STARTED for trial in run.trials),
        "reports": sum(trial.report_count for trial in run.trials),
        "seconds of training": sum(float(trial.last_result.get(TIME_TOTAL_S) or 0) for trial in run.trials),
        f"best {metric}": best and best.analysis.get(metric, mode),
        "best trial": best and _named(best),
    }
    if best is not None:
        row |= {f"{CONFIG}/{name}": value for name, value in flatten(best.config).items()}
    return row


# -- facts -------------------------------------------------------------------------------------------------------------


def _about_run(run: Story, state: RunState) -> Facts:
    counts = run.counts()
    if run.not_drawn:
        counts[_NOT_DRAWN] = run.not_drawn
    facts: Facts = {
        "run": run.path,
        "state": _Said(state.name, state.text),
        "trainable": run.trainable_name,
        "optimised": str(run.goal) or None,
        "seed": run.seed,
        "versions": _Said(run.versions, ", ".join(f"{name} {version}" for name, version in run.versions.items())),
        "begun": _date(run.begun_s),
        "last updated": _date(run.updated_s),
        "trials": _Said(counts, ", ".join(f"{n} {status}" for status, n in sorted(counts.items())) or "none yet"),
    }
    metric, mode = run.goal.metric, run.goal.mode
    found = best_trial(run.trials, metric, mode) if metric and mode else None
    if found is not None and metric:
        facts["best"] = _Said(found.trial_id, f"trial {_named(found)}: {metric}={_short(_last(found, metric))}")
    if run.goal.objectives:
        front = run.goal.front(run.trials)
        facts["front"] = _Said(
            [one.trial_id for one in front], ", ".join(str(one.number) for one in front) or "none yet"
        )
    failed = [trial for trial in run.trials if trial.status == ERROR]
    if failed:
        lines = [f"trial {_named(trial)}: {trial.error and trial.error.summary()}" for trial in failed[:_ERRORS_SHOWN]]
        more = len(failed) - _ERRORS_SHOWN
        facts["errors"] = [*lines, *([f"and {more} more"] if more > 0 else [])]
    return facts


def _about_trial(run: Story, state: RunState, trial: Trial, decisions: Sequence[TrialDecision]) -> Facts:
    attempts = f", attempt {trial.attempt}" if trial.attempt > 1 else ""
    attempts += f", {trial.num_failures} failures" if trial.num_failures > 1 else ""
    facts: Facts = {
        "trial": _Said(trial.trial_id, _named(trial)),
        "name": trial.name,
        "status": _Said(trial.shown_status, trial.shown_status + attempts),
        "run": _Said(run.path, f"{run.path}: {state.text}"),
        "directory": trial.local_path if trial.has_started else None,
        "config": trial.config,
        "resources": {**trial.resources.required_resources},
        "seed": trial.seed,
        "iteration": trial.last_result.get(TRAINING_ITERATION),
        "seconds": trial.last_result.get(TIME_TOTAL_S),
        "metrics": metrics_of(trial.last_result),
        "checkpoints": [_about_checkpoint(trial, kept, run.goal.metric, is_short=True) for kept in trial.checkpoints],
        "decisions": [_Said(_as_data(decision), str(decision)) for decision in decisions],
    }
    text = last_error_text(trial.local_path) if trial.num_failures else ""
    if text or trial.error is not None:
        facts["error"] = (text or str(trial.error)).splitlines()
    return facts


def _about_best(run: Story, state: RunState, metric: str, mode: str, scope: str) -> Facts:
    """The best trial, its value, and the step and checkpoint that the value belongs to.

    Raises:
        NotFoundError: If no trial has a finite value of the metric.
    """
    trial = best_trial(run.trials, metric, mode, scope)
    if trial is None:
        raise NotFoundError(f"{why_no_best(run.trials, metric)} ({run.path})")
    value = trial.analysis.get(metric, mode if scope == "all" else scope)
    waiting = sum(trial.shown_status == NOT_STARTED for trial in run.trials)
    of_which = f", {waiting} of which were not started" if waiting else ""
    so_far = "" if state.name == FINISHED_RUN else f" so far (the run {state.said})"
    facts: Facts = {
        "value": _Said(value, f"{metric}={_short(value)}"),
        "chosen by": _Said(
            {"metric": metric, "mode": mode, "scope": scope, "trials": len(run.trials), "run": state.name},
            f"{mode} of {metric}, scope {scope}, of {len(run.trials)} trials{so_far}{of_which}",
        ),
        "trial": _Said(trial.trial_id, _named(trial)),
        "status": trial.shown_status,
        "iteration": _iteration_of(trial, metric, value) if scope in ("all", "last") else None,
        "config": trial.config,
        "last metrics": metrics_of(trial.last_result),
        "directory": trial.local_path,
    }
    scored = [(flatten(kept.metrics).get(metric), kept) for kept in trial.checkpoints]
    kept = best_of(((score, kept) for score, kept in scored if is_number(score)), mode)
    facts["best checkpoint"] = None if kept is None else _about_checkpoint(trial, kept, metric)
    if trial.checkpoints and trial.checkpoints[-1] is not kept:
        facts["last checkpoint"] = _about_checkpoint(trial, trial.checkpoints[-1], metric)
    return facts


def _iteration_of(trial: Trial, metric: str, value: float | None) -> Any:
    """The iteration in which a trial has reported this value first; None if that is not on record."""
    if _last(trial, metric) == value:
        return trial.last_result.get(TRAINING_ITERATION)
    from minitune.analysis.experiment_analysis import trial_rows

    rows = trial_rows(trial.local_path)
    return next((row.get(TRAINING_ITERATION) for row in rows if row.get(metric) == value), None)


def _about_checkpoint(trial: Trial, kept: KeptCheckpoint, metric: str | None, *, is_short: bool = False) -> _Said:
    path, iteration = os.path.join(trial.local_path, kept.record.directory), kept.metrics.get(TRAINING_ITERATION)
    value = flatten(kept.metrics).get(metric) if metric else None
    told = [f"iteration {iteration}", *([f"{metric}={_short(value)}"] if value is not None else [])]
    told.append(f"{kept.record.total_bytes:,} bytes")
    data = {"path": path, "iteration": iteration, "value": value, "bytes": kept.record.total_bytes}
    return _Said(data, f"{kept.record.directory if is_short else path} ({', '.join(told)})")


def _as_data(decision: TrialDecision) -> dict[str, Any]:
    facts = {"action": decision.action, "iteration": decision.iteration, "reason": decision.reason}
    return {**facts, "facts": dict(decision.facts)}


def _named(trial: Trial) -> str:
    return f"{trial.number} ({trial.trial_id})"


def _last(trial: Trial, metric: str) -> Any:
    return flatten({key: value for key, value in trial.last_result.items() if key != CONFIG}).get(metric)


def _short(value: Any) -> str:
    return short_repr(value, rounds=True)


# -- telling -----------------------------------------------------------------------------------------------------------


def _tell(facts: Facts, as_json: bool) -> None:
    if as_json:
        print(json_text.dumps_pretty({name.replace(" ", "_"): _data(value) for name, value in facts.items()}))
        return
    for name, value in facts.items():
        for line in _lines(name, value):
            print(line)


def _data(value: Any) -> Any:
    return [_data(part) for part in value] if isinstance(value, list) else value.data if type(value) is _Said else value


def _text(value: Any) -> str:
    return value.text if type(value) is _Said else value if isinstance(value, str) else _short(value)


def _lines(name: str, value: Any) -> Iterator[str]:
    """Format a fact: on one line if it is a plain value, else with each part on a separate line below its name."""
    if value is None or value in ("", [], {}):
        return
    if isinstance(value, Mapping):
        parts = [f"{key}: {_short(part)}" for key, part in flatten(value).items()]
    elif isinstance(value, list):
        parts = [_text(part) for part in value]
    else:
        yield f"{name:<{_WIDTH}} {_text(value)}"
        return
    yield name
    for part in parts:
        yield f"  {part}"
