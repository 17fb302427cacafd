"""A trial whose forked child reports."""

import os

from minitune.experiment.trial_info import TrialInfo
from minitune.resources import Allocation
from minitune.trainable import report
from minitune.trainable.auto_fields import AutoFields
from minitune.trainable.session import Session

info = TrialInfo("t", "t", ".", "e", 0, {})
session = Session(info, Allocation(), AutoFields("t", None))
session.hand_over = lambda make: print(make())
with session.bound():
    report({"who": "parent"})
    if os.fork() == 0:
        report({"who": "child"})
        os._exit(0)
    os.wait()
