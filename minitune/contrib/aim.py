"""Aim: one run for each trial, written by the driver.

Aim chooses the ids of its runs, so the file `.aim_run` in a trial's directory has the id. Later attempts, also under
another driver, continue this run.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

from minitune.base import files
from minitune.base.checks import require
from minitune.integration._tracking import (
    RecordEnd,
    TrackerCallback,
    TrialFacts,
    check_installed,
    numbers_in,
)
from minitune.result import CONFIG, PID, TIME_TOTAL_S, TIMESTAMP, TRAINING_ITERATION

_FILE = ".aim_run"
_PREFIX = "ray/tune/"
"""The prefix of every metric, as in Ray Tune, so that queries for its runs also work here."""
_NOT_SHOWN = (CONFIG, PID, TIMESTAMP, TIME_TOTAL_S, TRAINING_ITERATION)


class AimLoggerCallback(TrackerCallback):
    """Writes the configuration and the results of each trial to a run of Aim.

    A thread of the driver writes the runs. If Aim fails, the log has one warning.

    Args:
        repo: Aim's repository: a directory or an address; by default the run's directory.
        experiment_name: Aim's experiment; by default the run's name.
        metrics: The metrics to write; by default all numbers.
        **aim_run_kwargs: Further arguments of `aim.Run`, which by default records neither the driver's output nor the
            machine's load.

    Raises:
        ImportError: If Aim is not installed.
        ValueError: If `metrics` is empty.
    """

    tracker = "aim"

    def __init__(
        self,
        repo: str | None = None,
        experiment_name: str | None = None,
        metrics: Iterable[str] | None = None,
        **aim_run_kwargs: Any,
    ):
        check_installed("aim", type(self).__name__)
        require(metrics is None or bool(metrics), "metrics: None or a list of names", metrics)
        super().__init__()
        self._repo_path = repo
        self._experiment_name = experiment_name
        self._metrics = None if metrics is None else list(metrics)
        quiet = {"system_tracking_interval": None, "log_system_params": False, "capture_terminal_logs": False}
        self._aim_run_kwargs = {**quiet, **aim_run_kwargs}

    def open(self, facts: TrialFacts) -> Any:
        import aim

        path = os.path.join(facts.path, _FILE)
        options = {
            "repo": self._repo_path or facts.run_path,
            "experiment": self._experiment_name or facts.run_name,
            **self._aim_run_kwargs,
        }
        name = None
        if not facts.is_new and os.path.exists(path):
            name = files.read_bytes(path).decode().strip()
        run = aim.Run(run_hash=name, **options)
        files.atomic_write(path, run.hash.encode())
        run.name = facts.name
        run["trial_id"] = facts.trial_id
        run["trial_log_dir"] = facts.path
        self.restart(run, facts)
        return run

    def restart(self, record: Any, facts: TrialFacts) -> None:
        record["hparams"] = facts.config

    def write(self, record: Any, step: int, result: dict[str, Any]) -> None:
        for name, value in numbers_in(result).items():
            is_wanted = name in self._metrics if self._metrics is not None else name not in _NOT_SHOWN
            if is_wanted and value == value:
                record.track(value, name=_PREFIX + name, step=step)

    def close(self, record: Any, facts: TrialFacts, end: RecordEnd) -> None:
        record["end"] = end.value
        record.close()
