"""PastRun: the learning curves of a run of one's own, from its journal."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from minitune._checks import is_real
from minitune._paths import local_path
from minitune.error import TuneError
from minitune.execution import journal, records
from minitune.execution.hooks import STOP_CRITERION, TRAINABLE_ENDED
from minitune.execution.storage import RunDirectory
from minitune.experiment.lifecycle import ERROR, RUNNING, TERMINATED
from minitune.experiment.trial import HAS_RETURNED
from minitune.result import AUTO_RESULT_KEYS, TIME_THIS_ITER_S, TRAINING_ITERATION

_OF_THE_RUN = frozenset(AUTO_RESULT_KEYS) - {TRAINING_ITERATION, "timesteps_total", "episodes_total"}
"""What belongs to the run rather than to the curve."""

Curve = list[tuple[dict[str, Any], float]]
"""(metrics, seconds) for each result."""


@dataclass
class PastRun:
    """What a run has measured. `simulate` takes one in place of a curve.

    Attributes:
        path: The run's directory.
        curves: By trial id, in order of submission, (metrics, seconds) for each result. A result after which the trial
            was set back is left out, and so is everything after an exploit.
        configs: By trial id, the configurations.
        cut: Ids of the trials of which more could be known: they were stopped, paused, interrupted or have failed
            before their own end, which is that of the trainable, of a stop criterion, or of the longest curve.
        metric: The run's metric, or None.
        mode: Its mode, or None.
        took_s: How long its drivers were at work, in seconds, all of them together.
        num_workers: How many of its trials ran at a time, at most.
    """

    path: str
    curves: dict[str, Curve] = field(default_factory=dict)
    configs: dict[str, dict[str, Any]] = field(default_factory=dict)
    cut: frozenset[str] = frozenset()
    metric: str | None = None
    mode: str | None = None
    took_s: float = 0.0
    num_workers: int = 1

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> PastRun:
        """Read a run; it may be live. Blocks while its journal is read; nothing is unpickled.

        Args:
            path: The run's directory.

        Raises:
            FileNotFoundError: If there is no run.
            TuneError: If it has no results, or its journal cannot be read.
        """
        directory = local_path(path)
        run = RunDirectory(directory)
        file = run.journal
        if not os.path.isfile(file):
            raise FileNotFoundError(f"{directory} holds no run: there is no journal in it; pass <storage_path>/<name>")
        reader = _Reader(cls(directory))
        reader.read(journal.read(file))
        if not reader.run.configs and run.has_trials():
            raise run.lost_journal()
        if not any(reader.run.curves.values()):
            raise TuneError(f"the run in {directory} has no results yet")
        return reader.run

    @property
    def num_results(self) -> int:
        """Results of all curves together."""
        return sum(map(len, self.curves.values()))

    @property
    def training_s(self) -> float:
        """Seconds of training of all curves together."""
        return sum(seconds for curve in self.curves.values() for _, seconds in curve)


class _Reader:
    """Applies records.

    Args:
        run: Filled.
    """

    def __init__(self, run: PastRun):
        self.run = run
        self._ended: set[str] = set()
        self._exploited: set[str] = set()
        self._running: set[str] = set()
        self._opened_s = self._noted_s = 0.0

    def read(self, journal_records: Iterable[records.Record]) -> None:
        """Apply all of them."""
        for record in journal_records:
            self._apply_to_driver(record)
            self._apply(record)
        self.run.took_s += max(0.0, self._noted_s - self._opened_s)  # of a driver that was killed, or is at work
        for trial_id in [trial_id for trial_id, curve in self.run.curves.items() if not curve]:
            del self.run.curves[trial_id]
        longest = max(map(len, self.run.curves.values()), default=0)
        self.run.cut = frozenset(
            trial_id
            for trial_id, curve in self.run.curves.items()
            if trial_id in self._exploited or (trial_id not in self._ended and len(curve) < longest)
        )

    def _apply_to_driver(self, record: records.Record) -> None:
        """How long drivers have worked, and on how many trials at a time."""
        kind, at_s = record[records.KIND], record.get("at", self._noted_s)
        if kind == records.RUN:
            self._opened_s = at_s
        elif kind == records.OPEN:
            self.run.took_s += max(0.0, self._noted_s - self._opened_s)
            self._opened_s = at_s
            self._running.clear()
        elif kind == records.CLOSE:
            self.run.took_s += record.get("took_s", max(0.0, at_s - self._opened_s))
            self._opened_s = at_s
        elif kind == records.STATUS and record["status"] == RUNNING:
            self._running.add(record["trial"])
            self.run.num_workers = max(self.run.num_workers, len(self._running))
        elif kind == records.STATUS:
            self._running.discard(record["trial"])
        self._noted_s = at_s

    def _apply(self, record: records.Record) -> None:
        kind, trial_id = record[records.KIND], record.get("trial", "")
        if kind == records.RUN:
            self.run.metric, self.run.mode = record["metric"], record["mode"]
        elif kind == records.TRIAL:
            self.run.curves.pop(record.get("replaces", ""), None)
            self.run.curves[trial_id], self.run.configs[trial_id] = [], record["config"]
        elif trial_id in self._exploited:
            return
        elif kind == records.RESULT:
            self._on_result(trial_id, record)
        elif kind == records.ROLLBACK:
            del self.run.curves[trial_id][record["number"] :]
            self._ended.discard(trial_id)
        elif kind == records.EXPLOIT:
            self._exploited.add(trial_id)
        elif kind == records.STATUS and record["status"] == TERMINATED and record["cause"] == HAS_RETURNED:
            self._ended.add(trial_id)
        elif kind == records.STATUS and record["status"] == ERROR:
            self._ended.discard(trial_id)

    def _on_result(self, trial_id: str, record: records.Record) -> None:
        metrics = record["metrics"]
        seconds = metrics.get(TIME_THIS_ITER_S)
        kept = {key: value for key, value in metrics.items() if key not in _OF_THE_RUN}
        self.run.curves[trial_id].append((kept, float(seconds) if is_real(seconds) and seconds >= 0 else 0.0))
        if record["decision"] == "STOP" and record["reason"].startswith((STOP_CRITERION, TRAINABLE_ENDED)):
            self._ended.add(trial_id)
