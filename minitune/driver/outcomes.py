"""Outcomes: what becomes of a trial. It goes on, is saved, pauses, continues from another one, or ends.

`Outcomes.end` ends each trial that has not failed; `Failures` ends the others. At a resume, `Replay` ends those
that the user skips or starts over.

A worker must not act on an event that is not in the journal yet. So requests to workers are commands in one list until
`commit` has written the records of all events.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable
from typing import Any

from minitune.driver.hooks import Hooks
from minitune.driver.limits import REPORT_LIMIT
from minitune.driver.state import Request, RunningTrial, RunState
from minitune.driver.transitions import take
from minitune.executors.trial_executor import (
    RESTORE,
    SAVE,
    STOP_SWALLOWED_EXIT,
    TRAIN,
    Exited,
    TrialExecutor,
)
from minitune.experiment.decision import CONTINUE, NOOP, PAUSE, STOP, Decision
from minitune.experiment.endings import Ending, EndKind
from minitune.experiment.lifecycle import Phase, Transition
from minitune.experiment.trial import InheritedCheckpoint, Trial
from minitune.record.recorder import Recorder
from minitune.space.tree import value_at_text

logger = logging.getLogger("minitune")


class Outcomes:
    """Carries out decisions about trials of one run.

    Attributes:
        saves: Whether the trainable is a class that can be saved between two steps.
        take: `transitions.take` for this run: takes a transition of a trial, records it, and tells the plug-ins.
        now_s: The time of all limits.
        commands: The calls and stops of actors that wait for `commit`, in order.
    """

    def __init__(self, executor: TrialExecutor, state: RunState, hooks: Hooks, recorder: Recorder):
        self.executor = executor
        self.state = state
        self.now_s = executor.clock.monotonic
        self.hooks = hooks
        self.recorder = recorder
        self.take = functools.partial(take, state, hooks, recorder)
        self.saves = state.plan.experiment.saves
        self.checkpoints = state.plan.checkpoint_config
        self._reuses = state.plan.tune_config.reuse_actors
        self.commands: list[tuple[Callable[..., object], tuple[Any, ...]]] = []
        self._warned_pause = False
        # With time limits, a call of an actor also starts its clock.
        self._call: Callable[..., object] = self._timed_call if state.deadlines.are_set else executor.call

    def commit(self) -> None:
        """Write the records, then carry out the commands, in order. Blocks."""
        if self.recorder.journal.unwritten:  # some turns of the loop record nothing
            self.recorder.write()
        commands = self.commands
        if commands:
            self.commands = []  # first: a command may lead to others, which need a write of their own
            for command, arguments in commands:
                command(*arguments)

    def carry_out(self, running: RunningTrial, decision: Decision) -> None:
        """Carry out a decision. No call to the worker is in flight."""
        if decision.exploit is not None:
            if self._exploit(running.trial, *decision.exploit):
                return
            if decision == PAUSE:  # the trial was not saved, so it must not be paused
                decision = Decision(CONTINUE, decision.reason)
        if decision == STOP:
            self.end(running.trial, decision.ending, now=True)
        elif decision == PAUSE:
            self._pause(running, decision.reason)
        elif decision == NOOP:  # the scheduler has decided by requests, which may concern this trial
            self.run_requests()
            if running.idle and running.actor_id in self.state.running:
                self.pull(running)
        else:
            self.pull(running)

    def pull(self, running: RunningTrial) -> None:
        """Request the next report."""
        running.idle = False
        if running.trial.phase is not Phase.TRAINING:
            self.take(running.trial, Transition.TRAIN)
        self.commands.append((self._call, (running.actor_id, TRAIN)))

    def _timed_call(self, actor_id: str, method: str, *arguments: Any) -> None:
        self.executor.call(actor_id, method, *arguments)
        # begun after the call, so that a driver suspended before it makes no worker late
        if method == TRAIN and actor_id in self.state.running:
            self.state.deadlines.begin(actor_id, REPORT_LIMIT, self.now_s())

    def save(self, running: RunningTrial) -> None:
        """Let the worker write a checkpoint, and then carry out the decision."""
        running.idle = False
        self.take(running.trial, Transition.SAVE)
        self.commands.append((self._call, (running.actor_id, SAVE)))

    def restore(self, running: RunningTrial, path: str, metrics: dict[str, Any]) -> None:
        """Let the worker load a checkpoint, with its result."""
        running.idle = False
        self.take(running.trial, Transition.RESTORE)
        self.commands.append((self._call, (running.actor_id, RESTORE, path, metrics)))

    def _pause(self, running: RunningTrial, reason: str) -> None:
        trial = running.trial
        reached = trial.start_point().progress.num_reports
        if trial.progress.num_reports > reached and not self._warned_pause:
            self._warned_pause = True
            where = f"report {reached}" if reached else "the beginning"
            logger.warning(
                "trial %s is paused after report %d and will continue from %s, its last checkpoint; report a "
                "checkpoint with each result (a program: in $MINITUNE_CHECKPOINT_DIR) to lose nothing (logged once)",
                trial.name,
                trial.progress.num_reports,
                where,
                extra=about(trial),
            )
        self.let_go(running)  # before the transition, because a PAUSED trial owns no actor
        self.take(trial, Transition.PAUSE, reason)

    def end(self, trial: Trial, ending: Ending, *, now: bool = False) -> None:
        """End a trial, whatever it does. One that is to be saved first ends when its worker has answered; one that has
        exceeded a time limit fails when its worker has exited. `now`: without either.
        """
        state = self.state
        running = state.running.get(trial.attempt.actor_id)
        if running is None:
            self.executor.forget(trial.trial_id)  # it may wait in the ledger
        else:
            if not now and (running.overdue is not None or self._saves_first(running, ending)):
                return
            running.is_cut_short = not running.idle
            self.let_go(running)
        # After a signal the journal keeps the trial unfinished: no record of its end, so that a resume continues it.
        if state.interrupted and not (running is not None and running.is_final):
            self.hooks.interrupted(trial)
            state.move(trial, Transition.STOP, ending)
            return
        if trial.phase is Phase.STARTING:  # for plug-ins and for a replay it has not been RUNNING
            self.take(trial, Transition.RETRY, Ending.of(EndKind.NOT_READY))
            self.executor.forget(trial.trial_id)
        elif running is not None:
            trial.completes()
        self.take(trial, Transition.STOP, ending)
        self.release(trial)

    def saves_at_end(self) -> bool:
        """Whether a trial that ends now is saved before."""
        return self.saves and (self.state.interrupted or bool(self.checkpoints.checkpoint_at_end))

    def _saves_first(self, running: RunningTrial, ending: Ending) -> bool:
        """Save a trial that is to end, if it must be saved; return whether its end waits for that.

        At the end of the run, its present call ends before. Any other end cuts the call short.
        """
        phase = running.trial.phase
        if running.idle and self.saves_at_end():
            running.decision = Decision.stop(ending)
            self.save(running)
            return True
        if running.idle or self.state.ending is None:
            return False
        if phase is Phase.SAVING or (phase is Phase.TRAINING and self.saves_at_end()):
            running.requested = Decision.stop(ending)
            return True
        return False

    def release(self, trial: Trial) -> None:
        """Release everything that was kept for a trial. It has ended, and its status is set."""
        self.recorder.trial_ends(trial)
        if trial.inherited is not None:
            self.release_inherited(trial)

    def release_inherited(self, trial: Trial) -> None:
        """Release the donor's checkpoint, since `trial` no longer needs it."""
        inherited = trial.inherited
        if inherited is not None:  # the donor may have left it behind, so that only the pin has kept it
            trial.inherited = None
            self.recorder.unpin(inherited.donor, inherited.record)

    def let_go(self, running: RunningTrial, *, keep: bool = True) -> None:
        """Separate the worker from its trial, whose next attempt waits for its exit."""
        self.state.let_go(running)
        self.commands.append((self._stop_actor, (running, keep and self._reuses)))

    def _stop_actor(self, running: RunningTrial, keeps: bool) -> None:
        self.state.deadlines.forget(running.actor_id)
        exited = self.executor.stop(running.actor_id, self.state.grace_s, keeps)
        if exited is not None:
            self.has_left(running, exited)

    def has_left(self, running: RunningTrial, event: Exited) -> None:
        """A stopped actor has exited: there may be room for another worker at once."""
        trial = running.trial
        if self.state.backoff.is_active:
            self.state.backoff.has_room()
        if event.kind == "stopped" and event.exit_code == STOP_SWALLOWED_EXIT:
            logger.warning("trial %s: %s", trial.trial_id, event.cause)
        if running.is_cut_short:
            self.recorder.directories.clean(trial)
        self.state.has_left(running)

    # -- requests of schedulers ---------------------------------------------------------------------------------------

    def run_requests(self) -> None:
        """Carry out the requests of schedulers, in order."""
        carry_out: dict[str, Callable[[Request], object]] = {
            "stop": lambda request: self.end(request.trial, self.hooks.scheduler_stops(*request.argument)),
            "pause": self._on_pause_request,
            "exploit": lambda request: self._exploit(request.trial, *request.argument),
        }
        # One by one: what a request does may call hooks of the scheduler, which make more requests.
        while self.state.requests:
            request = self.state.requests.popleft()
            # A run that is ending resumes no trial, so it pauses none.
            if not request.trial.is_finished() and (request.verb == "stop" or self.state.ending is None):
                carry_out[request.verb](request)

    def _on_pause_request(self, request: Request) -> None:
        trial = request.trial
        decision = Decision(PAUSE, "at the request of the scheduler")
        running = self.state.running.get(trial.attempt.actor_id)
        if running is None:
            if trial.phase is Phase.QUEUED:
                self.take(trial, Transition.PAUSE, decision.reason)
        elif running.idle and request.argument and self.saves:
            running.decision = decision
            self.save(running)
        # A trial that has not trained yet has nothing to save, so it need not be waited for.
        elif running.idle or not request.argument or trial.phase in (Phase.STARTING, Phase.RESTORING):
            running.is_cut_short = not running.idle
            self._pause(running, decision.reason)
        else:
            running.requested = stronger(decision, running.requested)

    def _exploit(self, trial: Trial, donor: Trial, config: dict[str, Any], reason: str = "") -> bool:
        """Let `trial` continue from the donor's latest checkpoint with `config`. False if the donor has none."""
        config = dict(config)  # a scheduler may pass the read-only configuration of a trial
        own = donor.inherited
        if own is not None:  # the donor has no own checkpoint that is newer than its inherited one
            inherited = InheritedCheckpoint.of(own.donor, own.record, own.metrics, trial)
        elif donor.checkpoints:
            kept = donor.checkpoints[-1]
            inherited = InheritedCheckpoint.of(donor, kept.record, kept.progress.metrics, trial)
        else:
            whom = "itself" if donor is trial else donor.name
            logger.warning(
                "trial %s cannot exploit %s, which has no checkpoint; it continues unchanged",
                trial.name,
                whom,
                extra=about(trial),
            )
            return False
        # Pinned first: the trial may release the same checkpoint, and then nothing else would keep it.
        self.recorder.pin(inherited.donor, inherited.record)
        self.release_inherited(trial)
        self.recorder.exploit(trial, inherited.donor, inherited.record, config, reason)
        trial.inherited = inherited
        running = self.state.running.get(trial.attempt.actor_id)
        if running is not None:
            # Its state is of no use any more. A fresh attempt loads the donor's checkpoint, as after any pause.
            self.let_go(running)
            self.take(trial, Transition.PAUSE, f"exploits {donor.name}")
        trial.set_config(config)
        drawn = trial.evaluated_params
        present = {path: value_at_text(config, path, value) for path, value in drawn.items()}
        if any(value is not drawn[path] for path, value in present.items()):
            trial.evaluated_params = present
        self.recorder.note_changes(trial)
        return True


def about(trial: Trial) -> dict[str, str]:
    """The `extra` of a log message about a trial."""
    return {"trial_id": trial.trial_id}


def stronger(decision: Decision, other: Decision | None) -> Decision:
    """The stronger of two decisions: STOP, then PAUSE; of two pauses, the one that does more."""
    if other is None:
        return decision
    rank = {STOP: 2, PAUSE: 1, CONTINUE: 0, NOOP: 0}
    mine = rank[str(decision)]
    others = rank[str(other)]
    if mine == others == 1 and decision.exploit is None:
        return other
    if mine >= others:
        return decision
    return other
