"""The same objective with Optuna: two threads, random search, in memory. For arguments and output see `tune_run.py`."""

import json
import sys
import time

import optuna
from meter import Meter
from spin import spin

ENGINE, WORKLOAD, STORAGE, PARAMETERS = sys.argv[1:5]
P = json.loads(PARAMETERS)


def objective(trial):
    trial.suggest_float("x", 0, 1)
    spin(P["busy_s"])
    return 0.0


optuna.logging.set_verbosity(optuna.logging.WARNING)
study = optuna.create_study(sampler=optuna.samplers.RandomSampler())
meter = Meter(has_helpers=False)
start_s = time.perf_counter()
study.optimize(objective, n_trials=P["trials"], n_jobs=2)
wall_s = time.perf_counter() - start_s
complete = [trial.number for trial in study.trials if trial.state == optuna.trial.TrialState.COMPLETE]
print(
    json.dumps(
        {
            "wall_s": wall_s,
            "reports": dict.fromkeys(complete, 1),
            "errors": len(study.trials) - len(complete),
            "cpu_s": meter.read(),
        }
    )
)
