"""A run and a trial as plain data: what terminals, the page and `--json` show of them, each in its own form.

The keys are those of `--json`, which the manual lists. An unknown value is None.
"""

from __future__ import annotations

import contextlib
import json
import os
import shlex
from collections.abc import Sequence
from typing import Any

from minitune.base.text import date
from minitune.experiment import states
from minitune.experiment.goal import Best, Goal, best_checkpoint, confirmations, statistic_of
from minitune.experiment.lifecycle import ERROR
from minitune.experiment.trial import KeptCheckpoint, Trial
from minitune.record.decisions import Decisions, TrialDecision
from minitune.record.layout import last_error_text
from minitune.record.standing import FINISHED_RUN, RUNNING_RUN, STOPPED_RUN, Standing
from minitune.record.story import Story
from minitune.result import EXPR_COMMAND_FILE, TIME_TOTAL_S, TRAINING_ITERATION
from minitune.space.tree import value_at_text
from minitune.view.best import best_of
from minitune.view.importances import importances_of
from minitune.view.pace import times_of
from minitune.view.rows import ended, last_line, parameter_names, shown_metric, shown_metrics
from minitune.view.summary import error_groups, rerun_command

KEYS = {word: word.replace(" ", "_") for word in states.STATES}
"""The key for each state of a trial."""
CONTINUE = "continue the run"
"""The purpose of the command that continues an unfinished run."""
_FEWEST_FOR_IMPORTANCES = 10
"""With fewer trials, chance decides which parameters seem to matter."""


# -- a run -------------------------------------------------------------------------------------------------------------
def identity_of(run: Story, state: Standing) -> dict[str, Any]:
    """The facts by which programs know a run."""
    metric, mode = run.setup.goal.given
    return {
        "run": run.path,
        "name": os.path.basename(run.path),
        "state": state.name,
        "metric": metric,
        "mode": mode,
        "total_trials": len(run.trials) + run.not_drawn,
        "counts": counts_by_key(run, state),
    }


def counts_by_key(run: Story, state: Standing) -> dict[str, int]:
    """The trials of a run by state, all states. The keys are names of columns, too."""
    counts = state.counts(run)
    return {key: counts[word] for word, key in KEYS.items()}


def run_facts(run: Story, state: Standing, goal: Goal, scope: str | None = None) -> dict[str, Any]:
    """A run: its state, its best trial by this goal, what went wrong, and how to go on; see `best_facts`."""
    worked_s, rest_s = times_of(run, state)
    last = run.driver.ending
    metric, mode = goal.given
    return {
        **identity_of(run, state),
        "metric": metric,
        "mode": mode,
        "state_text": state.text,
        "ending": last and {"kind": last.kind.value, "text": last.text},
        "trainable": run.setup.trainable_name,
        "seed": run.setup.seed,
        "versions": run.setup.versions,
        "begun": date(run.setup.begun_s),
        "last_updated": date(run.updated_s),
        "worked_s": worked_s,
        "rest_s": rest_s,
        "best": best_facts(run, state, goal, scope),
        "front": [identity_of_trial(trial) for trial in goal.front(run.trials)] if goal.objectives else [],
        "errors": [facts_of_errors(alike) for alike in error_groups(run.trials)],
        "commands": run_commands(run, state),
    }


def whole_run_facts(run: Story, state: Standing, goal: Goal, scope: str = "last") -> dict[str, Any]:
    """The same with how much each parameter matters, the most important one first; with few trials, that is empty."""
    shares: dict[str, float] = {}
    if goal.metric and sum(trial.progress.num_reports > 0 for trial in run.trials) >= _FEWEST_FOR_IMPORTANCES:
        with contextlib.suppress(ValueError):
            shares = importances_of(run.trials, goal.metric, parameter_names(run.trials))
    importances = [{"parameter": name, "share": share} for name, share in shares.items()]
    return {**run_facts(run, state, goal, scope), "importances": importances}


def run_commands(run: Story, state: Standing) -> dict[str, str]:
    """The command lines by which one goes on with a run, by what they are for."""
    path = shlex.quote(run.path)
    if state.name == RUNNING_RUN:
        return {"watch the run": f"minitune watch {path}", "stop the run": f"minitune stop {path}"}
    found = {CONTINUE: f"minitune resume {path}"} if state.can_go_on else {}
    if any(trial.status == ERROR for trial in run.trials):
        found["continue failed trials, too"] = f"minitune resume {path} --errored"
    if state.name in (FINISHED_RUN, STOPPED_RUN):
        found["run more trials"] = f"minitune resume {path} --add-samples N"
    return found


def facts_of_errors(alike: Sequence[Trial]) -> dict[str, Any]:
    """One of `error_groups`."""
    return {
        "error": last_line(alike[0]),
        "count": len(alike),
        "trials": [trial.number for trial in alike],
        "rerun": rerun_command(alike[0]),
    }


def last_decisions(run: Story, decisions: Decisions) -> list[dict[str, Any]]:
    """The last decision about each trial: why it ended, or what it does now."""
    found = []
    for trial in run.trials:
        known = decisions.by_trial.get(trial.trial_id, [])
        last = decision_facts(known[-1]) if known else {"text": "nothing was decided"}
        found.append({**identity_of_trial(trial), "status": trial.state, **last})
    return found


