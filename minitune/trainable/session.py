"""Session: the trial that the calling code belongs to, and its way to the driver: `report` and `get_checkpoint`.

A report is completed here with the automatic result keys, for functions and classes alike, and checked here, so that a
metric that cannot travel raises an error in the user's frame. A session belongs to a thread; where the trial has the
process to itself, threads that it starts share it. A forked child has none: the way to the driver is its parent's.
"""

from __future__ import annotations

import os
import pickle
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from functools import lru_cache
from numbers import Real
from typing import Any

from minitune import clock
from minitune.base.pickling import PROTOCOL
from minitune.base.randomness import is_on_loan, seed_process
from minitune.base.text import warn_once
from minitune.checkpoint import (
    Checkpoint,
    CheckpointRecord,
    commit_copy,
    commit_prepared,
    discard_temporary,
    temporary_directory,
)
from minitune.experiment.trial import TrialInfo
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
)

PERF = "perf"
LOG_SYS_USAGE = "log_sys_usage"
"""Key of a configuration that asks for `perf/*`."""
_LARGEST = sys.float_info.max
"""Infinities, NaN and larger ints do not count: a sum of them would fail."""
_NODE_IP = "127.0.0.1"
"""Of this machine, unless the executor names another one: finding it out might use the network."""
LIMIT_BYTES = 64_000_000
"""How much one report may hold, pickled. A message to the driver may hold more, since it holds more than the report."""
_PLAIN = frozenset({float, int, str, bool, type(None), bytes, complex})
_SIZED = frozenset({str, bytes, int})
_PLAIN_BYTES = 16
"""The size of any other plain value, at most."""
_NESTED_LIMIT = 2_000
"""Levels of nesting. A value that goes deeper contains itself, and a walk over it would never end."""
_Path = tuple[Any, ...]
_Made = tuple[Report, Callable[[], object]]
HandOver = Callable[[Callable[[], _Made]], None]
"""Gives a report to the driver and blocks until the driver asks for the next one. It calls what makes the report, and,
when the report counts, what came with it: that any number of times."""
_of_process: Session | None = None


