"""ExperimentPlateauStopper: a run whose best values no longer differ."""

from __future__ import annotations

from bisect import insort
from typing import Any

from minitune.experiment.best import check_mode
from minitune.stopper.stopper import Stopper, check_metric, check_std, check_whole, lookup, number_of, spread


class ExperimentPlateauStopper(Stopper):
    """Ends the run when the best values of all trials lie close together for long enough.

    Args:
        metric: The metric's name; `a/b` for nested ones. Results without it, and NaN, are passed over.
        std: The standard deviation of the best values at which they count as close.
        top: How many values are the best.
        mode: `min` or `max`.
        patience: For how many results they have to stay close.

    Raises:
        ValueError: If an argument is out of range.
    """

    def __init__(self, metric: str, std: float = 0.001, top: int = 10, mode: str = "min", patience: int = 0):
        check_mode(mode)
        check_metric(metric)
        check_std(std)
        self._metric = metric
        self._std = std
        self._top = check_whole("top", top, 2)
        self._mode = mode
        self._patience = check_whole("patience", patience, 0)
        self._losses: list[float] = []
        self._close_for = 0

    def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
        """See `Stopper.__call__`."""
        value = number_of(lookup(result, self._metric))
        if value is None or value != value:
            return self.stop_all()
        insort(self._losses, value if self._mode == "min" else -value)
        del self._losses[self._top :]
        self._close_for = self._close_for + 1 if self.has_plateaued() else 0
        return self.stop_all()

    def has_plateaued(self) -> bool:
        """Whether the best values lie close together now."""
        return len(self._losses) == self._top and spread(self._losses) <= self._std

    def seconds_left(self) -> None:
        """See `Stopper.seconds_left`: only results change anything."""

    def stop_all(self) -> bool:
        """See `Stopper.stop_all`."""
        return self._close_for >= self._patience and self.has_plateaued()

    def get_state(self) -> dict[str, Any]:
        """The best values and for how long they have been close."""
        return {"losses": list(self._losses), "close_for": self._close_for}

    def set_state(self, state: dict[str, Any]) -> None:
        """Take over the best values."""
        self._losses, self._close_for = list(state["losses"]), state["close_for"]
