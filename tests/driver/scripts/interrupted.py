"""A run that signals end. With `raises` an interrupt ends the script, too; `stubborn` trials do not unwind."""

import os
import signal
import sys
import time

from minitune import RunConfig, Tuner, grid_search, report


def trainable(config):
    try:
        for i in range(100_000):
            report({"i": i})
            time.sleep(0.01)
    except BaseException:
        if "stubborn" not in sys.argv:
            raise
        open(os.path.join(sys.argv[1], f"stuck-{config['x']}"), "w").close()
        time.sleep(600)
    finally:
        with open(os.path.join(sys.argv[1], f"unwound-{config['x']}"), "w"):
            pass


before = signal.getsignal(signal.SIGINT)
tuner = Tuner(trainable, param_space={"x": grid_search([0, 1, 2, 3])}, run_config=RunConfig(name="run", verbose=1))
results = tuner.fit(raise_on_interrupt=True) if "raises" in sys.argv else tuner.fit()
assert signal.getsignal(signal.SIGINT) is before
print("interrupted:", results.interrupted, len(results), results.num_errors)
