"""How a run behaves: plain values whose rules hold from the beginning and after every assignment."""

from __future__ import annotations

import inspect
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from enum import Enum
from typing import Any, TypeVar

from minitune.base.checks import is_whole, of_class, require, require_flag, require_metric, shown
from minitune.base.files import local_path
from minitune.base.text import warn_once
from minitune.error import InvalidArgumentError
from minitune.settings import setting

DURABILITIES = ("process", "batched", "strict")
"""How much is synced to the disk, from nothing to every record; see `RunConfig.durability`."""

_AnyConfig = TypeVar("_AnyConfig", bound="Config")


def refuse_out_of_scope(storage_filesystem: object, sync_config: object, export_formats: object) -> None:
    """What Ray Tune takes and a run on one machine has no use for: an error, or a warning where nothing is lost.

    Raises:
        ValueError: If files were to go to another file system, or models were to be exported.
    """
    require(
        storage_filesystem is None,
        "storage_filesystem: None (mount the storage and pass the path)",
        storage_filesystem,
    )
    require(not export_formats, "export_formats: None (write what you need into a checkpoint)", export_formats)
    if sync_config is not None:
        warn_once("sync_config is ignored: everything is written in place, there is nothing to synchronise")


class Config:
    """Base of the configs: dataclasses that check themselves when they are made and at every assignment."""

    def __post_init__(self) -> None:
        self._check()

    def _check(self) -> None:
        """Hold the values to their rules.

        Raises:
            ValueError: If one is broken.
        """
        raise NotImplementedError(f"{type(self).__name__} must override _check()")

    def __setattr__(self, name: str, value: Any) -> None:
        """Assign a field; a value that breaks a rule is refused, and nothing has changed then."""
        if name not in type(self).__dataclass_fields__:  # type: ignore[attr-defined]  # every subclass is a dataclass
            known = ", ".join(entry.name for entry in fields(self))  # type: ignore[arg-type]  # likewise
            raise AttributeError(f"{type(self).__name__} has no field {name!r}; its fields are {known}")
        is_made, old = name in self.__dict__, self.__dict__.get(name)
        self._put(name, value)
        if is_made:
            try:
                self._check()
            except Exception:
                self._put(name, old)
                raise

    def _put(self, name: str, value: Any) -> None:
        """Set a field without a check."""
        object.__setattr__(self, name, value)

    def __repr__(self) -> str:
        """With the fields that differ from their defaults."""
        usual = type(self)()
        values = [(entry.name, getattr(self, entry.name)) for entry in fields(self)]  # type: ignore[arg-type]  # likewise
        shown = ", ".join(f"{name}={value!r}" for name, value in values if not _is_same(value, getattr(usual, name)))
        return f"{type(self).__name__}({shown})"


def _is_same(value: Any, other: Any) -> bool:
    try:
        return bool(value == other)
    except Exception:  # whatever a comparison of foreign types or arrays raises
        return False


@dataclass(init=False, repr=False)
class FailureConfig(Config):
    """How a run goes on when a trial fails.

    Args:
        max_failures: How often a trial is tried again; -1 means without end.
        fail_fast: True ends the search at the first failure; `"raise"` also raises the trial's exception from `fit`.
        max_retries: Another name of `max_failures`.

    Raises:
        ValueError: If `max_failures` is not an int >= -1 (then it is also a `TuneError`), or is not 0 together with
            `fail_fast`.
    """

    max_failures: int = 0
    fail_fast: bool | str = False

    def __init__(self, max_failures: int = 0, fail_fast: bool | str = False, *, max_retries: int | None = None):
        if max_retries is not None:
            require(
                max_failures == 0, "max_failures: left out where max_retries, its other name, is given", max_failures
            )
            max_failures = max_retries
        self.max_failures = max_failures
        self.fail_fast = fail_fast
        self._check()

    def _check(self) -> None:
        good = is_whole(self.max_failures) and self.max_failures >= -1
        if not good:
            raise InvalidArgumentError(f"max_failures must be an int >= -1, but got {shown(self.max_failures)}")
        if isinstance(self.fail_fast, str):
            self._put("fail_fast", self.fail_fast.lower())
        known = isinstance(self.fail_fast, bool) or self.fail_fast == "raise"
        require(known, "fail_fast: False, True or 'raise'", self.fail_fast)
        if self.fail_fast and self.max_failures != 0:
            raise ValueError(
                f"max_failures must be 0 when fail_fast is set, but got max_failures={self.max_failures}, "
                f"fail_fast={self.fail_fast!r}; a trial is either retried or ends the search"
            )

    @property
    def max_retries(self) -> int:
        """Another name of `max_failures`."""
        return self.max_failures


