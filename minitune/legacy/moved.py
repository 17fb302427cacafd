"""Classes that earlier versions had in `minitune.experiment.trial`. Pickles of runs name them there."""

from minitune.experiment.goal import EarlierRun as EarlierRun
from minitune.experiment.goal import Goal as Goal
from minitune.experiment.trial_info import TrialInfo as TrialInfo
from minitune.experiment.trial_maker import TrialIds as TrialIds
from minitune.experiment.trial_maker import TrialMaker as TrialMaker