class Session:
    """The things that user code in a trial can reach: its trial, where it starts from, and the way to the driver.

    Args:
        info: The trial.
        allocation: The resources that it has.
        fields: Completes its results.

    Attributes:
        hand_over: Set by what runs a function; None in a class trainable, which returns its results instead.
        check_stopping: Set likewise: raises `TrialStopped` if the trial is to stop.
        checkpoint: The checkpoint to go on from: the restored one, later the last one reported.
        last_record: The last checkpoint that was reported in this attempt, or None.
        at_end: Called on the function's thread when it has ended, with whether it has failed; in a function only.
    """

    def __init__(self, info: TrialInfo, allocation: Allocation, fields: AutoFields):
        self.info = info
        self.allocation = allocation
        self.fields = fields
        self.hand_over: HandOver | None = None
        self.check_stopping: Callable[[], None] | None = None
        self.checkpoint: Checkpoint | None = None
        self.last_record: CheckpointRecord | None = None
        self._unreported: CheckpointRecord | None = None
        self.at_end: list[Callable[[bool], None]] = []
        self._next_checkpoint = info.next_checkpoint

    def seed_generators(self, iteration: int) -> None:
        """Seed the process's global random generators from the trial's seed, if they are the trial's.

        They are the trial's if the process's main thread was lent to it, or the generators are on loan; otherwise this
        does nothing. Called on the thread that user code runs on.

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

    @contextmanager
    def making_checkpoint(self) -> Iterator[str]:
        """A directory to fill; it is a checkpoint once the block has ended. It goes with the next report.

        Raises:
            TrialStopped: If the trial is to stop.
            ValueError: If the directory holds something else than files, directories and links.
        """
        if self.check_stopping is not None:
            self.check_stopping()
        self.hand_over_made()
        number = self.take_checkpoint_number()
        directory = temporary_directory(self.info.directory, number, self.info.attempt)
        try:
            yield directory
            record = commit_prepared(directory, self.info.directory, number)
            self._has_saved(record)
            self._unreported = record
        except BaseException:
            discard_temporary(directory, self.info.directory)
            raise

    def hand_over_made(self) -> None:
        """Hand over a checkpoint that has no report. Blocks like a report."""
        record = self._unreported
        if record is not None and self.hand_over is not None:
            self.hand_over(lambda: (Report(None, record), lambda: setattr(self, "_unreported", None)))

    def _has_saved(self, record: CheckpointRecord) -> None:
        self.checkpoint = Checkpoint(os.path.join(self.info.directory, record.directory))
        self.last_record = record

    def report(self, metrics: dict[str, Any], checkpoint: Checkpoint | None = None) -> None:
        """Hand over one result; see `report`.

        Args:
            metrics: See `report`.
            checkpoint: Likewise.

        Raises:
            TypeError: If an argument has the wrong type or a metric cannot be pickled.
            ValueError: If a metric is a torch tensor.
            FileNotFoundError: If the checkpoint's directory does not exist.
            RuntimeError: If a signal handler calls this that has interrupted a call of it.
            TrialStopped: If the trial is to stop.
        """
        _check_arguments(metrics, checkpoint)
        if self.hand_over is None:
            warn_once("report() does nothing in a class trainable: return the metrics from step() instead")
            return
        if checkpoint is not None:
            self.hand_over_made()
        self.hand_over(lambda: self._make_report(metrics, checkpoint, has_returned=False))
        self.fields.begin()

    def complete(self, metrics: dict[str, Any]) -> _Made:
        """Make the report of what a function has returned.

        Args:
            metrics: See `report`.

        Returns:
            The report, and what is to be called when it counts.

        Raises:
            TypeError, ValueError: As `report`.
        """
        _check_arguments(metrics, None)
        return self._make_report(metrics, None, has_returned=True)

    def _make_report(self, metrics: dict[str, Any], checkpoint: Checkpoint | None, has_returned: bool) -> _Made:
        record = self._unreported
        if checkpoint is not None:
            number = self.take_checkpoint_number()
            record = commit_copy(checkpoint.path, self.info.directory, number, self.info.attempt)
        about: dict[str, Any] = {CHECKPOINT_DIR_NAME: None}
        if record is not None:
            about = {CHECKPOINT_DIR_NAME: record.directory, SHOULD_CHECKPOINT: True}
        fields = self.fields.copy()
        result = fields.fill(metrics, about)

        def commit() -> None:
            self.fields.__dict__ = fields.__dict__  # in one step, which can be repeated
            self._unreported = None
            if record is not None:
                self._has_saved(record)

        return Report(result, record, bool(result[DONE]), has_returned), commit

    @contextmanager
    def bound(self) -> Iterator[None]:
        """Make this the session of the calling thread inside a `with` block.

        On a process's main thread it also becomes the session of threads that have none of their own: then the trial
        has the process to itself (its main thread was lent to it), and a thread that reports can only be the trial's.
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


def current_session() -> Session | None:
    """The session of the calling thread, or of its process; None outside of trials."""
    return _of_thread.session or _of_process


def _forget_sessions() -> None:
    """There is no session in a process that a trial has forked: the way to the driver belongs to its parent."""
    global _of_process
    _of_thread.session = _of_process = None


if sys.platform != "win32":
    os.register_at_fork(after_in_child=_forget_sessions)


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
        warn_once("report(loss=...) is deprecated: use report({'loss': ...})")
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


