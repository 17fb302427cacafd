"""TrialLauncher: asks the searcher for trials, and starts waiting trials while the executor has room."""

from __future__ import annotations

import functools
import logging
import math
from typing import NamedTuple

from minitune.base import descriptors
from minitune.base.pickling import require_picklable
from minitune.driver.actions import Reuse, TrialActions
from minitune.driver.failure import TRIAL
from minitune.driver.hooks import Hooks
from minitune.driver.state import ENDED, OPEN, WAITING, RunningTrial, RunState
from minitune.error import RemoteError, TrialError, TuneError, trial_error
from minitune.executors.trial_executor import ActorSpec, Shared, TrialExecutor
from minitune.experiment.lifecycle import Phase, Step
from minitune.experiment.parameter_files import write_parameters
from minitune.experiment.trial import Trial, TrialInfo
from minitune.logger.json import leave_parameters
from minitune.plugin_calls import forked_error
from minitune.record.recorder import Recorder
from minitune.registry import get_env_creator, has_env_creator
from minitune.resources import CPU, Resources
from minitune.search.search_algorithm import SearchGenerator
from minitune.space.domains import component_seed
from minitune.trainable.trial_actor import make_trial_actor

logger = logging.getLogger("minitune")

_AHEAD = 200
"""How many trials are drawn ahead: so many, or a tenth more than there are CPUs."""
_AHEAD_PER_TURN = 50
"""How many of them are drawn in one turn of the loop, so that events do not wait long."""
_REUSED_PER_TURN = 50
"""How many trials that need no worker end in one turn, for the same reason."""


class Refusal(NamedTuple):
    """A trial that can never start, and the reason. The caller ends it."""

    trial: Trial
    error: TrialError


