"""The order of the observations: which of them are the best, while trials of different lengths run and fail.

Where a scheduler stops trials early, they are compared at one step (a rung), so that each has its chance. Each
observation has a sort key, kept in one sorted list, so a suggestion looks at few of them. Several objectives have no
order of their own: theirs is by front, then by the volume that each point adds.
"""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heapreplace
from itertools import islice
from typing import Any

from minitune.base.numbers import known_number
from minitune.experiment.goal import non_dominated

Key = tuple[float, ...]
"""The sort key of an observation; smaller is better."""

Rank = tuple[Key, float, int]
"""Key, arrival (infinite while the trial runs) and number. Smaller is better, and no two ranks are equal."""

_WORST: Key = (math.inf,)
"""The key of a failed trial, and of a trial whose value is not a number or infinitely bad."""

_REFERENCE = 1.1
"""Volumes end a tenth beyond the worst value of each objective, so that the ends of a front also add volume. As
in Optuna; not measured.
"""

_LEAST_ON_RUNG = 10
"""How many trials must reach a rung before it is used. Not measured: with fewer, kernels follow chance."""


@dataclass
class Observation:
    """A trial, or a point that was evaluated elsewhere.

    Attributes:
        trial_id: Empty for such a point.
        repeats: The id of the trial that it repeats; empty if it repeats none.
        values: The parameter values by name (for a choice, the index); None for a value outside the space.
        config: The configuration, as long as the space is unknown.
        rows: The value at each step, if trials are compared at rungs.
        has_failed: Whether the trial has failed and will not be retried.
    """

    number: int
    values: dict[str, Any] = field(default_factory=dict)
    config: Any = None
    value: Any = None
    step: float = 0
    rows: dict[float, Any] = field(default_factory=dict)
    arrival: int | None = None
    has_failed: bool = False
    trial_id: str = ""
    repeats: str = ""


class Ranking:
    """Keeps observations in order, best first.

    Call `update` after each change of an observation.

    Invariant: `_order` is the sorted list of all ranks, and `_ranks` has them by the observation's number.
    """

    def __init__(self, modes: Sequence[str], by_rung: bool, observations: Iterable[Observation] = ()):
        self._signs = [{"min": 1.0, "max": -1.0, "obs": 0.0}[mode] for mode in modes]
        self._order: list[Rank] = []
        self._ranks: dict[int, Rank] = {}
        self._rungs = _Rungs() if by_rung else None
        for observation in observations:
            self.update(observation)

    def __contains__(self, number: int) -> bool:
        return number in self._ranks

    def __len__(self) -> int:
        """The number of observations with a rank: ended ones, or those at the rung."""
        return len(self._order)

    def update(self, observation: Observation) -> None:
        """Insert a new observation, or move a changed one."""
        # All are compared at another step now. That is rare: a search has few rungs.
        if self._rungs is not None and self._rungs.has_moved(observation):
            for each in self._rungs.observations.values():
                self._insert(each)
        self._insert(observation)

    def best(self, among: Collection[int], share: float, most: int) -> list[int]:
        """The numbers of the best observations of `among`, best first: a `share`, rounded up, at most `most`, without
        the worst.

        Several objectives are sorted by front, then by the volume that each adds (Ozaki et al., "Multiobjective
        tree-structured Parzen estimator", JAIR 2022).
        """
        found = (rank for rank in self._order if rank[2] in among)
        if sum(map(bool, self._signs)) > 1:
            own = list(found)
            return _pareto_best([rank for rank in own if rank[0] != _WORST], min(math.ceil(share * len(own)), most))
        own = list(islice(found, math.ceil(most / share)))  # with more observations, `most` is the limit
        return [number for key, _, number in own[: min(math.ceil(share * len(own)), most)] if key != _WORST]

    def value(self, number: int) -> float:
        """The loss of a ranked observation with one objective. Smaller is better; NaN is the worst."""
        key = self._ranks[number][0]
        if key == _WORST:
            return math.nan
        return key[0]

    def _insert(self, observation: Observation) -> None:
        old = self._ranks.get(observation.number)
        new = self._rank(observation)
        if new == old:
            return
        if old is not None:
            del self._order[bisect_left(self._order, old)]
            del self._ranks[observation.number]
        if new is not None:
            insort(self._order, new)
            self._ranks[observation.number] = new

    def _rank(self, observation: Observation) -> Rank | None:
        if self._rungs is not None and not observation.has_failed:
            if self._rungs.highest not in observation.rows:
                return None
            key = self._value_key(observation.rows[self._rungs.highest])
        elif observation.arrival is None:
            return None
        elif observation.has_failed:
            key = _WORST
        else:
            key = self._value_key(observation.value)
        arrival: float = math.inf
        if observation.arrival is not None:
            arrival = observation.arrival
        return key, arrival, observation.number

    def _value_key(self, value: Any) -> Key:
        if isinstance(value, tuple):
            values = value
        else:
            values = (value,)
        key = []
        for each, sign in zip(values, self._signs, strict=False):
            if sign:
                number = known_number(each)
                if number is None or sign * number == math.inf:
                    return _WORST
                key.append(sign * float(number))
        return tuple(key)


