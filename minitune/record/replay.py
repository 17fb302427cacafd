"""Replay: the journal of a run, told again to fresh plug-ins, gives the state in which its driver was.

Searcher, scheduler and stopper hear the same calls in the same order as before, or take over the state that was saved
and hear what came after it; callbacks hear nothing. What they answer is compared with nothing but the configurations:
where a searcher proposes something else than it did, the journal stands. No worker is started and no file of a trial
is touched.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from minitune.checkpoint import matches
from minitune.config import ResumeConfig, ResumeType
from minitune.decision import DECISIONS, STOP, Decision
from minitune.error import JournalCorruptError, trial_error_of_text
from minitune.execution.failure import BY_SIGNAL, DRIVER_ENDED, LOST
from minitune.execution.hooks import Hooks
from minitune.execution.state import Donation, RunState
from minitune.experiment.lifecycle import ERROR, OWNS_ACTOR, PAUSED, PENDING, RUNNING, TERMINATED, Phase, Step
from minitune.experiment.trial import HAS_RETURNED, Trial, TrialMaker
from minitune.record import records
from minitune.record.layout import last_error_text
from minitune.record.story import PastResults
from minitune.result import DONE
from minitune.search.search_algorithm import SearchAlgorithm

logger = logging.getLogger("minitune")

RESUMED = "resumed"
"""Why a trial waits again that had ended."""

SKIPPED = "skipped by a resume"
"""Why a trial has ended that a later driver was not to go on with."""

_ASKS = 100


class SavedStates(Protocol):
    """What plug-ins have saved, to be taken over in the midst of a replay.

    Attributes:
        search_alg: The fresh search algorithm, also while it hears nothing.
    """

    search_alg: SearchAlgorithm

    @property
    def is_silent_searcher(self) -> bool:
        """Whether the searcher hears nothing yet."""
        ...

    @property
    def first_offset(self) -> int | None:
        """Where the first of them is to be taken over; None if there is none."""
        ...

    def begin(self, hooks: Hooks) -> None:
        """The replay begins: a plug-in that takes over a state later hears nothing until then."""
        ...

    def reach(self, offset: int | None, hooks: Hooks, trials: dict[str, Trial]) -> None:
        """The replay has come to the record at `offset` (None: the end): plug-ins that saved here go on from here."""
        ...


@dataclass
class Replay:
    """Rebuilds the state of a run from its journal.

    Args:
        run_path: The run's directory as it is now; it may have been moved.
        state: An empty state; filled.
        hooks: The fresh plug-ins.
        makers: Make the trials of each experiment for the fresh searcher: they go on with the ids of the run.
        saved: What the plug-ins have saved.

    Attributes:
        reports: By trial id, how many results are on record, rolled-back ones included.
        was_ended: Whether a stopper or a failure has ended the run, so that no new trials are to come.
        samples: How many samples the run has been given in addition to those that it began with.
        changes: What the resume itself has done to trials, to be put on record: the trial, and the trial whose place
            it takes if it was begun anew.
    """

    run_path: str
    state: RunState
    hooks: Hooks
    makers: Sequence[TrialMaker]
    saved: SavedStates
    reports: Counter[str] = field(default_factory=Counter)
    was_ended: bool = False
    samples: int = 0
    changes: list[tuple[Trial, Trial | None]] = field(default_factory=list)
    _final: dict[str, str] = field(default_factory=dict)
    _trials: dict[str, Trial] = field(default_factory=dict)
    _cut_off: set[str] = field(default_factory=set)
    _warned: bool = False
    _results: PastResults = field(default_factory=PastResults)

    def run(self, scan: Callable[[int | None], Iterable[tuple[int, records.Record]]], choice: ResumeConfig) -> None:
        """Apply all records, then make the trials ready that are to go on.

        Args:
            scan: Reads the journal: the records, in order, each with its offset. It is told from which offset on
                each single result is needed; None: from nowhere.
            choice: What becomes of the trials.

        Raises:
            JournalCorruptError: If a record contradicts those before it.
        """
        self.hooks.context.is_replaying = True
        try:
            self.saved.begin(self.hooks)
            for offset, record in scan(0 if self.hooks.hears_results else self.saved.first_offset):
                self.saved.reach(offset, self.hooks, self._trials)
                self._apply(record)
            self.saved.reach(None, self.hooks, self._trials)
            for trial in list(self.state.trials):
                self._choose(trial, choice)
            self._bring_forward()
        finally:
            self.hooks.context.is_replaying = False

    def _apply(self, record: records.Record) -> None:
        kind = record[records.KIND]
        handler = _HANDLERS.get(kind)
        if handler is None:
            return
        if kind not in (records.OPEN, records.CLOSE):
            # What a scheduler asked for earlier was carried out and is on record; only what it asks for
            # upon the very last record of a trial may have been cut off.
            self.hooks.drop_requests()
        handler(self, record)

    def _choose(self, trial: Trial, choice: ResumeConfig) -> None:
        """Do with a trial what is wanted of those in its status."""
        if not trial.is_finished():
            self._make_ready(trial)
        if trial.phase is Phase.ERROR:
            wanted = choice.errored
        elif trial.phase is Phase.TERMINATED:
            wanted = choice.finished
        elif any(trial is ending for ending, _ in self.state.to_end):
            return  # its final result is on record: there is nothing to choose
        else:
            wanted = choice.unfinished
        if wanted is ResumeType.RESTART:
            fresh = _anew(trial, Trial.generate_id())
            creator = self.makers[trial.experiment_number].name_creator
            if creator is not None:
                fresh.custom_trial_name = str(creator(fresh))
            self._restart(trial, fresh)
            self.changes.append((fresh, trial))
        elif trial.is_finished() and wanted is ResumeType.RESUME:
            self._revive(trial)
            self._make_ready(trial)
            self.changes.append((trial, None))
        elif not trial.is_finished() and wanted is ResumeType.SKIP:
            self.state.donations.pop(trial.trial_id, None)
            self._terminate(trial, SKIPPED, is_running=False)
            self.changes.append((trial, None))

    def _bring_forward(self) -> None:
        """Those that had a worker when their driver ended go on first: they had been started before what waits."""
        for trial in list(self.state.queue):
            if trial.trial_id not in self._cut_off:
                self.state.queue.remove(trial)
                self.state.queue.push(trial)

    def _trial(self, record: records.Record) -> Trial:
        try:
            return self._trials[record["trial"]]
        except KeyError:
            raise JournalCorruptError(
                f"the journal of {self.run_path} has a {record[records.KIND]!r} record of trial {record['trial']!r}, "
                "which it has not introduced"
            ) from None

    def _on_trial(self, record: records.Record) -> None:
        if record["replaces"]:
            old = self._trials[record["replaces"]]
            self._restart(old, self._fill(_anew(old, record["trial"]), record))
            return
        maker = self.makers[record["experiment"]]
        maker.ids.prefix, _, _ = record["trial"].rpartition("_")
        proposed = self._ask()
        maker.ids.count = max(maker.ids.count, record["number"] + 1)
        if proposed is None or proposed.config != record["config"]:
            self._warn_of_other_proposal(record["trial"])
        trial = proposed or Trial(maker.trainable_name)
        maker.adopt(trial)
        self._fill(trial, record)
        self.state.add(trial)
        self.hooks.added(trial)

    def _fill(self, trial: Trial, record: records.Record) -> Trial:
        """Make `trial` the one of a `trial` record."""
        trial.trial_id, trial.number = record["trial"], record["number"]
        trial.config, trial.seed = record["config"], record["seed"]
        trial.evaluated_params, trial.experiment_tag = record["evaluated_params"], record["tag"]
        trial.resources = records.resources_of(record)
        trial.experiment_path = self.run_path
        if record["name"] != trial.name:
            trial.custom_trial_name = record["name"]
        self._trials[trial.trial_id] = trial
        return trial

    def _warn_of_other_proposal(self, trial_id: str) -> None:
        if self.saved.is_silent_searcher or self._warned:
            return
        self._warned = True
        logger.warning(
            "the searcher does not propose what it had proposed for trial %s of %s; the recorded configuration "
            "stands (said once)",
            trial_id,
            self.run_path,
        )

    def _restart(self, old: Trial, fresh: Trial) -> None:
        """A trial is begun anew: `fresh` takes its place, and for the plug-ins the old one has ended."""
        self.state.donations.pop(old.trial_id, None)
        if not old.is_finished():
            self._terminate(old, RESUMED, is_running=False)
        self._trials[fresh.trial_id] = fresh
        self.state.replace(old, fresh)
        self.hooks.added(fresh)

    def _on_extend(self, record: records.Record) -> None:
        self.samples += record["samples"]
        self.was_ended = False
        self.saved.search_alg.add_samples(record["samples"])

    def _on_change(self, record: records.Record) -> None:
        trial = self._trial(record)
        if record["config"] is not None:
            trial.set_config(record["config"])
        if record["tag"] is not None:
            trial.set_experiment_tag(record["tag"])
        if record.get("evaluated_params") is not None:
            trial.evaluated_params = record["evaluated_params"]
        if record["resources"] is not None:
            self.state.change_resources(trial, records.resources_of(record))

    def _ask(self) -> Trial | None:
        """The searcher's next trial; a searcher may say "not now" for reasons of its own."""
        for _ in range(_ASKS):
            proposed = self.hooks.next_trial()
            if proposed is not None or self.hooks.search_alg.is_finished():
                return proposed
        return None

    def _on_start(self, record: records.Record) -> None:
        trial = self._trial(record)
        trial.custom_dirname, trial.attempt = record["directory"] or None, record["attempt"]
        if trial.phase in OWNS_ACTOR:  # its final result is on record, but it is to be saved once more
            self.state.move(trial, Step.RETRY, DRIVER_ENDED)
        self._final.pop(trial.trial_id, None)
        self._cut_off.discard(trial.trial_id)
        self.state.move(trial, Step.START, f"attempt {trial.attempt}")

    def _on_result(self, record: records.Record) -> None:
        trial, metrics = self._trial(record), record["metrics"]
        flat = self._results.complete(trial, metrics)
        self.reports[trial.trial_id] += 1
        decision = Decision(record["decision"], record["reason"]) if record["reason"] else _PLAIN[record["decision"]]
        self.hooks.retell(trial, metrics, flat, decision)
        if decision == STOP and metrics.get(DONE):  # not if an interrupt was to stop it
            self._final[trial.trial_id] = decision.reason
        trial.record_result(metrics, flat)
        self._commit(trial, record)

    def _on_checkpoint(self, record: records.Record) -> None:
        self._commit(self._trial(record), record)

    def _commit(self, trial: Trial, record: records.Record) -> None:
        checkpoint = records.checkpoint_of(record)
        if checkpoint is not None:
            trial.record_checkpoint(checkpoint)
            self.state.donations.pop(trial.trial_id, None)

    def _on_drop(self, record: records.Record) -> None:
        trial = self._trial(record)
        trial.checkpoints = [kept for kept in trial.checkpoints if kept.record.number != record["checkpoint"]]

    def _on_rollback(self, record: records.Record) -> None:
        trial = self._trial(record)
        trial.roll_back(self.state.goes_on_from(trial))

    def _on_exploit(self, record: records.Record) -> None:
        trial, donor, number = self._trial(record), self._trials[record["donor"]], record["checkpoint"]
        trial.set_config(record["config"])
        kept = next((kept for kept in donor.checkpoints if kept.record.number == number), None)
        if kept is not None:
            self.state.donations[trial.trial_id] = Donation.of(donor, kept.record, kept.metrics, trial)

    def _on_status(self, record: records.Record) -> None:
        trial, status, cause = self._trial(record), record["status"], record["cause"]
        is_running = trial.status == RUNNING
        if self._results.take_sum(trial, record):
            self.reports[trial.trial_id] = trial.report_count
        if status in (TERMINATED, ERROR):
            self._results.forget(trial)
            self.state.donations.pop(trial.trial_id, None)
        if status == RUNNING:
            self.state.move(trial, Step.TRAIN, cause)
        elif status == PAUSED:
            self.state.move(trial, Step.PAUSE, cause)
            self.hooks.paused(trial)
        elif status == PENDING and trial.phase is Phase.PAUSED:
            self.state.move(trial, Step.UNPAUSE, cause)
            self.hooks.unpaused(trial)
        elif status == PENDING and trial.is_finished():
            self._revive(trial)
        elif status == PENDING:
            self._retry(trial, cause)
        elif status == TERMINATED:
            self._terminate(trial, cause, is_running)
        elif status == ERROR:
            trial.num_failures += 1
            trial.error = trial_error_of_text(last_error_text(trial.local_path) or cause, cause)
            self.hooks.failed(trial)
            self.state.move(trial, Step.FAIL, cause)
            self.hooks.errored(trial)

    def _retry(self, trial: Trial, cause: str) -> None:
        self._final.pop(trial.trial_id, None)  # it failed while it was ended
        if cause.startswith(LOST):
            self.state.move(trial, Step.RETRY, cause)
            if cause.startswith(BY_SIGNAL):  # like those whose workers were ended with the driver
                self._cut_off.add(trial.trial_id)
            return
        trial.num_failures += 1
        self.hooks.failed(trial)
        self.state.move(trial, Step.RETRY, cause)
        self.hooks.recovers(trial)

    def _revive(self, trial: Trial) -> None:
        """Go on with a trial that had ended: to the scheduler it is a new one."""
        trial.error, trial.num_failures = None, 0
        self._final.pop(trial.trial_id, None)
        self.state.move(trial, Step.REVIVE, RESUMED)
        self.hooks.added(trial)

    def _on_open(self, record: records.Record) -> None:
        """A later driver begins: what had a worker under the one before it waits again."""
        for trial in self.state.unfinished.values():
            trial.num_failures = 0
            if trial.phase in OWNS_ACTOR and trial.trial_id not in self._final:
                self._cut_off.add(trial.trial_id)
                self.state.move(trial, Step.RETRY, DRIVER_ENDED)

    def _on_close(self, record: records.Record) -> None:
        self.was_ended = self.was_ended or record["reason"].startswith(records.ENDED)

    def _terminate(self, trial: Trial, cause: str, is_running: bool) -> None:
        if is_running:
            if cause == HAS_RETURNED:
                trial.returns()
            trial.completes()
            self.hooks.completed(trial)
        else:
            self.hooks.removed(trial)
        self.state.move(trial, Step.STOP, cause)

    def _make_ready(self, trial: Trial) -> None:
        """Put an unfinished trial back into the queue, on its newest checkpoint that is what its record says."""
        trial.num_failures = 0
        donation = self.state.donations.get(trial.trial_id)
        if donation is not None and not matches(donation.record, donation.donor.local_path):
            logger.warning(
                "%s, which trial %s was to go on from, is not what its record says", donation.path, trial.name
            )
            del self.state.donations[trial.trial_id]
        while trial.checkpoints and not matches(trial.checkpoints[-1].record, trial.local_path):
            damaged = trial.checkpoints.pop()
            logger.warning(
                "%s of trial %s is not what its record says; the one before it is used",
                damaged.record.directory,
                trial.name,
            )
        if trial.phase in OWNS_ACTOR and trial.trial_id in self._final:
            self.state.to_end.append((trial, self._final[trial.trial_id]))
        elif trial.phase in OWNS_ACTOR:
            self.state.move(trial, Step.RETRY, DRIVER_ENDED)


