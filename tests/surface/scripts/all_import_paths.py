"""A script with all import paths at once."""

import sys

import minitune as ray
from minitune import air, train, tune  # noqa: F401
from minitune.air import session
from minitune.air.config import RunConfig
from minitune.tune.stopper import MaximumIterationStopper


def objective(config):
    from minitune.train import get_context
    from minitune.tune.search.sample import Float

    for step in range(4):
        session.report({"x": config["x"] * step, "name": get_context().get_trial_name(), "kind": Float})


grid = ray.tune.Tuner(
    objective,
    param_space={"x": tune.grid_search([1, 2])},
    tune_config=tune.TuneConfig(metric="x", mode="max"),
    run_config=RunConfig(storage_path=sys.argv[1], stop=MaximumIterationStopper(3), verbose=0),
).fit()
best = grid.get_best_result()
print(best.metrics["x"], best.metrics["kind"] is tune.search.sample.Float)
