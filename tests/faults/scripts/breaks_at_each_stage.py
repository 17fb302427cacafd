"""A trial for each stage of a value's way and each way to break there, and one that is fine."""

import ctypes
import json
import os
import sys

from script_kit import hurry

from minitune import RunConfig, Tuner, grid_search, report, sample_from

hurry()

driver = os.getpid()
WAYS = {
    "raise": lambda: [][1],
    "exit": lambda: sys.exit("leaves"),
    "vanish": lambda: os._exit(3),
    "crash": lambda: ctypes.string_at(0),
}


def load(way, where):
    if (os.getpid() == driver) == (where == "driver"):
        WAYS[way]()
    return 1


class Bomb:
    def __init__(self, way, stage):
        self.way, self.stage = way, stage

    def __reduce__(self):
        verb, _, where = self.stage.rpartition(" in ")
        if verb == "pickled" and (os.getpid() == driver) == (where == "driver"):
            WAYS[self.way]()
        return (load, (self.way, where)) if verb == "loaded" else (Bomb, (self.way, self.stage))


def bomb_of(kind, config):
    cell = config["cell"]
    return Bomb(cell[1], cell[0].partition(" ")[2]) if cell[0].startswith(kind) else 0


def trainable(config):
    report({"first": 1})
    if config["cell"][0] == "run":
        WAYS[config["cell"][1]]()
    report({"bomb": bomb_of("result", config)})
    return {"last": 1}


cells = [[stage, way] for stage in sys.argv[1].split(",") for way in sys.argv[2].split(",")]
space = {"cell": grid_search([*cells, ["nothing", "at all"]]), "x": sample_from(lambda c: bomb_of("config", c))}
results = Tuner(trainable, param_space=space, run_config=RunConfig(name="run", verbose=0)).fit()
for cell, result in zip([*cells, "fine"], results, strict=True):
    kinds = [kind.__name__ for kind in type(result.error).__mro__]
    if result.error is not None:
        kinds += [kind.__name__ for kind in type(result.error.__cause__).__mro__]
    print(json.dumps([cell, result.metrics.get("last"), kinds, str(result.error)]))