_PLAIN = {action: Decision(action) for action in DECISIONS}
"""Decisions without a reason: most are."""

_HANDLERS: dict[str, Callable[[Replay, records.Record], None]] = {
    records.TRIAL: Replay._on_trial,
    records.START: Replay._on_start,
    records.RESULT: Replay._on_result,
    records.CHECKPOINT: Replay._on_checkpoint,
    records.DROP: Replay._on_drop,
    records.ROLLBACK: Replay._on_rollback,
    records.EXPLOIT: Replay._on_exploit,
    records.CHANGE: Replay._on_change,
    records.STATUS: Replay._on_status,
    records.EXTEND: Replay._on_extend,
    records.OPEN: Replay._on_open,
    records.CLOSE: Replay._on_close,
}


def _anew(old: Trial, trial_id: str) -> Trial:
    """A trial like `old` that has not begun: with the configuration that it has now, and from no checkpoint."""
    trial = Trial(
        old.trainable_name,
        config=old.config,
        trial_id=trial_id,
        number=old.number,
        evaluated_params=old.evaluated_params,
        experiment_tag=old.experiment_tag,
        resources=old.resources,
        experiment_path=old.experiment_path,
        stopping_criterion=old.stopping_criterion,
        max_failures=old.max_failures,
    )
    trial.experiment_number, trial.seed = old.experiment_number, old.seed
    return trial


def read_run_record(journal: Iterable[records.Record]) -> dict[str, Any]:
    """The first record of a journal: what the run is.

    Raises:
        JournalCorruptError: If it is not there.
    """
    for record in journal:
        if record[records.KIND] == records.RUN:
            return record
        break
    raise JournalCorruptError("a journal must begin with a 'run' record, but this one does not; the run cannot go on")
