"""TuneController: ask, launch, wait, apply.

The driver is a loop in one thread. An event and the phase of its trial determine what to do. For one report the order
is: stopper, scheduler, searcher, callbacks, journal, save if due, decision. A scheduler may request actions on *other*
trials. They are carried out after its hook has returned, so nothing is re-entrant.

The events of a turn share one write of the journal. Workers get their answers after it (`TrialActions.commit`).
"""

from __future__ import annotations

import logging
import os
import time
from collections import Counter
from typing import Any

from minitune.checkpoint import Checkpoint, CheckpointRecord
from minitune.config import CheckpointConfig
from minitune.decision import CONTINUE, PAUSE, STOP, Decision
from minitune.driver.actions import TrialActions, about, stronger
from minitune.driver.failure import (
    REPORT,
    TRIAL,
    AfterFailure,
    RequiredMetrics,
    after_failure,
    died_by_signal,
    died_error,
    lost_error,
    raised_by_signal,
    raised_error,
    timeout_error,
)
from minitune.driver.hooks import Hooks
from minitune.driver.launching import TrialLauncher
from minitune.driver.report_path import ReportPath
from minitune.driver.state import ENDED, WAITING, RunningTrial, RunState
from minitune.error import DiskError, TrialError, TuneError, WorkerStartError
from minitune.executors.trial_executor import CallRaised, Event, Exited, Placed, Started, TrialExecutor
from minitune.experiment.endings import Ending, EndKind
from minitune.experiment.lifecycle import Phase, Step
from minitune.experiment.trial import Trial
from minitune.record.journal import LOOK_S
from minitune.record.recorder import Recorder
from minitune.result import DONE, EXPERIMENT_TAG, SHOULD_CHECKPOINT, TRAINING_ITERATION, Report, complete, flatten
from minitune.schedulers.trial_scheduler import CONTINUE as GO_ON

logger = logging.getLogger("minitune")

_RETURNED = Decision.stop(Ending.of(EndKind.RETURNED))
_TOGETHER = 64
_TOGETHER_S = 0.005
"""At most so many events, or the events of so many seconds, share a write: a slow callback delays few workers."""
_ASK_AGAIN_S = 0.002
_ASK_AGAIN_MAX_S = 0.1
"""A searcher that says "not now" while nothing runs is asked again after a pause. Pauses double from the first of these
values to the second."""
_ASKS_UNTIL_SAID = 100
"""If the searcher says "not now" so many times while nothing runs (about 10 s), a warning tells what the run waits for.
"""


