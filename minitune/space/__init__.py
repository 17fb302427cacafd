"""Search spaces: what users write as `param_space`, and what it means.

::

    domains        uniform, choice, ...: the domains that they return, and their samplers
    tree           a nested space or configuration: find domains, set values, merge, make a tag
    distributions  domains of the distributions of SciPy and Optuna
    variants       VariantTable: grid and random search, in a fixed order. `complete_config` draws what is left open
    parameters     the space as a searcher sees it: values as numbers on an axis
    guesses        points to evaluate, which may leave parameters open

`BasicVariantGenerator` asks `VariantTable.next`. A searcher chooses a value for each of `parameters`; `draw` puts them
into the space, and `complete_config` draws the rest: a grid's value by the variant's index, others by their samplers,
with this position's own generator, and then the functions of `sample_from`.
"""

from minitune.base.lazy import listing
from minitune.space.domains import *  # noqa: F403 - these names are those of `__all__`
from minitune.space.domains import __all__ as __all__

__dir__ = listing(__all__)
