"""Session: connects user code to its trial and to the driver, through `report` and `get_checkpoint`.

It adds the automatic keys to each result. A session belongs to a thread, and to all threads of a process that the trial
has to itself. A forked child has none, because the connection to the driver belongs to its parent.
"""

from __future__ import annotations

import logging
import os
import pickle
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from minitune import clock
from minitune.base import user_thread
from minitune.base.checks import shown
from minitune.base.files import absolute, discard_tree
from minitune.base.forks import Origin
from minitune.base.numbers import finite_number
from minitune.base.pickling import PROTOCOL, ByteCounter
from minitune.base.randomness import is_on_loan, seed_process
from minitune.base.text import warn_once
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
    CONFIG,
    DATE,
    DEBUG_METRICS,
    DONE,
    EPISODES_THIS_ITER,
    EPISODES_TOTAL,
    HOSTNAME,
    ITERATIONS_SINCE_RESTORE,
    NODE_IP,
    NODE_IP_VARIABLE,
    PID,
    SHOULD_CHECKPOINT,
    TIME_SINCE_RESTORE,
    TIME_THIS_ITER_S,
    TIME_TOTAL_S,
    TIMESTAMP,
    TIMESTEPS_SINCE_RESTORE,
    TIMESTEPS_THIS_ITER,
    TIMESTEPS_TOTAL,
    TRAINING_ITERATION,
    TRIAL_ID,
    Report,
    with_plain_keys,
)
from minitune.settings import CHECKPOINT_DIR, PROGRAM, shared_variable

if TYPE_CHECKING:
    from datetime import datetime

logger = logging.getLogger("minitune")

PERF = "perf"
LOG_SYS_USAGE = "log_sys_usage"
"""The key of a configuration that turns on the metrics `perf/*`."""
# The name of this machine from the kernel, without a name service. Windows lacks it, but must be able to import this.
_HOSTNAME = os.uname().nodename if hasattr(os, "uname") else ""
# The address of this machine unless the executor sets another one. Finding it out might use the network.
_NODE_IP = "127.0.0.1"
LIMIT_BYTES = 64_000_000
"""The largest size of a pickled report; that of a message is higher."""
_PLAIN = frozenset({float, int, str, bool, type(None), bytes, complex})
_SIZED = frozenset({str, bytes, int})
# An upper bound for the size of any other plain value.
_PLAIN_BYTES = 16
# The largest number of nested levels. A deeper value probably contains itself, so that a walk over it never ends.
_NESTED_LIMIT = 2_000
_Path = tuple[Any, ...]
_Made = tuple[Report, Callable[[], object]]
HandOver = Callable[[Callable[[], _Made]], None]
"""Hands a report to the driver and blocks until the next one is asked for. Its argument makes the report and a commit
function, for when it counts.
"""
_of_process: Session | None = None


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
        if user_thread.has_process_to_itself() or is_on_loan():
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
        directory = absolute(temporary_directory(self.info.directory, number, self.info.attempt))  # as in a Checkpoint
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
        global _of_process
        previous = getattr(_of_thread, "session", None)
        is_of_process = user_thread.has_process_to_itself()
        previous_of_process = _of_process
        _of_thread.session = self
        # Threads of the user have no session of their own.
        if is_of_process:
            _of_process = self
        try:
            yield
        finally:
            _of_thread.session = previous
            if is_of_process:
                _of_process = previous_of_process


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
    if "checkpoint_dir_name" in legacy:
        del legacy["checkpoint_dir_name"]
        warn_once("report(checkpoint_dir_name=...) is ignored: checkpoints are numbered")
    # Of Ray Train: when it copies a checkpoint, and whether it then removes the user's directory. Here the copy is
    # complete when the report returns.
    mode = legacy.pop("checkpoint_upload_mode", None)
    removes = legacy.pop("delete_local_checkpoint_after_upload", None)
    if removes is None:
        removes = getattr(mode, "name", "") == "ASYNC"
    if legacy:
        if metrics is not None:
            raise TypeError(f"report() got unexpected keywords {sorted(legacy)}: put them into the dict of metrics")
        warn_once("report(loss=...) is deprecated: use report({'loss': ...})")
        metrics = legacy
    # For None, where metrics are needed, there is an error with a helpful text.
    _session_or_stand_in().report(metrics, checkpoint)  # type: ignore[arg-type]
    if removes and checkpoint is not None:
        discard_tree(checkpoint.path)


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


