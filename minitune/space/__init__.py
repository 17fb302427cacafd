"""Search spaces. `domains` has what users write, and its names are here too. The other modules say what it means.

`tree` walks nested spaces and configurations, `variants` makes configurations of a space, and `parameters` is a space
as a searcher sees it: a list of parameters.
"""

from minitune._alias import listing
from minitune.space.domains import *  # noqa: F403 - these names are those of `__all__`
from minitune.space.domains import __all__ as __all__

__dir__ = listing(__all__)
