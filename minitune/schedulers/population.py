"""The population: how its members rank, and how they get other hyperparameters.

Source: Jaderberg et al., "Population Based Training of Neural Networks" (arXiv 1711.09846). `Explorer` is the explore
step (section 4): each hyperparameter is either drawn again or perturbed.
"""

from __future__ import annotations

import math
import random
from bisect import bisect_left, insort
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from minitune.base.checks import is_real, is_whole, shown
from minitune.base.randomness import GlobalDraws
from minitune.schedulers.async_hyperband import Entry
from minitune.space.domains import (
    Categorical,
    Domain,
    Float,
    Function,
    Integer,
    Normal,
    is_grid,
    is_same,
    sampler_and_step,
)
from minitune.space.tree import copy_tree
from minitune.space.variants import complete_config

Changes = dict[tuple[str, ...], tuple[Any, Any]]
"""By path: the old value and the new one."""


@dataclass(slots=True)
class Member:
    """One unfinished trial of the population.

    Attributes:
        entry: Its score at its last turn; None before the first one.
        time: That of its last report.
        is_clone: Whether it was given the state of another member, which it can pass on.
    """

    trial_id: str
    tag: str
    entry: Entry | None = None
    time: float = 0.0
    last_turn: float = 0.0
    iteration: int = 0
    is_clone: bool = False

    @property
    def score(self) -> float:
        """Its score at its last turn, by which it is ranked: larger is better."""
        if self.entry is not None:
            return -self.entry.loss
        return -math.inf

    @property
    def is_worst(self) -> bool:
        """Whether it had no number at its last turn."""
        return self.score == -math.inf


