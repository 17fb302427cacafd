"""Trials and their life: see `lifecycle` and `trial`; and what a run consists of: see `experiment`."""

from minitune._alias import submodules

__getattr__ = submodules(__name__, {"Experiment": "experiment", "Trial": "trial"})
