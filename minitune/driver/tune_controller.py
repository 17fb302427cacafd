"""TuneController: ask, launch, wait, apply.

What a scheduler requests for *other* trials is carried out after its hook, so nothing is re-entrant.

The events of a turn share one write of the journal; then workers get their answers (`TrialActions.commit`).
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from minitune.decision import Decision
from minitune.driver.actions import TrialActions
from minitune.driver.events import EventHandler
from minitune.driver.failure import Failures
from minitune.driver.launching import Refusal, TrialLauncher, TrialSource
from minitune.driver.limits import REPORT_LIMIT
from minitune.driver.run import Run
from minitune.driver.transitions import take
from minitune.error import TuneError
from minitune.executors.trial_executor import CallReturned, Placed
from minitune.experiment.endings import Ending, EndKind
from minitune.experiment.lifecycle import Phase, Transition
from minitune.experiment.trial import Trial
from minitune.schedulers.trial_scheduler import SUPPLY_ENDED, SUPPLY_WAITING

if TYPE_CHECKING:
    from minitune.driver.confirming import RepeatSource

logger = logging.getLogger("minitune")

_TOGETHER = 64
_TOGETHER_S = 0.005
"""At most so many events, or those of so many seconds, share a write: a slow callback delays few. Not measured: fewer
cost more writes, more delay the answers to trials.
"""
_ASK_AGAIN_S = 0.002
_ASK_AGAIN_MAX_S = 0.1
"""A searcher that says "not now" while nothing runs is asked again after pauses that double, from the first to the
second. Not measured: shorter ones take the CPU from trials.
"""
_ASKS_UNTIL_SAID = 100
"""After so many of these (about 10 s), a warning tells what the run waits for."""


class LeftOver(NamedTuple):
    """What an earlier driver has left over; by default, nothing."""

    was_ended: bool = False
    to_end: Sequence[tuple[Trial, Ending]] = ()


class TuneController:
    """Runs the trials of one run to their ends."""

    def __init__(self, run: Run, repeats: RepeatSource | None = None):
        self._run = run
        state = run.state
        hooks = run.hooks
        self._actions = TrialActions(run)
        self._failures = Failures(run, self._actions, self.end_run)
        self._events = EventHandler(run, self._actions, self._failures)
        self._source = TrialSource(run, repeats)
        self._launcher = TrialLauncher(run, self._actions, self._events.on_started, self._source)
        self._was_ended = False
        self._asked_in_vain = 0  # how often the searcher has said "not now" while nothing runs
        self._has_news = True  # whether the last wait has brought an event other than Placed
        # A run has only the limits and checks that it needs: most runs have none.
        self._wait_limits: list[Callable[[], float]] = []
        self._checks: list[Callable[[], None]] = []
        if state.deadlines.are_set:
            self._wait_limits.append(lambda: state.deadlines.seconds_left(self._now_s()))
            self._checks.append(self._stop_overdue)
        if hooks.stops_run:
            self._checks.append(self._end_if_stopper_wants)
        if hooks.turns_loop:
            self._wait_limits.append(self._seconds_to_next_turn)
        if repeats is not None:
            self._checks.append(self._confirm)

    # -- the loop ------------------------------------------------------------------------------------------------------

    def begin(self, left_over: LeftOver) -> None:
        """Begin the run with what an earlier driver has left over."""
        self._was_ended = left_over.was_ended
        if left_over.was_ended:
            self._end_supply()
        for trial, ending in left_over.to_end:
            self._end_stopped(trial, ending)
        self._actions.commit()
        if self._run.hooks.stops_run:
            # Also before the first wait, since a time budget begins with this call, and no event may come for long.
            self._end_if_stopper_wants()

    def step(self, max_wait_s: float | None = None) -> None:
        """One turn: ask, launch, wait, apply."""
        state = self._run.state
        waiting = state.waiting
        if waiting.resting and waiting.end_rests(self._now_s()):
            state.may_start = True
        if state.ending is None and (state.may_start or state.requests or not state.running):
            self._launch()
        is_over = not (state.running or state.unfinished) and state.supply == SUPPLY_ENDED
        if not is_over:
            wait_s = max_wait_s
            if not state.running or self._wait_limits or state.backoff.is_active:
                wait_s = self._patience_s(max_wait_s)
            self._apply(wait_s)
        for check in self._checks:
            check()
        self._run.hooks.iteration += 1

    def _launch(self) -> None:
        """Start trials, and carry out what the scheduler has requested meanwhile."""
        state = self._run.state
        has_to_wait = state.backoff.is_active and self._has_to_wait()
        if not has_to_wait and (self._has_news or self._may_ask()):
            while state.ending is None:
                refusal = self._launcher.launch()
                if refusal is None:
                    break
                self._failures.cannot_start(refusal.trial, refusal.error)
        if state.requests:
            self._actions.run_requests()
        self._actions.commit()
        # An actor that has not exited yet will bring an event, after which more trials may start.
        if not (state.running or state.waiting.leaving):
            self._check_stuck()

    def _may_ask(self) -> bool:
        """Whether plug-ins may be asked, although the last wait has brought no news. Not in logical order: a plug-in
        that draws at each call would draw more on a slow machine, where more waits time out.
        """
        state = self._run.state
        is_idle = not (state.running or state.waiting.leaving)
        return is_idle or not state.settings.is_ordered

    def _has_to_wait(self) -> bool:
        """Whether no worker may start now.

        If no attempt brings anything new, no trial starts while another one rests: a searcher without an end would
        bring trial after trial.
        """
        backoff = self._run.state.backoff
        may_start = backoff.may_start(self._now_s())
        return not may_start or (backoff.is_hopeless and bool(self._run.state.waiting.resting))

    def _apply(self, timeout_s: float | None) -> None:
        """Wait for events, and apply them. Their records are written before the workers are answered."""
        state = self._run.state
        events = self._run.executor.wait(timeout_s)
        # In logical order there is one event at a time.
        self._has_news = bool(events) and not isinstance(events[0], Placed)
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
                self._events.on_late_event(event)
            elif isinstance(event, CallReturned):
                self._events.of_answer[running.trial.phase](running, event.value)
            else:
                self._events.of_type[type(event)](running, event)
            if state.requests:
                self._actions.run_requests()
        self._actions.commit()

    def _check_stuck(self) -> None:
        """Raise an error if the run waits for an event that cannot come."""
        state = self._run.state
        waiting = state.waiting
        if not state.unfinished:
            return
        if state.backoff.is_hopeless:
            raise state.backoff.error()
        if waiting.resting or state.requests or state.supply == SUPPLY_WAITING:
            return
        if waiting.paused and not waiting.queue:
            scheduler = type(self._run.hooks.scheduler).__name__
            raise TuneError(
                f"nothing runs and no more trials will come, but {len(waiting.paused)} trials are PAUSED and "
                f"{scheduler}.choose_trial_to_run chooses none of them; it must return a paused trial, or stop it"
            )

    # -- how long to wait ----------------------------------------------------------------------------------------------

    def _now_s(self) -> float:
        return self._run.executor.clock.monotonic()

    def _patience_s(self, max_wait_s: float | None) -> float | None:
        """How long to wait for an event, in seconds; None: no limit."""
        state = self._run.state
        limits = [math.inf if max_wait_s is None else max_wait_s]
        if not state.running and state.supply == SUPPLY_WAITING and not state.waiting.num_pending:
            limits.append(self._seconds_to_next_ask())
        else:
            self._asked_in_vain = 0
        if state.backoff.is_active and state.ending is None:  # a run that is ending starts no worker
            limits.append(state.backoff.seconds_left(self._now_s()))
        if state.waiting.resting:
            limits.append(state.waiting.first_rest_ends_s() - self._now_s())
        for limit_s in self._wait_limits:
            limits.append(limit_s())
        wait_s = max(0.0, min(limits))
        return None if wait_s == math.inf else wait_s

    def _seconds_to_next_turn(self) -> float:
        """When a plug-in needs the next turn."""
        if self._run.state.ending is not None:
            return math.inf
        return self._run.hooks.seconds_left()

    def _seconds_to_next_ask(self) -> float:
        """When to ask a searcher again that said "not now" while nothing runs."""
        self._asked_in_vain += 1
        if self._asked_in_vain == _ASKS_UNTIL_SAID:
            logger.warning(
                'nothing runs: the searcher says "not now" and the scheduler chooses none of %d PAUSED trials; '
                "both are asked again. A searcher with no more configurations must return Searcher.FINISHED",
                len(self._run.state.waiting.paused),
            )
        return min(_ASK_AGAIN_S * 2.0 ** min(self._asked_in_vain, 10), _ASK_AGAIN_MAX_S)

    def _stop_overdue(self) -> None:
        """Stop the workers of trials that have exceeded a time limit; these fail at the exit.

        Messages that have arrived are read first: the driver may have been suspended.
        """
        deadlines = self._run.state.deadlines
        settings = self._run.state.settings
        if deadlines.seconds_left(self._now_s()) != 0:
            return
        self._apply(0)
        if settings.answered is not None:
            for actor_id in settings.answered():
                deadlines.end(actor_id, REPORT_LIMIT)  # its report is in time, but another event comes first
        for overdue in deadlines.overdue(self._now_s()):
            running = self._run.state.running[overdue.actor_id]
            running.overdue = overdue  # its exit will be the failure, because only then its last lines are known
            self._run.executor.stop(running.actor_id, settings.grace_s, dump=True)

    # -- the end of the run --------------------------------------------------------------------------------------------

    @property
    def failed_fast(self) -> Trial | None:
        """The trial whose failure has ended the run, or None."""
        return self._failures.failed_fast

    def how_ended(self) -> Ending:
        """How the run has ended, for the journal."""
        return self._run.state.ending or Ending.of(EndKind.FINISHED)

    def stop_trials(self, trial_ids: Iterable[str]) -> None:
        """End these trials as a scheduler would, at the request of the user. Those that have ended stay as they are."""
        state = self._run.state
        if state.ending is not None:
            return
        for trial_id in trial_ids:
            trial = state.unfinished.get(trial_id)
            if trial is not None:
                self._actions.stop(trial, Ending.of(EndKind.REQUEST))
        state.may_start = True
        self._actions.commit()

    def end_run(self, ending: Ending) -> None:
        """End every unfinished trial, and draw no new ones. Does not block: call `step` until all have ended. After a
        signal the journal keeps them unfinished.
        """
        if self._run.state.ending is not None:
            return
        self._run.state.ending = ending  # before the ends of trials: a trial that fails meanwhile is not retried
        resumable = self._run.state.interrupted
        deadline_s = self._now_s() + self._run.state.settings.grace_s
        self._wait_limits.append(lambda: deadline_s - self._now_s())
        self._checks.append(lambda: self._cut_all_short(ending, deadline_s))
        self._end_supply()
        for trial in list(self._run.state.unfinished.values()):  # a copy, because the ends change the index
            running = self._run.state.running.get(trial.attempt.actor_id)
            if running is None:
                self._actions.remove(trial, ending)
            elif trial.phase is Phase.SAVING or (trial.phase is Phase.TRAINING and self._saves(resumable)):
                # It ends after the report or save in flight, and is saved before. The deadline above is the limit.
                running.requested = Decision.stop(ending)
            else:
                self._actions.cut_short(running, ending)
        self._actions.commit()

    def _cut_all_short(self, ending: Ending, deadline_s: float) -> None:
        """End the trials that still run without a save, after their grace period."""
        if self._now_s() >= deadline_s:
            for running in list(self._run.state.running.values()):
                self._actions.cut_short(running, ending)
            self._actions.commit()

    def _end_supply(self) -> None:
        self._run.hooks.search_ends()
        self._run.state.supply = SUPPLY_ENDED
        self._run.state.may_start = True

    def _end_if_stopper_wants(self) -> None:
        if self._run.state.ending is None and self._run.hooks.wants_all_stopped():
            self.end_run(self._run.hooks.ending_by_stopper())

    def _saves(self, resumable: bool) -> bool:
        """Whether a trial that ends with the run is saved."""
        settings = self._run.state.settings
        return settings.saves and (resumable or bool(settings.checkpoints.checkpoint_at_end))

    def _confirm(self) -> None:
        """Add the repeats of the best trials, unless something else has ended the run."""
        state = self._run.state
        if state.unfinished or state.supply != SUPPLY_ENDED or state.ending is not None or self._was_ended:
            return
        try:
            self._source.add_repeats()
        except Refusal as refusal:
            self._failures.cannot_start(refusal.trial, refusal.error)
        self._actions.commit()

    def _end_stopped(self, trial: Trial, ending: Ending) -> None:
        """End a RUNNING trial of an earlier driver whose final result is on record.

        If it must be saved at its end and was not, it continues from its last checkpoint.
        """
        is_saved = bool(trial.checkpoints) and trial.checkpoints[-1].progress.num_reports == trial.progress.num_reports
        if self._saves(resumable=False) and not is_saved:
            self._run.state.move(trial, Transition.RETRY, Ending.of(EndKind.DRIVER_ENDED))
            return
        take(self._run, trial, Transition.STOP, ending)
        self._actions.is_over(trial)

    def unwind(self) -> bool:
        """Block until a stopped worker has exited, or `wake` is called. Returns whether there may be more; the executor
        kills those that exceed the grace period.
        """
        if not self._run.state.waiting.leaving:
            return False
        self._apply(None)
        return True


TrialRunner = TuneController  # the older name, which schedulers of users have in annotations
