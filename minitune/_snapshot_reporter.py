"""Snapshots: the state of a run in this process as a value, for those who show it."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

from minitune import _table as table
from minitune import clock
from minitune._live import ErrorKind, Row, Snapshot, seconds_left
from minitune._reporter_base import TuneReporterBase
from minitune._table_errors import kind_of_error, last_line
from minitune.experiment.best import best_trial
from minitune.experiment.lifecycle import ERROR, PAUSED, PENDING, RUNNING, TERMINATED
from minitune.experiment.trial import Trial
from minitune.result import TIME_TOTAL_S, TRAINING_ITERATION

_MAX_ROWS = 100


class SnapshotReporter(TuneReporterBase):
    """A reporter that can take a `Snapshot` of the run. Its arguments are those of `TuneReporterBase`."""

    time_budget_s: float | None = None
    """Seconds after which the run ends anyway; None: there is no such limit."""

    def __init__(self, **arguments: Any):
        super().__init__(**arguments)
        self._forget()

    def _forget(self) -> None:
        self._ended_before: int | None = None  # trials that had ended when the run began: those of its earlier parts
        self._kinds: dict[str, Hashable] = {}
        self._ranked_by: str | None = None
        self._ranked: set[str] = set()
        self._best_ended: list[Trial] = []

    def setup(
        self,
        start_time: float | None = None,
        total_samples: int | None = None,
        metric: str | None = None,
        mode: str | None = None,
        **kwargs: Any,
    ) -> None:
        """See `ProgressReporter.setup`."""
        super().setup(start_time, total_samples, metric, mode, **kwargs)
        self._forget()

    def _note_beginning(self, trials: Sequence[Trial]) -> None:
        if self._ended_before is None:
            self._ended_before = sum(trial.is_finished() for trial in trials)

    def trial_started(self, trial: Trial) -> None:
        """See `ProgressReporter.trial_started`."""
        self._kinds.pop(trial.trial_id, None)  # what an earlier attempt has ended with
        super().trial_started(trial)

    def _snapshot(self, trials: Sequence[Trial], sys_info: Sequence[str]) -> Snapshot:
        statuses = table.by_status(trials)
        columns = self._shown_metrics(trials)
        metric = self._metric_of(columns)
        best = self._best_so_far(statuses, metric)
        names = [name for name in columns if name not in (TRAINING_ITERATION, TIME_TOTAL_S, metric)]
        names = ([metric] if metric else []) + names
        elapsed_s = self._elapsed_s()
        total, before, note = self._total(), self._ended_before or 0, rest_of(sys_info, table.ENDING)
        to_end = None if total is None or note else total - before
        ended = len(statuses[TERMINATED]) + len(statuses[ERROR]) - before
        return Snapshot(
            title=os.path.basename(rest_of(sys_info, table.LOGDIR)),
            elapsed_s=elapsed_s,
            counts={status: len(found) for status, found in statuses.items()},
            total=total,
            per_s=ended / elapsed_s if elapsed_s > 0 else None,
            left_s=self._left_s(elapsed_s, ended, to_end, statuses[RUNNING]),
            best=None if best is None or metric is None else self._row(best, [metric]),
            running=[self._row(trial, names) for trial in statuses[RUNNING][:_MAX_ROWS]],
            errors=self._error_kinds(statuses[ERROR]),
            resources=_resources(sys_info),
            note=note,
        )

    def _best_so_far(self, statuses: Mapping[str, Sequence[Trial]], metric: str | None) -> Trial | None:
        """The best trial; of those that have ended, each is looked at once."""
        if metric is None or self._mode is None:
            return None
        if metric != self._ranked_by:
            self._ranked_by, self._ranked, self._best_ended = metric, set(), []
        ended = (*statuses[TERMINATED], *statuses[ERROR])
        new = [trial for trial in ended if trial.trial_id not in self._ranked]
        self._ranked.update(trial.trial_id for trial in new)
        best = best_trial([*self._best_ended, *new], metric, self._mode)
        self._best_ended = [] if best is None else [best]
        going_on = [trial for status in (RUNNING, PAUSED, PENDING) for trial in statuses[status] if trial.last_result]
        return best_trial([*self._best_ended, *going_on], metric, self._mode)

    def _total(self) -> int | None:
        """How many trials there will be, or None: without end, or not known."""
        total = self._total_samples
        return None if not total or total < 0 or total >= sys.maxsize else int(total)

    def _row(self, trial: Trial, metrics: Sequence[str]) -> Row:
        result, time_s = trial.last_result, trial.last_result.get(TIME_TOTAL_S)
        if time_s is None and trial.start_time is not None:
            time_s = clock.current().time() - trial.start_time
        values = {name: table.look_up(result, name) for name in metrics}
        return Row(
            trial.name,
            {name: table.parameter_of(trial, name) for name in self._parameter_columns or trial.evaluated_params},
            {name: value for name, value in values.items() if value is not None},
            result.get(TRAINING_ITERATION),
            time_s,
        )

    def _left_s(self, elapsed_s: float, ended: int, total: int | None, running: Sequence[Trial]) -> float | None:
        left_s = seconds_left(elapsed_s, ended, total, [_part_done(trial) for trial in running])
        if self.time_budget_s is None:
            return left_s
        budget_s = max(0.0, self.time_budget_s - elapsed_s)
        return budget_s if left_s is None else min(left_s, budget_s)

    def _error_kinds(self, failed: Sequence[Trial]) -> list[ErrorKind]:
        counts: Counter[Hashable] = Counter()
        examples: dict[Hashable, Trial] = {}
        for trial in failed:
            kind = self._kind_of_error(trial)
            counts[kind] += 1
            examples[kind] = trial
        return [
            ErrorKind(last_line(examples[kind]), count, examples[kind].error_file)
            for kind, count in counts.most_common()
        ]

    def _kind_of_error(self, trial: Trial) -> Hashable:
        """What makes a trial's error the same as another one's; found out once."""
        if trial.trial_id not in self._kinds:
            self._kinds[trial.trial_id] = kind_of_error(trial)
        return self._kinds[trial.trial_id]


def rest_of(sys_info: Sequence[str], beginning: str) -> str:
    """The rest of the line that begins with `beginning`, or nothing."""
    return next((line.removeprefix(beginning) for line in sys_info if line.startswith(beginning)), "")


def _resources(sys_info: Sequence[str]) -> list[str]:
    """What is used of what there is; nothing of what is not there."""
    found = [text for text in rest_of(sys_info, table.RESOURCES).split(", ") if not text.startswith(("0/0 ", "0.0/"))]
    memory = rest_of(sys_info, table.MEMORY)
    return [text for text in (*found, memory and f"memory {memory}") if text]


def _part_done(trial: Trial) -> float | None:
    """Which part of its way a running trial has behind it, if its limits tell."""
    parts = [
        (table.number_of(trial.last_result.get(name)) or 0.0) / limit
        for name in (TRAINING_ITERATION, TIME_TOTAL_S)
        if (limit := trial.stopping_criterion.get(name))
    ]
    return max(parts, default=None)
