"""The model of `TPESearch`: a pair of mixtures for each group of parameters that exist together."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Collection, Sequence
from typing import Any

from minitune.search._axes import Axis
from minitune.search._observations import Observation, Rank, Ranking
from minitune.search._parzen import BadSide, GoodSide, Grounds, Kernels, Point, best_of, draw_by_ratio
from minitune.search.parameters import Parameter, Searchable, draw, parameters
from minitune.space import Categorical, Float, Integer

_MOST_GOOD = 25
"""The good side has at most so many kernels."""
_ATTEMPTS = 10
"""How often a configuration is drawn anew because it was tried already; the second half from the space itself."""

Parent = tuple[str, int] | None


class Model:
    """Draws configurations of a space, from the space itself or from what is known of it.

    Args:
        space: The search space.
        gamma: Share of the observations that counts as good.
        n_candidates: How many draws are compared.
        max_bad: Use only the newest so many of the others.

    Raises:
        ValueError: If there is a grid.
    """

    def __init__(self, space: Any, gamma: float, n_candidates: int, max_bad: int | None):
        self._space = space
        self._gamma, self._n_candidates, self._max_bad = gamma, n_candidates, max_bad
        members: dict[Parent, list[Parameter]] = {}
        for parameter in parameters(space):
            members.setdefault(parameter.parent, []).append(parameter)
        choices = {parent[0] for parent in members if parent is not None}
        self._groups = {parent: _Group(parent, found, choices) for parent, found in members.items()}
        self._count = self._count_configurations(None)
        self._tried: set[Any] = set()

    def add(self, observation: Observation) -> None:
        """Take up an observation, which may have no key yet."""
        if self._count is not None:
            self._tried.add(_identity(observation.values))
        for group in self._groups.values():
            group.add(observation)

    def remove(self, observation: Observation) -> None:
        """Forget an observation."""
        for group in self._groups.values():
            group.kernels.remove(observation.number)

    def draw_prior(self, rng: random.Random, fixed: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        """Draw from the space.

        Args:
            rng: For the draws.
            fixed: Values that are not drawn.

        Returns:
            The configuration and its values.
        """
        return self._draw(lambda group: group.draw_prior(rng), fixed)

    def propose(
        self, rng: random.Random, ranking: Ranking, ranks: dict[int, Rank]
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Draw what is most worth trying.

        Args:
            rng: For the draws.
            ranking: Says which observations are best.
            ranks: By number, of those that have one; all others count as bad. Without any the space itself is drawn
                from.

        Returns:
            The configuration and its values. If the space is finite, one that was not tried before, if that is easy.
        """
        sides: dict[Parent, _Sides] = {}
        for attempt in range(_ATTEMPTS):
            if ranks and attempt < _ATTEMPTS / 2:
                config, values = self._draw(lambda group: self._sample(group, rng, ranking, ranks, sides), {})
            else:
                config, values = self.draw_prior(rng, {})
            if self._count is None or len(self._tried) >= self._count or _identity(values) not in self._tried:
                break
        return config, values

    def _sample(
        self,
        group: _Group,
        rng: random.Random,
        ranking: Ranking,
        ranks: dict[int, Rank],
        sides: dict[Parent, _Sides],
    ) -> dict[str, Any]:
        if not group.is_free:
            return dict(group.single)
        if group.parent not in sides:
            sides[group.parent] = self._split(group, ranking, ranks)
        good, bad = sides[group.parent]
        candidates = [good.draw(rng) for _ in range(self._n_candidates)]
        if group.is_branch:
            return group.decode(draw_by_ratio(good, bad, candidates, rng))
        return group.decode(best_of(good, bad, candidates))

    def _split(self, group: _Group, ranking: Ranking, ranks: dict[int, Rank]) -> _Sides:
        kernels = group.kernels
        own = (
            ranks.values()
            if kernels.points.keys() >= ranks.keys()
            else [ranks[number] for number in kernels.numbers if number in ranks]
        )
        count = min(math.ceil(self._gamma * len(own)), _MOST_GOOD)
        best = ranking.best(own, count)
        good = GoodSide(kernels.grounds, [kernels.points[number] for number in best])
        return good, BadSide(kernels, set(best), self._max_bad)

    def _draw(
        self, sample: Callable[[_Group], dict[str, Any]], fixed: dict[str, Any]
    ) -> tuple[dict[str, Any], dict[str, Any]]:
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
            return values[name]

        return draw(self._space, choose), values

    def _count_configurations(self, parent: Parent) -> int | None:
        """How many configurations there are below a category; None if they cannot be counted."""
        total = 1
        for name, domain in self._groups[parent].domains.items() if parent in self._groups else ():
            if isinstance(domain, Categorical) and not isinstance(domain.categories, range):
                below = [self._count_configurations((name, index)) for index in range(len(domain))]
                count = None if None in below else sum(each or 0 for each in below)
            else:
                count = Axis(_numbers_of(domain)).count
            if count is None:
                return None
            total *= count
        return total


