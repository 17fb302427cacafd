"""The members of a population: how they rank, and who of those that wait has trained least."""

from __future__ import annotations

import heapq
import math
from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Collection
from dataclasses import asdict, dataclass, field
from fractions import Fraction
from typing import Any

from minitune.experiment.lifecycle import Phase
from minitune.experiment.trial import Trial
from minitune.schedulers._rungs import Entry

_WAITS = frozenset({Phase.QUEUED, Phase.PAUSED})
_ENDS_SOON = frozenset({Phase.TRAINING, Phase.SAVING})


@dataclass(slots=True)
class Member:
    """What a population knows of one unfinished trial.

    Attributes:
        trial_id: Which one.
        tag: Its tag before anything was perturbed.
        entry: Its score in the order of the population, or None before its first turn.
        turn_score: Its score at its last turn: larger is better.
        time: How long it, or whom it was cloned from, has trained.
        last_turn: The time of its last turn.
        iteration: Its `training_iteration` at its last turn.
        is_clone: Whether it has been given another one's state, which it can pass on.
        pauses_after: The attempt after which it waits, or -1 if it is not to wait after the one that runs.
        ticket: Which of its places in the waiting line counts.
        history: Times and scores of what it, or whom it was cloned from, has reported; kept only where members are
            compared at the same time.
    """

    trial_id: str
    tag: str
    entry: Entry | None = None
    turn_score: float = -math.inf
    time: float = 0.0
    last_turn: float = 0.0
    iteration: int = 0
    is_clone: bool = False
    pauses_after: int = -1
    ticket: int = 0
    history: list[tuple[float, float]] = field(default_factory=list)

    @property
    def score(self) -> float:
        """The score by which it is ranked: larger is better."""
        return -self.entry.loss if self.entry is not None else -math.inf

    @property
    def is_worst(self) -> bool:
        """Whether it had no number at its last turn."""
        return self.turn_score == -math.inf


