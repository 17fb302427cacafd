"""Trial: one configuration and its state in the run.

A trial is pure data: it refers to no process and no plug-in. Its parts are the present `Attempt`, the `Progress` that a
rollback undoes, and its checkpoints.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from minitune.base import clock, files
from minitune.base.files import StorageContext
from minitune.base.lazy import submodules
from minitune.base.numbers import as_number
from minitune.base.read_only import ReadOnlyDict
from minitune.checkpoint import Checkpoint, CheckpointRecord
from minitune.error import TrialError, TuneError
from minitune.experiment import lifecycle, states
from minitune.experiment.endings import Ending
from minitune.experiment.lifecycle import ENDED_PHASES, ERROR, STATUS, TRANSITIONS, Phase, Transition
from minitune.experiment.metric_analysis import MetricAnalysis
from minitune.resources import Resources
from minitune.result import (
    DONE,
    EXPERIMENT_TAG,
    EXPR_ERROR_FILE,
    TRAINING_ITERATION,
    TRIAL_ID,
    complete,
    flatten,
)
from minitune.space.tree import copy_tree, value_at_text

_READ_ONLY = (
    "the configuration of a trial is read-only; replace it by trial.set_config({**trial.config, 'name': value}), or "
    "change a copy of it: dict(trial.config)"
)


@dataclass(slots=True)
class Attempt:
    """One attempt to run a trial: it has one actor and one configuration.

    Attributes:
        actor_id: The name of its actor, by which late events of earlier ones are told apart.
        config: That of its reports, even if the trial gets another one meanwhile.
        start_time: When its worker was ready, in seconds since the epoch; None until then.
    """

    number: int
    actor_id: str
    config: dict[str, Any]
    pid: int | None = None
    start_time: float | None = None

    def is_ready(self, pid: int) -> None:
        """Its worker is ready."""
        self.pid = pid
        self.start_time = clock.current.time()


class Repeat(NamedTuple):
    """Why a trial runs the configuration of another one again: to confirm its value (`TuneConfig.confirm`), or because
    the search suggests it, to learn how much the value changes.

    Attributes:
        trial_id: The id of that other trial.
        metric: The flattened name of the metric by which it was promising; None if the search has suggested it.
        mode: `"min"` or `"max"`; None like the metric.
        iterations: After how many it ends; None if it ends by itself.
    """

    trial_id: str
    metric: str | None = None
    mode: str | None = None
    iterations: int | None = None

    @property
    def is_suggested(self) -> bool:
        """Whether it is one of the search's own trials."""
        return self.metric is None


@dataclass(slots=True)
class Progress:
    """How far a trial has come. It goes back to that of a checkpoint from which an attempt continues."""

    num_reports: int = 0
    metrics: dict[str, Any] = field(default_factory=dict)
    config: dict[str, Any] | None = None
    analysis: MetricAnalysis = field(default_factory=MetricAnalysis)

    def copy(self) -> Progress:
        """A copy that later reports do not change."""
        return Progress(self.num_reports, self.metrics, self.config, self.analysis.copy())


@dataclass(frozen=True)
class KeptCheckpoint:
    """A committed checkpoint together with the progress of its trial at that time, for a rollback."""

    record: CheckpointRecord
    progress: Progress

    @property
    def result(self) -> dict[str, Any]:
        """The metrics as users get them, with the configuration: a new dict."""
        return _for_users(self.progress)


