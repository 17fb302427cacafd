"""A run whose driver is killed, and killed again at each step of a resume. The last resume gets to the end."""

import os
import signal
from functools import partial

from script_kit import die, dies_after, dies_before, in_a_child

from minitune import RunConfig, TuneConfig, Tuner, report, uniform
from minitune.driver import driver as _driver
from minitune.driver import resume as _resume
from minitune.record import journal, recorder, records, trial_directories

STORAGE = os.environ["MINITUNE_STORAGE_PATH"]
RUN, SECOND, KILLED = (os.path.join(STORAGE, name) for name in ("run", "second", "killed"))


def trainable(config):
    for n in range(1, 4):
        if n == 2 and os.path.exists(SECOND) and not os.path.exists(KILLED):
            open(KILLED, "w").close()
            die()
        report({"n": n, "x": config["x"]})
    open(SECOND, "w").close()


def fit():
    tune = TuneConfig(executor="inline", num_samples=3, max_concurrent_trials=1)
    Tuner(
        trainable, param_space={"x": uniform(0, 1)}, tune_config=tune, run_config=RunConfig(name="run", verbose=0)
    ).fit()


def resume():
    return Tuner.restore(RUN, trainable).fit()


def resume_and_die(dies, owner, name):
    dies(owner, name)
    resume()


assert in_a_child(fit) == signal.SIGKILL
with open(os.path.join(RUN, "journal"), "ab") as file:
    file.write(b"torn")
STEPS = [
    (dies_before, journal, "_cut"),
    (dies_after, journal, "_cut"),
    (dies_before, _driver, "build_components"),
    (dies_after, _resume, "begin"),
    (dies_before, _resume, "reconcile"),
    (dies_after, _resume, "reconcile"),
    (dies_after, trial_directories.TrialDirectories, "prepare"),
    (dies_after, records, "rollback"),
    (dies_after, recorder.Recorder, "attempt_starts"),
    (dies_after, recorder.Recorder, "trial_added"),
    (dies_after, recorder.Recorder, "result"),
]
for step in STEPS:
    status = in_a_child(partial(resume_and_die, *step))
    print(step[2], "killed" if status == signal.SIGKILL else status)
grid = resume()
print("end", grid.num_terminated, [result.metrics["n"] for result in grid])
