"""The run that `chaos.py` kills: `python chaos_workload.py STORAGE WITNESS TRIALS REPORTS SEED SCHEDULER WORKERS`.

If STORAGE has a run, it is resumed. At its end the driver prints one line of JSON, with the trials as it knows them.
Each trial also writes a file of its own in WITNESS: the pid of each attempt, and a line before and after each report.
Every second trial leaves two children behind: one that it forks, and one in a session of its own.
"""

import json
import os
import random
import subprocess
import sys
import tempfile
import time

import minitune as tune
from minitune.schedulers import ASHAScheduler, FIFOScheduler

STORAGE, WITNESS, TRIALS, REPORTS, SEED, SCHEDULER, WORKERS = sys.argv[1:8]
CHECKPOINT_EVERY = 5
BALLAST = 20_000


def loss(config, step):
    """The loss of a configuration at a step (from 1). It depends on nothing else."""
    return round(config["height"] / step + config["floor"], 9)


def trial(config):
    """Report each step from that of the checkpoint on, and note it before and after."""
    trial_id = tune.get_context().get_trial_id()
    with open(os.path.join(WITNESS, trial_id), "a", buffering=1) as witness:
        witness.write(f"pid {os.getpid()}\n")
        if int(trial_id[-1]) % 2:
            leave_children()
        for step in range(last_step(config) + 1, int(REPORTS) + 1):
            time.sleep(random.uniform(0.005, 0.03))
            witness.write(f"says {step}\n")
            report(config, step)
            witness.write(f"told {step}\n")


def leave_children():
    """Start processes that the end of the trial must clean up."""
    if os.fork() == 0:
        time.sleep(3600)
        os._exit(0)
    subprocess.Popen(["sleep", "3600"], start_new_session=True)


def last_step(config):
    """The step of the checkpoint from which the trial goes on; 0 if there is none."""
    checkpoint = tune.get_checkpoint()
    if checkpoint is None:
        return 0
    with open(os.path.join(checkpoint.path, "state.json")) as file:
        state = json.load(file)
    if state["height"] != config["height"] or len(state["ballast"]) != BALLAST:
        raise RuntimeError("the checkpoint is incomplete, or it is another trial's")
    return state["step"]


def report(config, step):
    """Report a step, every few steps with a checkpoint."""
    metrics = {"loss": loss(config, step), "step": step}
    if step % CHECKPOINT_EVERY:
        tune.report(metrics)
        return
    with tempfile.TemporaryDirectory(dir=os.getcwd(), prefix="own-") as directory:
        with open(os.path.join(directory, "state.json"), "w") as file:
            json.dump({"step": step, "height": config["height"], "ballast": "x" * BALLAST}, file)
        tune.report(metrics, checkpoint=tune.Checkpoint(directory))


def tuner():
    """A new run, or the one in the storage."""
    path = os.path.join(STORAGE, "run")
    if tune.Tuner.can_restore(path):
        return tune.Tuner.restore(path, trial)
    scheduler = ASHAScheduler(max_t=int(REPORTS), grace_period=2) if SCHEDULER == "asha" else FIFOScheduler()
    return tune.Tuner(
        trial,
        param_space={"height": tune.uniform(1, 10), "floor": tune.loguniform(1e-4, 1)},
        tune_config=tune.TuneConfig(
            metric="loss",
            mode="min",
            num_samples=int(TRIALS),
            scheduler=scheduler,
            seed=int(SEED),
            reuse_actors=WORKERS == "reuse",
        ),
        run_config=tune.RunConfig(
            name="run",
            storage_path=STORAGE,
            verbose=0,
            failure_config=tune.FailureConfig(max_failures=10_000),
            checkpoint_config=tune.CheckpointConfig(num_to_keep=2),
        ),
    )


grid = tuner().fit()
print(
    json.dumps(
        [
            {
                "trial": result.metrics["trial_id"],
                "config": result.config,
                "step": result.metrics["step"],
                "loss": result.metrics["loss"],
                "error": repr(result.error) if result.error else None,
                "checkpoints": [checkpoint.path for checkpoint, _ in result.best_checkpoints],
            }
            for result in grid
        ]
    )
)
