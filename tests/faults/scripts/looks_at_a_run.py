"""Everything that shows a run. No pickle of the run may be loaded for it."""

import json
import os
import pickle
import sys

from script_kit import hurry

from minitune import ExperimentAnalysis, Result, ResultGrid
from minitune.record.reading import read_run

hurry()

path = os.path.join(os.environ["MINITUNE_STORAGE_PATH"], "run")
seen = []
sys.addaudithook(lambda event, args: event == "pickle.find_class" and seen.append(args))


def walk(value):
    str(value), repr(value)
    for part in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        walk(part)


analysis = ExperimentAnalysis(path, default_metric="y", default_mode="max")
for trial in read_run(path).trials:
    walk([trial.config, trial.last_result, trial.evaluated_params, str(trial.error)])
    result = Result.from_path(os.path.join(path, os.path.basename(trial.local_path)))
    walk([result.config, result.metrics, str(result.error), result.checkpoint, result.best_checkpoints])
    walk([result.get_best_checkpoint("y", "max").path, repr(result)])
walk([analysis.results, analysis.best_config, analysis.best_result, str(analysis.best_checkpoint)])
walk([analysis.get_all_configs(), str(analysis.trials), repr(analysis)])
grid = ResultGrid(analysis)
walk([str(grid.errors), len(grid), grid.num_errors, repr(grid), grid.get_best_result("y", "max").config])
sang, found = os.path.exists(sys.argv[1]), list(seen)

with open(os.path.join(path, "tuner.pkl"), "rb") as file:
    pickle.load(file)
print(json.dumps([sang, found, seen == [("canary", "sing")] and os.path.exists(sys.argv[1])]))
