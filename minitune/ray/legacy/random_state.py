"""A private name of Ray Tune's domains that FLAML uses."""

from __future__ import annotations

from typing import Any


class _BackwardsCompatibleNumpyRng:
    """A generator of numpy, as a `random_state`; its attributes are those of the generator."""

    def __init__(self, generator_or_seed: Any = None):
        import numpy

        self.rng = generator_or_seed
        self.legacy_rng = isinstance(generator_or_seed, numpy.random.RandomState)
        if not self.legacy_rng:
            self.rng = numpy.random.default_rng(generator_or_seed)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "rng":  # of a copy that has no attributes yet
            raise AttributeError(name)
        if self.legacy_rng:
            name = {"integers": "randint", "random": "rand"}.get(name, name)
        return getattr(self.rng, name)
