"""TrialInfo: the data that a worker gets about its trial."""

from __future__ import annotations

from typing import Any, NamedTuple

from minitune.resources import Resources


class TrialInfo(NamedTuple):
    """What a worker gets about its trial; user code gets only the configuration.

    Attributes:
        seed: Derived from the run's seed.
        attempt: 1 for the first attempt, 2 for the first retry.
        failures: How many attempts have failed, so that a retry draws other random numbers.
    """

    trial_id: str
    name: str
    directory: str
    experiment_name: str
    seed: int
    config: dict[str, Any]
    attempt: int = 1
    next_checkpoint: int = 0
    failures: int = 0
    resources: Resources = Resources.of(None)

    def fields(self) -> tuple[Any, ...]:
        """All fields but the resources, which many trials share, as plain values."""
        return self[:-1]
