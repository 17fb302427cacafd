"""A training whose driver is killed after its last report."""

import os
import signal

from minitune.train import Checkpoint, RunConfig, report
from minitune.train.data_parallel_trainer import DataParallelTrainer


def loop(config):
    for step in range(3):
        report({"step": step}, checkpoint=Checkpoint.from_dict({"step": step}))
    os.kill(int(os.environ["DRIVER"]), signal.SIGKILL)
    signal.pause()


os.environ["DRIVER"] = str(os.getpid())
run_config = RunConfig(name="job", verbose=0)
DataParallelTrainer(loop, train_loop_config={"lr": 1.0}, run_config=run_config).fit()