# -- the best trial ----------------------------------------------------------------------------------------------------
def best_facts(run: Story, state: Standing, goal: Goal, scope: str | None = None) -> dict[str, Any] | None:
    """The best trial, its value, and, once the run has ended, what is to be expected of it; None if there is none.

    `scope` is one of `SCOPES`. Blocks for up to 0.2 s of CPU.
    """
    metric = goal.metric
    mode = goal.mode
    if not metric or not mode:
        return None
    best = best_of(run.trials, metric, mode, scope)
    if best is None:
        return None
    trial = best.trial
    # The best value may belong to a report without a checkpoint, or with one that was removed.
    kept = best_checkpoint(((kept.progress.metrics, kept) for kept in trial.checkpoints), metric, mode)
    return {
        **identity_of_trial(trial),
        "status": trial.state,
        "metric": metric,
        "mode": mode,
        "scope": scope or (None if best.least else "last"),
        "value": trial.progress.analysis.get(metric, statistic_of(scope, mode)),
        "mean": best.confirmed and best.confirmed.mean,
        "config": trial.reported_config,
        "text": str(best),
        "confirmed_text": best.confirmed and str(best.confirmed),
        "confirmed": [
            {**identity_of_trial(each.trial), "mean": each.mean, "values": each.values}
            for each in confirmations(run.trials, metric, mode, scope)
        ],
        "expected": None if state.name == RUNNING_RUN else _expected(run.trials, best, mode, scope),
        "best_checkpoint": kept and _checkpoint_facts(trial, kept, metric),
        "last_checkpoint": _checkpoint_facts(trial, trial.checkpoints[-1], metric) if trial.checkpoints else None,
    }


def _expected(trials: Sequence[Trial], best: Best, mode: str, scope: str | None) -> dict[str, Any] | None:
    """What to expect of the best trial if it were run again; None if it has failed, was run again, without noise,
    or with too few trials.
    """
    from minitune.search.estimate import estimates, is_exact

    if best.confirmed is not None or best.trial.status == ERROR:
        return None
    found = estimates(trials, best.metric, mode, scope)
    own = next((each for each in found if each.trial_id == best.trial.trial_id), None)
    if own is None or not own.is_noisy:
        return None
    is_known = is_exact(trials, best.metric, mode, scope) is not None
    return {
        "value": own.expected,
        "low": own.low,
        "high": own.high,
        "best_trial_id": found[0].trial_id,
        "text": str(own) if is_known else f"{own} if values are noisy: confirm=3 tells",
    }


# -- a trial -----------------------------------------------------------------------------------------------------------
def identity_of_trial(trial: Trial) -> dict[str, Any]:
    """The number and the id of a trial."""
    return {"trial": trial.number, "trial_id": trial.trial_id}


def trial_facts(run: Story, trial: Trial, decisions: Sequence[TrialDecision]) -> dict[str, Any]:
    """A trial in full. Blocks while its files are read."""
    goal = run.setup.goal
    error = last_error_text(trial.local_path) if trial.num_failures else ""
    if not error and trial.error is not None:
        error = str(trial.error)
    return {
        **identity_of_trial(trial),
        "trial_name": trial.name,
        "status": trial.state,
        "ended": ended(trial),
        "repeats": trial.repeats and trial.repeats.trial_id,
        "attempt": trial.attempt.number,
        "failures": trial.num_failures,
        "directory": trial.local_path if trial.has_started else None,
        "config": trial.reported_config,
        "command": _command_of(trial),
        "resources": {**trial.resources.required_resources},
        "seed": trial.seed,
        "iteration": shown_metric(trial, TRAINING_ITERATION),
        "time_total_s": shown_metric(trial, TIME_TOTAL_S),
        "metrics": shown_metrics(trial, goal),
        "checkpoints": [_checkpoint_facts(trial, kept, goal.metric) for kept in trial.checkpoints],
        "decisions": [decision_facts(decision) for decision in decisions],
        "error": error or None,
    }


def decision_facts(decision: TrialDecision) -> dict[str, Any]:
    """A decision about a trial."""
    return {
        "iteration": decision.iteration,
        "action": decision.action,
        "reason": decision.reason,
        "kind": decision.kind and decision.kind.value,
        "facts": {**decision.facts},
        "text": str(decision),
    }


def _checkpoint_facts(trial: Trial, kept: KeptCheckpoint, metric: str | None) -> dict[str, Any]:
    return {
        "path": os.path.join(trial.local_path, kept.record.directory),
        "iteration": kept.progress.metrics.get(TRAINING_ITERATION),
        "value": metric and value_at_text(kept.progress.metrics, metric),
        "bytes": kept.record.total_bytes,
    }


def _command_of(trial: Trial) -> list[str] | None:
    """The words of the command line of a trial of `minitune run`; None for any other trial."""
    try:
        with open(os.path.join(trial.local_path, EXPR_COMMAND_FILE), "rb") as file:
            return list(map(str, json.load(file)))
    except (OSError, ValueError, TypeError):
        return None
