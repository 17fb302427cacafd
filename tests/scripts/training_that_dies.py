"""A training whose driver is killed after a step."""

import os
import signal
import sys

from minitune.train import Checkpoint, RunConfig, get_checkpoint, report
from minitune.train.data_parallel_trainer import DataParallelTrainer


def loop(config):
    found = get_checkpoint()
    first = found.to_dict()["step"] + 1 if found else 0
    for step in range(first, 5):
        report({"step": step, "first": first, "lr": config["lr"]}, checkpoint=Checkpoint.from_dict({"step": step}))
        if step == config["dies_at"]:
            os.kill(int(os.environ["DRIVER"]), signal.SIGKILL)
            signal.pause()


os.environ["DRIVER"] = str(os.getpid())
config = {"lr": float(sys.argv[1]), "dies_at": int(sys.argv[2])}
trainer = DataParallelTrainer(loop, train_loop_config=config, run_config=RunConfig(name="job", verbose=0))
metrics = trainer.fit().metrics
print(*(metrics[name] for name in ("step", "first", "lr", "training_iteration")))
