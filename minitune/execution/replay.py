"""Replay: the journal of a run, told again to fresh plug-ins, gives the state in which its driver was.

Searcher, scheduler and stopper hear the same calls in the same order as before; callbacks hear nothing. What they
answer is compared with nothing but the configurations: where a searcher proposes something else than it did, the
journal stands. No worker is started and no file of a trial is touched.
"""

from __future__ import annotations

import logging
import os
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from minitune.checkpoint import matches
from minitune.decision import STOP, Decision
from minitune.error import JournalCorruptError, TrialError
from minitune.execution import records
from minitune.execution.failure import LOST
from minitune.execution.hooks import Hooks
from minitune.execution.run_state import Donation, RunState
from minitune.experiment.lifecycle import ERROR, OWNS_ACTOR, PAUSED, PENDING, RUNNING, TERMINATED, Phase, Step
from minitune.experiment.trial import HAS_RETURNED, Trial, TrialMaker
from minitune.result import CONFIG, DONE

logger = logging.getLogger("minitune")

ENDED = "ended: "
"""What the reason of a `close` record begins with if the run was ended before its trials, for good."""

RESUMED = "resumed"
"""Why a trial waits again that had failed for good."""

DRIVER_ENDED = "the driver ended"
"""Why a trial waits again that had a worker when its driver ended."""

_ASKS = 100


@dataclass(frozen=True)
class ResumeChoice:
    """What a resume does with trials that have failed.

    Attributes:
        errored: Go on with them from their last checkpoints.
    """

    errored: bool = False


