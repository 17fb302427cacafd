"""How a run behaves: frozen, validated when made."""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from minitune.settings import setting

logger = logging.getLogger("minitune")

DURABILITIES = ("process", "batched", "strict")


def require(condition: bool, rule: str, got: object) -> None:
    """Refuse a bad argument.

    Args:
        condition: What must hold.
        rule: The rule in words, with the names of the arguments.
        got: The offending value.

    Raises:
        ValueError: If `condition` is false, with the rule and the value.
    """
    if not condition:
        raise ValueError(f"{rule} must hold, but got {got!r}")


@dataclass(frozen=True)
class FailureConfig:
    """What happens when a trial fails.

    Attributes:
        max_failures: How often a trial is tried again; -1 means without end.
        fail_fast: True ends the search at the first failure; `"raise"` also raises the trial's exception from `fit`.

    Raises:
        ValueError: If `max_failures` is not an int >= -1, or is not 0 together with `fail_fast`.
    """

    max_failures: int = 0
    fail_fast: bool | str = False

    def __post_init__(self) -> None:
        whole = isinstance(self.max_failures, int) and not isinstance(self.max_failures, bool)
        require(whole and self.max_failures >= -1, "max_failures: an int >= -1", self.max_failures)
        known = self.fail_fast in (False, True) or self.fail_fast == "raise"
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


@dataclass(frozen=True)
class CheckpointConfig:
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

    def __post_init__(self) -> None:
        keep, order = self.num_to_keep, self.checkpoint_score_order
        require(keep is None or (isinstance(keep, int) and keep >= 1), "num_to_keep: None or an int >= 1", keep)
        require(order in ("max", "min"), "checkpoint_score_order: 'max' or 'min'", order)
        frequency = self.checkpoint_frequency
        require(isinstance(frequency, int) and frequency >= 0, "checkpoint_frequency: an int >= 0", frequency)
        budget = self.max_total_bytes
        require(budget is None or (isinstance(budget, int) and budget > 0), "max_total_bytes: None or > 0", budget)


class ResumeType(Enum):
    """What a resume does with a trial."""

    RESUME = "resume"
    RESTART = "restart"
    SKIP = "skip"


@dataclass(frozen=True)
class ResumeConfig:
    """What a resume does with finished, unfinished and errored trials.

    Attributes:
        finished: For trials that have ended well.
        unfinished: For trials that have not ended.
        errored: For trials that have ended badly.
    """

    finished: ResumeType = ResumeType.SKIP
    unfinished: ResumeType = ResumeType.RESUME
    errored: ResumeType = ResumeType.SKIP

    def __post_init__(self) -> None:
        for name in ("finished", "unfinished", "errored"):
            value = getattr(self, name)
            require(isinstance(value, ResumeType), f"{name}: a ResumeType", value)


def default_storage_path() -> str:
    """Where runs lie if nothing else is said: `MINITUNE_STORAGE_PATH`, else `~/minitune_results`."""
    return os.path.expanduser(setting("STORAGE_PATH"))


@dataclass(frozen=True)
class RunConfig:
    """Where a run lies, what it shows, how it fails and what it keeps.

    Attributes:
        name: The run's name and directory; by default the trainable's name and the date.
        storage_path: The directory that holds runs; by default `default_storage_path()`.
        storage_filesystem: Accepted for Ray Tune's signature; only None is possible.
        failure_config: See `FailureConfig`.
        checkpoint_config: See `CheckpointConfig`.
        sync_config: Accepted for Ray Tune's signature and ignored: everything is written in place.
        verbose: 0 silent, 1 default, 2 also each iteration; None means 1.
        stop: When a trial stops: a dict of metrics and limits, a callable or a `Stopper`.
        callbacks: `Callback` objects, called in this order.
        progress_reporter: A `ProgressReporter` in place of the default one.
        log_to_file: Names for the files of a trial's output: True, one name, or a pair (stdout, stderr).
        local_dir: Old name of `storage_path`.
        durability: `"process"`, `"batched"` or `"strict"`: what a power cut may cost.
        progress: Show the progress at `verbose >= 1`.
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
    log_to_file: bool | str | tuple[str, str] = False
    local_dir: str | os.PathLike[str] | None = None
    durability: str = field(default="batched")
    progress: bool = True
    keep_descendants: bool = False

    def __post_init__(self) -> None:
        require(self.durability in DURABILITIES, f"durability: one of {', '.join(DURABILITIES)}", self.durability)
        require(
            self.storage_filesystem is None,
            "storage_filesystem: None (mount the storage and pass storage_path)",
            self.storage_filesystem,
        )
        if self.verbose is not None:
            require(isinstance(self.verbose, int), "verbose: an int >= 0", self.verbose)
            object.__setattr__(self, "verbose", max(0, min(2, int(self.verbose))))
        if self.failure_config is None:
            object.__setattr__(self, "failure_config", FailureConfig())
        if self.checkpoint_config is None:
            object.__setattr__(self, "checkpoint_config", CheckpointConfig())
        if self.callbacks is not None:
            object.__setattr__(self, "callbacks", tuple(self.callbacks))
        if self.sync_config is not None:
            logger.warning("sync_config is ignored: everything is written in place, there is nothing to synchronise")
        if self.local_dir is not None and self.storage_path is None:
            object.__setattr__(self, "storage_path", self.local_dir)
