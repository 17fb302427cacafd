"""Prints the decisions of a simulated run."""

import sys

from minitune import ASHAScheduler, FailureConfig, RunConfig, TuneConfig, choice, uniform
from minitune.simulation import simulate


def curve(config):
    return [({"loss": config["x"] + len(config["name"]) / epoch}, 1 + config["x"]) for epoch in range(1, 28)]


done = simulate(
    curve,
    param_space={"x": uniform(0, 1), "name": choice(["a", "bb", "ccc"])},
    tune_config=TuneConfig(
        metric="loss",
        mode="min",
        num_samples=60,
        scheduler=ASHAScheduler(max_t=27, reduction_factor=3, brackets=2, variant=sys.argv[1]),
    ),
    run_config=RunConfig(failure_config=FailureConfig(max_failures=3)),
    num_workers=5,
    failure_rate=0.02,
    seed=7,
)
sys.stdout.write(done.decision_log)
