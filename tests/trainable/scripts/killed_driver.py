"""A run with shared values whose driver is killed at the first report."""

import os
import signal

import minitune as tune


def trainable(config, data):
    assert len(tune.get(config["more"])) == len(data)
    tune.report({"x": 1})


class Kill(tune.Callback):
    def on_trial_result(self, **info):
        print("reported", flush=True)
        os.kill(os.getpid(), signal.SIGKILL)


run = tune.RunConfig(verbose=0, callbacks=[Kill()])
space = {"x": 1, "more": tune.put(bytes(5_000_000))}
tune.Tuner(tune.with_parameters(trainable, data=bytes(5_000_000)), param_space=space, run_config=run).fit()
