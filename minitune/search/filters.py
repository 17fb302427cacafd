"""Filters decide which proposals become trials: constraints and duplicates, for every searcher.

A `Filter` judges complete proposals. Constraints can be impossible and a small space can be used up, so a filter counts
the refusals in a row.
"""

from __future__ import annotations

import logging
import math
import os
import random
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from typing import Any, NamedTuple

from minitune.base.checks import require, shown
from minitune.base.saved import Saved
from minitune.error import ConstraintError
from minitune.search.searcher import (
    Metric,
    Searcher,
    SearcherWrapper,
    Suggestion,
    call_set_search_properties,
)
from minitune.space.domains import fits
from minitune.space.parameters import config_key, space_size
from minitune.space.tree import copy_tree, has_unresolved_values, overlay
from minitune.space.variants import complete_config

logger = logging.getLogger("minitune")

Constraint = Callable[[dict[str, Any]], bool]

ALLOW = "allow"
RESAMPLE = "resample"
ON_DUPLICATE = (ALLOW, RESAMPLE)

MAX_TRIES = 10_000
"""The search ends after so many refused proposals in a row. It still works if 0.1 % of the space is feasible. While it
draws, the driver serves no trial, and so many draws of ten parameters take more than a second.
"""

_ASKS = 20
"""How often a searcher is asked again before values are drawn: one at its optimum may propose it for ever."""

_ASKS_ALONE = 1_000
"""The same for a searcher with a space of its own, where no values can be drawn; then the search ends."""


class Verdict(Enum):
    """A filter's judgement of a configuration."""

    ADMITTED = "admitted"
    DUPLICATE = "duplicate"
    VIOLATES = "violates"


class Rules(NamedTuple):
    """The user's rules for configurations."""

    on_duplicate: str = ALLOW
    constraints: tuple[Constraint, ...] = ()

    @classmethod
    def of(cls, on_duplicate: Any, constraints: Any) -> Rules:
        """The rules from a user's arguments."""
        known = isinstance(on_duplicate, str) and on_duplicate in ON_DUPLICATE
        require(known, f"on_duplicate: one of {', '.join(map(repr, ON_DUPLICATE))}", on_duplicate)
        given = constraints
        if constraints is None:
            given = ()
        listed = isinstance(given, Iterable) and not isinstance(given, (str, dict))
        if listed:
            functions = tuple(given)
        else:
            functions = (None,)
        require(
            all(map(callable, functions)), "constraints: None or a list of functions of the configuration", constraints
        )
        return cls(on_duplicate, functions)

    @property
    def refuse(self) -> bool:
        """Whether a proposal can be refused."""
        return bool(self.constraints) or self.refuse_duplicates

    @property
    def refuse_duplicates(self) -> bool:
        """Whether a proposal is refused because it was made before."""
        return self.on_duplicate == RESAMPLE


