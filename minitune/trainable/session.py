"""The trial that the calling code belongs to, and what it says: `report` and `get_checkpoint`."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from minitune._global_draws import is_on_loan
from minitune._warnings import warn_once
from minitune.checkpoint import Checkpoint, CheckpointRecord, commit_copy
from minitune.experiment.trial_info import TrialInfo
from minitune.resources import Allocation
from minitune.result import CHECKPOINT_DIR_NAME, DONE, SHOULD_CHECKPOINT, Report
from minitune.trainable.auto_fields import AutoFields
from minitune.trainable.metric_check import check_metrics
from minitune.trainable.seeding import seed_process

HandOver = Callable[[Report], None]
"""Gives a report to the driver and blocks until the driver asks for the next one."""


class Session:
    """What user code in one trial can reach: who it is, where it starts from, and the way to the driver.

    Args:
        info: The trial.
        allocation: What it was given.
        fields: Completes its results.

    Attributes:
        hand_over: Set by what runs a function; None in a class trainable, which returns its results instead.
        check_stopping: Set likewise: raises `TrialStopped` if the trial is to stop.
        checkpoint: What to go on from: the restored one, later the last one reported.
        last_record: The last checkpoint that was reported in this attempt, or None.
    """

    def __init__(self, info: TrialInfo, allocation: Allocation, fields: AutoFields):
        self.info = info
        self.allocation = allocation
        self.fields = fields
        self.hand_over: HandOver | None = None
        self.check_stopping: Callable[[], None] | None = None
        self.checkpoint: Checkpoint | None = None
        self.last_record: CheckpointRecord | None = None
        self._next_checkpoint = info.next_checkpoint
        self._pid = os.getpid()

    def is_of_this_process(self) -> bool:
        """False in a process that the trial has forked: the way to the driver belongs to its parent."""
        return self._pid == os.getpid()

    def seed_generators(self, iteration: int) -> None:
        """Seed the process's global random generators from the trial's seed, if they are the trial's.

        They are where the process's main thread was lent to the trial, and where they themselves are; else nothing is
        done. Called on the thread that user code runs on.

        Args:
            iteration: The iteration that the trial goes on from; 0 at a fresh start.
        """
        if threading.current_thread() is threading.main_thread() or is_on_loan():
            seed_process(self.info.seed, iteration, self.info.failures)

    def take_checkpoint_number(self) -> int:
        """The number of the checkpoint that is written next; numbers never come twice."""
        number = self._next_checkpoint
        self._next_checkpoint += 1
        return number

    def report(
        self, metrics: dict[str, Any], checkpoint: Checkpoint | None = None, *, has_returned: bool = False
    ) -> None:
        """Hand over one result; see `report`.

        Args:
            metrics: See `report`.
            checkpoint: Likewise.
            has_returned: Whether the function has returned these metrics, so that it waits for nothing.

        Raises:
            TypeError: If an argument has the wrong type or a metric cannot be pickled.
            ValueError: If a metric is a torch tensor.
            FileNotFoundError: If the checkpoint's directory does not exist.
            TrialStopped: If the trial is to stop.
        """
        _check_arguments(metrics, checkpoint)
        if self.hand_over is None:
            warn_once("report() does nothing in a class trainable: return the metrics from step() instead")
            return
        record = None
        if checkpoint is not None:
            if self.check_stopping is not None:
                self.check_stopping()  # not after the copy: nobody would ever hear of it
            record = commit_copy(checkpoint.path, self.info.directory, self.take_checkpoint_number(), self.info.attempt)
            self.checkpoint = Checkpoint(os.path.join(self.info.directory, record.directory))
            self.last_record = record
        about: dict[str, Any] = {CHECKPOINT_DIR_NAME: None}
        if record is not None:
            about = {CHECKPOINT_DIR_NAME: record.directory, SHOULD_CHECKPOINT: True}
        result = self.fields.fill(metrics, about)
        self.hand_over(Report(result, record, bool(result[DONE]), has_returned))
        self.fields.begin()

    @contextmanager
    def bound(self) -> Iterator[None]:
        """Make this the session of the calling thread inside a `with` block.

        On a process's main thread it also becomes the one for threads that have none of their own: then the trial has
        the process to itself (its main thread was lent to it), and a thread that reports can only be the trial's.
        """
        global _of_process
        previous = getattr(_of_thread, "session", None)
        is_main = threading.current_thread() is threading.main_thread()
        previous_of_process = _of_process
        _of_thread.session = self
        if is_main:
            _of_process = self
        try:
            yield
        finally:
            _of_thread.session = previous
            if is_main:
                _of_process = previous_of_process


class _OfThread(threading.local):
    session: Session | None = None


_of_thread = _OfThread()
_of_process: Session | None = None


def current_session() -> Session | None:
    """The session of the calling thread, or of its process; None outside of trials."""
    session = _of_thread.session or _of_process
    return session if session is not None and session.is_of_this_process() else None


def report(metrics: dict[str, Any] | None = None, *, checkpoint: Checkpoint | None = None, **legacy: Any) -> None:
    """Report one result of the calling trial, and wait until the driver asks for the next one.

    Args:
        metrics: A dict of numbers and anything else that can be pickled. `done: True` ends the trial.
        checkpoint: A directory to copy into the trial's directory before the result is reported.
        **legacy: Metrics as keywords, as in older Ray Tune: `report(loss=1)`.

    Raises:
        TypeError: If `metrics` is no dict, `checkpoint` no Checkpoint, or a metric cannot be pickled.
        ValueError: If a metric is a torch tensor.
        TrialStopped: If the trial is to stop; let it through, so that the trial can end.

    Outside of a trial it warns once and does nothing.
    """
    if "checkpoint_dir_name" in legacy:
        del legacy["checkpoint_dir_name"]
        warn_once("report(checkpoint_dir_name=...) is ignored: checkpoints are numbered")
    if legacy:
        if metrics is not None:
            raise TypeError(f"report() got unexpected keywords {sorted(legacy)}: put them into the dict of metrics")
        warn_once("report(loss=...) is old: use report({'loss': ...})")
        metrics = legacy
    session = current_session()
    if session is None:
        warn_once("report() was called outside of a trial: nothing is recorded")
        return
    session.report(metrics, checkpoint)  # type: ignore[arg-type]  # it refuses None with the text that it has for it


def get_checkpoint() -> Checkpoint | None:
    """The checkpoint to go on from: that of a retry, resume or exploit, later the last one reported.

    Returns:
        The checkpoint, or None at a fresh start. Outside of a trial it warns once and returns None.
    """
    session = current_session()
    if session is None:
        warn_once("get_checkpoint() was called outside of a trial: there is no checkpoint")
        return None
    return session.checkpoint


def warn_outside(name: str) -> None:
    """Warn, once per process and name, that `name` was called outside of a trial."""
    warn_once(f"{name}() was called outside of a trial: it has no value there")


def _check_arguments(metrics: Any, checkpoint: Any) -> None:
    if not isinstance(metrics, dict):
        raise TypeError(f"metrics must be a dict such as {{'loss': 0.1}}, but got {type(metrics).__name__}")
    if checkpoint is not None and not isinstance(checkpoint, Checkpoint):
        raise TypeError(
            f"checkpoint must be a Checkpoint, but got {type(checkpoint).__name__}; use Checkpoint.from_directory(path)"
        )
    check_metrics(metrics)
