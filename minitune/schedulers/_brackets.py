"""One bracket of HyperBand: its levels, its members, and which of them go on when a level closes. No run in sight."""

from __future__ import annotations

import math
from bisect import bisect_left
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NamedTuple

from minitune.schedulers._rungs import Entry


@dataclass(slots=True)
class Member:
    """One live trial in a bracket.

    Attributes:
        bracket: Its bracket.
        rung: Index of the level that it is on its way to, or waits at.
        time: How far it was at its last arrival.
        entry: What it brought there; None as long as it has not arrived at its level.
    """

    bracket: Bracket
    rung: int = 0
    time: float = -math.inf
    entry: Entry | None = None


class Closing(NamedTuple):
    """What follows when a level closes.

    Attributes:
        milestone: The level.
        entered: How many had come to the level, or had been on their way to it.
        kept: Those that go on, best first.
        dropped: Those that end, best first.
    """

    milestone: float
    entered: int
    kept: list[Entry]
    dropped: list[Entry]

    @property
    def cutoff(self) -> float | None:
        """The worst loss that goes on."""
        return self.kept[-1].loss if self.kept else None

    def rank(self, entry: Entry) -> int:
        """The place of one of those that had come, 1 for the best. O(log n)."""
        place = bisect_left(self.kept, entry)
        return place + 1 if place < len(self.kept) else place + bisect_left(self.dropped, entry) + 1


