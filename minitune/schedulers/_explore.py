"""Explore: how a member of a population gets other hyperparameters than those that it has taken over.

Source: Jaderberg et al., "Population Based Training of Neural Networks" (arXiv 1711.09846), section 4: each
hyperparameter is either drawn anew or perturbed. Here no value ever leaves the domain that the user has given.

A mutation is a list or tuple of values in their order, a domain, a function without arguments, or a dict of mutations
for nested parameters.
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from minitune._checks import is_real, is_whole, shown
from minitune._global_draws import GlobalDraws
from minitune.space import Categorical, Domain, Float, Function, Integer, Normal, Quantized, is_grid, is_same

Changes = dict[tuple[str, ...], tuple[Any, Any, str]]
"""By path: the old value, the new one, and how it came about."""

RESAMPLED = "drawn anew"


@dataclass(frozen=True)
class Explorer:
    """Draws and perturbs hyperparameters.

    Attributes:
        mutations: By name, how each is drawn and perturbed.
        resample_probability: How often a value is drawn anew.
        factors: What a number is multiplied by otherwise: one of these.
    """

    mutations: Mapping[str, Any]
    resample_probability: float = 0.25
    factors: Sequence[float] = (1.2, 0.8)

    def explore(self, config: Mapping[str, Any], rng: random.Random) -> tuple[dict[str, Any], Changes]:
        """A configuration with other hyperparameters.

        Args:
            config: What to begin with; not changed. Containers are copied, all else is shared.
            rng: The only source of randomness; in a seeded run also for functions of the user's.

        Returns:
            The new configuration, and what was done.
        """
        changes: Changes = {}
        return self._mutate(config, self.mutations, (), changes, rng), changes

    def _mutate(
        self,
        config: Mapping[str, Any],
        mutations: Mapping[str, Any],
        prefix: tuple[str, ...],
        changes: Changes,
        rng: random.Random,
    ) -> dict[str, Any]:
        new: dict[str, Any] = copied(config)
        for name, mutation in mutations.items():
            path, old = (*prefix, name), config.get(name)
            if isinstance(mutation, Mapping) and isinstance(old, Mapping):
                new[name] = self._mutate(old, mutation, path, changes, rng)
                continue
            if name not in config or rng.random() < self.resample_probability:
                value, how = draw(mutation, rng), RESAMPLED
            else:
                value, how = perturb(mutation, old, self.factors, rng)
            new[name] = value
            changes[path] = (old, value, how)
        return new


def check_mutations(mutations: Any, where: str = "hyperparam_mutations") -> None:
    """Refuse what no value could be drawn from.

    Args:
        mutations: What the user has given.
        where: Its name.

    Raises:
        TypeError: If it is no dict, or a mutation is of another kind than those that there are.
        ValueError: If a mutation is empty, a grid, or a `sample_from`.
    """
    if not isinstance(mutations, Mapping):
        raise TypeError(f"{where} must be a dict such as {{'lr': tune.loguniform(1e-4, 1e-1)}}, but got {mutations!r}")
    for name, mutation in mutations.items():
        which = f"{where}[{name!r}]"
        if is_grid(mutation):
            raise ValueError(f"{which} must not be a grid, since no value is tried only once; pass the plain list")
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
    """Draw those hyperparameters that a configuration does not have.

    Args:
        config: The configuration; not changed.
        mutations: By name, how each is drawn.
        rng: The only source of randomness; in a seeded run also for functions of the user's.

    Returns:
        The complete configuration, and what was drawn.
    """
    new, drawn = dict(config), Changes()
    for name, mutation in mutations.items():
        if isinstance(mutation, Mapping) and isinstance(new.get(name, {}), Mapping):
            new[name], inner = fill(new.get(name, {}), mutation, rng)
            drawn.update({(name, *path): change for path, change in inner.items()})
        elif name not in new:
            new[name] = draw(mutation, rng)
            drawn[name,] = (None, new[name], RESAMPLED)
    return new, drawn


def draw(mutation: Any, rng: random.Random) -> Any:
    """A new value for a mutation."""
    if isinstance(mutation, Mapping):
        return {name: draw(inner, rng) for name, inner in mutation.items()}
    if isinstance(mutation, (list, tuple)):
        return rng.choice(mutation)
    if isinstance(mutation, Domain):
        return _resolved(mutation, rng)
    with GlobalDraws(rng).lent():
        return mutation()


def perturb(mutation: Any, value: Any, factors: Sequence[float], rng: random.Random) -> tuple[Any, str]:
    """A value near `value`; one that the mutation does not know is drawn anew.

    Returns:
        The value, and how it came about.
    """
    if isinstance(mutation, (list, tuple)):
        return _neighbour(mutation, value, rng)
    if isinstance(value, bool):
        return value, "kept"
    if isinstance(mutation, Categorical):
        return _other_category(mutation, value, rng)
    if is_real(value) and math.isfinite(value):
        factor = rng.choice(factors)
        if isinstance(mutation, (Float, Integer)):
            return _within(mutation, value, factor), f"* {factor:g}"
        if value:
            product = value * factor
            return (round(product) if is_whole(value) else product), f"* {factor:g}"
    return draw(mutation, rng), RESAMPLED


def copied(value: Any) -> Any:
    """Copy dicts and lists, all the way down; everything else stays the same object."""
    if isinstance(value, Mapping):
        return {name: copied(inner) for name, inner in value.items()}
    return [copied(inner) for inner in value] if type(value) is list else value


def look_up(config: Mapping[str, Any], path: tuple[str, ...]) -> Any:
    """The value at a path, or None if there is none."""
    value: Any = config
    for name in path:
        value = value.get(name) if isinstance(value, Mapping) else None
    return value


def describe(changes: Changes) -> str:
    """Such as `lr 0.1 -> 0.12 (* 1.2), size 4 -> 8 (right)`."""
    texts = [f"{'/'.join(path)} {_short(old)} -> {_short(new)} ({how})" for path, (old, new, how) in changes.items()]
    return ", ".join(texts) or "nothing"


def _short(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else shown(value)


def _resolved(value: Any, rng: random.Random) -> Any:
    """Draw from a domain, and from those within what was drawn."""
    if isinstance(value, Domain):
        return _resolved(value.sample(random_state=rng), rng)
    if isinstance(value, dict):
        return {name: _resolved(inner, rng) for name, inner in value.items()}
    return [_resolved(inner, rng) for inner in value] if type(value) is list else value


def _place(values: Sequence[Any], value: Any) -> int | None:
    """Where `value` stands; None if it does not."""
    return next((place for place, known in enumerate(values) if is_same(known, value)), None)


def _neighbour(values: Sequence[Any], value: Any, rng: random.Random) -> tuple[Any, str]:
    """One place left or right of `value`, if there is one; a value that is not there is drawn anew."""
    place, step = _place(values, value), rng.choice((-1, 1))
    if place is None:
        return rng.choice(values), RESAMPLED
    new = min(max(place + step, 0), len(values) - 1)
    return values[new], "left" if step < 0 else "right"


def _other_category(domain: Categorical, value: Any, rng: random.Random) -> tuple[Any, str]:
    """Of numbers the next smaller or larger one, else any other category."""
    categories = domain.categories
    place = _place(categories, value)
    if place is None:
        return _resolved(domain, rng), RESAMPLED
    if all(map(is_real, categories)):
        return _neighbour(sorted(categories), value, rng)
    others = [category for index, category in enumerate(categories) if index != place]
    return (_resolved(rng.choice(others), rng), "another one") if others else (value, "the only one")


def _within(domain: Float | Integer, value: Any, factor: float) -> float | int:
    """`value * factor` within the domain and on its grid; an int, and what has a grid, moves by at least one step.

    In a domain of orders of magnitude the same factor is the same shift of the logarithm, wherever the value stands.
    """
    step = _step(domain)
    target = float(value) * factor
    if target == value and factor != 1:  # 0.0 would stay where it is for ever
        target += (factor - 1) * _spread(domain) / 2
    if step and factor != 1 and round(target / step) == round(float(value) / step):
        target = value + (step if (factor > 1) == (value >= 0) else -step)
    return snapped(domain, target)


def snapped(domain: Float | Integer, value: float) -> float | int:
    """The value of the domain, and of its grid, that is nearest to `value`."""
    step = _step(domain)
    if not step:
        return min(max(value, domain.lower), domain.upper)
    low, high = _grid_ends(domain, step)
    steps = min(max(round(value / step), low), high)
    if isinstance(domain, Integer):
        return int(steps) * int(step)
    # written as a person would: 0.3, not 0.30000000000000004
    return min(max(float(f"{steps * step:.12g}"), domain.lower), domain.upper)


def _step(domain: Float | Integer) -> float:
    """The step of a domain's grid; 0 if it has none."""
    if isinstance(domain.sampler, Quantized):
        return domain.sampler.q
    return 1 if isinstance(domain, Integer) else 0


def _spread(domain: Float | Integer) -> float:
    """How far a domain extends: upper - lower, or the standard deviation of one without bounds."""
    spread = float(domain.upper) - float(domain.lower)
    if math.isfinite(spread):
        return spread
    sampler = domain.sampler.get_sampler() if isinstance(domain.sampler, Quantized) else domain.sampler
    return sampler.sd if isinstance(sampler, Normal) else 1.0


def _grid_ends(domain: Float | Integer, step: float) -> tuple[float, float]:
    """The least and the largest multiple of `step` in the domain, in steps. Ints without a grid exclude `upper`."""
    if isinstance(domain, Integer):
        first = -(-domain.lower // int(step))
        return first, max(first, (domain.upper - (step == 1)) // int(step))
    ends = (domain.lower / step, domain.upper / step)
    low, high = (float(round(end)) if math.isfinite(end) else end for end in ends)
    return low, high
