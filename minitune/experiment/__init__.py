"""Trials as values, which know neither the driver nor plug-ins.

::

    trial            Trial: one configuration, its status and its results
    lifecycle        Phase, Transition: which transitions a trial may take
    callback         Callback: what a user's code hears of the trials of a run
    decision         Decision: a scheduler's answer to a result, with its reason
    endings          Ending: why a trial, an attempt or a run has ended
    states           the words for a trial's state that views show
    metric_analysis  statistics of a trial's metrics
    goal             Goal: what a run optimises, and which trials are the best
    trial_maker      makes the trials of an experiment
    trial_info       what a worker gets of a trial
    run_description  what a driver runs, as far as a resume needs it
"""

from minitune.base.lazy import listing, submodules

_MODULE_OF = {"Experiment": "minitune.driver.experiment_spec", "Trial": "trial"}

__all__ = list(_MODULE_OF)

__dir__ = listing(__all__)
__getattr__ = submodules(__name__, _MODULE_OF)
