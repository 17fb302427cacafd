"""A study, and what it has loaded of the driver."""

import sys

from minitune import uniform
from minitune.search import Study

study = Study({"x": uniform(0, 1)}, "tpe", mode="min")
study.tell(study.ask(), 1)
engine = ("minitune.driver.", "minitune.executors.", "minitune.actor", "psutil")
print([name for name in sys.modules if name.startswith(engine)])
