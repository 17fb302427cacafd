"""`minitune rerun` and `minitune resume`: run one trial again, and resume a run.

`rerun` runs a trial in this process, in a separate directory, and does not change the run. The trainable runs on the
main thread, as in a worker, because debuggers, signal handlers and some libraries need it. So the code of the driver
runs on another thread.

`resume` takes a script or a run. It executes a script in this process, and `MINITUNE_RESUME` makes its `fit()` resume
an earlier run (see `minitune._resume`). It resumes a run in this process, with the trainable that the run has stored.
"""

from __future__ import annotations

import argparse
import contextlib
import faulthandler
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from types import TracebackType
from typing import Any

from minitune import runtime
from minitune.base.shared_values import SharedObject
from minitune.base.table import format_cell, short_repr
from minitune.commands import Commands, behind_dashes
from minitune.commands.selecting import (
    ENDED_EARLY,
    INTERRUPTED,
    RUN_HELP,
    TRIAL_HELP,
    TRIALS_FAILED,
    command_line,
    existing_run,
    exit_status,
    find_trial,
    run_and_trial,
)
from minitune.error import format_traceback, user_traceback
from minitune.execution.inline import MainThreadExecutor
from minitune.execution.ledger import Ledger
from minitune.execution.local import ORIG_WORKING_DIR
from minitune.execution.state import GRACE_S
from minitune.experiment.lifecycle import ERROR, NOT_STARTED, TERMINATED
from minitune.experiment.trial import HAS_RETURNED, Trial, TrialInfo
from minitune.output.table import metrics_of
from minitune.record.layout import RunDirectory
from minitune.record.lock import check_trusted
from minitune.record.run_files import load_trainable, plan_of_script
from minitune.record.standing import RUNNING, read_standing, state_of
from minitune.record.story import BEGINNING, Origin, Story, read_decisions, read_run
from minitune.resources import GPU, Allocation
from minitune.result import TRAINING_ITERATION, Report
from minitune.settings import is_on
from minitune.trainable.trial_actor import make_trial_actor

_BY_SCRIPT = "resume it with its script: minitune resume {}"
"""The way out where a run has not kept its trainable."""


def add_parser(commands: Commands) -> None:
    """Add the parsers of `minitune rerun` and `minitune resume`."""
    parser = commands.add_parser(
        "rerun",
        usage="minitune rerun [options] RUN [TRIAL] [-- ARGUMENTS]",
        description="Run one trial again in this process, so that breakpoint() and --pdb work. It gets the same "
        "configuration, seed and start checkpoint, and stops after as many reports. The run itself is not changed. "
        "The trial sees the arguments after -- as its command line (sys.argv).",
        epilog="The exit status is 0 if the trial did not fail this time, 3 if it did, 1 if it cannot be run again.",
    )
    parser.add_argument("run", help=f"{RUN_HELP}; or a trial's directory")
    parser.add_argument("trial", nargs="?", help=TRIAL_HELP)
    parser.add_argument("--pdb", action="store_true", help="open the debugger where the trial fails, or at Ctrl-C")
    parser.add_argument(
        "--script",
        metavar="FILE.py",
        help="take the trainable from this script, which runs up to its fit() (default: the copy in the run)",
    )
    parser.add_argument(
        "--from-scratch", action="store_true", help="start without the checkpoint that the trial started from"
    )
    parser.add_argument("--reports", type=int, metavar="N", help="stop after N reports (default: as many as before)")
    parser.add_argument("--keep", metavar="DIR", help="keep the files of the trial in DIR (default: delete them)")
    parser.set_defaults(command=rerun, own_begins=behind_dashes)
    parser = commands.add_parser(
        "resume",
        description="Continue a run that was interrupted or killed. Given a script: run it, with the arguments that "
        "follow it; its fit() and run() continue their newest unfinished runs. Given a run: continue it with the copy "
        "of the trainable that the run has stored; the trainable sees the arguments after -- as its command line "
        "(sys.argv).",
        epilog="The exit status of a script is its own. For a run it is 0 if all trials have finished, 1 if the run "
        "cannot be continued, 3 if trials have failed, 4 if the run was interrupted again.",
    )
    parser.add_argument("target", metavar="SCRIPT.py|RUN", help="the script, or the run's directory or name")
    parser.add_argument("--run", metavar="DIR", help="with a script: the run to continue")
    parser.add_argument(
        "--force", action="store_true", help="with a script: continue even if its search space has changed"
    )
    parser.add_argument(
        "--errored", action="store_true", help="with a run: also continue failed trials from their last checkpoints"
    )
    parser.add_argument(
        "--restart-errored", action="store_true", help="with a run: also start failed trials again from the beginning"
    )
    parser.add_argument("--add-samples", type=int, default=0, metavar="N", help="with a run: add N samples")

    def own_begins(arguments: list[str]) -> int:
        target = parser.parse_known_args(arguments)[0].target
        return arguments.index(target) + 1 if target.endswith(".py") else behind_dashes(arguments)

    parser.set_defaults(command=resume, own_begins=own_begins)


