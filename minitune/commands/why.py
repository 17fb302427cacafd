"""`minitune explain`, `report` and `importance`: understand the result of a run.

`report` writes runs into one HTML file. `importance` shows which parameters of a run matter.

A run may be live or killed. Nothing of it is unpickled.
"""

from __future__ import annotations

import argparse

from minitune.base.text import echo
from minitune.commands import Commands, set_command
from minitune.commands.about import decision_data, identity_of, identity_of_trial
from minitune.commands.facts import add_json, print_json
from minitune.commands.selecting import (
    RUN_HELP,
    TRIAL_HELP,
    add_objective,
    add_run,
    existing_run,
    find_trial,
)
from minitune.record.decisions import Decisions
from minitune.record.layout import LAST
from minitune.record.standing import read_standing


def add_parser(commands: Commands) -> None:
    """Add the parsers of these commands."""
    parser = commands.add_parser(
        "explain", description="Show why each trial of a run was stopped, paused, promoted or replaced."
    )
    add_run(parser)
    parser.add_argument("trial", nargs="?", help=f"{TRIAL_HELP}: show all decisions about this trial")
    add_json(parser)
    set_command(parser, explain, "minitune explain valley", "minitune explain valley 3")
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
    parser = commands.add_parser(
        "importance",
        description="Show how much each parameter of a run alone matters for its objective.",
        epilog="The exit status is 1 if there is no such run or too few trials, else 0.",
    )
    add_run(parser)
    add_objective(parser)
    add_json(parser)
    set_command(
        parser, importance, "minitune importance valley", "minitune importance valley --metric accuracy --mode max"
    )


# -- explain -----------------------------------------------------------------------------------------------------------
def explain(options: argparse.Namespace) -> int:
    """Run `minitune explain`."""
    known = Decisions()
    run, state = read_standing(existing_run(options.run), known)
    trials = run.trials
    if options.trial is not None:
        trials = [find_trial(run.trials, options.trial)]
    if options.json:
        decisions = [
            {**identity_of_trial(trial), "status": trial.state, **decision_data(one)}
            for trial in trials
            for one in known.by_trial.get(trial.trial_id, [])
        ]
        print_json({**identity_of(run, state), "decisions": decisions})
        return 0
    for trial in trials:
        texts = [str(one) for one in known.by_trial.get(trial.trial_id, [])]
        if not texts and trial.is_finished():
            texts = ["nothing was decided"]
        elif not texts:
            texts = ["nothing was decided so far"]
        if options.trial is None:
            word = "" if trial.state in texts[-1] else f"{trial.state} "
            echo(f"{trial.trial_id} {word}{texts[-1]}")
        else:
            echo(f"{trial.trial_id} {trial.state} {trial.experiment_tag}")
            for text in texts:
                echo(f"  {text}")
    return 0


# -- report, importance ------------------------------------------------------------------------------------------------
def report(options: argparse.Namespace) -> int:
    """Run `minitune report`."""
    from minitune.visualization.page import write_report

    runs = [existing_run(name) for name in options.runs or [LAST]]
    echo(write_report(runs, options.output, metric=options.metric, mode=options.mode))
    return 0


def importance(options: argparse.Namespace) -> int:
    """Run `minitune importance`."""
    from minitune.visualization.history import RunHistory
    from minitune.visualization.importances import get_param_importances

    history = RunHistory(existing_run(options.run), options.metric, options.mode)
    found = get_param_importances(history)
    if options.json:
        shares = [{"parameter": name, "share": share} for name, share in found.shares.items()]
        print_json(
            {
                "run": history.path,
                "metric": history.metric,
                "mode": history.mode,
                "trials": found.num_trials,
                "importances": shares,
            }
        )
    else:
        echo(found)
    return 0
