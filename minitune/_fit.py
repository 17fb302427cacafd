"""What `fit` does: makes or opens a run's directory, puts the parts together, and drives the run to its end."""

from __future__ import annotations

import contextlib
import logging
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from minitune import clock, runtime
from minitune._assemble import Components, base_seed, build_components, build_executor
from minitune._checks import duration_s
from minitune._determinism import warn_of_clocks, warn_of_resume
from minitune._global_draws import lending
from minitune._plan import Plan
from minitune._progress import INTERRUPTED_BY, Progress
from minitune._script import offer
from minitune._trainable_file import dump_trainables, write_trainable_file
from minitune._tuner_file import dump_tuner, write_tuner_file
from minitune._version import __version__
from minitune.config import default_storage_path
from minitune.error import as_cause
from minitune.execution import records
from minitune.execution.hooks import Hooks, forked_error
from minitune.execution.interrupts import Interrupts
from minitune.execution.logical_order import OrderedExecutor
from minitune.execution.open_run import OpenRun
from minitune.execution.plugin_states import CALLBACKS, StateKeeper
from minitune.execution.recorder import Recorder
from minitune.execution.run_settings import RunSettings, TrialSettings
from minitune.execution.run_state import RunState
from minitune.execution.scheduler_context import DriverContext, SupplyView
from minitune.execution.storage import RunDirectory, create_run_directory, identifier_limit
from minitune.execution.trial_executor import TrialExecutor
from minitune.execution.tune_controller import TuneController
from minitune.experiment.experiment import Experiment
from minitune.experiment.trial import Trial
from minitune.resources import GPU
from minitune.result import flatten
from minitune.search.filters import REUSE
from minitune.settings import check_numbers, is_on, number_setting, setting
from minitune.trainable.util import bind_parameters

if TYPE_CHECKING:
    from minitune.execution.ahead import Template
    from minitune.execution.memory_run import MemoryRun

logger = logging.getLogger("minitune")

_FAILED = "error"  # why a driver has ended that nobody has asked to end

CatchUp = Callable[[RunState, Hooks, DriverContext], bool]
"""Brings state and plug-ins to where an earlier driver was; tells whether no new trials are to come."""


@dataclass
class Outcome:
    """What a run has come to.

    Attributes:
        trials: In order of submission.
        interrupted: Whether a signal has ended the run before its trials.
        failed_fast: The trial whose failure has ended the run, or None.
        raises: Whether that failure is to come out of `fit`.
        took_s: How long this driver was at work, in seconds.
    """

    trials: list[Trial]
    interrupted: bool = False
    failed_fast: Trial | None = None
    raises: bool = False
    took_s: float = 0.0

    def raise_failure(self) -> None:
        """Raise the exception of the trial whose failure is to come out of `fit`, if there is one: the user's own.

        What has travelled has lost its traceback, which is put at the beginning of its chain of causes.
        """
        error = self.failed_fast.error if self.failed_fast is not None else None
        if not self.raises or error is None:
            return
        original = error.__cause__
        if original is None:
            raise error
        if original.__traceback__ is None:
            first = original
            while (earlier := first.__cause__ or first.__context__) is not None:
                first = earlier
            first.__cause__ = as_cause(error)
        raise original


def start_run(plan: Plan, ahead: Template | None = None) -> tuple[Outcome, RunDirectory]:
    """Make a new run's directory and run the trials of a plan in it. Blocks.

    Args:
        plan: What is to be run.
        ahead: See `Plan.start_ahead`.

    Returns:
        What became of the trials, and where the run lies.

    Raises:
        TypeError: If the trainable cannot be pickled.
        ValueError: If the plan contradicts itself.
        TuneError: If a plug-in raises, or the trials ask for more than there is.
        KeyboardInterrupt: At the second Ctrl-C.
    """
    offer(plan)
    trainables = dump_trainables(plan.experiments)
    seed, first = base_seed(plan.tune_config.seed), plan.experiment
    recorded = dump_tuner(plan.recorded())
    components = build_components(plan, seed)
    storage_path = first.storage_path or default_storage_path()
    with stage_of(plan, seed, ahead) as stage:  # whatever is refused is refused before anything is on disk
        run = create_run_directory(storage_path, first.name, trainable_name=first.trainable_name)
        with open_run(plan, run, is_new=True) as opened:
            write_tuner_file(run, recorded, opened.objects, sync=plan.run_config.durability != "process")
            write_trainable_file(run, trainables)
            total = components.search_alg.total_samples
            opened.begin(run_record(plan, run, seed, total if 0 <= total < sys.maxsize else None))
            return run_opened(plan, components, opened, stage), run


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
    )


