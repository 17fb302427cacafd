"""Search spaces: what users write as `param_space`, and what it means.

Modules
-------
::

    domains       uniform, choice, ...: the functions for users; the domains that they return, and their samplers
    tree          a nested space or configuration: find its domains, set values, merge given values, make a tag
    distributions the domains of the distributions of SciPy, Optuna, HyperOpt and ConfigSpace
    variants      VariantTable: the configurations of grid and random search, in a fixed order. `complete`: what a
                  searcher has left open is drawn
    parameters    the space as a searcher sees it: a list of parameters, whose values are numbers on an axis
    difference    the texts about a space that has changed since the run began

One configuration
-----------------
1. `BasicVariantGenerator` asks `VariantTable.next`. A searcher chooses a value for each of `parameters`; `draw` puts
   them into the space, and `complete` draws the rest.
2. A grid's value is set by the variant's index, each other domain's by its sampler, with this position's own generator.
   Then the functions of `sample_from` are called.
"""

from minitune._alias import listing
from minitune.space.domains import *  # noqa: F403 - these names are those of `__all__`
from minitune.space.domains import __all__ as __all__

__dir__ = listing(__all__)
