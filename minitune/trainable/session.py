"""Session: connects user code to its trial and to the driver, through `report` and `get_checkpoint`.

A report passes `metric_checks` and gets the automatic keys of `auto_fields`. A session belongs to a thread, and to all
threads of a process that the trial has to itself. A forked child has none, because the connection to the driver belongs
to its parent.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from minitune.base.forks import Origin
from minitune.base.randomness import is_on_loan, seed_process
from minitune.base.settings import CHECKPOINT_DIR, PROGRAM, shared_variable
from minitune.base.text import warn_once
from minitune.base.user_code import has_process_to_itself
from minitune.checkpoint import (
    Checkpoint,
    CheckpointRecord,
    commit_copy,
    commit_prepared,
    discard_prepared,
    temporary_directory,
    temporary_path,
)
from minitune.experiment.trial_info import TrialInfo
from minitune.resources import Allocation
from minitune.result import (
    CHECKPOINT_DIR_NAME,
    DONE,
    SHOULD_CHECKPOINT,
    Report,
)
from minitune.trainable.auto_fields import AutoFields
from minitune.trainable.metric_checks import checked_metrics

logger = logging.getLogger("minitune")

_OF_RAY_TRAIN = frozenset({"checkpoint_dir_name", "checkpoint_upload_mode", "delete_local_checkpoint_after_upload"})
"""Arguments of `ray.train.report` about the way of a checkpoint to its storage."""
_Made = tuple[Report, Callable[[], object]]
HandOver = Callable[[Callable[[], _Made]], None]
"""Hands a report to the driver and blocks until the next one is asked for. Its argument makes the report and a commit
function, for when it counts.
"""
_of_process: Session | None = None
_left_behind: Session | None = None
"""That of the last trial in this process, which has ended: what its threads report now raises `TrialStopped`."""


class Session:
    """The connection of user code to its trial: the trial's data, its checkpoint, and the reports to the driver.

    Attributes:
        check_stopping: Raises `TrialStopped` if the trial must stop.
        at_end: Functions for the end of the user's function, on its thread, with whether it failed; not for class
            trainables.
    """

    def __init__(self, info: TrialInfo, allocation: Allocation, fields: AutoFields):
        self.info = info
        self.allocation = allocation
        self.fields = fields
        self.hand_over: HandOver | None = None
        self.check_stopping: Callable[[], None] | None = None
        self.checkpoint: Checkpoint | None = None
        self.last_record: CheckpointRecord | None = None
        # The directories of `checkpoint_dir` that are being filled, and the numbers in their names.
        self._filling: dict[str, int] = {}
        # The checkpoint that has no report yet, and the path under which it was filled.
        self._unreported: CheckpointRecord | None = None
        self._filled = ""
        self.is_stopping = False
        self.origin = Origin()
        self.at_end: list[Callable[[bool], None]] = []
        self._at_stop: list[Callable[[], object]] = []
        self._next_checkpoint = info.next_checkpoint

    def seed_generators(self, iteration: int) -> None:
        """Seed the process's global random generators, if they belong to the trial.

        `iteration` is that from which the trial continues. For the thread that runs user code.
        """
        if has_process_to_itself() or is_on_loan():
            seed_process(self.info.seed, iteration, self.info.failures)

    def on_stop(self, function: Callable[[], object]) -> None:
        """See `TuneContext.on_stop`."""
        if self.hand_over is None:
            raise RuntimeError(
                "on_stop() is for functions: a class ends between two steps, and then cleanup() is called"
            )
        self._at_stop.append(function)
        if self.is_stopping:
            function()  # the stop may have come before the list had this function

    def tell_stop(self) -> None:
        """Call the functions of `on_stop`, at the first stop. From the control thread."""
        # First the mark, then the calls: `on_stop` adds first and then looks, so no function is missed.
        if self.is_stopping:
            return
        self.is_stopping = True
        for function in self._at_stop:
            try:
                function()
            # The control thread must go on: it also hears the request for stacks.
            except Exception as error:
                logger.warning("a function of on_stop() raised an exception", exc_info=error)

    def take_checkpoint_number(self) -> int:
        """Return the next number of a checkpoint."""
        number = self._next_checkpoint
        self._next_checkpoint += 1
        return number

    @contextmanager
    def making_checkpoint(self) -> Iterator[str]:
        """Yield a directory to fill. A report within the `with` block may name it; see `checkpoint_dir`.

        Otherwise it is a checkpoint after the block, for the next report. An earlier one without a report is handed
        over first, which blocks like a report.

        Raises:
            TrialStopped: If the trial must stop.
            ValueError: If the directory has entries that are not files, directories or links.
        """
        # A trial that has to stop should not write a checkpoint that nothing will load.
        if self.check_stopping is not None:
            self.check_stopping()
        self.hand_over_made()
        number = self.take_checkpoint_number()
        # absolute, as in a Checkpoint
        directory = os.path.abspath(temporary_directory(self.info.directory, number, self.info.attempt))
        self._filling[directory] = number
        try:
            yield directory
            if directory in self._filling:
                record = self._commit_filled(directory)
                self._has_saved(record)
                self._unreported = record
                self._filled = directory
        except BaseException as error:
            # After a report the directory is a checkpoint. On a Ray cluster, the driver may not have renamed it yet.
            if self._filling.pop(directory, None) is not None:
                discard_prepared(directory, self.info.directory, error)
            raise

    def _commit_filled(self, directory: str) -> CheckpointRecord:
        """Commit a directory of `making_checkpoint`, by renaming."""
        number = self._filling[directory]
        temporary = directory
        if self._next_checkpoint > number + 1:  # others were made meanwhile, and numbers grow in the order of reports
            number = self.take_checkpoint_number()
            temporary = temporary_path(self.info.directory, number, self.info.attempt)
            os.rename(directory, temporary)
        record = commit_prepared(temporary, self.info.directory, number)
        del self._filling[directory]
        return record

    def hand_over_made(self) -> None:
        """Hand over a checkpoint that has no report yet. Blocks like a report."""
        record = self._unreported
        if record is not None and self.hand_over is not None:
            self.hand_over(lambda: (Report(None, record), lambda: setattr(self, "_unreported", None)))

    def _has_saved(self, record: CheckpointRecord) -> None:
        self.checkpoint = Checkpoint(os.path.join(self.info.directory, record.directory))
        self.last_record = record

    def report(self, metrics: dict[str, Any], checkpoint: Checkpoint | None = None) -> None:
        """Hand over one result, and block until the driver asks for the next one; see the function `report`.

        Raises:
            TypeError: If an argument has the wrong type, a key has no text, or a metric cannot be pickled.
            ValueError: If a metric is a torch tensor, or the report is too large.
            FileNotFoundError: If the checkpoint's directory does not exist.
            RuntimeError: If a signal handler calls this method while it is running.
            TrialStopped: If the trial must stop.
        """
        metrics = _checked(metrics, checkpoint)
        if self.hand_over is None:
            warn_once("report() does nothing in a class trainable: return the metrics from step() instead")
            return
        if checkpoint is not None and self._unreported is not None:
            if checkpoint.path == self._filled:
                checkpoint = None  # it waits for this report
            else:
                self.hand_over_made()  # a report has room for one checkpoint
        self.hand_over(lambda: self._make_report(metrics, checkpoint, has_returned=False))
        self.fields.begin()

    def complete(self, metrics: dict[str, Any]) -> _Made:
        """The report of a function's return value, and a function for when it counts.

        Raises:
            TypeError, ValueError: As in `report`.
        """
        return self._make_report(_checked(metrics, None), None, has_returned=True)

    def _make_report(self, metrics: dict[str, Any], checkpoint: Checkpoint | None, has_returned: bool) -> _Made:
        record = self._unreported
        if checkpoint is not None and checkpoint.path in self._filling:
            record = self._commit_filled(checkpoint.path)
        elif checkpoint is not None:
            number = self.take_checkpoint_number()
            record = commit_copy(checkpoint.path, self.info.directory, number, self.info.attempt)
        about: dict[str, Any] = {CHECKPOINT_DIR_NAME: None}
        if record is not None:
            about = {CHECKPOINT_DIR_NAME: record.directory, SHOULD_CHECKPOINT: True}
        fields = self.fields.copy()
        result = fields.fill(metrics, about)

        def commit() -> None:
            self.fields.__dict__ = fields.__dict__
            self._unreported = None
            if record is not None:
                self._has_saved(record)

        return Report(result, record, bool(result[DONE]), has_returned), commit

    @contextmanager
    def bound(self) -> Iterator[None]:
        """Make this the session of the calling thread inside a `with` block.

        If the trial has the process to itself, it is also that of all threads without one.
        """
        global _of_process, _left_behind
        previous = getattr(_of_thread, "session", None)
        is_of_process = has_process_to_itself()
        previous_of_process = _of_process
        _of_thread.session = self
        # Threads of the user have no session of their own.
        if is_of_process:
            _of_process = self
            _left_behind = None
        try:
            yield
        finally:
            _of_thread.session = previous
            if is_of_process:
                _of_process = previous_of_process
                _left_behind = self


class _OfThread(threading.local):
    session: Session | None = None


_of_thread = _OfThread()


def current_session() -> Session | None:
    """The session of the calling thread, or of the process; None outside of trials."""
    session = _of_thread.session or _of_process
    if session is None or not session.origin.is_here():
        return None
    return session


class _Program:
    """Stands for a session in a program of `minitune run`."""

    def report(self, metrics: dict[str, Any], checkpoint: Checkpoint | None) -> None:
        if checkpoint is not None:
            raise ValueError(f"a program of `minitune run` saves its checkpoint in the directory ${CHECKPOINT_DIR}")
        from minitune.trainable.printed import print_report

        print_report(metrics)

    @property
    def checkpoint(self) -> Checkpoint | None:
        path = shared_variable(CHECKPOINT_DIR)
        if path and os.path.isdir(path) and os.listdir(path):
            return Checkpoint(path)
        return None


class _Outside:
    """Stands for a session where there is neither a trial nor a program: it warns once."""

    def report(self, metrics: dict[str, Any], checkpoint: Checkpoint | None) -> None:
        warn_once("report() was called outside of a trial: nothing is recorded")

    @property
    def checkpoint(self) -> None:
        warn_once("get_checkpoint() was called outside of a trial: there is no checkpoint")


def _session_or_stand_in() -> Session | _Program | _Outside:
    session = current_session()
    if session is not None:
        return session
    if shared_variable(PROGRAM):
        return _Program()
    left = _left_behind
    if left is not None and left.origin.is_here() and threading.current_thread() is not threading.main_thread():
        return left
    return _Outside()


def report(metrics: dict[str, Any] | None = None, checkpoint: Checkpoint | None = None, **legacy: Any) -> None:
    """Report one result of the calling trial, and block until the driver asks for the next one.

    Outside of a trial it warns once and does nothing. In a program of `minitune run`, it prints the report and does not
    wait.

    Args:
        metrics: A dict of numbers and other objects that can be pickled. `done: True` ends the trial.
        checkpoint: A checkpoint. Its directory is copied into the trial's directory before the result is reported. That
            of `checkpoint_dir` is renamed instead.
        **legacy: Metrics as keywords, as in older Ray Tune: `report(loss=1)`.

    Raises:
        TypeError: If `metrics` is not a dict, `checkpoint` is not a Checkpoint, a key has no text, or a metric cannot
            be pickled.
        ValueError: If a metric is a torch tensor, or the report is too large.
        TrialStopped: If the trial must stop. Do not catch this exception, so that the trial can end.
    """
    for name in _OF_RAY_TRAIN.intersection(legacy):
        del legacy[name]
        warn_once(f"report({name}=...) is ignored: checkpoints are numbered, and copied before report() returns")
    if legacy:
        if metrics is not None:
            raise TypeError(f"report() got unexpected keywords {sorted(legacy)}: put them into the dict of metrics")
        warn_once("report(loss=...) is deprecated: use report({'loss': ...})")
        metrics = legacy
    # For None, where metrics are needed, there is an error with a helpful text.
    _session_or_stand_in().report(metrics, checkpoint)  # type: ignore[arg-type]


def get_checkpoint() -> Checkpoint | None:
    """The checkpoint to continue from: at first that of a retry, resume or exploit, later the last reported one; None
    at a fresh start. Outside of a trial it warns once and returns None. In a program of `minitune run`, it is the
    directory `MINITUNE_CHECKPOINT_DIR`.
    """
    return _session_or_stand_in().checkpoint


@contextmanager
def checkpoint_dir(step: int | float | None = None) -> Iterator[str]:
    """A directory for a large checkpoint. It lies in the trial's directory, and is renamed when it is reported.

    `report(metrics, checkpoint=Checkpoint(directory))` in the `with` block reports it without a copy; `directory` is
    gone after that. Otherwise the checkpoint belongs to the first report after the block, or is recorded alone if
    another one is made before that, or the function returns. After an error in the block it does not count.

    Outside of a trial and in a class trainable, it warns once and yields a temporary directory.

    Raises:
        TrialStopped: If the trial must stop.
        OSError: If the directory cannot be made.
        ValueError: If it has something other than files, directories and links.
    """
    session = current_session()
    if session is not None and session.hand_over is not None:
        with session.making_checkpoint() as directory:
            yield directory
        return
    if session is None:
        warn_outside("checkpoint_dir")
    else:
        warn_once("checkpoint_dir() does nothing in a class trainable: define save_checkpoint() instead")
    import tempfile

    with tempfile.TemporaryDirectory() as directory:
        yield directory


def warn_outside(name: str) -> None:
    """Warn, once per process and name, that `name` was called outside of a trial."""
    warn_once(f"{name}() was called outside of a trial: it has no value there")


def _checked(metrics: Any, checkpoint: Any) -> dict[str, Any]:
    """The metrics of a report after all checks, with plain keys."""
    if not isinstance(metrics, dict):
        raise TypeError(f"metrics must be a dict such as {{'loss': 0.1}}, but got {type(metrics).__name__}")
    if checkpoint is not None and not isinstance(checkpoint, Checkpoint):
        raise TypeError(
            f"checkpoint must be a Checkpoint, but got {type(checkpoint).__name__}; use Checkpoint.from_directory(path)"
        )
    return checked_metrics(metrics)