# -- automatic keys ----------------------------------------------------------------------------------------------------
class AutoFields:
    """Counts the iterations and the time of one trainable, and adds the automatic keys to its results.

    The user's own `timestamp`, `done`, `should_checkpoint`, `training_iteration`, `time_this_iter_s`, `timesteps_total`
    and `episodes_total` stay; all other automatic keys replace the user's values.

    Args:
        trial_id: For every result.
        config: The configuration of every result; None if the driver adds it.
        log_sys_usage: Whether to add the machine's CPU and memory use under `perf`.

    Attributes:
        iteration: The number of results so far, also before a restore.
        time_total_s: The training time so far in seconds, also before a restore.
    """

    def __init__(self, trial_id: str, config: dict[str, Any] | None, log_sys_usage: bool = False):
        self._trial_id = trial_id
        self._config = config
        self._usage = _MachineUsage() if log_sys_usage else None
        # Read once: each report has them.
        self._pid = os.getpid()
        self._node_ip = os.environ.get(NODE_IP_VARIABLE, _NODE_IP)
        self.timesteps_total: Any = None
        self.episodes_total: Any = None
        self.timesteps_since_restore: Any = 0
        self._date_of: tuple[int, str] = (-1, "")
        self.restore({})

    def restore(self, metrics: Mapping[str, Any]) -> None:
        """Continue the counts from a checkpoint's result; `{}` for a fresh start. A missing count is 0."""
        self.iteration = int(finite_number(metrics.get(TRAINING_ITERATION)) or 0)
        self.time_total_s = float(finite_number(metrics.get(TIME_TOTAL_S)) or 0.0)
        self.timesteps_total = finite_number(metrics.get(TIMESTEPS_TOTAL))
        self.episodes_total = finite_number(metrics.get(EPISODES_TOTAL))
        self.iterations_since_restore = 0
        self.time_since_restore_s = 0.0
        self.timesteps_since_restore = 0
        self.begin()

    def copy(self) -> AutoFields:
        """A copy with the same counts."""
        other = AutoFields.__new__(AutoFields)  # takes a fifth of the time of `copy.copy`
        other.__dict__.update(self.__dict__)
        return other

    def begin(self) -> None:
        """Start to measure the time of an iteration."""
        self._began_s = clock.current.monotonic()

    def fill(self, metrics: Mapping[str, Any], about_checkpoint: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Count one iteration, and return its result: the user's metrics, then the automatic keys. `about_checkpoint`
        has the keys about a function's checkpoint; None for a class.
        """
        now = clock.current
        time_s = now.time()
        result = dict(metrics)
        own_s = now.monotonic() - self._began_s
        spent_s = None
        if TIME_THIS_ITER_S in result:
            spent_s = finite_number(result[TIME_THIS_ITER_S])
        if spent_s is None:
            spent_s = own_s
        self.iteration += 1
        self.iterations_since_restore += 1
        self.time_total_s += spent_s
        self.time_since_restore_s += spent_s

        if about_checkpoint is not None:  # in a function's report the timestamp is the first automatic key
            result.setdefault(TIMESTAMP, int(time_s))
            result.update(about_checkpoint)
        result.setdefault(DONE, False)
        self._count(result)
        result.setdefault(TRAINING_ITERATION, self.iteration)
        result[TRIAL_ID] = self._trial_id
        result[DATE] = self._date(int(time_s))
        result.setdefault(TIMESTAMP, int(time_s))
        result.setdefault(TIME_THIS_ITER_S, own_s)
        result[TIME_TOTAL_S] = self.time_total_s
        result[PID] = self._pid
        result[HOSTNAME] = _HOSTNAME
        result[NODE_IP] = self._node_ip
        if self._config is None:
            result.pop(CONFIG, None)
        else:
            result[CONFIG] = self._config
        result[TIME_SINCE_RESTORE] = self.time_since_restore_s
        result[ITERATIONS_SINCE_RESTORE] = self.iterations_since_restore
        if self.timesteps_since_restore:
            result[TIMESTEPS_SINCE_RESTORE] = self.timesteps_since_restore
        if self._usage is not None:
            result[PERF] = self._usage.read()
        return result

    def _count(self, result: dict[str, Any]) -> None:
        """Add the user's increments to the totals, unless only a total is reported."""
        steps = None
        if TIMESTEPS_THIS_ITER in result:
            steps = finite_number(result[TIMESTEPS_THIS_ITER])
        episodes = None
        if EPISODES_THIS_ITER in result:
            episodes = finite_number(result[EPISODES_THIS_ITER])
        if steps is not None:
            self.timesteps_total = (self.timesteps_total or 0) + steps
            self.timesteps_since_restore += steps
        if episodes is not None:
            self.episodes_total = (self.episodes_total or 0) + episodes
        if self.timesteps_total is not None:
            result.setdefault(TIMESTEPS_TOTAL, self.timesteps_total)
        if self.episodes_total is not None:
            result.setdefault(EPISODES_TOTAL, self.episodes_total)

    def snapshot(
        self,
        now: datetime | None = None,
        time_this_iter_s: float | None = None,
        timestamp: int | None = None,
        debug_metrics_only: bool = False,
    ) -> dict[str, Any]:
        """The present automatic keys, without counting an iteration."""
        time_s = clock.current.time() if now is None else now.timestamp()
        fields: dict[str, Any] = {
            TIMESTAMP: int(time_s) if timestamp is None else timestamp,
            TRIAL_ID: self._trial_id,
            DATE: self._date(int(time_s)),
            TIME_THIS_ITER_S: time_this_iter_s,
            TIME_TOTAL_S: self.time_total_s,
            PID: self._pid,
            HOSTNAME: _HOSTNAME,
            NODE_IP: self._node_ip,
            CONFIG: self._config,
            TIME_SINCE_RESTORE: self.time_since_restore_s,
            ITERATIONS_SINCE_RESTORE: self.iterations_since_restore,
        }
        if self.timesteps_since_restore:
            fields[TIMESTEPS_SINCE_RESTORE] = self.timesteps_since_restore
        return {key: value for key, value in fields.items() if not debug_metrics_only or key in DEBUG_METRICS}

    def _date(self, time_s: int) -> str:
        if self._date_of[0] != time_s:
            self._date_of = (time_s, time.strftime("%Y-%m-%d_%H-%M-%S", time.localtime(time_s)))
        return self._date_of[1]


class _MachineUsage:
    """CPU and memory use of the machine in percent. Does not block."""

    def __init__(self) -> None:
        import psutil

        self._psutil = psutil
        psutil.cpu_percent(interval=None)  # the first call only starts the measurement

    def read(self) -> dict[str, float]:
        return {
            "cpu_util_percent": self._psutil.cpu_percent(interval=None),
            "ram_util_percent": self._psutil.virtual_memory().percent,
        }


# -- whether metrics can be sent ---------------------------------------------------------------------------------------
def checked_metrics(metrics: dict[Any, Any]) -> dict[str, Any]:
    """Metrics with plain keys, after a check that they can be sent to the driver. Fast for plain numbers and texts.

    Raises:
        TypeError: If a key has no text, or a value cannot be pickled and loaded again, with key, type and reason.
        ValueError: If a value is a torch tensor, or all values together are larger than `LIMIT_BYTES`.
    """
    metrics = with_plain_keys(metrics)
    sizes: dict[Any, int] = {}
    for key, value in metrics.items():
        if type(value) not in _PLAIN:
            sizes[key] = _check_nested(key, value)
        elif type(value) in _SIZED:
            sizes[key] = _plain_bytes(value)
    if sum(sizes.values()) > LIMIT_BYTES:
        _check_size(metrics, sizes)
    return metrics


def _plain_bytes(value: Any) -> int:
    """About the largest size of a plain value in bytes."""
    kind = type(value)
    if kind not in _SIZED:
        return _PLAIN_BYTES
    if kind is int:
        size_bytes: int = value.bit_length() // 8
        return size_bytes
    if kind is str and not value.isascii():
        return 4 * len(value)
    return len(value)


def _check_size(metrics: dict[Any, Any], sizes: dict[Any, int]) -> None:
    """Measure metrics that may be too large, without a whole pickle in memory; raise if they are."""
    counter = ByteCounter()
    try:
        pickle.Pickler(counter, PROTOCOL).dump(metrics)
        size_bytes = counter.size_bytes
    except RecursionError:
        size_bytes = sum(sizes.values())
    if size_bytes > LIMIT_BYTES:
        largest = max(sizes, key=lambda key: sizes[key])
        raise ValueError(
            f"one report may hold at most {LIMIT_BYTES // 10**6} MB, but this one holds {size_bytes / 10**6:.1f} MB, "
            f"most of it in metric {largest!r:.80}: write large data to a file and report it as a checkpoint, "
            "Checkpoint.from_directory(path)"
        )


def _check_nested(key: Any, value: Any) -> int:
    """Check a value and its members, without recursion, which Python limits. Raises like `checked_metrics`."""
    size_bytes = 0
    waiting: list[tuple[_Path, Any]] = [((key,), value)]
    while waiting:
        path, current = waiting.pop()
        kind = type(current)
        if kind in _PLAIN:
            size_bytes += _plain_bytes(current)
            continue
        if kind not in (dict, list, tuple):
            size_bytes += _check_leaf(path, current)
            continue
        if len(path) > _NESTED_LIMIT:
            raise TypeError(
                f"metric {key!r} is nested more than {_NESTED_LIMIT} levels deep, or contains itself; "
                "report flat values"
            )
        if kind is dict:
            for inner_key, part in current.items():
                waiting.append(((*path, inner_key), part))
                if type(inner_key) not in _PLAIN:
                    waiting.append(((*path, inner_key), inner_key))
        elif (kinds := set(map(type, current))) <= _PLAIN:
            size_bytes += sum(map(_plain_bytes, current)) if kinds & _SIZED else len(current) * _PLAIN_BYTES
        else:
            waiting.extend(((*path, position), part) for position, part in enumerate(current))
    return size_bytes


def _check_leaf(path: _Path, value: Any) -> int:
    kind = type(value)
    if kind.__module__ == "numpy" and getattr(value, "shape", None) == () and value.dtype.kind in "biufc":
        return _PLAIN_BYTES  # a numpy scalar can always be pickled
    torch = sys.modules.get("torch")
    tensor = getattr(torch, "Tensor", None)
    if isinstance(tensor, type) and isinstance(value, tensor):
        raise ValueError(
            f"metric {_show(path)} is a torch tensor; report a number instead, such as tensor.item(): "
            "a tensor would need torch and its device wherever the result is read"
        )
    verb = "pickled"
    try:
        data = pickle.dumps(value, PROTOCOL)
        verb = "loaded again"
        pickle.loads(data)
    except Exception as error:
        raise TypeError(
            f"metric {_show(path)} of type {kind.__module__}.{kind.__qualname__} cannot be reported: "
            f"it cannot be {verb} ({type(error).__name__}: {error}); report numbers, text, or containers of these"
        ) from None
    return len(data)


def _show(path: _Path) -> str:
    return "".join([shown(path[0]), *(f"[{shown(part)}]" for part in path[1:])])
