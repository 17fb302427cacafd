"""TuneController: ask, launch, wait, apply.

The driver is a loop in one thread. Two tables say which method handles an event: by its type, and for an answer by the
phase of its trial. For one report the order is: stopper, scheduler, searcher, callbacks, journal, save if due,
decision. A scheduler may request actions on *other* trials. They are carried out after its hook has returned, so
nothing is re-entrant.

The events of a turn share one write of the journal. Workers get their answers after it (`TrialActions.commit`).
"""

from __future__ import annotations

import logging
import math
import os
import time
from collections.abc import Callable
from typing import Any

from minitune.checkpoint import Checkpoint, CheckpointRecord
from minitune.config import CheckpointConfig
from minitune.decision import CONTINUE, PAUSE, STOP, Decision
from minitune.driver.actions import TrialActions, stronger
from minitune.driver.failure import (
    Failures,
    died_by_signal,
    died_error,
    lost_error,
    raised_by_signal,
    raised_error,
    timeout_error,
)
from minitune.driver.hooks import Hooks
from minitune.driver.launching import ReusingLauncher, TrialLauncher
from minitune.driver.limits import REPORT, TRIAL
from minitune.driver.report_path import ReportPath
from minitune.driver.state import ENDED, WAITING, RunningTrial, RunState
from minitune.error import DiskError, TuneError
from minitune.executors.trial_executor import CallRaised, CallReturned, Event, Exited, Placed, Started, TrialExecutor
from minitune.experiment.endings import Ending, EndKind
from minitune.experiment.lifecycle import Phase, Step
from minitune.experiment.trial import Trial
from minitune.record.journal import LOOK_S
from minitune.record.recorder import Recorder
from minitune.result import (
    DONE,
    EXPERIMENT_TAG,
    SHOULD_CHECKPOINT,
    TRAINING_ITERATION,
    Report,
    complete,
    flatten,
)
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
        hooks: The plug-ins, which know their callbacks.
        recorder: Writes the events to the journal.
    """

    def __init__(self, executor: TrialExecutor, state: RunState, hooks: Hooks, recorder: Recorder):
        settings = state.settings
        launcher = ReusingLauncher if settings.reuses_results else TrialLauncher
        self._executor = executor
        self._state = state
        self._hooks = hooks
        self._recorder = recorder
        self._actions = TrialActions(executor, state, hooks, recorder)
        self._launcher = launcher(executor, state, hooks, recorder, self._actions, self._on_started)
        self._failures = Failures(executor, state, hooks, recorder, self._actions, self.end_run)
        self._report_handler = ReportHandler(state, hooks, recorder, self._actions, self._failures)
        self._end_deadline_s = 0.0  # when a run that is ending cuts its trials short
        self._asked_in_vain = 0  # how often the searcher has said "not now" while nothing runs
        self._is_ordered = settings.answered is not None
        self._has_news = True  # in a run with logical order: whether the last wait has brought an event
        self._handlers: dict[type, Callable[[RunningTrial, Any], None]] = {
            Placed: self._on_placed,
            Started: self._on_started,
            CallRaised: self._on_raised,
            Exited: self._on_exited,
        }
        self._answer_handlers: dict[Phase, Callable[[RunningTrial, Any], None]] = {
            Phase.STARTING: self._on_stray_answer,
            Phase.RESTORING: self._on_restored,
            Phase.TRAINING: self._report_handler.on_report,
            Phase.SAVING: self._report_handler.on_saved,
        }
        # A run has only the limits and checks that it needs: most runs have none.
        self._wait_limits: list[Callable[[], float]] = []
        self._checks: list[Callable[[], None]] = []
        if state.deadlines.are_set:
            self._answer_handlers[Phase.TRAINING] = self._on_timed_report
            self._wait_limits.append(lambda: state.deadlines.seconds_left(self._now_s()))
            self._checks.append(self._stop_overdue)
        if hooks.stops_run:
            self._checks.append(self._end_if_stopper_wants)
        if hooks.turns_loop:
            self._wait_limits.append(self._seconds_to_next_turn)

    # -- the loop --------------------------------------------------------------------------------------------------

    @property
    def failed_fast(self) -> Trial | None:
        """The trial whose failure has ended the run, or None."""
        return self._failures.failed_fast

    def _now_s(self) -> float:
        return self._executor.clock.monotonic()

    def begin(self) -> None:
        """Begin the run. In a resumed run, end the trials whose final results are in the journal already."""
        for trial, ending in self._state.to_end:
            self._end_stopped(trial, ending)
        self._actions.commit()

    def step(self, max_wait_s: float | None = None) -> None:
        """One turn: ask, launch, wait, apply.

        Most turns bring one report, so this method checks only what may need work.

        Args:
            max_wait_s: The maximum wait for an event; None means no limit.
        """
        state = self._state
        if state.resting:
            state.end_rests(self._now_s())
        if (state.may_start or state.requests or not state.running) and state.ending is None:
            self._launch()
        is_over = not (state.running or state.unfinished) and state.supply == ENDED
        must_go_on = self._launcher.has_to_go_on
        if not (is_over or (must_go_on and self._is_ordered)):
            has_limit = self._wait_limits or must_go_on or state.backoff.is_active or state.ending is not None
            self._apply(self._patience_s(max_wait_s) if has_limit or not state.running else max_wait_s)
        if state.ending is not None and self._now_s() >= self._end_deadline_s:
            for running in list(state.running.values()):  # their grace period is over: end them without a save
                self._actions.cut_short(running, state.ending)
            self._actions.commit()
        for check in self._checks:
            check()
        self._hooks.iteration += 1

    def _launch(self) -> None:
        """Start trials, end those that can never start, and then carry out the requests of schedulers."""
        state = self._state
        has_to_wait = state.backoff.is_active and self._has_to_wait()
        if not has_to_wait and (not self._is_ordered or self._may_ask()):
            while state.ending is None:
                refusal = self._launcher.launch()
                if refusal is None:
                    break
                self._failures.cannot_start(refusal.trial, refusal.error)
        if state.requests:
            self._actions.run_requests()
        if self._recorder.unwritten or self._actions.commands:
            self._actions.commit()
        if not (state.running or state.leaving):
            self._check_stuck()

    def _apply(self, timeout_s: float | None) -> None:
        """Wait for events, and apply them and the requests that schedulers make meanwhile."""
        state = self._state
        events = self._executor.wait(timeout_s)
        self._has_news = bool(events) and not isinstance(events[0], Placed)  # in logical order there is one at a time
        count = 0
        # Real time, even under a virtual clock: real workers wait for their answers.
        until_s = time.monotonic() + _TOGETHER_S
        for event in events:
            if count >= _TOGETHER or time.monotonic() >= until_s:
                self._actions.commit()
                count = 0
                until_s = time.monotonic() + _TOGETHER_S
            count += 1
            running = state.running.get(event.actor_id)
            if running is None:
                self._on_late_event(event)
            elif isinstance(event, CallReturned):
                self._answer_handlers[running.trial.phase](running, event.value)
            else:
                self._handlers[type(event)](running, event)
            if state.requests:
                self._actions.run_requests()
        if self._recorder.unwritten or self._actions.commands:
            self._actions.commit()

    def _may_ask(self) -> bool:
        """Whether plug-ins may be asked in this turn of a run with logical order: not if a timeout has caused it.

        Otherwise a plug-in that draws a random number at each call would draw more of them on a slow machine.
        """
        return self._has_news or self._launcher.has_to_go_on or not (self._state.running or self._state.leaving)

    def _has_to_wait(self) -> bool:
        """Whether no worker may start now.

        If no attempt brings anything new, no trial starts while another one rests. Otherwise a searcher without an end
        would bring trial after trial, and the run would never come to the point where nothing runs.
        """
        backoff = self._state.backoff
        may_start = backoff.may_start(self._now_s())
        return not may_start or (backoff.is_hopeless and bool(self._state.resting))

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
        self._end_deadline_s = self._now_s() + self._state.settings.grace_s
        self.end_supply()
        for trial in list(self._state.unfinished.values()):  # a copy, because the ends change the index
            running = self._state.running.get(trial.attempt.actor_id)
            if running is None:
                self._actions.remove(trial, ending)
            elif trial.phase is Phase.SAVING or (trial.phase is Phase.TRAINING and self._saves(trial, resumable)):
                running.requested = Decision.stop(ending)
            else:
                self._actions.cut_short(running, ending)
        self._actions.commit()

    def end_supply(self) -> None:
        """No more trials come."""
        self._hooks.search_ends()
        self._state.supply = ENDED
        self._state.may_start = True

    def _end_if_stopper_wants(self) -> None:
        if self._state.ending is None and self._hooks.wants_all_stopped():
            self.end_run(self._hooks.ending_by_stopper())

    def _saves(self, trial: Trial, resumable: bool) -> bool:
        """Whether a trial that ends with the run is saved: at its end always, or so that it can be resumed."""
        experiment = self._state.settings.experiments[trial.experiment_number]
        return experiment.saves and (resumable or bool(experiment.checkpoints.checkpoint_at_end))

    def _end_stopped(self, trial: Trial, ending: Ending) -> None:
        """End a RUNNING trial of an earlier driver whose final result is in the journal.

        If the trial must be saved at its end and was not, it continues from its last checkpoint to the end instead.
        """
        is_saved = bool(trial.checkpoints) and trial.checkpoints[-1].progress.num_reports == trial.progress.num_reports
        if self._saves(trial, resumable=False) and not is_saved:
            self._state.move(trial, Step.RETRY, Ending.of(EndKind.DRIVER_ENDED))
            return
        self._hooks.completed(trial)
        self._actions.move(trial, Step.STOP, ending)
        self._actions.is_over(trial)

    def _stop_overdue(self) -> None:
        """Stop the workers of trials that have exceeded a time limit. The trials fail when the workers have exited.

        Messages that have already arrived are read first, because the driver itself may have been suspended.
        """
        deadlines = self._state.deadlines
        settings = self._state.settings
        if deadlines.seconds_left(self._now_s()) != 0:
            return
        self._apply(0)
        if settings.answered is not None:
            for actor_id in settings.answered():
                deadlines.end(actor_id, REPORT)  # its report is in time, but another event comes first
        for overdue in deadlines.overdue(self._now_s()):
            running = self._state.running[overdue.actor_id]
            running.overdue = overdue
            self._executor.stop(running.actor_id, settings.grace_s, dump=True)

    def _patience_s(self, max_wait_s: float | None) -> float | None:
        """How long to wait for an event, in seconds; None means no limit."""
        state = self._state
        limits = [math.inf if max_wait_s is None else max_wait_s]
        if self._launcher.has_to_go_on:
            limits.append(0.0)
        if state.ending is not None:
            limits.append(self._end_deadline_s - self._now_s())
        elif not state.running and state.supply == WAITING and not state.num_pending:
            limits.append(self._seconds_to_next_ask())
        else:
            self._asked_in_vain = 0
        if state.backoff.is_active and state.ending is None:
            limits.append(state.backoff.seconds_left(self._now_s()))
        if state.resting:
            limits.append(min(state.resting.values()) - self._now_s())
        for limit_s in self._wait_limits:
            limits.append(limit_s())
        wait_s = max(0.0, min(limits))
        return None if wait_s == math.inf else wait_s

    def _seconds_to_next_turn(self) -> float:
        """When a plug-in needs the next turn. The stopper is not asked about a run that is ending."""
        if self._state.ending is not None:
            return math.inf
        return self._hooks.seconds_left()

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
        if not state.unfinished:
            return
        if state.backoff.is_hopeless:
            raise state.backoff.error()
        if state.resting or state.requests or state.supply == WAITING:
            return
        if state.paused and not state.queue:
            raise TuneError(
                f"nothing runs and no more trials will come, but {len(state.paused)} trials are PAUSED and "
                f"{type(self._hooks.scheduler).__name__}.choose_trial_to_run chooses none of them; it must return a "
                "paused trial, or stop it"
            )

    # -- events ------------------------------------------------------------------------------------------------------

    def _on_late_event(self, event: Event) -> None:
        """An event of an actor that was stopped. Only its exit matters."""
        if not isinstance(event, Exited):
            return
        self._state.may_start = True
        trial_id, _, _ = event.actor_id.rpartition("#")
        if self._state.leaving.get(trial_id) == event.actor_id:
            self._actions.has_left(trial_id, event)

    def _on_placed(self, running: RunningTrial, event: Placed) -> None:
        """An actor that waited for its resources has them. Its time begins now."""
        self._state.may_start = True  # there is more room than was known
        self._state.deadlines.begin(event.actor_id, TRIAL, self._now_s())

    def _on_started(self, running: RunningTrial, event: Started) -> None:
        """The worker is ready. Restore a checkpoint if there is one, then request the first report."""
        trial = running.trial
        backoff = self._state.backoff
        if backoff.is_active or not backoff.has_come_up:
            backoff.started()
        running.allocation = event.allocation
        trial.attempt.pid = event.pid
        trial.attempt.start_time = self._executor.clock.time()
        self._hooks.tell("on_trial_start", trial)
        devices = event.allocation.gpu_ids
        place = ""
        if devices:
            place = f" on GPU {', '.join(devices)}"
        # An inherited checkpoint is newer than the trial's own ones: the first own one after it releases it.
        inherited = self._state.inherited.get(trial.trial_id)
        if inherited is not None:
            self._actions.restore(running, inherited.path, inherited.metrics, place)
        elif trial.checkpoints:
            newest = trial.checkpoints[-1]
            path = os.path.join(trial.local_path, newest.record.directory)
            self._actions.restore(running, path, newest.progress.metrics, place)
        elif trial.start_checkpoint is not None:
            self._actions.restore(running, trial.start_checkpoint.path, {}, place)
        else:
            self._actions.move(trial, Step.TRAIN, f"the worker is ready{place}")
            self._actions.pull(running)
        if devices:  # the record of the start did not know them
            self._recorder.status(trial, f"the worker is ready{place}")

    def _on_restored(self, running: RunningTrial, value: None) -> None:
        """The worker has loaded a checkpoint."""
        self._failures.restored(running.trial)
        self._hooks.tell("on_trial_restore", running.trial)
        self._actions.pull(running)

    def _on_timed_report(self, running: RunningTrial, report: Report) -> None:
        self._state.deadlines.end(running.actor_id, REPORT)
        self._report_handler.on_report(running, report)

    def _on_stray_answer(self, running: RunningTrial, value: Any) -> None:
        story = running.trial.format_story()
        raise TuneError(f"a reply of {running.actor_id} came before its worker was ready:\n{story}")

    def _on_raised(self, running: RunningTrial, event: CallRaised) -> None:
        """A call has raised an exception."""
        error = raised_error(event.error, starting=running.trial.phase is Phase.STARTING)
        refused = error.__cause__
        if isinstance(refused, DiskError) and refused.run_path == self._recorder.run.path:
            raise refused  # no trial is to blame, so this one stays unfinished
        if raised_by_signal(event.error):
            self._failures.lost(running, error, by_signal=True)
        else:
            self._failures.failed(running, error)

    def _on_exited(self, running: RunningTrial, event: Exited) -> None:
        """The actor's process and all its descendants have exited, although it was not stopped."""
        state = self._state
        trial = running.trial
        state.may_start = True
        # First of all: what follows must find no actor that it would stop or call.
        state.running.pop(event.actor_id)
        state.deadlines.forget(event.actor_id)
        if event.kind == "refused":
            self._failures.refused(running, event.cause)
        else:
            state.backoff.has_room()
            if running.overdue is not None:
                self._failures.failed(running, timeout_error(trial, running.overdue, event), gone=True)
            elif not event.counts:
                num_losses = state.backoff.num_in_row(trial.trial_id) + 1
                self._failures.lost(running, lost_error(trial, event, num_losses), gone=True)
            elif died_by_signal(event):
                self._failures.lost(running, died_error(trial, event), by_signal=True, gone=True)
            else:
                self._failures.failed(running, died_error(trial, event), gone=True)
        self._recorder.worker_is_gone(trial)