# -- rerun ---------------------------------------------------------------------------------------------------------
def rerun(options: argparse.Namespace) -> int:
    """Run `minitune rerun`. Blocks until the trial has ended; the exit status shows how."""
    path, wanted = run_and_trial(options.run, options.trial)
    check_trusted(path)
    run, _ = read_standing(path, unpickle=True)
    trial = find_trial(run.trials, wanted)
    origin = BEGINNING if options.from_scratch else _origin(run, trial)
    with command_line(options.own):
        trainable = _trainable(run, trial, options.script, options.own)
        if not faulthandler.is_enabled():
            faulthandler.enable(2, all_threads=False)  # a trial that has crashed may crash again
        with _scratch(options.keep) as directory:
            _tell_begin(run, trial, origin, directory if options.keep else None)
            limit = options.reports or _reports_to_make(run, trial, origin)
            again = _Rerun(SharedObject(trainable), run, trial, origin, limit, opens_debugger=options.pdb)
            again.run(directory)
            return _tell_end(trial, origin, again, opens_debugger=options.pdb)


def _reports_to_make(run: Story, trial: Trial, origin: Origin) -> int:
    """Return how many reports the trial has made since `origin`.

    If it has failed or returned, count one more, so that the repeated trial can do the same.
    """
    decisions = read_decisions(run.path).by_trial.get(trial.trial_id, [])
    had_own_end = trial.status == ERROR or bool(decisions and decisions[-1].reason == HAS_RETURNED)
    return max(1, trial.report_count - origin.report_number + had_own_end)


def _origin(run: Story, trial: Trial) -> Origin:
    """Where the trial starts: after a failure where its last attempt began, else at its own beginning.

    A trial that got the checkpoint of another one starts there: it has never run before that with its configuration.

    Raises:
        FileNotFoundError: If that checkpoint is gone.
    """
    starts = run.origins if trial.status == ERROR else run.grafts
    origin = starts.get(trial.trial_id, BEGINNING)
    if origin.path is not None and not os.path.isdir(origin.path):
        raise FileNotFoundError(
            f"the trial started from the checkpoint {origin.path}, which no longer exists; pass --from-scratch"
        )
    return origin


def _trainable(run: Story, trial: Trial, script: str | None, arguments: Sequence[str]) -> Any:
    """Return the trainable of a script with these arguments; without a script, return the one that the run has kept.

    Raises:
        TuneError: If it is not there.
        UntrustedStateError: If another user may have written the kept one.
    """
    if script is None:
        return load_trainable(RunDirectory(run.path), trial.experiment_number)
    plan = plan_of_script(script, arguments, lambda plan: plan.experiment.trainable_name == run.trainable_name)
    return plan.experiments[trial.experiment_number].trainable


@contextlib.contextmanager
def _scratch(keep: str | None) -> Iterator[str]:
    """The directory for the files of the trial: `keep`, or one that is removed in the end."""
    if keep is not None:
        os.makedirs(keep, exist_ok=True)
        yield os.path.abspath(keep)
        return
    directory = tempfile.mkdtemp(prefix="minitune-rerun-")
    try:
        yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)


@contextlib.contextmanager
def _surroundings(directory: str, env: Mapping[str, str]) -> Iterator[None]:
    """The working directory and environment that a worker would have."""
    before, cwd = dict(os.environ), os.getcwd()
    os.environ.update(env)
    if is_on("CHDIR_TO_TRIAL_DIR"):
        os.environ.update(dict.fromkeys(ORIG_WORKING_DIR, cwd))
        os.chdir(directory)
    try:
        yield
    finally:
        os.chdir(cwd)
        os.environ.clear()
        os.environ.update(before)


