"""The search space functions and kinds of domains, under the path that Ray Tune gives them."""

from minitune.space import *  # noqa: F403  # the same names by definition
