"""Story: the state of a run according to its journal. Only this module defines the effect of a record.

A `Story` applies records, and says what each has changed by an `Effect`. All other views use these:

* `read_run`, `read_overview` and `RunFollower` return the story itself;
* `driver.replay.Replay` also calls the plug-ins;
* `reports.Reports` returns the results of one trial as the loggers got them;
* `decisions.Decisions` has the reasons of decisions;
* `past_run.PastRun` has the learning curves for simulations.

A new kind of record needs a function in `records` and a handler here.

Each view skips lines that it does not need: `read_overview` all results, `read_run` those of a trial whose last record
has their sum, `Decisions` those without a decision. A `Listener` hears what a `RunFollower` reads.

Objects are unpickled only on request. A torn end and records of unknown kinds are ignored.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

from minitune.base.checks import require, shown
from minitune.base.collecting import collector_paused
from minitune.base.files import local_path
from minitune.decision import STOP
from minitune.error import JournalCorruptError, trial_error_of_text
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
from minitune.experiment.trial import EarlierRun, InheritedCheckpoint, Trial, Usage
from minitune.record import codec, journal, journal_lines, records
from minitune.record.layout import RunDirectory, last_error_text, no_run, run_path
from minitune.resources import Resources
from minitune.result import (
    AUTO_RESULT_KEYS,
    CONFIG,
    DONE,
    flatten,
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


@dataclass(frozen=True)
class StartPoint:
    """The checkpoint from which an attempt of a trial starts.

    Attributes:
        path: The directory of the checkpoint, which may be another trial's; None without one.
        metrics: The result at that checkpoint.
        report_number: How many reports of the trial count when the attempt starts.
    """

    path: str | None
    metrics: dict[str, Any]
    report_number: int


BEGINNING = StartPoint(None, {}, 0)
"""The start of a trial without a checkpoint."""


@dataclass(slots=True)
class Effect:
    """The effect of one record.

    Attributes:
        trial: The trial that the record is about, in its state after it; None if it is about the run.
        transition: That of the trial by a `status` record, a `start` (`TRAIN`), or a `result` with which it ends
            (`STOP`); else None.
        ending: Why the trial or its attempt has ended; else None.
        replaced: The trial that a new `trial` replaces; else None.
    """

    kind: str
    record: records.Record
    trial: Trial | None = None
    before: Phase | None = None
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
        limits: The stopping criterion of each experiment's trials; may be empty.
        ended_before: The ids of the trials that had ended before.
        took_s: How long it ran, in seconds; None if it is running, or this is not on record.
    """

    opened_s: float = 0.0
    time_budget_s: float | None = None
    limits: Sequence[dict[str, Any]] = ()
    ended_before: set[str] = field(default_factory=set)
    ending: Ending | None = None
    took_s: float | None = None
    earlier_s: float = 0.0


class Details:
    """The parts of a story that take most time and memory.

    Attributes:
        starts: By trial id, where its last attempt starts.
        inherited_starts: The same for its last attempt that starts from another trial's checkpoint.
        flat_configs: By trial id, the configuration of its attempt and the flattened form.
    """

    def __init__(self) -> None:
        self.starts: dict[str, StartPoint] = {}
        self.inherited_starts: dict[str, StartPoint] = {}
        self.flat_configs: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {}