class _Rerun:
    """Runs one trial. A separate thread drives it, so the trainable runs on the main thread, as in a worker.

    Args:
        trainable: Handle of the trainable.
        run: The run.
        trial: Its trial.
        origin: Where it starts.
        limit: The number of reports after which it is stopped.
        opens_debugger: Whether a failure opens the debugger.

    Attributes:
        reports: The number of reports so far.
        error: The exception of the trainable, or None.
        is_stopped: Whether it was stopped at the limit.
    """

    def __init__(
        self,
        trainable: SharedObject,
        run: Story,
        trial: Trial,
        origin: Origin,
        limit: int,
        *,
        opens_debugger: bool,
    ):
        self.reports = 0
        self.error: BaseException | None = None
        self.is_stopped = False
        self._trainable = trainable
        self._run = run
        self._trial = trial
        self._origin = origin
        self._limit = limit
        self._opens_debugger = opens_debugger
        self._main = MainThreadExecutor()

    def run(self, directory: str) -> None:
        """Run the trial on the calling thread. Blocks until it has ended, and while the debugger is open.

        Raises:
            TuneError: If this machine does not have the GPUs that the trial asks for.
            OSError: If the directory cannot be used.
        """
        trial, machine = self._trial, runtime.machine()
        totals = dict(machine.totals)
        for name, amount in trial.resources.required_resources.items():  # counts keep no trial from running alone
            if name != GPU:
                totals[name] = max(amount, totals.get(name, 0.0))
        ledger = Ledger(totals, machine.gpu_ids, find_gpus=machine.find_gpus)
        ledger.can_acquire(trial.resources)
        allocation = ledger.acquire(trial.trial_id, trial.resources)
        own = os.path.join(directory, os.path.basename(trial.local_path))
        os.makedirs(own, exist_ok=True)
        start = None
        if self._origin.path is not None:  # a copy, because a trial may write into its checkpoint
            start = shutil.copytree(self._origin.path, os.path.join(directory, "start"), dirs_exist_ok=True)
        info = TrialInfo(
            trial.trial_id,
            trial.name,
            own,
            os.path.basename(self._run.path),
            trial.resources,
            trial.seed,
            1,  # the attempt
            config=trial.config,
            failures=trial.num_failures - (trial.status == ERROR),  # before the attempt that is repeated
        )
        with _surroundings(own, allocation.env):
            thread = threading.Thread(target=self._drive, args=(info, allocation, start), name="minitune-rerun")
            thread.start()
            self._main.run()
            thread.join()

    def _drive(self, info: TrialInfo, allocation: Allocation, start: str | None) -> None:
        """Do what a driver does with a trial. It runs on the thread for that."""
        actor: Any = None
        try:
            make = self._main.submit(make_trial_actor, self._trainable, info, self._main, allocation)
            actor = make.result()
            if start is not None:
                _settled(actor.restore(start, self._origin.metrics))
            while not self.is_stopped and self._take(_settled(actor.train())):
                self.is_stopped = self.reports >= self._limit
        except BaseException as error:
            self.error = error
            self._tell_failure(error)
        finally:
            with contextlib.suppress(BaseException):  # the trial is over; an error while it unwinds changes nothing
                stopping = actor.stop() if actor is not None else None
                if isinstance(stopping, Future):
                    stopping.result(GRACE_S)
            self._main.shutdown()

    def _take(self, report: Report) -> bool:
        """Show a report; returns whether more will come."""
        if report.metrics is not None:
            self.reports += 1
            values = ", ".join(f"{name}={format_cell(value, 40)}" for name, value in metrics_of(report.metrics).items())
            with contextlib.suppress(BrokenPipeError):  # the reader has left, and the main thread will notice
                print(f"iteration {report.metrics.get(TRAINING_ITERATION)}: {values}", flush=True)
        return not (report.done or report.has_returned)

    def _tell_failure(self, error: BaseException) -> None:
        """Show the traceback and open the debugger, before anything is cleaned up."""
        import bdb

        if isinstance(error, bdb.BdbQuit) or (isinstance(error, KeyboardInterrupt) and not self._opens_debugger):
            return
        print(format_traceback(error), end="", file=sys.stderr, flush=True)
        trace = user_traceback(error)
        if self._opens_debugger and trace is not None:
            self._main.submit(_post_mortem, trace).result()


def _settled(value: Any) -> Any:
    """The result if `value` is a Future, else `value`. Blocks until it is there."""
    return value.result() if isinstance(value, Future) else value


def _post_mortem(trace: TracebackType) -> None:
    import pdb

    print(
        "the debugger has stopped where the trial failed: `up` and `down` move, `p NAME` prints, `q` quits", flush=True
    )
    pdb.post_mortem(trace)


