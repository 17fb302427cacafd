"""What `fit` does: makes or opens a run's directory, puts the parts together, and drives the run to its end."""

from __future__ import annotations

import logging
from dataclasses import dataclass

from minitune import clock, runtime
from minitune._assemble import Components, Plan, base_seed, build_components, build_executor
from minitune._progress import Progress
from minitune._tuner_file import save_tuner_file
from minitune._version import __version__
from minitune.config import CheckpointConfig, default_storage_path
from minitune.execution import records
from minitune.execution.hooks import Hooks
from minitune.execution.interrupts import Interrupts
from minitune.execution.open_run import OpenRun
from minitune.execution.recorder import Recorder
from minitune.execution.replay import RESUMED, Replay, ResumeChoice, read_run_record
from minitune.execution.run_settings import RunSettings
from minitune.execution.run_state import RunState
from minitune.execution.scheduler_context import DriverContext, SupplyView
from minitune.execution.storage import RunDirectory, create_run_directory
from minitune.execution.trial_executor import TrialExecutor
from minitune.execution.tune_controller import TuneController
from minitune.experiment.trial import Trial
from minitune.logger.reconcile import cut_to_records
from minitune.pickling import dumps
from minitune.resources import GPU
from minitune.result import flatten
from minitune.settings import is_on, number_setting
from minitune.shared import SharedObject
from minitune.trainable.util import bind_parameters

logger = logging.getLogger("minitune")


@dataclass
class Outcome:
    """What a run has come to.

    Attributes:
        trials: In order of submission.
        interrupted: Whether a signal has ended the run before its trials.
        failed_fast: The trial whose failure has ended the run, or None.
        raises: Whether that failure is to come out of `fit`.
    """

    trials: list[Trial]
    interrupted: bool = False
    failed_fast: Trial | None = None
    raises: bool = False


def start_run(plan: Plan) -> tuple[Outcome, RunDirectory]:
    """Make a new run's directory and run the trials of a plan in it. Blocks.

    Args:
        plan: What is to be run.

    Returns:
        What became of the trials, and where the run lies.

    Raises:
        TypeError: If the trainable cannot be pickled.
        ValueError: If the plan contradicts itself.
        TuneError: If a plug-in raises, or the trials ask for more than there is.
        KeyboardInterrupt: At the second Ctrl-C.
    """
    checkpoints = plan.checkpoint_config
    dumps(bind_parameters(plan.experiment.trainable, SharedObject), "the trainable")
    seed = base_seed(plan.tune_config.seed)
    storage_path = plan.run_config.storage_path or default_storage_path()
    run = create_run_directory(storage_path, plan.run_config.name, trainable_name=plan.experiment.name)
    with _open(plan, run, checkpoints, is_new=True) as opened:
        save_tuner_file(run, plan.recorded())
        components = build_components(plan, seed)
        opened.begin(
            records.run(
                run.name,
                metric=plan.tune_config.metric,
                mode=plan.tune_config.mode,
                seed=seed,
                space_keys=sorted(flatten(plan.experiment.param_space)),
                trainable=plan.experiment.name,
                versions={"minitune": __version__},
            )
        )
        return _run(plan, components, opened, seed, None), run


def resume_run(plan: Plan, run: RunDirectory, *, resume_errored: bool) -> tuple[Outcome, RunDirectory]:
    """Go on with an earlier run. Blocks.

    Args:
        plan: What was recorded of it.
        run: Its directory.
        resume_errored: Whether failed trials are continued too.

    Returns:
        What became of the trials, and where the run lies.

    Raises:
        RunLockedError: If another driver is at it.
        JournalCorruptError: If its journal cannot be trusted.
        TuneError: As for `start_run`.
    """
    with _open(plan, run, plan.checkpoint_config, is_new=False) as opened:
        seed = int(read_run_record(opened.read())["seed"])
        components = build_components(plan, seed)
        opened.begin()
        return _run(plan, components, opened, seed, ResumeChoice(resume_errored)), run


def _open(plan: Plan, run: RunDirectory, checkpoints: CheckpointConfig, *, is_new: bool) -> OpenRun:
    tune = plan.tune_config
    return OpenRun(
        run,
        is_new=is_new,
        checkpoints=checkpoints,
        durability=plan.run_config.durability,
        metric=tune.metric,
        mode=tune.mode,
        dirname_creator=tune.trial_dirname_creator,
    )


def _run(plan: Plan, components: Components, opened: OpenRun, seed: int, resume: ResumeChoice | None) -> Outcome:
    executor = runtime.watch(build_executor(plan, opened.run))
    try:
        with clock.use(executor.clock):
            return _drive(plan, components, opened, seed, executor, resume)
    finally:
        executor.shutdown()


