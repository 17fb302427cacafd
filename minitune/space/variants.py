"""Variants: the configurations of a search space, one at a time and in a fixed order.

Order: The outer loop has `num_samples` rounds; the inner loop covers the grid. The grid's variables are sorted by path,
and the first one varies fastest. An index determines a grid point (mixed radix), so iteration can start anywhere. Each
point has its own generator, seeded by (seed, round, index), so it does not depend on those before.

A grid lies in the space itself, not within a value that is drawn or that another grid has.
"""

from __future__ import annotations

import logging
import math
import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from minitune.base.randomness import GlobalDraws
from minitune.base.seeds import random_generator
from minitune.error import sample_error
from minitune.space.domains import (
    Categorical,
    Domain,
    Function,
    Grid,
    grid_search,
)
from minitune.space.tree import (
    SCALAR_TYPES,
    ConfigView,
    Path,
    RecursiveDependencyError,
    assign_value,
    copy_tree,
    find_constants,
    find_unresolved,
    format_tag,
    format_vars,
    get_value,
    has_unresolved_values,
    leaves,
    path_key,
    path_text,
    topmost,
)

__all__ = [
    "RecursiveDependencyError",
    "Variant",
    "VariantTable",
    "assign_value",
    "complete_config",
    "format_tag",
    "format_vars",
    "generate_variants",
    "get_value",
    "grid_search",
    "has_unresolved_values",
    "parse_spec_vars",
]

logger = logging.getLogger("minitune")

_Unresolved = list[tuple[Path, Domain]]
_Grids = list[tuple[Path, Categorical]]


class Variant(NamedTuple):
    """One configuration."""

    resolved_vars: dict[Path, Any]
    config: dict[str, Any]

    @property
    def evaluated_params(self) -> dict[str, Any]:
        """The searched parameters by path, such as `"a/b"`."""
        found = {}
        for path, value in self.resolved_vars.items():
            found["/".join(map(str, path))] = value
        return found


@dataclass
class Position:
    """The position of a table's next variant."""

    round: int = 0
    point: int = 0


class VariantTable:
    """All variants of a space, created on demand.

    Args:
        points: Points to evaluate, one round each, which come first, also if there are more than rounds.
        seed: The seed of all draws.

    Raises:
        ValueError: If `num_samples` is out of range, or a point is not in the space.
    """

    def __init__(
        self,
        space: dict[str, Any],
        num_samples: int = 1,
        points: Sequence[Mapping[str, Any]] = (),
        seed: int | str = 0,
    ):
        if num_samples < -1:
            raise ValueError(f"num_samples must be -1 (endless) or >= 0, but got {num_samples}")
        self.position = Position()
        self._seed = seed
        self._plans: list[_Plan] = []
        if points:
            from minitune.space.guesses import guess_of  # most runs have none

            self._plans = [_Plan(*guess_of(space, point, whole=True)) for point in points]
        self._free_plan = _Plan(space, [])
        self._rounds = math.inf if num_samples == -1 else max(num_samples, len(points))
        self._last = Position()

    @property
    def round_size(self) -> int:
        """The number of grid points in a round without a point to evaluate."""
        return self._free_plan.grid_size

    @property
    def points(self) -> list[dict[str, Any]]:
        """For each point to evaluate, the search space with the point's values."""
        return [plan.space for plan in self._plans]

    @property
    def point_at_hand(self) -> dict[str, Any] | None:
        """The space with the values of the last variant's point to evaluate, or None."""
        if self._last.round >= len(self._plans):
            return None
        plan = self._plans[self._last.round]
        return None if plan.grid_size > 1 else plan.space

    @property
    def total(self) -> int | float:
        """The number of variants; `math.inf` without a limit."""
        total = sum(plan.grid_size for plan in self._plans)
        free = self._rounds - len(self._plans)
        if free:  # inf * 0 would be NaN
            return total + free * self._free_plan.grid_size
        return total

    def is_exhausted(self) -> bool:
        """Whether the table has returned its last variant."""
        return self.position.round >= self._rounds

    def extend(self, rounds: int) -> None:
        """Add rounds."""
        self._rounds += rounds

    def finish(self) -> None:
        """End the table: it returns no more variants."""
        self._rounds = self.position.round

    def seek(self, position: Position) -> None:
        """Continue at `position`, in O(1)."""
        self.position = Position(position.round, position.point)

    def reseed(self, seed: int | str) -> None:
        """Use another seed for the following draws."""
        self._seed = seed

    def next(self) -> Variant | None:
        """The next variant; None at the end.

        Raises:
            RecursiveDependencyError: If functions depend on each other in a circle.
            ValueError: If a function raises.
        """
        at = self.position
        if at.round >= self._rounds:
            return None
        plan = self._plans[at.round] if at.round < len(self._plans) else self._free_plan
        variant = plan.variant(at.point, self._rng(at.round, at.point))
        self._last = Position(at.round, at.point)
        at.point += 1
        if at.point >= plan.grid_size:
            at.round += 1
            at.point = 0
        return variant

    def redraw(self, attempt: int) -> Variant | None:
        """Draw another variant in place of the last one; None if nothing is drawn for it alone."""
        last = self._last
        plan = self._free_plan  # also if a point itself was rejected, of which nothing is drawn
        if last.round < len(self._plans) and self._plans[last.round].is_drawn:
            plan = self._plans[last.round]
        if not plan.is_drawn:
            return None
        # Another generator than at the first draw, and one that a resume finds again.
        return plan.variant(last.point, self._rng(last.round, last.point, f"again {attempt}"))

    def __iter__(self) -> Iterator[Variant]:
        while (variant := self.next()) is not None:
            yield variant

    def _rng(self, *path: int | str) -> random.Random:
        # `random` hashes a string by SHA-512, which is the same in every process and version.
        return random.Random("/".join(map(str, (self._seed, *path))))


