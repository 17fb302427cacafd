"""JsonLoggerCallback: `result.json`, one line per report; `params.json` and `params.pkl`, the configuration."""

from __future__ import annotations

import functools
import logging
import os
from typing import Any

from minitune.experiment.trial import Trial
from minitune.logger.append_files import AppendFiles, replace_file
from minitune.logger.logger import LoggerCallback
from minitune.logger.strict_json import dumps, dumps_pretty
from minitune.pickling import dumps as dumps_pickle
from minitune.result import EXPR_PARAM_FILE, EXPR_PARAM_PICKLE_FILE, EXPR_RESULT_FILE


class JsonLoggerCallback(LoggerCallback):
    """Writes what trials report as strict JSON, one object per line, appended across retries and resumes."""

    def __init__(self) -> None:
        self._files = AppendFiles()
        self._configs: dict[str, int] = {}  # by trial id, a hash of what its files hold: a trial may start often

    def log_trial_start(self, trial: Trial) -> None:
        """Write the configuration, open the file. A file that cannot be written is named in the log."""
        path = os.path.join(trial.local_path, EXPR_RESULT_FILE)
        try:
            self._files.open(trial.trial_id, path)
        except OSError as error:
            self._files.lapse(trial.trial_id, path, error)
        try:
            self.update_config(trial, trial.config)
        except OSError as error:
            self._files.lapse("", os.path.join(trial.local_path, EXPR_PARAM_FILE), error)

    def log_trial_result(self, iteration: int, trial: Trial, result: dict[str, Any]) -> None:
        """Append one line; where that fails, the log says so."""
        if trial.trial_id not in self._files:
            self.log_trial_start(trial)
        if trial.trial_id in self._files:
            try:
                self._files.append(trial.trial_id, f"{dumps(result)}\n".encode("ascii"))
            except OSError as error:
                self._files.lapse(trial.trial_id, os.path.join(trial.local_path, EXPR_RESULT_FILE), error)

    def log_trial_end(self, trial: Trial, failed: bool = False) -> None:
        """Close the file."""
        self._files.close(trial.trial_id)
        self._configs.pop(trial.trial_id, None)

    def on_experiment_end(self, trials: list[Trial], **info: Any) -> None:
        """Close what is still open."""
        self._files.close_all()

    def update_config(self, trial: Trial, config: dict[str, Any]) -> None:
        """Write `params.json`, and `params.pkl` if the configuration can be pickled.

        Raises:
            OSError: If a file cannot be written.
        """
        text = dumps_pretty(config).encode("ascii")
        data: bytes | None = None
        try:
            data = dumps_pickle(config, "the configuration")
        except TypeError as error:
            logging.getLogger("minitune").debug("%s has no params.pkl: %s", trial, error)
        content = hash((text, data))
        if self._configs.get(trial.trial_id) == content:
            return
        self._files.with_room(lambda: replace_file(os.path.join(trial.local_path, EXPR_PARAM_FILE), text))
        pickle_path = os.path.join(trial.local_path, EXPR_PARAM_PICKLE_FILE)
        if data is not None:
            # For the owner only: whoever can write it can run code in the process that loads it.
            self._files.with_room(functools.partial(replace_file, pickle_path, data, mode=0o600))
        elif os.path.exists(pickle_path):  # that of an earlier configuration
            os.unlink(pickle_path)
        self._configs[trial.trial_id] = content