class Filter(Saved):
    """Judges the proposals of one experiment, and remembers those that it has admitted.

    The size of its state grows with the number of trials.
    """

    _STATE = ("_is_admitted", "_outside", "_violations")

    def __init__(self, rules: Rules, space: Any, num_samples: int):
        self._constraints = rules.constraints
        self._refuses_duplicates = rules.refuse_duplicates
        self._space = space
        if space is None:
            self._size = math.inf
        else:
            self._size = space_size(space)
        self._num_samples = num_samples
        self._is_admitted: dict[str, bool] = {}  # by key; those that violate a constraint only if all can be counted
        self._violations: Counter[str] = Counter()
        self._outside = 0
        self.end_reason = ""

    @property
    def is_exhausted(self) -> bool:
        """Whether every configuration of the space has been admitted, or violates a constraint."""
        return len(self._is_admitted) - self._outside >= self._size

    @property
    def is_used_up(self) -> bool:
        """Whether every configuration has been admitted or violates a constraint, and some were admitted."""
        return self.is_exhausted and any(self._is_admitted.values())

    def judge(self, config: dict[str, Any]) -> Verdict:
        """If the complete configuration is admitted, it counts as tried.

        Raises:
            ConstraintError: If a constraint fails, or its answer is neither True nor False.
        """
        broken = self.broken_constraint(config)
        if broken is not None:
            self._violations[broken] += 1
            if self._size < math.inf:
                self._note(config_key(config), config, False)
            return Verdict.VIOLATES
        if not self._refuses_duplicates:
            return Verdict.ADMITTED
        key = config_key(config)
        if key in self._is_admitted:
            return Verdict.DUPLICATE
        self._note(key, config, True)
        return Verdict.ADMITTED

    def note(self, config: dict[str, Any]) -> None:
        """A configuration is tried, whatever the rules say."""
        if self._refuses_duplicates:
            self._note(config_key(config), config, True)

    def _note(self, key: str, config: dict[str, Any], is_admitted: bool) -> None:
        if key not in self._is_admitted and self._size < math.inf and not fits(self._space, config):
            self._outside += 1  # of a run that had another space: it does not use up this one
        self._is_admitted[key] = is_admitted

    def broken_constraint(self, config: dict[str, Any]) -> str | None:
        """The name of the first constraint that a configuration violates; None if there is none."""
        for constraint in self._constraints:
            try:
                answer = constraint(copy_tree(config))  # a copy: the function may change it
            except Exception as error:
                raise ConstraintError(
                    f"the constraint {_name(constraint)} raised {type(error).__name__}: {error} for {shown(config)}; "
                    "it must return True or False for every configuration, also for those that lack a conditional "
                    "parameter"
                ) from error
            if not isinstance(answer, bool) and type(answer).__name__ not in ("bool_", "bool"):  # numpy's
                raise ConstraintError(
                    f"the constraint {_name(constraint)} must return True or False, but returned {shown(answer)} for "
                    f"{shown(config)}"
                )
            if not answer:
                return _name(constraint)
        return None

    def check_points(self, points: Iterable[Any]) -> None:
        """Refuse points to evaluate that violate a constraint. Incomplete points cannot be judged yet.

        Raises:
            ValueError: Naming the constraint and the point.
        """
        for point in points:
            if has_unresolved_values(point):
                broken = None
            else:
                broken = self.broken_constraint(point)
            if broken is not None:
                raise ValueError(f"every point to evaluate must fulfil the constraint {broken}, but got {shown(point)}")

    def end(self, refused: Counter[Verdict]) -> None:
        """End the search, and log it once. `refused` are the last judgements.

        Raises:
            ConstraintError: If all of them violate constraints and none was tried before.
        """
        tried = sum(self._is_admitted.values())
        left_out = len(self._is_admitted) - tried
        also = ""
        if left_out:
            also = f"; {left_out} more violate a constraint ({self.violated()})"
        if self.is_exhausted and tried:
            self.end_reason = f"all {tried} configurations of the search space have been tried{also}"
        elif refused[Verdict.DUPLICATE]:
            violate = refused[Verdict.VIOLATES]
            self.end_reason = (
                f"the last {refused.total()} proposals were refused: {refused[Verdict.DUPLICATE]} had been tried "
                f"before, {violate} violate a constraint"
            )
        else:
            raise ConstraintError(
                f"no configuration fulfils the constraints: {refused.total()} proposals in a row were refused (so far: "
                f"{self.violated()}); loosen the constraint, or use a search space with more valid configurations"
            )
        if self._num_samples == -1:  # as long as there is anything to try: so it was meant
            logger.info("the search has ended: %s", self.end_reason)
        else:
            logger.warning(
                "the search should run num_samples=%d samples, but has ended: %s", self._num_samples, self.end_reason
            )

    def violated(self) -> str:
        """How often each constraint was violated, such as `'fits' 12 times`."""
        return ", ".join(f"{name} {count} times" for name, count in self._violations.most_common())


