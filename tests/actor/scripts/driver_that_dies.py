"""A driver of actors that waits for its death, or exits.

With a zygote, a worker holds the interpreter's lock, and a fork of the driver holds its descriptors.
"""

import os
import sys
import time
from functools import partial
from pathlib import Path

from actor_driver import Driver, Group
from actor_samples import Family, Sleeper
from kit import read_pids

how, directory = sys.argv[1], Path(sys.argv[2])
group = Group()
driver = Driver(group)
driver.start("family", partial(Family, str(directory / "family")))
driver.call("family", "start_all")
if os.environ["MINITUNE_START_METHOD"] == "zygote":
    driver.start("gil", partial(Sleeper, str(directory / "gil")))
    group.call("gil", "hold_the_gil")
    read_pids(directory / "gil", 1)
    if os.fork() == 0:  # it holds all of the driver's descriptors
        os.setsid()
        (directory / "fork").write_text(f"{os.getpid()}\n")
        time.sleep(3600)
        os._exit(0)
    read_pids(directory / "fork", 1)
print(group.run_id, flush=True)
if how == "exit":
    sys.exit(3)
time.sleep(3600)