class _Plan:
    """The space of one round, with its domains sorted into grids, random parameters and functions."""

    def __init__(self, space: dict[str, Any], searched: list[Path]):
        # By path, so that the draws do not depend on the order in which the user has written the keys.
        found = sorted(find_unresolved(space), key=lambda item: path_key(item[0]))
        self.space = space
        self._searched = topmost(searched + [path for path, _ in found])
        self._grids, self._others = _split(found)
        for path, domain in found:
            if isinstance(domain, Categorical):
                _refuse_inner_grids(domain.categories, path)
        self.grid_size = math.prod(len(grid) for _, grid in self._grids)
        self.is_drawn = bool(self._others) or any(has_unresolved_values(grid.categories) for _, grid in self._grids)

    def variant(self, index: int, rng: random.Random) -> Variant:
        """The variant of grid point `index`."""
        config = copy_tree(self.space)  # a trial may change its configuration
        config, found = _choose(config, self._grids, index)
        config = _resolve(config, self._others + found, rng)
        return Variant(leaves(config, self._searched), config)


def generate_variants(space: dict[str, Any], random_state: Any = None) -> Iterator[Variant]:
    """Yield the variants of one round: the searched parameters by path, and the configuration."""
    yield from VariantTable(space, seed=random_generator(random_state).getrandbits(64))


def parse_spec_vars(spec: dict[str, Any]) -> tuple[list[tuple[Path, Any]], _Unresolved, _Grids]:
    """Sort the elements of a search space into constants, domains and grids, for searchers of users.

    Returns:
        Lists of (path, value) for the constants, (path, domain) for random parameters and functions, (path,
        `Categorical`) for the grids, sorted by path.
    """
    grids, others = _split(find_unresolved(spec))
    return list(find_constants(spec)), others, sorted(grids, key=lambda item: path_key(item[0]))


