"""A run of many trials that prints the output of all of them."""

import os

from script_kit import fit, hurry

from minitune import report

hurry()

STORAGE = os.environ["MINITUNE_STORAGE_PATH"]


def trainable(config):
    for i in range(3):
        report({"i": i})


results = fit(trainable, range(20), verbose=2, executor="inline")
assert len(results) == 20 and not results.num_errors
open(os.path.join(STORAGE, "done"), "w").close()
