"""References of `put` in a space: a resumed run gets those of the new process in place of the old ones."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from minitune._domains import Categorical
from minitune._tuner_file import load_tuner_file
from minitune.execution.storage import RunDirectory
from minitune.experiment.trial import Trial
from minitune.search.space_tree import is_plain
from minitune.shared import ObjectRef


def renew_references(run: RunDirectory, trials: Sequence[Trial], space: Any) -> None:
    """Put the references of `space` where those of the recorded space stand in the configurations of trials.

    Those at the same place of both spaces correspond. Nothing is done if the spaces hold different numbers of them.

    Args:
        run: The directory of the run, with the space with which it began.
        trials: Its trials; the ones that have ended are left alone.
        space: The space with which it goes on.

    Raises:
        TuneError: If there are references, and the recorded space cannot be read.
    """
    new = list(_references(space))
    old = list(_references(load_tuner_file(run).param_space)) if new else []
    if old == new or len(old) != len(new):
        return
    successors = dict(zip(old, new, strict=True))
    for trial in trials:
        if not trial.is_finished():
            trial.set_config(_renewed(trial.config, successors))


def _references(space: Any) -> Iterator[ObjectRef]:
    if isinstance(space, ObjectRef):
        yield space
    elif isinstance(space, Mapping):
        for key in sorted(space, key=str):
            yield from _references(space[key])
    elif isinstance(space, (list, tuple)) and not is_plain(space):
        for member in space:
            yield from _references(member)
    elif isinstance(space, Categorical):
        yield from _references(list(space.categories))


def _renewed(value: Any, successors: Mapping[ObjectRef, ObjectRef]) -> Any:
    if isinstance(value, ObjectRef):
        return successors.get(value, value)
    if type(value) is dict:
        return {key: _renewed(member, successors) for key, member in value.items()}
    if type(value) in (list, tuple):
        return type(value)(_renewed(member, successors) for member in value)
    return value
