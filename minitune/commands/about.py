"""The facts of a run, of a trial, and of the best trial, for the commands that show them; see `facts`."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Sequence
from typing import Any

from minitune.base.files import open_to_read
from minitune.base.table import short_repr
from minitune.base.text import date, duration, mebibytes, number_text
from minitune.commands.facts import ABSENT, Facts, Said, data_of
from minitune.commands.selecting import NotFoundError
from minitune.experiment import states
from minitune.experiment.goal import (
    Best,
    best_checkpoint,
    best_trial,
    confirmations,
    earlier_best,
    statistic_of,
    why_no_best,
)
from minitune.experiment.trial import KeptCheckpoint, Trial
from minitune.output.comparison import ComparedRun
from minitune.output.pace import times_of
from minitune.output.rows import ended, last_line, row_of, shown_metrics, titled
from minitune.output.summary import earlier_best_text, error_groups, facts_of_errors, rerun_command
from minitune.record.decisions import TrialDecision
from minitune.record.layout import last_error_text
from minitune.record.standing import FINISHED_RUN, Standing
from minitune.record.story import Story
from minitune.result import EXPR_COMMAND_FILE, TIME_TOTAL_S, TRAINING_ITERATION
from minitune.space.tree import value_at_text

_ERRORS_SHOWN = 5


# -- a run -------------------------------------------------------------------------------------------------------------
def identity_of(run: Story, state: Standing) -> Facts:
    """The facts by which programs know a run."""
    metric, mode = run.setup.goal.given
    return {
        "run": Said(run.path),
        "name": Said(os.path.basename(run.path)),
        "state": Said(state.name),
        "metric": Said(metric),
        "mode": Said(mode),
        "total trials": Said(len(run.trials) + run.not_drawn),
        "counts": Said(counts_by_key(run, state)),
    }


def counts_by_key(run: Story, state: Standing) -> dict[str, int]:
    """The trials of a run by state, all states. The keys are names of columns, too."""
    counts = state.counts(run)
    return {key_of(word): counts[word] for word in states.STATES}


def key_of(word: str) -> str:
    """The key or the column for a state."""
    return word.replace(" ", "_")


def about_run(run: Story, state: Standing) -> Facts:
    """A run: its state, the counts of its trials, the best one, the errors by kind, and how long it will take."""
    goal = run.setup.goal
    times = times_of(run, state)
    last = run.driver.ending
    shown = [f"{count} {word}" for word, count in state.counts(run).items()]
    facts: Facts = {
        **identity_of(run, state),
        "run": run.path,
        "state": Said(state.name, state.text),
        "ending": Said(last and {"kind": last.kind.value, "text": last.text}),
        "trainable": run.setup.trainable_name,
        "optimised": Said(ABSENT, str(goal)),
        "seed": run.setup.seed,
        "versions": Said(
            run.setup.versions, ", ".join(f"{name} {version}" for name, version in run.setup.versions.items())
        ),
        "begun": date(run.setup.begun_s),
        "last updated": date(run.updated_s),
        "worked s": Said(times.worked_s),
        "rest s": Said(times.rest_s),
        "rest": Said(ABSENT, ABSENT if times.rest_s is None else f"about {duration(times.rest_s)}"),
        "trials": Said(ABSENT, ", ".join(shown) or "none yet"),
        "best": Said(None),
        "earlier best": None,
        "front": Said([]),
    }
    if goal.metric and goal.mode and (found := Best.of(run.trials, goal.metric, goal.mode)):
        best = found.trial
        facts["best"] = Said(best_data(found, goal.mode), f"trial {titled(best)}: {found}")
        facts["earlier best"] = about_earlier_best(run.trials, best, goal.metric, goal.mode)
    if goal.objectives:
        front = goal.front(run.trials)
        numbers = ", ".join(str(trial.number) for trial in front)
        facts["front"] = Said([identity_of_trial(trial) for trial in front], numbers or "none yet")
    groups = error_groups(run.trials)
    lines = [line for alike in groups[:_ERRORS_SHOWN] for line in _error_lines(alike)]
    if len(groups) > _ERRORS_SHOWN:
        lines.append(f"and {len(groups) - _ERRORS_SHOWN} more kinds")
    facts["errors"] = Said([facts_of_errors(alike) for alike in groups], lines)
    return facts


def _error_lines(alike: Sequence[Trial]) -> list[str]:
    first = alike[0]
    more = f" and {len(alike) - 1} more" if len(alike) > 1 else ""
    return [f"trial {titled(first)}{more}: {last_line(first)}", f"  {rerun_command(first)}"]


def compared_data(facts: ComparedRun, mode: str) -> dict[str, Any]:
    """A run beside others, for programs: its counts, what it took, and its best trial."""
    run = facts.run
    best = facts.best
    return data_of(
        {
            **identity_of(run, facts.state),
            "trainable": run.setup.trainable_name,
            "begun": facts.begun,
            "reports": facts.reports,
            "training_s": facts.training_s,
            "best": best and best_data(best, mode),
            "earlier best": best and about_earlier_best(run.trials, best.trial, facts.metric, mode),
        }
    )


# -- a trial -----------------------------------------------------------------------------------------------------------
def about_trial(run: Story, state: Standing, trial: Trial, decisions: Sequence[TrialDecision]) -> Facts:
    """A trial in full."""
    row = row_of(trial, (TRAINING_ITERATION, TIME_TOTAL_S))
    status = row.ended
    if trial.attempt.number > 1:
        status += f", attempt {trial.attempt.number}"
    if trial.num_failures > 1:
        status += f", {trial.num_failures} failures"
    seconds = row.metrics.get(TIME_TOTAL_S)
    usage = trial.usage
    error = last_error_text(trial.local_path) if trial.num_failures else ""
    if not error and trial.error is not None:
        error = str(trial.error)
    return {
        "trial": Said(trial.number, titled(trial)),
        "trial_id": Said(trial.trial_id),
        "trial_name": Said(row.name),
        "name": Said(ABSENT, row.name),
        "status": Said(row.state, status),
        "repeats": row.repeats,
        "attempt": Said(trial.attempt.number),
        "failures": Said(trial.num_failures),
        "run": Said(run.path, f"{run.path}: {state.text}"),
        "state": Said(state.name),
        "directory": trial.local_path if trial.has_started else None,
        "config": trial.reported_config,
        "command": _command_of(trial),
        "resources": {**trial.resources.required_resources},
        "seed": trial.seed,
        "iteration": row.metrics.get(TRAINING_ITERATION),
        "time_total_s": Said(seconds),
        "seconds": Said(ABSENT, seconds),
        "cpu_s": None if usage is None else usage.cpu_s,
        "peak_bytes": None if usage is None else Said(usage.peak_bytes, mebibytes(usage.peak_bytes)),
        "metrics": shown_metrics(trial, run.setup.goal),
        "checkpoints": [
            _about_checkpoint(trial, kept, run.setup.goal.metric, is_short=True) for kept in trial.checkpoints
        ],
        "decisions": [Said(decision_data(decision), str(decision)) for decision in decisions],
        "error": Said(error or None, error.splitlines()),
    }


def identity_of_trial(trial: Trial) -> dict[str, Any]:
    """The number and the id of a trial, for programs."""
    return {"trial": trial.number, "trial_id": trial.trial_id}


def decision_data(decision: TrialDecision) -> dict[str, Any]:
    """A decision about a trial, for programs."""
    return {
        "iteration": decision.iteration,
        "action": decision.action,
        "reason": decision.reason,
        "kind": decision.kind and decision.kind.value,
        "facts": {**decision.facts},
    }


# -- the best trial ----------------------------------------------------------------------------------------------------
def require_best(run: Story, metric: str, mode: str, scope: str) -> Trial:
    """The best trial of a run.

    Raises:
        NotFoundError: If no trial has the metric.
    """
    trial = best_trial(run.trials, metric, mode, scope)
    if trial is None:
        raise NotFoundError(f"{why_no_best(run.trials, metric)} ({run.path})")
    return trial


def best_data(best: Best, mode: str) -> dict[str, Any]:
    """The best trial by last reports for programs, in brief."""
    trial = best.trial
    value = trial.progress.analysis.get(best.metric, "last")
    return {
        **identity_of_trial(trial),
        "status": trial.state,
        "metric": best.metric,
        "mode": mode,
        "value": value,
        "mean": best.confirmed and best.confirmed.mean,
        "iteration": _iteration_of(trial, best.metric, value),
        "config": trial.reported_config,
    }


def about_best(run: Story, state: Standing, metric: str, mode: str, scope: str) -> Facts:
    """The best trial, its value, and the iteration and checkpoint of the value."""
    trial = require_best(run, metric, mode, scope)
    value = trial.progress.analysis.get(metric, statistic_of(scope, mode))
    chosen = f"{mode} of {metric}, scope {scope}, of {len(run.trials)} trials"
    if state.name != FINISHED_RUN:
        chosen += f" so far (the run {state.said})"
    waiting = sum(trial.state == states.NOT_STARTED for trial in run.trials)
    if waiting:
        chosen += f", {waiting} of which were not started"
    facts: Facts = {
        **identity_of(run, state),
        "value": Said(value, f"{metric}={short_repr(value)}"),
        "chosen by": Said(ABSENT, chosen),
        "metric": Said(metric),
        "mode": Said(mode),
        "scope": Said(scope),
        "confirmed": _confirmed(run.trials, metric, mode, scope),
        "expected": _expected(run.trials, trial, metric, mode, scope),
        "earlier best": None,
        "trial": Said(trial.number, titled(trial)),
        "trial_id": Said(trial.trial_id),
        "status": Said(trial.state, ended(trial)),
        "iteration": None,
        "config": trial.reported_config,
        "command": _command_of(trial),
        "metrics": shown_metrics(trial, run.setup.goal),
        "directory": trial.local_path,
    }
    if scope in ("all", "last"):  # an average has no iteration
        facts["iteration"] = _iteration_of(trial, metric, value)
    if scope == "last":
        facts["earlier best"] = about_earlier_best(run.trials, trial, metric, mode)
    # The best value may belong to a report without a checkpoint, or with one that was removed.
    kept = best_checkpoint(((kept.progress.metrics, kept) for kept in trial.checkpoints), metric, mode)
    facts["best checkpoint"] = kept and _about_checkpoint(trial, kept, metric)
    last = trial.checkpoints[-1] if trial.checkpoints else None
    about_last = last and _about_checkpoint(trial, last, metric)
    facts["last checkpoint"] = Said(about_last.data) if about_last and last is kept else about_last
    return facts


def _confirmed(trials: Sequence[Trial], metric: str, mode: str, scope: str) -> Said | None:
    """The values of the best trial's repeats, and the other confirmed trials; None without repeats."""
    found = confirmations(trials, metric, mode, scope)
    if not found:
        return None
    data = [{**identity_of_trial(each.trial), "mean": each.mean, "values": each.values} for each in found]
    others = "".join(f"; {number_text(each.mean)} trial {each.trial.number}" for each in found[1:])
    return Said(data, f"{found[0]}{others}")