def open_run(
    plan: Plan, run: RunDirectory, *, is_new: bool, listen: Callable[[records.Record], None] | None = None
) -> OpenRun:
    """The run's directory, to be entered, as the plan wants it; `listen` hears of each record of the trials."""
    tune = plan.tune_config
    return OpenRun(
        run,
        is_new=is_new,
        checkpoints=[experiment.checkpoints() for experiment in plan.experiments],
        durability=plan.run_config.durability,
        metric=tune.metric,
        mode=tune.mode,
        dirname_creators=[experiment.trial_dirname_creator for experiment in plan.experiments],
        listen=listen,
    )


@dataclass
class Stage:
    """Where the trials of a plan can run, so far as is known before anything is on disk.

    Attributes:
        executor: Who runs them.
        settings: What the driver goes by, without the run's name and the trainables, which are not stored yet.
        directory: The run's, once it is there.
    """

    executor: TrialExecutor
    settings: RunSettings
    directory: str = ""


@contextlib.contextmanager
def stage_of(plan: Plan, seed: int, ahead: Template | None = None) -> Iterator[Stage]:
    """Check whether a plan can be run here, and make what runs it, for the `with` block. Blocks at its end.

    Args:
        plan: What is to be run.
        seed: The base seed.
        ahead: See `Plan.start_ahead`.

    Raises:
        ValueError: If a setting of the environment breaks its rule.
        TuneError: If the trials ask for more than there is, where that does not depend on their configurations.
    """
    check_numbers()
    identifier_limit()
    executor = runtime.watch(build_executor(plan, lambda: stage.directory, ahead))
    try:
        _check_requests(plan, executor)
        stage = Stage(executor, _settings(plan, seed, executor))
        yield stage
    finally:
        executor.shutdown()


def run_opened(
    plan: Plan, components: Components, opened: OpenRun | MemoryRun, stage: Stage, catch_up: CatchUp | None = None
) -> Outcome:
    """Run the trials of a plan in a directory that is open. Blocks.

    Args:
        plan: What is to be run.
        components: Its plug-ins.
        opened: The directory.
        stage: From `stage_of`.
        catch_up: What brings state and plug-ins to where an earlier driver was.
    """
    stage.directory = opened.run.path
    try:
        with clock.use(stage.executor.clock), lending(plan.tune_config.seed is not None):
            return _drive(plan, components, opened, stage, catch_up)
    except BaseException:
        if (
            opened.recorder.is_ours and not opened.recorder.is_closed
        ):  # refused before its loop began: it has failed, nobody has killed it
            opened.recorder.close(_FAILED)
        raise
    finally:
        stage.executor.shutdown()


def _drive(
    plan: Plan, components: Components, opened: OpenRun | MemoryRun, stage: Stage, catch_up: CatchUp | None
) -> Outcome:
    """Put the parts together, tell them what has happened so far, and enter the loop."""
    tune, recorder, state, executor = plan.tune_config, opened.recorder, RunState(), stage.executor
    supply = SupplyView()
    context = DriverContext(state, components.search_alg, executor.resources()[0], supply, tune.reuse_actors)
    hooks = Hooks(components.scheduler, components.search_alg, components.stopper, components.callbacks, context)
    was_ended = catch_up is not None and catch_up(state, hooks, context)
    keeper = opened.keeper(hooks, context)
    if tune.deterministic:
        warn_of_clocks(plan, components)
        warn_of_resume(state.unfinished.values(), stage.settings.seed)
    experiments = [_trial_settings(experiment, executor) for experiment in plan.experiments]
    settings = replace(stage.settings, run_name=opened.run.name, experiments=experiments)
    controller = TuneController(executor, state, context, hooks, recorder, settings)
    supply.launcher = controller.launcher
    if was_ended:
        controller.launcher.end_supply()
    total = components.search_alg.total_samples
    hooks.setup(total_num_samples=total, **plan.experiment.public_spec)
    progress = Progress(
        components.reporter,
        components.scheduler,
        executor,
        opened.run,
        tune,
        verbose=plan.verbose,
        print_errors=is_on("PRINT_ALL_TRIAL_ERRORS"),
        raises=plan.raises or plan.failure_config.fail_fast == "raise",
    )
    try:
        progress.begin(total, plan.experiment.param_space if catch_up is None else {})
        return _loop(plan, controller, recorder, executor, hooks, progress, keeper)
    finally:
        if recorder.is_ours:
            progress.close()


