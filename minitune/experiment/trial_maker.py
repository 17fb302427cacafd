"""TrialMaker: makes the trials of one experiment and numbers them."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from minitune.checkpoint import Checkpoint
from minitune.experiment.trial import Trial
from minitune.resources import Resources
from minitune.result import flatten
from minitune.settings import setting


@dataclass
class TrialIds:
    """The ids of a run's trials, `<prefix>_%05d`: one scheme for all search algorithms and experiments.

    Attributes:
        prefix: In front of every id; by default five hex digits, or what `MINITUNE_TRIAL_ID_PREFIX` says.
        count: Number of the next trial.
    """

    prefix: str = field(default_factory=lambda: setting("TRIAL_ID_PREFIX") or os.urandom(3).hex()[:5])
    count: int = 0


class TrialMaker:
    """Makes the trials of one experiment.

    Args:
        trainable_name: Name of the trainable.
        experiment_path: Directory of the run.
        ids: Those of the run, if it has several experiments; by default, ids of its own.
        prefix: What these begin with.
        experiment_number: Which of the run's experiments it is.
        request: What each trial needs: a request, or a function of the configuration.
        stopping_criterion: Limits by flattened metric name.
        max_failures: Retries of each trial.
        name_creator: Makes the trial's name from the trial, or None.
        start_checkpoint: What every trial starts from, or None.
    """

    def __init__(
        self,
        trainable_name: str,
        *,
        experiment_path: str = "",
        ids: TrialIds | None = None,
        prefix: str | None = None,
        experiment_number: int = 0,
        request: Resources | Mapping[str, Any] | Callable[[dict[str, Any]], Any] | None = None,
        stopping_criterion: Mapping[str, Any] | None = None,
        max_failures: int = 0,
        name_creator: Callable[[Trial], str] | None = None,
        start_checkpoint: Checkpoint | None = None,
    ):
        self.trainable_name = trainable_name
        self.experiment_path = experiment_path
        self.ids = ids or (TrialIds(prefix) if prefix else TrialIds())
        self.experiment_number = experiment_number
        self.request = request if callable(request) else Resources.of(request).shared()
        self.stopping_criterion = flatten(stopping_criterion or {})
        self.max_failures = max_failures
        self.name_creator = name_creator
        self.start_checkpoint = start_checkpoint

    @property
    def prefix(self) -> str:
        """What the ids begin with."""
        return self.ids.prefix

    @prefix.setter
    def prefix(self, prefix: str) -> None:
        self.ids.prefix = prefix

    @property
    def count(self) -> int:
        """Number of the next trial."""
        return self.ids.count

    @count.setter
    def count(self, count: int) -> None:
        self.ids.count = count

    def next_id(self) -> str:
        """The id that the next trial will get."""
        return f"{self.ids.prefix}_{self.ids.count:05d}"

    def make(self, config: dict[str, Any], evaluated_params: dict[str, Any], experiment_tag: str) -> Trial:
        """Make the next trial; the counter moves on.

        Args:
            config: The resolved configuration.
            evaluated_params: The searched parameters by path, with their values.
            experiment_tag: The trial's tag.

        Raises:
            ValueError: If the request for this configuration is no request.
        """
        request = Resources.of(self.request(config)).shared() if callable(self.request) else self.request
        trial = Trial(
            self.trainable_name,
            config=config,
            trial_id=self.next_id(),
            number=self.count,
            evaluated_params=evaluated_params,
            experiment_tag=experiment_tag,
            resources=request,
        )
        self.adopt(trial)
        self.ids.count += 1
        if self.name_creator is not None:
            trial.custom_trial_name = str(self.name_creator(trial))
        return trial

    def adopt(self, trial: Trial) -> None:
        """Give a trial what all trials of this experiment have."""
        trial.experiment_number, trial.experiment_path = self.experiment_number, self.experiment_path
        trial.trainable_name, trial.max_failures = self.trainable_name, self.max_failures
        trial.stopping_criterion, trial.start_checkpoint = self.stopping_criterion, self.start_checkpoint
