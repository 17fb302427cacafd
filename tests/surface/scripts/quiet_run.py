"""Prints which modules are loaded too early: before a run, after a quiet one, and after one that prints."""

import sys

from minitune import RunConfig, Tuner, with_resources

ONLY_FOR_RUNS = [
    "cloudpickle",
    "psutil",
    "multiprocessing",
    "minitune.driver.driver",
    "minitune.driver.tune_controller",
]
NOT_FOR_QUIET_RUNS = [
    "psutil",
    "multiprocessing",
    "minitune.base.table",
    "minitune.logger.tensorboardx",
    "minitune.output.reporters",
    "minitune.output.live_reporter",
    "minitune.view.summary",
    "minitune.driver.resume",
    "minitune.driver.replay",
    "minitune.record.story",
    "minitune.record.reading",
]
NOT_FOR_RUNS = ["psutil", "html"]


def trainable(config):
    return {"score": 1}


def fit(verbose):
    run_config = RunConfig(storage_path=sys.argv[1], verbose=verbose)
    Tuner(with_resources(trainable, {"cpu": 1}), run_config=run_config).fit()


def print_loaded(names):
    print([name for name in names if name in sys.modules])


Tuner(trainable)
print_loaded(ONLY_FOR_RUNS)
fit(verbose=0)
print_loaded(NOT_FOR_QUIET_RUNS)
fit(verbose=1)
print_loaded(NOT_FOR_RUNS)
