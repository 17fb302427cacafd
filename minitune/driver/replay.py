"""Replay: bring fresh plug-ins and trials to the state in which the last driver left them.

`story` applies the records of the journal to the trials. A searcher adopts the recorded trials, and is not asked for
them. The other calls are those of the first driver, in the same order; their answers do not count, because the journal
has the decisions. Plug-ins with a state in the snapshot are told only what follows. Callbacks are told nothing. A
replay starts no worker and touches no file of a trial.
"""

from __future__ import annotations

import logging
import os
from collections import Counter

from minitune.checkpoint import matches
from minitune.config import ResumeConfig, ResumeType
from minitune.driver.hooks import Hooks
from minitune.driver.snapshot import Snapshot, load_state
from minitune.driver.state import RunState
from minitune.driver.transitions import take
from minitune.experiment.decision import DECISIONS, STOP, Decision
from minitune.experiment.endings import Ending, EndKind
from minitune.experiment.lifecycle import OWNS_ACTOR, Phase, Transition
from minitune.experiment.trial import Trial
from minitune.experiment.trial_maker import TrialMaker
from minitune.record import journal, records
from minitune.record.layout import RunDirectory
from minitune.record.story import Effect, Story

logger = logging.getLogger("minitune")

RESUMED = "resumed"
"""The cause in the record of an ended trial that a resume puts back into the queue."""


