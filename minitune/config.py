"""The configs of a run: dataclasses that check their fields when they are created and at every assignment."""

from __future__ import annotations

import inspect
import os
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, fields
from enum import Enum
from typing import Any, TypeVar

from minitune.base.calls import explains_calls
from minitune.base.checks import is_whole, of_class, require, require_flag, require_metric, shown
from minitune.base.files import local_path
from minitune.base.settings import setting
from minitune.base.text import plain_numbers, warn_once
from minitune.error import InvalidArgumentError
from minitune.resources import CPU, GPU, Resources

_AnyConfig = TypeVar("_AnyConfig", bound="Config")


def refuse_out_of_scope(storage_filesystem: object, sync_config: object = None, export_formats: object = None) -> None:
    """Refuse arguments of Ray Tune without a meaning on one machine, or warn if that loses nothing."""
    require(
        storage_filesystem is None,
        "storage_filesystem: None (mount the storage and pass the path)",
        storage_filesystem,
    )
    if export_formats:
        warn_once("export_formats is ignored: no trial exports a model; write what you need into a checkpoint")
    if sync_config is not None:
        warn_once("sync_config is ignored: everything is written in place, there is nothing to synchronise")


class Config(ABC):
    """Base class of the configs, which check their fields when they are created and at every assignment."""

    def __post_init__(self) -> None:
        self._check()

    @abstractmethod
    def _check(self) -> None:
        """Check all fields. ValueError."""

    def __setattr__(self, name: str, value: Any) -> None:
        """Assign a field; an invalid value raises an error and changes nothing."""
        if name not in type(self).__dataclass_fields__:  # type: ignore[attr-defined]  # every subclass is a dataclass
            known = ", ".join(entry.name for entry in fields(self))  # type: ignore[arg-type]  # likewise
            raise AttributeError(f"{type(self).__name__} has no field {name!r}; its fields are {known}")
        before = self.__dict__.copy()
        self._put(name, value)
        if name in before:  # otherwise __init__ assigns it
            try:
                self._check()
            except Exception:
                self.__dict__.update(before)  # all fields, because a check may convert several
                raise

    def _put(self, name: str, value: Any) -> None:
        """Assign a field without a check."""
        object.__setattr__(self, name, value)

    def __repr__(self) -> str:
        """The class, with the fields that differ from their defaults."""
        usual = type(self)()
        values = [(entry.name, getattr(self, entry.name)) for entry in fields(self)]  # type: ignore[arg-type]  # likewise
        shown = ", ".join(
            f"{name}={plain_numbers(value)!r}" for name, value in values if not _is_same(value, getattr(usual, name))
        )
        return f"{type(self).__name__}({shown})"


def _is_same(value: Any, other: Any) -> bool:
    try:
        return bool(value == other)
    except Exception:  # a comparison of foreign types or arrays may raise anything
        return False


@explains_calls
@dataclass(repr=False)
class FailureConfig(Config):
    """How a run handles failures of trials.

    Args:
        max_failures: How many times a failed trial is retried; -1: no limit.
        fail_fast: True ends the run at the first failure; `"raise"` also raises the trial's exception from `fit`.
        give_up_after: So many first trials that fail with the same error end the run, which can be resumed: `fit`
            raises a `CrashLoopError`. 0: never. If a parameter has had only one value, which may be the cause, it goes
            on.

    Raises:
        ValueError: If `max_failures` (also a `TuneError`) or `give_up_after` is out of range, or both `max_failures`
            and `fail_fast` are set.
    """

    max_failures: int = 0
    fail_fast: bool | str = False
    _: KW_ONLY
    give_up_after: int = 5

    def _check(self) -> None:
        good = is_whole(self.max_failures) and self.max_failures >= -1
        if not good:
            raise InvalidArgumentError(f"max_failures must be an int >= -1, but got {shown(self.max_failures)}")
        if isinstance(self.fail_fast, str):
            self._put("fail_fast", self.fail_fast.lower())
        known = isinstance(self.fail_fast, bool) or self.fail_fast == "raise"
        require(known, "fail_fast: False, True or 'raise'", self.fail_fast)
        good = is_whole(self.give_up_after) and self.give_up_after >= 0
        require(good, "give_up_after: an int >= 0 (0 means never)", self.give_up_after)
        if self.fail_fast and self.max_failures != 0:
            raise ValueError(
                f"max_failures must be 0 when fail_fast is set, but got max_failures={self.max_failures}, "
                f"fail_fast={self.fail_fast!r}; a trial is either retried or ends the search"
            )


