"""NoopStopper: never."""

from __future__ import annotations

from minitune.stopper.stopper import Stopper


class NoopStopper(Stopper):
    """Stops nothing."""
