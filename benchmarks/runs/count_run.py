"""Runs of minitune that count their own steps, for `counts.py`: `python count_run.py KIND TRACED SIZE...`.

KIND is a key of `KINDS` there. TRACED is 1 to count in this process, 0 for a run that strace counts. Each SIZE is a
run with so many reports or trials, in the same process. One line of JSON for each run is printed.
"""

import collections
import json
import os
import resource
import sys
import tempfile

import minitune as tune

KIND = sys.argv[1]
IS_TRACED = sys.argv[2] == "1"
ROOT = os.path.dirname(tune.__file__)
PURE = {"fspath", "waitstatus_to_exitcode", "readlink", "detach", "fileno", "getvalue", "getbuffer"}
"""Functions that do not enter the kernel, and `readlink`, which only this script calls."""

calls = collections.Counter()
system_calls = collections.Counter()
writes = 0
made = []
storage = ""


def profile(frame, event, argument):
    """Count calls of minitune's functions, and calls of the operating system."""
    if event == "call":
        code = frame.f_code
        if code.co_filename.startswith(ROOT):
            name = getattr(code, "co_qualname", code.co_name)
            calls[f"{code.co_filename[len(ROOT) + 1 :]}:{name}"] += 1
    elif event == "c_call":
        owner = getattr(argument, "__self__", None)
        module = getattr(argument, "__module__", None)
        if argument.__name__ in PURE:
            return
        if module == "posix":
            system_calls[argument.__name__] += 1
        elif type(owner).__module__ in ("_socket", "socket", "select", "_io"):
            system_calls[f"{type(owner).__name__}.{argument.__name__}"] += 1


def audit(event, arguments):
    """Note the files and directories that this process makes in the storage."""
    if event == "os.mkdir" or (event == "open" and arguments[2] & os.O_CREAT):
        path = arguments[0]
        if storage and isinstance(path, str):
            made.append(path)


def counting_writes(write):
    """A function like `os.write` that counts what goes to the journal."""

    def counted(descriptor, data):
        global writes
        writes += os.readlink(f"/proc/self/fd/{descriptor}").endswith("/journal")
        return write(descriptor, data)

    return counted


def reports(config):
    """One trial with many reports."""
    for number in range(config["reports"]):
        tune.report({"loss": 1.0 / (number + 1)})


def reporting(config):
    """Report, then return."""
    tune.report({"loss": config["x"]})


def returning(config):
    """Return the result."""
    return {"loss": config["x"]}


def run(size):
    """One run of `size` reports or trials; what it has counted."""
    global storage
    made.clear()
    calls.clear()
    system_calls.clear()
    writes_before = writes
    is_long = KIND in ("report", "asha")
    scheduler = tune.schedulers.ASHAScheduler(max_t=10**6, grace_period=10**5) if KIND == "asha" else None
    with tempfile.TemporaryDirectory() as storage:
        tuner = tune.Tuner(
            reports if is_long else (returning if KIND == "returned" else reporting),
            param_space={"reports": size} if is_long else {"x": tune.uniform(0, 1)},
            tune_config=tune.TuneConfig(
                metric="loss",
                mode="min",
                scheduler=scheduler,
                num_samples=1 if is_long else size,
                max_concurrent_trials=1,
                reuse_actors=KIND in ("reused", "returned"),
            ),
            run_config=tune.RunConfig(storage_path=storage, verbose=0),
        )
        if IS_TRACED:
            sys.setprofile(profile)
        tuner.fit()
        sys.setprofile(None)
        there = {os.path.join(folder, name) for folder, below, files in os.walk(storage) for name in (*below, *files)}
        (directory,) = next(os.walk(storage))[1]
        with open(os.path.join(storage, directory, "journal"), "rb") as file:
            records = sum(1 for line in file)
    return {
        "calls": calls,
        "system_calls": system_calls,
        "records": records,
        "writes": writes - writes_before,
        "files": len(there),
        "files_by_driver": len(there.intersection(made)),
        "own_faults": resource.getrusage(resource.RUSAGE_SELF).ru_minflt,
    }


if IS_TRACED:
    os.write = counting_writes(os.write)
    sys.addaudithook(audit)
for size in map(int, sys.argv[3:]):
    print(json.dumps(run(size)))
