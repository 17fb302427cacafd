"""What a searcher knows of each trial, and which trials were better.

Keys for sorting are tuples, smaller is better. A trial that has failed, or whose value is NaN, None, no number or
infinitely bad, has the key `WORST`.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from minitune._checks import is_real, shown

Rows = list[tuple[float, Any]]
"""Pairs of step and value, in order."""
Key = tuple[float, ...]
EarlyStop = str | Callable[[Rows], Any] | None

WORST: Key = (math.inf,)
_POLICIES = ("last", "depth", "rung")
_LEAST_ON_RUNG = 10
"""A rung is believed once so many trials have reached it."""


@dataclass
class Observation:
    """A trial, or a point that was tried elsewhere.

    Attributes:
        number: Place in the order of suggestion.
        values: Parameter values by name, for a choice the index of the category; None for one outside of the space.
        config: The configuration, until the space is known in which it has values.
        value: The last value seen; a tuple for several objectives.
        step: The last step that was seen.
        rows: Value by step, where the policy needs them.
        arrival: Place in the order of ends; None while the trial runs or may run on.
        is_paused: Whether it waits.
        has_failed: Whether it failed for good.
    """

    number: int
    values: dict[str, Any] = field(default_factory=dict)
    config: Any = None
    value: Any = None
    step: float = 0
    rows: dict[float, Any] = field(default_factory=dict)
    arrival: int | None = None
    is_paused: bool = False
    has_failed: bool = False

    def state(self) -> dict[str, Any]:
        """The arguments that make another one like it."""
        return {**vars(self), "rows": dict(self.rows)}


Rank = tuple[Key, float, int]
"""Key, arrival (infinite while it runs) and number: smaller is better, and no two are equal."""


def check_early_stop(early_stop: Any, has_several_objectives: bool) -> None:
    """Check the argument.

    Raises:
        ValueError: If it is neither a policy's name nor a function, or does not go with several objectives.
    """
    if not (early_stop is None or callable(early_stop) or early_stop in _POLICIES):
        raise ValueError(
            f"early_stop must be one of {', '.join(_POLICIES)}, None, or a function of a trial's list of (step, value) "
            f"that returns the value it counts with, but got {shown(early_stop)}"
        )
    if has_several_objectives and early_stop not in (None, "last"):
        raise ValueError(f"early_stop must be None or 'last' for several objectives, but got {shown(early_stop)}")


class Ranking:
    """Sorts observations.

    Args:
        modes: `"min"`, `"max"` or `"obs"` for each objective.
        early_stop: How trials of different lengths compare: `"last"`, `"depth"`, `"rung"` or a function.
    """

    def __init__(self, modes: Sequence[str], early_stop: EarlyStop):
        self._signs = [{"min": 1.0, "max": -1.0, "obs": 0.0}[mode] for mode in modes]
        self._early_stop = early_stop
        self._final: dict[int, Rank] = {}

    def rank(self, ended: Sequence[Observation], live: Iterable[Observation]) -> dict[int, Rank]:
        """The ranks by observation number, of all that have ended or have a value by the policy.

        Args:
            ended: In order of arrival; nothing but new ones behind the others from one call to the next.
            live: Those that may run on: one that waits counts with what it has, and with `"rung"` also one that runs.
        """
        if self._early_stop == "rung":
            return self._rank_on_rung([*ended, *live])
        for each in ended[len(self._final) :]:
            self._final[each.number] = _rank(self._key(each), each)
        waiting = {
            each.number: _rank(self._key(each), each) for each in live if each.is_paused and each.value is not None
        }
        return {**self._final, **waiting}

    def best(self, ranks: Iterable[Rank], count: int) -> list[int]:
        """The numbers of the best `count` observations that are not worst, best first.

        Several objectives are sorted by non-dominated depth, then by crowding distance (Deb et al., "A fast and elitist
        multiobjective genetic algorithm: NSGA-II", 2002).
        """
        if sum(map(bool, self._signs)) > 1:
            return _pareto_best([rank for rank in ranks if rank[0] != WORST], count)
        return [rank[2] for rank in heapq.nsmallest(count, ranks) if rank[0] != WORST]

    def _key(self, observation: Observation) -> Key:
        if observation.has_failed:
            return WORST
        if callable(self._early_stop):
            rows = [(step, value) for step, value in observation.rows.items() if is_real(value) and value == value]
            return self._value_key(self._early_stop(rows)) if rows else WORST
        key = self._value_key(observation.value)
        return (-observation.step, *key) if self._early_stop == "depth" and key != WORST else key

    def _value_key(self, value: Any) -> Key:
        values = value if isinstance(value, tuple) else (value,)
        key = []
        for each, sign in zip(values, self._signs, strict=False):
            if sign:
                number = sign * float(each) if is_real(each) else math.inf
                if not number < math.inf:
                    return WORST
                key.append(number)
        return tuple(key)

    def _rank_on_rung(self, observations: Sequence[Observation]) -> dict[int, Rank]:
        """Those that have reached the rung, by their value there; failed ones are worst."""
        rung = _highest_rung(observations)
        found = {}
        for each in observations:
            if each.has_failed:
                found[each.number] = _rank(WORST, each)
            elif rung is not None and rung in each.rows:
                found[each.number] = _rank(self._value_key(each.rows[rung]), each)
        return found


def _highest_rung(observations: Sequence[Observation]) -> float | None:
    """The highest step that enough trials have a value at; the one that most have, if there is none."""
    counts: dict[float, int] = {}
    for each in observations:
        for step in each.rows:
            counts[step] = counts.get(step, 0) + 1
    believed = [step for step, count in counts.items() if count >= _LEAST_ON_RUNG]
    return max(believed) if believed else min(counts, key=lambda step: (-counts[step], -step), default=None)


def _rank(key: Key, observation: Observation) -> Rank:
    return key, math.inf if observation.arrival is None else observation.arrival, observation.number


def _pareto_best(ranks: Sequence[Rank], count: int) -> list[int]:
    """Front by front; of the last one that is needed those with the most room around them."""
    left = sorted(ranks)
    chosen: list[int] = []
    while left and len(chosen) < count:
        front: list[Rank] = []
        rest: list[Rank] = []
        for rank in left:  # in this order nothing is dominated by what comes later
            rivals = front[-1:] if len(rank[0]) == 2 else front  # of two objectives the last has the least second one
            (rest if any(_dominates(other[0], rank[0]) for other in rivals) else front).append(rank)
        room = _crowding([key for key, _, _ in front])
        order = sorted(range(len(front)), key=lambda index: (-room[index], front[index][1]))
        chosen += [front[index][2] for index in order]
        left = rest
    return chosen[:count]


def _dominates(left: Key, right: Key) -> bool:
    return left != right and all(a <= b for a, b in zip(left, right, strict=True))


def _crowding(keys: Sequence[Key]) -> list[float]:
    """Crowding distances within one front: how far apart the neighbours are, summed over the objectives."""
    room = [0.0] * len(keys)
    for values in zip(*keys, strict=True):
        order = sorted(range(len(keys)), key=values.__getitem__)
        span = values[order[-1]] - values[order[0]]
        room[order[0]] = room[order[-1]] = math.inf
        for before, index, after in zip(order, order[1:], order[2:], strict=False):
            if 0 < span < math.inf:
                room[index] += (values[after] - values[before]) / span
    return room
