"""The automatic result keys: filled in the worker, by one class for functions and classes alike."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping
from datetime import datetime
from functools import lru_cache
from numbers import Real
from typing import Any

from minitune import clock
from minitune.result import (
    CONFIG,
    DATE,
    DEBUG_METRICS,
    DONE,
    EPISODES_THIS_ITER,
    EPISODES_TOTAL,
    HOSTNAME,
    ITERATIONS_SINCE_RESTORE,
    NODE_IP,
    PID,
    TIME_SINCE_RESTORE,
    TIME_THIS_ITER_S,
    TIME_TOTAL_S,
    TIMESTAMP,
    TIMESTEPS_SINCE_RESTORE,
    TIMESTEPS_THIS_ITER,
    TIMESTEPS_TOTAL,
    TRAINING_ITERATION,
    TRIAL_ID,
)

PERF = "perf"
LOG_SYS_USAGE = "log_sys_usage"
"""Key of a configuration that asks for `perf/*`."""

_LARGEST = sys.float_info.max
"""Infinities, NaN and larger ints are no counts: adding them up, or going on from them, would fail."""
_NODE_IP = "127.0.0.1"
"""A look-up of the real address may ask the network, and on one machine says nothing."""


class AutoFields:
    """Counts iterations and time of one trainable and completes its results.

    The user's own `timestamp`, `done`, `should_checkpoint`, `training_iteration`, `time_this_iter_s`,
    `timesteps_total` and `episodes_total` win; the other automatic keys replace what the user reported under them.

    Args:
        trial_id: Goes into every result.
        config: Goes into every result, by reference; None where the driver puts it in, so that it does not cross the
            pipe with every report.
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
        self.timesteps_total: Any = None
        self.episodes_total: Any = None
        self.timesteps_since_restore: Any = 0
        self._date_of: tuple[int, str] = (-1, "")
        self.restore({})

    def restore(self, metrics: Mapping[str, Any]) -> None:
        """Go on from the result that a checkpoint belongs to; `{}` starts from nothing.

        Args:
            metrics: That result. What is missing in it counts as 0.
        """
        self.iteration = int(_number(metrics.get(TRAINING_ITERATION), 0))
        self.time_total_s = float(_number(metrics.get(TIME_TOTAL_S), 0.0))
        self.timesteps_total = _number(metrics.get(TIMESTEPS_TOTAL), None)
        self.episodes_total = _number(metrics.get(EPISODES_TOTAL), None)
        self.iterations_since_restore = 0
        self.time_since_restore_s = 0.0
        self.timesteps_since_restore = 0
        self.begin()

    def begin(self) -> None:
        """The user's code goes on now: time before this moment was spent waiting and does not count."""
        self._began_s = clock.current().monotonic()

    def fill(self, metrics: Mapping[str, Any], about_checkpoint: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Count one iteration and complete its result.

        Args:
            metrics: The user's; left as they are.
            about_checkpoint: What is to be said about the checkpoint that came with them; stands after the timestamp.

        Returns:
            A new dict: the user's metrics followed by the automatic keys.
        """
        now = clock.current()
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
        result[NODE_IP] = _NODE_IP
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
        time_s = clock.current().time() if now is None else now.timestamp()
        fields: dict[str, Any] = {
            TIMESTAMP: int(time_s) if timestamp is None else timestamp,
            TRIAL_ID: self._trial_id,
            DATE: self._date(int(time_s)),
            TIME_THIS_ITER_S: time_this_iter_s,
            TIME_TOTAL_S: self.time_total_s,
            PID: self._pid,
            HOSTNAME: self._hostname,
            NODE_IP: _NODE_IP,
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
    """Name of this machine, from the kernel: no name service is asked."""
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
