"""Looking at a run: `ExperimentAnalysis`."""

from minitune.analysis.experiment_analysis import ExperimentAnalysis

__all__ = ["ExperimentAnalysis"]
