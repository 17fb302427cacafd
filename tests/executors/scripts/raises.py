"""A trial whose error `fit` raises."""

import minitune


def objective(config):
    layers = config["width"] // 3
    raise ValueError(f"too many: {layers}")


minitune.Tuner(
    objective,
    param_space={"width": 21},
    run_config=minitune.RunConfig(failure_config=minitune.FailureConfig(fail_fast="raise")),
).fit()
