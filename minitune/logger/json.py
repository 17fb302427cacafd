"""JsonLoggerCallback: writes `result.json`, one line per report, and `params.json`, the configuration."""

from __future__ import annotations

import os
from typing import Any

from minitune.base import json_text
from minitune.base.files import AppendFiles, atomic_write
from minitune.experiment.trial import Trial
from minitune.logger.logger import LoggerCallback
from minitune.result import CONFIG, EXPR_PARAM_FILE, EXPR_RESULT_FILE


class JsonLoggerCallback(LoggerCallback):
    """Writes the results of each trial as strict JSON, one object per line. Retries and resumes append to the file."""

    only_reads = True  # it gets the result itself; others get a copy, which they may change

    def __init__(self) -> None:
        self._files = AppendFiles()

    def log_trial_start(self, trial: Trial) -> None:
        """Write the configuration, and open the file. An error of a file is logged, unless the disk has refused it."""
        path = f"{trial.local_path}{os.sep}{EXPR_RESULT_FILE}"
        try:
            # Outside of a run only: in a run, a new directory would hide that it was removed.
            if not trial.attempt.number:
                trial.init_local_path()
            self._files.open(trial.trial_id, path)
        except OSError as error:
            self._files.lapse(trial.trial_id, path, error)
        try:
            self.update_config(trial, trial.current_config)
        except OSError as error:
            self._files.lapse("", os.path.join(trial.local_path, EXPR_PARAM_FILE), error)

    def log_trial_result(self, iteration: int, trial: Trial, result: dict[str, Any]) -> None:
        """Append one line. Errors are as in `log_trial_start`."""
        if CONFIG in result:  # large values stay out of each line
            result = {**result, CONFIG: json_text.shortened(dict(result[CONFIG]))}
        data = f"{json_text.dumps(result)}\n".encode("ascii")
        try:
            if not self._files.append(trial.trial_id, data):
                self.log_trial_start(trial)
                self._files.append(trial.trial_id, data)
        except OSError as error:
            self._files.lapse(trial.trial_id, os.path.join(trial.local_path, EXPR_RESULT_FILE), error)

    def log_trial_end(self, trial: Trial, failed: bool = False) -> None:
        """Close the file."""
        self._files.close(trial.trial_id)

    def on_experiment_end(self, trials: list[Trial], **info: Any) -> None:
        """Close the files that are still open."""
        self._files.close_all()

    def update_config(self, trial: Trial, config: dict[str, Any]) -> None:
        """Write the configuration to `params.json`, with short texts in place of large values."""
        text = json_text.dumps_pretty(json_text.shortened(config))
        atomic_write(f"{trial.local_path}{os.sep}{EXPR_PARAM_FILE}", text.encode("ascii"))
