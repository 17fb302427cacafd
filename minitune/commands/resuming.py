"""`minitune resume`: go on with a run, from its script or by itself."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence

from minitune.commands.selecting import (
    CANNOT,
    ENDED_EARLY,
    ERRORS,
    RUNNING,
    TRIALS_FAILED,
    command_line,
    existing_run,
    state_of_run,
)
from minitune.execution.read_run import RecordedRun, read_run
from minitune.execution.storage import RunDirectory
from minitune.experiment.lifecycle import ERROR, TERMINATED

_BY_SCRIPT = "go on by the script that it comes from: minitune resume {}"
_STAY = "stay as they are (--errored and --restart-errored are for them)"


def main(arguments: list[str], prog: str) -> int:
    """Run the command.

    Args:
        arguments: What follows its name.
        prog: Its name, for the help.

    Returns:
        The exit status: 0 if all trials have ended well, 1 if it cannot go on, 3 if some have failed, 4 if it was
        interrupted; of a script its own.
    """
    parser = _parser(prog)
    target = parser.parse_known_args(arguments)[0].target
    try:
        if target.endswith(".py"):
            end = arguments.index(target) + 1
            own = arguments[end + 1 :] if arguments[end : end + 1] == ["--"] else arguments[end:]
            return _run_script(parser.parse_args(arguments[:end]), own)
        split = arguments.index("--") if "--" in arguments else len(arguments)
        options = parser.parse_args(arguments[:split])
        with command_line(arguments[split + 1 :]):
            return _resume_run(existing_run(target), options)
    except ERRORS as error:
        print(error, file=sys.stderr)
        return CANNOT


def _parser(prog: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=prog,
        description="Go on with a run that was interrupted or killed. With a script, and what follows it as its own "
        "arguments: it is run, and its fit() and run() go on with their newest unfinished runs. With a run: its "
        "trainable is taken as the run has kept it; what follows -- is the command line (sys.argv) that it sees.",
        epilog="The exit status is 0 if all trials have ended well, 1 if it cannot go on, 3 if some have failed, 4 if "
        "it was interrupted again; of a script its own.",
    )
    parser.add_argument("target", metavar="SCRIPT.py|RUN", help="the script, or the run's directory or name")
    parser.add_argument("--run", metavar="DIR", help="with a script: the run that is meant")
    parser.add_argument("--errored", action="store_true", help="with a run: go on with failed trials, too")
    parser.add_argument("--restart-errored", action="store_true", help="with a run: begin failed trials anew")
    parser.add_argument("--add-samples", type=int, default=0, metavar="N", help="with a run: N samples more")
    return parser


def _run_script(options: argparse.Namespace, arguments: Sequence[str]) -> int:
    """Run the script in place of this process, set to go on; where that is not possible, wait for it.

    Raises:
        OSError: If there is no such script.
        ValueError: If an option makes no sense with a script.
    """
    if not os.path.isfile(options.target):
        raise FileNotFoundError(f"there is no script {options.target}")
    if options.errored or options.restart_errored or options.add_samples:
        raise ValueError("--errored, --restart-errored and --add-samples are for runs: pass the run's directory")
    env = {**os.environ, "MINITUNE_RESUME": existing_run(options.run) if options.run else "1"}
    command = [sys.executable, options.target, *arguments]
    sys.stdout.flush()
    if sys.platform != "win32":  # there the shell would take the replaced process as ended
        os.execve(sys.executable, command, env)
    return subprocess.call(command, env=env)


def _resume_run(path: str, options: argparse.Namespace) -> int:
    """Go on with a run by what it has kept.

    Raises:
        TuneError: If it cannot go on, or is at work.
        UntrustedStateError: If somebody else may have written what is to be loaded.
    """
    from minitune._trainable_file import load_trainable
    from minitune.tuner import Tuner

    run = read_run(path)
    state = state_of_run(run)
    if state.name == RUNNING:
        raise ValueError(f"{path} is {state.text}; `minitune watch {path}` shows it")
    if any(trial.experiment_number for trial in run.trials):
        raise ValueError(
            f"{path} consists of several experiments; go on with it by its script: minitune resume SCRIPT.py"
        )
    tuner = Tuner.restore(
        path,
        load_trainable(RunDirectory(path), way_out=_BY_SCRIPT),
        resume_errored=options.errored,
        restart_errored=options.restart_errored,
        add_samples=options.add_samples,
    )
    _tell_plan(run, state.name, options)
    grid = tuner.fit()
    if grid.interrupted:
        return ENDED_EARLY
    return TRIALS_FAILED if grid.num_errors else 0


def _tell_plan(run: RecordedRun, state: str, options: argparse.Namespace) -> None:
    """Say what will become of the trials that there are."""
    counts = Counter(trial.status for trial in run.trials)
    left = [trial for trial in run.trials if trial.status not in (TERMINATED, ERROR)]
    anew = sum(trial.report_count > 0 and not trial.checkpoints for trial in left)
    again = "go on" if options.errored else "begin anew" if options.restart_errored else _STAY
    parts = [f"{counts[TERMINATED]} have ended", f"{len(left)} go on"]
    parts[-1] += f" ({anew} of them from the beginning: they have no checkpoint)" if anew else ""
    parts += [f"{counts[ERROR]} have failed and {again}"] if counts[ERROR] else []
    parts += [f"{options.add_samples} samples more"] if options.add_samples else []
    print(f"{run.path}: {state}; of its {len(run.trials)} trials {', '.join(parts)}", flush=True)
