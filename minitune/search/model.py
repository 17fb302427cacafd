"""Which configuration comes next: drawn from the space, or from the mixtures of its groups, and none twice.

A configuration is drawn from the top: the categories drawn so far decide which groups exist. The mixtures of a group
are fitted to the best of those observations that have it. A finite space knows each configuration that was tried, so
that the last ones are found; an infinite one keeps a distance from points that were tried.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from itertools import product
from typing import Any

from minitune.search.groups import Group, Parent
from minitune.search.parzen import Mixture, Point, bad_side, best_candidate, draw_by_ratio, good_side
from minitune.search.ranking import Observation, Ranking
from minitune.space.domains import Categorical
from minitune.space.parameters import Axis, Parameter, draw, first_equals, parameters

_GOOD = 0.2
_MOST_GOOD = 25
"""The share of the observations that counts as good, and the maximum number, as in HyperOpt and Optuna. Not measured:
more widen the search.
"""

_CANDIDATES = 24
"""How many draws are compared for a suggestion, as in HyperOpt and Optuna. Not measured here."""

_ATTEMPTS = 10
"""How many times a configuration that was already tried is redrawn. The second half of the draws is from the space.
Not measured: more repeats less and takes longer.
"""

_MOST_ATTEMPTS = 1_000
"""The same for an infinite space, where so many draws in vain mean that few configurations have most of its mass."""

_APART = 1e-3
"""How far a point of an infinite space is from each earlier one in some parameter, as a share of its range, as long as
few draws find such a point: `benchmarks/FINDINGS.md`, *distance*.
"""

_MOST_LISTED = 10_000
"""Of finite spaces that have more configurations than this, the untried ones are not listed. Not measured: a list
takes memory and time; without one, the last configurations are found by chance.
"""

_Sides = tuple[Mixture, Mixture]


class _Tried:
    """The points of an infinite space that were tried, in cells of their first coordinate and categories."""

    def __init__(self) -> None:
        self._cells: dict[tuple[int, int], list[Point]] = {}

    def add(self, point: Point) -> None:
        self._cells.setdefault(self._cell(point), []).append(point)

    def remove(self, point: Point) -> None:
        self._cells[self._cell(point)].remove(point)

    def has_near(self, point: Point, apart: float) -> bool:
        """Whether no coordinate of some point is further away than this, at most `_APART`, with equal categories."""
        cell, bits = self._cell(point)
        for near in (cell - 1, cell, cell + 1):
            for other in self._cells.get((near, bits), ()):
                if all(abs(a - b) <= apart for a, b in zip(point.coordinates, other.coordinates, strict=True)):
                    return True
        return False

    @staticmethod
    def _cell(point: Point) -> tuple[int, int]:
        return int(sum(point.coordinates[:1]) / _APART), point.bits


class Model:
    """Draws configurations from the space or from the fitted mixtures.

    Attributes:
        whole: The group of all parameters, also of those below categories; None if there are none.
        count: The number of configurations of a finite space; None if there is no end of them.

    Raises:
        ValueError: If there is a grid.
    """

    def __init__(self, space: Any):
        self._space = space
        members: dict[Parent, list[Parameter]] = {}
        for parameter in parameters(space):
            members.setdefault(parameter.parent, []).append(parameter)
        choices = {parent[0] for parent in members if parent is not None}
        self._groups = {parent: Group(parent, found, choices) for parent, found in members.items()}
        # Parameters learn together only if they exist together. So each category has a group of its own.
        self._learning = [*self._groups.values()]
        self.whole = self._groups.get(None)
        if len(self._groups) > 1:
            self.whole = Group(None, parameters(space), choices)
            self._learning.append(self.whole)
        # Of equal categories the first one counts: after a resume, the searcher knows their values alone.
        self._firsts = {
            (parent, name): firsts
            for parent, group in self._groups.items()
            for name, domain in group.domains.items()
            if isinstance(domain, Categorical)
            if (firsts := first_equals(domain.categories)) is not None
        }
        self.count = self._count_configurations(None)
        self._tried: set[frozenset[tuple[str, Any]]] = set()  # of a finite space
        self._places = _Tried()  # of an infinite one, in `whole`
        self._untried: list[dict[str, Any]] | None = None

    def add(self, observation: Observation) -> None:
        """Add an observation, which need not have a value yet."""
        for group in self._learning:
            group.add(observation)
        if self.whole is None:
            return
        if self.count is None:
            point = self.whole.points.get(observation.number)
            if point is not None:
                self._places.add(point)
            return
        key = self._key(observation)
        if key is not None:
            self._tried.add(key)

    def remove(self, observation: Observation) -> None:
        """Remove an observation. A configuration of a finite space still counts as tried."""
        if self.count is None and self.whole is not None:
            point = self.whole.points.get(observation.number)
            if point is not None:
                self._places.remove(point)
        for group in self._learning:
            group.points.pop(observation.number, None)

    @property
    def left(self) -> float:
        """How many configurations were not tried; infinite if there is no end of them."""
        if self.count is None:
            return math.inf
        return self.count - len(self._tried)

    def is_tried(self, values: Mapping[str, Any], apart: float = _APART) -> bool:
        """Whether the configuration with these values was tried, in an infinite space also one that is so near."""
        if self.count is not None:
            return frozenset(values.items()) in self._tried
        return self.whole is not None and self.is_near(self.whole.encode(values), apart)

    def is_near(self, point: Point, apart: float = _APART) -> bool:
        """Whether a point of an infinite space is so near to one that was tried; not in a finite one."""
        return self._places.has_near(point, apart)

    def configuration(self, drawn: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]] | None:
        """The configuration with these values; None if it was tried."""
        config, values = self._draw(lambda group: drawn, {})
        if self.is_tried(values):
            return None
        return config, values

    def untried(self) -> list[dict[str, Any]]:
        """The values of all configurations of a finite space that were not tried; none if the space is too large."""
        if self.count is None or self.count > _MOST_LISTED:
            return []
        # A configuration that was tried is never untried again, so the list only becomes shorter.
        if self._untried is None:
            self._untried = list(self._every(None))
        self._untried = [values for values in self._untried if frozenset(values.items()) not in self._tried]
        return self._untried

    def draw_prior(self, rng: random.Random, fixed: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        """A configuration and its values, drawn from the space except for the `fixed` values."""
        return self._draw(lambda group: group.draw_prior(rng), fixed)

    def propose(
        self, rng: random.Random, ranking: Ranking | None, pending: Collection[int] = ()
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Draw a promising configuration, and return it with its values. It was not tried, as long as any was not.
        Without a ranking, it is drawn from the space.
        """
        sides: dict[Parent, _Sides] = {}
        for attempt in range(_MOST_ATTEMPTS if self.count is None else _ATTEMPTS):
            # If the mixtures draw only what was tried, the rest is elsewhere: the space itself finds it sooner.
            if ranking is not None and attempt < _ATTEMPTS / 2:
                config, values = self._draw(lambda group: self._sample(group, rng, ranking, pending, sides), {})
            else:
                config, values = self.draw_prior(rng, {})
            if self.left == 0 or not self.is_tried(values, _APART if attempt < _ATTEMPTS else 0.0):
                return config, values
        # So many draws in vain mean that few are left. If the space was too large to list them, a repetition is rare.
        rest = self.untried()
        if not rest:
            return config, values
        if ranking is None or self.whole is None or len(self._groups) > 1:
            chosen = rng.choice(rest)
        else:
            some = rng.sample(rest, min(len(rest), _CANDIDATES))
            good, bad = self._fitted(self.whole, ranking, pending, sides)
            chosen = self.whole.decode(best_candidate(good, bad, [self.whole.encode(values) for values in some]))
        return self._draw(lambda group: chosen, {})

    def _sample(
        self,
        group: Group,
        rng: random.Random,
        ranking: Ranking,
        pending: Collection[int],
        sides: dict[Parent, _Sides],
    ) -> dict[str, Any]:
        if not group.is_free:
            return group.single
        good, bad = self._fitted(group, ranking, pending, sides)
        candidates = [good.draw(rng) for _ in range(_CANDIDATES)]
        if group.is_branch:
            return group.decode(draw_by_ratio(good, bad, candidates, rng))
        return group.decode(best_candidate(good, bad, candidates))

    def _fitted(self, group: Group, ranking: Ranking, pending: Collection[int], sides: dict[Parent, _Sides]) -> _Sides:
        if group.parent not in sides:
            best = ranking.best(group.points, _GOOD, _MOST_GOOD)
            good = good_side(group.kernel_space, [group.points[number] for number in best])
            sides[group.parent] = good, bad_side(group.kernel_space, group.points, best, pending)
        return sides[group.parent]

    def _draw(
        self, sample: Callable[[Group], dict[str, Any]], fixed: dict[str, Any]
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        # The categories above decide which groups exist, so a group is sampled when its first parameter is needed.
        values: dict[str, Any] = {}
        drawn: dict[str, Any] = {}

        def choose(parameter: Parameter) -> Any:
            name = parameter.name
            if name in fixed:
                values[name] = fixed[name]
            else:
                if name not in drawn:
                    drawn.update(sample(self._groups[parameter.parent]))
                values[name] = drawn[name]
            firsts = self._firsts.get((parameter.parent, name))
            if firsts is not None:
                values[name] = firsts[values[name]]
            return values[name]

        return draw(self._space, choose), values

    def _count_configurations(self, parent: Parent) -> int | None:
        """The number of configurations below a category; None if they cannot be counted."""
        total = 1
        for name, domain in self._groups[parent].domains.items() if parent in self._groups else ():
            if isinstance(domain, Categorical):
                below = [self._count_configurations((name, index)) for index in self._different(parent, name, domain)]
                if None in below:
                    count = None
                else:
                    count = sum(each or 0 for each in below)
            else:
                count = Axis(domain).count
            if count is None:
                return None
            total *= count
        return total

    def _different(self, parent: Parent, name: str, domain: Categorical) -> Iterable[int]:
        """The indices of the categories of a parameter that differ."""
        firsts = self._firsts.get((parent, name))
        return range(len(domain)) if firsts is None else sorted(set(firsts))

    def _every(self, parent: Parent) -> Iterator[dict[str, Any]]:
        columns: list[list[dict[str, Any]]] = []
        for name, domain in self._groups[parent].domains.items() if parent in self._groups else ():
            if isinstance(domain, Categorical):
                column = [
                    {name: i, **below}
                    for i in self._different(parent, name, domain)
                    for below in self._every((name, i))
                ]
            else:
                column = [{name: value} for value in Axis(domain).values()]
            columns.append(column)
        for row in product(*columns):
            yield {name: value for values in row for name, value in values.items()}

    def _key(self, observation: Observation) -> frozenset[tuple[str, Any]] | None:
        """What makes a configuration of a finite space equal to another one; None if it is only a part of one."""
        found: dict[str, Any] = {}
        for group in self._groups.values():
            if group.exists_in(observation.values):
                values = group.values_of(observation)
                if values is None:
                    return None
                found.update(values)
        return frozenset(found.items())
