"""A callback that hangs when the run is over."""

import os
import time

from script_kit import fit, hurry

from minitune import Callback

hurry()

STORAGE = os.environ["MINITUNE_STORAGE_PATH"]


class Hangs(Callback):
    def on_experiment_end(self, trials, **info):
        open(os.path.join(STORAGE, "hangs"), "w").close()
        while True:
            time.sleep(0.05)  # in short pieces: a signal just before a sleep is handled after it


def quick(config):
    return {"x": config["x"], "pid": os.getpid()}


fit(quick, (0, 1), callbacks=[Hangs()])
