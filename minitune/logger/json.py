"""JsonLoggerCallback: `result.json`, one line per report; `params.json` and `params.pkl`, the configuration."""

from __future__ import annotations

import functools
import logging
import os
from typing import Any

from minitune.base import files
from minitune.base.files import AppendFiles
from minitune.base.json_text import dumps, dumps_pretty
from minitune.base.pickling import dumps as dumps_pickle
from minitune.experiment.trial import Trial
from minitune.logger.logger import LoggerCallback
from minitune.result import CONFIG, EXPR_PARAM_FILE, EXPR_PARAM_PICKLE_FILE, EXPR_RESULT_FILE


class JsonLoggerCallback(LoggerCallback):
    """Writes what trials report as strict JSON, one object per line, appended across retries and resumes."""

    def __init__(self) -> None:
        self._files = AppendFiles()
        self._configs: dict[str, int] = {}  # by trial id, a hash of what its files hold: a trial may start often

    def log_trial_start(self, trial: Trial) -> None:
        """Write the configuration, open the file. A file that cannot be written is named in the log."""
        path = os.path.join(trial.local_path, EXPR_RESULT_FILE)
        try:
            if not trial.attempt:  # tried outside of a run; in one, to make it again would hide that it has gone
                trial.init_local_path()
            self._files.open(trial.trial_id, path, trial.experiment_path)
        except OSError as error:
            self._files.lapse(trial.trial_id, path, error)
        try:
            self.update_config(trial, trial.config)
        except OSError as error:
            self._files.lapse("", os.path.join(trial.local_path, EXPR_PARAM_FILE), error)

    def log_trial_result(self, iteration: int, trial: Trial, result: dict[str, Any]) -> None:
        """Append one line; where that fails, the log says so."""
        if trial.light is not None and trial.light_config is not trial.config:  # a line is written with every report
            result = {**result, CONFIG: trial.light_config}
        line = f"{dumps(result)}\n"
        if not self.append(trial, line):
            self.log_trial_start(trial)
            self.append(trial, line)

    def append(self, trial: Trial, line: str) -> bool:
        """Append a line to the trial's file; False if that is not open. Where it fails, the log says so."""
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
        """Close what is still open."""
        self._files.close_all()

    def update_config(self, trial: Trial, config: dict[str, Any]) -> None:
        """Write `params.json`, and `params.pkl` if the configuration can be pickled.

        Large values in it, which have files of their own, are short texts in `params.json` and references in
        `params.pkl`: who loads that gets the values, as long as the run lies where it is.

        Raises:
            OSError: If a file cannot be written.
        """
        if config is trial.config:
            config = trial.config if trial.light is None else trial.light_config
        text = dumps_pretty(config).encode("ascii")
        data: bytes | None = None
        try:
            data = dumps_pickle(config, "the configuration")
        except TypeError as error:
            logging.getLogger("minitune").debug("%s has no params.pkl: %s", trial, error)
        content = hash((text, data))
        if self._configs.get(trial.trial_id) == content:
            return
        within = trial.experiment_path
        directory = trial.local_path
        path, pickle_path = f"{directory}{os.sep}{EXPR_PARAM_FILE}", f"{directory}{os.sep}{EXPR_PARAM_PICKLE_FILE}"
        self._files.with_room(functools.partial(files.write_new, path, text, within=within))
        if data is not None:
            # For the owner only: any user who can write it can run code in the process that loads it.
            self._files.with_room(functools.partial(files.write_new, pickle_path, data, files.BLOB_MODE, within=within))
        else:
            files.remove_file(pickle_path, within)  # that of an earlier configuration
        self._configs[trial.trial_id] = content