class TrialLauncher:
    """Draws trials and starts them.

    Args:
        executor: Runs the actors.
        state: The trials of the run.
        hooks: The plug-ins.
        recorder: Writes the events to the journal.
        actions: Carries out what the scheduler asks for when it chooses.

    Attributes:
        was_refused: Whether the last `launch` could not start a trial for lack of descriptors.
        has_to_go_on: Whether `launch` has returned early, after many trials that needed no worker, and must go on.
    """

    def __init__(
        self, executor: TrialExecutor, state: RunState, hooks: Hooks, recorder: Recorder, actions: TrialActions
    ):
        settings = state.settings
        self.was_refused = self.has_to_go_on = False
        self._state = state
        self._hooks = hooks
        self._executor = executor
        self._recorder = recorder
        self._actions = actions
        self._settings = settings
        self._max_running = min(settings.max_concurrent_trials or math.inf, hooks.search_alg.max_running or math.inf)
        self._reuse = Reuse(state, hooks, recorder, actions) if settings.reuses_results else None
        self._num_reused = 0
        self._refusal: Refusal | None = None
        self._feasible: Resources | None = None  # was not refused when it was last asked for
        self._shared_env_creators: dict[str, Shared] = {}
        self._workers_write = leave_parameters(hooks.callbacks, workers_write=executor.makes_directories)
        self._is_model_based = isinstance(hooks.search_alg, SearchGenerator)
        self._chooses_in_order = hooks.scheduler.chooses_in_order
        cpus = executor.resources()[0].get(CPU, 1)
        self._ahead = settings.max_ahead or int(max(_AHEAD, 1.1 * cpus))

    def launch(self) -> Refusal | None:
        """Start the scheduler's choice, then waiting trials, while there is room. Then draw some trials ahead.

        Does not block. Trials are drawn one by one: the first worker starts before the second configuration is drawn,
        and a model-based searcher is asked only for trials that can start now. If the searcher has no more, the
        scheduler is asked once more, because it may choose differently when `supply` has changed.

        Returns:
            The first trial that can never start; call `launch` again. None if all is done.
        """
        state = self._state
        state.may_start = True
        if state.supply == WAITING:
            state.supply = OPEN
        asked_at = None
        self._num_reused = 0
        self.has_to_go_on = False
        self.was_refused = False
        while state.supply != asked_at:
            asked_at = state.supply
            while (
                len(state.running) + len(state.leaving) < self._max_running  # a stopped actor still has its resources
                and not self.has_to_go_on
                and (self._start_one() or (state.supply != WAITING and self._add_one()))
            ):
                if self._refusal is not None:
                    return self._take_refusal()
        can_go_on = not (self.was_refused or self.has_to_go_on)
        is_done = can_go_on and (self._is_model_based or self._look_ahead())
        state.may_start = not (is_done and state.supply != WAITING and self._chooses_in_order)
        return self._take_refusal()

    def _take_refusal(self) -> Refusal | None:
        refusal = self._refusal
        self._refusal = None
        return refusal

    def _look_ahead(self) -> bool:
        """Draw some trials that may run next. Returns whether there are enough of them.

        They are drawn in groups. A trial in a group takes a third of the time of a single one, because the code and its
        data are in the processor's caches.
        """
        state = self._state
        ahead = min(self._ahead, self._max_running - len(state.running) - len(state.leaving))
        if state.num_pending > ahead - min(_AHEAD_PER_TURN, ahead // 2):
            return True
        for _ in range(_AHEAD_PER_TURN):
            if state.num_pending >= ahead or not self._ask():
                return True
            if self._refusal is not None:
                return False
        return False

    # -- asking ----------------------------------------------------------------------------------------------------

    def _add_one(self) -> bool:
        """Draw a trial if it could start at once."""
        if self._state.num_pending or self._state.supply == ENDED:
            return False
        if self._is_model_based and self._state.trials:
            try:
                if not self._executor.can_start(self._state.trials[-1].resources):
                    return False
            except TuneError:  # the last trial can never start, but the next one may need less
                pass
        return self._ask()

    def _ask(self) -> bool:
        """Draw a trial from the searcher; False if it has none."""
        if self._state.supply == ENDED:
            return False
        trial = self._hooks.next_trial()
        if trial is None:
            self._state.supply = ENDED if self._hooks.search_alg.is_finished() else WAITING
            return False
        self._state.supply = OPEN
        trial.seed = component_seed(self._settings.seed, f"trial/{trial.number}")
        self._recorder.trial_added(trial)
        self._state.add(trial)
        self._hooks.added(trial)
        self._recorder.note_changes(trial)  # a scheduler may have completed its configuration
        if trial.resources is not self._feasible:
            try:
                self._executor.can_start(trial.resources)
                self._feasible = trial.resources
            except TuneError as error:
                self._refusal = Refusal(trial, TrialError(str(error)))
        return True

    # -- starting ---------------------------------------------------------------------------------------------------

    def _start_one(self) -> bool:
        """Start the scheduler's choice, or else the first waiting trial for which there is room."""
        state = self._state
        candidates = state.queue.heads()
        if not (candidates or state.paused) and self._chooses_in_order:
            return False
        if not (candidates and self._chooses_in_order):  # otherwise it would choose the first candidate
            chosen = self._hooks.choose()
            if state.requests:
                self._actions.run_requests()  # they may concern the candidates
                self._actions.commit()
                candidates = state.queue.heads()
            if chosen is not None and candidates[:1] != [chosen] and state.is_startable(chosen):
                candidates = [chosen, *(trial for trial in candidates if trial is not chosen)]
        for trial in candidates:
            try:
                has_room = self._executor.can_start(trial.resources, waiter=trial.trial_id)
                if not has_room and not state.running and not state.leaving:
                    self._drop_claims(candidates)  # the free resources are reserved for another trial
                    has_room = self._executor.can_start(trial.resources, waiter=trial.trial_id)
            except TuneError as error:  # a worker that cannot be killed keeps the resources
                self._refusal = Refusal(trial, TrialError(str(error)))
                return True
            if has_room:
                return self._start(trial)
        return False

    def _drop_claims(self, candidates: list[Trial]) -> None:
        """Remove the reservations of PAUSED trials that the scheduler does not want to start now."""
        for trial in self._state.trials:
            if trial.phase is Phase.PAUSED and trial not in candidates:
                self._executor.forget(trial.trial_id)

    def _start(self, trial: Trial) -> bool:
        """Start a trial; False if nothing can be started now."""
        if trial.phase is Phase.PAUSED:
            self._state.move(trial, Step.UNPAUSE, "chosen by the scheduler")
            self._recorder.status(trial, "chosen by the scheduler")
            self._hooks.unpaused(trial)
        try:
            directory = self._recorder.prepare_directory(trial, is_left=self._executor.makes_directories)
        except OSError as error:
            if self._lacks_descriptors(error):
                return False
            self._recorder.raise_if_run_ends(error, self._recorder.run.path)
            trial.num_failures += 1
            self._refusal = Refusal(trial, TrialError(f"the directory of trial {trial.name} cannot be used: {error}"))
            return True
        if not self._recorder.is_ours:  # the user's function for directory names has forked, and the child returned
            raise forked_error("a plug-in")
        if trial.report_count:
            trial.reports_before = max(trial.reports_before, trial.report_count)
            self._roll_back(trial)
        trial.attempt += 1
        trial.attempt_config = trial.raw_config
        self._recorder.attempt_starts(trial)
        self._state.move(trial, Step.START, f"attempt {trial.attempt}")
        earlier = self._reuse.find(trial) if self._reuse is not None else None
        if self._reuse is not None and earlier is not None:
            self._make_files(trial)
            self._reuse.end(trial, earlier)
            self._num_reused += 1
            self.has_to_go_on = self._num_reused >= _REUSED_PER_TURN
            return True
        info = self._info(trial, directory)
        creators = self._env_creators(trial)
        trainable = self._settings.experiments[trial.experiment_number].trainable
        factory = functools.partial(make_trial_actor, trainable, info, env_creators=creators)
        # A worker has one trainable, and only the environments that it was started with.
        reuse_key = (
            "/".join([f"trainable {trial.experiment_number}", *creators]) if self._settings.reuse_actors else None
        )
        spec = ActorSpec(trial.actor_id, factory, trial.resources, directory, reuse_key, (info.for_reset(),))
        self._actions.commit()  # the start is in the journal before the trial starts
        try:
            self._executor.start(spec)
        except OSError as error:
            self._recorder.raise_if_run_ends(error, directory)
            raise
        except TypeError as error:
            trial.num_failures += 1
            self._refusal = Refusal(trial, trial_error(RemoteError.of(error), _why_not_sent(trial, error)))
            return True
        self._state.running[trial.actor_id] = RunningTrial(trial, trial.actor_id)
        if self._state.deadlines.are_set and not self._executor.has_queue:
            self._state.deadlines.begin(trial.actor_id, TRIAL, self._executor.clock.monotonic())
        return True

    def _make_files(self, trial: Trial) -> None:
        """Make the directory and the parameter files of a trial that gets no worker, which would make them."""
        try:
            self._recorder.directory_fault(trial)
            if self._workers_write and trial.light is None:
                write_parameters(trial.local_path, trial.raw_config)
        except OSError as error:  # the trial's loggers meet the same error, and log it
            self._recorder.raise_if_run_ends(error, trial.local_path)

    def _lacks_descriptors(self, error: OSError) -> bool:
        """Whether a trial cannot start only because too many files are open."""
        if not descriptors.is_lack(error):
            return False
        self.was_refused = True
        cause = f"could not make a directory for a trial: {error.strerror}"
        self._state.backoff.refused(cause, self._executor.clock.monotonic())
        if self._state.backoff.is_new(cause):
            logger.warning("%s; it is started when resources are free", cause)
        return True

    def _env_creators(self, trial: Trial) -> dict[str, Shared]:
        """The registered creator of the environment that `config["env"]` names, if there is one."""
        name = trial.raw_config.get("env")
        if not isinstance(name, str) or not has_env_creator(name):
            return {}
        if name not in self._shared_env_creators:
            self._shared_env_creators[name] = self._executor.share(get_env_creator(name))
        return {name: self._shared_env_creators[name]}

    def _roll_back(self, trial: Trial) -> None:
        """Drop the reports after the checkpoint from which the trial continues."""
        start = self._state.goes_on_from(trial)
        reached = 0 if start is None else start.report_number
        if trial.report_count > reached:
            self._recorder.rolls_back(trial, reached)
            trial.roll_back(start)

    def _info(self, trial: Trial, directory: str) -> TrialInfo:
        return TrialInfo(
            trial.trial_id,
            trial.name,
            directory,
            self._settings.run_name,
            trial.resources,
            trial.seed,
            trial.light_config,
            trial.attempt,
            trial.next_checkpoint,
            trial.num_failures,
            self._workers_write and trial.light is None,
        )


def _why_not_sent(trial: Trial, error: TypeError) -> str:
    """The error text for a trial that cannot be pickled. It names the part of the configuration that is the cause."""
    try:
        require_picklable(trial.raw_config, f"the configuration of trial {trial.name}")
    except TypeError as named:
        return str(named)
    return f"trial {trial.name} cannot be sent to a worker: {error}"