def complete_config(config: dict[str, Any], rng: random.Random) -> dict[str, Any]:
    """Complete a searcher's configuration in place: draw the domains that it does not support, and call the functions.

    Raises:
        ValueError: If there is a grid.
        RecursiveDependencyError: If functions depend on each other in a circle.
    """
    todo = sorted(find_unresolved(config), key=lambda item: path_key(item[0]))
    for path, domain in todo:
        if domain.is_grid():
            raise ValueError(
                f"a searcher cannot cover a grid, but parameter {path_text(path)!r} is one; use choice() there, or run "
                "without a searcher"
            )
    completed: dict[str, Any] = _resolve(config, todo, rng)
    return completed


# -- resolving -------------------------------------------------------------------------------------------------


def _resolve(config: Any, todo: _Unresolved, rng: random.Random) -> Any:
    """Draw and call until all have values."""
    config, functions = _draw(config, todo, rng)
    while functions:
        config, left = _call(config, functions, rng)
        config, functions = _draw(config, left, rng)
    return config


def _refuse_inner_grids(categories: Iterable[Any], path: Path) -> None:
    """Refuse grids within the values of a choice or of another grid."""
    for category in categories:
        for inner, domain in find_unresolved(category, path):
            if domain.is_grid():
                raise _inner_grid(inner)
            if isinstance(domain, Categorical):
                _refuse_inner_grids(domain.categories, inner)


def _inner_grid(path: Path) -> ValueError:
    return ValueError(
        f"no grid may lie within a value of a choice, of another grid or of a function, but {path_text(path)!r} does; "
        "list the combinations in one grid, such as grid_search([{'kind': 'a', 'k': 1}, {'kind': 'a', 'k': 2}])"
    )


def _choose(config: Any, grids: _Grids, index: int) -> tuple[Any, _Unresolved]:
    """Set the values of grid point `index`. Also return the domains inside those values."""
    found: _Unresolved = []
    for path, grid in grids:
        index, digit = divmod(index, len(grid))
        value = copy_tree(grid[digit])
        config = assign_value(config, path, value)
        found.extend(find_unresolved(value, path))
    return config, found


def _draw(config: Any, todo: _Unresolved, rng: random.Random) -> tuple[Any, _Unresolved]:
    """Draw all random parameters, including those inside drawn values. Return the functions."""
    functions: _Unresolved = []
    queue = list(todo)
    for path, domain in queue:  # the loop appends to it
        if isinstance(domain, Function):
            functions.append((path, domain))
            continue
        sampler = domain.sampler or domain.default_sampler_cls()
        if isinstance(sampler, Grid):  # a function has returned it
            raise _inner_grid(path)
        value = sampler.draw(domain, None, rng)
        # A category may be a part of a space with its own domains. It must not be shared between trials either.
        if type(value) not in SCALAR_TYPES:
            value = copy_tree(value)
            queue.extend(find_unresolved(value, path))
        config = assign_value(config, path, value)
    return config, functions


def _call(config: Any, functions: _Unresolved, rng: random.Random) -> tuple[Any, _Unresolved]:
    """Call the functions once. Returns the configuration, and what has no value yet: functions that wait for another
    one, and domains that a function has returned.
    """
    left: _Unresolved = []
    with GlobalDraws(rng).lent():  # functions that use the global generators draw from this position's generator
        for path, function in functions:
            try:
                value = copy_tree(function.sample(ConfigView(config, function), random_state=rng))
            except RecursiveDependencyError:
                left.append((path, function))
                continue
            except Exception as error:
                text = f"sample_from of parameter {path_text(path)!r} failed: {error!r}"
                raise sample_error(error, text) from error
            config = assign_value(config, path, value)
            left.extend(find_unresolved(value, path))
    if left == functions:
        names = ", ".join(repr(path_text(path)) for path, _ in left)
        raise RecursiveDependencyError(
            f"sample_from functions must not depend on each other in a circle, but {names} still wait for each other"
        )
    return config, left


def _split(found: Iterable[tuple[Path, Domain]]) -> tuple[_Grids, _Unresolved]:
    grids: _Grids = []
    others: _Unresolved = []
    for path, domain in found:
        if isinstance(domain, Categorical) and domain.is_grid():
            grids.append((path, domain))
        else:
            others.append((path, domain))
    return grids, others
