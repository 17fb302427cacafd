"""TrialInfo: what a worker is told about its trial. Workers know no more of trials than this."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from minitune.resources import Resources


@dataclass(frozen=True)
class TrialInfo:
    """What a worker is told about its trial, beside and not within the configuration.

    Attributes:
        trial_id: The trial's id.
        name: Its name.
        directory: Its directory, absolute.
        experiment_name: The run's name.
        resources: What it asked for.
        seed: The trial's own seed, a function of the run's.
        attempt: 1 for the first attempt, 2 for the first retry.
        next_checkpoint: Number of the next checkpoint to be written.
        config: The trial's configuration.
        failures: How many attempts have failed before: those that follow have other luck.
    """

    trial_id: str
    name: str
    directory: str
    experiment_name: str
    resources: Resources
    seed: int
    attempt: int = 1
    next_checkpoint: int = 0
    config: dict[str, Any] = field(default_factory=dict)
    failures: int = 0
