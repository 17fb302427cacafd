"""Groups of parameters: the values of a configuration as points of the models, and back.

Parameters learn together only if they exist together: those below one category are a group, and so are those that
always exist. A group's point has a position on the axis of each number and a category of each choice. What can have
only one value is no part of a point.
"""

from __future__ import annotations

import math
import random
from collections.abc import Collection, Mapping, Sequence
from itertools import accumulate
from typing import Any

from minitune.search.parzen import KernelSpace, Point
from minitune.search.ranking import Observation
from minitune.space.domains import Categorical
from minitune.space.parameters import Axis, Parameter

Parent = tuple[str, int] | None
"""The category below which a group of parameters exists: the choice and the index. None: the group always exists."""


class Group:
    """Parameters that exist together; or all parameters of a space.

    A number that does not exist is in the middle of its axis, and a choice has its first category.
    """

    def __init__(self, parent: Parent, members: Sequence[Parameter], choices: Collection[str]):
        self.parent = parent
        self._parents = {each.name: each.parent for each in members}
        self.domains = {each.name: each.domain for each in members}
        self.single: dict[str, Any] = {}
        self._axes: dict[str, Axis] = {}
        self._sizes: dict[str, int] = {}
        for name, domain in self.domains.items():
            if isinstance(domain, Categorical):
                if len(domain) > 1:
                    self._sizes[name] = len(domain)
                else:
                    self.single[name] = 0
            else:
                axis = Axis(domain)
                if axis.count == 1:
                    self.single[name] = axis.decode(0.5)
                else:
                    self._axes[name] = axis
        first_bits = dict(zip(self._sizes, accumulate(self._sizes.values(), initial=0), strict=False))
        needs: dict[str, int] = {}
        for name, above in self._parents.items():
            needs[name] = 0
            if above != parent and above is not None:
                choice, index = above
                needs[name] = needs[choice]
                if choice in first_bits:
                    needs[name] |= 1 << first_bits[choice] + index
        self.kernel_space = KernelSpace(
            list(self._axes.values()),
            list(self._sizes.values()),
            [needs[name] for name in (*self._axes, *self._sizes)],
        )
        self.points: dict[int, Point] = {}  # of the observations that have this group, by number, in order of time
        self.is_free = bool(self._axes or self._sizes)
        self.is_branch = not self._axes and len(self._sizes) == 1 and next(iter(self._sizes)) in choices

    def add(self, observation: Observation) -> None:
        """Add an observation if it has these parameters. Missing ones are drawn."""
        values = observation.values
        if not self.exists_in(values):
            return
        known = []  # a saved value may come from another space, so it must be in this one
        existing = [name for name in (*self._axes, *self._sizes) if self._exists(name, values)]
        for name in existing:
            if (value := values.get(name)) is None:
                continue
            if name in self._sizes:
                is_valid = 0 <= value < self._sizes[name]
            else:
                is_valid = self.domains[name].is_valid(value) and abs(value) < math.inf
            if is_valid:
                known.append(name)
        if not known or any(name in values and name not in known for name in existing):
            return
        if len(known) < len(existing):
            drawn = self.draw_prior(random.Random(observation.number))
            values = {**{name: drawn[name] for name in existing}, **{name: values[name] for name in known}}
        self.points[observation.number] = self.encode(values)

    def _exists(self, name: str, values: Mapping[str, Any]) -> bool:
        parent = self._parents[name]
        return parent == self.parent or parent is None or values.get(parent[0]) == parent[1]

    def exists_in(self, values: Mapping[str, Any]) -> bool:
        """Whether a configuration with these values has this group."""
        return self.parent is None or values.get(self.parent[0]) == self.parent[1]

    def values_of(self, observation: Observation) -> dict[str, Any] | None:
        """The values that an observation has for all of these parameters; None if it lacks some."""
        if not self.is_free:
            return self.single
        point = self.points.get(observation.number)
        if point is None or not all(name in observation.values for name in (*self._axes, *self._sizes)):
            return None
        return self.decode(point)

    def encode(self, values: Mapping[str, Any]) -> Point:
        """The point of these values."""
        coordinates = [axis.encode(values[name]) if name in values else 0.5 for name, axis in self._axes.items()]
        return self.kernel_space.pack(coordinates, [values.get(name, 0) for name in self._sizes])

    def draw_prior(self, rng: random.Random) -> dict[str, Any]:
        """Values drawn from the domains."""
        return self.decode(self.kernel_space.draw_prior(rng))

    def middle(self) -> dict[str, Any]:
        """The middle of each number's domain."""
        return {name: axis.decode(0.5) for name, axis in self._axes.items()}

    def decode(self, point: Point) -> dict[str, Any]:
        """The values of a point."""
        values = dict(self.single)
        for (name, axis), coordinate in zip(self._axes.items(), point.coordinates, strict=True):
            values[name] = axis.decode(coordinate)
        values.update(zip(self._sizes, self.kernel_space.categories(point.bits), strict=True))
        return values
