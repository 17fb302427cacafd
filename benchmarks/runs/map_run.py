"""The same calls without a tuner: `ProcessPoolExecutor.map` or joblib. For arguments and output see `tune_run.py`."""

import json
import sys
import time

from meter import Meter
from spin import spin

ENGINE, WORKLOAD, STORAGE, PARAMETERS = sys.argv[1:5]
P = json.loads(PARAMETERS)
WORKERS = 2


def trivial(number):
    return number


def busy(number):
    spin(P["busy_s"])
    return number


def mapped(function):
    """The return values of `function` for all numbers."""
    if ENGINE == "joblib":
        import joblib

        return joblib.Parallel(n_jobs=WORKERS)(joblib.delayed(function)(number) for number in range(P["trials"]))
    from concurrent.futures import ProcessPoolExecutor

    with ProcessPoolExecutor(WORKERS) as pool:
        return list(pool.map(function, range(P["trials"])))


if __name__ == "__main__":
    meter = Meter(has_helpers=False)
    start_s = time.perf_counter()
    returned = mapped({"reused": trivial, "objective": busy}[WORKLOAD])
    wall_s = time.perf_counter() - start_s
    print(json.dumps({"wall_s": wall_s, "reports": dict.fromkeys(returned, 1), "errors": 0, "cpu_s": meter.read()}))
