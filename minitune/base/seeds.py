"""Seeds: from what the user gives, else from the global generators, and then one for each component of a run.

The numbers must stay the same in all versions, or a resumed run would draw others.
"""

from __future__ import annotations

import operator
import random
import sys
from typing import Any


def random_generator(random_state: Any = None) -> random.Random:
    """Convert a `random_state` argument to a generator.

    Args:
        random_state: An int; a `random.Random`, used directly; a numpy generator, from which a seed is drawn; or None,
            see `draw_global_seed`.

    Raises:
        TypeError: If it has another type.
    """
    if random_state is None:
        return random.Random(draw_global_seed())
    if isinstance(random_state, random.Random):
        return random_state
    if hasattr(random_state, "integers"):
        return random.Random(int(random_state.integers(0, 2**63 - 1)))
    if hasattr(random_state, "randint"):
        return random.Random(int(random_state.randint(0, 2**31 - 1)))
    try:
        return random.Random(operator.index(random_state))
    except TypeError:
        raise TypeError(
            "random_state must be an int, a random.Random, or numpy's RandomState or Generator, "
            f"but got {random_state!r}"
        ) from None


def draw_global_seed() -> int:
    """Draw a seed below 2**31 from the global generator of numpy if numpy is loaded, else from that of `random`.

    After `numpy.random.seed(0)`, a program is repeatable.
    """
    # Not imported for this: who has not loaded numpy cannot have seeded it.
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        return int(numpy.random.randint(0, 2**31 - 1))
    return random.getrandbits(31)


def component_seed(seed: int, component: str) -> int:
    """The seed of one component, from 0 to 2**32 - 1. It depends only on the base seed and the name."""
    return random.Random(f"{seed}/{component}").getrandbits(32)
