"""The common part of the callbacks for experiment trackers: a separate thread, and one record for each trial.

The driver's loop must not wait for a tracker. So the hooks only queue the events, and one thread, from the first trial
to the end of the run, passes them on.

A trial has one record, however often it is paused, retried or resumed. If a tracker fails, there is one warning; the
tuning continues.
"""

from __future__ import annotations

import importlib.util
import logging
import os
import sys
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from queue import SimpleQueue
from typing import Any, ClassVar

from minitune.base.json_text import scalar_of, short_text
from minitune.base.numbers import number_or_flag
from minitune.base.process_limits import start_thread
from minitune.base.text import one_line
from minitune.experiment.trial import Trial
from minitune.logger.logger import LoggerCallback, step_of
from minitune.result import CONFIG, DONE, flatten

logger = logging.getLogger("minitune")


@dataclass(frozen=True)
class TrialFacts:
    """The facts about a trial that a tracker gets when the trial starts."""

    trial_id: str
    name: str
    run_name: str
    run_path: str
    path: str
    config: dict[str, Any]
    is_new: bool


class RecordEnd(Enum):
    """How a record ends."""

    FINISHED = "finished"
    FAILED = "failed"
    INTERRUPTED = "interrupted"


class TrackerCallback(LoggerCallback, ABC):
    """Base class of trackers' callbacks. Override `open`, `write` and `close`, which run on the callback's thread.

    Args:
        upload_timeout: How many seconds the end of the run waits for the tracker. Ctrl-C also ends the wait.
    """

    tracker: ClassVar[str]
    """The tracker's name, for messages."""
    _keeps_checkpoints = False
    """Whether `save` is called for checkpoints."""

    def __init__(self, upload_timeout: float = 1800) -> None:
        self._upload_timeout_s = upload_timeout
        self._begin()

    def _begin(self) -> None:
        self._events: SimpleQueue[Any] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._is_given_up = threading.Event()
        self._warned: set[str] = set()

    # -- on the thread -------------------------------------------------------------------------------------------------

    @abstractmethod
    def open(self, facts: TrialFacts) -> Any:
        """Open a trial's record, or open it again; return an object that represents it. May block and may raise."""

    def restart(self, record: Any, facts: TrialFacts) -> None:
        """A trial whose record is open has started again, perhaps with another configuration."""

    @abstractmethod
    def write(self, record: Any, step: int, result: dict[str, Any]) -> None:
        """Write a flattened result, including `config/...`."""

    def save(self, record: Any, facts: TrialFacts, directory: str) -> None:
        """Store the checkpoint in a directory."""

    @abstractmethod
    def close(self, record: Any, facts: TrialFacts, end: RecordEnd) -> None:
        """Close a record."""

    @contextmanager
    def settings(self) -> Iterator[None]:
        """A context for the thread's work: sets variables that the tracker reads, and restores them at the end."""
        yield

    def _work(self, events: SimpleQueue[Any], is_given_up: threading.Event) -> None:
        records: dict[str, tuple[Any, TrialFacts]] = {}
        with self.settings():
            while (event := events.get()) is not None:
                # The process may go on after the run, and this thread must not write into the records of the next one.
                if is_given_up.is_set():
                    return
                try:
                    self._tell(records, *event)
                except Exception as error:
                    self._warn(
                        "write",
                        f"could not write to {self.tracker}",
                        error,
                        "it leaves out failed writes; this is logged once",
                    )
            # The end of the run interrupted these trials. Most trackers show an open record as running for ever.
            for record, facts in records.values():
                try:
                    self.close(record, facts, RecordEnd.INTERRUPTED)
                except Exception as error:
                    self._warn("write", f"could not close the record of trial {facts.name}", error)

    def _tell(
        self, records: dict[str, tuple[Any, TrialFacts]], trial_id: str, what: str, value: Any, step: int
    ) -> None:
        if what == "start" and trial_id not in records:
            if "open" in self._warned:
                return
            try:
                records[trial_id] = (self.open(value), value)
            except Exception as error:
                # Trackers retry several times before they fail, so the next trial would also wait for a long time.
                self._warn("open", f"opens no more records in {self.tracker}", error, "the run continues without them")
        elif trial_id not in records:
            return  # the trial has no record, or has never started
        elif what == "start":
            records[trial_id] = (records[trial_id][0], value)
            self.restart(*records[trial_id])
        elif what == "result":
            self.write(records[trial_id][0], step, value)
        elif what != "save":
            self.close(*records.pop(trial_id), value)
        elif os.path.isdir(value):  # otherwise a later checkpoint has replaced it
            self.save(*records[trial_id], value)

    def _warn(self, kind: str, text: str, error: Exception, also: str = "") -> None:
        """Log a warning once for each kind."""
        # A tracker that is down fails at each report. The same warning a thousand times would hide everything else.
        level = logging.DEBUG if kind in self._warned else logging.WARNING
        why = one_line(f"{type(error).__name__}: {error}")
        logger.log(level, "%s %s (%s)%s", type(self).__name__, text, why, f"; {also}" if also else "")
        self._warned.add(kind)

    # -- in the driver -------------------------------------------------------------------------------------------------

    def log_trial_start(self, trial: Trial) -> None:
        facts = TrialFacts(
            trial.trial_id,
            trial.name,
            trial.experiment_dir_name,
            trial.experiment_path,
            trial.local_path,
            plain_config(trial.config),
            is_new=trial.attempt.number <= 1,
        )
        self._put(trial.trial_id, "start", facts)

    def log_trial_result(self, iteration: int, trial: Trial, result: dict[str, Any]) -> None:
        self._put(trial.trial_id, "result", flatten(result), step_of(result))

    def log_trial_save(self, trial: Trial) -> None:
        if self._keeps_checkpoints and trial.checkpoint is not None:
            self._put(trial.trial_id, "save", trial.checkpoint.path)

    def log_trial_end(self, trial: Trial, failed: bool = False) -> None:
        self._put(trial.trial_id, "end", RecordEnd.FAILED if failed else RecordEnd.FINISHED)

    def on_experiment_end(self, trials: list[Trial], **info: Any) -> None:
        """Wait until everything is written, at most `upload_timeout` seconds."""
        thread = self._thread
        if thread is None:
            return
        self._events.put(None)
        try:
            thread.join(self._upload_timeout_s)
        # The results are safe in the journal; only the copy in the tracker is cut.
        except KeyboardInterrupt:
            pass
        if thread.is_alive():
            left_out = max(1, self._events.qsize())
            logger.warning("%s was too slow: %d events did not reach %s", type(self).__name__, left_out, self.tracker)
        self._is_given_up.set()  # if the thread still runs, it ends after its present event
        self._begin()

    def __getstate__(self) -> dict[str, Any]:
        """The arguments without the thread, because callbacks are saved with the run."""
        # Neither a queue nor a thread can be pickled.
        running = ("_events", "_thread", "_is_given_up", "_warned")
        return {name: value for name, value in self.__dict__.items() if name not in running}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """The inverse of `__getstate__`."""
        self.__dict__.update(state)
        self._begin()

    def _put(self, trial_id: str, what: str, value: Any, step: int = 0) -> None:
        self._events.put((trial_id, what, value, step))
        # Not in `setup`: a run that ends before its first trial needs no thread and no tracker.
        if self._thread is None:
            name = f"minitune-{self.tracker}"
            thread = threading.Thread(target=self._work, args=(self._events, self._is_given_up), name=name, daemon=True)
            start_thread(thread)
            self._thread = thread