@dataclass(repr=False)
class CheckpointConfig(Config):
    """Which checkpoints are made and kept.

    Attributes:
        num_to_keep: How many to keep for each trial, the latest one besides; None keeps all.
        checkpoint_score_attribute: The metric by which the best are kept, such as `"eval/loss"`; None keeps the newest.
        checkpoint_score_order: `"max"` or `"min"`.
        checkpoint_frequency: Save a class trainable every so many iterations; 0 means never.
        checkpoint_at_end: Save a class trainable at its end; None means yes if it overrides `save_checkpoint`.
        max_total_bytes: Budget of all checkpoints of the run together; None means no limit.

    Raises:
        ValueError: If a value breaks its rule.
    """

    num_to_keep: int | None = None
    checkpoint_score_attribute: str | None = None
    checkpoint_score_order: str = "max"
    checkpoint_frequency: int = 0
    checkpoint_at_end: bool | None = None
    max_total_bytes: int | None = None

    def _check(self) -> None:
        keep, order = self.num_to_keep, self.checkpoint_score_order
        require(keep is None or (is_whole(keep) and keep >= 1), "num_to_keep: None or an int >= 1", keep)
        require(order in ("max", "min"), "checkpoint_score_order: 'max' or 'min'", order)
        require_metric("checkpoint_score_attribute", self.checkpoint_score_attribute)
        frequency = self.checkpoint_frequency
        require(is_whole(frequency) and frequency >= 0, "checkpoint_frequency: an int >= 0", frequency)
        at_end = self.checkpoint_at_end
        require(at_end is None or isinstance(at_end, bool), "checkpoint_at_end: None, True or False", at_end)
        budget = self.max_total_bytes
        require(budget is None or (is_whole(budget) and budget > 0), "max_total_bytes: None or an int > 0", budget)


@dataclass(repr=False)
class ResumeConfig(Config):
    """How a resume treats finished, unfinished and errored trials.

    Attributes:
        finished: For trials that have ended without an error.
        unfinished: For trials that have not ended.
        errored: For trials that have failed.

    Raises:
        ValueError: If one of them is no `ResumeType`, nor the value of one.
    """

    class ResumeType(Enum):
        """The treatment of a trial: go on from its last checkpoint, start again, or leave it as it is."""

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
            kind = known.get(value) if isinstance(value, str) else value
            require(isinstance(kind, ResumeType), f"{name}: a ResumeType or one of {', '.join(known)}", value)
            self._put(name, kind)


ResumeType = ResumeConfig.ResumeType


@dataclass(repr=False)
class SyncConfig(Config):
    """Accepted for Ray Tune's signature: a run on one machine writes everything in place and synchronises nothing.

    Attributes:
        sync_period: Has no effect.
        sync_timeout: Has no effect.
        sync_artifacts: Has no effect.
        sync_artifacts_on_checkpoint: Has no effect.
        syncer: Has no effect.
        sync_on_checkpoint: Has no effect.
        upload_dir: Has no effect: mount the storage and pass its path as `storage_path`.
    """

    sync_period: int = 300
    sync_timeout: int = 1800
    sync_artifacts: bool = False
    sync_artifacts_on_checkpoint: bool = True
    syncer: Any = None
    sync_on_checkpoint: bool = True
    upload_dir: Any = None

    def _check(self) -> None:
        """There is no rule."""


def default_storage_path() -> str:
    """Where runs lie if nothing else is said: `MINITUNE_STORAGE_PATH`, else `~/minitune_results`."""
    return local_path(setting("STORAGE_PATH"))