def _drive(
    plan: Plan,
    components: Components,
    opened: OpenRun,
    seed: int,
    executor: TrialExecutor,
    resume: ResumeChoice | None,
) -> Outcome:
    """Put the parts together, tell them what has happened so far, and enter the loop."""
    tune, recorder, state = plan.tune_config, opened.recorder, RunState()
    supply = SupplyView()
    context = DriverContext(state, components.search_alg, executor.resources()[0], supply)
    hooks = Hooks(components.scheduler, components.search_alg, components.stopper, components.callbacks, context)
    was_ended = resume is not None and _replay(plan, opened, state, hooks, resume)
    _check_request(plan, executor)
    trainable = executor.share(bind_parameters(plan.experiment.trainable, executor.share))
    settings = _settings(plan, opened.run.name, seed)
    controller = TuneController(executor, state, context, hooks, recorder, trainable, settings)
    supply.launcher = controller.launcher
    if was_ended:
        controller.launcher.end_supply()
    total = components.search_alg.total_samples
    hooks.setup(plan.run_config.stop or {}, tune.num_samples, total, time_budget_s=tune.budget_s())
    progress = Progress(
        components.reporter,
        components.scheduler,
        executor,
        opened.run,
        tune,
        verbose=plan.verbose,
        print_errors=is_on("PRINT_ALL_TRIAL_ERRORS"),
    )
    progress.begin(total)
    return _loop(plan, controller, recorder, executor, hooks, progress)


def _replay(plan: Plan, opened: OpenRun, state: RunState, hooks: Hooks, resume: ResumeChoice) -> bool:
    """Tell the plug-ins what has happened so far, and make the files of unfinished trials agree with it.

    Returns:
        Whether the search had ended: no new trials come then.
    """
    replay = Replay(opened.run.path, state, hooks, plan.experiment.maker)
    replay.run(opened.read(), resume)
    for trial in replay.revived:
        opened.recorder.status(trial, RESUMED)
    for donation in state.donations.values():
        opened.recorder.pin(donation.donor, donation.record)
    for trial in state.trials:
        opened.recorder.adopt(trial)
        if not trial.is_finished():
            cut_to_records(trial.local_path, replay.reports[trial.trial_id])
    return replay.was_ended


def _settings(plan: Plan, run_name: str, seed: int) -> RunSettings:
    tune = plan.tune_config
    return RunSettings(
        run_name=run_name,
        metric=tune.metric,
        seed=seed,
        failure=plan.failure_config,
        checkpoints=plan.checkpoint_config,
        saves=plan.experiment.saves,
        max_concurrent_trials=tune.max_concurrent_trials,
        reuse_actors=tune.reuse_actors,
        grace_s=number_setting("FORCE_TRIAL_CLEANUP_S"),
        strict_metric=not is_on("DISABLE_STRICT_METRIC_CHECKING"),
    )


def _check_request(plan: Plan, executor: TrialExecutor) -> None:
    """Refuse at once what can never fit, where it does not depend on the configuration.

    Raises:
        TuneError: Naming the request and the totals.
    """
    request = plan.experiment.static_request
    if request is not None:
        executor.can_start(request)
        if executor.resources()[0].get(GPU, 0) and not request.required_resources.get(GPU):
            logger.warning("this machine has GPUs, but the trials ask for none; see with_resources")


def _loop(
    plan: Plan,
    controller: TuneController,
    recorder: Recorder,
    executor: TrialExecutor,
    hooks: Hooks,
    progress: Progress,
) -> Outcome:
    """The driver's loop, with signals watched and progress shown."""
    reason = "error"
    with Interrupts(executor.wake, raise_second=not executor.isolates) as interrupts:
        try:
            while not controller.is_finished():
                progress.report(controller.trials)
                controller.step(progress.patience_s())
                if interrupts.name is not None and not controller.interrupted:
                    controller.end_run(f"interrupted by {interrupts.name}", resumable=True)
                interrupts.check_second()
            progress.loop_ends()
            while controller.unwind():
                interrupts.check_second()
            reason = controller.how_ended()
        finally:
            executor.shutdown()
            try:
                recorder.close(reason)
            finally:
                if reason == "error":
                    hooks.experiment_ends(controller.trials, after_error=True)
    hooks.experiment_ends(controller.trials)
    progress.end(controller.trials, interrupted_by=interrupts.name if controller.interrupted else None)
    interrupts.deliver_again()
    return Outcome(
        controller.trials,
        controller.interrupted,
        controller.failed_fast,
        raises=plan.failure_config.fail_fast == "raise",
    )
