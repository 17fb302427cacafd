"""`minitune explain`: why each trial of a run went the way it went, in sentences."""

from __future__ import annotations

import argparse
import json
import sys

from minitune.commands.selecting import LAST, RUN_HELP, TRIAL_HELP, existing_run, find_trial, read_standing
from minitune.error import TuneError
from minitune.execution.decisions import TrialDecision, read_decisions
from minitune.experiment.lifecycle import ERROR, TERMINATED
from minitune.experiment.trial import Trial


def main(arguments: list[str], prog: str) -> int:
    """Run the command.

    Args:
        arguments: What follows its name.
        prog: Its name, for the help.

    Returns:
        The exit status: 1 if there is no such run or trial.
    """
    parser = argparse.ArgumentParser(
        prog=prog, description="Tell why each trial of a run was stopped, paused, promoted or replaced."
    )
    parser.add_argument("run", nargs="?", default=LAST, help=f"{RUN_HELP} (default: {LAST})")
    parser.add_argument("trial", nargs="?", help=f"{TRIAL_HELP}: tell all about this one")
    parser.add_argument("--json", action="store_true", help="one JSON object for each decision, with its facts")
    options = parser.parse_args(arguments)
    try:
        path = existing_run(options.run)
        (run, _), decisions = read_standing(path), read_decisions(path)
        trials = run.trials if options.trial is None else [find_trial(run.trials, options.trial)]
    except (FileNotFoundError, LookupError, TuneError) as error:
        print(error.args[0] if error.args else error, file=sys.stderr)
        return 1
    tell = _print_json if options.json else _print_trial if options.trial is not None else _print_line
    for trial in trials:
        tell(trial, decisions.by_trial.get(trial.trial_id, []))
    return 0


def _print_line(trial: Trial, decisions: list[TrialDecision]) -> None:
    """What became of a trial, and what was decided last."""
    print(f"{trial.trial_id} {trial.status} {decisions[-1] if decisions else 'nothing was decided'}")


def _print_trial(trial: Trial, decisions: list[TrialDecision]) -> None:
    """All that was decided about a trial."""
    print(f"{trial.trial_id} {trial.status} {trial.experiment_tag}")
    for decision in decisions:
        print(f"  {decision}")
    if not decisions:
        print("  nothing was decided" + ("" if trial.status in (TERMINATED, ERROR) else " so far"))


def _print_json(trial: Trial, decisions: list[TrialDecision]) -> None:
    """The same for scripts."""
    for one in decisions:
        fields = {"iteration": one.iteration, "action": one.action, "reason": one.reason, "facts": dict(one.facts)}
        print(json.dumps({"trial": trial.trial_id, **fields}, default=str))
