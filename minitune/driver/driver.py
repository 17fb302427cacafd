"""Driver: opens a run, runs its trials until all have ended, and closes the run's record.

Three rules:

* The driver checks everything before it writes to disk. So plug-ins and executor come first (`make_parts`), the run's
  directory after them.
* It ends the executor before it closes the record, so that the journal holds all results. A run whose record is not
  closed is still running, or was killed.
* A plug-in may fork, and an exception may take the child out of the loop. Only the process that opened the run may end
  workers and write records.

A signal sets a flag and wakes the loop, so none interrupts the writing of a record (`interrupts`). In the same way
another process asks to stop a trial (`record.stop_requests`).
"""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from minitune import runtime
from minitune.base import __version__, clock
from minitune.base.disk import has_too_many_open, open_files_error
from minitune.base.forks import Origin
from minitune.base.randomness import lending
from minitune.base.seeds import draw_global_seed
from minitune.base.settings import check_numbers, is_on
from minitune.config import default_storage_path
from minitune.driver.hooks import Hooks
from minitune.driver.interrupts import Interrupts
from minitune.driver.open_run import begin, open_run
from minitune.driver.parts import (
    Components,
    build_components,
    build_executor,
    check_requests,
    shows_output,
)
from minitune.driver.plan import Plan, offer
from minitune.driver.snapshot import SnapshotKeeper
from minitune.driver.state import RunState
from minitune.driver.tune_controller import TuneController
from minitune.error import (
    CrashLoopError,
    DiskError,
    SampleError,
    TrialStopped,
    as_cause,
    user_traceback,
)
from minitune.executors.trial_executor import TrialExecutor
from minitune.experiment.endings import Ending, EndKind, interruption
from minitune.experiment.run_description import RunDescription, source_hash
from minitune.experiment.trial import Trial
from minitune.output.progress import ProgressDisplay, tell_resume
from minitune.record import records, stop_requests
from minitune.record.layout import RunDirectory, create_run_directory
from minitune.record.recorder import Recorder
from minitune.record.run_files import dump_trainable, dump_tuner, write_trainable_file, write_tuner_file
from minitune.result import flatten
from minitune.schedulers.trial_scheduler import SUPPLY_ENDED
from minitune.space.parameters import scales

logger = logging.getLogger("minitune")

_FAILED = Ending.of(EndKind.ERROR)
"""The ending of the run in the record when an exception ends the driver."""


# -- a run -----------------------------------------------------------------------------------------------------------
@dataclass
class EndedRun:
    """What a driver returns when it ends.

    Attributes:
        failed_fast: The trial whose failure has ended the run, or None.
        raises: Whether the user's code gets that failure as an exception.
    """

    run: RunDirectory
    trials: list[Trial]
    interrupted: bool = False
    failed_fast: Trial | None = None
    raises: bool = False

    def raise_failure(self) -> None:
        """Raise the user's own exception from the trial that ended the run, if `raises` is set. Its cause is the error
        of the trial, whose text has the traceback in the worker.
        """
        error = self.failed_fast.error if self.failed_fast is not None else None
        if not self.raises or error is None:
            return
        original = error.__cause__
        if original is None:
            raise error
        if original.__traceback__ is None:
            original.__cause__ = as_cause(error)
        raise original


