"""TrialInfo: the data that a worker gets about its trial."""

from __future__ import annotations

from typing import Any, NamedTuple

from minitune.resources import Resources


class TrialInfo(NamedTuple):
    """The data that a worker gets about its trial. User code gets only the configuration.

    Attributes:
        seed: The trial's seed, which is derived from the run's seed.
        attempt: 1 for the first attempt, 2 for the first retry.
        failures: How many attempts have failed. It changes the random numbers, so that a retry draws other ones.
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
    writes_parameters: bool = False
    resources: Resources = Resources.of(None)

    def fields(self) -> tuple[Any, ...]:
        """All fields but the resources, which many trials share: plain values, which are pickled and loaded quickly."""
        return self[:-1]
