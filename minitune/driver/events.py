"""What follows from each event of an actor.

One table says which method handles an event, by its type and the phase of its trial. For one report the
order is: stopper, scheduler, searcher, callbacks, journal, save if due, decision.

An event of an actor that was let go finds no running trial; only its exit matters, for which the trial's next attempt
waits.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from minitune.checkpoint import Checkpoint, CheckpointRecord
from minitune.driver.failure import Failures
from minitune.driver.limits import REPORT_LIMIT, TRIAL_LIMIT
from minitune.driver.outcomes import Outcomes, stronger
from minitune.driver.state import RunningTrial
from minitune.error import TuneError
from minitune.executors.trial_executor import CallRaised, CallReturned, Event, Exited, Placed, Started
from minitune.experiment.decision import CONTINUE, GO_ON, PAUSE, STOP, Decision
from minitune.experiment.endings import Ending, EndKind
from minitune.experiment.lifecycle import OWNS_ACTOR, Phase
from minitune.experiment.trial import Trial
from minitune.result import (
    EXPERIMENT_TAG,
    SHOULD_CHECKPOINT,
    TRAINING_ITERATION,
    Report,
    flatten,
)

_RETURNED = Decision.stop(Ending.of(EndKind.RETURNED))


class Events:
    """Handles the events of actors.

    Attributes:
        table: The method for an event, by its type and the phase of its trial. It gets the running trial and the event.
    """

    def __init__(self, outcomes: Outcomes, failures: Failures):
        self._outcomes = outcomes
        self._failures = failures
        self._executor = outcomes.executor
        self._state = outcomes.state
        self._hooks = outcomes.hooks
        self._recorder = outcomes.recorder
        self._checkpoints = outcomes.checkpoints
        self.table: dict[tuple[type, Phase], Callable[[RunningTrial, Any], None]] = {
            (CallReturned, Phase.STARTING): self._on_stray_answer,
            (CallReturned, Phase.RESTORING): self._on_restored,
            (CallReturned, Phase.TRAINING): self._on_report,
            (CallReturned, Phase.SAVING): lambda running, event: self._saved(running, event.value),
        }
        for phase in OWNS_ACTOR:
            self.table[Placed, phase] = self._on_placed
            self.table[Started, phase] = self.on_started
            self.table[CallRaised, phase] = lambda running, event: failures.raised(running, event.error)
            self.table[Exited, phase] = self._on_exited

    def on_late_event(self, event: Event) -> None:
        """An event of a stopped actor, of which only the exit matters."""
        if not isinstance(event, Exited):
            return
        self._state.may_start = True
        running = self._state.waiting.leaving.get(event.actor_id)
        if running is not None:
            self._outcomes.has_left(running, event)

    def _on_placed(self, running: RunningTrial, event: Placed) -> None:
        """An actor that waited for its resources has them, so its time begins."""
        self._state.may_start = True  # there is more room than was known
        self._state.deadlines.begin(event.actor_id, TRIAL_LIMIT, self._outcomes.now_s())

    def on_started(self, running: RunningTrial, event: Started) -> None:
        """The worker is ready: restore a checkpoint if there is one, then request the first report."""
        trial = running.trial
        backoff = self._state.backoff
        if backoff.is_active or not backoff.has_come_up:
            backoff.started()
        running.allocation = event.allocation
        trial.attempt.is_ready(event.pid)
        self._hooks.tell("on_trial_start", trial)
        start = running.start
        if start.path is not None:
            self._outcomes.restore(running, start.path, start.metrics)
        else:
            self._outcomes.pull(running)
        devices = event.allocation.gpu_ids
        if devices:  # the record of the start did not know them
            self._recorder.status(trial, f"the worker is ready on GPU {', '.join(devices)}")

    def _on_restored(self, running: RunningTrial, event: CallReturned) -> None:
        self._hooks.tell("on_trial_restore", running.trial)
        self._outcomes.pull(running)

    def _on_stray_answer(self, running: RunningTrial, event: CallReturned) -> None:
        raise TuneError(f"a reply of {running.actor_id} came before its worker was ready")

    def _on_exited(self, running: RunningTrial, event: Exited) -> None:
        """The actor's process and its descendants have exited, although it was not stopped."""
        state = self._state
        trial = running.trial
        state.may_start = True
        # First of all: what follows must find no actor that it would stop or call.
        state.running.pop(event.actor_id)
        state.deadlines.forget(event.actor_id)
        self._failures.exited(running, event)
        self._recorder.directories.clean(trial)

    # -- reports and saves ---------------------------------------------------------------------------------------------

    def _on_report(self, running: RunningTrial, event: CallReturned) -> None:
        """Handle a report, in the order of the module's docstring."""
        trial = running.trial
        state = self._state
        if state.deadlines.are_set:
            state.deadlines.end(running.actor_id, REPORT_LIMIT)
        report: Report = event.value
        result, checkpoint, is_done, has_returned = report
        if result is None:
            if checkpoint is None:
                self._on_return(running)
            else:  # a checkpoint without metrics; it belongs to the last result
                self._saved(running, checkpoint)
            return
        if state.backoff.is_active:
            state.backoff.reported(trial.trial_id, trial.progress.num_reports, is_done=is_done)
        if not self._failures.is_sound(running, result):
            return
        hooks = self._hooks
        decision = hooks.decide(trial, result, ends=is_done)
        running.is_final = decision == STOP
        completed = hooks.result(trial, result)
        if running.requested is not None:
            decision = stronger(decision, running.requested)
            running.requested = None
        if has_returned and decision == PAUSE and decision.exploit is None:
            decision = GO_ON  # nothing is left to run: the trial ends as one that has returned
        if hooks.stops_run and decision != STOP and state.ending is None and hooks.wants_all_stopped():
            decision = Decision.stop(hooks.ending_by_stopper())  # otherwise it would begin one more step
        running.decision = decision
        is_to_be_saved = self._outcomes.saves and self._save_is_due(trial, result, decision)
        result[EXPERIMENT_TAG] = trial.experiment_tag
        trial.record_result(result, flatten(completed))
        self._recorder.result(trial, decision, checkpoint)
        if checkpoint is not None:
            self._register(trial, checkpoint, reported=True)
            hooks.tell("on_trial_save", trial)
        if is_to_be_saved:
            self._outcomes.save(running)
        elif decision != CONTINUE or decision.exploit is not None:
            self._outcomes.carry_out(running, decision)
        elif has_returned:
            self._on_return(running)
        else:
            self._outcomes.pull(running)

    def _on_return(self, running: RunningTrial) -> None:
        """The function has returned without new metrics: its last result is its final one."""
        trial = running.trial
        running.is_final = True
        if self._state.backoff.is_active:
            self._state.backoff.progressed(trial.trial_id)
        running.decision = _RETURNED
        if not trial.progress.num_reports:
            trial.returns()
        elif self._checkpoints.checkpoint_at_end:
            self._outcomes.save(running)
            return
        self._outcomes.end(trial, _RETURNED.ending, now=True)

    def _save_is_due(self, trial: Trial, result: dict[str, Any], decision: Decision) -> bool:
        """Whether to save a class trainable after this result, before its decision."""
        if decision == PAUSE and decision.exploit is not None and not decision.save:
            return False  # the exploit replaces its state
        if decision == PAUSE or decision.save or result.get(SHOULD_CHECKPOINT):
            return True
        if decision == STOP and (self._checkpoints.checkpoint_at_end or self._state.interrupted):
            return True
        frequency = self._checkpoints.checkpoint_frequency
        iteration = result.get(TRAINING_ITERATION)
        if not isinstance(iteration, int):  # a user may report any value under this name
            iteration = trial.progress.num_reports + 1
        return bool(frequency) and iteration % frequency == 0

    def _saved(self, running: RunningTrial, record: CheckpointRecord | None) -> None:
        """A class trainable has written its checkpoint: carry out the decision that has waited."""
        trial = running.trial
        if record is not None:
            self._register(trial, record, reported=False)
        self._hooks.tell("on_trial_save", trial)
        decision = stronger(running.decision, running.requested)
        running.requested = None
        self._outcomes.carry_out(running, decision)

    def _register(self, trial: Trial, record: CheckpointRecord, *, reported: bool) -> None:
        """Take in a committed checkpoint, then remove surplus ones. `reported`: the journal already names it."""
        checkpoint = Checkpoint(os.path.join(trial.local_path, record.directory))
        self._hooks.tell("on_checkpoint", trial, checkpoint=checkpoint)
        self._recorder.checkpoint(trial, trial.record_checkpoint(record), reported=reported)
        if trial.inherited is not None:
            self._outcomes.release_inherited(trial)  # not earlier: a retry would need the donor's files again
