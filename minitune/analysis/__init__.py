"""The results of a run, from its driver or from its directory.

`run_results` has the trials and answers questions about them. `ExperimentAnalysis` and `minitune.result_grid` are two
façades over it. `result_rows` are the reports of a trial as rows. `summary` has the target of a run and its errors.
"""

from minitune.analysis.experiment_analysis import ExperimentAnalysis
from minitune.base.lazy import listing

__all__ = ["ExperimentAnalysis"]

__dir__ = listing(__all__)
