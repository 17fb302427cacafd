"""A user-defined logger besides the default ones."""

import json
import os
from typing import Dict, List

from ray import tune
from ray.tune.logger import CSVLoggerCallback, JsonLoggerCallback, LoggerCallback


class CustomLoggerCallback(LoggerCallback):
    """Writes each trial's results into one text file (after the example of the user guide)."""

    def __init__(self, filename: str = "log.txt"):
        self._trial_files = {}
        self._filename = filename
        self.ends: List[str] = []

    def log_trial_start(self, trial: "tune.experiment.trial.Trial"):
        trial_logfile = os.path.join(trial.local_path, self._filename)
        os.makedirs(trial.local_path, exist_ok=True)
        self._trial_files[trial] = open(trial_logfile, "at")

    def log_trial_result(self, iteration: int, trial, result: Dict):
        if trial in self._trial_files:
            self._trial_files[trial].write(
                json.dumps({"it": result["training_iteration"], "acc": result["acc"]}) + "\n"
            )

    def log_trial_save(self, trial):
        self.ends.append("save")

    def on_trial_complete(self, iteration: int, trials: List, trial, **info):
        self.ends.append("complete")
        if trial in self._trial_files:
            self._trial_files[trial].close()
            del self._trial_files[trial]


class Ends(LoggerCallback):
    def __init__(self):
        self.seen = []

    def log_trial_start(self, trial):
        self.seen.append("start")

    def log_trial_result(self, iteration, trial, result):
        self.seen.append(f"result {result['acc']}")

    def log_trial_end(self, trial, failed=False):
        self.seen.append(f"end failed={failed}")


def train_fn(config):
    for i in range(3):
        if i == 2 and config["fail"]:
            raise RuntimeError("planned")
        tune.report({"acc": i})


custom, ends = CustomLoggerCallback("mine.txt"), Ends()
results = tune.Tuner(
    train_fn,
    param_space={"fail": tune.grid_search([False, True])},
    tune_config=tune.TuneConfig(max_concurrent_trials=1),
    run_config=tune.RunConfig(
        storage_path=os.environ["STORAGE"],
        callbacks=[custom, ends, JsonLoggerCallback(), CSVLoggerCallback()],
        verbose=0,
    ),
).fit()
rows, header = [], None
for result in results:
    with open(os.path.join(result.path, "result.json")) as f:
        rows.append([json.loads(line)["acc"] for line in f])
    with open(os.path.join(result.path, "progress.csv")) as f:
        header = f.readline().strip().split(",")
        lines = len(f.read().splitlines())
print(
    json.dumps(
        {
            "custom": custom.ends,
            "ends": ends.seen,
            "rows": rows,
            "csv_lines": lines,
            "csv_columns": [
                name in header for name in ("acc", "training_iteration", "trial_id", "config/fail", "done")
            ],
            "params": [json.load(open(os.path.join(r.path, "params.json"))) for r in results],
            "pickled": [os.path.exists(os.path.join(r.path, "params.pkl")) for r in results],
            "error_files": [os.path.exists(os.path.join(r.path, "error.txt")) for r in results],
        }
    )
)
