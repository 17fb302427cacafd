"""The same calls without a tuner, with what Python has for it, or with joblib. For the arguments see `tune_run.py`.

A pool and joblib keep their processes. `forkserver` and `fork` make one for each call, and have two at a time. No
engine but `copytree` writes to the disk: it is what a checkpoint costs without a tuner.
"""

import json
import os
import shutil
import sys
import time
from collections import Counter
from contextlib import suppress

from meter import Meter
from spin import spin

ENGINE, WORKLOAD, STORAGE, PARAMETERS = sys.argv[1:5]
P = json.loads(PARAMETERS)
WORKERS = 2
SYNC_PERIOD_S = 1.0
"""How often `copytree` syncs its newest copy. minitune does the same."""


def trivial(number):
    return number


def busy(number):
    spin(P["busy_s"])
    return number


def copies(number):
    """Copy a directory again and again, and sync a copy now and then."""
    own = os.path.join(STORAGE, "run", str(number), "own")
    os.makedirs(own)
    with open(os.path.join(own, "model"), "wb") as file:
        file.write(os.urandom(P["checkpoint_bytes"]))
    synced_s = time.monotonic()
    for report in range(P["reports"]):
        copy = os.path.join(STORAGE, "run", str(number), f"checkpoint_{report:06d}")
        shutil.copytree(own, copy)
        if time.monotonic() - synced_s >= SYNC_PERIOD_S or report == P["reports"] - 1:
            synced_s = time.monotonic()
            for path in (os.path.join(copy, "model"), copy):
                descriptor = os.open(path, os.O_RDONLY)
                os.fsync(descriptor)
                os.close(descriptor)
    return [number] * P["reports"]


def by_pool(function, numbers):
    """Two processes that are used again."""
    from concurrent.futures import ProcessPoolExecutor

    with ProcessPoolExecutor(WORKERS) as pool:
        return list(pool.map(function, numbers))


def by_joblib(function, numbers):
    """Two processes that are used again."""
    import joblib

    return joblib.Parallel(n_jobs=WORKERS)(joblib.delayed(function)(number) for number in numbers)


def by_forkserver(function, numbers):
    """A `Process` for each call."""
    import multiprocessing

    context = multiprocessing.get_context("forkserver")

    def start(number, end):
        process = context.Process(target=_answer, args=(function, number, end))
        process.start()
        return process.join

    return _one_each(start, numbers)


def by_fork(function, numbers):
    """A bare `fork` for each call."""

    def start(number, end):
        pid = os.fork()
        if not pid:
            with suppress(BaseException):
                _answer(function, number, end)
            os._exit(0)
        return lambda: os.waitpid(pid, 0)

    return _one_each(start, numbers)


def _answer(function, number, end):
    end.send(function(number))


def _one_each(start, numbers):
    """The values of a process for each number. `start` starts one, and returns a function that waits for its end."""
    from multiprocessing import Pipe
    from multiprocessing.connection import wait

    values, running = [], {}

    def collect():
        for end in wait(list(running)):
            values.append(end.recv())
            end.close()
            running.pop(end)()

    for number in numbers:
        if len(running) == WORKERS:
            collect()
        ours, theirs = Pipe(duplex=False)
        running[ours] = start(number, theirs)
        theirs.close()
    while running:
        collect()
    return values


MAPS = {
    "pool": by_pool,
    "copytree": by_pool,
    "joblib": by_joblib,
    "forkserver": by_forkserver,
    "fork": by_fork,
}
FUNCTIONS = {"reused": trivial, "fresh": trivial, "objective": busy, "checkpoints": copies}

if __name__ == "__main__":
    meter = Meter(has_helpers=ENGINE == "forkserver")
    start_s = time.perf_counter()
    returned = MAPS[ENGINE](FUNCTIONS[WORKLOAD], range(P["trials"]))
    wall_s = time.perf_counter() - start_s
    if WORKLOAD == "checkpoints":
        returned = [number for numbers in returned for number in numbers]
    print(json.dumps({"wall_s": wall_s, "reports": Counter(returned), "errors": 0, "cpu_s": meter.read()}))
