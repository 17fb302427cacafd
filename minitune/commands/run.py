"""`minitune run`: tune a program. Its options make a `Tuner`, and everything else is what any run does."""

from __future__ import annotations

import argparse
import logging
import os
import re
import shlex
import shutil
from typing import TYPE_CHECKING, Any, Literal

from minitune.base.text import echo
from minitune.commands import Commands, behind_dashes, set_command
from minitune.commands.selecting import count_from, seconds
from minitune.commands.sweep import SweepFile, is_sweep_file, read_sweep
from minitune.commands.telling import add_json
from minitune.result import TIME_TOTAL_S
from minitune.stopper import DictStopper

if TYPE_CHECKING:
    from minitune.schedulers import TrialScheduler
    from minitune.trainable.command_line import CommandLine

logger = logging.getLogger("minitune")

_DRY = 3
"""The number of command lines that `--dry-run` prints."""
_BLIND = ("random", "variant_generator")
"""The searchers that need no metric."""
_ASHA = "asha"
_SCHEDULERS = (_ASHA, "hyperband")


def add_parser(commands: Commands) -> None:
    """Add the parser of `minitune run`."""
    parser = commands.add_parser(
        "run",
        usage="minitune run [options] -- PROGRAM ARGUMENTS\n       minitune run [options] SWEEP.yaml",
        description="Tune a program. A parameter stands where its value goes: --lr '{lr: loguniform(1e-4, 1e-1)}'. "
        'The program reports with lines on its standard output, such as {"loss": 0.3} or `report loss=0.3`.',
        epilog="The exit status is 0 if all trials have finished, 3 if some have failed, 4 if the run was interrupted, "
        "or if a time budget ended it before all trials had started. `minitune help programs` has more.",
    )
    parser.add_argument("sweep", nargs="?", metavar="SWEEP.yaml", help="a sweep file")
    parser.add_argument("--metric", help="the metric to optimise")
    parser.add_argument("--mode", choices=("min", "max"), help="whether a small or a large value is good")
    parser.add_argument("--num-samples", type=int, metavar="N", help="trials for each point of the grid; -1: no end")
    parser.add_argument("--search", metavar="NAME", help="the searcher, such as tpe (default: random and grid search)")
    parser.add_argument("--scheduler", choices=_SCHEDULERS, help="stops bad trials early")
    parser.add_argument("--max-t", type=count_from(1), metavar="N", help="of a scheduler: reports of a whole trial")
    parser.add_argument("--grace", type=count_from(1), metavar="N", help="asha: reports before a trial may stop")
    parser.add_argument(
        "--time-budget", type=seconds, metavar="S", help="the time after which the run ends, in seconds or such as 10m"
    )
    parser.add_argument("--cpus", type=float, metavar="N", help="CPUs of a trial (default: 1)")
    parser.add_argument("--gpus", type=float, metavar="N", help="GPUs of a trial, such as 0.5 (default: 0)")
    parser.add_argument("--concurrent", type=count_from(1), metavar="N", help="trials at a time, at most")
    parser.add_argument("--name", help="the name of the run (default: that of the program, and the date)")
    parser.add_argument("--storage", metavar="DIR", help="the directory for runs")
    parser.add_argument("--timeout", type=seconds, metavar="S", help="time for an attempt of a trial, such as 90s")
    parser.add_argument("--retries", type=count_from(0), default=0, metavar="N", help="attempts after a failure")
    parser.add_argument(
        "--confirm", type=count_from(0), default=0, metavar="N", help="at the end, run the three best N more times each"
    )
    parser.add_argument("--seed", type=int, help="the seed of the run")
    parser.add_argument("--pattern", metavar="REGEX", help="lines that match are reports; named groups are the metrics")
    parser.add_argument("--dry-run", action="store_true", help="print three command lines, and run nothing")
    add_json(parser)
    set_command(
        parser,
        run,
        "minitune run --metric loss --mode min --num-samples 20 -- python train.py --lr '{lr: loguniform(1e-4, 1e-1)}'",
        "minitune run --time-budget 10m sweep.yaml",
        own_begins=behind_dashes,
    )


