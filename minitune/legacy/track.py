"""`tune.track`: how functions reported before `tune.report`."""

from __future__ import annotations

from typing import Any

from minitune.context import get_trial_dir as trial_dir
from minitune.context import get_trial_id as trial_id
from minitune.context import get_trial_name as trial_name
from minitune.trainable.old_forms import with_neg_mean_loss
from minitune.trainable.session import report

__all__ = ["init", "log", "shutdown", "trial_dir", "trial_id", "trial_name"]


def log(**metrics: Any) -> None:
    """Report one result of the calling trial; see `minitune.report`. Blocks until the driver has taken it."""
    report(with_neg_mean_loss(metrics))


def init(*args: Any, **kwargs: Any) -> None:
    """Do nothing: each trial has its session."""


def shutdown() -> None:
    """Do nothing."""
