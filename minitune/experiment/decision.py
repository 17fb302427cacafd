"""Decision: what a scheduler decides about a trial, as data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from minitune.experiment.endings import Ending, EndKind

if TYPE_CHECKING:
    from minitune.experiment.trial import Trial

CONTINUE = "CONTINUE"
"""Continue the trial."""
PAUSE = "PAUSE"
"""Save the trial and release its worker. The scheduler may continue the trial later."""
STOP = "STOP"
"""End the trial."""
NOOP = "NOOP"
"""Do nothing: the scheduler has already requested an action in this hook."""

DECISIONS = (CONTINUE, PAUSE, STOP, NOOP)


class Decision(str):
    """A `str` equal to CONTINUE, PAUSE, STOP or NOOP, with an optional reason and further instructions.

    Args:
        action: CONTINUE, PAUSE, STOP or NOOP.
        reason: The reason, as a sentence for users.
        save: True to save the trial before the decision is carried out.
        exploit: A pair (donor, config): the trial continues from the donor's checkpoint with `config`.
        facts: The data behind the reason: `rule`, and where they apply `metric`, `value`, `time`, `rung`, `bracket`,
            `cutoff`, `rank`, `of`, `donor` (a trial id), `perturbed` (the old and the new value of each changed
            hyperparameter).
        kind: The kind of the end, for STOP; by default the scheduler's request.

    Raises:
        ValueError: If `action` is another word.
    """

    reason: str
    save: bool
    exploit: tuple[Trial, dict[str, Any]] | None
    facts: Mapping[str, Any]
    ending: Ending
    """Why the trial ends, if the decision is STOP."""

    def __new__(
        cls,
        action: str,
        reason: str = "",
        *,
        save: bool = False,
        exploit: tuple[Trial, dict[str, Any]] | None = None,
        facts: Mapping[str, Any] | None = None,
        kind: EndKind = EndKind.SCHEDULER,
    ) -> Decision:
        if action not in DECISIONS:
            raise ValueError(f"a scheduler's decision must be one of {', '.join(DECISIONS)}, but got {action!r}")
        self = super().__new__(cls, action)
        self.reason = reason
        self.save = save
        self.exploit = exploit
        self.facts = facts or {}
        self.ending = Ending(kind, reason, self.facts)
        return self

    @classmethod
    def stop(cls, ending: Ending) -> Decision:
        """The decision to end a trial for this reason."""
        return cls(STOP, ending.text, facts=ending.facts, kind=ending.kind)

    @classmethod
    def of(cls, value: str) -> Decision:
        """Convert `value` to a Decision, if it is none."""
        return value if isinstance(value, Decision) else cls(value)


GO_ON = Decision(CONTINUE)
"""Continue, without a reason: one shared object, because most results get it."""
