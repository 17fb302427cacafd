"""Launcher draws trials from the searcher, and starts them while the executor has room.

A trial that can never start, a `Refusal`, ends the present `launch`: its end may change which trial is next, and may
end the run.
"""

from __future__ import annotations

import functools
import logging
import math
from collections.abc import Callable

from minitune.base.pickling import require_picklable
from minitune.base.seeds import component_seed
from minitune.base.settings import number_setting, setting
from minitune.driver.limits import TRIAL_LIMIT
from minitune.driver.outcomes import Outcomes
from minitune.driver.state import RunningTrial
from minitune.error import RemoteError, TrialError, TuneError, trial_error
from minitune.executors.trial_executor import ActorFactory, ActorSpec, Started
from minitune.experiment.lifecycle import Phase, Transition
from minitune.experiment.trial import StartPoint, Trial
from minitune.experiment.trial_info import TrialInfo
from minitune.record import records
from minitune.resources import Resources
from minitune.schedulers.trial_scheduler import SUPPLY_ENDED, SUPPLY_OPEN, SUPPLY_WAITING
from minitune.trainable.trial_actor import make_trial_actor
from minitune.trainable.util import bind_parameters

logger = logging.getLogger("minitune")

_AHEAD = 200
"""How many trials are drawn ahead. Not measured: more are drawn in vain if the run ends, with fewer short trials may
wait for the searcher.
"""
_AHEAD_PER_TURN = 50
"""How many of them are drawn in one turn of the loop. Not measured: with more, events wait longer."""


class Refusal(Exception):
    """A trial that can never start: raised inside the launcher, returned to the controller."""

    def __init__(self, trial: Trial, error: TrialError):
        super().__init__(trial, error)
        self.trial = trial
        self.error = error


