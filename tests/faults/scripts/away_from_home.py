"""A run in a relative directory, whose trials import a module of the script's."""

import os
import sys

from minitune import Callback, RunConfig, Tuner, get_context, grid_search


class Look(Callback):
    def on_trial_result(self, **info):
        assert os.getcwd() == start


def trainable(config):
    import helper

    os.makedirs("mine")
    return {
        "y": [config["x"], helper.VALUE, os.path.isabs(os.getcwd())],
        "is_at_home": os.path.samefile(".", get_context().get_trial_dir()),
        "came_from": os.environ.get("TUNE_ORIG_WORKING_DIR"),
        "flags": [sys.flags.optimize, sys.warnoptions],
    }


start = os.getcwd()
space = {"x": grid_search([1, 2])}
run = RunConfig(name="run", storage_path="relative", verbose=0, callbacks=[Look()])
results = Tuner(trainable, param_space=space, run_config=run).fit()
assert not results.errors, results.errors
assert os.getcwd() == start
for result in results:
    seen = result.metrics
    if os.environ.get("MINITUNE_CHDIR_TO_TRIAL_DIR") == "0":
        assert not seen["is_at_home"]
    else:
        assert seen["is_at_home"]
        assert os.path.samefile(seen["came_from"], start)
        assert os.path.isdir(os.path.join("relative", "run", os.path.basename(result.path), "mine"))
print([result.metrics["y"] for result in results], results[0].metrics["flags"])
