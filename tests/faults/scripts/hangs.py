"""A callback that hangs in the middle of a run."""

import os
import threading

from script_kit import fit, hurry, slow

import minitune.driver.interrupts as interrupts_module
from minitune import Callback

hurry()
interrupts_module._TOLD_S = 0  # a hook is named as soon as it has begun


class Hangs(Callback):
    def on_trial_result(self, iteration, trials, trial, result, **info):
        if result.get("i") == 3:
            open(os.path.join(os.environ["MINITUNE_STORAGE_PATH"], "hangs"), "w").close()
            lock = threading.Lock()
            lock.acquire()
            while not lock.acquire(timeout=0.05):  # in short pieces: a signal just before one is handled after it
                pass


fit(slow, (0, 1), callbacks=[Hangs()])
