"""A program that tells how many modules a run of one trial has loaded, in its driver and in its trial's process.

It counts them when the first result arrives, beyond those of a bare Python.
"""

import sys

before = len(sys.modules)

import minitune  # the modules of a bare Python are counted before


class Modules(minitune.Callback):
    """Counts the driver's modules at the first result."""

    count = 0

    def on_trial_result(self, *args, **info):
        if not self.count:
            self.count = len(sys.modules) - before


def train(config):
    return {"loss": 1.0, "modules": len(sys.modules) - before}


if __name__ == "__main__":
    modules = Modules()
    grid = minitune.Tuner(
        train,
        param_space={"x": minitune.uniform(0, 1)},
        tune_config=minitune.TuneConfig(metric="loss", mode="min"),
        run_config=minitune.RunConfig(storage_path=sys.argv[1], verbose=0, callbacks=[modules]),
    ).fit()
    print(modules.count, grid[0].metrics["modules"])
