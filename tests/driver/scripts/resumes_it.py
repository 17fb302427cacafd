"""Resumes the run of `interrupted.py` with trials that end at once."""

import os

from minitune import Tuner


def trainable(config):
    return {"x": config["x"]}


results = Tuner.restore(os.path.join(os.environ["MINITUNE_STORAGE_PATH"], "run"), trainable).fit()
print([r.metrics["x"] for r in results], results.interrupted)
