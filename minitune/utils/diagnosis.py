"""Tools for users: test a trainable before a run."""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import Any

from minitune.base.pickling import find_unpicklable, unpicklable_variables
from minitune.base.text import echo
from minitune.error import TuneError
from minitune.result import TRAINING_ITERATION, own_metrics
from minitune.trainable.trainable import Trainable


def validate_save_restore(trainable_cls: type[Trainable], config: dict[str, Any] | None = None) -> bool:
    """Check that a class continues from its checkpoint: two instances, three steps, save, restore, two more steps.

    After the restore, both instances do the same step. If the second instance then reports the values of the first
    instance's first step, while the first one reports other values, the checkpoint was not loaded. Blocks meanwhile.

    Raises:
        TuneError: If the iterations do not continue, or the second instance starts from the beginning.
        ValueError: If `trainable_cls` is not a `Trainable` subclass.
        Exception: Any error of the class itself.
    """
    if not (isinstance(trainable_cls, type) and issubclass(trainable_cls, Trainable)):
        raise ValueError(f"trainable_cls must be a Trainable subclass, but got {trainable_cls!r:.200}")
    instances: list[Trainable] = []
    try:
        for _ in range(2):
            instances.append(trainable_cls(config=dict(config or {})))
        first, second = instances
        # Three steps, so that an iteration which starts at 1 again is seen.
        results = [_step(first, expected) for expected in (1, 2, 3)]
        second.restore(first.save())
        wanted = _step(first, 4)
        got = _step(second, 4)
        if repr(got) == repr(results[0]) != repr(wanted):  # arrays have no plain ==
            raise TuneError(
                f"after restore() the next step must report values such as {wanted}, but it reports {got}, as a fresh "
                "one does: check that load_checkpoint() puts back all that save_checkpoint() has saved"
            )
        _step(second, 5)
    finally:
        for instance in instances:
            instance.stop()
    return True


def _step(instance: Trainable, expected: int) -> dict[str, Any]:
    """Do one step, and return the metrics of the class itself.

    Raises:
        TuneError: If the iteration is not the expected one.
    """
    result = instance.train()
    got = result.get(TRAINING_ITERATION)
    if got != expected:
        raise TuneError(
            f"{TRAINING_ITERATION} must be {expected} here, but got {got!r}: check what is saved and loaded"
        )
    return own_metrics(result)


def diagnose_serialization(trainable: Callable[..., Any]) -> bool | set[str]:
    """Find out why a trainable cannot be sent to workers, and print the reason. May take seconds for large objects.
    Returns True if it can be sent; else the names of the global and closure variables that cannot be pickled.
    """
    path = find_unpicklable(trainable)
    if path is None:
        return True
    echo(f"{trainable!r} cannot be sent to workers: {path}")
    found = {}
    if isinstance(trainable, FunctionType):
        found = unpicklable_variables(trainable)
    for name, part in found.items():
        echo(f"  {name!r} cannot be pickled: {part}; make it inside the function")
    return set(found)
