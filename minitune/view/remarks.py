"""Remarks on a run: what its user may not have meant.

They are made at the start as far as the settings show it, and else at the end. A wrong one costs more than a missing
one, so each needs evidence that has hardly any other explanation.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import FunctionType
from typing import Any

from minitune.base.numbers import known_number
from minitune.experiment.lifecycle import TERMINATED
from minitune.experiment.trial import Trial
from minitune.result import OF_THE_CLOCK, lookup
from minitune.schedulers.trial_scheduler import TrialScheduler
from minitune.search.search_algorithm import SearchAlgorithm
from minitune.space.domains import Grid, as_domain
from minitune.space.tree import Path, find_constants, find_unresolved, path_text

_SINGLE_VALUES = (
    *("batch_size", "learning_rate", "lr", "max_depth", "momentum", "n_estimators", "num_layers"),
    *("optimizer", "subsample", "weight_decay"),
)
"""Parameters that are hardly ever a list: where one is, its values were meant to be tried."""
_SCALARS = frozenset((bool, int, float, str, type(None)))
_MOST_VALUES = 100
"""A longer list is data."""


# -- at the start ------------------------------------------------------------------------------------------------------
def opening_remarks(space: Mapping[str, Any], total_samples: int) -> Iterator[str]:
    """The remarks on a new run that begins."""
    for remark in _on_space(space, total_samples):
        yield f"hint: {remark}"


def _on_space(space: Mapping[str, Any], total_samples: int) -> Iterator[str]:
    """The remarks on search spaces that may differ from what their author wants."""
    searched = [domain for _, domain in find_unresolved(space)]
    if total_samples == 1 and any(not isinstance(domain.sampler, Grid) for domain in searched):
        yield "one configuration is drawn from the search space (num_samples=1); a larger num_samples tries more"
    # Ray Tune 0.6 called such functions, and `lambda` is easily written without `sample_from`.
    for path, value in find_constants(space):
        if isinstance(value, FunctionType) and value.__name__ == "<lambda>" and value.__code__.co_argcount <= 1:
            yield (
                f"{path_text(path)!r} is a lambda, and each trial gets the lambda itself; "
                "sample_from(lambda config: ...) calls it for each trial"
            )
    for path, value in _lists_of_values(space):
        what = (
            f"{path_text(path)!r} is a {type(value).__name__}, and each trial gets all of it; "
            "choice([...]) draws one of its values, grid_search([...]) tries each"
        )
        if not searched:
            yield f"the search space has only constants: {what}"
            return
        if path[-1] in _SINGLE_VALUES:
            yield what


def _lists_of_values(value: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """The constants that have two or more different values, each a single number or text, with their paths."""
    if as_domain(value) is not None:
        return
    if isinstance(value, dict):
        for key, member in dict.items(value):
            yield from _lists_of_values(member, (*path, key))
    elif isinstance(value, (list, tuple, range)) and 2 <= len(value) <= _MOST_VALUES:
        has_scalars = all(type(each) in _SCALARS for each in value)
        if has_scalars and len(set(value)) == len(value):
            yield path, value


# -- at the end --------------------------------------------------------------------------------------------------------
def closing_remarks(
    trials: Sequence[Trial],
    scheduler: TrialScheduler,
    search_alg: SearchAlgorithm,
    *,
    is_cut: bool,
) -> Iterator[str]:
    """The remarks on a run that has ended."""
    if search_alg.end_reason:
        yield f"No more trials: {search_alg.end_reason}"
    if is_cut or not trials:
        return
    # The commonest mistake of a first script: it prints its loss and does not report it.
    if all(trial.status == TERMINATED and not trial.progress.num_reports for trial in trials):
        yield "hint: no trial has reported a result: call report({'loss': ...}) in the trainable, or return such a dict"
        return
    if remark := _on_turns(trials, scheduler):
        yield f"hint: {remark}"


def _on_turns(trials: Sequence[Trial], scheduler: TrialScheduler) -> str:
    """The remark on a scheduler that had no occasion to decide anything."""
    name = scheduler.time_attr
    first = scheduler.first_turn
    if name is None or first is None:
        return ""
    reached = [known_number(lookup(trial.progress.metrics, name)) for trial in trials]
    known = [time for time in reached if time is not None]
    if not known or max(known) >= first:
        return ""
    text = f"{scheduler.short_name} decided nothing: its first turn is at {name}={first:g}, and no trial got beyond "
    text += f"{max(known):.3g}"
    if name in OF_THE_CLOCK:
        text += f" (time_attr={name!r} counts seconds, 'training_iteration' counts reports)"
    return text