class Story:
    """The state of a run after the records that were applied so far.

    Args:
        path: The run's directory, which may have been moved.
        has_details: False leaves out `details`, and each trial's last result, statistics and error text.

    Attributes:
        trials: In order of submission; pickled objects stay so unless the journal was read with `unpickle`.
        inherited: By trial id, the checkpoint of another trial from which it continues, until it has its own.
        final: By trial id, the ending in a final result, until the end of the trial is on record.
        details: None if they are left out.
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
        self.inherited: dict[str, InheritedCheckpoint] = {}
        self.final: dict[str, Ending] = {}
        self.details = Details() if has_details else None
        self._trials: dict[str, Trial] = {}  # by id, replaced trials included
        self._reports: dict[str, tuple[int, int]] = {}  # by trial id, the attempt and the number of its last report
        self._resources: tuple[Any, Resources] | None = None  # of the last record: most trials need the same resources

    @property
    def not_drawn(self) -> int:
        """How many trials the search has not drawn yet; 0 if that is unknown."""
        if self.total_samples is None:
            return 0
        return max(0, self.total_samples - len(self.trials))

    @property
    def updated_s(self) -> float:
        """The time of the last known event, in seconds since the epoch."""
        reported = [trial.progress.metrics.get("timestamp") for trial in self.trials]
        return max([self.noted_s, *(at for at in reported if isinstance(at, (int, float)))])

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
            scales=record.get("scales", {}),
            seed=record["seed"],
            versions=record["versions"],
        )
        self._describe(record)
        self.driver.opened_s = at_s
        self.total_samples = record.get("total_samples")

    def _describe(self, record: records.Record) -> None:
        description = records.description_of(record)
        if description is not None:
            self.description = description.after(self.description)
            self.setup = replace(self.setup, goal=self.description.goal)

    def _on_open(self, effect: Effect) -> None:
        """A driver starts: trials that had a worker of the driver before go back into the queue.

        One with a recorded final result keeps its phase, because the driver only has to end it.
        """
        record = effect.record
        self.driver = LastDriver(
            earlier_s=self.worked_s,
            opened_s=record["at"],
            time_budget_s=record.get("time_budget_s"),
            limits=record.get("limits", []),
            ended_before={trial.trial_id for trial in self.trials if trial.phase in ENDED_PHASES},
        )
        self._describe(record)
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
        self.driver.took_s = effect.record.get("took_s")
        if ending.kind.is_early and ending.kind.is_for_good:
            self.was_ended = True

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
        trial.repeats = records.repeat_of(record)
        trial.experiment_number = record["experiment"]
        trial.evaluated_params = record["evaluated_params"]
        trial.experiment_tag = record["tag"]
        trial.experiment_path = self.path
        trial.set_name(trial.custom_trial_name)
        if record["name"] != trial.name:
            trial.set_name(record["name"])
        trial.resources = self._resources_of(record)
        self._trials[trial.trial_id] = trial
        effect.trial = trial
        effect.replaced = replaced
        self._add(trial, replaced)

    def _resources_of(self, record: records.Record) -> Resources:
        """The resources in a `trial` or `change` record. Equal ones of successive records are one object."""
        fields = record["resources"]
        if self._resources is None or self._resources[0] != fields:
            self._resources = fields, records.resources_of(record)
        return self._resources[1]

    def _on_start(self, trial: Trial, effect: Effect) -> None:
        record = effect.record
        trial.set_directory(self.path, record["directory"] or None)
        trial.begin_attempt(record["attempt"])
        trial.attempt.start_time = record.get("at")
        if self.details is not None:
            inherited = self.inherited.get(trial.trial_id)
            start = StartPoint(None, {}, trial.progress.num_reports)
            if inherited is not None:
                start = StartPoint(inherited.path, inherited.metrics, trial.progress.num_reports)
                self.details.inherited_starts[trial.trial_id] = start
            elif trial.checkpoints:
                kept = trial.checkpoints[-1]
                path = os.path.join(trial.local_path, kept.record.directory)
                start = StartPoint(path, kept.progress.metrics, trial.progress.num_reports)
            self.details.starts[trial.trial_id] = start
        self.final.pop(trial.trial_id, None)
        if trial.phase in OWNS_ACTOR:  # its final result is recorded, but a worker must still save the trial once more
            self._move(trial, Transition.RETRY, Ending.of(EndKind.DRIVER_ENDED))
        self._move(trial, Transition.START, f"attempt {trial.attempt.number}")
        effect.before = trial.phase
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
        ends = bool(record.get(records.ENDS))
        # If the driver dies before the end is recorded, the next one ends the trial and does not run it again.
        if record["decision"] == STOP and record["metrics"].get(DONE) and not ends:
            self.final[trial.trial_id] = records.ending_of(record)  # an interrupt also stops a trial, without DONE
        self._record_result(trial, record, self._flat(trial, record["metrics"]))
        self._on_checkpoint(trial, effect)
        if ends:
            effect.before = trial.phase
            effect.transition = Transition.STOP
            effect.ending = records.ending_of(record)
            self._end(trial, effect.before, Transition.STOP, effect.ending)

    def _flat(self, trial: Trial, metrics: dict[str, Any]) -> dict[str, Any]:
        """A result as plug-ins and statistics get it: completed and flattened; empty without details."""
        if self.details is None:
            return {}
        known = self.details.flat_configs.get(trial.trial_id)
        if known is None or known[0] is not trial.attempt.config:
            known = trial.attempt.config, flatten({CONFIG: trial.attempt.config})
            self.details.flat_configs[trial.trial_id] = known
        flat = flatten(metrics)
        flat.update(known[1])
        return flat

    def _on_checkpoint(self, trial: Trial, effect: Effect) -> None:
        checkpoint = records.checkpoint_of(effect.record)
        if checkpoint is not None:
            trial.record_checkpoint(checkpoint)
            self.inherited.pop(trial.trial_id, None)

    def _on_drop(self, trial: Trial, effect: Effect) -> None:
        number = effect.record["checkpoint"]
        trial.checkpoints = [kept for kept in trial.checkpoints if kept.record.number != number]

    def _on_rollback(self, trial: Trial, effect: Effect) -> None:
        inherited = self.inherited.get(trial.trial_id)
        own = trial.checkpoints[-1] if trial.checkpoints else None
        trial.roll_back(own if inherited is None else inherited.taken_at)

    def _on_exploit(self, trial: Trial, effect: Effect) -> None:
        record = effect.record
        trial.set_config(record["config"])
        donor = self._trials.get(record["donor"])
        if donor is None:  # a reader of a single trial does not know the others
            return
        for kept in donor.checkpoints:
            if kept.record.number == record["checkpoint"]:
                self.inherited[trial.trial_id] = InheritedCheckpoint.of(
                    donor, kept.record, kept.progress.metrics, trial
                )

    def _on_change(self, trial: Trial, effect: Effect) -> None:
        record = effect.record
        if record["config"] is not None:
            trial.set_config(record["config"])
        if record["tag"] is not None:
            trial.set_experiment_tag(record["tag"])
        if record.get("evaluated_params") is not None:
            trial.evaluated_params = record["evaluated_params"]
        if record["resources"] is not None:
            self._set_resources(trial, self._resources_of(record))

    def _on_status(self, trial: Trial, effect: Effect) -> None:
        record = effect.record
        status = record["status"]
        cause = record["cause"]
        before = trial.phase
        effect.before = before
        transition = _BACK.get(before) if status == PENDING else _TO_STATUS.get(status)
        effect.transition = transition
        if transition is None:
            return
        total = None if self.details is None else record.get(records.SUM)
        if total is not None:  # the sum replaces the results, which the reader may have skipped
            trial.attempt.config = trial.current_config
            trial.take_sum(total)
        if transition in _ENDS:
            effect.ending = records.ending_of(record)
            self._end(trial, before, transition, effect.ending)
            return
        # A resume tries a failed trial again as if it had not failed.
        if transition is Transition.REVIVE:
            trial.error = None
            trial.num_failures = 0
        self._move(trial, transition, cause)

    def _on_usage(self, trial: Trial, effect: Effect) -> None:
        trial.usage = Usage(effect.record["cpu_s"], effect.record["peak_bytes"]).after(trial.usage)

    def _end(self, trial: Trial, before: Phase, transition: Transition, ending: Ending) -> None:
        # If it ran, its last result is final.
        if self.details is not None and transition is Transition.STOP and STATUS[before] == RUNNING:
            if ending.kind is EndKind.RETURNED:
                trial.returns()
            trial.completes()
        if ending.kind is EndKind.FAILED:
            trial.num_failures += 1
        if transition is Transition.FAIL:
            text = "" if self.details is None else last_error_text(trial.local_path)
            trial.error = trial_error_of_text(text or ending.text, ending.text)
        self.final.pop(trial.trial_id, None)  # a trial with a final result may still fail while it is being ended
        if transition is not Transition.RETRY:
            if self.details is not None:
                self.details.flat_configs.pop(trial.trial_id, None)
            self.inherited.pop(trial.trial_id, None)
        self._move(trial, transition, ending)

    # -- methods that `Replay` overrides to call plug-ins --------------------------------------------------------------

    def _new_trial(self, record: records.Record, replaced: Trial | None) -> Trial:
        experiment = record["experiment"]
        limits = None
        if experiment < len(self.driver.limits):
            limits = self.driver.limits[experiment]
        resources = self._resources_of(record)
        return Trial(
            self.setup.trainable_name, trial_id=record["trial"], resources=resources, stopping_criterion=limits
        )

    def _add(self, trial: Trial, replaced: Trial | None) -> None:
        """Add a trial, or put it in the place of `replaced`."""
        self.unfinished[trial.trial_id] = trial
        if replaced is None:
            self.trials.append(trial)
            return
        self.trials[self.trials.index(replaced)] = trial
        self.unfinished.pop(replaced.trial_id, None)
        self.driver.ended_before.discard(replaced.trial_id)
        self.inherited.pop(replaced.trial_id, None)

    def _record_result(self, trial: Trial, record: records.Record, flat: dict[str, Any]) -> None:
        if self.details is not None:
            trial.record_result(record["metrics"], flat)
        else:
            trial.progress.num_reports += 1

    def _set_resources(self, trial: Trial, resources: Resources) -> None:
        trial.resources = resources

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
    records.USAGE: Story._on_usage,
}

# -- reading a run -----------------------------------------------------------------------------------------------------

# An overview skips these records: they change neither the run nor the status of a trial, except for a result with which
# its trial ends.
_NOT_IN_OVERVIEW = frozenset(
    kind.encode()
    for kind in (
        records.RESULT,
        records.CHECKPOINT,
        records.DROP,
        records.ROLLBACK,
        records.EXPLOIT,
        records.CHANGE,
        records.NOTE,
        records.USAGE,
        records.STATE,
    )
)
# These records are about the run itself.
_OF_RUN = (records.RUN, records.OPEN, records.EXTEND, records.CLOSE)

_ENDS_TRIAL = b'"%b":true' % records.ENDS.encode()


def _is_not_in_overview(offset: int, line: bytes) -> bool:
    """Whether an overview skips the line at `offset`."""
    return journal_lines.head(line)[0] in _NOT_IN_OVERVIEW and _ENDS_TRIAL not in line


class Overview(Story):
    """A story without the results of its trials, as `read_overview` returns it."""

    def __init__(self, path: str):
        super().__init__(path, has_details=False)
        self.damage: JournalCorruptError | None = None


def read_overview(path: str | os.PathLike[str]) -> Overview:
    """Read the state of a run and of its trials without their results. Blocks. A driver may be running on the run.

    A damaged journal raises no error, but is in `Overview.damage`, beside what the good lines say about the run.
    TuneError: the journal cannot be read.
    """
    run = RunDirectory(local_path(path))
    has_trials = run.has_trials()  # check before reading: a directory that exists now must have a record
    story = Overview(run.path)
    is_empty = True
    damage = None
    try:
        scan = journal.scan(run.journal, leaves_out=_is_not_in_overview)
        for _ in story.follow(record for _, record in scan):
            is_empty = False
        if is_empty and has_trials:
            damage = run.lost_journal()
    except JournalCorruptError as error:
        damage = error
        story = Overview(run.path)
        good = journal.of_kinds(run.journal, *_OF_RUN)
        with contextlib.suppress(JournalCorruptError):  # good lines may be damage, too, if they come again
            for _ in story.follow(good):
                pass
    story.damage = damage
    if story.driver.ending is None:  # the last event may be a result, and results were not read
        story.noted_s = max(story.noted_s, os.path.getmtime(run.journal))
    return story


def read_beginnings(path: str | os.PathLike[str]) -> Story:
    """Read how a run was begun and continued, and how its drivers ended, without its trials. Blocks.

    JournalCorruptError: a record is malformed or comes twice.
    """
    run = RunDirectory(local_path(path))
    story = Story(run.path, has_details=False)
    if os.path.isfile(run.journal):
        for _ in story.follow(journal.of_kinds(run.journal, *_OF_RUN)):
            pass
    return story


def read_description(path: str | os.PathLike[str]) -> RunDescription:
    """What the last driver of a run runs; see `read_beginnings`."""
    return read_beginnings(path).description


def read_run(path: str | os.PathLike[str], unpickle: bool = False) -> Story:
    """Read a run. Blocks. A driver may be running, and the directory may have been moved. Pass `unpickle` only after
    `lock.check_trusted`.

    Raises:
        FileNotFoundError: If there is no journal.
        JournalCorruptError: If the journal is damaged.
        TuneError: If the journal cannot be read, or was written by a newer version, or an object cannot be unpickled.
    """
    follower = RunFollower(path, unpickle)
    follower.read_new()
    return follower.run


def read_earlier(sources: Any) -> list[EarlierRun]:
    """Read the trials of earlier runs, for an argument `warm_start`: runs, objects with trials such as a `ResultGrid`,
    or results of this function. Blocks. Unpickles nothing.

    Raises:
        ValueError: If `sources` is no such list, or no trial has ended with a result.
        FileNotFoundError: If a directory holds no run.
        TuneError: If a run cannot be read.
    """
    is_list = isinstance(sources, Iterable) and not isinstance(sources, (str, bytes, os.PathLike, Mapping))
    is_list = is_list and not hasattr(sources, "_run")  # a ResultGrid is a sequence of results
    require(is_list, "warm_start: a list of directories of runs, or of ResultGrids", sources)
    found = []
    for source in sources:
        if isinstance(source, EarlierRun):
            found.append(source)
            continue
        results = getattr(source, "_run", None)  # of a ResultGrid or an ExperimentAnalysis
        if isinstance(source, (str, os.PathLike)):
            run = read_run(run_path(source))
            earlier = EarlierRun.of(run.path, run.trials)
        elif results is not None:
            earlier = EarlierRun.of(results.path, results.trials)
        else:
            raise ValueError(f"warm_start must hold directories of runs, or ResultGrids, but got {shown(source)}")
        if not any(set(metrics or ()) - set(AUTO_RESULT_KEYS) for _, metrics in earlier.tried):
            raise ValueError(f"warm_start: no trial of the run in {earlier.path} has ended with a result; leave it out")
        found.append(earlier)
    return found


class Listener:
    """Hears each effect of a story while its records are read.

    Class attributes:
        needs_results: Whether it also hears of the results that the story skips, by `tell_summed_up`.
    """

    needs_results = False

    def tell(self, effect: Effect) -> None:
        """A record has been applied. Those of results without a decision may be skipped."""

    def tell_summed_up(self, trial_id: str, metrics: dict[str, Any]) -> None:
        """A result without a decision that a later sum of its trial covers."""


class RunFollower:
    """Reads a run on which a driver may be running, and later only the new records. Takes no lock.

    Pass `unpickle` only after `lock.check_trusted`.
    """

    def __init__(self, path: str | os.PathLike[str], unpickle: bool = False, listener: Listener | None = None):
        directory = local_path(path)
        if os.path.isfile(directory):
            directory = os.path.dirname(directory)
        self._directory = RunDirectory(directory)
        self._journal = self._directory.journal
        if not os.path.isfile(self._journal):
            raise FileNotFoundError(no_run(directory))
        self.run = Story(directory)
        self._unpickle = unpickle
        self._listener = listener
        self._last: int | None = None  # the offset of the last applied record
        self._size_bytes = -1

    def read_new(self) -> bool:
        """Read the new records, and return whether there were any. Blocks.

        Raises:
            JournalCorruptError: If the journal has been damaged, or emptied.
            TuneError: See `journal.read`.
        """
        size_bytes = os.path.getsize(self._journal)
        if size_bytes == self._size_bytes:
            return False
        # A look at the size is cheap, and most looks at a run find nothing new.
        self._size_bytes = size_bytes
        before = self._last
        must_hold = before is None and self._directory.has_trials()  # a directory that exists now must have a record
        listener = self._listener
        found: Iterable[tuple[int, records.Record]]
        if before is not None:
            found = journal.scan(self._journal, self._unpickle, begin=before)
        elif listener is not None and listener.needs_results:
            summed_up = SummedUp(self._journal, listener.tell_summed_up)
            found = journal.scan(self._journal, self._unpickle, leaves_out=summed_up.takes)
        else:
            spans = cached_index(*journal_version(self._directory.path)).spans(needs_decisions=listener is not None)
            found = journal.pick(self._journal, spans, self._unpickle)

        def new_records() -> Iterator[records.Record]:
            for offset, record in found:
                if offset == before:  # the last record is read again to find its end
                    continue
                self._last = offset
                yield record

        with collector_paused():
            for effect in self.run.follow(new_records()):
                if listener is not None:
                    listener.tell(effect)
        if must_hold and self._last is None:
            raise self._directory.lost_journal()
        return self._last != before


_NO_SUM = (0, "")


class SummedUp:
    """The results of a journal without a decision that a later sum of their trial covers. The constructor blocks."""

    def __init__(self, path: str, tell: Callable[[str, dict[str, Any]], None]):
        self._tell = tell
        self._objects = journal.objects_of(path)
        self._ends: dict[bytes, tuple[int, str]] = {}  # by trial id as in JSON, the offset of the last sum, and the id
        for offset, line in journal.lines_of_kind(path, records.STATUS, holding=journal_lines.SUM):
            written = journal_lines.head(line)[1]
            self._ends[written] = offset, json.loads(b'"%b"' % written)

    def takes(self, offset: int, line: bytes) -> bool:
        """Whether the line at `offset` is such a result. Then its trial's id and its metrics are told."""
        if not line.endswith(journal_lines.UNDECIDED):
            return False
        end, trial_id = self._ends.get(journal_lines.result_of(line), _NO_SUM)
        if offset >= end:
            return False
        body = line[journal_lines.BODY : -1].decode("ascii")  # its checksum fits
        self._tell(trial_id, codec.decode_metrics(body, self._objects))
        return True


@lru_cache(maxsize=1)  # so that results, and then the reports of their trials, take one reading
def cached_index(file: str, size_bytes: int, changed_ns: int) -> journal_lines.LineIndex:
    """The index of a journal in this version."""
    return journal.index_of(file)


def journal_version(path: str | os.PathLike[str]) -> tuple[str, int, int]:
    """The journal of the run in a directory, its size in bytes, and when it was changed, in nanoseconds."""
    file = RunDirectory(local_path(path)).journal
    found = os.stat(file)
    return file, found.st_size, found.st_mtime_ns