class Replay(Story):
    """A `Story` that also calls the plug-ins. It fills the state of a run, and then prepares the trials that continue.

    Args:
        maker: Continues the ids of the run.
        snapshot: The states that plug-ins load, which are told only what was recorded after it.

    Attributes:
        reports: The number of recorded results by trial id, rolled-back results included.
        changes: The changes that the resume made, to be written to the journal: each trial, and the one that it
            replaces if it starts over, or None.
        to_end: The RUNNING trials whose final result is recorded and whose end is not, with their endings.
    """

    def __init__(self, run: RunDirectory, state: RunState, hooks: Hooks, maker: TrialMaker, snapshot: Snapshot) -> None:
        super().__init__(run.path)
        # shared with the state, which keeps them and its other indices consistent
        self.trials = state.trials
        self.unfinished = state.unfinished
        self.state = state
        self.hooks = hooks
        self.maker = maker
        self.run_directory = run
        self.snapshot = snapshot
        self.reports: Counter[str] = Counter()
        self.changes: list[tuple[Trial, Trial | None]] = []
        self.to_end: list[tuple[Trial, Ending]] = []
        self._cut_off: set[str] = set()  # ids of trials whose worker was lost, with the driver or before it

    def run(self, choice: ResumeConfig) -> None:
        """Apply all records, and then prepare the trials that continue. Blocks while the journal is read.

        Args:
            choice: What to do with finished, failed and unfinished trials.

        Raises:
            JournalCorruptError: If a record contradicts those before it.
            StateRefusedError: If a plug-in cannot load its state; then this replay is of no use any more.
        """
        snapshot = self.snapshot
        is_loaded = False
        self.hooks.context.is_replaying = True
        try:
            self.hooks.tell_all_but(snapshot.states)
            for offset, record in journal.scan(self.run_directory.journal, unpickle=True):
                if not is_loaded and offset >= snapshot.offset:
                    self._load()
                    is_loaded = True
                self.apply(record)
            if not is_loaded:
                self._load()
            for trial in list(self.state.trials):
                self._choose(trial, choice)
            # Trials whose worker was lost or ended with the driver come first, because the driver had started them
            # before the others. So the others go to the end of the queue.
            queue = self.state.waiting.queue
            for trial_id in [each for each in queue if each not in self._cut_off]:
                queue[trial_id] = queue.pop(trial_id)
        finally:
            self.hooks.context.is_replaying = False

    def _load(self) -> None:
        """Let the plug-ins load their states. From now on, all are told."""
        for component, plugin in self.hooks.components():
            state = self.snapshot.states.get(component)
            if state is not None:
                load_state(component, state, plugin, self.hooks.context, self._trials)
        self.hooks.tell_all_but()

    # -- calling the plug-ins ------------------------------------------------------------------------------------------

    def apply(self, record: records.Record) -> Effect:
        kind = record[records.KIND]
        if kind not in _NO_EVENTS:
            # The driver carried out the scheduler's earlier requests, so they are in the journal. Only the requests
            # after the very last event may not have been carried out.
            self.state.requests.clear()
        effect = super().apply(record)
        if kind == records.RESULT:
            self.reports[record["trial"]] += 1
        elif kind == records.EXTEND:
            self.hooks.search_alg.add_samples(record["samples"])
        return effect

    def _new_trial(self, record: records.Record, replaced: Trial | None) -> Trial:
        if replaced is not None:
            return _anew(replaced, record["trial"])
        maker = self.maker
        maker.id_prefix, _, _ = record["trial"].rpartition("_")
        trial = Trial(maker.trainable_name)
        maker.equip(trial)
        return trial

    def _add(self, trial: Trial, replaced: Trial | None) -> None:
        if replaced is None:
            self.hooks.adopt(trial)
            self.maker.count = max(self.maker.count, trial.number + 1)
            self.state.add(trial)
        else:  # the plug-ins see the old trial end
            replaced.inherited = None
            if not replaced.is_finished():
                self._move(replaced, Transition.STOP, Ending.of(EndKind.REPLACED))
            self.state.replace(replaced, trial)
        self.hooks.added(trial)

    def _record_result(self, trial: Trial, record: records.Record) -> None:
        decision = _PLAIN[record["decision"]]
        if decision == STOP:
            decision = Decision.stop(records.ending_of(record))
        elif record["reason"]:
            decision = Decision(record["decision"], record["reason"])
        self.hooks.decide(trial, record["metrics"], recorded=decision)
        super()._record_result(trial, record)

    def _move(self, trial: Trial, transition: Transition, why: str | Ending) -> None:
        if transition is Transition.START:
            self._cut_off.discard(trial.trial_id)
        elif transition is Transition.RETRY and isinstance(why, Ending) and why.kind in _CUT_OFF:
            self._cut_off.add(trial.trial_id)
        take(self.state, self.hooks, None, trial, transition, why)

    # -- which trials continue -----------------------------------------------------------------------------------------

    def _choose(self, trial: Trial, choice: ResumeConfig) -> None:
        """Decide whether a trial goes on, starts over or ends, by its phase and the user's choice for such trials."""
        if not trial.is_finished():
            self._make_ready(trial)
        if trial.phase is Phase.ERROR:
            wanted = choice.errored
        elif trial.phase is Phase.TERMINATED:
            wanted = choice.unfinished if self._was_cut_short(trial) else choice.finished
        elif any(trial is ending for ending, _ in self.to_end):
            return  # its final result is in the journal, so it only has to be ended
        else:
            wanted = choice.unfinished
        if wanted is ResumeType.RESTART:
            fresh = _anew(trial, Trial.generate_id())
            creator = self.maker.name_creator
            if creator is not None:
                fresh.set_name(str(creator(fresh)))
            self._add(fresh, replaced=trial)
            self.changes.append((fresh, trial))
        elif trial.is_finished() and wanted is ResumeType.RESUME:
            trial.error = None
            trial.num_failures = 0
            self._move(trial, Transition.REVIVE, RESUMED)
            self._make_ready(trial)
            self.changes.append((trial, None))
        elif not trial.is_finished() and wanted is ResumeType.SKIP:
            trial.inherited = None
            self._move(trial, Transition.STOP, Ending.of(EndKind.SKIPPED))
            self.changes.append((trial, None))

    def _was_cut_short(self, trial: Trial) -> bool:
        """Whether a trial ended with the run, or at a limit that the present `stop` does not have any more."""
        kind = None if trial.ending is None else trial.ending.kind
        if kind is EndKind.CRITERION and trial.stopping_criterion:
            return not self.hooks.limit_reached(trial)
        return kind is not None and kind.is_early

    def _make_ready(self, trial: Trial) -> None:
        """Put an unfinished trial back into the queue, with its newest checkpoint whose files match its record."""
        trial.num_failures = 0
        inherited = trial.inherited
        if inherited is not None and not matches(inherited.record, inherited.donor.local_path):
            logger.warning(
                "%s, from which trial %s was to continue, does not match its record", inherited.path, trial.name
            )
            trial.inherited = None
        is_to_end = trial.phase in OWNS_ACTOR and trial.trial_id in self.final
        if trial.custom_dirname is not None and not is_to_end and not os.path.lexists(trial.local_path):
            if trial.progress.num_reports:  # otherwise its worker may not have made the directory
                logger.warning("%s has gone, so trial %s starts over", trial.local_path, trial.name)
            trial.checkpoints.clear()
            trial.set_directory(trial.experiment_path, None)  # as of a new trial: its next attempt creates a directory
        while trial.checkpoints and not matches(trial.checkpoints[-1].record, trial.local_path):
            unfit = trial.checkpoints.pop()
            text = "%s of trial %s does not match its record; its next attempt starts from %s"
            logger.warning(text, unfit.record.directory, trial.name, trial.start_point().name)
        if is_to_end:
            self.to_end.append((trial, self.final[trial.trial_id]))
        elif trial.phase in OWNS_ACTOR:
            self.state.move(trial, Transition.RETRY, Ending.of(EndKind.DRIVER_ENDED))


_NO_EVENTS = frozenset({records.RUN, records.OPEN, records.STATE, records.CLOSE})
"""Records that are no events of a trial or of the search; requests stay open after them."""

_CUT_OFF = (EndKind.DRIVER_ENDED, EndKind.LOST)
"""Endings of attempts that were probably cut off together with the driver, by one signal."""

_PLAIN = {action: Decision(action) for action in DECISIONS}
"""Shared decisions without a reason; most decisions have none."""


def _anew(old: Trial, trial_id: str) -> Trial:
    """A copy that has not started, with the present configuration and without a checkpoint."""
    trial = Trial(
        old.trainable_name,
        config=old.current_config,
        trial_id=trial_id,
        number=old.number,
        evaluated_params=old.evaluated_params,
        experiment_tag=old.experiment_tag,
        resources=old.resources,
        experiment_path=old.experiment_path,
        stopping_criterion=old.stopping_criterion,
        max_failures=old.max_failures,
    )
    trial.start_checkpoint = old.start_checkpoint
    trial.set_repeats(old.repeats)
    trial.seed = old.seed
    return trial
