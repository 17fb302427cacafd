"""Comet: one experiment for each trial, written by the driver.

The key of an experiment follows from the names of the run and the trial, so that later attempts, also under another
driver, continue the same experiment.
"""

from __future__ import annotations

import hashlib
import logging
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from minitune.integration._tracking import (
    RecordEnd,
    TrackerCallback,
    TrialFacts,
    check_installed,
    config_in,
    numbers_in,
)

_NO_WATCH = "COMET_DISABLE_AUTO_LOGGING"
"""If this variable is not set, Comet watches other libraries in the process after its import."""
_OFF = ("auto_output_logging", "log_git_metadata", "log_git_patch", "log_env_cpu", "log_env_gpu", "log_code")
"""Options of an experiment that record the calling process. This is the driver, not the trial, so they are off."""


class CometLoggerCallback(TrackerCallback):
    """Sends the configuration and the results of each trial to an experiment of Comet.

    A thread of the driver writes the experiments. If the service does not answer, the log has one warning.

    Args:
        online: Whether to send results at once; otherwise Comet writes archives, for `comet upload`.
        tags: The tags of each experiment.
        save_checkpoints: Whether to upload checkpoints as artifacts.
        **experiment_kwargs: Further arguments of `comet_ml.Experiment`, such as `project_name` and `workspace`. An
            `api_key` is not saved with the run, which needs `COMET_API_KEY` to be restored.

    Raises:
        ImportError: If comet_ml is not installed.
    """

    tracker = "comet"

    def __init__(
        self,
        online: bool = True,
        tags: Iterable[str] | None = None,
        save_checkpoints: bool = False,
        **experiment_kwargs: Any,
    ):
        check_installed("comet_ml", type(self).__name__)
        super().__init__()
        self.online = online
        self.tags = list(tags or [])
        self._keeps_checkpoints = save_checkpoints
        self.experiment_kwargs = {**dict.fromkeys(_OFF, False), "display_summary_level": 0, **experiment_kwargs}

    def __getstate__(self) -> dict[str, Any]:
        """See `TrackerCallback`. The key is left out, so that it does not get into files."""
        options = {name: value for name, value in self.experiment_kwargs.items() if name != "api_key"}
        return {**super().__getstate__(), "experiment_kwargs": options}

    @contextmanager
    def settings(self) -> Iterator[None]:
        """See `TrackerCallback`. `open` silences Comet's lines about each experiment; this undoes it at the end."""
        log = logging.getLogger("comet_ml")
        level = log.level
        has_variable = _NO_WATCH in os.environ
        os.environ.setdefault(_NO_WATCH, "1")
        try:
            yield
        finally:
            log.setLevel(level)
            if not has_variable:
                os.environ.pop(_NO_WATCH, None)

    def open(self, facts: TrialFacts) -> Any:
        import comet_ml as comet
        from comet_ml.config import set_global_experiment

        logging.getLogger("comet_ml").setLevel(logging.ERROR)

        # Comet's keys have 32 to 50 letters and digits. The same trial must get the same key under another driver.
        key = hashlib.sha256(f"{facts.run_name}/{facts.trial_id}".encode()).hexdigest()[:40]
        options = dict(self.experiment_kwargs)
        if not self.online:
            options.setdefault("offline_directory", os.environ.get("COMET_OFFLINE_DIRECTORY") or facts.path)
        if facts.is_new:
            make = comet.Experiment if self.online else comet.OfflineExperiment
            experiment = make(experiment_key=key, **options)
        else:
            make = comet.ExistingExperiment if self.online else comet.ExistingOfflineExperiment
            experiment = make(previous_experiment=key, **options)
        set_global_experiment(None)  # otherwise the next experiment would end this one
        experiment.set_name(facts.name)
        if self.tags:
            experiment.add_tags(self.tags)
        experiment.log_other("Created from", "minitune")
        experiment.log_other("trial_id", facts.trial_id)
        experiment.log_parameters(facts.config)
        return experiment

    def restart(self, record: Any, facts: TrialFacts) -> None:
        record.log_parameters(facts.config)

    def write(self, record: Any, step: int, result: dict[str, Any]) -> None:
        record.log_parameters(config_in(result), step=step)
        record.log_metrics(numbers_in(result), step=step)

    def save(self, record: Any, facts: TrialFacts, directory: str) -> None:
        import comet_ml as comet

        artifact = comet.Artifact(name=f"checkpoint_{facts.name}", artifact_type="model")
        artifact.add(directory)
        record.log_artifact(artifact)

    def close(self, record: Any, facts: TrialFacts, end: RecordEnd) -> None:
        record.log_other("end", end.value)
        record.end()
