"""The global generators of `random`, numpy and torch: seeded for a trial's process, lent to user code in the driver's.

A worker's process belongs to one trial, so `seed_process` seeds its global generators once. The driver's process
belongs to the user's program. A function in a search space that calls `numpy.random.uniform()` there ignores the run's
seed, and it changes what the program draws next; so does a trial that runs in this process. In a run with a seed such
code therefore gets the generators on loan: they are seeded from the run's seed while it runs, and restored afterwards.
A run without a seed leaves them alone: the user may have called `random.seed(0)` before `fit` to repeat these draws.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

_is_lent: ContextVar[bool] = ContextVar("minitune_global_draws_are_lent", default=False)
_is_on_loan = False


@contextmanager
def lending(is_seeded: bool) -> Iterator[None]:
    """Lend the global generators inside a `with` block, if the run that goes on there has a seed."""
    token = _is_lent.set(is_seeded)
    try:
        yield
    finally:
        _is_lent.reset(token)


class GlobalDraws:
    """A stream of draws for some user code, which goes on from one loan to the next.

    Args:
        source: Gives the seed of the stream, with the first loan.
    """

    def __init__(self, source: random.Random):
        self._source = source
        self._states: tuple[Any, Any, Any] | None = None

    @contextmanager
    def lent(self) -> Iterator[None]:
        """Let code draw from this stream inside a `with` block, if draws are lent at all. Not thread-safe."""
        if not _is_lent.get():
            yield
            return
        global _is_on_loan
        before, was_on_loan = _states(), _is_on_loan
        if self._states is None:
            seed_global_generators(self._source.getrandbits(32))
        else:
            _restore(self._states)
        _is_on_loan = True
        try:
            yield
        finally:
            _is_on_loan = was_on_loan
            self._states = _states()
            _restore(before)


def is_on_loan() -> bool:
    """Whether the global generators are on loan now, so that draws from them leave no trace afterwards."""
    return _is_on_loan


def seed_global_generators(seed: int) -> None:
    """Seed the global generators of `random` and, as far as they are loaded by now, of numpy and torch."""
    random.seed(seed)
    numpy_random, torch_generator = _loaded()
    if numpy_random is not None:
        numpy_random.seed(seed)
    if torch_generator is not None:
        torch_generator.manual_seed(seed)


def _loaded() -> tuple[Any, Any]:
    """Numpy's module of random numbers, and torch's generator; None for what is not loaded, which stays so."""
    return sys.modules.get("numpy.random"), getattr(sys.modules.get("torch"), "default_generator", None)


def _states() -> tuple[Any, Any, Any]:
    numpy_random, torch_generator = _loaded()
    return (
        random.getstate(),
        None if numpy_random is None else numpy_random.get_state(),
        None if torch_generator is None else torch_generator.get_state(),
    )


def _restore(states: tuple[Any, Any, Any]) -> None:
    random.setstate(states[0])
    numpy_random, torch_generator = _loaded()
    if states[1] is not None:
        numpy_random.set_state(states[1])
    if states[2] is not None:
        torch_generator.set_state(states[2])


def seed_process(seed: int, iteration: int = 0, failures: int = 0) -> None:
    """Seed the global generators of `random` and, as far as they are loaded by now, of numpy and torch.

    So a trial draws the same numbers in every run with the same seed, and no two trials draw the same ones. The seeds
    depend on the arguments alone. A trial that goes on from a checkpoint draws new numbers, and the same ones however
    often it was paused before. A trial that is retried draws others: with the same ones it might fail again.

    Args:
        seed: The trial's seed.
        iteration: The iteration that it goes on from; 0 at a fresh start.
        failures: How often it has failed.
    """
    again = f"/failures/{failures}" if failures else ""
    seed_global_generators(random.Random(f"{seed}/iteration/{iteration}{again}").getrandbits(32))
