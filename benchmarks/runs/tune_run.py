"""One run with minitune or Ray Tune, written as a user would write it.

`python tune_run.py ENGINE WORKLOAD STORAGE PARAMETERS [PROFILE]`: PARAMETERS is a JSON object from `workloads.py`,
PROFILE a file for the driver's profile by cProfile. The last line that it prints is a JSON object with the driver's
measurements. The run's files stay in STORAGE. Imports come as late as possible, because the start is measured too.
"""

import json
import os
import sys
import time

from meter import Meter, memory_bytes, written_bytes

ENGINE, WORKLOAD, STORAGE, PARAMETERS = sys.argv[1:5]
PROFILE = sys.argv[5] if len(sys.argv) > 5 else None
P = json.loads(PARAMETERS)

if ENGINE == "ray":
    import ray
    from ray import tune
    from ray.tune.logger import CSVLoggerCallback, JsonLoggerCallback
    from ray.tune.schedulers import ASHAScheduler, FIFOScheduler

    if WORKLOAD != "cold":  # only the cold start includes that of the cluster
        ray.init(num_cpus=2, logging_level="ERROR", include_dashboard=False)
else:
    import minitune as tune
    from minitune.logger import CSVLoggerCallback, JsonLoggerCallback
    from minitune.schedulers import ASHAScheduler, FIFOScheduler


class Watch(tune.Callback):
    """Counts the reports of each trial, and notes when the driver gets the first report and the last one."""

    def __init__(self, trials):
        self.trials, self.completed, self.reports = trials, 0, {}
        self.first_s = self.last_s = 0.0
        self.meter = Meter()

    def on_trial_result(self, iteration, trials, trial, result, **info):
        """Called for each report."""
        self.last_s = time.time()
        self.first_s = self.first_s or self.last_s
        self.reports[trial.trial_id] = self.reports.get(trial.trial_id, 0) + 1

    def on_trial_complete(self, iteration, trials, trial, **info):
        """Called for each trial."""
        self.completed += 1
        if self.completed == self.trials:
            self.meter.look()


class PopulationWatch(Watch):
    """Notes the number in each report, since a member that copies another's state goes on from its number."""

    def __init__(self, trials):
        super().__init__(trials)
        self.numbers = {}

    def on_trial_result(self, iteration, trials, trial, result, **info):
        """Called for each report."""
        super().on_trial_result(iteration, trials, trial, result, **info)
        self.numbers.setdefault(trial.trial_id, []).append(result["number"])


class IdleWatch(Watch):
    """Notes the driver's time and CPU time when all trials have gone to sleep, and when the first one wakes up."""

    begin = end = (0.0, 0.0)

    def on_trial_result(self, iteration, trials, trial, result, **info):
        """Called for each report."""
        super().on_trial_result(iteration, trials, trial, result, **info)
        now = (time.monotonic(), time.process_time())
        total = sum(self.reports.values())
        if total == self.trials:
            self.begin = now
        elif total == self.trials + 1:
            self.end = now


def fit(trainable, trials, watch=None, space=None, stop=None, scheduler=None, reuse=False, verbose=0, name="run"):
    """Run `trainable`. Return the measurements and the results."""
    watch = watch or Watch(trials)
    tuner = tune.Tuner(
        trainable,
        param_space=space or {},
        tune_config=tune.TuneConfig(num_samples=trials, scheduler=scheduler, reuse_actors=reuse),
        run_config=tune.RunConfig(
            name=name,
            storage_path=STORAGE,
            verbose=verbose,
            stop=stop,
            callbacks=[JsonLoggerCallback(), CSVLoggerCallback(), watch],
        ),
    )
    start_s = time.perf_counter()
    grid = profiled(tuner.fit)
    wall_s = time.perf_counter() - start_s
    seen = {
        "wall_s": wall_s,
        "first_s": watch.first_s,
        "last_s": watch.last_s,
        "reports": watch.reports,
        "errors": grid.num_errors,
        "cpu_s": watch.meter.read(),
    }
    return seen, grid


def profiled(function):
    """Call a function, under cProfile if there is a file for the profile."""
    if PROFILE is None:
        return function()
    import cProfile

    profile = cProfile.Profile()
    try:
        return profile.runcall(function)
    finally:
        profile.dump_stats(PROFILE)


def trivial(config):
    """Only report, as fast as possible."""
    for number in range(P["reports"]):
        tune.report({"number": number})


def cold():
    return fit(trivial, 1)[0]


def fresh():
    return fit(trivial, P["trials"])[0]


def reused():
    return fit(trivial, P["trials"], reuse=True)[0]


