"""What user code draws from the global generators of `random` and numpy while a seeded run calls it.

A function in a search space that calls `numpy.random.uniform()` is out of reach of a seed, and changes what the user's
own program draws next. In a run with a seed such code gets the global generators on loan: seeded from the run's seed
while it is called, and afterwards as they were. In a run without one nothing is touched: there `random.seed(0)` before
`fit` may be what makes the user's draws repeatable.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

_is_lent: ContextVar[bool] = ContextVar("minitune_global_draws_are_lent", default=False)


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
        self._states: tuple[Any, Any] | None = None

    @contextmanager
    def lent(self) -> Iterator[None]:
        """Let code draw from this stream inside a `with` block, if draws are lent at all. Not thread-safe."""
        if not _is_lent.get():
            yield
            return
        before = _states()
        if self._states is None:
            _seed(self._source.getrandbits(32))
        else:
            _restore(self._states)
        try:
            yield
        finally:
            self._states = _states()
            _restore(before)


def _numpy_random() -> Any:
    """Numpy's module of random numbers if it is loaded; it is not loaded for this."""
    return sys.modules.get("numpy.random")


def _states() -> tuple[Any, Any]:
    numpy_random = _numpy_random()
    return random.getstate(), None if numpy_random is None else numpy_random.get_state()


def _seed(seed: int) -> None:
    random.seed(seed)
    numpy_random = _numpy_random()
    if numpy_random is not None:
        numpy_random.seed(seed)


def _restore(states: tuple[Any, Any]) -> None:
    random.setstate(states[0])
    if states[1] is not None:
        _numpy_random().set_state(states[1])