_Sides = tuple[GoodSide, BadSide]


class _Group:
    """Parameters that exist together.

    Args:
        parent: Below which category.
        members: The parameters.
        choices: The names of all choices that have parameters below a category.

    Attributes:
        is_free: Whether there is anything to choose.
        is_branch: Whether all that is to be chosen is which other parameters there are.
    """

    def __init__(self, parent: Parent, members: Sequence[Parameter], choices: Collection[str]):
        self.parent = parent
        self.domains = {each.name: each.domain for each in members}
        self.single: dict[str, Any] = {}
        self._axes: dict[str, Axis] = {}
        self._sizes: dict[str, int] = {}
        for name, domain in self.domains.items():
            if isinstance(domain, Categorical) and not isinstance(domain.categories, range):
                if len(domain) > 1:
                    self._sizes[name] = len(domain)
                else:
                    self.single[name] = 0
            else:
                axis = Axis(_numbers_of(domain))
                if axis.count == 1:
                    self.single[name] = axis.decode(0.5)
                else:
                    self._axes[name] = axis
        self.grounds = Grounds(list(self._axes.values()), list(self._sizes.values()))
        self.kernels = Kernels(self.grounds)
        self.is_free = bool(self._axes or self._sizes)
        self.is_branch = not self._axes and len(self._sizes) == 1 and next(iter(self._sizes)) in choices

    def add(self, observation: Observation) -> None:
        """Take up an observation if it has these parameters; some that it lacks are drawn."""
        values = observation.values
        if self.parent is not None and values.get(self.parent[0]) != self.parent[1]:
            return
        known = [name for name in (*self._axes, *self._sizes) if self._is_valid(name, values)]
        if not known or any(name in values and name not in known for name in self.domains if name not in self.single):
            return
        if len(known) < len(self._axes) + len(self._sizes):
            drawn = self.draw_prior(random.Random(observation.number))
            values = {**drawn, **{name: values[name] for name in known}}
        places = [axis.encode(values[name]) for name, axis in self._axes.items()]
        self.kernels.add(observation.number, self.grounds.pack(places, [values[name] for name in self._sizes]))

    def _is_valid(self, name: str, values: dict[str, Any]) -> bool:
        """Whether there is a value, and it still lies in the domain: saved ones may come from another space."""
        if values.get(name) is None:
            return False
        if name in self._sizes:
            return bool(0 <= values[name] < self._sizes[name])
        return bool(_numbers_of(self.domains[name]).is_valid(values[name]) and abs(values[name]) < math.inf)

    def draw_prior(self, rng: random.Random) -> dict[str, Any]:
        """Values drawn from the domains."""
        return self.decode(self.grounds.draw_prior(rng))

    def decode(self, point: Point) -> dict[str, Any]:
        """The values of a point."""
        values = dict(self.single)
        for (name, axis), place in zip(self._axes.items(), point.places, strict=True):
            values[name] = axis.decode(place)
        values.update(zip(self._sizes, self.grounds.categories(point.bits), strict=True))
        return values


def _numbers_of(domain: Searchable) -> Float | Integer:
    """A domain of numbers as it is; for a choice from a range, which is one too long for a list, the indices."""
    return Integer(0, len(domain)).uniform() if isinstance(domain, Categorical) else domain


def _identity(values: dict[str, Any]) -> Any:
    return frozenset(values.items())
