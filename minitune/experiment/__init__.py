"""Trials and their lifecycle (`trial`, `lifecycle`), and the experiments that a run consists of (`experiment`)."""

from minitune._alias import listing, submodules

_MODULE_OF = {"Experiment": "experiment", "Trial": "trial"}

__all__ = list(_MODULE_OF)

__dir__ = listing(__all__)
__getattr__ = submodules(__name__, _MODULE_OF)
