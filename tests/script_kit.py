"""What the scripts of tests have in common. A script is a file in a folder `scripts`; short ones are strings in tests.

A test starts it by the fixture `script` (see `kit.Script`), as a user would: a copy in a directory of its own. There it
can import this module. Workers import it too, so it imports nothing that takes long.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterable
from typing import Any

from minitune import (
    Callback,
    CheckpointConfig,
    FailureConfig,
    ResultGrid,
    RunConfig,
    TuneConfig,
    Tuner,
    grid_search,
    report,
)

SHORT_WAITS: dict[str, Any] = {
    "minitune.driver.limits.BACKOFF_S": (0.05,),
    "minitune.driver.limits.BACKOFF_AFTER_SIGNAL_S": 0.05,
    "minitune.driver.hooks.ASKED_EVERY_S": 0.05,
}
"""How long a hurried driver waits: after attempts in vain, and between two questions to a stopper."""


def hurry() -> None:
    """Let the driver of this process wait shortly where it waits to see what else happens."""
    for name, value in SHORT_WAITS.items():
        module, _, attribute = name.rpartition(".")
        setattr(importlib.import_module(module), attribute, value)


# -- a run with one trial for each value of `x` ------------------------------------------------------------------------


def fit(
    trainable: Any,
    xs: Iterable[Any] = (0,),
    max_failures: int = 0,
    checkpoint_config: CheckpointConfig | None = None,
    name: str = "run",
    stop: Any = None,
    log_to_file: Any = False,
    verbose: int = 0,
    callbacks: Iterable[Callback] = (),
    **options: Any,
) -> ResultGrid:
    """Run them. The other options are those of `TuneConfig`."""
    run = RunConfig(
        name=name,
        verbose=verbose,
        callbacks=list(callbacks),
        failure_config=FailureConfig(max_failures=max_failures),
        checkpoint_config=checkpoint_config,
        stop=stop,
        log_to_file=log_to_file,
    )
    tune = TuneConfig(**options)
    return Tuner(trainable, param_space={"x": grid_search(list(xs))}, tune_config=tune, run_config=run).fit()


def slow(config: dict[str, Any]) -> None:
    """A trial that reports every 10 ms, too often to end, and leaves a file in the storage when it unwinds."""
    try:
        for i in range(1, 100_001):
            report({"i": i, "pid": os.getpid()})
            time.sleep(0.01)
    finally:
        open(os.path.join(os.environ["MINITUNE_STORAGE_PATH"], f"unwound-{config['x']}"), "w").close()


def show(results: ResultGrid) -> None:
    """Print the last `y` and the error of each trial, as JSON."""
    print(json.dumps([[result.metrics.get("y"), str(result.error)] for result in results]))


# -- children in which the driver is killed before or after a function of it -------------------------------------------


def die(*args: Any, **kwargs: Any) -> None:
    """Kill this process."""
    os.kill(os.getpid(), signal.SIGKILL)


def dies_before(owner: Any, name: str) -> None:
    """Let this process be killed when it calls the function."""
    setattr(owner, name, die)


def dies_after(owner: Any, name: str) -> None:
    """Let this process be killed when the function has returned."""
    original = getattr(owner, name)

    def then_die(*args: Any, **kwargs: Any) -> None:
        original(*args, **kwargs)
        die()

    setattr(owner, name, then_die)


def in_a_child(work: Callable[[], object]) -> int:
    """Call a function in a child of this process; returns the status with which it ended, as of `os.waitpid`."""
    sys.stdout.flush()
    pid = os.fork()
    if not pid:
        work()
        os._exit(0)
    return os.waitpid(pid, 0)[1]