def run(options: argparse.Namespace) -> int:
    """Run `minitune run`. Blocks until the run has ended."""
    sweep = _sweep(options)
    if sweep.command is None:
        command, space = _own_command(options)
    else:
        command = sweep.command
        space = sweep.parameters
    _check_pattern(options.pattern)
    if options.dry_run:
        _show_commands(command, space, options, sweep)
        return 0
    _check_program(command)
    if not space:
        logger.warning(
            "the command has no parameter, so all trials are equal: write one where its value goes, such as "
            "--lr '{lr: loguniform(1e-4, 1e-1)}'"
        )
    return _fit(command, space, options, sweep)


def _own_command(options: argparse.Namespace) -> tuple[CommandLine, dict[str, Any]]:
    """The command behind `--`, and its search space."""
    from minitune.trainable.command_line import read_command

    try:
        return read_command(options.own)
    except ValueError as error:
        raise argparse.ArgumentError(None, str(error)) from None


def _sweep(options: argparse.Namespace) -> SweepFile:
    """The sweep file, or an empty sweep for a command."""
    if options.sweep is None:
        return SweepFile()
    if not is_sweep_file(options.sweep):
        rule = f"a sweep file ends in .yaml or .yml, but got {options.sweep!r}; a command goes behind --"
        raise argparse.ArgumentError(None, rule)
    if options.own:
        raise argparse.ArgumentError(None, f"the command is in {options.sweep}, so none can follow --")
    sweep = read_sweep(options.sweep, options.num_samples)
    if sweep.ignored:
        logger.warning("%s: ignored, as they mean nothing here: %s", options.sweep, ", ".join(sweep.ignored))
    if sweep.num_samples is None and options.time_budget is None:
        raise ValueError(
            f"{options.sweep}: a sweep without run_cap has no end; add run_cap, or pass --num-samples N or "
            "--time-budget S"
        )
    if sweep.metric is None and options.metric is None:
        for key, needs_metric in (("method bayes", sweep.search), ("early_terminate", sweep.stops_early)):
            if needs_metric is not None:
                raise ValueError(f"{options.sweep}: {key} needs metric; add it, or pass --metric and --mode")
    return sweep


def _goal(options: argparse.Namespace, sweep: SweepFile) -> tuple[str | None, Literal["min", "max"] | None]:
    """The metric and its mode."""
    from minitune.trainable.printed import own_name

    metric = options.metric or sweep.metric
    mode: Literal["min", "max"] | None = options.mode
    if mode is None and metric == sweep.metric:
        mode = sweep.mode
    # Without a mode, a searcher would not know whether a small loss is good.
    if (metric is None) != (mode is None):
        raise argparse.ArgumentError(None, f"--metric and --mode go together, but got {metric} and {mode}")
    if metric is not None and own_name(metric) != metric and metric != TIME_TOTAL_S:
        own = own_name(metric)
        rule = f"{metric} is a key of minitune's own; a program's metric with this name is called {own}: write {own}"
        raise argparse.ArgumentError(None, rule)
    for chosen in (_searcher(options, sweep), options.scheduler):
        if metric is None and chosen is not None and chosen not in _BLIND:
            raise argparse.ArgumentError(None, f"{chosen} needs --metric and --mode")
    return metric, mode


def _check_pattern(pattern: str | None) -> None:
    if pattern is None:
        return
    try:
        names = re.compile(pattern).groupindex
    except re.error as error:
        raise argparse.ArgumentError(None, f"--pattern is no regular expression: {error}: {pattern!r}") from None
    if not names:
        rule = f"--pattern needs named groups, such as 'loss: (?P<loss>[0-9.]+)', but got {pattern!r}"
        raise argparse.ArgumentError(None, rule)


def _check_program(command: CommandLine) -> None:
    """Refuse a program that does not exist before the run begins."""
    word = command.words[0]
    program = word[0] if len(word) == 1 else None  # a word with a parameter in it is known only when a trial starts
    if not isinstance(program, str) or shutil.which(program):
        return
    if os.path.isfile(program):
        raise PermissionError(f"{program} is not executable: put its interpreter before it, such as python")
    raise FileNotFoundError(f"there is no program {program!r}, neither as a path nor in PATH")


def _searcher(options: argparse.Namespace, sweep: SweepFile) -> str | None:
    return sweep.search if options.search is None else str(options.search)


