"""`minitune report` and `importance`: write a run into one HTML file, and show which of its parameters matter.

Both need the extra `report`, which is imported when a command runs. The run may be live or killed. The commands
unpickle nothing.
"""

from __future__ import annotations

import argparse

from minitune.base import json_text
from minitune.commands import Commands
from minitune.commands.selecting import LAST, RUN_HELP, add_objective, add_run, existing_run


def add_parser(commands: Commands) -> None:
    """Add the parsers of these commands."""
    parser = commands.add_parser(
        "report",
        description="Write a report of a run, or of several side by side: one HTML file with plots and a table of "
        "trials, which needs no network.",
        epilog='Needs the extra `report`: pip install "minitune[report]". The exit status is 1 if there is no such run '
        "or the file cannot be written, else 0.",
    )
    parser.add_argument("runs", nargs="*", metavar="RUN", help=f"{RUN_HELP} (default: {LAST})")
    parser.add_argument("-o", "--output", metavar="FILE", default="report.html", help="default: report.html")
    add_objective(parser)
    parser.set_defaults(command=report)
    parser = commands.add_parser(
        "importance",
        description="Show how much each parameter of a run matters for its objective, and how reliable that is.",
        epilog='Needs the extra `report`: pip install "minitune[report]". The exit status is 1 if there is no such run '
        "or too few trials, else 0.",
    )
    add_run(parser)
    parser.add_argument("--json", action="store_true", help="one JSON object")
    add_objective(parser)
    parser.set_defaults(command=importance)


def report(options: argparse.Namespace) -> int:
    """Run `minitune report`."""
    from minitune.visualization.page import write_report

    runs = [existing_run(name) for name in options.runs or [LAST]]
    print(write_report(runs, options.output, metric=options.metric, mode=options.mode))
    return 0


def importance(options: argparse.Namespace) -> int:
    """Run `minitune importance`."""
    from minitune.visualization.importances import get_param_importances

    found = get_param_importances(existing_run(options.run), metric=options.metric, mode=options.mode)
    if options.json:
        facts = {"importances": found.mean, "std": found.std, "r2": found.r2, "trials": found.num_trials}
        print(json_text.dumps({**facts, "confidence": found.confidence}))
    else:
        print(found)
    return 0
