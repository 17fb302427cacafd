"""`minitune show`, `best` and `report`: show a run or one of its trials, and write the page of runs into a file.

A run may be live or killed. Nothing of it is unpickled.
"""

from __future__ import annotations

import argparse
import os
import shlex
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from minitune.base import json_text
from minitune.base.table import short_repr
from minitune.base.text import counted, duration, echo, number_text
from minitune.commands import Commands, set_command
from minitune.commands.selecting import (
    RUN_HELP,
    TRIAL_HELP,
    NotFoundError,
    add_objective,
    add_run,
    existing_run,
    find_trial,
    run_and_trial,
)
from minitune.commands.telling import Verbatim, add_json, print_json, tell
from minitune.experiment.goal import SCOPES, Goal, why_no_best
from minitune.experiment.states import FAILED
from minitune.experiment.trial import Trial
from minitune.record.decisions import Decisions
from minitune.record.layout import LAST
from minitune.record.standing import Standing, read_standing
from minitune.record.story import Story
from minitune.result import flatten
from minitune.trainable.command_line import argument_of
from minitune.view.facts import best_facts, identity_of, last_decisions, trial_facts, whole_run_facts

BEST = "best"
"""The name of the best trial of a run in place of its number."""
_ERRORS_SHOWN = 5


def add_parser(commands: Commands) -> None:
    """Add the parsers of these commands."""
    parser = commands.add_parser(
        "show",
        description="Show a run: its best trial, what matters, what went wrong, and how to go on. Or show one of its "
        "trials in full.",
        epilog="The exit status is 1 if there is no such run or trial, else 0.",
    )
    add_run(parser, "; or a trial's directory")
    parser.add_argument("trial", nargs="?", help=f"{TRIAL_HELP}; or `best`")
    parser.add_argument("--why", action="store_true", help="of a run: also the last decision about each trial")
    _add_choices(parser)
    set_command(parser, show, "minitune show valley --why", "minitune show valley 3")
    parser = commands.add_parser(
        BEST,
        description="Show the best trial of a run: the one that `ResultGrid.get_best_result` returns. It is the short "
        "form of `minitune show RUN best`.",
        epilog="The exit status is 1 if there is no such run, or no trial has the metric, else 0.",
    )
    add_run(parser)
    _add_choices(parser)
    set_command(parser, show, "minitune best valley", "minitune best valley --config json", trial=BEST, why=False)
    parser = commands.add_parser(
        "report",
        description="Write a report of a run, or of several side by side: one HTML file with plots and a table of "
        "trials, which needs no network.",
        epilog="The exit status is 1 if there is no such run or the file cannot be written, else 0.",
    )
    parser.add_argument("runs", nargs="*", metavar="RUN", help=f"{RUN_HELP} (default: {LAST})")
    parser.add_argument("-o", "--output", metavar="FILE", default="report.html", help="default: report.html")
    add_objective(parser)
    set_command(parser, report, "minitune report valley", "minitune report valley hills --output both.html")


def _add_choices(parser: argparse.ArgumentParser) -> None:
    add_objective(parser)
    parser.add_argument(
        "--scope",
        choices=SCOPES,
        help="the value by which trials are compared: the last, the best (all) or an average (default: the last; if a "
        "scheduler has stopped trials, the mean of the last three, for those with a third of the most reports or more)",
    )
    shown = parser.add_mutually_exclusive_group()
    add_json(shown)
    shown.add_argument(
        "--config",
        choices=("json", "args"),
        help="only the configuration of the trial, in this form; args: the options of a command line",
    )


# -- show, best --------------------------------------------------------------------------------------------------------
def show(options: argparse.Namespace) -> int:
    """Run `minitune show` and `minitune best`."""
    path, wanted = run_and_trial(options.run, options.trial)
    if wanted is None and options.config is not None:
        raise argparse.ArgumentError(None, "--config is for a trial: name one, such as `best`")
    if wanted is not None and options.why:
        raise argparse.ArgumentError(None, "--why is for a run: all decisions about a trial are shown anyway")
    decisions = Decisions()
    run, state = read_standing(path, decisions if wanted is not None or options.why else None)
    goal = run.setup.goal
    if wanted == BEST or options.metric is not None or options.mode is not None:
        goal = Goal(*goal.require_one(options.metric, options.mode, run.path, run.trials))
        run.setup = replace(run.setup, goal=goal)
    if wanted is None:
        facts = whole_run_facts(run, state, goal, options.scope)
        if options.why:
            facts["decisions"] = last_decisions(run, decisions)
        texts = _run_texts(facts)
    elif wanted == BEST:
        best = best_facts(run, state, goal, options.scope)
        if best is None:
            raise NotFoundError(f"{why_no_best(run.trials, str(goal.metric))} ({run.path})")
        facts, texts = _of_trial(run, state, find_trial(run.trials, best["trial_id"]), decisions)
        facts |= best
        texts = {**_best_texts(facts), **texts, **_checkpoint_texts(facts)}
    else:
        facts, texts = _of_trial(run, state, find_trial(run.trials, wanted), decisions)
    if options.json:
        print_json(facts)
    elif options.config is not None:
        config = facts["config"]
        echo(json_text.dumps_pretty(config) if options.config == "json" else _command_line(config))
    else:
        tell(texts)
    return 0


def _of_trial(run: Story, state: Standing, trial: Trial, decisions: Decisions) -> tuple[dict[str, Any], dict[str, Any]]:
    of_trial = trial_facts(run, trial, decisions.by_trial.get(trial.trial_id, []))
    facts = {**identity_of(run, state), "state_text": state.text, **of_trial}
    return facts, _trial_texts(facts)