class TuneController:
    """Runs the trials of one run to their ends.

    Args:
        executor: Runs the actors.
        state: The trials and the settings. In a resumed run it has the trials of the earlier part.
        hooks: The plug-ins.
        recorder: Writes the events to the journal.

    Attributes:
        failed_fast: The trial whose failure has ended the run, or None.
    """

    def __init__(self, executor: TrialExecutor, state: RunState, hooks: Hooks, recorder: Recorder):
        settings = state.settings
        self.failed_fast: Trial | None = None
        self._executor = executor
        self._now = executor.clock.monotonic
        self._state = state
        self._hooks = hooks
        self._recorder = recorder
        self._settings = settings
        self._is_ordered = settings.is_ordered
        self._deadlines = state.deadlines
        self._backoff = state.backoff
        self._metrics = RequiredMetrics(
            hooks.metrics(settings.metric) if settings.strict_metric else (),
            is_bare=hooks.goes_by_bare_number(settings.metric),
        )
        self._end_deadline_s = 0.0
        self._has_news = True
        self._asked_in_vain = 0
        self._failed_restores: Counter[str] = Counter()
        self._actions = TrialActions(executor, state, hooks, recorder)
        self._launcher = TrialLauncher(executor, state, hooks, recorder, self._actions)

    # -- the loop --------------------------------------------------------------------------------------------------

    def step(self, max_wait_s: float | None = None) -> None:
        """One turn: ask, launch, wait, apply.

        Most turns bring one report, so this method checks only what may need work.

        Args:
            max_wait_s: The maximum wait for an event; None means no limit.
        """
        state = self._state
        hooks = self._hooks
        if hooks.hears_turns:
            hooks.step_begins()
        if state.to_end:
            while state.to_end:
                self._end_stopped(*state.to_end.pop(0))
            self._actions.commit()
        if state.resting:
            state.end_rests(self._now())
        is_due = state.may_start or not state.running or state.requests
        if is_due and state.ending is None:
            self._launch()
        is_over = not (state.running or state.unfinished) and state.supply == ENDED
        if not is_over and not (self._is_ordered and self._launcher.has_to_go_on):
            self._apply(self._patience_s(max_wait_s))
            if self._deadlines.are_set:
                self._stop_overdue()
        if hooks.stops_run and state.ending is None and hooks.wants_all_stopped():
            self.end_run(self._why_ended())
        if state.ending is not None and self._now() >= self._end_deadline_s:
            for running in list(state.running.values()):  # their grace period is over: end them without a save
                self._actions.cut_short(running, state.ending)
            self._actions.commit()
        hooks.iteration += 1
        if hooks.hears_turns:
            hooks.step_ends()

    def _launch(self) -> None:
        """Start trials, end those that can never start, and then carry out the requests of schedulers."""
        state = self._state
        may_launch = not self._is_ordered or self._may_launch()
        if may_launch and not (self._backoff.is_active and self._has_to_wait()):
            while state.ending is None and (refusal := self._launcher.launch()) is not None:
                self._give_up_before_start(*refusal)
        if state.requests:
            self._actions.run_requests()
        self._actions.commit()
        if not state.running:
            self._check_stuck()

    def _apply(self, timeout_s: float | None) -> None:
        """Wait for events, and apply them and the requests that schedulers make meanwhile."""
        events = self._executor.wait(timeout_s)
        self._has_news = bool(events) and not isinstance(events[0], Placed)  # in logical order there is one at a time
        count = 0
        until_s = time.monotonic() + _TOGETHER_S
        for event in events:
            if count >= _TOGETHER or time.monotonic() >= until_s:
                self._actions.commit()
                count = 0
                until_s = time.monotonic() + _TOGETHER_S
            count += 1
            self._on_event(event)
            if self._state.requests:
                self._actions.run_requests()
        self._actions.commit()

    def _may_launch(self) -> bool:
        """Whether plug-ins may be asked in this turn of a run with logical order: not if a timeout has caused it.

        Otherwise a plug-in that draws a random number at each call would draw more of them on a slow machine.
        """
        return self._has_news or self._launcher.has_to_go_on or not (self._state.running or self._state.leaving)

    def _has_to_wait(self) -> bool:
        """Whether no worker may start now.

        If no attempt brings anything new, no trial starts while another one rests. Otherwise a searcher without an end
        would bring trial after trial, and the run would never come to the point where nothing runs.
        """
        if self._backoff.is_hopeless and self._state.resting:
            return True
        return self._backoff.seconds_left(self._now()) > 0

    def how_ended(self) -> Ending:
        """How the run has ended, for the journal."""
        return self._state.ending or Ending.of(EndKind.FINISHED)

    def unwind(self) -> bool:
        """Wait for the workers that were stopped. Blocks until one has exited, or `wake` is called.

        Returns:
            Whether there may be more of them. The executor kills workers that exceed the grace period.
        """
        if not self._state.leaving:
            return False
        self._apply(None)
        return True

    def end_run(self, ending: Ending) -> None:
        """End every unfinished trial, and draw no new ones. Does not block. Call `step` until all trials have ended.

        Args:
            ending: Why the run ends, and its trials with it. After a signal the journal keeps the trials unfinished.
        """
        if self._state.ending is not None:
            return
        self._state.ending = ending
        resumable = self._state.interrupted
        self._end_deadline_s = self._now() + self._settings.grace_s
        self.end_supply()
        for trial in list(self._state.unfinished.values()):
            running = self._state.running.get(trial.actor_id)
            if running is None:
                self._actions.remove(trial, ending)
            elif trial.phase is Phase.SAVING or (
                trial.phase is Phase.TRAINING and self._saves_at_end(trial, resumable)
            ):
                running.requested = Decision.stop(ending)
            else:
                self._actions.cut_short(running, ending)
        self._actions.commit()

    def end_supply(self) -> None:
        """No more trials come."""
        self._hooks.search_ends()
        self._state.supply = ENDED
        self._state.may_start = True

    def _why_ended(self) -> Ending:
        return Ending.of(EndKind.STOPPER, self._hooks.stopper.describe())

    def _end_stopped(self, trial: Trial, ending: Ending) -> None:
        """End a RUNNING trial of an earlier driver whose final result is in the journal.

        If the trial must be saved at its end and was not, it continues from its last checkpoint to the end instead.
        """
        is_saved = bool(trial.checkpoints) and trial.checkpoints[-1].report_number == trial.report_count
        if self._saves_at_end(trial) and not is_saved:
            self._state.move(trial, Step.RETRY, Ending.of(EndKind.DRIVER_ENDED))
            return
        self._hooks.completed(trial)
        self._actions.move(trial, Step.STOP, ending)
        self._actions.is_over(trial)

    def _stop_overdue(self) -> None:
        """Stop the workers of trials that have exceeded a time limit. The trials fail when the workers have exited.

        Messages that have already arrived are read first, because the driver itself may have been suspended.
        """
        if self._deadlines.seconds_left(self._now()) != 0:
            return
        self._apply(0)
        for actor_id in self._settings.answered() if self._settings.answered is not None else ():
            self._deadlines.end(actor_id, REPORT)  # its report is in time, but another event comes first
        for overdue in self._deadlines.overdue(self._now()):
            running = self._state.running[overdue.actor_id]
            running.overdue = overdue
            self._executor.stop(running.actor_id, self._settings.grace_s, dump=True)

    def _saves_at_end(self, trial: Trial, resumable: bool = False) -> bool:
        settings = self._settings.experiments[trial.experiment_number]
        return settings.saves and (resumable or bool(settings.checkpoints.checkpoint_at_end))

    def _patience_s(self, max_wait_s: float | None) -> float | None:
        """How long to wait for an event, in seconds; None means no limit."""
        state = self._state
        limits = [] if max_wait_s is None else [max_wait_s]
        if self._launcher.has_to_go_on:
            limits.append(0.0)
        if state.ending is not None:
            limits.append(max(0.0, self._end_deadline_s - self._now()))
        elif not state.running and state.supply == WAITING and not state.num_pending:
            limits.append(self._seconds_to_next_ask())
        else:
            self._asked_in_vain = 0
        if self._backoff.is_active:
            wait_s = self._backoff.seconds_left(self._now())
            if wait_s or self._launcher.was_refused:
                limits.append(wait_s)
        for left_s in (
            state.seconds_of_rest(self._now()) if state.resting else None,
            # the stopper is not asked about a run that is ending
            self._hooks.seconds_left() if self._hooks.turns_loop and state.ending is None else None,
            self._deadlines.seconds_left(self._now()) if self._deadlines.are_set else None,
        ):
            if left_s is not None:
                limits.append(max(0.0, left_s))
        return min(limits, default=None)

    def _seconds_to_next_ask(self) -> float:
        """When to ask a searcher again that said "not now" while nothing runs; it may wait for something outside."""
        self._asked_in_vain += 1
        if self._asked_in_vain == _ASKS_UNTIL_SAID:
            logger.warning(
                'nothing runs: the searcher says "not now" and the scheduler chooses none of %d PAUSED trials; '
                "both are asked again. A searcher with no more configurations must return Searcher.FINISHED",
                len(self._state.paused),
            )
        return min(_ASK_AGAIN_S * 2.0 ** min(self._asked_in_vain, 10), _ASK_AGAIN_MAX_S)

    def _check_stuck(self) -> None:
        """Raise an error if the run waits for an event that cannot come."""
        state = self._state
        if state.running or state.leaving or not state.unfinished:
            return
        if self._backoff.is_hopeless:
            raise self._backoff.error()
        if state.resting or state.requests or state.supply == WAITING:
            return
        if state.paused and not state.queue:
            raise TuneError(
                f"nothing runs and no more trials will come, but {len(state.paused)} trials are PAUSED and "
                f"{type(self._hooks.scheduler).__name__}.choose_trial_to_run chooses none of them; it must return a "
                "paused trial, or stop it"
            )

    # -- events ------------------------------------------------------------------------------------------------------

    def _on_event(self, event: Event) -> None:
        """Apply one event. For an actor that was stopped, only `Exited` matters."""
        running = self._state.running.get(event.actor_id)
        if isinstance(event, Exited):
            self._on_exited(event, running)
            return
        if running is None:
            return
        phase = running.trial.phase
        if isinstance(event, Placed):
            self._state.may_start = True  # there is more room than was known
            if self._deadlines.are_set:
                self._deadlines.begin(event.actor_id, TRIAL, self._now())
            return
        if isinstance(event, Started):
            self._on_started(running, event)
            return
        if isinstance(event, CallRaised):
            error = raised_error(event.error, starting=phase is Phase.STARTING)
            refused = error.__cause__
            if isinstance(refused, DiskError) and refused.run_path == self._recorder.run.path:
                raise refused  # no trial is to blame, so this one stays unfinished
            if raised_by_signal(event.error):
                self._on_loss(running, error, by_signal=True)
            else:
                self._on_failure(running, error)
        elif phase is Phase.TRAINING:
            self._on_report(running, event.value)
        elif phase is Phase.SAVING:
            self._on_saved(running, event.value)
        elif phase is Phase.RESTORING:
            self._failed_restores.pop(running.trial.trial_id, None)
            self._hooks.restored(running.trial)
            self._actions.pull(running)
        else:
            raise TuneError(
                f"a reply of {running.actor_id} came in phase {phase.name}:\n{running.trial.format_story()}"
            )

    def _on_started(self, running: RunningTrial, event: Started) -> None:
        """The worker is ready. Restore a checkpoint if there is one, then request the first report."""
        self._backoff.started()
        trial = running.trial
        running.allocation = event.allocation
        trial.pid = event.pid
        trial.start_time = self._executor.clock.time()
        self._hooks.started(trial)
        inherited = self._state.inherited.get(trial.trial_id)
        if inherited is not None:
            source: tuple[str, dict[str, Any]] | None = (inherited.path, inherited.metrics)
        elif trial.checkpoints:
            source = (trial.checkpoint.path if trial.checkpoint else "", trial.checkpoints[-1].metrics)
        else:
            source = (trial.start_checkpoint.path, {}) if trial.start_checkpoint else None
        devices = event.allocation.gpu_ids
        place = f" on GPU {', '.join(devices)}" if devices else ""
        if source is None:
            self._actions.move(trial, Step.TRAIN, f"the worker is ready{place}")
            self._actions.pull(running)
        else:
            path, metrics = source
            self._actions.restore(running, path, metrics, f"from {os.path.basename(path)}{place}")
        if devices:  # the record of the start did not know them
            self._recorder.status(trial, f"the worker is ready{place}")

    def _on_report(self, running: RunningTrial, report: Report) -> None:
        """Handle a report, in the order of the module's docstring."""
        trial = running.trial
        hooks = self._hooks
        if self._deadlines.are_set:
            self._deadlines.end(running.actor_id, REPORT)
        result, checkpoint, is_done, has_returned = report
        if result is None:
            if checkpoint is None:
                self._on_return(running)
            else:  # a checkpoint without metrics; it belongs to the last result
                self._on_saved(running, checkpoint)
            return
        if self._backoff.is_active and (is_done or trial.report_count >= trial.reports_before):
            self._backoff.progressed(trial.trial_id)
        # Nearly all reports have the keys and types of the previous one, so no metric is missing. They take the fast
        # path to the files, and their trial's directory is checked only once a second.
        path = running.path if checkpoint is None and running.path is not None and running.path.fits(result) else None
        if (path is None or time.monotonic() >= running.look_s) and not self._is_sound(running, result):
            return
        decision = GO_ON
        if hooks.hears_results or is_done or result.get(DONE) or trial.stopping_criterion:
            decision = hooks.decide(trial, result, ends=is_done)
        running.ends_by_itself = decision == STOP
        if hooks.shows_results:
            hooks.result(trial, result)
        if running.requested is not None:
            decision = stronger(decision, running.requested)
            running.requested = None
        if hooks.stops_run and decision != STOP and self._state.ending is None and hooks.wants_all_stopped():
            decision = Decision.stop(self._why_ended())  # otherwise the trial would begin one more step
        running.decision = decision
        if path is not None and (hooks.hears_results or hooks.shows_results) and not path.fits(result):
            path = None  # a plug-in has changed the result
        settings = self._settings.experiments[trial.experiment_number]
        is_to_be_saved = settings.saves and self._save_is_due(trial, settings.checkpoints, result, decision)
        ends = None
        if (decision == STOP or has_returned) and not is_to_be_saved:
            ends = self._end_with_result(running, has_returned)
        if path is None or ends is not None or not path.write(result, decision):
            self._write(running, result, checkpoint, ends)
        if is_to_be_saved:
            self._actions.save(running)
        elif decision != CONTINUE or decision.exploit is not None:
            self._actions.carry_out(running, decision)
        elif has_returned:
            self._on_return(running)
        else:
            self._actions.pull(running)

    def _is_sound(self, running: RunningTrial, result: dict[str, Any]) -> bool:
        """Whether the trial's directory exists and the result has the required metrics. If not, the trial fails."""
        trial = running.trial
        running.look_s = time.monotonic() + LOOK_S
        error = self._directory_error(trial)
        if error is not None:
            self._on_failure(running, error, final=True)
            return False
        missing = None if self._metrics.is_over else self._metrics.error_of(result)
        if missing is None:
            return True
        self._on_failure(running, missing, final=True)
        if self._state.ending is None:  # otherwise the run is already ending for another reason
            self._metrics.has_failed(missing, self._state.trials)
        return False

    def _directory_error(self, trial: Trial) -> TrialError | None:
        """The error of a trial whose directory cannot be used any more; None if it can. A lost run raises DiskError."""
        fault = self._recorder.directory_fault(trial)
        return None if fault is None else TrialError(f"the directory of trial {trial.name} cannot be used: {fault}")

    def _end_with_result(self, running: RunningTrial, has_returned: bool) -> Ending | None:
        """Why the trial ends now, with the result that it has just reported and without a save; None if it does not."""
        decision = running.decision
        if decision.exploit is not None:
            return None
        if decision == STOP and (running.ends_by_itself or not self._state.interrupted):
            return decision.ending
        if decision == CONTINUE and has_returned and not self._saves_at_end(running.trial):
            return _RETURNED.ending
        return None

    def _write(
        self, running: RunningTrial, result: dict[str, Any], checkpoint: CheckpointRecord | None, ends: Ending | None
    ) -> None:
        """Write a result of any kind and its decision to the loggers' files and to the journal.

        Args:
            running: The trial and its actor.
            result: The result.
            checkpoint: The checkpoint that came with it.
            ends: Why the trial ends with this result, if it does.
        """
        trial = running.trial
        hooks = self._hooks
        completed = complete(result, trial.attempt_config)
        hooks.log(trial, completed)
        journal = self._recorder.journal if running.has_reported and checkpoint is None else None
        if journal is not None and (running.path is None or not running.path.fits(result)):
            running.path = ReportPath.after(trial, result, hooks.logs, journal)
        running.has_reported = True
        result[EXPERIMENT_TAG] = trial.experiment_tag
        trial.record_result(result, flatten(completed))
        self._recorder.result(trial, result, running.decision, checkpoint, ends)
        if checkpoint is not None:
            self._register(trial, checkpoint, reported=True)
            hooks.saved(trial)

    def _on_return(self, running: RunningTrial) -> None:
        """The function has returned without new metrics, so its last result is its final one."""
        trial = running.trial
        running.ends_by_itself = True
        if self._backoff.is_active:
            self._backoff.progressed(trial.trial_id)
        trial.returns()
        running.decision = _RETURNED
        if self._saves_at_end(trial) and trial.report_count:
            self._actions.save(running)
        else:
            self._actions.carry_out(running, running.decision)

    def _save_is_due(self, trial: Trial, config: CheckpointConfig, result: dict[str, Any], decision: Decision) -> bool:
        """Whether to save a class trainable after this result, which is not counted yet, and before its decision."""
        if decision == PAUSE and decision.exploit is not None and not decision.save:
            return False  # the exploit replaces its state
        if decision == PAUSE or decision.save or result.get(SHOULD_CHECKPOINT):
            return True
        if decision == STOP and (config.checkpoint_at_end or self._state.interrupted):
            return True
        frequency = config.checkpoint_frequency
        iteration = result.get(TRAINING_ITERATION)
        if not isinstance(iteration, int):  # a user may report any value under this name
            iteration = trial.report_count + 1
        return bool(frequency) and iteration % frequency == 0

    def _on_saved(self, running: RunningTrial, record: CheckpointRecord | None) -> None:
        """A class trainable has written its checkpoint. Carry out the decision that has waited for it."""
        trial = running.trial
        if record is not None:
            self._register(trial, record, reported=False)
        self._hooks.saved(trial)
        decision = stronger(running.decision, running.requested)
        running.requested = None
        self._actions.carry_out(running, decision)

    def _register(self, trial: Trial, record: CheckpointRecord, *, reported: bool) -> None:
        """Take in a committed checkpoint, then remove surplus checkpoints.

        Args:
            trial: The trial.
            record: The checkpoint in the trial's directory.
            reported: True if it came with a report, whose record in the journal already names it.
        """
        self._hooks.checkpointed(trial, Checkpoint(os.path.join(trial.local_path, record.directory)))
        self._recorder.checkpoint(trial, trial.record_checkpoint(record), reported=reported)
        self._actions.release_inherited(trial)  # not earlier: a retry would need the donor's files again

    def _on_exited(self, event: Exited, running: RunningTrial | None) -> None:
        """The actor's process and all its descendants have exited."""
        trial_id, _, _ = event.actor_id.rpartition("#")
        self._state.may_start = True
        if self._backoff.is_active and event.kind != "refused":
            self._backoff.has_room()
        if running is not None:
            trial = running.trial
            self._state.running.pop(event.actor_id)
            self._deadlines.forget(event.actor_id)
            if running.overdue is not None:
                self._on_failure(running, timeout_error(trial, running.overdue, event), gone=True)
            elif event.kind == "refused":
                self._on_refused(running, event)
            elif not event.counts:
                num_losses = self._backoff.num_in_row(trial_id) + 1
                self._on_loss(running, lost_error(trial, event, num_losses), gone=True)
            elif died_by_signal(event):
                self._on_loss(running, died_error(trial, event), by_signal=True, gone=True)
            else:
                self._on_failure(running, died_error(trial, event), gone=True)
            self._recorder.worker_is_gone(trial)
        elif self._state.leaving.get(trial_id) == event.actor_id:
            self._actions.has_left(trial_id, event)

    # -- losses and failures -----------------------------------------------------------------------------------------

    def _on_refused(self, running: RunningTrial, event: Exited) -> None:
        """The worker could not be started. The trial waits for its turn again."""
        self._backoff.refused(event.cause, self._now())
        self._retry_lost(running.trial, Ending.of(EndKind.REFUSED, event.cause), event.cause)

    def _on_loss(
        self, running: RunningTrial, error: TrialError, *, by_signal: bool = False, gone: bool = False
    ) -> None:
        """The worker was lost. The trial is probably not to blame, so it waits for another one; plug-ins are not told.

        If it loses one worker after the other, it has failed.

        Args:
            running: The trial and its actor.
            error: Its error, if it has failed.
            by_signal: Whether the worker was lost by a signal that may be meant for the whole run.
            gone: True if the actor has already exited.
        """
        trial = running.trial
        if self._backoff.has_lost_too_many(trial.trial_id, by_signal=by_signal):
            self._on_failure(running, error, gone=gone)
            return
        if not gone:
            self._actions.let_go(running, keep=False)
        cause = error.summary()
        self._retry_lost(trial, Ending.of(EndKind.LOST, cause), cause)
        if self._state.ending is None:
            self._let_rest(trial, cause, by_signal=by_signal)

    def _retry_lost(self, trial: Trial, ending: Ending, cause: str) -> None:
        level = logging.WARNING if self._backoff.is_new(cause) else logging.DEBUG
        text = "trial %s lost its worker (%s); it is started again (logged once)"
        logger.log(level, text, trial.name, cause, extra=about(trial))
        self._actions.move(trial, Step.RETRY, ending)
        self._actions.remove_if_run_ends(trial)

    def _let_rest(self, trial: Trial, cause: str, *, by_signal: bool = False) -> None:
        """An attempt was in vain: delay the next one."""
        wait_s = self._backoff.in_vain(trial.trial_id, cause, by_signal=by_signal)
        if wait_s > 0:
            self._state.rest(trial, self._now() + wait_s)

    def _on_failure(self, running: RunningTrial, error: TrialError, *, final: bool = False, gone: bool = False) -> None:
        """An attempt has failed. Its worker is not reused, because the failure may have left anything in its process.

        Args:
            running: The trial and its actor.
            error: The failure.
            final: True if another attempt cannot help.
            gone: True if the actor has already exited.
        """
        trial = running.trial
        directory_error = self._directory_error(trial)
        if directory_error is not None:  # another attempt cannot help
            error = directory_error
            final = True
        is_free = False
        if trial.phase is Phase.RESTORING and not final:  # the first few failed restores in a row do not count
            self._failed_restores[trial.trial_id] += 1
            is_free = self._failed_restores[trial.trial_id] <= self._settings.free_restore_failures
        trial.num_failures += not is_free
        after = AfterFailure.RETRY if is_free else after_failure(self._settings.failure, trial, final=final)
        if not gone:
            self._actions.let_go(running, keep=False)
        cause = error.summary()
        self._recorder.failure(trial, error)
        if after is not AfterFailure.RETRY:
            trial.error = error  # it shows schedulers that the trial will not be retried
        self._hooks.failed(trial)
        if after is AfterFailure.RETRY:
            self._actions.step_back(trial, refused=trial.phase is Phase.RESTORING)
            logger.warning(
                "trial %s failed (%s); attempt %d of %s starts from %s",
                trial.name,
                cause,
                trial.num_failures + 1,  # for users, a start after a pause is not another attempt
                trial.max_failures + 1 if trial.max_failures >= 0 else "any number",
                trial.checkpoints[-1].record.directory if trial.checkpoints else "the beginning",
                extra=about(trial),
            )
            self._actions.move(trial, Step.RETRY, Ending(EndKind.FAILED, cause, {}))
            self._hooks.recovers(trial)
            if trial.max_failures < 0 and self._state.ending is None:
                if isinstance(error, WorkerStartError):
                    self._backoff.failed_to_start(trial.trial_id, cause)
                self._let_rest(trial, cause)
            self._actions.remove_if_run_ends(trial)
        else:
            self._fail(trial, cause, after)

    def _give_up_before_start(self, trial: Trial, error: TrialError) -> None:
        """A trial that can never start ends in ERROR. The other trials continue."""
        trial.num_failures = max(1, trial.num_failures)
        self._executor.forget(trial.trial_id)
        self._recorder.failure(trial, error)
        trial.error = error
        self._hooks.failed(trial)
        self._fail(trial, str(error), after_failure(self._settings.failure, trial, final=True))

    def _fail(self, trial: Trial, cause: str, after: AfterFailure) -> None:
        """A trial has failed for good; its error is set."""
        self._actions.move(trial, Step.FAIL, Ending(EndKind.FAILED, cause, {}))
        self._actions.is_over(trial)
        self._hooks.errored(trial)
        if after is AfterFailure.END_RUN:
            self.failed_fast = self.failed_fast or trial
            self.end_run(Ending.of(EndKind.FAIL_FAST, f"trial {trial.name} failed", trial=trial.trial_id))
