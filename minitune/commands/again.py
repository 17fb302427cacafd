"""`minitune rerun` and `minitune resume`: run one trial again, and resume a run.

`rerun` runs a trial in this process, in a separate directory, and does not change the run. The trainable runs on the
main thread, as in a worker, because debuggers, signal handlers and some libraries need it.

`resume` takes a script or a run. It becomes the script, and a variable (`settings.RESUME`) makes its `fit()` resume an
earlier run (see `minitune.driver.resume`). It resumes a run here, with the trainable that the run has stored.
"""

from __future__ import annotations

import argparse
import contextlib
import faulthandler
import os
import sys
import tempfile
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

from minitune import runtime
from minitune.base.settings import ORIG_WORKING_DIR, RESUME, is_on
from minitune.base.shared_values import Held, hold
from minitune.base.table import short_repr
from minitune.base.text import counted, echo
from minitune.checkpoint import Checkpoint
from minitune.commands import Commands, behind_dashes, set_command
from minitune.commands.selecting import (
    EXIT_ENDED_EARLY,
    EXIT_INTERRUPTED,
    EXIT_TRIALS_FAILED,
    RUN_HELP,
    TRIAL_HELP,
    count_from,
    existing_run,
    exit_status,
    find_trial,
    run_and_trial,
)
from minitune.commands.telling import add_json, print_json
from minitune.driver.plan import Plan, PlanFound, offering_plans
from minitune.error import TuneError, format_traceback, user_traceback
from minitune.executors.ledger import Ledger
from minitune.experiment.endings import EndKind
from minitune.experiment.lifecycle import ERROR
from minitune.experiment.trial import BEGINNING, StartPoint, Trial
from minitune.experiment.trial_info import TrialInfo
from minitune.record.layout import RunDirectory
from minitune.record.lock import check_own_directory, check_trusted
from minitune.record.reading import read_run
from minitune.record.run_files import load_trainable
from minitune.record.standing import RUNNING_RUN, read_standing, standing_of
from minitune.record.story import Story
from minitune.resources import GPU, Allocation
from minitune.result import TRAINING_ITERATION, Report
from minitune.trainable.trial_actor import make_trial_actor
from minitune.view.rows import metrics_of, titled, values_text

if TYPE_CHECKING:
    from minitune.tuner import Tuner


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
    set_command(
        parser,
        rerun,
        "minitune rerun valley 3 --pdb",
        "minitune rerun valley 3 --script train.py",
        own_begins=behind_dashes,
    )
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
        "--errored", action="store_true", help="with a run: also continue failed trials from their last checkpoints"
    )
    parser.add_argument(
        "--restart-errored", action="store_true", help="with a run: also start failed trials again from the beginning"
    )
    parser.add_argument("--add-samples", type=count_from(0), default=0, metavar="N", help="with a run: add N samples")
    add_json(parser)

    def own_begins(arguments: list[str]) -> int:
        target = parser.parse_known_args(arguments)[0].target
        if target.endswith(".py"):
            return arguments.index(target) + 1
        return behind_dashes(arguments)

    set_command(parser, resume, "minitune resume train.py", "minitune resume valley --errored", own_begins=own_begins)


# -- rerun -------------------------------------------------------------------------------------------------------------
def rerun(options: argparse.Namespace) -> int:
    """Run `minitune rerun`. Blocks until the trial has ended."""
    path, wanted = run_and_trial(options.run, options.trial)
    # Both checks come first: the trainable is a pickle, and loading it runs code.
    check_own_directory(path)
    check_trusted(path)
    run, _ = read_standing(path, unpickle=True)
    trial = find_trial(run.trials, wanted)
    start = _start_point(run, trial)
    _set_arguments(options.own)
    trainable = _trainable(run, trial, options.script, options.own)
    if not faulthandler.is_enabled():
        # The dump goes to the descriptor, because `sys.stderr` may be replaced by the trial.
        faulthandler.enable(2, all_threads=False)  # a trial that has crashed may crash again
    with tempfile.TemporaryDirectory(prefix="minitune-rerun-", ignore_cleanup_errors=True) as directory:
        _tell_begin(run, trial, start)
        again = _Rerun(hold(trainable), run, trial, start, _reports_to_make(trial, start), options.pdb)
        again.run(directory)
        return _tell_end(trial, start, again)


def _set_arguments(arguments: Sequence[str]) -> None:
    """Let the trainable see these arguments as its command line."""
    sys.argv[1:] = arguments  # in place, because modules may have kept a reference to the list


def _reports_to_make(trial: Trial, start: StartPoint) -> int:
    """The number of reports since `start`; one more if the trial failed or returned, so that it can do so again."""
    has_returned = trial.ending is not None and trial.ending.kind is EndKind.RETURNED
    had_own_end = trial.status == ERROR or has_returned
    return max(1, trial.progress.num_reports - start.progress.num_reports + had_own_end)