class Driver:
    """One run, driven to its end: `open`, `loop`, `close`. `run` does all three; each driver runs once.

    Each part registers its clean-up as soon as it exists, and `close` cleans up in reverse order, also after a failure.
    """

    is_new = True
    """Whether this driver creates the run."""

    seed: int
    executor: TrialExecutor
    components: Components
    recorder: Recorder
    state: RunState
    hooks: Hooks
    controller: TuneController
    _to_end: Sequence[tuple[Trial, Ending]]
    _keeper: SnapshotKeeper
    _progress: ProgressDisplay

    def __init__(self, plan: Plan):
        self.plan = plan
        self.state = RunState(plan)
        self._directory = ""  # the run's directory, once it exists
        self._closing = ExitStack()
        self._origin = Origin()
        self._ending = _FAILED  # the ending of the run in the record; it holds if an exception ends the driver
        self._interrupts = Interrupts()

    def run(self) -> EndedRun:
        """Open the run, run its trials until all have ended, and close it. Blocks.

        Raises:
            KeyboardInterrupt: At the second Ctrl-C.
        """
        try:
            try:
                self.open()
                ended = self.loop()
            finally:
                self.close()
        except (SampleError, CrashLoopError, KeyboardInterrupt) as error:
            trace = None  # only the frames of its cause, the user's code, are of interest
            if isinstance(error, KeyboardInterrupt):
                self._interrupts.deliver_again()
                trace = user_traceback(error)  # what hung is of interest, if it is the user's
            if is_on("FULL_TRACEBACKS"):
                raise
            raise error.with_traceback(None if trace is error.__traceback__ else trace) from error.__cause__
        self._interrupts.deliver_again()  # last: it usually ends the process
        return ended

    def open(self) -> None:
        """Create a new run in a new directory."""
        plan = self.plan
        first = self.plan.experiment
        offer(plan)  # a command that only wants the plan of the script ends it here
        # An object that cannot be pickled must raise its error before there is a directory.
        trainable = dump_trainable(*plan.bare_trainable())
        recorded = dump_tuner(plan.recorded())
        self.make_parts(base_seed(plan.tune_config.seed))
        storage_path = first.storage_path or default_storage_path()
        run, lock = create_run_directory(storage_path, first.name, trainable_name=first.trainable_name)
        recorder = open_run(self._closing, plan, run, lock=lock)
        # Before the first record, so that each run with a record can be resumed.
        write_tuner_file(run, recorded)
        write_trainable_file(run, trainable)
        begin(recorder, plan, self.description(), run_record(plan, run, self.seed, self.known_total()))
        self.put_together(recorder)

    def make_parts(self, seed: int) -> None:
        """Create the plug-ins and the executor, and check that this machine can run the plan. Writes nothing."""
        self.seed = seed
        self.make_plugins()
        # The settings from the environment; each of these raises or warns.
        check_numbers()
        self.executor = build_executor(self.plan, lambda: self._directory)
        self._closing.enter_context(runtime.counting(self.executor))
        self._closing.callback(self.executor.shutdown)
        check_requests(self.plan, self.executor)  # last, because only the executor knows the resources

    def make_plugins(self) -> None:
        """Create the plug-ins."""
        self.components = build_components(self.plan, self.seed, lambda: self.state.trials)

    def description(self) -> RunDescription:
        """What this driver runs. Valid before `put_together`, which may add samples."""
        return RunDescription(
            *self.plan.goal.given,
            num_samples=self.plan.experiment.num_samples,
            source=source_hash(self.plan.experiment.trainable),
        )

    def known_total(self) -> int | None:
        """How many trials there will be; None if unknown."""
        total = self.components.search_alg.total_samples
        return total if 0 <= total < sys.maxsize else None

    def put_together(self, recorder: Recorder) -> None:
        """Connect the parts with the open run, and bring them up to date with its journal."""
        plan = self.plan
        executor = self.executor
        tune = self.plan.tune_config
        self.recorder = recorder
        self._directory = recorder.run.path
        self._closing.callback(self._close_record)
        # Once more, since the clean-up goes backwards: the workers end before the record is closed.
        self._closing.callback(executor.shutdown)
        self._closing.enter_context(clock.use(executor.clock))
        self._closing.enter_context(lending(tune.seed is not None))
        self.make_state()
        self._to_end = self.catch_up()
        components = self.components
        self._keeper = SnapshotKeeper(recorder, self.hooks)
        self._progress = ProgressDisplay(
            components.reporter,
            components.scheduler,
            executor,
            recorder.run,
            tune,
            raises=plan.raises or plan.failure_config.fail_fast == "raise",
            is_program=self._is_program,
            outputs=() if shows_output(plan) else plan.experiment.output_names,
        )
        self._closing.callback(self._progress.close)

    @property
    def _is_program(self) -> bool:
        """Whether the run is that of a command, which no Python code resumes."""
        return getattr(self.plan.experiment.trainable, "is_program", False)

    def make_state(self) -> None:
        """Make the state of a run without trials, and connect it with the plug-ins."""
        components = self.components
        self.plan.experiment.maker.run_path = self.recorder.run.path
        self.state = RunState(self.plan, self.seed)
        self.hooks = Hooks(
            components.scheduler,
            components.search_alg,
            components.stopper,
            components.callbacks,
            self.state,
        )

    def catch_up(self) -> Sequence[tuple[Trial, Ending]]:
        """Restore the state and the plug-ins of an earlier driver; a new run has none. Returns `Replay.to_end`."""
        return ()

    # -- the loop ----------------------------------------------------------------------------------------------------

    def loop(self) -> EndedRun:
        """Run the trials until all have ended, and close the record. Blocks."""
        state = self.state
        progress = self._progress
        interrupts = self._interrupts
        try:
            with interrupts.handled(self.executor.wake):
                try:
                    if interrupts.hears_requests:
                        stop_requests.begin_to_hear(self.recorder.run)
                    self._begin()
                    self._run_all()
                except CrashLoopError as error:
                    self._ending = Ending(EndKind.ERROR, str(error).partition("\n")[0], {})
                    raise
                except DiskError:
                    self.executor.shutdown(self.state.grace_s)  # `finally` blocks run
                    raise
                except OSError as error:  # of files and pipes that belong to no trial; those that do were told already
                    if not has_too_many_open(error):
                        raise
                    self.executor.shutdown(self.state.grace_s)
                    raise open_files_error(self.recorder.run.path, error) from error
                except TrialStopped:  # of the trial that runs this run: a hook has reported in it
                    self._ending = Ending.of(EndKind.INTERRUPTED, "the trial that runs it was stopped")
                    raise
                except KeyboardInterrupt:
                    if interrupts.name is not None:  # otherwise a hook has raised it by itself
                        self._ending = interruption(interrupts.name)
                    raise
                finally:
                    if self._origin.is_here():  # otherwise a plug-in forked this child; the run continues in its parent
                        self._end()
        except BaseException as error:
            if self._origin.is_here():
                if isinstance(error, KeyboardInterrupt):
                    tell_resume(self.recorder.run.path, interrupts.name or "SIGINT", self._is_program)
                self.hooks.experiment_ends(state.trials, after_error=True)
            raise
        # Only now, so that a hook that hangs does no harm: the record is closed, and one Ctrl-C ends the process again.
        self.hooks.experiment_ends(state.trials)
        interrupted_by = interrupts.name if state.interrupted else None
        progress.end(state.trials, interrupted_by, self.hooks.search_alg)
        return EndedRun(
            self.recorder.run,
            state.trials,
            state.interrupted,
            self.controller.failed_fast,
            raises=self.plan.failure_config.fail_fast == "raise",
        )

    def _begin(self) -> None:
        """Make the controller, and tell callbacks and the user that the run begins."""
        plan = self.plan
        total = self.known_total()
        if total is None:
            total = self.components.search_alg.total_samples
        # Not before the replay, which callbacks must not hear; not after the controller, which asks what they hear.
        self.hooks.setup(total_num_samples=total, **plan.experiment.public_spec)
        recorder = self.recorder
        self.controller = TuneController(self.executor, self.state, self.hooks, recorder)
        remarks: Iterator[str] = iter(())
        if self.is_new and self._progress.reporter is not None:
            from minitune.view.remarks import opening_remarks

            remarks = opening_remarks(plan.experiment.param_space, self.components.search_alg.total_samples)
        self._progress.begin(
            max(total, len(self.state.trials)),  # a resume may ask for fewer than there are already
            remarks,
            verbose=plan.verbose,
        )

    def _run_all(self) -> None:
        """Take turns of the loop until all trials have ended, and wait for the workers that were stopped."""
        state = self.state
        controller = self.controller
        progress = self._progress
        interrupts = self._interrupts
        turn = self._turn if self.hooks.hears_turns else controller.step
        controller.begin(self._to_end)
        if interrupts.name is not None:  # before a worker is started
            self._interrupt()
        while state.unfinished or state.supply != SUPPLY_ENDED:
            max_wait_s = None
            if self.components.reporter is not None:
                progress.report(state.trials)
                max_wait_s = progress.patience_s()
            turn(max_wait_s)
            if interrupts.has_requests:
                interrupts.has_requests = False  # first: another one may come meanwhile
                controller.stop_trials(stop_requests.take_requests(self.recorder.run))
            if interrupts.name is not None:
                self._interrupt()
            elif time.monotonic() >= self._keeper.due_s:
                self._keeper.save()
        # Workers that were stopped may still run `finally` blocks. A second Ctrl-C ends this wait, too.
        while controller.unwind():
            interrupts.check_second()
        # After an interrupt the states of before it count, because searchers were told that the trials ended.
        if not state.interrupted:
            self._keeper.save()
        self._ending = state.ending or Ending.of(EndKind.FINISHED)

    def _turn(self, max_wait_s: float | None) -> None:
        """A turn of the loop in a run with a callback that has a hook for it."""
        self.hooks.tell("on_step_begin")
        self.controller.step(max_wait_s)
        self.hooks.tell("on_step_end")

    def _interrupt(self) -> None:
        """End the run because of a signal; at once, if it is the second one."""
        if not self.state.interrupted:
            name = str(self._interrupts.name)
            self._progress.tell_wait(name, self.state.grace_s)
            self._keeper.save()  # before the searcher learns that all ended: a resume continues them
            self.controller.end_run(interruption(name))
        self._interrupts.check_second()

    def _end(self) -> None:
        """End the workers, and close the record."""
        stop_requests.end_to_hear(self.recorder.run)
        try:
            self.executor.shutdown()  # first, so that no worker runs on when the record is closed
        finally:
            # A hook may be interrupted above, or the wait for a trial of the inline executor.
            self.recorder.close(self._ending, self._progress.stop())

    # -- the end -----------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Release the terminal, the workers and the directory. Blocks while workers end."""
        if self._origin.is_here():  # not in a child that a plug-in forked: the run goes on in its parent
            self._closing.close()

    def _close_record(self) -> None:
        """Close the record if the loop never began, or the run would look like a killed one."""
        if not self.recorder.is_closed:
            self.recorder.close(self._ending)


# -- its record ------------------------------------------------------------------------------------------------------
def base_seed(seed: int | None) -> int:
    """The user's seed, or a draw from the global generator of numpy (if loaded) or `random`."""
    return draw_global_seed() if seed is None else seed


def run_record(plan: Plan, run: RunDirectory, seed: int, total_samples: int | None = None) -> records.Record:
    """The first record of a run."""
    return records.run(
        run.name,
        metric=plan.tune_config.metric,
        mode=plan.tune_config.mode,
        seed=seed,
        space_keys=sorted(flatten(plan.experiment.param_space)),
        trainable=plan.experiment.trainable_name,
        versions={"minitune": __version__},
        total_samples=total_samples,
        scales=scales(plan.experiment.param_space),
    )
