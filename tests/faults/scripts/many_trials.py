"""A run of 16 trials."""

import time

from script_kit import fit, hurry

hurry()


def trainable(config):
    time.sleep(0.1)
    return {"x": config["x"]}


results = fit(trainable, range(16))
print([r.metrics.get("x") for r in results] == list(range(16)), results.num_errors)
