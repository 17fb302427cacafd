"""Each hook of each plug-in forks once. The child leaves in the ways that the arguments name, by turns."""

import os
import sys

from script_kit import hurry

from minitune import Callback, Checkpoint, RunConfig, Stopper, TuneConfig, Tuner, grid_search, report
from minitune.output.reporters import ProgressReporter
from minitune.schedulers import FIFOScheduler
from minitune.search import BasicVariantGenerator

hurry()

ways = sys.argv[1:]
driver, codes, reports = os.getpid(), {}, 0


def fork(who):
    """Once for each hook; the parent waits until the child has left `fit` and has ended."""
    if os.getpid() != driver or who in codes or reports < 3:
        return
    leaves = ways[len(codes) % len(ways)]
    codes[who] = None
    child = os.fork()
    if child:
        codes[who] = f"{leaves} {os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])}"
    elif leaves == "raise":
        raise ValueError("mine")
    elif leaves == "exit":
        sys.exit(7)


def forking(base, *hooks):
    def make(name):
        def hook(self, *args, **kwargs):
            fork(f"{base.__name__}.{name}")
            return getattr(base, name)(self, *args, **kwargs)

        return hook

    return type(f"Forking{base.__name__}", (base,), {name: make(name) for name in hooks})


class Stops(Stopper):
    def __call__(self, trial_id, result):
        return False

    def stop_all(self):
        return False

    def get_state(self):
        return {}


class Reporter(ProgressReporter):
    def should_report(self, trials, done=False):
        return True

    def report(self, trials, done, *sys_info):
        pass

    def close(self):
        print("closed by", "the driver" if os.getpid() == driver else "a child", flush=True)


class Counts(forking(Callback, "on_trial_result", "on_step_begin", "on_trial_complete")):
    def on_trial_result(self, **info):
        global reports
        reports += 1
        super().on_trial_result(**info)

    def on_experiment_end(self, trials, **info):
        print("ended by", "the driver" if os.getpid() == driver else "a child", flush=True)


def trainable(config):
    for i in range(5):
        report({"i": i})


copy = Checkpoint.from_dict({"an": "object"})  # lives in a temporary directory
stopper = forking(Stops, "__call__", "stop_all")()
run = RunConfig(name="run", callbacks=[Counts()], stop=stopper, progress_reporter=forking(Reporter, "report")())
tune = TuneConfig(
    scheduler=forking(FIFOScheduler, "on_trial_result", "choose_trial_to_run")(),
    search_alg=forking(BasicVariantGenerator, "on_trial_result", "on_trial_complete")(),
)
results = Tuner(trainable, param_space={"x": grid_search([0, 1, 2])}, tune_config=tune, run_config=run).fit()
print([r.metrics["i"] for r in results], results.num_errors, copy.to_dict())
print(len(codes), sorted(set(codes.values())))
