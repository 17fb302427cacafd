"""A cell of a notebook with a run that an interrupt ends. It is executed as a kernel does it: see `kit.KERNEL`."""

import os
import time

from script_kit import fit, hurry

from minitune import report

hurry()


def slow(config):
    try:
        for i in range(1, 100_001):
            report({"i": i, "pid": os.getpid()})
            time.sleep(0.01)
    finally:
        open(os.path.join(os.environ["MINITUNE_STORAGE_PATH"], f"unwound-{config['x']}"), "w").close()


results = fit(slow, (0, 1))
print(results.interrupted, len(results))
