"""Prints how many reports each trial of a run has, and its status."""

import os

from minitune.record.reading import read_run

trials = read_run(os.path.join(os.environ["MINITUNE_STORAGE_PATH"], "run")).trials
print([[trial.progress.num_reports, trial.status] for trial in trials])
