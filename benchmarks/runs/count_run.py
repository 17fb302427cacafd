"""Runs of minitune that count their own steps, for `counts.py`: `python count_run.py KIND TRACED SIZE...`.

KIND is a key of `KINDS` there. TRACED is 1 to count in this process, 0 for a run that strace counts. Each SIZE is a
run with so many reports or trials, in the same process. One line of JSON for each run is printed.

The counts must be the same on a busy machine. Three things make them so. The clock of this process is slow, so nothing
that is due at intervals comes in the run. No thread takes work from the driver that the driver does otherwise. And the
loop turns only when all other processes wait, so each turn finds the same messages.
"""

import collections
import json
import os
import resource
import selectors
import sys
import tempfile
import time

SLOWER = 1_000
"""How many times slower the clock is."""
begin_s = time.monotonic()
real_monotonic = time.monotonic
if sys.argv[2] == "1":  # before minitune is imported
    time.monotonic = lambda: begin_s + (real_monotonic() - begin_s) / SLOWER

import minitune as tune  # noqa: E402  # after the clock has changed
from minitune.base.processes import children  # noqa: E402  # likewise
from minitune.output import trial_output  # noqa: E402  # likewise

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


def are_waiting(pid):
    """Whether all threads of a process's descendants sleep."""
    for child in children(pid):
        try:
            for thread in os.listdir(f"/proc/{child}/task"):
                with open(f"/proc/{child}/task/{thread}/stat", "rb") as file:
                    state = file.read().rpartition(b") ")[2][:1]
                if state != b"S":
                    return False
        except OSError:  # it has just ended
            return False
        if not are_waiting(child):
            return False
    return True


def waiting_select(select):
    """A function like the `select` of a selector that first waits until all other processes wait."""

    def selected(selector, timeout=None):
        sys.setprofile(None)
        looks = 0
        while looks < 2:  # during one look, a process may wake another one that was looked at already
            looks = looks + 1 if are_waiting(os.getpid()) else 0
        sys.setprofile(profile)
        return select(selector, timeout)

    return selected


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
    storage = tempfile.mkdtemp()  # `counts.py` removes it: its removal takes system calls, too
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
    if not IS_TRACED:
        return {"own_faults": resource.getrusage(resource.RUSAGE_SELF).ru_minflt}
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
    }


if IS_TRACED:
    trial_output._LOOK_S = 3600.0  # so the driver looks at all files, at the end of the run
    os.write = counting_writes(os.write)
    if sys.platform == "linux":
        selectors.DefaultSelector.select = waiting_select(selectors.DefaultSelector.select)
    sys.addaudithook(audit)
for size in map(int, sys.argv[3:]):
    print(json.dumps(run(size)))
