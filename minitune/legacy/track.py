"""`tune.track`: how functions reported before `tune.report`."""

from __future__ import annotations

from typing import Any

from minitune.context import get_trial_dir, get_trial_id, get_trial_name
from minitune.trainable.session import report


def log(**metrics: Any) -> None:
    """Report one result of the calling trial; see `minitune.report`. Blocks until the driver has taken it."""
    report(metrics)


def init(*args: Any, **kwargs: Any) -> None:
    """Nothing has to be started: a trial has its session."""


def shutdown() -> None:
    """Nothing has to be ended."""


def trial_dir() -> str | None:
    """The calling trial's directory."""
    return get_trial_dir()


def trial_id() -> str | None:
    """The calling trial's id."""
    return get_trial_id()


def trial_name() -> str | None:
    """The calling trial's name."""
    return get_trial_name()