def _tell_begin(run: Story, trial: Trial, origin: Origin, kept: str | None) -> None:
    what = f"{trial.status} after {_reports(trial.report_count)}"
    failure = getattr(trial.error, "summary", lambda: str(trial.error))() if trial.error is not None else ""
    print(f"trial {trial.number} ({trial.trial_id}) of {run.path}: {what}{f': {failure}' if failure else ''}")
    print(f"  config  {short_repr(trial.config)}")
    print(f"  start   {'from scratch' if origin.path is None else f'at {origin.path}'}, seed {trial.seed}")
    if kept:
        print(f"  files   {kept}")
    sys.stdout.flush()


def _reports(count: int) -> str:
    return f"{count} report{'' if count == 1 else 's'}"


def _tell_end(trial: Trial, origin: Origin, again: _Rerun, *, opens_debugger: bool) -> int:
    """Say how it has ended this time; returns the exit status."""
    import bdb

    reports = _reports(again.reports)
    if isinstance(again.error, (bdb.BdbQuit, KeyboardInterrupt)):
        print(f"quit after {reports}")
        return INTERRUPTED
    if again.error is not None:
        hint = "" if opens_debugger else "; --pdb opens the debugger there"
        print(f"failed {'again ' if trial.status == ERROR else ''}after {reports}{hint}")
        return TRIALS_FAILED
    if trial.status == ERROR:
        before = trial.report_count - origin.report_number
        print(f"did not fail this time: {reports}; the last time it failed after {before}")
    elif again.is_stopped:
        print(f"stopped after {reports}, as many as before")
    else:
        print(f"ended after {reports}")
    return 0


# -- resume --------------------------------------------------------------------------------------------------------
def resume(options: argparse.Namespace) -> int:
    """Run `minitune resume`. Blocks until the run ends, unless a script takes the place of this process."""
    if options.target.endswith(".py"):
        return _run_script(options)
    with command_line(options.own):
        return _resume_run(existing_run(options.target), options)


def _run_script(options: argparse.Namespace) -> int:
    """Run the script in place of this process, set to go on. Where the system cannot do that, wait for its end.

    Raises:
        OSError: If there is no such script.
        ValueError: If an option is not for scripts.
    """
    if not os.path.isfile(options.target):
        raise FileNotFoundError(f"there is no script {options.target}")
    if options.errored or options.restart_errored or options.add_samples:
        raise ValueError("--errored, --restart-errored and --add-samples are for runs: pass the run's directory")
    env = {**os.environ, "MINITUNE_RESUME": existing_run(options.run) if options.run else "1"}
    if options.force:
        env["MINITUNE_RESUME_FORCE"] = "1"
    command = [sys.executable, options.target, *options.own]
    sys.stdout.flush()
    if sys.platform != "win32":  # on Windows, the shell would think that the command has ended
        os.execve(sys.executable, command, env)
    return subprocess.call(command, env=env)


def _resume_run(path: str, options: argparse.Namespace) -> int:
    """Go on with a run by its own files; returns the exit status. Blocks.

    Raises:
        TuneError: If it cannot go on.
        ValueError: If it is running, or an option is not for runs.
        UntrustedStateError: If another user may have written the files.
    """
    from minitune.tuner import Tuner

    if options.force:
        raise ValueError("--force is for scripts: a run keeps its own search space")
    run = read_run(path)
    state = state_of(run)
    if state.name == RUNNING:
        raise ValueError(f"{path} is {state.text}; `minitune watch {path}` shows it")
    if any(trial.experiment_number for trial in run.trials):
        raise ValueError(
            f"{path} consists of several experiments; resume it with its script: minitune resume SCRIPT.py"
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
    return ENDED_EARLY if grid.interrupted else exit_status(*read_standing(path))


def _tell_plan(run: Story, state: str, options: argparse.Namespace) -> None:
    """Say what happens to each group of trials."""
    counts = Counter(trial.shown_status for trial in run.trials)
    left = [trial for trial in run.trials if trial.status not in (TERMINATED, ERROR)]
    anew = sum(trial.report_count > 0 and not trial.checkpoints for trial in left)
    stay = "are not run again (--errored and --restart-errored do that)"
    again = "continue" if options.errored else "start again" if options.restart_errored else stay
    parts = [f"{counts[TERMINATED]} have ended", f"{len(left)} continue"]
    parts[-1] += f" ({anew} of them from the beginning, without a checkpoint)" if anew else ""
    parts += [f"{counts[NOT_STARTED]} were not started and will not be"] if counts[NOT_STARTED] else []
    parts += [f"{counts[ERROR]} have failed and {again}"] if counts[ERROR] else []
    parts += [f"{options.add_samples} samples are added"] if options.add_samples else []
    print(f"{run.path}: {state}; of its {len(run.trials)} trials {', '.join(parts)}", flush=True)
