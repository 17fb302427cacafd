"""A run whose driver and whose trials import modules of the user's. An argument is a place to look in."""

import sys

if sys.argv[1:]:
    sys.path.insert(0, sys.argv[1])
import helper

from minitune import RunConfig, Tuner, with_resources


def trainable(config):
    import late

    return {"y": [helper.VALUE, late.VALUE]}


[result] = Tuner(with_resources(trainable, {"cpu": 2}), run_config=RunConfig(verbose=0)).fit()
print(result.error, result.metrics.get("y"))
