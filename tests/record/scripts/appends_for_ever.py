"""A journal to which results are appended, each of which is told when it has been."""

import os
import sys

from minitune.experiment.decision import CONTINUE, Decision
from minitune.record import records
from minitune.record.housekeeper import Housekeeper
from minitune.record.journal import Journal

log = Journal(sys.argv[1], Housekeeper(), is_new=True)
log.append(records.run("n", metric=None, mode=None, seed=0, space_keys=[], trainable="t", versions={}))
number = 0
while True:
    number += 1
    log.append(records.result("a", 1, number, {"loss": 1.0}, Decision(CONTINUE)))
    os.write(1, b"%d\n" % number)