def _command_line(config: Mapping[str, Any]) -> str:
    """A configuration as the options of a command line. A parameter within a dict is one such as `--optimizer.lr`."""
    words = []
    for name, value in flatten(config, delimiter=".").items():
        words += [f"--{name}", argument_of(value)]
    return shlex.join(words)


# -- texts -------------------------------------------------------------------------------------------------------------
def _run_texts(facts: Mapping[str, Any]) -> dict[str, Any]:
    """What people get of `whole_run_facts`."""
    best = facts["best"]
    counts = [f"{count} {word.replace('_', ' ')}" for word, count in facts["counts"].items() if count]
    rest = None if facts["rest_s"] is None else f"about {duration(facts['rest_s'])}"
    front = None
    if isinstance(facts["metric"], list):
        front = ", ".join(str(trial["trial"]) for trial in facts["front"]) or "none yet"
    errors = []
    for group in facts["errors"][:_ERRORS_SHOWN]:
        more = f" and {group['count'] - 1} more" if group["count"] > 1 else ""
        errors += [f"trial {group['trials'][0]}{more}: {group['error']}", Verbatim(f"  {group['rerun']}")]
    if len(facts["errors"]) > _ERRORS_SHOWN:
        errors.append(f"and {len(facts['errors']) - _ERRORS_SHOWN} more kinds")
    return {
        "run": facts["run"],
        "state": facts["state_text"],
        "trainable": facts["trainable"],
        "optimised": str(Goal.of(facts["metric"], facts["mode"])),
        "seed": facts["seed"],
        "versions": ", ".join(f"{name} {version}" for name, version in facts["versions"].items()),
        "begun": facts["begun"],
        "last updated": facts["last_updated"],
        "rest": rest,
        "trials": ", ".join(counts) or "none yet",
        "best": best and f"trial {_titled(best)}: {best['text']}{' (failed)' if best['status'] == FAILED else ''}",
        "expected": best and best["expected"] and best["expected"]["text"],
        "front": front,
        "what matters": [f"{each['share']:4.0%} {each['parameter']}" for each in facts["importances"] if each["share"]],
        "why": [_why(one) for one in facts.get("decisions", ())],
        "errors": errors,
        "to go on": [Verbatim(f"{command}  ({what})") for what, command in facts["commands"].items()],
    }


def _titled(facts: Mapping[str, Any]) -> str:
    return f"{facts['trial']} ({facts['trial_id']})"


def _why(one: Mapping[str, Any]) -> str:
    """The last decision about a trial, with its status if the decision does not say it."""
    status = "" if one["status"] in one["text"] else f"{one['status']} "
    return f"trial {one['trial']} {status}{one['text']}"


def _trial_texts(facts: Mapping[str, Any]) -> dict[str, Any]:
    """What people get of `trial_facts`."""
    status = facts["ended"]
    if facts["attempt"] > 1:
        status += f", attempt {facts['attempt']}"
    if facts["failures"] > 1:
        status += f", {facts['failures']} failures"
    return {
        "trial": _titled(facts),
        "name": facts["trial_name"],
        "status": status,
        "repeats": facts["repeats"],
        "run": f"{facts['run']}: {facts['state_text']}",
        "directory": facts["directory"],
        "config": facts["config"],
        "command": facts["command"] and shlex.join(facts["command"]),
        "resources": facts["resources"],
        "seed": facts["seed"],
        "iteration": facts["iteration"],
        "seconds": _number(facts["time_total_s"]),
        "metrics": facts["metrics"],
        "checkpoints": [_checkpoint_text(one, facts["directory"]) for one in facts["checkpoints"]],
        "decisions": [one["text"] for one in facts["decisions"]],
        "error": [Verbatim(line) for line in (facts["error"] or "").splitlines()],
    }


def _number(value: Any) -> str | None:
    return None if value is None else short_repr(value)


def _best_texts(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Why this trial is the best one, and what is to be expected of it."""
    begun = facts["total_trials"] - facts["counts"]["pending"]
    scope = f", scope {facts['scope']}" if facts["scope"] else ""
    return {
        "value": facts["text"],
        "chosen by": f"{facts['mode']} of {facts['metric']}{scope}, of {counted(begun, 'trial')}",
        "confirmed": [f"trial {each['trial']}: {number_text(each['mean'])}" for each in facts["confirmed"]],
        "expected": facts["expected"] and facts["expected"]["text"],
    }


def _checkpoint_texts(facts: Mapping[str, Any]) -> dict[str, Any]:
    best = facts["best_checkpoint"]
    last = facts["last_checkpoint"]
    return {
        "best checkpoint": best and _checkpoint_text(best, None),
        "last checkpoint": last and last != best and _checkpoint_text(last, None),
    }


def _checkpoint_text(one: Mapping[str, Any], directory: str | None) -> str:
    """A checkpoint; its path is that within the directory of its trial if that stands above."""
    path = one["path"] if directory is None else os.path.relpath(one["path"], directory)
    value = "" if one["value"] is None else f"value {short_repr(one['value'])}, "
    return f"{path} (iteration {one['iteration']}, {value}{one['bytes']:,} bytes)"


# -- report ------------------------------------------------------------------------------------------------------------
def report(options: argparse.Namespace) -> int:
    """Run `minitune report`."""
    from minitune.visualization.page import write_report

    runs = [existing_run(name) for name in options.runs or [LAST]]
    echo(write_report(runs, options.output, metric=options.metric, mode=options.mode))
    return 0