@explains_calls
@dataclass(repr=False)
class CheckpointConfig(Config):
    """Which checkpoints a trial saves and keeps.

    Attributes:
        num_to_keep: How many checkpoints each trial keeps; None: all. The latest one is kept in any case.
        checkpoint_score_attribute: Keep those with the best values of this metric, such as `"eval/loss"`; None: the
            newest.
        checkpoint_score_order: `"max"` or `"min"`.
        checkpoint_frequency: After how many iterations a class trainable is saved; 0: never.
        checkpoint_at_end: Whether a class is saved at its end; None: if it overrides `save_checkpoint`.

    Raises:
        ValueError: If a field has an invalid value.
    """

    num_to_keep: int | None = None
    checkpoint_score_attribute: str | None = None
    checkpoint_score_order: str = "max"
    checkpoint_frequency: int = 0
    checkpoint_at_end: bool | None = None

    def _check(self) -> None:
        keep = self.num_to_keep
        order = self.checkpoint_score_order
        require(keep is None or (is_whole(keep) and keep >= 1), "num_to_keep: None or an int >= 1", keep)
        require(order in ("max", "min"), "checkpoint_score_order: 'max' or 'min'", order)
        require_metric("checkpoint_score_attribute", self.checkpoint_score_attribute)
        frequency = self.checkpoint_frequency
        require(is_whole(frequency) and frequency >= 0, "checkpoint_frequency: an int >= 0", frequency)
        at_end = self.checkpoint_at_end
        require(at_end is None or isinstance(at_end, bool), "checkpoint_at_end: None, True or False", at_end)


@explains_calls
@dataclass(repr=False)
class ResumeConfig(Config):
    """How a resume treats finished, unfinished and failed trials."""

    class ResumeType(Enum):
        """Continue from the last checkpoint, start again from the beginning, or leave the trial as it is."""

        RESUME = "resume"
        RESTART = "restart"
        SKIP = "skip"

    finished: ResumeType = ResumeType.SKIP
    unfinished: ResumeType = ResumeType.RESUME
    errored: ResumeType = ResumeType.SKIP

    def _check(self) -> None:
        known = {kind.value: kind for kind in ResumeType}
        for name in ("finished", "unfinished", "errored"):
            value = getattr(self, name)
            kind = value
            if isinstance(value, str):
                kind = known.get(value)
            require(isinstance(kind, ResumeType), f"{name}: a ResumeType or one of {', '.join(known)}", value)
            self._put(name, kind)


ResumeType = ResumeConfig.ResumeType


class SyncConfig:
    """Accepted for Ray Tune's signature, with any arguments. There are no files to synchronise."""

    def __init__(self, *args: Any, **kwargs: Any):
        pass


def default_storage_path() -> str:
    """The default directory for runs: `MINITUNE_STORAGE_PATH`, else `~/minitune_results`."""
    return local_path(setting("STORAGE_PATH"))


@explains_calls
@dataclass(repr=False)
class RunConfig(Config):
    """Where a run is stored, what it shows, what it does about failures, and which checkpoints it keeps.

    Attributes:
        name: The name of the run and of its directory; by default the trainable's name and the date.
        storage_path: The directory that contains the runs; by default `default_storage_path()`.
        storage_filesystem, sync_config: For Ray Tune's signature, without effect.
        stop: When a trial stops: a dict of metrics and limits, a callable or a `Stopper`.
        callbacks: `Callback` objects, called in this order.
        progress_reporter: A `ProgressReporter` that replaces the default one.
        log_to_file: Names of the files for a trial's output: True, one name, or a pair (stdout, stderr).
        local_dir: The old name of `storage_path`.

    Raises:
        ValueError: If a field has an invalid value.
    """

    name: str | None = None
    storage_path: str | os.PathLike[str] | None = None
    storage_filesystem: None = None
    failure_config: FailureConfig | None = None
    checkpoint_config: CheckpointConfig | None = None
    sync_config: Any = None
    verbose: int | bool | None = None
    """0 shows nothing, 1 (as None) the progress, 2 also each iteration and the output of trials. At 0, failures of
    trials go to the log as one record, if you have configured logging.
    """
    stop: Any = None
    callbacks: Sequence[Any] | None = None
    progress_reporter: Any = None
    log_to_file: bool | str | Sequence[str] = False
    local_dir: str | os.PathLike[str] | None = None
    show_output: bool = False
    """Whether the output of trials is shown, independently of `verbose`. At `verbose=0` nothing else is."""
    progress: bool = True
    """Whether `verbose >= 1` shows the progress. If not, failures of trials go to the log as one record, or to standard
    error if you have not configured logging.
    """

    def _check(self) -> None:
        require(self.name is None or isinstance(self.name, str), "name: None or text", self.name)
        refuse_out_of_scope(self.storage_filesystem, self.sync_config)
        if self.verbose is not None:
            good = isinstance(self.verbose, bool) or is_whole(self.verbose)
            require(good, "verbose: 0, 1 or 2", self.verbose)
            # Ray Tune also has 3, and scripts pass True.
            self._put("verbose", max(0, min(2, int(self.verbose))))
        self._put("failure_config", as_config("failure_config", self.failure_config, FailureConfig))
        self._put("checkpoint_config", as_config("checkpoint_config", self.checkpoint_config, CheckpointConfig))
        require_flag("show_output", self.show_output)
        require_flag("progress", self.progress)
        if self.callbacks is not None:
            good = isinstance(self.callbacks, Iterable)
            require(good, "callbacks: None or a list of Callback objects", self.callbacks)
            self._put("callbacks", list(self.callbacks))
        if self.local_dir is not None:
            warn_once("local_dir is the old name of storage_path")
            self._put("storage_path", self.storage_path or self.local_dir)
            self._put("local_dir", None)
        if self.storage_path is not None:
            local_path(self.storage_path)  # refuses a path that is not on this machine
            self._put("storage_path", os.fspath(self.storage_path))
        # Called for its checks: a wrong value must fail here, and not when the first trial starts.
        log_file_names(self.log_to_file)