class Trial:
    """One configuration, its number in the run, and its state and results.

    Args:
        trial_id: Unique within the run; by default eight random hex digits.
        evaluated_params: The drawn values of the searched parameters by path (`"a/b"`).
        experiment_tag: `"<counter>_k=v,..."`.
        experiment_path: Directory of the run.
        max_failures: How often it is tried again after a failure; -1 for no limit.
        storage: Ray Tune's form of `experiment_path`.

    Raises:
        ValueError: If `storage` and `experiment_path` are given.
    """

    PENDING = lifecycle.PENDING
    RUNNING = lifecycle.RUNNING
    PAUSED = lifecycle.PAUSED
    TERMINATED = lifecycle.TERMINATED
    ERROR = lifecycle.ERROR

    def __init__(
        self,
        trainable_name: str,
        *,
        config: dict[str, Any] | None = None,
        trial_id: str | None = None,
        number: int = 0,
        evaluated_params: dict[str, Any] | None = None,
        experiment_tag: str = "",
        resources: Resources | Mapping[str, Any] | None = None,
        experiment_path: str = "",
        stopping_criterion: Mapping[str, Any] | None = None,
        max_failures: int = 0,
        storage: StorageContext | None = None,
    ):
        if storage is not None and experiment_path:
            raise ValueError("storage and experiment_path are two forms of one argument; pass only one")
        # The work: what the searcher and the user have chosen.
        self.trial_id = trial_id or self.generate_id()
        self.number = number
        self.trainable_name = trainable_name
        self.experiment_tag = experiment_tag
        self.evaluated_params = evaluated_params or {}
        self.set_config(config or {})
        self.seed = 0
        self.repeats: Repeat | None = None
        self.resources = Resources.of(resources)
        self.stopping_criterion = flatten(stopping_criterion) if stopping_criterion else {}
        self.max_failures = max_failures
        self.start_checkpoint: Checkpoint | None = None
        # Where: `set_name` makes `name` and `local_path` of these.
        self.experiment_path = experiment_path
        if storage is not None:
            self.experiment_path = storage.experiment_fs_path
        self.custom_trial_name: str | None = None
        self.custom_dirname: str | None = None  # None as long as it has no directory
        # How it goes.
        self.phase = Phase.QUEUED
        self.ending: Ending | None = None  # why it, or its last attempt, has ended; None while it runs
        self.attempt = Attempt(0, f"{self.trial_id}#0", self.current_config)
        self.progress = Progress()
        self.num_failures = 0
        self.error: TrialError | None = None
        self.has_driver = True  # whether a driver works on its run; a reader of a run without one says so
        self.checkpoints: list[KeptCheckpoint] = []
        self.inherited: InheritedCheckpoint | None = None  # newer than its own ones, until the next one of its own
        self.next_checkpoint = 0
        self.set_name(None)

    @classmethod
    def generate_id(cls) -> str:
        """A new id: eight random hex digits."""
        return os.urandom(4).hex()

    # -- lifecycle -----------------------------------------------------------------------------------------

    def move(self, transition: Transition, why: str | Ending = "") -> None:
        """Take one transition of the lifecycle.

        Raises:
            TuneError: If the table does not allow it; the trial is unchanged.
        """
        phase = TRANSITIONS[self.phase].get(transition)
        if phase is None:
            text = why.text if isinstance(why, Ending) else why
            raise TuneError(
                f"trial {self.trial_id} cannot take transition {transition.name} in phase {self.phase.name}: {text}"
            )
        self.phase = phase
        self.ending = why if isinstance(why, Ending) else None

    def begin_attempt(self, number: int) -> None:
        """Begin an attempt, with the present configuration and a new name for its actor."""
        self.attempt = Attempt(number, f"{self.trial_id}#{number}", self.current_config)

    @property
    def status(self) -> str:
        """PENDING, RUNNING, PAUSED, TERMINATED or ERROR."""
        return STATUS[self.phase]

    def is_finished(self) -> bool:
        """Whether the trial has ended, with or without an error."""
        return self.phase in ENDED_PHASES

    @property
    def has_started(self) -> bool:
        """Whether the trial has had a worker. Before that it has no directory."""
        return self.attempt.number > 0 or self.progress.num_reports > 0

    @property
    def state(self) -> str:
        """The state for people, one of the words in `states`.

        A paused trial is pending, and so is one that waits for its next attempt while a driver works on the run.
        """
        status = self.status
        if status == lifecycle.RUNNING:
            return states.RUNNING
        if status == lifecycle.ERROR:
            return states.FAILED
        if status == lifecycle.TERMINATED:
            if not self.has_started:
                return states.NOT_STARTED
            if self.ending is None or self.ending.kind.is_complete:
                return states.FINISHED
            return states.INTERRUPTED if self.ending.kind.is_early else states.STOPPED
        if self.has_driver:
            return states.PENDING
        return states.INTERRUPTED if self.has_started else states.NOT_STARTED

    @property
    def stopped_by(self) -> str:
        """The name of the scheduler that has stopped it; empty if no scheduler has."""
        if self.ending is None:
            return ""
        return str(self.ending.facts.get("scheduler", ""))

    # -- read and set by plug-ins ------------------------------------------------------------------------------

    @property
    def start_time(self) -> float | None:
        """When the last attempt's worker was ready, in seconds since the epoch; None before that."""
        return self.attempt.start_time

    @property
    def placement_group_factory(self) -> Resources:
        """Ray Tune's name for `resources`."""
        return self.resources

    @property
    def config(self) -> dict[str, Any]:
        """The configuration as plug-ins and users get it: a copy that refuses changes.

        Setting it calls `set_config`.
        """
        return ReadOnlyDict(copy_tree(self.current_config), _READ_ONLY)

    @config.setter
    def config(self, config: dict[str, Any]) -> None:
        self.set_config(config)

    def set_config(self, config: dict[str, Any]) -> None:
        """Replace the configuration. A running attempt keeps the old one."""
        if isinstance(config, ReadOnlyDict):  # that of a trial, which may be changed elsewhere
            config = dict(config)
        self.current_config: dict[str, Any] = config

    def set_repeats(self, repeats: Repeat | None) -> None:
        """Let it repeat another trial, which no scheduler hears of. Its search may know it, or not."""
        self.repeats = repeats
        if repeats is not None and repeats.iterations is not None:
            self.stopping_criterion = {**self.stopping_criterion, TRAINING_ITERATION: repeats.iterations}

    @property
    def reported_config(self) -> dict[str, Any]:
        """The configuration for people: that of the last result, or the present one if there is no result yet."""
        return self.current_config if self.progress.config is None else self.progress.config

    def shown_parameter(self, path: str, default: Any = None) -> Any:
        """The value of the parameter with this path (`"a/b"`) in `reported_config`, or the one that was drawn, or
        `default`.
        """
        # A user's search algorithm may name parameters that are not in the configuration.
        return value_at_text(self.reported_config, path, self.evaluated_params.get(path, default))

    def set_experiment_tag(self, experiment_tag: str) -> None:
        """Replace the tag."""
        self.experiment_tag = experiment_tag

    @property
    def checkpoint(self) -> Checkpoint | None:
        """The latest committed checkpoint; before the first one, the checkpoint to start from, or None."""
        if self.checkpoints:
            return Checkpoint(os.path.join(self.local_path, self.checkpoints[-1].record.directory))
        return self.start_checkpoint

    def has_checkpoint(self) -> bool:
        """Whether `checkpoint` is not None."""
        return self.checkpoint is not None

    @property
    def metric_analysis(self) -> dict[str, dict[str, float]]:
        """Statistics of every numeric metric; see `MetricAnalysis.as_dict`."""
        return self.progress.analysis.as_dict()

    @property
    def last_result(self) -> dict[str, Any]:
        """The last nested result as plug-ins and users get it, with `config`: a copy; empty without a result.

        The driver uses `progress.metrics`, without `config`.
        """
        return _for_users(self.progress)

    def record_result(self, result: dict[str, Any], flat: Mapping[str, Any] | None = None) -> None:
        """Make a nested result the last one, count it, and add it to the statistics."""
        config = self.attempt.config
        progress = self.progress
        progress.num_reports += 1
        progress.metrics = result
        progress.config = config
        if flat is None:
            flat = flatten(complete(result, config))
        progress.analysis.update(flat)

    def record_checkpoint(self, record: CheckpointRecord) -> KeptCheckpoint:
        """Add a committed checkpoint that belongs to the last result."""
        kept = KeptCheckpoint(record, self.progress.copy())
        self.checkpoints.append(kept)
        # A number is never used again, even if the checkpoint is dropped: its directory may not be removed yet.
        self.next_checkpoint = record.number + 1
        return kept

    def returns(self) -> None:
        """Give a trial whose trainable has returned a last result, even without a report."""
        if not self.progress.metrics:
            self.progress.metrics = {TRIAL_ID: self.trial_id, EXPERIMENT_TAG: self.experiment_tag}

    def completes(self) -> None:
        """Mark the last result of a finished trial as `done`."""
        if self.progress.metrics:
            self.progress.metrics = {**self.progress.metrics, DONE: True}

    def start_point(self) -> StartPoint:
        """The start of the next attempt: the inherited checkpoint, or else the newest own one, or else the one that the
        user gave, or else the beginning.
        """
        if self.inherited is not None:
            taken = self.inherited
            name = f"{taken.record.directory} of trial {taken.donor.name}"
            return StartPoint(taken.path, taken.metrics, taken.taken_at.progress, name)
        if self.checkpoints:
            newest = self.checkpoints[-1]
            path = os.path.join(self.local_path, newest.record.directory)
            return StartPoint(path, newest.progress.metrics, newest.progress, newest.record.directory)
        if self.start_checkpoint is not None:
            return BEGINNING._replace(path=self.start_checkpoint.path, name=self.start_checkpoint.path)
        return BEGINNING

    def roll_back(self) -> None:
        """Return to the progress at the start of the next attempt. Later results no longer count."""
        self.progress = self.start_point().progress.copy()

    # -- names and paths -------------------------------------------------------------------------------------------

    # `name` and `local_path` are attributes, because every record and every file needs them.

    def set_name(self, custom_name: str | None) -> None:
        """Set the trial's `name`: the custom one, or else `<trainable>[_<env>]_<trial_id>`."""
        self.custom_trial_name = custom_name
        middle = ""
        if "env" in self.current_config:
            env = self.current_config["env"]
            if isinstance(env, type):
                env = env.__name__
            middle = f"_{env}"
        self.name = custom_name or f"{self.trainable_name}{middle}_{self.trial_id}".replace("/", "_")
        self.set_directory(self.experiment_path, self.custom_dirname)

    def set_directory(self, run_path: str, name: str | None) -> None:
        """Set the trial's directory, `local_path`: in the run's directory, with this name or else that of the trial."""
        self.experiment_path = run_path
        self.custom_dirname = name
        self.local_path = name or self.name
        if run_path:
            self.local_path = f"{run_path}{os.sep}{self.local_path}"

    def init_local_path(self) -> None:
        """Create the trial's directory if it does not exist."""
        os.makedirs(self.local_path, files.OWN_DIRECTORY_MODE, exist_ok=True)

    @property
    def path(self) -> str:
        """Same as `local_path`."""
        return self.local_path

    @property
    def local_experiment_path(self) -> str:
        """The run's directory."""
        return self.experiment_path

    @property
    def storage(self) -> StorageContext:
        """The directories of the run and of the trial."""
        return StorageContext.of_run(self.experiment_path, os.path.basename(self.local_path))

    @property
    def experiment_dir_name(self) -> str:
        """Name of the run's directory."""
        return os.path.basename(self.experiment_path)

    @property
    def logdir(self) -> str:
        """Same as `local_path`."""
        return self.local_path

    @property
    def local_dir(self) -> str:
        """Same as `local_experiment_path`."""
        return self.experiment_path

    @property
    def error_file(self) -> str | None:
        """Path of `error.txt` if the trial has failed, else None."""
        return os.path.join(self.local_path, EXPR_ERROR_FILE) if self.num_failures else None

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return self.name


