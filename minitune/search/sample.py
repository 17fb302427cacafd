"""The search space functions and kinds of domains, under the path that Ray Tune gives them."""

from minitune._samplers import Sampler as BaseSampler  # noqa: F401  # Ray Tune's class between Sampler and the others
from minitune.space import *  # noqa: F403  # the same names by definition
