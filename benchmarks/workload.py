"""One small run with either engine, as a user's script would make it; `overhead.py` starts it as a process of its own.

`python workload.py ENGINE WORKLOAD STORAGE`, with ENGINE `minitune` or `ray`. It prints one line of JSON: the times
that the driver saw. What the run wrote stays in STORAGE, where `overhead.py` counts it. Nothing is imported here that
the engine does not need: the start is part of what is measured.
"""

import sys
import time

ENGINE, WORKLOAD, STORAGE = sys.argv[1:4]
TRIALS = {"cold": 1, "trials": 100, "reports": 2}[WORKLOAD]
REPORTS = {"cold": 1, "trials": 1, "reports": 1000}[WORKLOAD]

if ENGINE == "ray":
    import ray
    from ray import tune
    from ray.tune.logger import CSVLoggerCallback, JsonLoggerCallback

    if WORKLOAD != "cold":  # the cluster's own start counts only where the start is the question
        ray.init(logging_level="ERROR", include_dashboard=False)
else:
    import minitune as tune
    from minitune.logger import CSVLoggerCallback, JsonLoggerCallback


class Watch(tune.Callback):
    """Notes when the driver sees the first and the last report."""

    first_s = last_s = 0.0

    def on_trial_result(self, iteration, trials, trial, result, **info):
        """Called for each report."""
        self.last_s = time.time()
        self.first_s = self.first_s or self.last_s


def trial(config):
    """Report as fast as possible, and do nothing else."""
    for number in range(REPORTS):
        tune.report({"loss": float(number)})


watch = Watch()
tuner = tune.Tuner(
    trial,
    tune_config=tune.TuneConfig(num_samples=TRIALS),
    run_config=tune.RunConfig(
        name="run", storage_path=STORAGE, verbose=0, callbacks=[JsonLoggerCallback(), CSVLoggerCallback(), watch]
    ),
)
start_s = time.time()
grid = tuner.fit()
fit_s = time.time() - start_s
print(
    f'\n{{"first_s": {watch.first_s!r}, "last_s": {watch.last_s!r}, "fit_s": {fit_s!r}, '
    f'"trials": {len(grid)}, "errors": {grid.num_errors}}}'
)
