"""RunSettings: what the driver needs to know of a run, beside its plug-ins."""

from __future__ import annotations

from dataclasses import dataclass, field

from minitune.config import CheckpointConfig, FailureConfig

GRACE_S = 10.0
"""How long a trial may take to unwind when it is asked to stop, before it is terminated and then killed."""


@dataclass(frozen=True)
class RunSettings:
    """What the controller needs to know of a run, beside its plug-ins.

    Attributes:
        run_name: The run's name.
        metric: The run's metric, or None.
        seed: The base seed.
        failure: Retries and fail fast.
        checkpoints: When class trainables are saved.
        saves: Whether the trainable is a class that can be saved between two steps.
        max_concurrent_trials: At most so many trials run at a time; None means no limit.
        reuse_actors: Whether a worker is handed on to the next trial.
        grace_s: Seconds that a trial has to unwind.
        strict_metric: Whether a result without the metric of run, scheduler or searcher is an error of its trial.
    """

    run_name: str
    metric: str | None = None
    seed: int = 0
    failure: FailureConfig = field(default_factory=FailureConfig)
    checkpoints: CheckpointConfig = field(default_factory=CheckpointConfig)
    saves: bool = False
    max_concurrent_trials: int | None = None
    reuse_actors: bool = False
    grace_s: float = GRACE_S
    strict_metric: bool = True
