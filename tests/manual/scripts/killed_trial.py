"""A trial that is killed once, and goes on from its last checkpoint."""

import os
import signal
import tempfile

from minitune import Checkpoint, FailureConfig, RunConfig, Tuner, get_checkpoint, get_context, report


def train(config):
    begin = 1
    if get_checkpoint() is not None:
        begin = int(open(os.path.join(get_checkpoint().path, "i")).read()) + 1
    for i in range(begin, 5):
        if i == 3 and get_context().get_attempt() == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        with tempfile.TemporaryDirectory() as directory:
            with open(os.path.join(directory, "i"), "w") as file:
                file.write(str(i))
            report({"i": i}, checkpoint=Checkpoint(directory))


run_config = RunConfig(name="run", verbose=0, failure_config=FailureConfig(max_failures=1))
Tuner(train, param_space={"x": 1}, run_config=run_config).fit()