def check_installed(package: str, user: str) -> None:
    """Check that a package is installed, without loading it, since that may take a second.

    Raises:
        ImportError: If it is not installed.
    """
    is_there = sys.modules[package] is not None if package in sys.modules else importlib.util.find_spec(package)
    if not is_there:
        raise ImportError(f"{user} needs {package}; install it with: pip install {package}", name=package)


def plain_config(config: Mapping[str, Any]) -> dict[str, Any]:
    """A flattened configuration. Objects other than numbers and strings are replaced by short texts."""
    plain = flatten(dict(config))
    for name, value in plain.items():
        if value is not None and not isinstance(value, (bool, int, float, str)):
            scalar = scalar_of(value)
            plain[name] = short_text(value) if scalar is None else scalar
    return plain


def config_in(result: Mapping[str, Any]) -> dict[str, Any]:
    """The configuration in a flattened result, as from `plain_config`."""
    head = f"{CONFIG}/"
    return plain_config({name.removeprefix(head): value for name, value in result.items() if name.startswith(head)})


def numbers_in(result: Mapping[str, Any]) -> dict[str, float]:
    """The numbers in a flattened result, without the configuration."""
    numbers: dict[str, float] = {}
    for name, value in result.items():
        if name != DONE and not name.startswith(f"{CONFIG}/"):
            number = number_or_flag(value)
            if number is not None:
                numbers[name] = number
    return numbers


def begins_with(name: str, heads: tuple[str, ...]) -> bool:
    """Whether a flattened name is one of `heads` or below one."""
    return any(name == head or name.startswith(f"{head}/") for head in heads)