@dataclass(repr=False)
class RunConfig(Config):
    """Where a run lies, what it shows, how it fails and what it keeps.

    Attributes:
        name: The run's name and directory; by default the trainable's name and the date.
        storage_path: The directory that holds runs; by default `default_storage_path()`.
        storage_filesystem: Accepted for Ray Tune's signature; only None is possible.
        failure_config: See `FailureConfig`.
        checkpoint_config: See `CheckpointConfig`.
        sync_config: Accepted for Ray Tune's signature and ignored: everything is written in place.
        verbose: 0 silent, 1 default, 2 also each iteration and what trials print; None means 1. At 0, the failures of
            trials are one record in the log, if you have configured one.
        stop: When a trial stops: a dict of metrics and limits, a callable or a `Stopper`.
        callbacks: `Callback` objects, called in this order.
        progress_reporter: A `ProgressReporter` in place of the default one.
        log_to_file: Names for the files of a trial's output: True, one name, or a pair (stdout, stderr).
        local_dir: Old name of `storage_path`.
        durability: `"process"`, `"batched"` or `"strict"`: what a power cut may cost.
        show_output: Show what trials print, whatever `verbose` is; at `verbose=0` that and nothing else.
        progress: Show the progress at `verbose >= 1`. Without it, the failures of trials are one record in the log,
            which goes to the standard error stream if you have configured none.
        keep_descendants: Leave processes that a trial has started alone when it ends.

    Raises:
        ValueError: If a value breaks its rule.
    """

    name: str | None = None
    storage_path: str | os.PathLike[str] | None = None
    storage_filesystem: None = None
    failure_config: FailureConfig | None = None
    checkpoint_config: CheckpointConfig | None = None
    sync_config: Any = None
    verbose: int | bool | None = None
    stop: Any = None
    callbacks: Sequence[Any] | None = None
    progress_reporter: Any = None
    log_to_file: bool | str | Sequence[str] = False
    local_dir: str | os.PathLike[str] | None = None
    durability: str = "batched"
    show_output: bool = False
    progress: bool = True
    keep_descendants: bool = False

    def _check(self) -> None:
        require(self.name is None or isinstance(self.name, str), "name: None or text", self.name)
        require(self.durability in DURABILITIES, f"durability: one of {', '.join(DURABILITIES)}", self.durability)
        refuse_out_of_scope(self.storage_filesystem, self.sync_config, None)
        if self.verbose is not None:
            good = isinstance(self.verbose, bool) or is_whole(self.verbose)
            require(good, "verbose: 0, 1 or 2", self.verbose)
            self._put("verbose", max(0, min(2, int(self.verbose))))
        self._put("failure_config", as_config("failure_config", self.failure_config, FailureConfig))
        self._put("checkpoint_config", as_config("checkpoint_config", self.checkpoint_config, CheckpointConfig))
        require_flag("show_output", self.show_output)
        require_flag("progress", self.progress)
        require_flag("keep_descendants", self.keep_descendants)
        if self.callbacks is not None:
            good = isinstance(self.callbacks, Iterable)
            require(good, "callbacks: None or a list of Callback objects", self.callbacks)
            self._put("callbacks", list(self.callbacks))
        if self.local_dir is not None:
            warn_once("local_dir is the old name of storage_path")
            self._put("storage_path", self.storage_path or self.local_dir)
            self._put("local_dir", None)
        if self.storage_path is not None:
            local_path(self.storage_path)  # refuses what is not on this machine
            self._put("storage_path", os.fspath(self.storage_path))
        log_file_names(self.log_to_file)


def as_config(name: str, config: Any, kind: type[_AnyConfig]) -> _AnyConfig:
    """`config`, or one of its kind with all defaults; a dict of its fields is understood too.

    Args:
        name: The argument's name, for the error text.
        config: What the user passed, or None.
        kind: Its class.

    Raises:
        ValueError: If it is none of these, or has other fields.
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
    """Names of the files that take a trial's stdout and stderr.

    Args:
        log_to_file: True, False, one name for both, or a pair of names. A name is one within the trial's directory, or
            an absolute path, where the trials of a run share a file.

    Raises:
        ValueError: If it is none of these.
    """
    if log_to_file is None or isinstance(log_to_file, bool):
        return "stdout", "stderr"
    rule = "log_to_file: a bool, a file name, or a pair of names (stdout, stderr)"
    require(isinstance(log_to_file, Sequence), rule, log_to_file)
    names = (log_to_file, log_to_file) if isinstance(log_to_file, str) else tuple(log_to_file)
    require(len(names) == 2 and all(isinstance(name, str) and name for name in names), rule, log_to_file)
    stdout, stderr = map(os.path.expanduser, names)
    good = all(os.path.isabs(name) or os.path.basename(name) == name for name in (stdout, stderr))
    require(good, rule, log_to_file)
    return stdout, stderr