class ReportHandler:
    """Handles the reports and the saves of running trials.

    Args:
        state: The trials.
        hooks: Calls the plug-ins.
        recorder: Writes the events to the journal.
        actions: Carries out decisions.
        failures: Handles a report that lacks a metric, or whose trial's directory is gone.
    """

    def __init__(self, state: RunState, hooks: Hooks, recorder: Recorder, actions: TrialActions, failures: Failures):
        self._state = state
        self._hooks = hooks
        self._recorder = recorder
        self._actions = actions
        self._failures = failures
        self._experiments = state.settings.experiments
        # Looked up once: a run has more reports than anything else.
        self._hears_results = hooks.hears_results
        self._shows_results = hooks.shows_results
        self._stops_run = hooks.stops_run

    def on_report(self, running: RunningTrial, report: Report) -> None:
        """Handle a report, in the order of the module's docstring."""
        trial = running.trial
        state = self._state
        result, checkpoint, is_done, has_returned = report
        if result is None:
            if checkpoint is None:
                self._on_return(running)
            else:  # a checkpoint without metrics; it belongs to the last result
                self.on_saved(running, checkpoint)
            return
        if state.backoff.is_active and (
            is_done or state.backoff.is_new_report(trial.trial_id, trial.progress.num_reports)
        ):
            state.backoff.progressed(trial.trial_id)
        # Nearly all reports have the keys and types of the previous one, so no metric is missing. They take the fast
        # path to the files, and their trial's directory is checked only once a second.
        path = None
        if checkpoint is None and running.path is not None:
            shape = running.path
            if tuple(result) == shape.names and tuple(map(type, result.values())) == shape.kinds:
                path = shape
        if path is None or time.monotonic() >= running.look_s:
            running.look_s = time.monotonic() + LOOK_S
            if not self._failures.is_sound(running, result):
                return
        decision = GO_ON
        if self._hears_results or is_done or result.get(DONE) or trial.stopping_criterion:
            decision = self._hooks.decide(trial, result, ends=is_done)
        running.ends_by_itself = decision == STOP
        if self._shows_results:
            self._hooks.result(trial, result)
        if running.requested is not None:
            decision = stronger(decision, running.requested)
            running.requested = None
        if self._stops_run and decision != STOP and state.ending is None and self._hooks.wants_all_stopped():
            decision = Decision.stop(self._hooks.ending_by_stopper())  # otherwise it would begin one more step
        running.decision = decision
        experiment = self._experiments[trial.experiment_number]
        is_to_be_saved = experiment.saves and self._save_is_due(trial, experiment.checkpoints, result, decision)
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

    def _end_with_result(self, running: RunningTrial, has_returned: bool) -> Ending | None:
        """Why the trial ends now, with the result that it has just reported and without a save; None if it does not."""
        decision = running.decision
        if decision.exploit is not None:
            return None
        if decision == STOP and (running.ends_by_itself or not self._state.interrupted):
            return decision.ending
        experiment = self._experiments[running.trial.experiment_number]
        if decision == CONTINUE and has_returned and not experiment.checkpoints.checkpoint_at_end:
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
        completed = complete(result, trial.attempt.config)
        self._hooks.log(trial, completed)
        # The first report of an attempt makes no path yet: many trials report only once.
        add_encoded = self._recorder.add_encoded if running.has_reported and checkpoint is None else None
        if add_encoded is not None and (running.path is None or not running.path.fits(result)):
            running.path = ReportPath.after(trial, result, self._hooks.logs, add_encoded)
        running.has_reported = True
        result[EXPERIMENT_TAG] = trial.experiment_tag
        trial.record_result(result, flatten(completed))
        self._recorder.result(trial, result, running.decision, checkpoint, ends)
        if checkpoint is not None:
            self._register(trial, checkpoint, reported=True)
            self._hooks.tell("on_trial_save", trial)

    def _on_return(self, running: RunningTrial) -> None:
        """The function has returned without new metrics, so its last result is its final one."""
        trial = running.trial
        running.ends_by_itself = True
        if self._state.backoff.is_active:
            self._state.backoff.progressed(trial.trial_id)
        running.decision = _RETURNED
        if not trial.progress.num_reports:
            trial.returns()
        elif self._experiments[trial.experiment_number].checkpoints.checkpoint_at_end:
            self._actions.save(running)
            return
        self._actions.end(running, _RETURNED.ending)

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
            iteration = trial.progress.num_reports + 1
        return bool(frequency) and iteration % frequency == 0

    def on_saved(self, running: RunningTrial, record: CheckpointRecord | None) -> None:
        """A class trainable has written its checkpoint. Carry out the decision that has waited for it."""
        trial = running.trial
        if record is not None:
            self._register(trial, record, reported=False)
        self._hooks.tell("on_trial_save", trial)
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
        checkpoint = Checkpoint(os.path.join(trial.local_path, record.directory))
        self._hooks.tell("on_checkpoint", trial, checkpoint=checkpoint)
        self._recorder.checkpoint(trial, trial.record_checkpoint(record), reported=reported)
        self._actions.release_inherited(trial)  # not earlier: a retry would need the donor's files again
