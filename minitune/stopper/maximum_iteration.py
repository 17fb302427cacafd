"""MaximumIterationStopper: so many results, and no more."""

from __future__ import annotations

from typing import Any

from minitune.stopper.stopper import Stopper, check_whole


class MaximumIterationStopper(Stopper):
    """Ends a trial after a number of results, counted here, whatever the trial says of its iterations.

    Args:
        max_iter: How many results.

    Raises:
        ValueError: If it is no whole number of at least 1.
    """

    def __init__(self, max_iter: int):
        self._max_iter = check_whole("max_iter", max_iter, 1)
        self._counts: dict[str, int] = {}

    def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
        """See `Stopper.__call__`."""
        count = self._counts[trial_id] = self._counts.get(trial_id, 0) + 1
        return count >= self._max_iter

    def describe(self) -> str:
        """See `Stopper.describe`."""
        return f"{self._max_iter} results were reported"

    def get_state(self) -> dict[str, Any]:
        """The counts."""
        return {"counts": dict(self._counts)}

    def set_state(self, state: dict[str, Any]) -> None:
        """Take over the counts."""
        self._counts = dict(state["counts"])