def _for_users(progress: Progress) -> dict[str, Any]:
    metrics = copy_of_metrics(progress.metrics)
    if progress.config is None:
        return metrics
    return complete(metrics, copy_tree(progress.config))


def copy_of_metrics(metrics: dict[str, Any]) -> dict[str, Any]:
    """A copy for plug-ins and users."""
    try:
        return {key: copy_tree(value) for key, value in metrics.items()}
    except RecursionError:
        return metrics.copy()


class InheritedCheckpoint(NamedTuple):
    """Another trial's checkpoint, from which a trial continues until it has its own newer one."""

    donor: Trial
    record: CheckpointRecord
    metrics: dict[str, Any]
    taken_at: KeptCheckpoint

    @classmethod
    def of(cls, donor: Trial, record: CheckpointRecord, metrics: dict[str, Any], taker: Trial) -> InheritedCheckpoint:
        """The checkpoint of `donor` that `taker` inherits in its present state."""
        return cls(donor, record, metrics, KeptCheckpoint(record, taker.progress.copy()))

    @property
    def path(self) -> str:
        """The checkpoint's directory."""
        return os.path.join(self.donor.local_path, self.record.directory)


class StartPoint(NamedTuple):
    """The start of an attempt of a trial.

    Attributes:
        path: The directory of the checkpoint, which may be another trial's; None for the beginning.
        metrics: The result at that checkpoint.
        progress: The trial's own progress when it starts there.
        name: For people.
    """

    path: str | None
    metrics: dict[str, Any]
    progress: Progress
    name: str


BEGINNING = StartPoint(None, {}, Progress(), "the beginning")


@dataclass(frozen=True)
class EarlierRun:
    """The trials of a run from which another run can learn. It is plain data, independent of the run's directory.

    Attributes:
        tried: The configuration and the flattened numbers of the last metrics of each ended trial; None for those of a
            failed one.
    """

    path: str
    tried: Sequence[tuple[dict[str, Any], dict[str, float] | None]]

    @classmethod
    def of(cls, path: str, trials: Iterable[Trial]) -> EarlierRun:
        """Collect the configurations and last results of trials."""
        tried: list[tuple[dict[str, Any], dict[str, float] | None]] = []
        for trial in trials:
            if trial.status == ERROR:
                tried.append((trial.current_config, None))
            elif trial.status == lifecycle.TERMINATED and trial.has_started and trial.progress.metrics:
                numbers = {name: as_number(value) for name, value in flatten(trial.progress.metrics).items()}
                known = {name: float(number) for name, number in numbers.items() if number is not None}
                tried.append((trial.current_config, known))
        return cls(path, tried)


__getattr__ = submodules(__name__)  # for names that Ray has here
