"""Trials and their lifecycle (`trial`, `lifecycle`), and the experiments that a run consists of (`experiment`)."""

from minitune._alias import submodules

__getattr__ = submodules(__name__, {"Experiment": "experiment", "Trial": "trial"})