def reports():
    return fit(trivial, P["trials"])[0]


def asha():
    def descend(config):
        for number in range(P["most_reports"]):
            tune.report({"number": number, "loss": config["height"] / (1 + number)})

    scheduler = ASHAScheduler(metric="loss", mode="min", max_t=P["most_reports"], grace_period=1, reduction_factor=3)
    return fit(descend, P["trials"], space={"height": tune.uniform(1, 2)}, scheduler=scheduler, reuse=True)[0]


def checkpoints():
    def save(config):
        directory = os.path.join(STORAGE, f"own-{os.getpid()}")
        os.mkdir(directory)
        with open(os.path.join(directory, "model"), "wb") as file:
            file.write(os.urandom(P["checkpoint_bytes"]))
        for number in range(P["reports"]):
            tune.report({"number": number}, checkpoint=tune.Checkpoint.from_directory(directory))

    return fit(save, P["trials"])[0]


class Member(tune.Trainable):
    """A member of a population. Its state is a number."""

    def setup(self, config):
        self.number = -1

    def step(self):
        self.number += 1
        return {"number": self.number, "score": self.config.get("rate", 0) * self.number}

    def save_checkpoint(self, directory):
        return {"number": self.number}

    def load_checkpoint(self, state):
        self.number = state["number"]

    def reset_config(self, config):
        self.number = -1
        return True


class Pausing(FIFOScheduler):
    """Pauses each trial after every second step, so that the others can run."""

    def on_trial_result(self, controller, trial, result):
        return self.PAUSE if result["training_iteration"] % 2 == 0 else self.CONTINUE


def pauses():
    return fit(Member, P["trials"], scheduler=Pausing(), stop={"training_iteration": P["reports"]}, reuse=True)[0]


def population():
    scheduler = tune.schedulers.PopulationBasedTraining(
        time_attr="training_iteration",
        metric="score",
        mode="max",
        perturbation_interval=2,
        hyperparam_mutations={"rate": tune.uniform(0, 1)},
    )
    watch = PopulationWatch(P["trials"])
    seen, _ = fit(
        Member,
        P["trials"],
        watch=watch,
        space={"rate": tune.uniform(0, 1)},
        scheduler=scheduler,
        stop={"training_iteration": P["steps"]},
        reuse=True,
    )
    return {**seen, "numbers": watch.numbers}


def array():
    import numpy

    def look_at(config, data):
        tune.report({"number": 0, "sum": float(data[::512].sum())})  # each page

    before_bytes = memory_bytes("VmRSS")
    data = numpy.ones(P["array_bytes"] // 8)
    start_s = time.perf_counter()
    seen, _ = fit(tune.with_parameters(look_at, data=data), P["trials"])
    return {**seen, "wall_s": time.perf_counter() - start_s, "peak_bytes": memory_bytes("VmHWM") - before_bytes}


def objective():
    from spin import spin

    def busy(config):
        spin(P["busy_s"])
        tune.report({"number": 0})

    return fit(busy, P["trials"], space={"x": tune.uniform(0, 1)}, reuse=True)[0]


def growth():
    """Several runs in one process, each longer than the one before. Their results stay in memory."""
    samples, grids, counts, errors = [], [], {}, 0
    for trials in P["sizes"]:
        before = (time.process_time(), written_bytes(), memory_bytes("VmRSS"))
        seen, grid = fit(trivial, trials, reuse=True, space={"x": tune.uniform(0, 1)}, name=f"run{trials}")
        grids.append(grid)
        after = (time.process_time(), written_bytes(), memory_bytes("VmRSS"))
        cpu_s, written, memory = (b - a for a, b in zip(before, after, strict=True))
        samples.append(
            {
                "trials": trials,
                "wall_s": seen["wall_s"],
                "cpu_s": cpu_s,
                "written_bytes": written,
                "memory_bytes": memory,
            }
        )
        counts.update(seen["reports"])
        errors += seen["errors"]
    return {**seen, "reports": counts, "errors": errors, "samples": samples}


def idle():
    def sleep(config):
        tune.report({"number": 0})
        time.sleep(P["sleep_s"])
        tune.report({"number": 1})

    watch = IdleWatch(P["trials"])
    seen, _ = fit(sleep, P["trials"], watch=watch, verbose=1)
    idle_s, cpu_s = (end - begin for begin, end in zip(watch.begin, watch.end, strict=True))
    return {**seen, "idle_s": idle_s, "idle_cpu_s": cpu_s}


print("\n" + json.dumps(globals()[WORKLOAD]()))