class Bracket:
    """A number of trials that are halved, more precisely: cut to one part in eta, at each of a number of levels.

    A level closes when all who are still in the bracket have arrived, and nobody is to come any more. Those that have
    left it otherwise count as having been there, but cannot be kept.

    Args:
        index: s: how often the trials are cut.
        band: The number of its band.
        capacity: n: how many trials it takes.
        times: Its levels, ascending; the last one is the end.
        eta: One part in so many is kept.

    Attributes:
        is_open: Whether more trials may come.
        members: The trials that have not ended and were not dropped, by id.
        rung: Index of the level at which the trials are compared next.
        ready: Those that were kept and may go on, best first, as long as they have not been seen running again.
        leaving: Those that were dropped and have not ended yet.
        ended: How many have ended, by status.
    """

    def __init__(self, index: int, band: int, capacity: int, times: list[float], eta: int | Fraction):
        self.index = index
        self.band = band
        self.times = times
        self.capacity = capacity
        self.is_open = True
        self.members: dict[str, Member] = {}
        self.rung = 0
        self.ready: dict[str, None] = {}
        self.leaving: dict[str, None] = {}
        self.ended: dict[str, int] = {}
        self._eta = eta
        self._entered = 0
        self._arrived = 0

    # -- who is in it ----------------------------------------------------------------------------------------------

    @property
    def num_moving(self) -> int:
        """How many are on their way to a level."""
        return len(self.members) - self._arrived

    @property
    def is_over(self) -> bool:
        """Whether nobody is in it, and nobody will be."""
        return not (self.is_open or self.members or self.leaving)

    @property
    def is_at_end(self) -> bool:
        """Whether those that are left are on their way to the end."""
        return self.rung == len(self.times) - 1

    @property
    def share_done(self) -> float:
        """About how much of its work is done, in terms of levels."""
        if self.is_over:
            return 1.0
        return (self.rung + self._arrived / max(1, self._entered) / 2) / len(self.times)

    @property
    def milestone(self) -> float:
        """The level at which the trials are compared next, or the end."""
        return self.times[self.rung]

    @property
    def size(self) -> int:
        """How many trials it takes, or have come to the present level."""
        return self.capacity if self.is_open else self._entered

    def add(self, trial_id: str) -> Member:
        """Take in a new trial; the last one fills the bracket."""
        member = self.members[trial_id] = Member(self)
        self._entered += 1
        if self._entered >= self.capacity:
            self.is_open = False
        return member

    def remove(self, trial_id: str, status: str) -> None:
        """A trial has ended."""
        member = self.members.pop(trial_id, None)
        self.ready.pop(trial_id, None)
        self.leaving.pop(trial_id, None)
        self._arrived -= member is not None and member.entry is not None
        self.ended[status] = self.ended.get(status, 0) + 1

    # -- levels ----------------------------------------------------------------------------------------------------

    def arrive(self, member: Member, time: float, entry: Entry) -> None:
        """A member has reached the level that it was on its way to."""
        member.time, member.entry = time, entry
        self._arrived += 1

    def close(self) -> list[Closing]:
        """Close each level that can be closed, one after the other: a trial may have passed several at once.

        Who goes beyond the last level but one is on its way to the end, where nobody is compared.
        """
        closings = []
        while not self.is_open and self.members and self.num_moving == 0 and not self.is_at_end:
            arrived = sorted(member.entry for member in self.members.values() if member.entry is not None)
            quota = max(1, self._entered // self._eta)
            kept = [entry for entry in arrived[:quota] if entry.loss < math.inf]
            closings.append(Closing(self.milestone, self._entered, kept, arrived[len(kept) :]))
            self.rung += 1
            self._let_in(kept)
            for entry in arrived[len(kept) :]:
                del self.members[entry.trial_id]
                self.leaving[entry.trial_id] = None
        if closings:
            self.ready = dict.fromkeys(
                entry.trial_id
                for entry in closings[-1].kept
                if self.is_at_end or self.members[entry.trial_id].entry is None
            )
        return closings

    def _let_in(self, kept: list[Entry]) -> None:
        """Those that go on begin their way to the present level; some may be beyond it already."""
        self._entered, self._arrived = len(kept), 0
        for entry in kept:
            member = self.members[entry.trial_id]
            member.rung = self.rung
            if member.time >= self.milestone:
                self._arrived += 1
            else:
                member.entry = None

    # -- state -----------------------------------------------------------------------------------------------------

    def get_state(self) -> dict[str, Any]:
        """The bracket as plain data."""
        return {
            "index": self.index,
            "band": self.band,
            "capacity": self.capacity,
            "times": list(self.times),
            "is_open": self.is_open,
            "rung": self.rung,
            "entered": self._entered,
            "members": {
                trial_id: (member.rung, member.time, member.entry and tuple(member.entry))
                for trial_id, member in self.members.items()
            },
            "ready": list(self.ready),
            "leaving": list(self.leaving),
            "ended": dict(self.ended),
        }

    @classmethod
    def of(cls, state: dict[str, Any], eta: int | Fraction) -> Bracket:
        """The bracket that `get_state` described."""
        bracket = cls(state["index"], state["band"], state["capacity"], list(state["times"]), eta)
        bracket.is_open, bracket.rung, bracket._entered = state["is_open"], state["rung"], state["entered"]
        for trial_id, (rung, time, entry) in state["members"].items():
            bracket.members[trial_id] = Member(bracket, rung, time, Entry(*entry) if entry else None)
        bracket._arrived = sum(member.entry is not None for member in bracket.members.values())
        bracket.ready, bracket.leaving = dict.fromkeys(state["ready"]), dict.fromkeys(state["leaving"])
        bracket.ended = dict(state["ended"])
        return bracket


def largest_index(max_t: float, eta: float) -> int:
    """The largest s with eta^s <= max_t, by multiplication; 0 if there is none."""
    index, power = 0, eta
    while power <= max_t:
        index, power = index + 1, power * eta
    return index


def levels(max_t: float, eta: float, index: int) -> list[float]:
    """Where the levels of bracket s lie: `max(1, round(max_t * eta^(i - s)))` for i = 0..s-1, then `max_t` itself.

    Args:
        max_t: The end.
        eta: The factor between neighbours.
        index: s.

    Returns:
        Ascending times, equal ones merged.
    """
    below = (max(1, round(max_t / eta ** (index - i))) for i in range(index))
    return [*dict.fromkeys(level for level in below if level < max_t), max_t]
