"""Resumes the run of slow trials with trials that end at once. They need no workers: other tests have them."""

import os

from script_kit import hurry

from minitune import Tuner

hurry()


def slow(config):
    return {"x": config["x"]}


os.environ["MINITUNE_EXECUTOR"] = "inline"
results = Tuner.restore(os.path.join(os.environ["MINITUNE_STORAGE_PATH"], "run"), slow).fit()
print([r.metrics["x"] for r in results], results.num_errors, results.interrupted)