def _show_commands(command: CommandLine, space: dict[str, Any], options: argparse.Namespace, sweep: SweepFile) -> None:
    """Print the command lines of three trials."""
    from minitune import Study

    metric, mode = _goal(options, sweep)
    # With a seed, a study draws the configurations of the run, without any process or file.
    study = Study(
        space,
        searcher=_searcher(options, sweep),
        metric=metric or "metric",
        mode=mode or "min",
        seed=options.seed,
        num_samples=_DRY,
    )
    for number in range(_DRY):
        config = study.ask()
        if config is None:
            return
        echo(shlex.join(command.filled(config, f"TRIAL_DIR_{number}", f"SEED_{number}")))


def _scheduler(options: argparse.Namespace, sweep: SweepFile) -> TrialScheduler | None:
    from minitune import create_scheduler

    name = options.scheduler
    arguments: dict[str, Any] = {}
    if name is None and sweep.stops_early is not None:
        name = _ASHA
        arguments.update(sweep.stops_early)
    # An option without an effect would let the user believe in a limit that is not there.
    for option, argument, value, owners in (
        ("--max-t", "max_t", options.max_t, _SCHEDULERS),
        ("--grace", "grace_period", options.grace, (_ASHA,)),
    ):
        if value is not None and name not in owners:
            raise argparse.ArgumentError(None, f"{option} is for --scheduler {', '.join(owners)}, but got {name}")
        if value is not None:
            arguments[argument] = value
    return None if name is None else create_scheduler(name, **arguments)


def _fit(command: CommandLine, space: dict[str, Any], options: argparse.Namespace, sweep: SweepFile) -> int:
    """Run the trials, and return the exit status. Blocks."""
    from minitune import CheckpointConfig, FailureConfig, RunConfig, TuneConfig, Tuner, with_resources
    from minitune.commands.again import fit_to_the_end
    from minitune.trainable.program import Program

    metric, mode = _goal(options, sweep)
    num_samples = sweep.num_samples
    if options.num_samples is not None:
        num_samples = options.num_samples
    if num_samples is None:
        num_samples = 1 if options.sweep is None else -1  # a sweep runs until its time is up
    target = None
    if sweep.target is not None:
        target = _Target(str(sweep.metric), sweep.mode, sweep.target)
    # A checkpoint may be large, and only the last one (and the best one) is of any use to a program.
    kept = CheckpointConfig(num_to_keep=1, checkpoint_score_attribute=metric, checkpoint_score_order=mode or "max")
    program: Any = Program(command, os.getcwd(), options.pattern)
    if options.cpus is not None or options.gpus is not None:
        cpus = 1 if options.cpus is None else options.cpus
        program = with_resources(program, {"cpu": cpus, "gpu": options.gpus or 0})
    tuner = Tuner(
        program,
        param_space=space,
        tune_config=TuneConfig(
            metric=metric,
            mode=mode,
            num_samples=num_samples,
            search_alg=_searcher(options, sweep),
            scheduler=_scheduler(options, sweep),
            time_budget_s=options.time_budget,
            max_concurrent_trials=options.concurrent,
            trial_timeout_s=options.timeout,
            seed=options.seed,
            confirm=options.confirm,
        ),
        run_config=RunConfig(
            name=options.name or sweep.name,
            storage_path=options.storage,
            stop=target,
            verbose=0 if options.json else None,
            failure_config=FailureConfig(options.retries),
            checkpoint_config=kept,
        ),
    )
    status = fit_to_the_end(tuner, as_json=options.json)
    if target is not None and target.is_reached and not options.json:
        echo(f"The run has ended because {target.describe()}.")
    return status


class _Target(DictStopper):
    """Ends the run when the metric of any trial has reached a value."""

    _is_goal = True

    def __init__(self, metric: str, mode: str | None, value: float):
        super().__init__({metric: ("<=" if mode == "min" else ">=", value)})
        self.is_reached = False

    def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
        self.is_reached = super().__call__(trial_id, result) or self.is_reached
        return self.is_reached

    def stop_all(self) -> bool:
        return self.is_reached

    def seconds_left(self) -> None:
        """See `Stopper.seconds_left`. None, because only a result can change the answer."""
