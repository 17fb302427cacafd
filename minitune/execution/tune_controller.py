"""TuneController: ask, launch, wait, apply.

The driver is one single-threaded loop. An event says what became of an actor; the pair (event, phase of its trial)
says what to do. For one report the order is: stopper, scheduler, searcher, callbacks, journal, save if due, decision.
What a scheduler asks for about *other* trials is carried out after its hook has returned, so nothing is re-entrant.

The events of a turn share one write of the journal, and workers are answered after it (`TrialActions.commit`).
"""

from __future__ import annotations

import logging
import math
import os
import time
from collections import Counter, deque
from typing import Any, NamedTuple

from minitune.checkpoint import Checkpoint, CheckpointRecord
from minitune.config import CheckpointConfig
from minitune.decision import CONTINUE, PAUSE, STOP, Decision
from minitune.error import STOP_SWALLOWED, TrialError, TuneError, WorkerStartError
from minitune.execution.actions import TrialActions, stronger
from minitune.execution.failure import (
    BY_SIGNAL,
    DRIVER_ENDED,
    LOST,
    REPORT,
    VERDICT_S,
    AfterFailure,
    CrashLoop,
    RequiredMetrics,
    after_failure,
    carrier_error,
    died_by_signal,
    died_error,
    raised_by_signal,
    raised_error,
    timeout_error,
)
from minitune.execution.hooks import FAIL_FAST, STOPPER_ENDS, Hooks
from minitune.execution.launcher import Launcher
from minitune.execution.report_path import ReportPath
from minitune.execution.state import ENDED, WAITING, Live, RunState
from minitune.execution.trial_executor import CallRaised, Event, Exited, Started, TrialExecutor
from minitune.experiment.lifecycle import Phase, Step
from minitune.experiment.trial import HAS_RETURNED, Trial
from minitune.record import records
from minitune.record.disk import RETRY_S
from minitune.record.journal import LOOK_S
from minitune.record.recorder import Recorder
from minitune.result import CONFIG, DONE, EXPERIMENT_TAG, SHOULD_CHECKPOINT, TRAINING_ITERATION, Report
from minitune.schedulers.trial_scheduler import CONTINUE as GO_ON

logger = logging.getLogger("minitune")


_RETURNED = Decision(STOP, HAS_RETURNED)
_TOGETHER, _TOGETHER_S = 64, 0.005
"""So many events, or those of so many seconds, share a write at most: a slow callback holds up few workers."""
_ASK_AGAIN_S = 0.002
_ASK_AGAIN_MAX_S = 0.1
_ASKS_UNTIL_SAID = 100
"""After so many answers of "not now" while nothing runs, about 10 s, the user is told what the run waits for."""


class _Undecided(NamedTuple):
    """A trial that a signal has ended, and what becomes of it if the driver gets none until then."""

    trial: Trial
    error: TrialError
    after: AfterFailure
    until_s: float


