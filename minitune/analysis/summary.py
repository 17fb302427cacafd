"""The target for the best value of a run, and the failed trials of a run as text."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable
from dataclasses import dataclass

from minitune.analysis.run_results import RunResults
from minitune.base.checks import is_real, require
from minitune.experiment.goal import SCOPES, check_mode
from minitune.experiment.trial import Trial

logger = logging.getLogger("minitune")


@dataclass(frozen=True)
class Target:
    """A limit for the best value of a metric.

    Attributes:
        scope: The value that counts for a trial, one of `SCOPES`.
    """

    metric: str
    at_least: float | None
    at_most: float | None
    mode: str
    scope: str = "last"

    @classmethod
    def of(
        cls,
        metric: str | None,
        at_least: float | None,
        at_most: float | None,
        *,
        mode: str | None = None,
        scope: str = "last",
    ) -> Target:
        """Make a target. By default, the mode is `max` with a lower limit, otherwise `min`.

        Raises:
            ValueError: If metric or limits are missing, or mode or scope is unknown.
        """
        require(isinstance(metric, str), "metric: the metric's name, here or in the TuneConfig", metric)
        for name, bound in (("at_least", at_least), ("at_most", at_most)):
            require(bound is None or (is_real(bound) and not math.isnan(bound)), f"{name}: None or a number", bound)
        require(at_least is not None or at_most is not None, "at_least or at_most: a number", None)
        mode = mode or ("max" if at_least is not None else "min")
        check_mode(mode)
        require(scope in SCOPES, f"scope: one of {', '.join(SCOPES)}", scope)
        return cls(str(metric), at_least, at_most, mode, scope)

    def is_met(self, value: float) -> bool:
        """Whether `value` is within the limits."""
        return (self.at_least is None or value >= self.at_least) and (self.at_most is None or value <= self.at_most)

    def __str__(self) -> str:
        bounds = [
            f"{sign} {bound:g}" for sign, bound in ((">=", self.at_least), ("<=", self.at_most)) if bound is not None
        ]
        return f"best {self.metric} {' and '.join(bounds)}".rstrip()


def grouped_errors(trials: Iterable[Trial]) -> list[str]:
    """A line for each of `error_groups`: how many errors there are, and the first one."""
    # here, because a run that shows nothing needs no tables
    from minitune.view.rows import last_line
    from minitune.view.summary import error_groups

    return [f"{len(alike)} x {last_line(alike[0])}" for alike in error_groups(trials)]


def log_failures(results: RunResults, may_print: bool = False) -> None:
    """Log the failed trials of a run once, if it shows no progress."""
    failed = [trial for trial in results.trials if trial.error is not None]
    if failed and (may_print or logger.hasHandlers()):
        kinds = "; ".join(grouped_errors(failed))
        logger.error("%d of %d trials failed: %s (%s)", len(failed), len(results.trials), kinds, results.path)