class Population:
    """Members by trial id, ranked by the score of their last turn. Every operation is O(log n) comparisons.

    Args:
        fraction: The part of the population that makes its upper, and its lower, end.
        at_same_time: Whether members are compared by what they had reached at the largest time that all have reached;
            else by the score of their last turn.
    """

    def __init__(self, fraction: int | Fraction, *, at_same_time: bool = False):
        self.members: dict[str, Member] = {}
        self.fraction = fraction
        self._at_same_time = at_same_time
        self._times: list[tuple[float, str]] = []
        self._common = -math.inf
        self._ranked: list[Entry] = []
        self._arrivals = 0
        self._line: list[tuple[float, int, str]] = []

    def __len__(self) -> int:
        return len(self._ranked)

    def add(self, trial_id: str, tag: str) -> Member:
        """Take in a new member."""
        member = self.members[trial_id] = Member(trial_id, tag)
        return member

    def remove(self, trial_id: str) -> None:
        """Forget a member, if it is one."""
        member = self.members.pop(trial_id, None)
        if member is not None:
            self._unrank(member)

    # -- ranks -------------------------------------------------------------------------------------------------------

    def hear(self, member: Member, time: float, score: float) -> None:
        """A member has come to a time."""
        member.time = time
        if self._at_same_time:
            if not member.history or member.history[-1][0] >= time:  # the first one, or it was turned back
                del member.history[bisect_left(member.history, (time,)) :]
                heapq.heappush(self._times, (time, member.trial_id))
            member.history.append((time, score))

    def record(self, member: Member, score: float) -> None:
        """A member has its turn, with a new score. Of two equal ones the score that came first ranks better."""
        self._unrank(member)
        member.turn_score = score
        if self._at_same_time:
            member.entry = self._entry_at(member, self._common, self._arrivals)
        else:
            member.entry = Entry(-score, self._arrivals, member.trial_id)
        self._arrivals += 1
        insort(self._ranked, member.entry)
        if self._at_same_time:
            self._compare_at_same_time()

    def become(self, member: Member, donor: Member) -> None:
        """A member is to go on from the state that its donor had at its last turn."""
        member.history = [seen for seen in donor.history if seen[0] <= donor.last_turn]
        if self._at_same_time:
            member.history = member.history or [(donor.last_turn, donor.turn_score)]
            heapq.heappush(self._times, (member.history[-1][0], member.trial_id))
        member.last_turn, member.time, member.is_clone = donor.last_turn, donor.time, True

    def _compare_at_same_time(self) -> None:
        """Rank everybody by what it had reached at the largest time that all have reached.

        O(log n) while that time stays the same, which it does but once in a round; else O(n log n).
        """
        common = self._common_time()
        if common != self._common:
            self._common = common
            for member in self.members.values():
                if member.entry is not None:
                    member.entry = self._entry_at(member, common, member.entry.arrival)
            self._ranked = sorted(member.entry for member in self.members.values() if member.entry is not None)

    def _common_time(self) -> float:
        """The least of the times that members have come to, of those that have reported."""
        while True:
            time, trial_id = self._times[0]
            member = self.members.get(trial_id)
            if member is not None and member.history and member.history[-1][0] == time:
                return time
            heapq.heappop(self._times)
            if member is not None and member.history:
                heapq.heappush(self._times, (member.history[-1][0], trial_id))

    def _entry_at(self, member: Member, time: float, arrival: int) -> Entry:
        """What a member had reached at a time, or as soon after it as is known; earlier results are forgotten."""
        place = max(1, bisect_right(member.history, (time, math.inf)))
        del member.history[: place - 1]
        score = -math.inf if member.is_worst else member.history[0][1]
        return Entry(-score, arrival, member.trial_id)

    def rank(self, member: Member) -> int:
        """The rank of a member that has a score, 1 for the best."""
        return bisect_left(self._ranked, member.entry) + 1  # type: ignore[type-var]  # it has an entry

    def time_of_rank(self, member: Member) -> float:
        """The time of the result by which a member is ranked."""
        return member.history[0][0] if self._at_same_time and member.history else member.time

    def is_low(self, member: Member) -> bool:
        """Whether a member belongs to the lower end, or has no number for a score while the others may."""
        ends = self.size_of_ends()
        return ends > 0 and (self.rank(member) > len(self) - ends or member.is_worst)

    def lower(self) -> list[Member]:
        """Those for which `is_low` holds, the best first. O(n)."""
        return [member for member in self.best(len(self)) if self.is_low(member)]

    def best(self, count: int) -> list[Member]:
        """The best so many, in order. O(count)."""
        return [self.members[entry.trial_id] for entry in self._ranked[:count]]

    def at(self, rank: int) -> Member:
        """The member of a rank, 1 for the best."""
        return self.members[self._ranked[rank - 1].trial_id]

    def count_better(self, member: Member) -> int:
        """How many of the upper end are strictly better than a member: they are the first ones."""
        better = bisect_left(self._ranked, Entry(-member.score, -1, ""))
        return min(better, self.size_of_ends())

    def size_of_ends(self) -> int:
        """How many members make the upper end, and how many the lower one."""
        return min(math.ceil(len(self) * self.fraction), len(self) // 2)

    def _unrank(self, member: Member) -> None:
        if member.entry is not None:
            del self._ranked[bisect_left(self._ranked, member.entry)]
            member.entry = None

    # -- the waiting line ----------------------------------------------------------------------------------------------

    def wait(self, member: Member) -> None:
        """A member waits, or will when it has been put aside."""
        member.ticket += 1
        heapq.heappush(self._line, (member.time, member.ticket, member.trial_id))

    def leave_line(self, member: Member) -> None:
        """A member does not wait: it runs, or must not run now."""
        member.ticket += 1
        member.pauses_after = -1

    def first_waiting(self, find: Callable[[str], Trial | None]) -> Trial | None:
        """Who has trained least of those that wait and can be started.

        Args:
            find: Gives the live trial of an id.
        """
        not_yet = []
        chosen = None
        while self._line and chosen is None:
            _, ticket, trial_id = self._line[0]
            member, trial = self.members.get(trial_id), find(trial_id)
            if member is not None and trial is not None and ticket == member.ticket:
                if trial.phase in _WAITS:
                    chosen = trial
                    break
                if member.pauses_after == trial.attempt and trial.phase in _ENDS_SOON:
                    not_yet.append(self._line[0])
            heapq.heappop(self._line)
        for place in not_yet:
            heapq.heappush(self._line, place)
        return chosen

    # -- state -------------------------------------------------------------------------------------------------------

    def get_state(self) -> dict[str, Any]:
        """The population as plain data."""
        members = [
            {**asdict(member), "entry": None if member.entry is None else tuple(member.entry)}
            for member in self.members.values()
        ]
        return {"members": members, "arrivals": self._arrivals, "common": self._common}

    def set_state(self, state: dict[str, Any], not_in_line: Collection[str] = ()) -> None:
        """Take over what `get_state` returned.

        Args:
            state: The state.
            not_in_line: The members that wait for others and not for room.
        """
        known = [Member(**fields) for fields in state["members"]]
        for member in known:
            member.entry = None if member.entry is None else Entry(*member.entry)
        self.members = {member.trial_id: member for member in known}
        self._ranked = sorted(member.entry for member in known if member.entry is not None)
        self._times = sorted((member.history[-1][0], member.trial_id) for member in known if member.history)
        self._common = state["common"]
        in_line = [member for member in known if member.trial_id not in not_in_line]
        self._line = [(member.time, member.ticket, member.trial_id) for member in in_line]
        heapq.heapify(self._line)
        self._arrivals = state["arrivals"]