class Launcher:
    """Draws trials from the searcher, and starts them while the executor has room.

    Attributes:
        chooses_in_order: See `TrialScheduler.chooses_in_order`.
    """

    def __init__(
        self,
        outcomes: Outcomes,
        on_started: Callable[[RunningTrial, Started], None],
    ):
        self._outcomes = outcomes
        self._executor = outcomes.executor
        self._state = outcomes.state
        self._hooks = outcomes.hooks
        self._recorder = outcomes.recorder
        self._on_started = on_started
        hooks = outcomes.hooks
        plan = outcomes.state.plan
        most = plan.tune_config.max_concurrent_trials
        self._draws_late = hooks.search_alg.draws_late
        self._reuses = plan.tune_config.reuse_actors
        self._trainable = self._executor.share(bind_parameters(plan.experiment.trainable, self._executor.share))
        self._ahead = _AHEAD
        if setting("MAX_PENDING_TRIALS") != "auto":
            self._ahead = max(1, int(number_setting("MAX_PENDING_TRIALS")))
        self._max_running = min(most or math.inf, hooks.search_alg.max_running or math.inf)
        self.chooses_in_order = hooks.scheduler.chooses_in_order
        # by environment and resources
        self._worker_kinds: dict[Resources, tuple[ActorFactory, str | None]] = {}

    def launch(self) -> Refusal | None:
        """Start the scheduler's choice, then waiting trials, while there is room; then draw some trials ahead.

        Does not block. Returns the first trial that can never start (call `launch` again), or None.
        """
        state = self._state
        waiting = state.waiting
        state.may_start = True
        if state.supply == SUPPLY_WAITING:
            state.supply = SUPPLY_OPEN
        try:
            if self._max_running > len(state.running) + len(waiting.leaving):
                self._start_all()
            num_drawn = len(state.trials)
            room = self._max_running - len(state.running) - len(waiting.leaving)
            is_done = not room or self._look_ahead(room)
            if len(state.trials) > num_drawn and self.chooses_in_order:
                self._start_all()  # one of them may need less than those that wait
        except Refusal as refusal:
            return refusal
        state.may_start = not is_done or state.backoff.is_active
        return None

    def _start_all(self) -> None:
        """Start waiting trials and trials that the searcher draws, while there is room."""
        state = self._state
        waiting = state.waiting
        asked_at = None
        # If the searcher has no more, the scheduler is asked once more: it may choose differently for this supply.
        while state.supply != asked_at:
            asked_at = state.supply
            # A stopped actor has its resources until it has exited.
            while len(state.running) + len(waiting.leaving) < self._max_running:
                has_waiting = waiting.num_pending or waiting.paused or not self.chooses_in_order
                if not ((has_waiting and self._start_one()) or self._draw()):
                    break

    def _start_one(self) -> bool:
        """Start a waiting trial that has room, the scheduler's choice first; False if there is none."""
        state = self._state
        chosen: Trial | None = None
        candidates = state.waiting.heads()
        if not (candidates and self.chooses_in_order):  # otherwise it would choose the first candidate
            chosen = self._hooks.choose()
            if state.requests:
                self._outcomes.run_requests()  # they may concern the candidates
                self._outcomes.commit()
                candidates = state.waiting.heads()
            if chosen is not None and candidates[:1] != [chosen] and state.waiting.may_start(chosen):
                candidates = [chosen, *(trial for trial in candidates if trial is not chosen)]
        for trial in candidates:
            try:
                has_room = self._executor.can_start(trial.resources, waiter=trial.trial_id)
                if not has_room and not (state.running or state.waiting.leaving):
                    self._drop_claims(candidates)  # the free resources are reserved for another trial
                    has_room = self._executor.can_start(trial.resources, waiter=trial.trial_id)
            except TuneError as error:  # a worker that cannot be killed keeps the resources
                raise Refusal(trial, TrialError(str(error))) from None
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
            self._outcomes.take(trial, Transition.UNPAUSE, "chosen by the scheduler")
        try:  # before the record of the start, which names the directory
            directory = self._recorder.directories.prepare(trial)
        except OSError as error:
            self._recorder.directories.raise_if_run_ends(error, self._recorder.run.path)
            text = f"the directory of trial {trial.name} cannot be used: {error}"
            raise Refusal(trial, TrialError(text)) from error
        start = trial.start_point()
        if trial.progress.num_reports:
            self._state.backoff.begins_again(trial.trial_id, trial.progress.num_reports)
            reached = start.progress.num_reports
            if trial.progress.num_reports > reached:
                self._recorder.record(records.rollback(trial.trial_id, trial.attempt.number + 1, reached))
                trial.roll_back()
        # With a new actor id, so that late events of the earlier actor find no trial.
        trial.begin_attempt(trial.attempt.number + 1)
        # After the record of the rollback: for a reader, the attempt goes on from the reports that are left.
        self._recorder.attempt_starts(trial, start.name)
        self._state.move(trial, Transition.START)
        self._start_worker(trial, directory, start)
        return True

    def _start_worker(self, trial: Trial, directory: str, start: StartPoint) -> None:
        """Write the record of the start, then start the worker. Refusal: the trial cannot be sent."""
        factory, reuse_key = self._worker_kind(trial)
        info = TrialInfo(
            trial.trial_id,
            trial.name,
            directory,
            self._recorder.run.name,
            trial.seed,
            trial.current_config,
            trial.attempt.number,
            trial.next_checkpoint,
            trial.num_failures,
        )
        args = (info.fields(),)
        actor_id = trial.attempt.actor_id
        spec = ActorSpec(actor_id, factory, trial.resources, directory, reuse_key, args)
        self._outcomes.commit()  # the start is in the journal before the trial starts
        try:
            started = self._executor.start(spec)
        except OSError as error:
            self._recorder.directories.raise_if_run_ends(error, directory)
            raise
        except TypeError as error:
            raise Refusal(trial, trial_error(RemoteError.of(error), _why_not_sent(trial, error))) from error
        # Only now, so that a trial that cannot be sent owns no actor.
        running = RunningTrial(trial, actor_id, start)
        self._state.running[actor_id] = running
        if self._state.deadlines.are_set and not self._executor.has_queue:
            self._state.deadlines.begin(actor_id, TRIAL_LIMIT, self._outcomes.now_s())
        if started is not None:
            self._on_started(running, started)

    def _worker_kind(self, trial: Trial) -> tuple[ActorFactory, str | None]:
        """The part of a start that many trials share: the factory of the actor, and the key for its reuse."""
        kind = self._worker_kinds.get(trial.resources)
        if kind is None:
            factory = functools.partial(make_trial_actor, self._trainable, trial.resources)
            kind = factory, "trainable" if self._reuses else None
            self._worker_kinds[trial.resources] = kind
        return kind

    # -- drawing -------------------------------------------------------------------------------------------------------

    def _draw(self) -> bool:
        """Draw a trial if it could start at once."""
        state = self._state
        if state.waiting.num_pending or state.supply != SUPPLY_OPEN:
            return False
        if self._draws_late and state.trials:
            try:
                if not self._executor.can_start(state.trials[-1].resources):
                    return False
            except TuneError:  # the last trial can never start, but the next one may need less
                pass
        return self._ask()

    def _look_ahead(self, room: float) -> bool:
        """Draw some trials that may run next, at most `room`; return whether there are enough."""
        if self._draws_late:
            return True
        waiting = self._state.waiting
        ahead = min(self._ahead, room)
        if waiting.num_pending > ahead - min(_AHEAD_PER_TURN, ahead // 2):
            return True
        num_drawn = 0
        while num_drawn < _AHEAD_PER_TURN and waiting.num_pending < ahead:
            if not self._ask():
                return True
            num_drawn += 1
        return waiting.num_pending >= ahead

    def _ask(self) -> bool:
        """Add the searcher's next trial; False if there is none now."""
        state = self._state
        if state.supply == SUPPLY_ENDED:
            return False
        trial = self._hooks.next_trial()
        if trial is None:
            state.supply = SUPPLY_ENDED if self._hooks.search_has_ended() else SUPPLY_WAITING
            return False
        state.supply = SUPPLY_OPEN
        trial.seed = component_seed(state.seed, f"trial/{trial.number}")
        # Recorded before the scheduler hears of it: what the scheduler changes is a record of its own.
        self._recorder.trial_added(trial)
        state.add(trial)
        if self._hooks.added(trial):
            self._recorder.note_changes(trial)  # a scheduler may have completed its configuration
        return True


def _why_not_sent(trial: Trial, error: TypeError) -> str:
    try:
        require_picklable(trial.current_config, f"the configuration of trial {trial.name}")
    except TypeError as named:
        return str(named)
    return f"trial {trial.name} cannot be sent to a worker: {error}"
