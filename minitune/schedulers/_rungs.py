"""The levels (rungs) at which successive halving compares trials: where they lie, and who ranks how."""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from fractions import Fraction
from typing import Any, NamedTuple


class Entry(NamedTuple):
    """What one trial had reached at a level. Entries sort from best to worst.

    Attributes:
        loss: Minus the score, so that smaller is better; infinite for the worst score.
        arrival: How many values had been recorded in the run before: of two equal losses the earlier ranks better.
        trial_id: Whose value it is.
    """

    loss: float
    arrival: int
    trial_id: str


def exact(factor: float) -> int | Fraction:
    """`factor` as the number that the user wrote, so that dividing by it does not round.

    Args:
        factor: A finite number; 1.1 stands for eleven tenths.

    Returns:
        An int where it is one, else a Fraction.
    """
    fraction = Fraction(factor) if isinstance(factor, int) else Fraction(repr(float(factor)))
    return int(fraction) if fraction.denominator == 1 else fraction


def milestones(grace_period: float, max_t: float, factor: float, bracket: int) -> list[float]:
    """Where the levels of a bracket lie: `r * eta^s, r * eta^(s+1), ...` while below `max_t`, by multiplication.

    Args:
        grace_period: r, the first level of bracket 0.
        max_t: The end; itself no level.
        factor: eta.
        bracket: s.

    Returns:
        Ascending times; empty if the bracket has no level.
    """
    levels = []
    level, power = grace_period, 0
    while level < max_t:
        if power >= bracket:
            levels.append(level)
        level, power = level * factor, power + 1
    return levels


def bracket_size(brackets: int, place: int, factor: int | Fraction) -> int:
    """How many trials HyperBand puts into a bracket, and so how often ASHA draws it: `ceil(B / (B - p) * eta^(B-1-p))`.

    Source: Li et al., "Hyperband" (arXiv 1603.06560), algorithm 1: the number of configurations per bracket.

    Args:
        brackets: B.
        place: p: 0 for the bracket that cuts most often, B - 1 for the one that never does.
        factor: eta.

    Returns:
        At least 1.
    """
    return math.ceil(Fraction(brackets, brackets - place) * Fraction(factor) ** (brackets - 1 - place))


class Level:
    """The values recorded at one milestone, best first.

    Args:
        milestone: The time of the level.
    """

    __slots__ = ("lost", "milestone", "ranked", "waiting")

    def __init__(self, milestone: float):
        self.milestone = milestone
        self.ranked: list[Entry] = []
        # Promotion only: entries of trials put aside here and not promoted yet; entries of trials that failed for good
        # and so cannot be promoted any more.
        self.waiting: list[Entry] = []
        self.lost: list[Entry] = []

    def __len__(self) -> int:
        return len(self.ranked)

    def record(self, entry: Entry) -> None:
        """Add a value. O(log n) comparisons."""
        insort(self.ranked, entry)

    def rank(self, entry: Entry) -> int:
        """The rank of a recorded value, 1 for the best. O(log n)."""
        return bisect_left(self.ranked, entry) + 1

    def discard_waiting(self, entry: Entry) -> None:
        """Forget that the trial of `entry` waits here for its promotion, if it does. O(log n) comparisons."""
        place = bisect_left(self.waiting, entry)
        if place < len(self.waiting) and self.waiting[place] == entry:
            del self.waiting[place]

    def lost_before(self, entry: Entry) -> int:
        """How many of those that failed for good rank better than `entry`."""
        return bisect_left(self.lost, entry)

    def get_state(self) -> dict[str, Any]:
        """The level as plain data."""
        return {
            "milestone": self.milestone,
            "ranked": [tuple(entry) for entry in self.ranked],
            "waiting": [tuple(entry) for entry in self.waiting],
            "lost": [tuple(entry) for entry in self.lost],
        }

    def set_state(self, state: dict[str, Any]) -> None:
        """Take over what `get_state` returned."""
        self.ranked = [Entry(*entry) for entry in state["ranked"]]
        self.waiting = [Entry(*entry) for entry in state["waiting"]]
        self.lost = [Entry(*entry) for entry in state["lost"]]
