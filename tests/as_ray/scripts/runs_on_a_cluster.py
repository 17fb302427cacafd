"""A run on a cluster, which needs Ray itself."""

import minitune.as_ray  # noqa: F401
from minitune import tune

run_config = tune.RunConfig(storage_path="runs", verbose=0)
tune.Tuner(lambda config: 1, tune_config=tune.TuneConfig(executor="ray"), run_config=run_config).fit()
