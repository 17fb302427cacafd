"""TuneController: ask, launch, wait, apply.

What a scheduler requests for *other* trials is carried out after its hook, so nothing is re-entrant.

The records of an event are written before its worker gets an answer (`Outcomes.commit`).
"""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable

from minitune.driver.events import Events
from minitune.driver.failure import Failures
from minitune.driver.hooks import Hooks
from minitune.driver.launching import Launcher
from minitune.driver.limits import REPORT_LIMIT
from minitune.driver.outcomes import Outcomes
from minitune.driver.state import RunState
from minitune.error import TuneError
from minitune.executors.trial_executor import CallReturned, TrialExecutor
from minitune.experiment.endings import Ending, EndKind
from minitune.experiment.lifecycle import Transition
from minitune.experiment.trial import Trial
from minitune.record import records
from minitune.record.recorder import Recorder
from minitune.schedulers.trial_scheduler import SUPPLY_ENDED, SUPPLY_WAITING

logger = logging.getLogger("minitune")

_ASK_AGAIN_S = 0.05
"""After so long a searcher is asked again that says "not now" while nothing runs. Not measured: less takes the CPU from
trials, more delays them.
"""
_ASKS_UNTIL_SAID = 200
"""After so many of these (10 s), a warning tells what the run waits for."""


