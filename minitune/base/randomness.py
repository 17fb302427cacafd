"""The global generators of `random`, numpy and torch: seeded in a worker, lent to user code in the driver.

A worker process belongs to one trial, so `seed_process` seeds its global generators once. The driver's process belongs
to the user's program. There, a function of the search space that calls `numpy.random.uniform()`, or an inline trial,
would ignore the run's seed and change the program's next draws. So a run with a seed lends the generators to such code:
it seeds them before, and restores them afterwards. A run without a seed does not touch them: the user may have called
`random.seed(0)` before `fit`.
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
# The first seed that is a text makes Python 3.13 import a module. Here that happens once, and not in each worker.
random.Random("")


@contextmanager
def lending(is_seeded: bool) -> Iterator[None]:
    """Inside the `with` block, a run with a seed lends the global generators to user code."""
    token = _is_lent.set(is_seeded)
    try:
        yield
    finally:
        _is_lent.reset(token)


class GlobalDraws:
    """A stream of random numbers for some user code. Each loan goes on where the last one ended."""

    def __init__(self, source: random.Random):
        self._source = source
        self._states: tuple[Any, Any, Any] | None = None

    @contextmanager
    def lent(self) -> Iterator[None]:
        """In the `with` block, code draws from this stream, if the run lends generators. Not thread-safe."""
        if not _is_lent.get():
            yield
            return
        global _is_on_loan
        before = _states()
        was_on_loan = _is_on_loan
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
    """Whether the global generators are lent now, and will be restored."""
    return _is_on_loan


def seed_global_generators(seed: int) -> None:
    """Seed the global generators of `random`, and of numpy and torch if they are loaded."""
    random.seed(seed)
    numpy_random, torch_generator = _loaded()
    if numpy_random is not None:
        numpy_random.seed(seed)
    if torch_generator is not None:
        torch_generator.manual_seed(seed)


def _loaded() -> tuple[Any, Any]:
    """The module `numpy.random` and torch's default generator; None for a library that is not loaded."""
    numpy_random = sys.modules.get("numpy.random")
    # Another thread may be importing it. Until it is complete, it has no global generator.
    if not hasattr(numpy_random, "set_state"):
        numpy_random = None
    return numpy_random, getattr(sys.modules.get("torch"), "default_generator", None)


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
    """Seed the global generators.

    Seeds depend only on the arguments. A trial that continues from a checkpoint, or is retried, draws new numbers: with
    the same ones it might fail again.
    """
    again = f"/failures/{failures}" if failures else ""
    seed_global_generators(random.Random(f"{seed}/iteration/{iteration}{again}").getrandbits(32))