class _Rungs:
    """Finds the step at which trials are compared."""

    def __init__(self) -> None:
        self.highest: float | None = None
        self.observations: dict[int, Observation] = {}
        self._counts: dict[float, int] = {}
        self._rows_seen: dict[int, int] = {}

    def has_moved(self, observation: Observation) -> bool:
        """Count an observation's new steps. Return whether the highest rung has changed."""
        before = self.highest
        rows = observation.rows
        new = len(rows) - self._rows_seen.get(observation.number, 0)
        if new:
            self._rows_seen[observation.number] = len(rows)
            self.observations[observation.number] = observation
        for step in islice(reversed(rows), new):
            self._counts[step] = self._counts.get(step, 0) + 1
            if self.highest is None or self._weight(step) > self._weight(self.highest):
                self.highest = step
        return self.highest != before

    def _weight(self, step: float) -> tuple[int, float]:
        """The rung is the step with the largest key."""
        return min(self._counts.get(step, 0), _LEAST_ON_RUNG), step


def _pareto_best(ranks: Sequence[Rank], count: int) -> list[int]:
    """The best ranks: by front, and within a front those first that add most to the volume."""
    spans = [(min(values), max(values)) for values in zip(*(key for key, _, _ in ranks), strict=True)]
    # Of points that add as much, the earlier one comes first.
    left = sorted(ranks, key=lambda rank: (rank[1], rank[0], rank[2]))
    chosen: list[int] = []
    while left and len(chosen) < count:
        front = non_dominated([([-loss for loss in rank[0]], rank) for rank in left])
        points = [tuple(map(_share_of, key, spans)) for key, _, _ in front]
        chosen += [front[index][2] for index in _by_volume(points, count - len(chosen))]
        in_front = {number for _, _, number in front}
        left = [rank for rank in left if rank[2] not in in_front]
    return chosen


def _share_of(value: float, span: tuple[float, float]) -> float:
    """A value scaled to the span of all values. 0 is the best; also 0 if the span is not finite."""
    low, high = span
    if 0 < high - low < math.inf:
        return (value - low) / (high - low)
    return 0.0


def _by_volume(points: Sequence[Key], count: int) -> list[int]:
    """The indices of `count` points, chosen greedily: each adds most to the volume that the ones before dominate.

    That volume decreases with each chosen point, so it is computed again only for the largest old values (Minoux 1978,
    "Accelerated greedy algorithms for maximizing submodular set functions").
    """
    chosen: list[int] = []
    seeming = [(-_volume_added(point, ()), index, 0) for index, point in enumerate(points)]
    heapify(seeming)
    while seeming and len(chosen) < count:
        _, index, known = seeming[0]
        if known == len(chosen):
            chosen.append(index)
            heappop(seeming)
        else:
            added = _volume_added(points[index], [points[other] for other in chosen])
            heapreplace(seeming, (-added, index, len(chosen)))
    return chosen


def _volume_added(point: Key, others: Iterable[Key]) -> float:
    """The volume, up to `_REFERENCE`, that a point dominates and `others` do not.

    See While, Bradstreet and Barone, "A fast way of calculating exact hypervolumes" (2012).
    """
    front: list[Key] = []
    for limited in sorted({tuple(map(max, point, other)) for other in others}):
        if not any(all(a <= b for a, b in zip(known, limited, strict=True)) for known in front):
            front.append(limited)
    whole = math.prod(_REFERENCE - each for each in point)
    return whole - sum(_volume_added(each, front[index + 1 :]) for index, each in enumerate(front))