def _expected(trials: Sequence[Trial], best: Trial, metric: str, mode: str, scope: str) -> Said | None:
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
    data = {
        "value": own.expected,
        "low": own.low,
        "high": own.high,
        "best_trial_id": found[0].trial_id,
        "remark": remark,
    }
    return Said(data, f"{own}: {remark}" if remark else str(own))


def about_earlier_best(trials: Sequence[Trial], best: Trial, metric: str, mode: str) -> Said | None:
    """The trial that was better in an earlier report than the best one ever was; None if there is none."""
    trial = earlier_best(trials, best, metric, mode)
    if trial is None:
        return None
    value = trial.progress.analysis.get(metric, mode)
    iteration = _iteration_of(trial, metric, value)
    data = {**identity_of_trial(trial), "value": value, "iteration": iteration}
    return Said(data, earlier_best_text(trial, metric, mode, iteration))


def _iteration_of(trial: Trial, metric: str, value: float | None) -> Any:
    """The iteration in which a trial first reported this value; None if it is unknown."""
    if value_at_text(trial.progress.metrics, metric) == value:
        return trial.progress.metrics.get(TRAINING_ITERATION)
    from minitune.analysis.result_rows import result_rows

    # The last report is in memory. Earlier ones are read from the journal, which takes longer.
    rows = result_rows(trial.local_path)
    return next((row.get(TRAINING_ITERATION) for row in rows if row.get(metric) == value), None)


def _about_checkpoint(trial: Trial, kept: KeptCheckpoint, metric: str | None, *, is_short: bool = False) -> Said:
    path = os.path.join(trial.local_path, kept.record.directory)
    iteration = kept.progress.metrics.get(TRAINING_ITERATION)
    value = metric and value_at_text(kept.progress.metrics, metric)
    told = [f"iteration {iteration}"]
    if value is not None:
        told.append(f"{metric}={short_repr(value)}")
    told.append(f"{kept.record.total_bytes:,} bytes")
    shown_path = path
    if is_short:  # the trial's directory stands above
        shown_path = kept.record.directory
    data = {"path": path, "iteration": iteration, "value": value, "bytes": kept.record.total_bytes}
    return Said(data, f"{shown_path} ({', '.join(told)})")


def _command_of(trial: Trial) -> Said | None:
    """The command line of a trial of `minitune run`, to paste into a shell; None for any other trial."""
    try:
        with open_to_read(os.path.join(trial.local_path, EXPR_COMMAND_FILE)) as file:
            words = list(map(str, json.load(file)))
    except (OSError, ValueError, TypeError):
        return None
    return Said(words, shlex.join(words))