@explains_calls
@dataclass(repr=False)
class ScalingConfig(Config):
    """What a trainer of `minitune.train` needs: the resources of its one worker, which is the trial's process.

    Args:
        num_workers: Must be 1.
        use_gpu: Whether the worker needs a GPU.
        resources_per_worker: Such as `{"CPU": 2, "GPU": 0.5}`; by default one CPU, and one GPU with `use_gpu`.
        placement_strategy: Without effect on one machine.
        trainer_resources: What the trial needs besides; by default one CPU if the worker has none.
        accelerator_type: Without effect, which is logged once.

    Raises:
        ValueError: If there is more than one worker, `use_gpu` contradicts `resources_per_worker`, or a field has
            another type.
    """

    num_workers: int = 1
    use_gpu: bool = False
    resources_per_worker: Mapping[str, Any] | None = None
    placement_strategy: Any = "PACK"
    trainer_resources: Mapping[str, Any] | None = None
    accelerator_type: str | None = None

    def _check(self) -> None:
        require(is_whole(self.num_workers) and self.num_workers >= 1, "num_workers: 1", self.num_workers)
        if self.num_workers > 1:
            raise ValueError(
                f"num_workers must be 1, but got {self.num_workers}: here a trainer is one process, the trial. Ray's "
                'own trainers train with several workers, also inside a trial of TuneConfig(executor="ray"). For '
                "processes that a trial starts itself, reserve resources with PlacementGroupFactory"
            )
        require_flag("use_gpu", self.use_gpu)
        for name in ("resources_per_worker", "trainer_resources"):
            value = getattr(self, name)
            require(value is None or isinstance(value, Mapping), f"{name}: None or a dict such as {{'CPU': 2}}", value)
        gpus = (self.resources_per_worker or {}).get(GPU)
        if gpus is not None:
            rule = f"use_gpu: {gpus > 0} where resources_per_worker holds {gpus} GPUs"
            require(bool(self.use_gpu) == (gpus > 0), rule, self.use_gpu)
        if self.accelerator_type is not None:
            warn_once("accelerator_type is ignored: the GPUs of this machine are all that there are")

    def as_placement_group_factory(self) -> Resources:
        """The resources of a trial.

        Raises:
            ValueError: If an amount is no number >= 0.
        """
        worker = dict(self.resources_per_worker or {CPU: 1})
        if self.use_gpu:
            worker.setdefault(GPU, 1)
        if self.trainer_resources is None:
            worker.setdefault(CPU, 1)
        for name, amount in (self.trainer_resources or {}).items():
            worker[name] = worker.get(name, 0) + amount
        return Resources([worker], self.placement_strategy)


def as_config(name: str, config: Any, kind: type[_AnyConfig]) -> _AnyConfig:
    """Convert a config, a dict of its fields, or None for the defaults to a config of class `kind`.

    Raises:
        ValueError: If it has another type, or an unknown field.
    """
    if isinstance(config, Mapping):
        known = inspect.signature(kind).parameters
        rule = f"{name}: a {kind.__name__}, or a dict of its fields ({', '.join(known)})"
        require(set(config) <= set(known), rule, config)
        return kind(**config)
    if config is None:
        return kind()
    if not isinstance(config, kind):
        raise ValueError(f"{name} must be None or a {kind.__name__}, but got {shown(config)}{of_class(config)}")
    made: _AnyConfig = config
    return made


def log_file_names(log_to_file: bool | str | Sequence[str]) -> tuple[str, str]:
    """The names of the files for a trial's stdout and stderr.

    Args:
        log_to_file: True, False, one name for both, or a pair of names. A relative one is in the trial's directory. An
            absolute one is shared by all trials.

    Raises:
        ValueError: If it has another type.
    """
    if log_to_file is None or isinstance(log_to_file, bool):
        return "stdout", "stderr"
    rule = "log_to_file: a bool, a file name, or a pair of names (stdout, stderr)"
    require(isinstance(log_to_file, Sequence), rule, log_to_file)
    names = tuple(log_to_file)
    if isinstance(log_to_file, str):
        names = (log_to_file, log_to_file)
    require(len(names) == 2 and all(isinstance(name, str) and name for name in names), rule, log_to_file)
    stdout, stderr = map(os.path.expanduser, names)
    good = all(os.path.isabs(name) or os.path.basename(name) == name for name in (stdout, stderr))
    require(good, rule, log_to_file)
    return stdout, stderr
