"""Looking at a run: `ExperimentAnalysis`."""

from minitune._alias import listing
from minitune.analysis.experiment_analysis import ExperimentAnalysis

__all__ = ["ExperimentAnalysis"]

__dir__ = listing(__all__)
