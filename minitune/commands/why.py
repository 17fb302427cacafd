"""`minitune explain`, `replay`, `report` and `importance`: understand the result of a run.

`replay` simulates a scheduler on the learning curves of the run and compares it with FIFO on the same curves. Only the
recorded part of a cut curve is known. At its end, the replay treats the trial as ended, so its numbers are too low, and
the output says so.

`report` writes runs into one HTML file. `importance` shows which parameters of a run matter.

A run may be live or killed. Nothing of it is unpickled.
"""

from __future__ import annotations

import argparse
import inspect
import json
from typing import Any

from minitune.base.checks import did_you_mean
from minitune.base.numbers import finite_number
from minitune.base.text import counted, echo, number_text
from minitune.commands import Commands, set_command
from minitune.commands.about import decision_data, identity_of, identity_of_trial
from minitune.commands.facts import Facts, add_json, print_json
from minitune.commands.selecting import (
    RUN_HELP,
    TRIAL_HELP,
    add_objective,
    add_run,
    count_from,
    existing_run,
    find_trial,
)
from minitune.experiment.endings import EndKind
from minitune.experiment.goal import Goal
from minitune.record.decisions import Decisions
from minitune.record.layout import LAST
from minitune.record.past_run import PastRun
from minitune.record.standing import read_standing
from minitune.result import TRAINING_ITERATION, flatten, own_metrics
from minitune.schedulers import create_scheduler
from minitune.schedulers.trial_scheduler import TrialScheduler
from minitune.simulation import CURVE, Improvement, Simulation, simulate
from minitune.tune_config import TuneConfig


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
        "replay",
        description="Show how many iterations another scheduler would have used on the curves of a past run, and what "
        "it would have found.",
    )
    add_run(parser)
    parser.add_argument(
        "--scheduler", default="asha", help="name of the scheduler, as for create_scheduler (default: asha)"
    )
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="an argument of the scheduler; VALUE is JSON. By default, max_t is the longest curve",
    )
    parser.add_argument(
        "--workers", type=count_from(1), metavar="N", help="trials that run at the same time (default: as in the run)"
    )
    add_objective(parser)
    parser.add_argument("--seed", type=int, default=0, help="seed of the scheduler (default: 0)")
    add_json(parser)
    set_command(
        parser, replay, "minitune replay valley", "minitune replay valley --scheduler asha --set grace_period=2"
    )
    parser = commands.add_parser(
        "report",
        description="Write a report of a run, or of several side by side: one HTML file with plots and a table of "
        "trials, which needs no network.",
        epilog="A model of the importances of parameters needs scikit-learn: pip install scikit-learn; the exit status "
        "is 1 if there is no such run or the file cannot be written, else 0.",
    )
    parser.add_argument("runs", nargs="*", metavar="RUN", help=f"{RUN_HELP} (default: {LAST})")
    parser.add_argument("-o", "--output", metavar="FILE", default="report.html", help="default: report.html")
    add_objective(parser)
    set_command(parser, report, "minitune report valley", "minitune report valley hills --output both.html")
    parser = commands.add_parser(
        "importance",
        description="Show how much each parameter of a run matters for its objective, and how reliable that is.",
        epilog="Without scikit-learn (pip install scikit-learn), each parameter is looked at alone. The exit status is "
        "1 if there is no such run or too few trials, else 0.",
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


# -- replay ------------------------------------------------------------------------------------------------------------
def replay(options: argparse.Namespace) -> int:
    """Run `minitune replay`."""
    run = PastRun.read(existing_run(options.run))
    known = dict.fromkeys(name for curve in run.curves.values() for metrics, _ in curve for name in flatten(metrics))
    metric = options.metric or run.metric
    if metric is not None and metric not in known:
        names = list(own_metrics(known))
        raise ValueError(
            f"no result of {run.path} has the metric {metric!r}{did_you_mean(metric, names)}; reported were: "
            f"{', '.join(names)}"
        )
    metric, mode = Goal(run.metric, run.mode).require_one(metric, options.mode, run.path)
    if options.workers is None:
        options.workers = run.num_workers
    try:
        scheduler = _make_scheduler(options, run)
    except (TypeError, ValueError) as error:
        raise argparse.ArgumentError(None, f"--scheduler {options.scheduler}: {error}") from None
    fifo = _replayed(run, metric, mode, None, options)
    other = _replayed(run, metric, mode, scheduler, options)
    if options.json:
        print_json(_saved(run, metric, mode, fifo, other, options))
        return 0
    _print_run(run, metric, mode, fifo)
    _print_savings(run, fifo, other, options.scheduler, options.workers)
    return 0


def _make_scheduler(options: argparse.Namespace, run: PastRun) -> TrialScheduler:
    """Make the scheduler of the options.

    Raises:
        ValueError: If no scheduler has this name, it has no such argument, or an argument is invalid.
    """
    kind = type(create_scheduler(options.scheduler))
    known = inspect.signature(kind).parameters
    arguments = dict(_assignment(text) for text in options.set)
    if "time_attr" in known:
        # The recorded run may have no other time in all its reports.
        arguments.setdefault("time_attr", TRAINING_ITERATION)
    if "max_t" in known:
        reported = (metrics.get(arguments["time_attr"]) for curve in run.curves.values() for metrics, _ in curve)
        times = map(finite_number, reported)
        # The recorded run is all that is known, so a schedule beyond its longest curve would say nothing.
        longest = max((time for time in times if time is not None), default=0)
        arguments.setdefault("max_t", longest)
    unknown = sorted(set(arguments) - set(known))
    if unknown:
        raise ValueError(f"{kind.__name__} does not take {', '.join(unknown)}; it takes {', '.join(known) or 'none'}")
    return create_scheduler(options.scheduler, **arguments)


def _assignment(text: str) -> tuple[str, Any]:
    name, sign, value = text.partition("=")
    if not sign:
        raise ValueError(f"--set takes NAME=VALUE, but got {text!r}")
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value


def _replayed(
    run: PastRun, metric: str, mode: str, scheduler: TrialScheduler | None, options: argparse.Namespace
) -> Simulation:
    config = TuneConfig(metric=metric, mode="max" if mode == "max" else "min", scheduler=scheduler)
    return simulate(run, tune_config=config, num_workers=options.workers, seed=options.seed)


def _saved(
    run: PastRun, metric: str, mode: str, fifo: Simulation, other: Simulation, options: argparse.Namespace
) -> Facts:
    """What the scheduler would have used and found, for programs."""
    best, found = _best(fifo), _best(other)
    return {
        "run": run.path,
        "metric": metric,
        "mode": mode,
        "scheduler": options.scheduler,
        "workers": options.workers,
        "trials": len(run.curves),
        "cut trials": len(run.cut),
        "results": {"used": other.num_steps, "all": fifo.num_steps},
        "training s": {"used": other.training_s, "all": fifo.training_s},
        "time s": {"used": other.makespan_s, "all": fifo.makespan_s, "run": run.took_s},
        "found": found and {"value": found.value, "results": found.num_results},
        "best": best and {"value": best.value, "results": best.num_results},
    }


def _print_run(run: PastRun, metric: str, mode: str, fifo: Simulation) -> None:
    echo(
        f"{run.path}: {len(run.curves)} trials, {run.num_results} results, {run.training_s:.3g} s of training; the "
        f"best report has {metric}={_text(_best(fifo))} ({mode})"
    )
    if run.cut:
        echo(
            f"{len(run.cut)} of its {len(run.curves)} curves are cut: those trials were stopped, paused or "
            "interrupted, or they failed. The run does not show how they would have continued."
        )


def _print_savings(run: PastRun, fifo: Simulation, other: Simulation, scheduler: str, workers: int) -> None:
    used = other.num_steps
    all_steps = fifo.num_steps
    echo(f"{scheduler} on {counted(workers, 'worker')} would have used")
    echo(f"  results   {used} of {all_steps} ({used / all_steps:.0%} of the run's)")
    training = f"{other.training_s:.3g} s of {fifo.training_s:.3g} s"
    if fifo.training_s:
        training += f" ({other.training_s / fifo.training_s:.0%})"
    echo(f"  training  {training}")
    instead = f"{run.took_s:.3g} s, which the run took"  # it can be compared if it had as many workers
    if workers != run.num_workers:
        instead = f"{fifo.makespan_s:.3g} s (the run took {run.took_s:.3g} s on {counted(run.num_workers, 'worker')})"
    echo(f"  time      {other.makespan_s:.3g} s instead of {instead}")
    found = _best(other)
    best = _best(fifo)
    text = f"and found {other.metric} {_text(found)}"
    if found is not None and best is not None:
        text += ", the best" if found.value == best.value else ", not the best"
    if found is not None:
        text += f", after {counted(found.num_results, 'result')} ({found.num_results / all_steps:.0%} of all)"
    echo(text)
    # A replayed trial returns where its recorded curve ends. For a curve that was cut, that is not its real end.
    returned = [int(entry.trial_id.rpartition("_")[2]) for entry in other.log if entry.kind is EndKind.RETURNED]
    ends = sum(other.results[number].config[CURVE] in run.cut for number in returned)
    if ends:
        echo(
            f"The replay reached the end of {ends} of the cut curves, and ended those trials there. The scheduler may "
            "have used more, and found something better."
        )


def _best(simulation: Simulation) -> Improvement | None:
    return next(reversed(simulation.improvements()), None)


def _text(best: Improvement | None) -> str:
    if best is None:
        return "nothing"
    return number_text(best.value)


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
    from minitune.visualization.importances import get_param_importances, rank_importances, without_model_text

    history = RunHistory(existing_run(options.run), options.metric, options.mode)
    has_model = True
    try:
        found = get_param_importances(history)
    except ImportError:
        has_model = False
        found = rank_importances(history)
    if options.json:
        print_json(
            {
                "run": history.path,
                "metric": history.metric,
                "mode": history.mode,
                "trials": found.num_trials,
                "r2": found.r2 if has_model else None,
                "importances": [
                    {"parameter": name, "mean": mean, "std": found.std[name] if has_model else None}
                    for name, mean in found.mean.items()
                ],
            }
        )
        return 0
    if has_model:
        echo(found)
        return 0
    width = max(map(len, found.mean))
    for name, mean in found.mean.items():
        echo(f"{name:<{width}}  {mean:6.3f}")
    echo(without_model_text(found))
    return 0