class TuneController:
    """Runs the trials of one run to their ends.

    Args:
        executor: Runs the actors.
        state: The trials; those of an earlier part of the run, if it is resumed. It has the settings, too.
        hooks: The plug-ins.
        recorder: Writes the events to the journal.

    Attributes:
        failed_fast: The trial whose failure has ended the run, or None.
        loss: Why the run has ended if its directory has gone.
    """

    def __init__(self, executor: TrialExecutor, state: RunState, hooks: Hooks, recorder: Recorder):
        settings = state.settings
        self.failed_fast: Trial | None = None
        self.loss: TuneError | None = None
        self._executor = executor
        self._state = state
        self._hooks = hooks
        self._recorder = recorder
        self._settings = settings
        self._is_ordered = settings.is_ordered
        self._deadlines = state.deadlines
        self._setbacks = state.setbacks
        self._metrics = RequiredMetrics(
            hooks.metrics(settings.metric) if settings.strict_metric else (),
            is_bare=hooks.goes_by_bare_number(settings.metric),
        )
        self._end_deadline_s = 0.0
        self._has_news = True
        self._asked_in_vain = 0
        self._failed_restores: Counter[str] = Counter()
        self._undecided: deque[_Undecided] = deque()
        self._crash_loop = CrashLoop()
        self._actions = TrialActions(executor, state, hooks, recorder)
        self._launcher = Launcher(executor, state, hooks, recorder, self._actions)

    # -- the loop --------------------------------------------------------------------------------------------------

    def step(self, max_wait_s: float | None = None) -> None:
        """One turn: ask, launch, wait, apply.

        Most turns bring one report. So each question is asked only where its answer may be yes.

        Args:
            max_wait_s: Do not wait longer for an event than this.
        """
        state, hooks = self._state, self._hooks
        if hooks.hears_turns:
            hooks.step_begins()
        if state.to_end:
            while state.to_end:
                self._end_stopped(*state.to_end.pop(0))
            self._actions.commit()
        if self._undecided:
            self._pass_verdicts(self._executor.now())
            self._actions.commit()
        if self._undecided and self._settings.rest is not None:
            # what follows depends on the verdict
            self._settings.rest(self._undecided[0].until_s - self._executor.now())
        else:
            if state.resting:
                state.end_rests(self._executor.now())
            # Most turns bring reports, and nothing by which one more trial could start.
            is_due = state.may_start or not state.live or state.requests or self._recorder.disk.trouble
            if is_due and not state.end_reason:
                self._launch()
            is_over = not (state.live or state.unfinished) and state.supply == ENDED
            if not is_over and not (self._is_ordered and self._launcher.has_to_go_on):
                self._apply(self._patience_s(max_wait_s))
                if self._deadlines.are_set:
                    self._stop_overdue()
            if hooks.stops_run and not state.end_reason and hooks.wants_all_stopped():
                self.end_run(self._why_ended())
            if state.end_reason and self._executor.now() >= self._end_deadline_s:
                for live in list(state.live.values()):  # they had their grace period, and are ended without a save
                    self._actions.cut_short(live, state.end_reason)
                self._actions.commit()
        hooks.iteration += 1
        if hooks.hears_turns:
            hooks.step_ends()

    def _launch(self) -> None:
        """Start what can start, and end what cannot start at all; then carry out what schedulers have asked for."""
        state = self._state
        if (
            (not self._is_ordered or self._may_launch())
            and (not self._recorder.disk.trouble or self._has_disk())
            and not (self._setbacks.are_there and self._has_setback())
        ):
            while not state.end_reason and (refusal := self._launcher.launch()) is not None:
                self._give_up_before_start(*refusal)
        if state.requests:
            self._actions.run_requests()
        self._actions.commit()
        if not state.live:
            self._check_stuck()

    def _apply(self, timeout_s: float | None) -> None:
        """Wait for events and apply them, and what schedulers have asked for meanwhile."""
        events = self._executor.wait(timeout_s)
        self._has_news = bool(events)
        count, until_s = 0, time.monotonic() + _TOGETHER_S
        for event in events:
            if count >= _TOGETHER or time.monotonic() >= until_s:
                self._actions.commit()
                count, until_s = 0, time.monotonic() + _TOGETHER_S
            count += 1
            self._on_event(event)
            if self._state.requests:
                self._actions.run_requests()
        self._actions.commit()

    def _may_launch(self) -> bool:
        """Whether this turn is one for plug-ins to be asked: in logical order those that a clock has brought are none.

        A plug-in that draws a number each time that it is asked would else draw more of them on a slow machine.
        """
        return self._has_news or self._launcher.has_to_go_on or not (self._state.live or self._state.leaving)

    def _has_setback(self) -> bool:
        """Whether workers were lost, so that no more are started now."""
        return self._setbacks.is_hopeless or self._setbacks.pause_s(self._executor.now()) > 0

    def _has_disk(self) -> bool:
        """Whether more trials can be written down again; a run that has waited for it too long is ended."""
        disk, now_s = self._recorder.disk, self._executor.now()
        if disk.regain(now_s):
            return True
        if disk.is_hopeless(now_s):
            self.loss = disk.loss()
            if self.loss is None:
                logger.error(
                    "the run ends because the disk is full; free some space, then resume it with Tuner.restore(%r, "
                    "trainable).fit()",
                    self._recorder.run.path,
                )
            self.end_run(disk.trouble, resumable=True)
        return False

    def how_ended(self) -> str:
        """How the run has ended, for the journal: "finished" means that every trial has had its way."""
        if self._state.interrupted:
            return records.INTERRUPTED
        return f"{records.ENDED}{self._state.end_reason}" if self._state.end_reason else records.FINISHED

    def unwind(self) -> bool:
        """Wait for workers that were let go and are still unwinding; blocks until one is gone, or `wake`.

        Returns:
            Whether there may be more of them. The executor kills those that take longer than the grace period.
        """
        if not self._state.leaving:
            return False
        self._apply(None)
        return True

    def end_run(self, reason: str, *, resumable: bool = False) -> None:
        """End every unfinished trial; no new ones come. Does not block: `step` goes on until all have ended.

        Args:
            reason: Why, for the trials' stories.
            resumable: True for an interrupt: on disk the trials stay unfinished.
        """
        if self._state.end_reason:
            return
        self._state.end_reason = reason
        self._state.interrupted = resumable
        self._end_deadline_s = self._executor.now() + self._settings.grace_s
        self.end_supply()
        if not resumable:
            self._pass_verdicts(math.inf)
        self._undecided.clear()
        for trial in list(self._state.unfinished.values()):
            live = self._state.live.get(trial.actor_id)
            if live is None:
                self._actions.remove(trial, reason)
            elif trial.phase is Phase.SAVING or (
                trial.phase is Phase.TRAINING and self._saves_at_end(trial, resumable)
            ):
                live.requested = Decision(STOP, reason)
            else:
                self._actions.cut_short(live, reason)
        self._actions.commit()

    def end_supply(self) -> None:
        """No more trials come."""
        self._hooks.search_ends()
        self._state.supply = ENDED
        self._state.may_start = True

    def _why_ended(self) -> str:
        return f"{STOPPER_ENDS}: {self._hooks.stopper.describe()}"

    def _end_stopped(self, trial: Trial, reason: str) -> None:
        """Bring to its end what an earlier driver could not: a RUNNING trial whose final result is on record.

        A class that is to be saved at its end, and was not, goes on from its last checkpoint to get there again.
        """
        is_saved = bool(trial.checkpoints) and trial.checkpoints[-1].report_number == trial.report_count
        if self._saves_at_end(trial) and not is_saved:
            self._state.move(trial, Step.RETRY, DRIVER_ENDED)
            return
        self._hooks.completed(trial)
        self._actions.move(trial, Step.STOP, reason)
        self._actions.is_over(trial)

    def _stop_overdue(self) -> None:
        """End the workers of trials that have broken a time limit; the trials fail when they are gone.

        Messages in the channels are read first: the driver itself may have been stopped for that time.
        """
        if self._deadlines.seconds_left(self._executor.now()) != 0:
            return
        self._apply(0)
        for actor_id in self._settings.answered() if self._settings.answered is not None else ():
            self._deadlines.end(actor_id, REPORT)  # it was in time, and is held up by another one
        for overdue in self._deadlines.overdue(self._executor.now()):
            live = self._state.live[overdue.actor_id]
            live.overdue = overdue
            self._executor.stop(live.actor_id, self._settings.grace_s, dump=True)

    def _saves_at_end(self, trial: Trial, resumable: bool = False) -> bool:
        settings = self._settings.experiments[trial.experiment_number]
        return settings.saves and (resumable or bool(settings.checkpoints.checkpoint_at_end))

    def _patience_s(self, max_wait_s: float | None) -> float | None:
        """How long the loop may sleep if nothing happens."""
        state, disk = self._state, self._recorder.disk
        limits = [] if max_wait_s is None else [max_wait_s]
        if self._launcher.has_to_go_on and not disk.trouble:
            limits.append(0.0)
        if state.end_reason:
            limits.append(max(0.0, self._end_deadline_s - self._executor.now()))
        elif not state.live and state.supply == WAITING and not state.num_pending:
            limits.append(self._seconds_to_next_ask())
        else:
            self._asked_in_vain = 0
        if self._setbacks.are_there:
            pause_s = self._setbacks.pause_s(self._executor.now())
            if pause_s or self._launcher.was_refused:
                limits.append(pause_s)
        if disk.trouble:
            limits.append(RETRY_S)
        for left_s in (
            state.seconds_of_rest(self._executor.now()) if state.resting else None,
            # a stopper has nothing more to say about a run that ends
            self._hooks.seconds_left() if self._hooks.turns_loop and not state.end_reason else None,
            self._deadlines.seconds_left(self._executor.now()) if self._deadlines.are_set else None,
        ):
            if left_s is not None:
                limits.append(max(0.0, left_s))
        return min(limits, default=None)

    def _seconds_to_next_ask(self) -> float:
        """How long to leave a searcher alone that said "not now" while nothing runs; its reasons may be outside."""
        self._asked_in_vain += 1
        if self._asked_in_vain == _ASKS_UNTIL_SAID:
            logger.warning(
                'nothing runs: the searcher says "not now" and the scheduler chooses none of %d PAUSED trials; '
                "both are asked again. A searcher with no more configurations must return Searcher.FINISHED",
                len(self._state.paused),
            )
        return min(_ASK_AGAIN_S * 2.0 ** min(self._asked_in_vain, 10), _ASK_AGAIN_MAX_S)

    def _check_stuck(self) -> None:
        """Never wait for something that cannot come."""
        state = self._state
        if state.live or state.leaving or state.resting or not state.unfinished or self._recorder.disk.trouble:
            return
        if self._setbacks.is_hopeless:
            raise TuneError(self._setbacks.why_hopeless())
        if state.requests or state.supply == WAITING:
            return
        if state.paused and not state.queue:
            raise TuneError(
                f"nothing runs and no more trials will come, but {len(state.paused)} trials are PAUSED and "
                f"{type(self._hooks.scheduler).__name__}.choose_trial_to_run chooses none of them; it must return a "
                "paused trial, or stop it"
            )

    # -- events ------------------------------------------------------------------------------------------------------

    def _on_event(self, event: Event) -> None:
        """Apply one event; one of an actor that was let go changes nothing but `leaving`."""
        live = self._state.live.get(event.actor_id)
        if isinstance(event, Exited):
            self._on_exited(event, live)
            return
        if live is None:
            return
        phase = live.trial.phase
        if isinstance(event, Started):
            self._on_started(live, event)
            return
        if self._setbacks.are_there:
            self._setbacks.lives()
        if isinstance(event, CallRaised):
            error = raised_error(event.error, starting=phase is Phase.STARTING)
            self._on_failure(live, error, by_signal=raised_by_signal(event.error))
        elif phase is Phase.TRAINING:
            self._on_report(live, event.value)
        elif phase is Phase.SAVING:
            self._on_saved(live, event.value)
        elif phase is Phase.RESTORING:
            self._failed_restores.pop(live.trial.trial_id, None)
            self._hooks.restored(live.trial)
            self._actions.pull(live)
        else:
            raise TuneError(f"a reply of {live.actor_id} came in phase {phase.name}:\n{live.trial.format_story()}")

    def _on_started(self, live: Live, event: Started) -> None:
        """The worker is ready: restore if there is something to restore, then pull."""
        if self._setbacks.are_there:
            self._setbacks.started()
        self._crash_loop.has_come_up = True
        trial = live.trial
        live.allocation, live.ready_s, trial.pid = event.allocation, self._executor.now(), event.pid
        trial.start_time = self._executor.clock.time()
        self._hooks.started(trial)
        donation = self._state.donations.get(trial.trial_id)
        if donation is not None:
            source: tuple[str, dict[str, Any]] | None = (donation.path, donation.metrics)
        elif trial.checkpoints:
            source = (trial.checkpoint.path if trial.checkpoint else "", trial.checkpoints[-1].metrics)
        else:
            source = (trial.start_checkpoint.path, {}) if trial.start_checkpoint else None
        devices = event.allocation.gpu_ids
        place = f" on GPU {', '.join(devices)}" if devices else ""
        if source is None:
            self._actions.move(trial, Step.TRAIN, f"the worker is ready{place}")
            self._actions.pull(live)
        else:
            path, metrics = source
            # The worker knows the config; it may be too large for a message.
            metrics = {key: value for key, value in metrics.items() if key != CONFIG}
            self._actions.restore(live, path, metrics, f"from {os.path.basename(path)}{place}")

    def _on_report(self, live: Live, report: Report) -> None:
        """One report, in the order that the module's docstring gives."""
        trial, hooks = live.trial, self._hooks
        if self._deadlines.are_set:
            self._deadlines.end(live.actor_id, REPORT)
        if report.metrics is None:
            if report.checkpoint is None:
                self._on_return(live)
            else:  # a checkpoint by itself; it belongs to the result before
                self._on_saved(live, report.checkpoint)
            return
        if self._crash_loop.counts:
            self._crash_loop.reported(trial.trial_id)
        result = trial.complete(report.metrics)
        # Nearly all reports have the keys and types of the one before. So they hold the metrics, too, and there is a
        # short way to write them. The directory of their trial is looked at once a second.
        path = live.path if report.checkpoint is None and live.path is not None and live.path.fits(result) else None
        if (path is None or time.monotonic() >= live.look_s) and not self._is_sound(live, result):
            return
        decision = GO_ON
        if hooks.hears_results or report.done or result.get(DONE) or trial.stopping_criterion:
            decision = hooks.decide(trial, result, ends=report.done)
        live.ends_by_itself = decision == STOP
        if hooks.shows_results:
            hooks.result(trial, result)
        if live.requested is not None:
            decision, live.requested = stronger(decision, live.requested), None
        if hooks.stops_run and decision != STOP and hooks.wants_all_stopped():
            decision = Decision(STOP, self._why_ended())  # else one more step would be on its way when the run is ended
        live.decision = decision
        if path is None or not path.write(result, decision):
            self._write(live, result, report.checkpoint)
        settings = self._settings.experiments[trial.experiment_number]
        if settings.saves and self._save_is_due(trial, settings.checkpoints, result, decision):
            self._actions.save(live)
        elif decision != CONTINUE or decision.exploit is not None:
            self._actions.carry_out(live, decision)
        elif report.has_returned:
            self._on_return(live)
        else:
            self._actions.pull(live)

    def _is_sound(self, live: Live, result: dict[str, Any]) -> bool:
        """Whether the trial's directory is there, and the metrics are in the result; if not, the trial fails."""
        trial = live.trial
        live.look_s = time.monotonic() + LOOK_S
        fault = self._recorder.directory_fault(trial)
        if fault is not None and not self._recorder.disk.is_gone():  # else it goes on while the run waits for it
            self._on_failure(live, TrialError(f"the directory of trial {trial.name} cannot be used: {fault}"))
            return False
        missing = None if self._metrics.is_over else self._metrics.error_of(result)
        if missing is None:
            return True
        self._on_failure(live, missing, final=True)
        if not self._state.end_reason:  # else the run ends for another reason already
            self._metrics.has_failed(missing, self._state.trials)
        return False

    def _write(self, live: Live, result: dict[str, Any], checkpoint: CheckpointRecord | None) -> None:
        """Write a result of any kind, on which it is decided, to the loggers' files and to the journal."""
        trial, hooks = live.trial, self._hooks
        hooks.log(trial, result)
        journal = self._recorder.journal if live.has_reported and checkpoint is None else None
        if journal is not None and (live.path is None or not live.path.fits(result)):
            live.path = ReportPath.after(trial, result, hooks.logs, journal)
        live.has_reported = True
        result[EXPERIMENT_TAG] = trial.experiment_tag
        trial.record_result(result)
        self._recorder.result(trial, result, live.decision, checkpoint)
        if checkpoint is not None:
            self._register(trial, checkpoint, reported=True)
            hooks.saved(trial)

    def _on_return(self, live: Live) -> None:
        """The function has returned without anything new: its last result counts again, as done."""
        trial = live.trial
        live.ends_by_itself = True
        trial.returns()
        live.decision = _RETURNED
        if self._saves_at_end(trial) and trial.report_count:
            self._actions.save(live)
        else:
            self._actions.carry_out(live, live.decision)

    def _save_is_due(self, trial: Trial, config: CheckpointConfig, result: dict[str, Any], decision: Decision) -> bool:
        """Whether a trainable that can be saved is saved now, before the decision is carried out."""
        if decision == PAUSE and decision.exploit is not None and not decision.save:
            return False  # its own state is given up
        if decision == PAUSE or decision.save or result.get(SHOULD_CHECKPOINT):
            return True
        if decision == STOP and (config.checkpoint_at_end or self._state.interrupted):
            return True
        frequency, iteration = config.checkpoint_frequency, result.get(TRAINING_ITERATION)
        if not isinstance(iteration, int):  # the user's own value wins, whatever it is
            iteration = trial.report_count
        return bool(frequency) and iteration % frequency == 0

    def _on_saved(self, live: Live, record: CheckpointRecord | None) -> None:
        """A class has written its checkpoint; while it did, the decision waited."""
        trial = live.trial
        if record is not None:
            self._register(trial, record, reported=False)
        self._hooks.saved(trial)
        decision, live.requested = stronger(live.decision, live.requested), None
        self._actions.carry_out(live, decision)

    def _register(self, trial: Trial, record: CheckpointRecord, *, reported: bool) -> None:
        """Take in a committed checkpoint, then drop what is surplus.

        Args:
            trial: The trial.
            record: The checkpoint in its directory.
            reported: True if it came with a report, whose record in the journal names it already.
        """
        self._hooks.checkpointed(trial, Checkpoint(os.path.join(trial.local_path, record.directory)))
        self._recorder.checkpoint(trial, trial.record_checkpoint(record), reported=reported)
        self._actions.release_donation(trial)  # not before: it may read those files, or fail and need them again

    def _on_exited(self, event: Exited, live: Live | None) -> None:
        """The actor and all that it had started are gone."""
        trial_id, _, _ = event.actor_id.rpartition("#")
        self._state.may_start = True
        if event.counts and self._setbacks.are_there:
            self._setbacks.left()
            self._setbacks.ended_otherwise(trial_id)
        if live is not None:
            trial = live.trial
            self._state.live.pop(event.actor_id)
            self._deadlines.forget(event.actor_id)
            if live.overdue is not None:
                self._on_failure(live, timeout_error(trial, live.overdue, event), gone=True)
            elif event.counts:
                self._on_failure(live, died_error(trial, event), gone=True, by_signal=died_by_signal(event))
            else:
                self._on_lost(live, event)
            self._recorder.worker_is_gone(trial)
        elif self._state.leaving.get(trial_id) == event.actor_id:
            if event.kind == "stopped" and STOP_SWALLOWED in event.cause:
                logger.warning("trial %s: %s", trial_id, event.cause)
                self._recorder.note(trial_id, event.cause)
            stopped = self._state.cut_short.pop(event.actor_id, None)
            if stopped is not None:
                self._recorder.worker_is_gone(stopped)
            self._state.has_left(trial_id)

    def _on_lost(self, live: Live, event: Exited) -> None:
        """A worker was lost, or could not be had, and its trial is not to blame; or it is, for one loss too many."""
        trial = live.trial
        is_new = self._setbacks.lost(event.cause, self._executor.now(), live.begun_s)
        if event.kind == "lost" and self._setbacks.carrier_died(trial.trial_id):
            self._on_failure(live, carrier_error(trial, event), final=True, gone=True)
            return
        level = logging.WARNING if is_new else logging.DEBUG
        logger.log(level, "trial %s lost its worker (%s); it is started again (logged once)", trial.name, event.cause)
        self._actions.move(trial, Step.RETRY, LOST + event.cause)
        self._actions.remove_if_run_ends(trial)

    # -- failures ----------------------------------------------------------------------------------------------------

    def _on_failure(
        self, live: Live, error: TrialError, *, final: bool = False, gone: bool = False, by_signal: bool = False
    ) -> None:
        """An attempt has failed. Its worker is not handed on: a failure may leave anything behind in a process.

        Args:
            live: The trial and its actor.
            error: How it failed.
            final: True if another attempt cannot help.
            gone: True if the actor is gone already.
            by_signal: Whether that may be the work of a signal that was meant for the whole run.
        """
        trial = live.trial
        if not final and (self._recorder.disk.look() or self._recorder.directory_fault(trial) is not None):
            self._on_trouble_of_disk(live, error, gone=gone)
            return
        is_free = False
        if trial.phase is Phase.RESTORING and not final:  # so many in a row do not count as failures
            self._failed_restores[trial.trial_id] += 1
            is_free = self._failed_restores[trial.trial_id] <= self._settings.free_restore_failures
        trial.num_failures += not is_free
        after = AfterFailure.RETRY if is_free else after_failure(self._settings.failure, trial, final=final)
        if not gone:
            self._actions.let_go(live, keep=False)
        cause = error.summary()
        is_ending = bool(self._state.end_reason) and not self._state.interrupted  # for a reason that is no signal
        if by_signal and after is not AfterFailure.RETRY and self._executor.isolates and not is_ending:
            trial.num_failures -= 1
            self._await_verdict(trial, error, after)
            return
        self._recorder.failure(trial, error)
        if after is not AfterFailure.RETRY:
            trial.error = error  # schedulers tell by it that the trial will not come again
        self._hooks.failed(trial)
        if after is AfterFailure.RETRY:
            self._actions.step_back(trial, refused=trial.phase is Phase.RESTORING)
            logger.warning(
                "trial %s failed (%s); attempt %d of %s continues from %s",
                trial.name,
                cause,
                trial.num_failures + 1,  # a start after a pause is no attempt in a user's eyes
                trial.max_failures + 1 if trial.max_failures >= 0 else "any number",
                trial.checkpoints[-1].record.directory if trial.checkpoints else "the beginning",
            )
            self._actions.move(trial, Step.RETRY, cause)
            self._hooks.recovers(trial)
            if trial.max_failures < 0 and not self._state.end_reason:
                self._let_rest(live, error)
            self._actions.remove_if_run_ends(trial)
        else:
            self._fail(trial, cause, after)

    def _await_verdict(self, trial: Trial, error: TrialError, after: AfterFailure) -> None:
        """A signal has ended a trial for good, unless the driver gets one, too: then both are ended, to be resumed.

        The death is on record at once, as one without blame: so the trial also goes on if the driver is killed
        meanwhile. Plug-ins hear nothing before the verdict, for what they have heard cannot be taken back. What the
        trial has held is free for others at once.
        """
        self._actions.move(trial, Step.RETRY, BY_SIGNAL + error.summary())
        if self._state.interrupted:
            self._actions.remove_if_run_ends(trial)
            return
        logger.info("trial %s fails (%s), unless the run is ended within 2 s", trial.name, error.summary())
        until_s = self._executor.now() + VERDICT_S
        self._state.rest(trial, until_s)
        self._undecided.append(_Undecided(trial, error, after, until_s))

    def _pass_verdicts(self, now_s: float) -> None:
        """Trials that a signal has ended some time ago, while no signal has ended the run, have failed."""
        while self._undecided and self._undecided[0].until_s <= now_s:
            trial, error, after, _ = self._undecided.popleft()
            if trial.phase not in (Phase.QUEUED, Phase.PAUSED):  # a scheduler has ended it meanwhile
                continue
            trial.num_failures += 1
            trial.error = error
            self._recorder.failure(trial, error)
            self._hooks.failed(trial)
            self._fail(trial, error.summary(), after)

    def _on_trouble_of_disk(self, live: Live, error: TrialError, *, gone: bool) -> None:
        """An attempt has failed while nothing can be written, and most probably for that; the trial is not to blame.

        If it is only the trial's own directory that has gone, it fails when it is started again. Not at once: when
        somebody removes a whole run, the directories of its trials go first.
        """
        trouble = self._recorder.disk.trouble or "its directory cannot be used"
        logger.warning(
            "trial %s failed while %s; this does not count as a failure (%s)", live.trial.name, trouble, error.summary()
        )
        if not gone:
            self._actions.let_go(live)
        self._actions.move(live.trial, Step.RETRY, f"{LOST}{trouble}")
        if not self._recorder.disk.trouble and not self._state.end_reason:
            self._state.rest(live.trial, self._executor.now() + RETRY_S)
        self._actions.remove_if_run_ends(live.trial)

    def _let_rest(self, live: Live, error: TrialError) -> None:
        """A trial that may be retried without end has failed."""
        trial, now_s = live.trial, self._executor.now()
        starting = isinstance(error, WorkerStartError)
        rest_s = self._crash_loop.rest_s(trial.trial_id, error.summary(), now_s, starting, now_s - live.ready_s)
        if rest_s:
            self._state.rest(trial, now_s + rest_s)

    def _give_up_before_start(self, trial: Trial, error: TrialError) -> None:
        """A trial that cannot be started at all ends in ERROR; the others go on."""
        trial.num_failures = max(1, trial.num_failures)
        self._executor.forget(trial.trial_id)
        self._recorder.failure(trial, error)
        trial.error = error
        self._hooks.failed(trial)
        self._fail(trial, str(error), after_failure(self._settings.failure, trial, final=True))

    def _fail(self, trial: Trial, cause: str, after: AfterFailure) -> None:
        """A trial has failed for good; its error is set."""
        self._actions.move(trial, Step.FAIL, cause)
        self._actions.is_over(trial)
        self._hooks.errored(trial)
        if after is AfterFailure.END_RUN:
            self.failed_fast = self.failed_fast or trial
            self.end_run(f"{FAIL_FAST}trial {trial.name} failed")