# -- automatic keys ----------------------------------------------------------------------------------------------------
class AutoFields:
    """Counts iterations and time of one trainable and completes its results.

    The user's own `timestamp`, `done`, `should_checkpoint`, `training_iteration`, `time_this_iter_s`,
    `timesteps_total` and `episodes_total` win; the other automatic keys replace what the user reported under them.

    Args:
        trial_id: Goes into every result.
        config: Goes into every result, by reference; None where the driver completes the results, see
            `Trial.complete`: so the configuration does not cross the pipe with every report.
        log_sys_usage: Whether to add the machine's CPU and memory use under `perf`.

    Attributes:
        iteration: Results completed so far, those before a restore included.
        time_total_s: Seconds of training so far, those before a restore included.
    """

    def __init__(self, trial_id: str, config: dict[str, Any] | None, log_sys_usage: bool = False):
        self._trial_id = trial_id
        self._config = config
        self._usage = _MachineUsage() if log_sys_usage else None
        self._pid = os.getpid()
        self._hostname = hostname()
        self._node_ip = os.environ.get(NODE_IP_VARIABLE, _NODE_IP)
        self.timesteps_total: Any = None
        self.episodes_total: Any = None
        self.timesteps_since_restore: Any = 0
        self._date_of: tuple[int, str] = (-1, "")
        self.restore({})

    def restore(self, metrics: Mapping[str, Any]) -> None:
        """Go on from the result that a checkpoint belongs to; `{}` starts from nothing.

        Args:
            metrics: That result. A value that is missing in it counts as 0.
        """
        self.iteration = int(_number(metrics.get(TRAINING_ITERATION), 0))
        self.time_total_s = float(_number(metrics.get(TIME_TOTAL_S), 0.0))
        self.timesteps_total = _number(metrics.get(TIMESTEPS_TOTAL), None)
        self.episodes_total = _number(metrics.get(EPISODES_TOTAL), None)
        self.iterations_since_restore = 0
        self.time_since_restore_s = 0.0
        self.timesteps_since_restore = 0
        self.begin()

    def copy(self) -> AutoFields:
        """Another one that has counted the same."""
        other = AutoFields.__new__(AutoFields)  # a fifth of the time of `copy.copy`
        other.__dict__.update(self.__dict__)
        return other

    def begin(self) -> None:
        """The user's code goes on now: the time before was spent waiting and does not count."""
        self._began_s = clock.current.monotonic()

    def fill(self, metrics: Mapping[str, Any], about_checkpoint: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Count one iteration and complete its result.

        Args:
            metrics: The user's; left as they are.
            about_checkpoint: The keys about the checkpoint that came with them; they stand after the timestamp.

        Returns:
            A new dict: the user's metrics followed by the automatic keys.
        """
        now = clock.current
        time_s = now.time()
        result = dict(metrics)
        own_s = now.monotonic() - self._began_s
        spent_s = _number(result.get(TIME_THIS_ITER_S), own_s)
        self.iteration += 1
        self.iterations_since_restore += 1
        self.time_total_s += spent_s
        self.time_since_restore_s += spent_s

        if about_checkpoint is not None:  # a function's report, which says when it was made before all else
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
        result[HOSTNAME] = self._hostname
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
        """Sum up the increments that the user reports. A total of the user's own wins in the result, not in the sum."""
        steps = _number(result.get(TIMESTEPS_THIS_ITER), None)
        episodes = _number(result.get(EPISODES_THIS_ITER), None)
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
        """The automatic keys as they stand, without counting an iteration.

        Args:
            now: The time to write; by default the current one.
            time_this_iter_s: Seconds of the current iteration, or None.
            timestamp: Seconds since the epoch; by default that of `now`.
            debug_metrics_only: Only the keys of `DEBUG_METRICS`.
        """
        time_s = clock.current.time() if now is None else now.timestamp()
        fields: dict[str, Any] = {
            TIMESTAMP: int(time_s) if timestamp is None else timestamp,
            TRIAL_ID: self._trial_id,
            DATE: self._date(int(time_s)),
            TIME_THIS_ITER_S: time_this_iter_s,
            TIME_TOTAL_S: self.time_total_s,
            PID: self._pid,
            HOSTNAME: self._hostname,
            NODE_IP: self._node_ip,
            CONFIG: self._config,
            TIME_SINCE_RESTORE: self.time_since_restore_s,
            ITERATIONS_SINCE_RESTORE: self.iterations_since_restore,
        }
        if self.timesteps_since_restore:
            fields[TIMESTEPS_SINCE_RESTORE] = self.timesteps_since_restore
        return {key: value for key, value in fields.items() if not debug_metrics_only or key in DEBUG_METRICS}

    def _date(self, time_s: int) -> str:
        """Local date of a whole second; formatting it costs more than all the rest, hence once per second."""
        if self._date_of[0] != time_s:
            self._date_of = (time_s, time.strftime("%Y-%m-%d_%H-%M-%S", time.localtime(time_s)))
        return self._date_of[1]


class _MachineUsage:
    """CPU and memory use of the whole machine in percent, as psutil tells it without waiting."""

    def __init__(self) -> None:
        import psutil

        self._psutil = psutil
        psutil.cpu_percent(interval=None)  # the first reading only sets the point to measure from

    def read(self) -> dict[str, float]:
        return {
            "cpu_util_percent": self._psutil.cpu_percent(interval=None),
            "ram_util_percent": self._psutil.virtual_memory().percent,
        }


@lru_cache(maxsize=1)
def hostname() -> str:
    """Return the name of this machine from the kernel, without a name service."""
    if sys.platform == "win32":
        return os.environ.get("COMPUTERNAME", "localhost")
    return os.uname().nodename


def _number(value: Any, default: Any) -> Any:
    """`value` if it is a number that can be counted with, else `default`."""
    if value is None or value is True or value is False:
        return default
    # the abstract class also knows the scalars of numpy, but is slower than the two plain types
    if not isinstance(value, (float, int, Real)):
        return default
    number: Any = value  # the abstract class does not promise that it compares with a float
    return value if abs(number) <= _LARGEST else default


# -- whether metrics can travel ----------------------------------------------------------------------------------------
def check_metrics(metrics: dict[Any, Any]) -> None:
    """Refuse metrics that could not reach the driver. Plain numbers and text cost next to nothing.

    Args:
        metrics: The metrics that the user reports.

    Raises:
        TypeError: If a value, at whatever depth, cannot be pickled and loaded again; the text names key, type and
            reason.
        ValueError: If a value is a torch tensor, or all of them together are larger than `LIMIT_BYTES`.
    """
    sizes: dict[Any, int] = {}
    for key, value in metrics.items():
        if type(value) not in _PLAIN or type(key) not in _PLAIN:
            sizes[key] = _check_nested(key, value)
        elif type(value) in _SIZED:
            sizes[key] = _plain_bytes(value)
    if sum(sizes.values()) > LIMIT_BYTES:
        _check_size(metrics, sizes)


def _plain_bytes(value: Any) -> int:
    """How much a plain value takes at most, about; a text may be longer in UTF-8 than in characters."""
    kind = type(value)
    if kind not in _SIZED:
        return _PLAIN_BYTES
    return value.bit_length() // 8 if kind is int else len(value) * (4 if kind is str and not value.isascii() else 1)


class _Counter:
    """A file that keeps the size of what is written to it, and nothing else."""

    def __init__(self) -> None:
        self.size_bytes = 0

    def write(self, data: Any) -> int:
        self.size_bytes += memoryview(data).nbytes
        return memoryview(data).nbytes


def _check_size(metrics: dict[Any, Any], sizes: dict[Any, int]) -> None:
    """Count exactly if the metrics seem too large, without memory for a whole pickle, and refuse them if they are."""
    counter = _Counter()
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
    """Walk over plain containers without recursion, which has a limit, and name a leaf that cannot travel.

    Returns:
        How much it takes, about.
    """
    size_bytes = 0
    waiting: list[tuple[_Path, Any]] = [((key,), value)]
    if type(key) not in _PLAIN:
        waiting.append(((key,), key))
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
        return _PLAIN_BYTES  # a numpy scalar: nothing in it could fail
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
    return f"{path[0]!r:.80}" + "".join(f"[{part!r:.80}]" for part in path[1:])