class Population:
    """Members by trial id, ranked by score. Every operation takes O(log n) comparisons, unless it says otherwise.

    Args:
        fraction: The part of the population that makes its upper end, and its lower end.
    """

    def __init__(self, fraction: Fraction):
        self.members: dict[str, Member] = {}
        self.fraction = fraction
        self._ranked: list[Entry] = []  # the entries of all members that have one, the best first
        self._arrivals = 0  # how many scores were recorded; of two equal ones the earlier ranks better

    def __len__(self) -> int:
        return len(self._ranked)

    def add(self, trial_id: str, tag: str) -> Member:
        """Add a new member."""
        member = Member(trial_id, tag)
        self.members[trial_id] = member
        return member

    def remove(self, trial_id: str) -> None:
        """Remove the member of this id, if there is one."""
        member = self.members.pop(trial_id, None)
        if member is not None:
            self._unrank(member)

    # -- ranks -------------------------------------------------------------------------------------------------------

    def record(self, member: Member, score: float) -> None:
        """Rank a member at its turn. Of two equal scores the one that came first ranks better."""
        self._unrank(member)
        member.entry = Entry(-score, self._arrivals, member.trial_id)
        self._arrivals += 1
        insort(self._ranked, member.entry)

    def become(self, member: Member, donor: Member) -> None:
        """Let a member take over the state that its donor had at the donor's last turn."""
        member.last_turn = donor.last_turn
        member.time = donor.time
        member.is_clone = True

    def rank(self, member: Member) -> int:
        """The rank of a member that has a score, 1 for the best."""
        return bisect_left(self._ranked, member.entry) + 1  # type: ignore[type-var]  # it has an entry

    def is_low(self, member: Member) -> bool:
        """Whether a member belongs to the lower end, or had no number at its last turn."""
        ends = self.size_of_ends()
        return ends > 0 and (self.rank(member) > len(self) - ends or member.is_worst)

    def lower(self) -> list[Member]:
        """The members for which `is_low` holds, the best first. O(n)."""
        return [member for member in self.best(len(self)) if self.is_low(member)]

    def best(self, count: int) -> list[Member]:
        """The best members, in order."""
        return [self.members[entry.trial_id] for entry in self._ranked[:count]]

    def count_better(self, member: Member) -> int:
        """How many members of the upper end are strictly better than a member."""
        better = bisect_left(self._ranked, Entry(-member.score, -1, ""))  # before the first one with an equal score
        return min(better, self.size_of_ends())

    def size_of_ends(self) -> int:
        """The number of members of the upper end, which is that of the lower end, too."""
        # At most half of them each, so that no member belongs to both ends.
        return min(math.ceil(len(self) * self.fraction), len(self) // 2)

    def _unrank(self, member: Member) -> None:
        if member.entry is not None:
            del self._ranked[bisect_left(self._ranked, member.entry)]
            member.entry = None


# -- explore ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Explorer:
    """Draws and perturbs hyperparameters."""

    mutations: Mapping[str, Any]
    resample_probability: float = 0.25
    factors: Sequence[float] = (1.2, 0.8)

    def explore(self, config: Mapping[str, Any], rng: random.Random) -> tuple[dict[str, Any], Changes]:
        """A configuration with other hyperparameters, and the changes. Containers of the old one are copied. `rng` is
        the only source of randomness.
        """
        # `copy_tree` copies no other mappings than dicts, but this one will be changed.
        new = copy_tree(dict(config))
        changes = Changes()
        for name, mutation in self.mutations.items():
            old = config.get(name)
            if isinstance(mutation, Mapping) and isinstance(old, Mapping):
                new[name], inner = replace(self, mutations=mutation).explore(old, rng)
                changes.update({(name, *path): change for path, change in inner.items()})
                continue
            if name not in config or rng.random() < self.resample_probability:
                new[name] = draw_mutation(mutation, rng)
            else:
                new[name] = perturb(mutation, old, self.factors, rng)
            changes[name,] = (old, new[name])
        return new, changes


def check_mutations(mutations: Any, where: str = "hyperparam_mutations") -> None:
    """Refuse a mutation that no value can be drawn from.

    Raises:
        TypeError: If it is no dict, or a mutation is of an unknown kind.
        ValueError: If a mutation is empty, a grid, or a `sample_from`.
    """
    if not isinstance(mutations, Mapping):
        raise TypeError(f"{where} must be a dict such as {{'lr': tune.loguniform(1e-4, 1e-1)}}, but got {mutations!r}")
    for name, mutation in mutations.items():
        which = f"{where}[{name!r}]"
        if is_grid(mutation):
            raise ValueError(
                f"{which} must not be a grid, because values are drawn again and again; pass the plain list"
            )
        if isinstance(mutation, Mapping):
            check_mutations(mutation, which)
        elif isinstance(mutation, Function):
            raise ValueError(
                f"{which} must not be a sample_from, which needs a configuration; pass a function without arguments, "
                "or a domain such as tune.uniform"
            )
        elif isinstance(mutation, (list, tuple)):
            if not mutation:
                raise ValueError(f"{which} must hold at least one value, but got {mutation!r}")
        elif not isinstance(mutation, Domain) and not callable(mutation):
            raise TypeError(
                f"{which} must be a list or tuple of values, a domain such as tune.uniform(0, 1), a function without "
                f"arguments, or a dict of these, but got {shown(mutation)}"
            )


def fill(config: Mapping[str, Any], mutations: Mapping[str, Any], rng: random.Random) -> tuple[dict[str, Any], Changes]:
    """Draw the hyperparameters that a configuration lacks, by `rng` alone; return a copy, and the drawn values."""
    new = dict(config)
    drawn = Changes()
    for name, mutation in mutations.items():
        if isinstance(mutation, Mapping) and isinstance(new.get(name, {}), Mapping):
            new[name], inner = fill(new.get(name, {}), mutation, rng)
            drawn.update({(name, *path): change for path, change in inner.items()})
        elif name not in new:
            new[name] = draw_mutation(mutation, rng)
            drawn[name,] = (None, new[name])
    return new, drawn


def draw_mutation(mutation: Any, rng: random.Random) -> Any:
    """A new value for a mutation."""
    if isinstance(mutation, Mapping):
        return {name: draw_mutation(inner, rng) for name, inner in mutation.items()}
    if isinstance(mutation, (list, tuple)):
        return rng.choice(mutation)
    if isinstance(mutation, Domain):
        return _resolved(mutation, rng)
    with GlobalDraws(rng).lent():
        return mutation()


def perturb(mutation: Any, value: Any, factors: Sequence[float], rng: random.Random) -> Any:
    """A value near `value`, or a new one if the mutation does not know `value`."""
    if isinstance(mutation, (list, tuple)):
        return _neighbour(mutation, value, rng)
    if isinstance(value, bool):
        return value
    if isinstance(mutation, Categorical):
        categories = mutation.categories
        index = _index_of(categories, value)
        if index is None:
            return _resolved(mutation, rng)
        if all(map(is_real, categories)):  # the next smaller or larger one
            return _neighbour(sorted(categories), value, rng)
        others = [category for other, category in enumerate(categories) if other != index]
        return _resolved(rng.choice(others), rng) if others else value
    if is_real(value) and math.isfinite(value):
        factor = rng.choice(factors)
        if isinstance(mutation, (Float, Integer)):
            return _within(mutation, value, factor)
        if value:
            product = value * factor
            return round(product) if is_whole(value) else product
    return draw_mutation(mutation, rng)


def look_up(config: Mapping[str, Any], path: tuple[str, ...]) -> Any:
    """The value at a path, or None if there is none."""
    value: Any = config
    for name in path:
        value = value.get(name) if isinstance(value, Mapping) else None
    return value


def describe(changes: Changes) -> str:
    """Such as `lr 0.1 -> 0.12, size 4 -> 8`."""
    texts = [f"{'/'.join(path)} {_short(old)} -> {_short(new)}" for path, (old, new) in changes.items()]
    return ", ".join(texts) or "nothing"


def _short(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    return shown(value)


def _resolved(value: Any, rng: random.Random) -> Any:
    return complete_config({"mutation": value}, rng)["mutation"]


def _index_of(values: Sequence[Any], value: Any) -> int | None:
    return next((index for index, known in enumerate(values) if is_same(known, value)), None)


def _neighbour(values: Sequence[Any], value: Any, rng: random.Random) -> Any:
    """The value one position left or right of `value`; a new one if `value` is unknown."""
    index = _index_of(values, value)
    step = rng.choice((-1, 1))
    if index is None:
        return rng.choice(values)
    return values[min(max(index + step, 0), len(values) - 1)]


def _within(domain: Float | Integer, value: Any, factor: float) -> float | int:
    """`value * factor` within the domain and on its grid. An int, or a value on a grid, moves by at least one step."""
    step = _step(domain)
    target = float(value) * factor
    if target == value and factor != 1:  # 0.0 would never change
        extent = float(domain.upper) - float(domain.lower)
        if not math.isfinite(extent):
            sampler, _ = sampler_and_step(domain)
            extent = 1.0
            if isinstance(sampler, Normal):
                extent = sampler.sd
        target += (factor - 1) * extent / 2
    if step and factor != 1 and round(target / step) == round(float(value) / step):
        target = value + (step if (factor > 1) == (value >= 0) else -step)
    if isinstance(domain, Integer):
        first, stop = domain.index_range(int(step))
        return min(max(round(target / step), first), max(first, stop - 1)) * int(step)
    if step:
        return domain.snap(target, step)
    return min(max(target, domain.lower), domain.upper)


def _step(domain: Float | Integer) -> float:
    return sampler_and_step(domain)[1] or (1 if isinstance(domain, Integer) else 0)
