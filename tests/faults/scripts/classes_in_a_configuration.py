"""A trial whose configuration has classes of the script. The driver is killed; the script resumes the run."""

import enum
import os
import signal
import sys
import time

from script_kit import hurry

from minitune import RunConfig, Tuner

hurry()


class Colour(enum.Enum):
    RED = 1


class Layers:
    def __init__(self, sizes):
        self.sizes = sizes


def trainable(config):
    if os.path.exists(os.path.join(sys.argv[1], "first")):
        os.unlink(os.path.join(sys.argv[1], "first"))
        os.kill(driver, signal.SIGKILL)
        time.sleep(600)
    return {"fits": [config["colour"] is Colour.RED, type(config["layers"]) is Layers, config["f"](20)]}


def twice(x):
    return 2 * x


driver = os.getpid()
if sys.argv[2] == "fit":
    space = {"colour": Colour.RED, "layers": Layers([1]), "f": lambda x: twice(x) + 2}
    [result] = Tuner(trainable, param_space=space, run_config=RunConfig(name="run", verbose=0)).fit()
else:
    [result] = Tuner.restore(os.path.join(os.environ["MINITUNE_STORAGE_PATH"], "run"), trainable).fit()
print(result.error, result.metrics["fits"], result.config["colour"] is Colour.RED)
