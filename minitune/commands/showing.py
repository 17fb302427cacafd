"""`minitune show` and `minitune best`: all that is known of a run or of one trial of it; and its best trial."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from minitune._table import metrics_of, short_repr
from minitune.commands.selecting import (
    CANNOT,
    ERRORS,
    FINISHED_RUN,
    LAST,
    RUN_HELP,
    TRIAL_HELP,
    NotFoundError,
    RunState,
    existing_run,
    find_trial,
    read_standing,
    run_and_trial,
)
from minitune.execution.decisions import TrialDecision, read_decisions
from minitune.execution.read_run import RecordedRun
from minitune.execution.storage import last_error_text
from minitune.experiment.best import SCOPES, best_of, best_trial, is_number, why_no_best
from minitune.experiment.lifecycle import ERROR
from minitune.experiment.trial import KeptCheckpoint, Trial
from minitune.logger import strict_json
from minitune.result import CONFIG, TIME_TOTAL_S, TRAINING_ITERATION, flatten

_WIDTH = 15
_ERRORS_SHOWN = 5

Facts = dict[str, Any]
"""What is told, by its name: plain values, dicts of them, lists of lines, and what is said otherwise to people."""


@dataclass(frozen=True)
class _Said:
    """A fact that is said otherwise to people.

    Attributes:
        data: For programs.
        text: For people.
    """

    data: Any
    text: str


def show(arguments: list[str], prog: str) -> int:
    """Run `minitune show`.

    Args:
        arguments: What follows its name.
        prog: Its name, for the help.

    Returns:
        The exit status: 1 if there is no such run or trial.
    """
    parser = argparse.ArgumentParser(
        prog=prog,
        description="Show a run, or all about one of its trials.",
        epilog="The exit status is 1 if there is no such run or trial, else 0.",
    )
    parser.add_argument("run", nargs="?", default=LAST, help=f"{RUN_HELP} (default: {LAST}); or a trial's directory")
    parser.add_argument("trial", nargs="?", help=TRIAL_HELP)
    parser.add_argument("--json", action="store_true", help="one JSON object")
    options = parser.parse_args(arguments)
    try:
        directory, wanted = run_and_trial(options.run, options.trial)
        run, state = read_standing(directory)
        trial = None if wanted is None else find_trial(run.trials, wanted)
        facts = _about_run(run, state) if trial is None else _about_trial(run, state, trial)
    except ERRORS as error:
        print(error, file=sys.stderr)
        return CANNOT
    _tell(facts, options.json)
    return 0


def best(arguments: list[str], prog: str) -> int:
    """Run `minitune best`; see `show`. The exit status is 1 also if no trial has the metric."""
    parser = argparse.ArgumentParser(
        prog=prog,
        description="Show the best trial of a run, as `ResultGrid.get_best_result` would choose it.",
        epilog="The exit status is 1 if there is no such run, or no trial has the metric, else 0.",
    )
    parser.add_argument("run", nargs="?", default=LAST, help=f"{RUN_HELP} (default: {LAST})")
    parser.add_argument("--metric", help="what counts (default: as in the run)")
    parser.add_argument("--mode", choices=("min", "max"), help="default: as in the run")
    parser.add_argument(
        "--scope", choices=SCOPES, default="last", help="which value of a trial counts (default: last; all: best ever)"
    )
    parser.add_argument("--json", action="store_true", help="one JSON object")
    options = parser.parse_args(arguments)
    try:
        run, state = read_standing(existing_run(options.run))
        metric, mode = options.metric or run.metric, options.mode or run.mode
        if metric is None or mode is None:
            raise ValueError(f"{run.path} does not say what is best; pass --metric and --mode")
        facts = _about_best(run, state, metric, mode, options.scope)
    except ERRORS as error:
        print(error, file=sys.stderr)
        return CANNOT
    _tell(facts, options.json)
    return 0


# -- facts -------------------------------------------------------------------------------------------------------------


def _about_run(run: RecordedRun, state: RunState) -> Facts:
    counts = Counter(trial.status for trial in run.trials)
    facts: Facts = {
        "run": run.path,
        "state": _Said(state.name, state.text),
        "trainable": run.trainable_name,
        "optimised": f"{run.metric} ({run.mode})" if run.metric else None,
        "seed": run.seed,
        "versions": _Said(run.versions, ", ".join(f"{name} {version}" for name, version in run.versions.items())),
        "begun": _date(run.begun_s),
        "last updated": _date(run.updated_s),
        "trials": _Said(counts, ", ".join(f"{n} {status}" for status, n in sorted(counts.items())) or "none yet"),
    }
    found = best_trial(run.trials, run.metric, run.mode) if run.metric and run.mode else None
    if found is not None and run.metric:
        facts["best"] = _Said(found.trial_id, f"trial {_named(found)}: {run.metric}={_short(_last(found, run.metric))}")
    failed = [trial for trial in run.trials if trial.status == ERROR]
    if failed:
        lines = [f"trial {_named(trial)}: {_summary(trial)}" for trial in failed[:_ERRORS_SHOWN]]
        more = len(failed) - _ERRORS_SHOWN
        facts["errors"] = [*lines, *([f"and {more} more"] if more > 0 else [])]
    return facts


def _about_trial(run: RecordedRun, state: RunState, trial: Trial) -> Facts:
    decisions = read_decisions(run.path).by_trial.get(trial.trial_id, [])
    facts: Facts = {
        "trial": _Said(trial.trial_id, _named(trial)),
        "name": trial.name,
        "status": _Said(trial.status, trial.status + _attempts(trial)),
        "run": _Said(run.path, f"{run.path}: {state.text}"),
        "directory": trial.local_path,
        "config": trial.config,
        "resources": {**trial.resources.required_resources},
        "seed": trial.seed,
        "iteration": trial.last_result.get(TRAINING_ITERATION),
        "seconds": trial.last_result.get(TIME_TOTAL_S),
        "metrics": metrics_of(trial.last_result),
        "checkpoints": [_about_checkpoint(trial, kept, run.metric, is_short=True) for kept in trial.checkpoints],
        "decisions": [_Said(_as_data(decision), str(decision)) for decision in decisions],
    }
    text = last_error_text(trial.local_path) if trial.num_failures else ""
    if text or trial.error is not None:
        facts["error"] = (text or str(trial.error)).splitlines()
    return facts


def _about_best(run: RecordedRun, state: RunState, metric: str, mode: str, scope: str) -> Facts:
    """The best trial, its value, and the step and checkpoint that the value belongs to.

    Raises:
        NotFoundError: If no trial has a finite value of the metric.
    """
    trial = best_trial(run.trials, metric, mode, scope)
    if trial is None:
        raise NotFoundError(f"{why_no_best(run.trials, metric)} ({run.path})")
    value = trial.analysis.get(metric, mode if scope == "all" else scope)
    so_far = "" if state.name == FINISHED_RUN else f" so far (the run {state.said})"
    facts: Facts = {
        "value": _Said(value, f"{metric}={_short(value)}"),
        "chosen by": _Said(
            {"metric": metric, "mode": mode, "scope": scope, "trials": len(run.trials), "run": state.name},
            f"{mode} of {metric}, scope {scope}, of {len(run.trials)} trials{so_far}",
        ),
        "trial": _Said(trial.trial_id, _named(trial)),
        "status": trial.status,
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
    """The iteration in which a trial has reported this value first; None if its files do not tell."""
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


def _attempts(trial: Trial) -> str:
    told = f", attempt {trial.attempt}" if trial.attempt > 1 else ""
    return f"{told}, {trial.num_failures} failures" if trial.num_failures > 1 else told


def _summary(trial: Trial) -> str:
    return getattr(trial.error, "summary", lambda: str(trial.error))()


def _last(trial: Trial, metric: str) -> Any:
    return flatten({key: value for key, value in trial.last_result.items() if key != CONFIG}).get(metric)


def _date(at_s: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(at_s)) if at_s else ""


def _short(value: Any) -> str:
    return short_repr(value, rounds=True)


# -- telling -----------------------------------------------------------------------------------------------------------


def _tell(facts: Facts, as_json: bool) -> None:
    if as_json:
        print(strict_json.dumps_pretty({name.replace(" ", "_"): _data(value) for name, value in facts.items()}))
        return
    for name, value in facts.items():
        for line in _lines(name, value):
            print(line)


def _data(value: Any) -> Any:
    return [_data(part) for part in value] if isinstance(value, list) else value.data if type(value) is _Said else value


def _text(value: Any) -> str:
    return value.text if type(value) is _Said else value if isinstance(value, str) else _short(value)


def _lines(name: str, value: Any) -> Iterator[str]:
    """A fact for people: on one line if it is a plain value, else each part on a line of its own, under its name."""
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