@dataclass
class Replay:
    """Rebuilds the state of a run from its journal.

    Args:
        run_path: The run's directory as it is now; it may have been moved.
        state: An empty state; filled.
        hooks: The fresh plug-ins.
        maker: Makes the trials of the fresh searcher: it goes on with the ids of the run.

    Attributes:
        reports: By trial id, how many results are on record, rolled-back ones included.
        was_ended: Whether a stopper or a failure has ended the run, so that no new trials are to come.
        revived: The trials that had failed and are to go on; to be put on record.
    """

    run_path: str
    state: RunState
    hooks: Hooks
    maker: TrialMaker
    reports: Counter[str] = field(default_factory=Counter)
    was_ended: bool = False
    revived: list[Trial] = field(default_factory=list)
    _final: dict[str, str] = field(default_factory=dict)
    _trials: dict[str, Trial] = field(default_factory=dict)
    _warned: bool = False

    def run(self, journal: Iterable[records.Record], choice: ResumeChoice) -> None:
        """Apply all records, then make the trials ready that are to go on.

        Args:
            journal: The records, in order.
            choice: Which failed trials go on.

        Raises:
            JournalCorruptError: If a record contradicts those before it.
        """
        handlers = {
            records.TRIAL: self._on_trial,
            records.START: self._on_start,
            records.RESULT: self._on_result,
            records.CHECKPOINT: self._on_checkpoint,
            records.DROP: self._on_drop,
            records.ROLLBACK: self._on_rollback,
            records.EXPLOIT: self._on_exploit,
            records.STATUS: self._on_status,
            records.OPEN: self._on_open,
            records.CLOSE: self._on_close,
        }
        self.hooks.muted = True
        try:
            for record in journal:
                handler = handlers.get(record[records.KIND])
                if handler is None:
                    continue
                if record[records.KIND] not in (records.OPEN, records.CLOSE):
                    # What a scheduler asked for earlier was carried out and is on record; only what it asks for
                    # upon the very last record of a trial may have been cut off.
                    self.hooks.drop_requests()
                handler(record)
        finally:
            self.hooks.muted = False
        for trial in self.state.trials:
            if trial.phase is Phase.ERROR and choice.errored:
                self._revive(trial)
                self.revived.append(trial)
            if not trial.is_finished():
                self._make_ready(trial)

    def _trial(self, record: records.Record) -> Trial:
        try:
            return self._trials[record["trial"]]
        except KeyError:
            raise JournalCorruptError(
                f"the journal of {self.run_path} has a {record[records.KIND]!r} record of trial {record['trial']!r}, "
                "which it has not introduced"
            ) from None

    def _on_trial(self, record: records.Record) -> None:
        self.maker.prefix = record["trial"].rpartition("_")[0]
        proposed = self._ask()
        self.maker.count = max(self.maker.count, record["number"] + 1)
        if (proposed is None or proposed.config != record["config"]) and not self._warned:
            self._warned = True
            logger.warning(
                "the searcher does not propose what it had proposed for trial %s of %s; the recorded configuration "
                "stands (said once)",
                record["trial"],
                self.run_path,
            )
        trial = proposed or Trial(self.maker.trainable_name)
        trial.trial_id, trial.number = record["trial"], record["number"]
        trial.config, trial.seed = record["config"], record["seed"]
        trial.evaluated_params, trial.experiment_tag = record["evaluated_params"], record["tag"]
        trial.resources = records.resources_of(record)
        trial.experiment_path, trial.max_failures = self.run_path, self.maker.max_failures
        if record["name"] != trial.name:
            trial.custom_trial_name = record["name"]
        self._trials[trial.trial_id] = trial
        self.state.add(trial)
        self.hooks.added(trial)

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
        self.state.move(trial, Step.START, f"attempt {trial.attempt}")

    def _on_result(self, record: records.Record) -> None:
        trial, metrics = self._trial(record), record["metrics"]
        if CONFIG in metrics:
            metrics[CONFIG] = trial.config
        self.reports[trial.trial_id] += 1
        decision = Decision(record["decision"], record["reason"])
        self.hooks.retell(trial, metrics, decision)
        if decision == STOP and metrics.get(DONE):  # not if an interrupt was to stop it
            self._final[trial.trial_id] = decision.reason
        trial.record_result(metrics)
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
        if status in (TERMINATED, ERROR):
            self.state.donations.pop(trial.trial_id, None)
        if status == RUNNING:
            self.state.move(trial, Step.TRAIN, cause)
        elif status == PAUSED:
            self.state.move(trial, Step.PAUSE, cause)
            self.hooks.paused(trial)
        elif status == PENDING and trial.phase is Phase.PAUSED:
            self.state.move(trial, Step.UNPAUSE, cause)
            self.hooks.unpaused(trial)
        elif status == PENDING and trial.phase is Phase.ERROR:
            self._revive(trial)
        elif status == PENDING:
            self._retry(trial, cause)
        elif status == TERMINATED:
            self._terminate(trial, cause, is_running)
        elif status == ERROR:
            trial.num_failures += 1
            self.hooks.failed(trial)
            self.state.move(trial, Step.FAIL, cause)
            trial.error = TrialError(self._error_text(trial) or cause)
            self.hooks.errored(trial)

    def _retry(self, trial: Trial, cause: str) -> None:
        self._final.pop(trial.trial_id, None)  # it failed while it was ended
        if cause.startswith(LOST):
            self.state.move(trial, Step.RETRY, cause)
            return
        trial.num_failures += 1
        self.hooks.failed(trial)
        self.state.move(trial, Step.RETRY, cause)
        self.hooks.recovers(trial)

    def _revive(self, trial: Trial) -> None:
        """Go on with a trial that had failed for good: to the scheduler it is a new one."""
        trial.error, trial.num_failures = None, 0
        self.state.move(trial, Step.REVIVE, RESUMED)
        self.hooks.added(trial)

    def _on_open(self, record: records.Record) -> None:
        """A later driver begins: what had a worker under the one before it waits again."""
        for trial in self.state.unfinished.values():
            trial.num_failures = 0
            if trial.phase in OWNS_ACTOR and trial.trial_id not in self._final:
                self.state.move(trial, Step.RETRY, DRIVER_ENDED)

    def _on_close(self, record: records.Record) -> None:
        self.was_ended = self.was_ended or record["reason"].startswith(ENDED)

    def _terminate(self, trial: Trial, cause: str, is_running: bool) -> None:
        if is_running:
            if cause == HAS_RETURNED:
                trial.returns()
            if trial.last_result:
                trial.last_result = {**trial.last_result, DONE: True}
            self.hooks.completed(trial)
        else:
            self.hooks.removed(trial)
        self.state.move(trial, Step.STOP, cause)

    def _error_text(self, trial: Trial) -> str:
        """The last entry of the trial's `error.txt`, without its heading."""
        try:
            with open(os.path.join(trial.local_path, "error.txt"), encoding="utf-8", errors="replace") as file:
                entry = file.read().rpartition("Failure # ")[2]
        except OSError:
            return ""
        return entry.partition("\n")[2].strip()

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
