"""TrialMaker: makes the trials of an experiment from configurations, with ids in their order."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

from minitune.checkpoint import Checkpoint
from minitune.experiment.trial import Trial
from minitune.resources import Resources
from minitune.result import flatten


class TrialMaker:
    """Makes the trials of one experiment and numbers them.

    Attributes:
        id_prefix: Of the ids `<prefix>_%05d`.
        count: How many trials there are.
        run_path: The run's directory, in which trials have theirs; empty before it exists.
    """

    def __init__(
        self,
        trainable_name: str,
        *,
        id_prefix: str = "",
        request: Resources | Mapping[str, Any] | Callable[[dict[str, Any]], Any] | None = None,
        stopping_criterion: Mapping[str, Any] | None = None,
        max_failures: int = 0,
        name_creator: Callable[[Trial], str] | None = None,
        start_checkpoint: Checkpoint | None = None,
    ):
        self.trainable_name = trainable_name
        self.id_prefix = id_prefix or os.urandom(3).hex()[:5]
        self.count = 0
        self.request = request if callable(request) else Resources.of(request)
        self.stopping_criterion = flatten(stopping_criterion or {})
        self.max_failures = max_failures
        self.name_creator = name_creator
        self.start_checkpoint = start_checkpoint
        self.run_path = ""

    def next_id(self) -> str:
        """The id that the next trial will get."""
        return f"{self.id_prefix}_{self.count:05d}"

    def make(self, config: dict[str, Any], evaluated_params: dict[str, Any], experiment_tag: str) -> Trial:
        """Make the next trial, and increase the counter.

        Raises:
            ValueError: If the resources for this configuration are invalid.
        """
        request = Resources.of(self.request(config)) if callable(self.request) else self.request
        trial = Trial(
            self.trainable_name,
            config=config,
            trial_id=self.next_id(),
            number=self.count,
            evaluated_params=evaluated_params,
            experiment_tag=experiment_tag,
            resources=request,
            experiment_path=self.run_path,
        )
        self.equip(trial)
        self.count += 1
        if self.name_creator is not None:
            trial.set_name(str(self.name_creator(trial)))
        return trial

    def equip(self, trial: Trial) -> None:
        """Set the attributes that all trials of this experiment have in common."""
        trial.max_failures = self.max_failures
        trial.stopping_criterion = self.stopping_criterion
        trial.start_checkpoint = self.start_checkpoint
