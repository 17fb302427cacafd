"""Two of three trials fail. The argument says in which way the script runs them."""

import os
import signal
import sys

import minitune as tune


def train(config):
    tune.report({"loss": 1.0})
    if config["x"] > 1:
        raise ValueError(f"no {config['x']}")


def chained(config):
    try:
        train(config)
    except ValueError as error:
        raise KeyError("its own") from error


space = {"x": tune.grid_search([1, 2, 3])}
run = tune.RunConfig(verbose=int(os.environ.get("VERBOSE", "1")))


def fit():
    assert tune.Tuner(train, param_space=space, run_config=run).fit().num_errors == 2


def fit_without_progress():
    quiet = tune.RunConfig(progress=False)
    assert tune.Tuner(train, param_space=space, run_config=quiet).fit().num_errors == 2


def fit_and_raise():
    tune.Tuner(train, param_space=space, run_config=run).fit(raise_on_failed_trial=True)


class Interrupts(tune.Callback):
    def on_trial_error(self, iteration, trials, trial, **info):
        os.kill(os.getpid(), signal.SIGINT)


def fit_interrupted_and_raise():
    run.callbacks = [Interrupts()]
    tune.Tuner(train, param_space=space, run_config=run).fit(raise_on_failed_trial=True)


def run_train():
    tune.run(train, config=space, verbose=run.verbose)


def fail_fast():
    run.failure_config = tune.FailureConfig(fail_fast="raise")
    tune.Tuner(chained, param_space=space, run_config=run).fit()


globals()[sys.argv[1]]()