def _settings(plan: Plan, seed: int, executor: TrialExecutor) -> RunSettings:
    tune = plan.tune_config
    ahead = setting("MAX_PENDING_TRIALS")
    usual_ahead = tune.max_concurrent_trials if tune.deterministic else None  # not what suits this machine
    return RunSettings(
        run_name="",
        experiments=(),
        metric=tune.metric,
        seed=seed,
        failure=plan.failure_config,
        max_concurrent_trials=tune.max_concurrent_trials,
        max_ahead=usual_ahead if ahead == "auto" else max(1, int(number_setting("MAX_PENDING_TRIALS"))),
        reuse_actors=tune.reuse_actors,
        grace_s=number_setting("FORCE_TRIAL_CLEANUP_S"),
        free_restore_failures=int(number_setting("RESTORE_RETRY_NUM")),
        trial_timeout_s=duration_s(tune.trial_timeout_s, "trial_timeout_s"),
        report_timeout_s=duration_s(tune.report_timeout_s, "report_timeout_s"),
        strict_metric=not is_on("DISABLE_STRICT_METRIC_CHECKING"),
        reuses_results=tune.on_duplicate == REUSE,
        answered=executor.answered if isinstance(executor, OrderedExecutor) else None,
        rest=executor.rest if isinstance(executor, OrderedExecutor) else None,
    )


def _trial_settings(experiment: Experiment, executor: TrialExecutor) -> TrialSettings:
    trainable = executor.share(bind_parameters(experiment.trainable, executor.share))
    return TrialSettings(trainable, experiment.checkpoints(), experiment.saves)


def _check_requests(plan: Plan, executor: TrialExecutor) -> None:
    """Refuse at once what can never fit, or not often enough, where it does not depend on the configuration.

    Raises:
        TuneError: Naming the request and the totals.
    """
    requests = [experiment.static_request for experiment in plan.experiments]
    for request in requests:
        if request is not None:
            executor.can_start(request)
        if request is not None and isinstance(executor, OrderedExecutor):
            executor.check_room(request)
    has_gpus = executor.resources()[0].get(GPU, 0)
    if has_gpus and all(request is not None and not request.required_resources.get(GPU) for request in requests):
        logger.warning("this machine has GPUs, but the trials ask for none; see with_resources")


def _loop(
    plan: Plan,
    controller: TuneController,
    recorder: Recorder,
    executor: TrialExecutor,
    hooks: Hooks,
    progress: Progress,
    keeper: StateKeeper,
) -> Outcome:
    """The driver's loop, with signals watched and progress shown."""
    reason = _FAILED
    with Interrupts(executor.wake, raise_second=not executor.isolates) as interrupts:
        try:
            while not controller.is_finished():
                if not recorder.is_ours:
                    raise forked_error("a plug-in")
                progress.report(controller.trials)
                controller.step(progress.patience_s())
                if interrupts.name is None and not controller.interrupted:
                    keeper.save_if_due()
                elif not controller.interrupted:
                    progress.tell_wait(str(interrupts.name), number_setting("FORCE_TRIAL_CLEANUP_S"))
                    keeper.save()  # the searcher hears now that all trials are over, which is not so for a resume
                    controller.end_run(f"{INTERRUPTED_BY}{interrupts.name}", resumable=True)
                interrupts.check_second()
            progress.loop_ends()
            while controller.unwind():
                interrupts.check_second()
            if not controller.interrupted:
                keeper.save()
            reason = controller.how_ended()
        except KeyboardInterrupt:
            if recorder.is_ours:
                progress.tell_resume("SIGINT")
            raise
        finally:
            if recorder.is_ours:
                _end(reason, controller, recorder, executor, hooks, keeper, progress.stop)
    hooks.experiment_ends(controller.trials)
    interrupted_by = interrupts.name if controller.interrupted else None
    progress.end(controller.trials, interrupted_by, why_no_more=hooks.search_alg.end_reason)
    interrupts.deliver_again()
    if controller.loss is not None:
        raise controller.loss
    return Outcome(
        controller.trials,
        controller.interrupted,
        controller.failed_fast,
        raises=plan.failure_config.fail_fast == "raise",
        took_s=progress.stop(),
    )


def _end(
    reason: str,
    controller: TuneController,
    recorder: Recorder,
    executor: TrialExecutor,
    hooks: Hooks,
    keeper: StateKeeper,
    took: Callable[[], float],
) -> None:
    """End the workers, save what the callbacks know, and close the record.

    Only for the process that has begun the run: a plug-in may have forked, and the child leaves the loop by an
    exception or by `sys.exit`, while the run goes on.
    """
    executor.shutdown()
    try:
        if reason == _FAILED or controller.interrupted:
            keeper.save(CALLBACKS)  # they have seen what they have seen, however it ended
        recorder.close(reason, took())
    finally:
        if reason == _FAILED:
            hooks.experiment_ends(controller.trials, after_error=True)
