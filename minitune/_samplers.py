"""How values are drawn from a domain.

Every draw is made in pure Python from the `random.Random` that is passed in, so a seed means the same in every
process and on every supported Python.
"""

from __future__ import annotations

import math
import operator
import random
import sys
import warnings
from typing import Any, Protocol


class Drawable(Protocol):
    """What a sampler asks of a domain."""

    def cast(self, value: Any) -> Any:
        """`value` as the domain's type."""
        ...

    def draw_uniform(self, rng: random.Random) -> Any:
        """Draw with all values alike."""
        ...

    def draw_loguniform(self, rng: random.Random) -> Any:
        """Draw with all orders of magnitude alike."""
        ...

    def draw_quantized(self, sampler: Sampler, q: float, config: Any, rng: random.Random) -> Any:
        """Draw with `sampler`, moved to multiples of `q`."""
        ...

    def draw_call(self, config: Any) -> Any:
        """Compute from `config`."""
        ...


def random_generator(random_state: Any = None) -> random.Random:
    """Make the generator that a `random_state` argument asks for.

    Args:
        random_state: An int seed; a `random.Random`, used as it is; a numpy `Generator` or `RandomState`, from which
            one seed is drawn; or None for one seed from the program's own generator (see `draw_global_seed`).

    Returns:
        The generator.

    Raises:
        TypeError: If `random_state` is none of these.
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
    """Draw a seed from numpy's global generator if numpy is loaded, else from `random`'s: below 2**31.

    So `numpy.random.seed(0)` makes what follows repeatable.
    """
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        return int(numpy.random.randint(0, 2**31 - 1))
    return random.getrandbits(31)


def component_seed(seed: int, component: str) -> int:
    """The seed of one component: a function of the base seed alone, between 0 and 2**32 - 1."""
    return random.Random(f"{seed}/{component}").getrandbits(32)


class Sampler:
    """How values of a domain are drawn. A subclass overrides `draw`."""

    def draw(self, domain: Drawable, config: Any, rng: random.Random) -> Any:
        """Draw one value of `domain`.

        Args:
            domain: What to draw from.
            config: The parameters that are already known, for functions.
            rng: The only source of randomness.
        """
        raise NotImplementedError(f"{type(self).__name__} must override draw()")

    def sample(self, domain: Drawable, config: Any = None, size: int = 1, random_state: Any = None) -> Any:
        """Draw `size` values: the value itself for size 1, else a list. See `minitune.space.Domain.sample`."""
        rng = random_generator(random_state)
        if size == 1:
            return self.draw(domain, config[0] if isinstance(config, list) and config else config, rng)
        configs = config if isinstance(config, list) else [config] * size
        return [self.draw(domain, configs[i], rng) for i in range(size)]

    def __str__(self) -> str:
        return type(self).__name__

    def __repr__(self) -> str:
        inner = ", ".join(f"{name}={value!r}" for name, value in vars(self).items())
        return f"{type(self).__name__}({inner})"


class Uniform(Sampler):
    """All values alike."""

    def draw(self, domain: Drawable, config: Any, rng: random.Random) -> Any:
        """See `Sampler.draw`."""
        return domain.draw_uniform(rng)


class LogUniform(Sampler):
    """All orders of magnitude alike.

    Args:
        base: Old; it never changed the distribution, and warns.
    """

    def __init__(self, base: object = None):
        _warn_for_base(base)

    def draw(self, domain: Drawable, config: Any, rng: random.Random) -> Any:
        """See `Sampler.draw`."""
        return domain.draw_loguniform(rng)


class Normal(Sampler):
    """Gaussian.

    Args:
        mean: Its mean.
        sd: Its standard deviation.

    Raises:
        ValueError: If `sd` is not positive.
    """

    def __init__(self, mean: float = 0.0, sd: float = 1.0):
        if not sd > 0 or not math.isfinite(sd) or not math.isfinite(mean):
            raise ValueError(f"0 < sd < inf and a finite mean must hold, but got mean={mean!r}, sd={sd!r}")
        self.mean = float(mean)
        self.sd = float(sd)

    def draw(self, domain: Drawable, config: Any, rng: random.Random) -> Any:
        """See `Sampler.draw`."""
        return domain.cast(rng.normalvariate(self.mean, self.sd))


class Quantized(Sampler):
    """Another sampler's values, moved to multiples of `q`.

    Args:
        sampler: Draws the value.
        q: The step.

    Raises:
        ValueError: If `q` is not positive.
    """

    def __init__(self, sampler: Sampler, q: float):
        if not q > 0 or not math.isfinite(q):
            raise ValueError(f"0 < q < inf must hold, but got q={q!r}")
        self.sampler = sampler
        self.q = q

    def get_sampler(self) -> Sampler:
        """The sampler whose values are quantised."""
        return self.sampler

    def draw(self, domain: Drawable, config: Any, rng: random.Random) -> Any:
        """See `Sampler.draw`."""
        return domain.draw_quantized(self.sampler, self.q, config, rng)


class Grid(Sampler):
    """Marks a domain all of whose values are to be tried. It is enumerated, never drawn from."""

    def draw(self, domain: Drawable, config: Any, rng: random.Random) -> Any:
        """Raise a RuntimeError."""
        raise RuntimeError("a grid is enumerated, not sampled: iterate over its categories, or use choice()")


class Call(Sampler):
    """Calls the function of a `Function` domain."""

    def draw(self, domain: Drawable, config: Any, rng: random.Random) -> Any:
        """See `Sampler.draw`."""
        return domain.draw_call(config)


def _warn_for_base(base: object) -> None:
    if base is not None:
        message = "base never changed what is drawn and is ignored; leave it out"
        warnings.warn(message, DeprecationWarning, stacklevel=5)
