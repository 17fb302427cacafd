"""A script that begins a run or goes on with it: killed in each step (`killed`), or beside a second one (`beside`)."""

import os
import signal
import sys
from functools import partial

from script_kit import die, dies_after, dies_before, in_a_child

from minitune import RunConfig, TuneConfig, Tuner, report, uniform
from minitune.driver import driver as _driver
from minitune.driver import open_run
from minitune.record import codec, journal, layout, recorder
from minitune.record.lock import RunLock

STORAGE = os.environ["MINITUNE_STORAGE_PATH"]


def trainable(config):
    report({"x": config["x"]})


def start_or_go_on(name):
    path = os.path.join(STORAGE, name)
    if Tuner.can_restore(path):
        return Tuner.restore(path, trainable).fit()
    return Tuner(
        trainable,
        param_space={"x": uniform(0, 1)},
        tune_config=TuneConfig(num_samples=3, executor="inline"),
        run_config=RunConfig(name=name, verbose=0),
    ).fit()


def half_a_record():
    original = codec.encode

    def write_half(record, objects):
        os.write(
            os.open(os.path.join(STORAGE, "half", "journal"), os.O_WRONLY | os.O_APPEND),
            b"01234567 " + original(record, objects).encode()[:21],
        )
        die()

    codec.encode = write_half


STEPS = {
    "empty": lambda: dies_before(layout.RunLock, "acquire"),
    "made": lambda: dies_after(_driver, "create_run_directory"),
    "locked": lambda: dies_after(open_run.RunLock, "acquire"),
    "journal": lambda: dies_after(open_run, "Recorder"),
    "settings": lambda: dies_before(_driver, "write_tuner_file"),
    "rename": lambda: dies_before(os, "replace"),
    "written": lambda: dies_after(_driver, "write_tuner_file"),
    "half": half_a_record,
    "first": lambda: dies_after(journal.Journal, "append"),
    "begun": lambda: dies_after(_driver, "begin"),
    "drawn": lambda: dies_after(recorder.Recorder, "trial_added"),
}


def killed(name, how):
    how()
    start_or_go_on(name)


def kill_in_each_step():
    for name, how in STEPS.items():
        assert in_a_child(partial(killed, name, how)) == signal.SIGKILL, name
        for again in range(2):  # a second time: what was recovered stays so
            grid = start_or_go_on(name)
            print(name, again, len(grid), grid.num_terminated, os.path.basename(grid.experiment_path), sep="|")


def begin_beside_another():
    original = RunLock.acquire

    def meanwhile(lock):
        RunLock.acquire = original
        print(os.path.basename(start_or_go_on("run").experiment_path))
        return lock.acquire()

    RunLock.acquire = meanwhile
    print(os.path.basename(start_or_go_on("run").experiment_path))


{"killed": kill_in_each_step, "beside": begin_beside_another}[sys.argv[1]]()
