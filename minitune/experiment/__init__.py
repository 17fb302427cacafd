"""Trials as values, which know neither the driver nor plug-ins.

A trial has a state (`trial`), a lifecycle (`lifecycle`), reasons why it ends (`endings`) and statistics of its metrics
(`metric_analysis`). `trial_maker` makes the trials. `trial_info` is what a worker gets of one, and `parameter_files`
writes its configuration. `goal` says what a run optimises, and which trials are the best.
"""

from minitune._alias import listing, submodules

_MODULE_OF = {"Experiment": "experiment", "Trial": "trial"}

__all__ = list(_MODULE_OF)

__dir__ = listing(__all__)
__getattr__ = submodules(__name__, _MODULE_OF)
