"""A trial that ignores the stop, and whose driver does not wait for it."""

import os
import threading

os.environ["MINITUNE_FORCE_TRIAL_CLEANUP_S"] = "0"
import minitune


def objective(config):
    try:
        minitune.report({"loss": 1})
        minitune.report({"loss": 2})
    finally:
        threading.Event().wait()


minitune.Tuner(objective, run_config=minitune.RunConfig(stop={"training_iteration": 1}, verbose=0)).fit()
print("the end")