def _start_point(run: Story, trial: Trial) -> StartPoint:
    """The start of a rerun: for a failed trial, that of its last attempt; for one that continued from the checkpoint of
    another trial, that checkpoint; for any other, the beginning.
    """
    starts = run.starts if trial.status == ERROR else run.starts_elsewhere
    start = starts.get(trial.trial_id, BEGINNING)
    if start.path is not None and not os.path.isdir(start.path):
        raise FileNotFoundError(
            f"the trial started from the checkpoint {start.path}, which no longer exists, so it cannot be run again"
        )
    return start


def _trainable(run: Story, trial: Trial, script: str | None, arguments: Sequence[str]) -> Any:
    """The trainable of a script with these arguments; without a script, the one that the run has stored."""
    if script is None:
        return load_trainable(RunDirectory(run.path))
    plan = plan_of_script(script, arguments, lambda plan: plan.experiment.trainable_name == run.setup.trainable_name)
    return plan.experiment.trainable


def plan_of_script(path: str, arguments: Sequence[str], is_wanted: Callable[[Plan], bool]) -> Plan:
    """Run a script as `__main__`, as Python would, up to the `fit()` or `run()` of the wanted plan, and return it.
    Earlier plans are run. Blocks. The script stays the `__main__` of this process, where the trainable finds its names.

    Raises:
        TuneError: If the script ends without the wanted plan, or fails.
        OSError: If the script cannot be read.
    """
    file = os.path.abspath(path)
    with open(file, "rb") as script:
        source = script.read()
    # Functions of the script must find their globals in `__main__`, as when Python runs it.
    main = types.ModuleType("__main__")
    main.__file__ = file
    sys.modules["__main__"] = main
    sys.argv[:] = [path, *arguments]
    sys.path[:0] = [os.path.dirname(file)]
    try:
        code = compile(source, file, "exec", dont_inherit=True)
        with offering_plans(is_wanted):
            exec(code, vars(main))
    except PlanFound as found:
        return found.plan
    except Exception as error:
        raise TuneError(f"{path} has failed before its fit():\n{format_traceback(error).rstrip()}") from error
    raise TuneError(f"{path} has ended without a fit() or run() of this trainable")


def _enter(directory: str, env: Mapping[str, str]) -> None:
    """Give this process the working directory and the environment of a worker."""
    os.environ.update(env)
    os.environ.update(dict.fromkeys(ORIG_WORKING_DIR, os.getcwd()))
    if is_on("CHDIR_TO_TRIAL_DIR"):
        os.chdir(directory)


@dataclass
class _Rerun:
    """Runs one trial on the calling thread. It is the trial's host, too: a report is shown where it is made."""

    trainable: Held
    source: Story
    trial: Trial
    start: StartPoint
    limit: int
    opens_debugger: bool
    reports: int = 0
    error: BaseException | None = None
    is_stopped: bool = False

    def __post_init__(self) -> None:
        self.at_stop: Callable[[], object] = lambda: None

    def run(self, directory: str) -> None:
        """Run the trial on the calling thread. Blocks until it has ended, and while the debugger is open."""
        trial = self.trial
        machine = runtime.machine()
        totals = dict(machine.totals)
        for name, amount in trial.resources.required_resources.items():
            if name != GPU:  # a single trial may run without the CPUs that it asks for, but not without its GPUs
                totals[name] = max(amount, totals.get(name, 0.0))
        ledger = Ledger(totals, machine.gpu_ids)
        ledger.can_acquire(trial.resources)
        allocation = ledger.acquire(trial.trial_id, trial.resources)
        own = os.path.join(directory, os.path.basename(trial.local_path))
        os.makedirs(own, exist_ok=True)
        checkpoint = None
        if self.start.path is not None:  # a copy, because a trial may write into its checkpoint
            checkpoint = Checkpoint(self.start.path).to_directory(os.path.join(directory, "start"))
        info = TrialInfo(
            trial.trial_id,
            trial.name,
            own,
            os.path.basename(self.source.path),
            trial.seed,
            trial.config,
            attempt=max(1, trial.attempt.number),
            failures=trial.num_failures - (trial.status == ERROR),  # before the attempt that is repeated
            resources=trial.resources,
        )
        _enter(own, allocation.env)
        self._drive(info, allocation, checkpoint)

    def _drive(self, info: TrialInfo, allocation: Allocation, checkpoint: str | None) -> None:
        """Do what a driver and a worker do, without the pipe between them."""
        actor: Any = None
        try:
            actor = make_trial_actor(self.trainable, info.resources, self, info.fields(), allocation)
            if checkpoint is not None:
                actor.restore(checkpoint, self.start.metrics)
            while not self.is_stopped and self._take(Report(*actor.train())):
                pass
        except BaseException as error:
            self.error = error
            self._tell_failure(error)
        finally:
            stop = getattr(actor, "stop", None)
            if stop is not None:
                with contextlib.suppress(Exception):  # the trial is over, so an error of its clean-up changes nothing
                    stop()

    def exchange(self, make: Callable[[], tuple[Report, Callable[[], object]]]) -> bool:
        """See `Host.exchange`."""
        if self.is_stopped:
            return False
        report, commit = make()
        commit()
        return self._take(report) and not self.is_stopped

    def abandon(self) -> None:
        """See `Host.abandon`: the function runs on this thread."""

    def _take(self, report: Report) -> bool:
        """Show a report. Return whether more will come."""
        if report.metrics is not None:
            self.reports += 1
            values = values_text(metrics_of(report.metrics), 40)
            with contextlib.suppress(BrokenPipeError):  # the reader has left; the end of the command will notice that
                echo(f"iteration {report.metrics.get(TRAINING_ITERATION)}: {values}", flush=True)
        self.is_stopped = self.is_stopped or self.reports >= self.limit
        return not (report.done or report.has_returned)

    def _tell_failure(self, error: BaseException) -> None:
        """Show the traceback and open the debugger, before anything is cleaned up."""
        import bdb

        if isinstance(error, bdb.BdbQuit) or (_is_ctrl_c(error) and not self.opens_debugger):
            return
        echo(format_traceback(error), end="", file=sys.stderr, flush=True)
        trace = user_traceback(error)
        if self.opens_debugger and trace is not None:
            import pdb

            keys = "`up` and `down` move, `p NAME` prints, `q` quits"
            echo(f"the debugger has stopped where the trial failed: {keys}", flush=True)
            pdb.post_mortem(trace)