def _name(constraint: Constraint) -> str:
    name = getattr(constraint, "__name__", None) or type(constraint).__name__
    code = getattr(constraint, "__code__", None)
    if name == "<lambda>" and code is not None:
        return f"'<lambda>' ({os.path.basename(code.co_filename)}:{code.co_firstlineno})"
    return f"'{name}'"


# -- searchers --------------------------------------------------------------------------------------------------------


class FilteredSearcher(SearcherWrapper):
    """Asks a searcher again, for the same trial, if its suggestion is refused.

    At last it draws at random, if it knows the space and the searcher overrides `adopt`. The searcher is told of each
    refusal at once (`Searcher.on_suggestion_refused`).
    """

    def __init__(self, searcher: Searcher, rules: Rules):
        super().__init__(searcher)
        self._rules = rules
        self._space: Any = {}
        self._can_draw = False
        self._filter = Filter(rules, None, -1)
        self._seed = random.SystemRandom().getrandbits(63)
        self._count = 0  # of the trials so far

    @property
    def end_reason(self) -> str:
        """Why the search has ended early; empty if it has not."""
        return self._filter.end_reason

    def set_seed(self, seed: int) -> None:
        self._seed = seed
        super().set_seed(seed)

    def set_search_properties(self, metric: Metric, mode: str | list[str] | None, config: Any, **spec: Any) -> bool:
        self._space = config
        spec = {**spec, "may_repeat": False}
        is_taken = call_set_search_properties(self.searcher.set_search_properties, metric, mode, config, spec)
        if not is_taken and self.searcher.own_space is not None:
            self._space = overlay(config, self.searcher.own_space)[0]
        # otherwise the searcher has a space of its own, which is unknown here
        is_known = has_unresolved_values(self._space)
        self._can_draw = is_known and type(self.searcher).adopt is not Searcher.adopt
        self._filter = Filter(self._rules, self._space if is_known else None, spec.get("num_samples", -1))
        self._filter.check_points(overlay(self._space, point)[0] for point in self.searcher.first_points())
        return is_taken

    def suggest(self, trial_id: str) -> Suggestion:
        """See `Searcher.suggest`. Returns the complete configuration.

        Raises:
            ConstraintError: If nothing fulfils the constraints, or one of them fails.
        """
        refused: Counter[Verdict] = Counter()
        if self._filter.is_used_up and self._count >= len(self.searcher.first_points()):
            self._filter.end(refused)
            return self.FINISHED
        while refused.total() < (MAX_TRIES if self._can_draw else _ASKS_ALONE):
            suggestion: Suggestion = {}
            asks = refused.total() < _ASKS or not self._can_draw
            if asks:
                suggestion = self.searcher.suggest(trial_id)
            if not isinstance(suggestion, dict):
                if suggestion == self.FINISHED and self._filter.is_exhausted:
                    self._filter.end(refused)
                return suggestion
            self._can_draw = self._can_draw and suggestion.keys() <= self._space.keys()
            merged, _ = overlay(self._space, suggestion)
            config = complete_config(merged, random.Random(f"{self._seed}/{self._count}/{refused.total()}"))
            verdict = self._filter.judge(config)
            if verdict is Verdict.ADMITTED:
                if not asks:
                    self.searcher.adopt(trial_id, config)
                self._count += 1
                return config
            refused[verdict] += 1
            if asks:
                self.searcher.on_suggestion_refused(trial_id)
            if self._filter.is_exhausted:
                break
        self._filter.end(refused)
        return self.FINISHED

    def adopt(self, trial_id: str, config: Mapping[str, Any]) -> None:
        self.searcher.adopt(trial_id, config)
        self._filter.note(dict(config))
        self._count += 1

    def get_state(self) -> dict[str, Any]:
        """The filter's state; a resumed run passes the constraints again."""
        return {"seed": self._seed, "count": self._count, "filter": self._filter.get_state()}

    def set_state(self, state: dict[str, Any]) -> None:
        self._seed = state["seed"]
        self._count = state["count"]
        self._filter.set_state(state["filter"])
