"""The decision of a scheduler about a trial: data, carried out in one place by the controller."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from minitune.experiment.trial import Trial
    from minitune.resources import Resources

CONTINUE = "CONTINUE"
"""Go on with the trial."""
PAUSE = "PAUSE"
"""Save the trial and let its worker go; it can be chosen again later."""
STOP = "STOP"
"""End the trial."""
NOOP = "NOOP"
"""The scheduler has already asked for something in this hook; do nothing else."""

DECISIONS = (CONTINUE, PAUSE, STOP, NOOP)


class Decision(str):
    """A `str` equal to CONTINUE, PAUSE, STOP or NOOP that may carry its reason and more.

    Args:
        action: One of the four words.
        reason: Why, in a sentence that a user can read.
        save: True to save the trial before the decision is carried out.
        exploit: (donor, config): the trial goes on from the donor's checkpoint under the new config.
        resources: The trial's new resource request.
        facts: What the reason rests on, as plain data: `rule`, and as it applies `metric`, `value`, `time`, `rung`,
            `bracket`, `cutoff`, `rank`, `of` (how many were ranked), `donor` (a trial id), `perturbed`
            (old and new value of each hyperparameter that has changed).

    Raises:
        ValueError: If `action` is not one of the four words.
    """

    reason: str
    save: bool
    exploit: tuple[Trial, dict[str, Any]] | None
    resources: Resources | None
    facts: Mapping[str, Any]

    def __new__(
        cls,
        action: str,
        reason: str = "",
        *,
        save: bool = False,
        exploit: tuple[Trial, dict[str, Any]] | None = None,
        resources: Resources | None = None,
        facts: Mapping[str, Any] | None = None,
    ) -> Decision:
        """Check the word and attach the rest; see the class."""
        if action not in DECISIONS:
            raise ValueError(f"a scheduler's decision must be one of {', '.join(DECISIONS)}, but got {action!r}")
        self = super().__new__(cls, action)
        self.reason = reason
        self.save = save
        self.exploit = exploit
        self.resources = resources
        self.facts = facts or {}
        return self

    @classmethod
    def of(cls, value: str) -> Decision:
        """`value` as a Decision: itself if it is one, else the bare word."""
        return value if isinstance(value, Decision) else cls(value)
