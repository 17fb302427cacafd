"""Story: the state of a run according to its journal. Only this module defines the effect of a record.

A `Story` applies records, and says what each has changed by an `Effect`. All other views use these:

* `reading` has the functions that return the story itself;
* `driver.replay.Replay` also calls the plug-ins;
* `reports.Reports` returns the results of one trial as the loggers got them;
* `decisions.Decisions` has the reasons of decisions;
* `past_run.read_curves` has the learning curves for simulations.

A new kind of record needs a function in `records` and a handler here. Records of unknown kinds are ignored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from minitune.base.numbers import finite_number
from minitune.error import JournalCorruptError, trial_error_of_text
from minitune.experiment.decision import STOP
from minitune.experiment.endings import Ending, EndKind
from minitune.experiment.goal import Goal
from minitune.experiment.lifecycle import (
    ENDED_PHASES,
    ERROR,
    OWNS_ACTOR,
    PAUSED,
    PENDING,
    RUNNING,
    STATUS,
    TERMINATED,
    TRANSITIONS,
    Phase,
    Transition,
)
from minitune.experiment.run_description import RunDescription
from minitune.experiment.trial import InheritedCheckpoint, StartPoint, Trial
from minitune.record import records
from minitune.record.layout import RunDirectory, last_error_text
from minitune.result import (
    DONE,
    TIMESTAMP,
)

# -- what records do ---------------------------------------------------------------------------------------------------

# The phase after each transition. From which phase one is allowed does not matter: a view shows what a driver wrote.
_PHASE_AFTER = {each: phase for allowed in TRANSITIONS.values() for each, phase in allowed.items()}

# The transition that leads to each status.
_TO_STATUS = {RUNNING: Transition.TRAIN, PAUSED: Transition.PAUSE, TERMINATED: Transition.STOP, ERROR: Transition.FAIL}

# The transition that leads from each phase back to PENDING.
_BACK = {
    Phase.PAUSED: Transition.UNPAUSE,
    Phase.TERMINATED: Transition.REVIVE,
    Phase.ERROR: Transition.REVIVE,
    **dict.fromkeys(OWNS_ACTOR, Transition.RETRY),
}

# The transitions by which a trial, or an attempt of it, ends.
_ENDS = frozenset((Transition.STOP, Transition.FAIL, Transition.RETRY))


@dataclass(slots=True)
class Effect:
    """The effect of one record.

    Attributes:
        trial: The trial that the record is about, in its state after it; None if it is about the run.
        transition: That of the trial by a `status` record or a `start` (`TRAIN`); else None.
        ending: Why the trial or its attempt has ended; else None.
        replaced: The trial that a new `trial` replaces; else None.
    """

    kind: str
    record: records.Record
    trial: Trial | None = None
    transition: Transition | None = None
    ending: Ending | None = None
    replaced: Trial | None = None


@dataclass(frozen=True)
class Setup:
    """What a run was begun with.

    Attributes:
        goal: What the run optimises, perhaps corrected by a later driver.
    """

    begun_s: float = 0.0
    goal: Goal = field(default_factory=Goal)
    trainable_name: str = ""
    space_keys: Sequence[str] = ()
    scales: Mapping[str, dict[str, Any]] = field(default_factory=dict)
    seed: int | None = None
    versions: Mapping[str, str] = field(default_factory=dict)


_NOT_BEGUN = Setup()


@dataclass(slots=True)
class LastDriver:
    """The driver that ran a run last, or still runs it.

    Attributes:
        time_budget_s: Seconds after which it ends the run; None without a limit.
        ended_before: The ids of the trials that had ended before.
        took_s: How long it ran, in seconds; None if it is running, or this is not on record.
    """

    opened_s: float = 0.0
    time_budget_s: float | None = None
    ended_before: set[str] = field(default_factory=set)
    ending: Ending | None = None
    took_s: float | None = None
    earlier_s: float = 0.0


class Story:
    """The state of a run after the records that were applied so far.

    Args:
        path: The run's directory, which may have been moved.
        has_details: False leaves out the starts, and each trial's last result, statistics and error text.

    Attributes:
        trials: In order of submission; pickled objects stay so unless the journal was read with `unpickle`.
        final: By trial id, the ending in a final result, until the end of the trial is on record.
        starts: By trial id, where its last attempt starts.
        starts_elsewhere: The same for its last attempt that starts from another trial's checkpoint.
        total_samples: How many trials there will be; None if that is unknown.
        was_ended: Whether a stopper or a failure ended the run for good.
    """

    def __init__(self, path: str, has_details: bool = True):
        self.path = path
        # The run and its drivers.
        self.setup = _NOT_BEGUN
        self.description = RunDescription()
        self.driver = LastDriver()
        self.total_samples: int | None = None
        self.was_ended = False
        self.noted_s = 0.0
        # The trials.
        self.trials: list[Trial] = []
        self.unfinished: dict[str, Trial] = {}
        self.final: dict[str, Ending] = {}
        self.starts: dict[str, StartPoint] = {}
        self.starts_elsewhere: dict[str, StartPoint] = {}
        self._has_details = has_details
        self._trials: dict[str, Trial] = {}  # by id, replaced trials included
        self._reports: dict[str, tuple[int, int]] = {}  # by trial id, the attempt and the number of its last report

    @property
    def not_drawn(self) -> int:
        """How many trials the search has not drawn yet; 0 if that is unknown."""
        if self.total_samples is None:
            return 0
        return max(0, self.total_samples - len(self.trials))

    @property
    def updated_s(self) -> float:
        """The time of the last known event, in seconds since the epoch."""
        reported = [finite_number(trial.progress.metrics.get(TIMESTAMP)) for trial in self.trials]
        return max([self.noted_s, *(at_s for at_s in reported if at_s is not None)])

    @property
    def elapsed_s(self) -> float:
        """How long the last driver ran, in seconds."""
        if self.driver.took_s is None:
            return max(0.0, self.updated_s - self.driver.opened_s)
        return self.driver.took_s

    @property
    def worked_s(self) -> float:
        """How long all drivers of the run ran together, in seconds."""
        return self.driver.earlier_s + self.elapsed_s

    @property
    def is_unfinished(self) -> bool:
        """Whether the last driver is running, or ended before its trials so that the run can be resumed."""
        return self.driver.ending is None or not self.driver.ending.kind.is_for_good

    def follow(self, journal_records: Iterable[records.Record]) -> Iterator[Effect]:
        """Apply records lazily, in order, and yield the effect of each.

        Raises:
            JournalCorruptError: If a record lacks a field of its kind, or is about an unknown trial.
        """
        for record in journal_records:
            try:
                effect = self.apply(record)
            except (KeyError, TypeError, ValueError, AttributeError) as error:
                raise JournalCorruptError(
                    f"the journal of {self.path} has a {record.get(records.KIND)!r} record that is "
                    f"malformed ({type(error).__name__}: {error})"
                ) from error
            yield effect

    def apply(self, record: records.Record) -> Effect:
        """Apply the next record, and return its effect. A record of an unknown kind changes nothing.

        Raises:
            JournalCorruptError: If the record is about an unknown trial, or repeats an earlier one.
            KeyError, TypeError, ValueError, AttributeError: If a field is missing or malformed.
        """
        kind = record[records.KIND]
        trial = self._trials.get(record.get("trial", ""))
        effect = Effect(kind, record, trial)
        if (of_trial := _TRIAL_HANDLERS.get(kind)) is not None:
            if trial is None:
                raise JournalCorruptError(
                    f"the journal of {self.path} has a {kind!r} record of trial {record['trial']!r}, which it has not "
                    "introduced"
                )
            of_trial(self, trial, effect)
        elif (of_run := _RUN_HANDLERS.get(kind)) is not None:
            of_run(self, effect)
        # Results have no time of their own: their metrics have one.
        self.noted_s = record.get("at", self.noted_s)
        return effect

    def _comes_again(self, what: str) -> JournalCorruptError:
        """The error for a record that repeats an earlier one, which no driver writes."""
        return JournalCorruptError(
            f"the journal {RunDirectory(self.path).journal} holds a part of itself twice: {what} comes again; put back "
            "a copy"
        )

    # -- records of the run --------------------------------------------------------------------------------------------

    def _on_run(self, effect: Effect) -> None:
        record = effect.record
        if self.setup is not _NOT_BEGUN:
            raise self._comes_again("the record of the run's beginning")
        at_s = record["at"]
        self.setup = Setup(
            begun_s=at_s,
            trainable_name=record["trainable"],
            space_keys=record["space_keys"],
            scales=record["scales"],
            seed=record["seed"],
            versions=record["versions"],
        )
        self._describe(record)
        self.driver.opened_s = at_s
        self.total_samples = record["total_samples"]

    def _describe(self, record: records.Record) -> None:
        self.description = records.description_of(record).after(self.description)
        self.setup = replace(self.setup, goal=self.description.goal)

    def _on_open(self, effect: Effect) -> None:
        """A driver starts: trials that had a worker of the driver before go back into the queue.

        One with a recorded final result keeps its phase, because the driver only has to end it.
        """
        record = effect.record
        self.driver = LastDriver(
            earlier_s=self.worked_s,
            opened_s=record["at"],
            time_budget_s=record["time_budget_s"],
            ended_before={trial.trial_id for trial in self.trials if trial.phase in ENDED_PHASES},
        )
        self._describe(record)
        for trial in self.trials:
            trial.has_driver = True
        for trial in list(self.unfinished.values()):
            # Each driver gives each trial all its attempts again.
            trial.num_failures = 0
            if trial.phase in OWNS_ACTOR and trial.trial_id not in self.final:
                self._move(trial, Transition.RETRY, Ending.of(EndKind.DRIVER_ENDED))

    def _on_extend(self, effect: Effect) -> None:
        self.was_ended = False
        self.total_samples = effect.record["total_samples"]

    def _on_close(self, effect: Effect) -> None:
        ending = records.ending_of(effect.record)
        self.driver.ending = ending
        self.driver.took_s = effect.record["took_s"]
        if ending.kind.is_early and ending.kind.is_for_good:
            self.was_ended = True

    def driver_has_gone(self) -> None:
        """Put trials that had a worker back into the queue: it has ended with the driver, although no record says so.

        A trial in `final` waits, too, because the next driver may have to save it before it ends.
        """
        for trial in self.trials:
            trial.has_driver = False
            if trial.phase in OWNS_ACTOR:
                trial.phase = Phase.QUEUED

    # -- records of a trial --------------------------------------------------------------------------------------------

    def _on_trial(self, effect: Effect) -> None:
        record = effect.record
        if effect.trial is not None:
            raise self._comes_again(f"trial {record['trial']}")
        replaced = self._trials.get(record["replaces"])
        trial = self._new_trial(record, replaced)
        trial.trial_id = record["trial"]
        trial.number = record["number"]
        trial.set_config(record["config"])
        trial.seed = record["seed"]
        trial.set_repeats(records.repeat_of(record))
        trial.evaluated_params = record["evaluated_params"]
        trial.experiment_tag = record["tag"]
        trial.experiment_path = self.path
        trial.set_name(trial.custom_trial_name)
        if record["name"] != trial.name:
            trial.set_name(record["name"])
        trial.resources = records.resources_of(record)
        self._trials[trial.trial_id] = trial
        effect.trial = trial
        effect.replaced = replaced
        self._add(trial, replaced)

    def _on_start(self, trial: Trial, effect: Effect) -> None:
        record = effect.record
        trial.set_directory(self.path, record["directory"] or None)
        trial.begin_attempt(record["attempt"])
        trial.attempt.start_time = record["at"]
        if self._has_details:
            start = trial.start_point()
            self.starts[trial.trial_id] = start
            if trial.inherited is not None:
                self.starts_elsewhere[trial.trial_id] = start
        self.final.pop(trial.trial_id, None)
        if trial.phase in OWNS_ACTOR:  # its final result is recorded, but a worker must still save the trial once more
            self._move(trial, Transition.RETRY, Ending.of(EndKind.DRIVER_ENDED))
        self._move(trial, Transition.START, "")
        effect.transition = Transition.TRAIN
        self._move(trial, Transition.TRAIN, "")

    def _on_result(self, trial: Trial, effect: Effect) -> None:
        record = effect.record
        # After a rollback numbers come again, but in a later attempt.
        report = record["attempt"], record[records.NUMBER]
        if report <= self._reports.get(trial.trial_id, (0, 0)):
            raise self._comes_again(f"report {record[records.NUMBER]} of trial {trial.trial_id}")
        self._reports[trial.trial_id] = report
        trial.attempt.config = trial.current_config  # a change is recorded when the next attempt starts
        # If the driver dies before the end is recorded, the next one ends the trial and does not run it again.
        if record["decision"] == STOP and record["metrics"].get(DONE):
            self.final[trial.trial_id] = records.ending_of(record)  # an interrupt also stops a trial, without DONE
        self._record_result(trial, record)
        self._on_checkpoint(trial, effect)

    def _on_checkpoint(self, trial: Trial, effect: Effect) -> None:
        checkpoint = records.checkpoint_of(effect.record)
        if checkpoint is not None:
            trial.record_checkpoint(checkpoint)
            trial.inherited = None

    def _on_drop(self, trial: Trial, effect: Effect) -> None:
        number = effect.record["checkpoint"]
        trial.checkpoints = [kept for kept in trial.checkpoints if kept.record.number != number]

    def _on_rollback(self, trial: Trial, effect: Effect) -> None:
        trial.roll_back()

    def _on_exploit(self, trial: Trial, effect: Effect) -> None:
        record = effect.record
        trial.set_config(record["config"])
        donor = self._trials.get(record["donor"])
        if donor is None:  # a reader of a single trial does not know the others
            return
        for kept in donor.checkpoints:
            if kept.record.number == record["checkpoint"]:
                trial.inherited = InheritedCheckpoint.of(donor, kept.record, kept.progress.metrics, trial)

    def _on_change(self, trial: Trial, effect: Effect) -> None:
        record = effect.record
        trial.set_config(record["config"])
        trial.set_experiment_tag(record["tag"])
        trial.evaluated_params = record["evaluated_params"]

    def _on_status(self, trial: Trial, effect: Effect) -> None:
        record = effect.record
        status = record["status"]
        cause = record["cause"]
        before = trial.phase
        transition = _BACK.get(before) if status == PENDING else _TO_STATUS.get(status)
        effect.transition = transition
        if transition is None:
            return
        if transition in _ENDS:
            effect.ending = records.ending_of(record)
            self._end(trial, before, transition, effect.ending)
            return
        # A resume tries a failed trial again as if it had not failed.
        if transition is Transition.REVIVE:
            trial.error = None
            trial.num_failures = 0
        self._move(trial, transition, cause)

    def _end(self, trial: Trial, before: Phase, transition: Transition, ending: Ending) -> None:
        # If it ran, its last result is final.
        if self._has_details and transition is Transition.STOP and STATUS[before] == RUNNING:
            if ending.kind is EndKind.RETURNED:
                trial.returns()
            trial.completes()
        if ending.kind is EndKind.FAILED:
            trial.num_failures += 1
        if transition is Transition.FAIL:
            text = last_error_text(trial.local_path) if self._has_details else ""
            trial.error = trial_error_of_text(text or ending.text, ending.text)
        self.final.pop(trial.trial_id, None)  # a trial with a final result may still fail while it is being ended
        if transition is not Transition.RETRY:
            trial.inherited = None
        self._move(trial, transition, ending)

    # -- methods that `Replay` overrides to call plug-ins --------------------------------------------------------------

    def _new_trial(self, record: records.Record, replaced: Trial | None) -> Trial:
        return Trial(self.setup.trainable_name, trial_id=record["trial"])

    def _add(self, trial: Trial, replaced: Trial | None) -> None:
        """Add a trial, or put it in the place of `replaced`."""
        self.unfinished[trial.trial_id] = trial
        if replaced is None:
            self.trials.append(trial)
            return
        self.trials[self.trials.index(replaced)] = trial
        self.unfinished.pop(replaced.trial_id, None)
        self.driver.ended_before.discard(replaced.trial_id)

    def _record_result(self, trial: Trial, record: records.Record) -> None:
        if self._has_details:
            trial.record_result(record["metrics"])
        else:
            trial.progress.num_reports += 1

    def _move(self, trial: Trial, transition: Transition, why: str | Ending) -> None:
        trial.phase = _PHASE_AFTER[transition]
        trial.ending = why if isinstance(why, Ending) else None
        if trial.phase in ENDED_PHASES:
            self.unfinished.pop(trial.trial_id, None)
        elif transition is Transition.REVIVE:
            self.unfinished[trial.trial_id] = trial
            self.driver.ended_before.discard(trial.trial_id)


# Handlers of records about the run, and of the records that add a trial.
_RUN_HANDLERS: dict[str, Callable[[Story, Effect], None]] = {
    records.RUN: Story._on_run,
    records.OPEN: Story._on_open,
    records.EXTEND: Story._on_extend,
    records.CLOSE: Story._on_close,
    records.TRIAL: Story._on_trial,
}

# Handlers of records about a known trial.
_TRIAL_HANDLERS: dict[str, Callable[[Story, Trial, Effect], None]] = {
    records.START: Story._on_start,
    records.RESULT: Story._on_result,
    records.CHECKPOINT: Story._on_checkpoint,
    records.DROP: Story._on_drop,
    records.ROLLBACK: Story._on_rollback,
    records.EXPLOIT: Story._on_exploit,
    records.CHANGE: Story._on_change,
    records.STATUS: Story._on_status,
}
