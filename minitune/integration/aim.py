"""AimLoggerCallback: a run of Aim for each trial, written by the driver.

Needs the package `aim` (the extra `aim`), which is loaded when it is used. Aim names its runs itself. The file
`.aim_run` in the trial's directory holds that name, so that a restored run goes on with it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

from minitune.base.checks import require
from minitune.integration._tracking import End, Facts, TrackerCallback, check_installed, load, numbers_of
from minitune.result import CONFIG, PID, TIME_TOTAL_S, TIMESTAMP, TRAINING_ITERATION

_EXTRA = "aim"
_FILE = ".aim_run"
_PREFIX = "ray/tune/"
"""In front of every metric, as Ray Tune has it: queries that were written for its runs find these."""
_NOT_SHOWN = (CONFIG, PID, TIMESTAMP, TIME_TOTAL_S, TRAINING_ITERATION)


class AimLoggerCallback(TrackerCallback):
    """Writes the configuration and the results of each trial to a run of Aim.

    The runs are written by a thread of the driver. An error of Aim costs one warning, not the tuning.

    Args:
        repo: Aim's repository: a directory or an address; by default the run's directory.
        experiment_name: Aim's experiment; by default the run's name.
        metrics: The metrics that are written; by default all numbers.
        upload_timeout: How many seconds the end of the run waits until all is written.
        **aim_run_kwargs: More arguments of `aim.Run`. By default it watches neither the driver's output nor the
            machine.

    Raises:
        ImportError: If there is no Aim.
        ValueError: If `metrics` is empty.

    Example:
        >>> import minitune as tune
        >>> from minitune.integration.aim import AimLoggerCallback
        >>> run_config = tune.RunConfig(callbacks=[AimLoggerCallback(metrics=["loss"])])  # doctest: +SKIP
    """

    tracker = "aim"

    def __init__(
        self,
        repo: str | None = None,
        experiment_name: str | None = None,
        metrics: Iterable[str] | None = None,
        upload_timeout: float = 1800,
        **aim_run_kwargs: Any,
    ):
        check_installed("aim", _EXTRA, type(self).__name__)
        require(metrics is None or bool(metrics), "metrics: None or a list of names", metrics)
        super().__init__(upload_timeout)
        self._repo_path = repo
        self._experiment_name = experiment_name
        self._metrics = None if metrics is None else list(metrics)
        quiet = {"system_tracking_interval": None, "log_system_params": False, "capture_terminal_logs": False}
        self._aim_run_kwargs = {**quiet, **aim_run_kwargs}

    def open(self, facts: Facts) -> Any:
        """See `TrackerCallback`."""
        aim = load("aim", _EXTRA, type(self).__name__)
        path = os.path.join(facts.path, _FILE)
        options = {
            "repo": self._repo_path or facts.run_path,
            "experiment": self._experiment_name or facts.run_name,
            **self._aim_run_kwargs,
        }
        name = None
        if not facts.is_new and os.path.exists(path):
            with open(path, encoding="utf-8") as file:
                name = file.read().strip()
        run = aim.Run(run_hash=name, **options)
        with open(path, "w", encoding="utf-8") as file:
            file.write(run.hash)
        run.name = facts.name
        run["trial_id"] = facts.trial_id
        run["trial_log_dir"] = facts.path
        self.restart(run, facts)
        return run

    def restart(self, record: Any, facts: Facts) -> None:
        """See `TrackerCallback`."""
        record["hparams"] = facts.config

    def write(self, record: Any, step: int, result: dict[str, Any]) -> None:
        """See `TrackerCallback`."""
        for name, value in numbers_of(result).items():
            is_wanted = name in self._metrics if self._metrics is not None else name not in _NOT_SHOWN
            if is_wanted and value == value:
                record.track(value, name=_PREFIX + name, step=step)

    def close(self, record: Any, facts: Facts, end: End) -> None:
        """See `TrackerCallback`."""
        record["end"] = end.value
        record.close()