class TuneController:
    """Runs the trials of one run to their ends."""

    def __init__(
        self,
        executor: TrialExecutor,
        state: RunState,
        hooks: Hooks,
        recorder: Recorder,
    ):
        self._executor = executor
        self._state = state
        self._hooks = hooks
        self._recorder = recorder
        self._outcomes = Outcomes(executor, state, hooks, recorder)
        self._now_s = self._outcomes.now_s
        self._failures = Failures(self._outcomes, self.end_run)
        self._events = Events(self._outcomes, self._failures)
        self._launcher = Launcher(self._outcomes, self._events.on_started)
        self._asked_in_vain = 0  # how often the searcher has said "not now" while nothing runs
        self._needs_turns = hooks.needs_turns
        self._end_by_s = math.inf  # when the trials that still run are ended without a save

    # -- the loop ------------------------------------------------------------------------------------------------------

    def begin(self, to_end: Iterable[tuple[Trial, Ending]]) -> None:
        """Begin the run, with the trials whose final results an earlier driver has recorded, and not their ends."""
        for trial, ending in to_end:
            # Its final result is on record. If its last save is not, it continues from the one before.
            newest = trial.checkpoints[-1].progress.num_reports if trial.checkpoints else None
            if self._outcomes.saves_at_end() and newest != trial.progress.num_reports:
                self._state.move(trial, Transition.RETRY, Ending.of(EndKind.DRIVER_ENDED))
            else:
                self._outcomes.end(trial, ending)
        self._outcomes.commit()
        if self._hooks.stops_run:
            # Also before the first wait, since a time budget begins with this call, and no event may come for long.
            self._end_if_stopper_wants()
            if self._state.ending is not None:
                logger.warning(
                    "no trial starts: %s; with a larger time_budget_s or another stop, a resume goes on",
                    self._state.ending.text,
                )

    def step(self, max_wait_s: float | None = None) -> None:
        """One turn: ask, launch, wait, apply."""
        state = self._state
        waiting = state.waiting
        if waiting.resting and waiting.end_rests(self._now_s()):
            state.may_start = True
        if state.ending is None and (state.may_start or state.requests or not (state.running or waiting.leaving)):
            self._launch()
        is_over = not (state.running or state.unfinished) and state.supply == SUPPLY_ENDED
        if not is_over:
            self._apply(self._patience_s(max_wait_s))
        if state.deadlines.are_set:
            self._stop_overdue()
        if self._hooks.stops_run:
            self._end_if_stopper_wants()
        if self._end_by_s < math.inf:
            self._end_late()
        if state.supply == SUPPLY_ENDED and not (state.unfinished or state.ending):
            self._goes_on()
        self._hooks.iteration += 1

    def _launch(self) -> None:
        """Start trials, and carry out what the scheduler has requested meanwhile."""
        state = self._state
        if not (state.backoff.is_active and self._has_to_wait()):
            while state.ending is None:
                refusal = self._launcher.launch()
                if refusal is None:
                    break
                self._failures.cannot_start(refusal.trial, refusal.error)
        if state.requests:
            self._outcomes.run_requests()
        self._outcomes.commit()
        # An actor that has not exited yet will bring an event, after which more trials may start.
        if not (state.running or state.waiting.leaving):
            self._check_stuck()

    def _has_to_wait(self) -> bool:
        """Whether no worker may start now.

        If no attempt brings anything new, no trial starts while another one rests: a searcher without an end would
        bring trial after trial.
        """
        backoff = self._state.backoff
        may_start = backoff.may_start(self._now_s())
        return not may_start or (backoff.is_hopeless and bool(self._state.waiting.resting))

    def _apply(self, timeout_s: float | None) -> None:
        """Wait for events, and apply them."""
        state = self._state
        events = self._executor.wait(timeout_s)
        if events or not self._executor.only_events_count:
            # A plug-in may answer otherwise now. One that draws at each call would draw more on a slow machine, where
            # more waits time out; where that matters, only events count.
            state.may_start |= state.supply == SUPPLY_WAITING or not self._launcher.chooses_in_order
        for event in events:
            running = state.running.get(event.actor_id)
            if running is None:
                self._events.on_late_event(event)
            else:
                running.idle = type(event) is CallReturned  # the handler may send the next call
                self._events.table[type(event), running.trial.phase](running, event)
            if state.requests:
                self._outcomes.run_requests()
            self._outcomes.commit()

    def _check_stuck(self) -> None:
        """Raise an error if the run waits for an event that cannot come."""
        state = self._state
        waiting = state.waiting
        if not state.unfinished:
            return
        if state.backoff.is_hopeless:
            raise state.backoff.error()
        if waiting.resting or state.requests or state.supply == SUPPLY_WAITING:
            return
        if waiting.paused and not waiting.queue:
            scheduler = type(self._hooks.scheduler).__name__
            raise TuneError(
                f"nothing runs and no more trials will come, but {len(waiting.paused)} trials are PAUSED and "
                f"{scheduler}.choose_trial_to_run chooses none of them; it must return a paused trial, or stop it"
            )

    # -- how long to wait ----------------------------------------------------------------------------------------------

    def _patience_s(self, max_wait_s: float | None) -> float | None:
        """How long to wait for an event, in seconds; None: no limit."""
        state = self._state
        limits = [math.inf if max_wait_s is None else max_wait_s]
        if not state.running and state.supply == SUPPLY_WAITING and not state.waiting.num_pending:
            limits.append(self._seconds_to_next_ask())
        else:
            self._asked_in_vain = 0
        if state.backoff.is_active and state.ending is None:  # a run that is ending starts no worker
            limits.append(state.backoff.seconds_left(self._now_s()))
        if state.waiting.resting:
            limits.append(state.waiting.first_rest_ends_s() - self._now_s())
        if state.deadlines.are_set:
            limits.append(state.deadlines.seconds_left(self._now_s()))
        if self._needs_turns and state.ending is None:
            limits.append(self._hooks.seconds_left())
        if state.ending is not None:
            limits.append(self._end_by_s - self._now_s())
        wait_s = max(0.0, min(limits))
        return None if wait_s == math.inf else wait_s

    def _seconds_to_next_ask(self) -> float:
        """When to ask a searcher again that said "not now" while nothing runs."""
        self._asked_in_vain += 1
        if self._asked_in_vain == _ASKS_UNTIL_SAID:
            logger.warning(
                'nothing runs: the searcher says "not now" and the scheduler chooses none of %d PAUSED trials; '
                "both are asked again. A searcher with no more configurations must return Searcher.FINISHED",
                len(self._state.waiting.paused),
            )
        return _ASK_AGAIN_S

    def _stop_overdue(self) -> None:
        """Stop the workers of trials that have exceeded a time limit; these fail at the exit.

        Messages that have arrived are read first: the driver may have been suspended.
        """
        deadlines = self._state.deadlines
        if deadlines.seconds_left(self._now_s()) != 0:
            return
        self._apply(0)
        for actor_id in self._state.running:
            if self._executor.is_late(actor_id):
                deadlines.end(actor_id, REPORT_LIMIT)  # its report is in time, but another event comes first
        for overdue in deadlines.overdue(self._now_s()):
            running = self._state.running[overdue.actor_id]
            running.overdue = overdue  # its exit will be the failure, because only then its last lines are known
            self._executor.stop(running.actor_id, self._state.grace_s, dump=True)

    # -- the end of the run --------------------------------------------------------------------------------------------

    @property
    def failed_fast(self) -> Trial | None:
        """The trial whose failure has ended the run, or None."""
        return self._failures.failed_fast

    def stop_trials(self, trial_ids: Iterable[str]) -> None:
        """End these trials as a scheduler would, at the request of the user. Those that have ended stay as they are."""
        state = self._state
        if state.ending is not None:
            return
        for trial_id in trial_ids:
            trial = state.unfinished.get(trial_id)
            if trial is not None:
                self._outcomes.end(trial, Ending.of(EndKind.REQUEST))
        state.may_start = True
        self._outcomes.commit()

    def end_run(self, ending: Ending) -> None:
        """End every unfinished trial, and draw no new ones. Does not block: call `step` until all have ended. After a
        signal the journal keeps them unfinished.
        """
        if self._state.ending is not None:
            return
        self._state.ending = ending  # before the ends of trials: a trial that fails meanwhile is not retried
        self._state.interrupted = ending.kind is EndKind.INTERRUPTED
        self._end_by_s = self._now_s() + self._state.grace_s
        self._end_supply()
        for trial in list(self._state.unfinished.values()):  # a copy, because the ends change the index
            self._outcomes.end(trial, ending)
        self._outcomes.commit()

    def _end_late(self) -> None:
        """End the trials that still run without a save, after their grace period."""
        ending = self._state.ending
        if ending is not None and self._now_s() >= self._end_by_s:
            for running in list(self._state.running.values()):
                if running.overdue is None:  # otherwise its worker is about to be killed, and then it fails
                    self._outcomes.end(running.trial, ending, now=True)
            self._outcomes.commit()

    def _end_supply(self) -> None:
        self._hooks.search_ends()
        self._state.supply = SUPPLY_ENDED
        self._state.may_start = True

    def _end_if_stopper_wants(self) -> None:
        if self._state.ending is None and self._hooks.wants_all_stopped():
            self.end_run(self._hooks.ending_by_stopper())

    def _goes_on(self) -> None:
        """A search that had no more trials may have some, now that all others have ended."""
        if not self._hooks.search_has_ended():
            self._state.supply = SUPPLY_WAITING
            self._recorder.record(records.extend(0, self._hooks.search_alg.total_samples))

    def unwind(self) -> bool:
        """Block until a stopped worker has exited, or `wake` is called. Returns whether there may be more; the executor
        kills those that exceed the grace period.
        """
        if not self._state.waiting.leaving:
            return False
        self._apply(None)
        return True


TrialRunner = TuneController  # the older name, which schedulers of users have in annotations