def _is_ctrl_c(error: BaseException | None) -> bool:
    """Whether the user has pressed Ctrl-C. A program that a signal has ended raises the same class, with a text."""
    return isinstance(error, KeyboardInterrupt) and not error.args


def _tell_begin(run: Story, trial: Trial, start: StartPoint) -> None:
    what = f"{trial.state} after {counted(trial.progress.num_reports, 'report')}"
    if trial.error is not None:
        what += f": {trial.error.summary()}"
    echo(f"trial {titled(trial)} of {run.path}: {what}")
    echo(f"  config  {short_repr(trial.config)}")
    echo(f"  start   {start.path or 'from scratch'}, seed {trial.seed}", flush=True)


def _tell_end(trial: Trial, start: StartPoint, again: _Rerun) -> int:
    """Print how the trial has ended, now and before. Return the exit status."""
    import bdb

    reports = counted(again.reports, "report")
    if isinstance(again.error, bdb.BdbQuit) or _is_ctrl_c(again.error):
        echo(f"quit after {reports}")
        return EXIT_INTERRUPTED
    before = counted(trial.progress.num_reports - start.progress.num_reports, "report")
    had_failed = "failed" if trial.status == ERROR else "ended"
    has_failed = "ended" if again.error is None else "failed"
    hint = "" if again.error is None or again.opens_debugger else "; --pdb opens the debugger there"
    echo(f"{has_failed} after {reports}; before: {had_failed} after {before}{hint}")
    return 0 if again.error is None else EXIT_TRIALS_FAILED


# -- resume ------------------------------------------------------------------------------------------------------------
def resume(options: argparse.Namespace) -> int:
    """Run `minitune resume`. Blocks until the script or the run ends."""
    if options.target.endswith(".py"):
        _become_script(options)
    _set_arguments(options.own)
    return _resume_run(existing_run(options.target), options)


def _become_script(options: argparse.Namespace) -> NoReturn:
    """Run the script as Python does, in place of this command, so that Ctrl-C, the terminal and the exit status are its
    own; it resumes its runs.
    """
    path = options.target
    if not os.path.isfile(path):
        raise FileNotFoundError(f"there is no script {path}")
    if options.errored or options.restart_errored or options.add_samples or options.json:
        rule = "--errored, --restart-errored, --add-samples and --json are for runs: pass the run's directory"
        raise argparse.ArgumentError(None, rule)
    os.environ[RESUME] = existing_run(options.run) if options.run else "1"
    sys.stdout.flush()
    os.execv(sys.executable, [sys.executable, path, *options.own])


def _resume_run(path: str, options: argparse.Namespace) -> int:
    """Resume a run with the trainable that it has stored. Blocks. Returns the exit status."""
    from minitune.config import RunConfig
    from minitune.tuner import Tuner

    state = standing_of(read_run(path))
    if state.name == RUNNING_RUN:
        raise ValueError(f"{path} is {state.text}; `minitune watch {path}` shows it")
    tuner = Tuner.restore(
        path,
        load_trainable(RunDirectory(path), way_out="resume it with its script: minitune resume {}"),
        resume_errored=options.errored,
        restart_errored=options.restart_errored,
        add_samples=options.add_samples,
        run_config=RunConfig(verbose=0) if options.json else None,
    )
    return fit_to_the_end(tuner, as_json=options.json)


def fit_to_the_end(tuner: Tuner, *, as_json: bool) -> int:
    """Run it, and print its facts for programs if they want them. Blocks. Returns the exit status."""
    from minitune.view.facts import whole_run_facts

    grid = tuner.fit()
    run, state = read_standing(grid.experiment_path)
    if as_json:
        print_json(whole_run_facts(run, state, run.setup.goal))
    if grid.interrupted:
        return EXIT_ENDED_EARLY
    return exit_status(run, state)
