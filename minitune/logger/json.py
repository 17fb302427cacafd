"""JsonLoggerCallback: writes `result.json`, one line per report, and `params.json`, `params.pkl`: the configuration."""

from __future__ import annotations

import logging
import os
from functools import partial
from typing import Any

from minitune.base import files
from minitune.base.files import AppendFiles
from minitune.base.json_text import dumps, dumps_pretty
from minitune.base.pickling import dumps as dumps_pickle
from minitune.experiment.trial import Trial
from minitune.logger.logger import LoggerCallback
from minitune.result import CONFIG, EXPR_PARAM_FILE, EXPR_PARAM_PICKLE_FILE, EXPR_RESULT_FILE


class JsonLoggerCallback(LoggerCallback):
    """Writes the results of each trial as strict JSON, one object per line. Retries and resumes append to the file."""

    def __init__(self) -> None:
        self._files = AppendFiles()
        self._configs: dict[str, int] = {}  # by trial id, a hash of the written files, because a trial may start often

    def log_trial_start(self, trial: Trial) -> None:
        """Write the configuration, and open the file. An error of a file is logged, unless the disk has refused it."""
        path = f"{trial.local_path}{os.sep}{EXPR_RESULT_FILE}"
        try:
            if not trial.attempt:  # outside of a run only: in a run, a new directory would hide that it was removed
                trial.init_local_path()
            self._files.open(trial.trial_id, path)
        except OSError as error:
            self._files.lapse(trial.trial_id, path, error)
        try:
            self.update_config(trial, trial.raw_config)
        except OSError as error:
            self._files.lapse("", os.path.join(trial.local_path, EXPR_PARAM_FILE), error)

    def log_trial_result(self, iteration: int, trial: Trial, result: dict[str, Any]) -> None:
        """Append one line. Errors are as in `log_trial_start`."""
        if trial.light is not None and trial.light_config is not trial.raw_config:  # keep large values out of each line
            result = {**result, CONFIG: trial.light_config}
        line = f"{dumps(result)}\n"
        if not self.append(trial, line):
            self.log_trial_start(trial)
            self.append(trial, line)

    def append(self, trial: Trial, line: str) -> bool:
        """Append a line to the trial's file. Return False if the file is not open."""
        try:
            return self._files.append(trial.trial_id, line.encode("ascii"))
        except OSError as error:
            self._files.lapse(trial.trial_id, os.path.join(trial.local_path, EXPR_RESULT_FILE), error)
            return True

    def log_trial_end(self, trial: Trial, failed: bool = False) -> None:
        """Close the file."""
        self._files.close(trial.trial_id)
        self._configs.pop(trial.trial_id, None)

    def on_experiment_end(self, trials: list[Trial], **info: Any) -> None:
        """Close the files that are still open."""
        self._files.close_all()

    def update_config(self, trial: Trial, config: dict[str, Any]) -> None:
        """Write `params.json`, and `params.pkl` if the configuration can be pickled.

        Large values of the configuration are stored in separate files. They are short texts in `params.json` and
        references in `params.pkl`. Loading `params.pkl` returns the values as long as the run is not moved.

        Raises:
            OSError: If a file cannot be written.
        """
        if config is trial.raw_config and trial.light is not None:
            config = trial.light_config
        text = dumps_pretty(config).encode("ascii")
        data: bytes | None = None
        try:
            data = dumps_pickle(config, "the configuration")
        except TypeError as error:
            logging.getLogger("minitune").debug("%s has no params.pkl: %s", trial, error)
        content = hash((text, data))
        if self._configs.get(trial.trial_id) == content:
            return
        path = f"{trial.local_path}{os.sep}{EXPR_PARAM_FILE}"
        pickle_path = f"{trial.local_path}{os.sep}{EXPR_PARAM_PICKLE_FILE}"
        self._files.with_room(partial(files.write_new, path, text))
        if data is not None:
            # Only the owner may write it: a user who can write a pickle can run code in the process that loads it.
            self._files.with_room(partial(files.write_new, pickle_path, data, files.BLOB_MODE))
        else:
            files.remove_file(pickle_path)  # the file of an earlier configuration
        self._configs[trial.trial_id] = content
