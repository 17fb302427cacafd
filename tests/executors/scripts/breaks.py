"""Trials that stop at a breakpoint."""

import minitune


def objective(config):
    doubled = 2 * config["x"]
    breakpoint()
    minitune.report({"loss": doubled})


tuner = minitune.Tuner(objective, param_space={"x": minitune.grid_search([4, 5])})
results = tuner.fit()
print("losses", [result.metrics["loss"] for result in results])
