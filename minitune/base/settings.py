"""Settings from environment variables, in one table.

A setting is read from `MINITUNE_<NAME>`, else from Ray Tune's variable for it. An empty one is not set. Values are
never cached.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import NamedTuple


class Setting(NamedTuple):
    """One setting.

    Attributes:
        is_number: Whether a value must be a number >= 0, which is checked before a run.
    """

    default: str = ""
    also: tuple[str, ...] = ()
    is_number: bool = False


SETTINGS: Mapping[str, Setting] = {
    # 1: `import minitune` turns on minitune.as_ray
    "AS_RAY": Setting("0"),
    # 1: a worker works in its trial's directory
    "CHDIR_TO_TRIAL_DIR": Setting("1", ("RAY_CHDIR_TO_TRIAL_DIR",)),
    # 1: no json and csv files
    "DISABLE_AUTO_CALLBACK_LOGGERS": Setting("0", ("TUNE_DISABLE_AUTO_CALLBACK_LOGGERS",)),
    # 1: a report without the metric is no error
    "DISABLE_STRICT_METRIC_CHECKING": Setting("0", ("TUNE_DISABLE_STRICT_METRIC_CHECKING",)),
    # the executor of runs that name none: local, inline or ray
    "EXECUTOR": Setting(),
    # seconds that a stopped trial has, before it is killed
    "FORCE_TRIAL_CLEANUP_S": Setting("10", ("TUNE_FORCE_TRIAL_CLEANUP_S",), is_number=True),
    # 1: tracebacks of trials also show minitune's own frames
    "FULL_TRACEBACKS": Setting("0", ("RAY_AIR_FULL_TRACEBACKS",)),
    # seconds that a reused worker has to start its next trial; then the trial gets a new worker
    "FUNCTION_THREAD_TIMEOUT_S": Setting("2", ("TUNE_FUNCTION_THREAD_TIMEOUT_S",), is_number=True),
    # seconds between saves of searcher, scheduler, stopper and callbacks; auto: as little as costs 5 %
    "GLOBAL_CHECKPOINT_S": Setting("auto", ("TUNE_GLOBAL_CHECKPOINT_S",), is_number=True),
    # trials drawn ahead of their workers
    "MAX_PENDING_TRIALS": Setting("auto", ("TUNE_MAX_PENDING_TRIALS_PG",), is_number=True),
    # CPUs of this machine that trials may use
    "NUM_CPUS": Setting(),
    # GPUs of this machine that trials may use
    "NUM_GPUS": Setting(),
    # 1: fit raises if a trial has failed
    "RAISE": Setting("0"),
    # how workers start, zygote or interpreter: by default zygote, where the system can
    "START_METHOD": Setting(),
    # the directory that holds runs
    "STORAGE_PATH": Setting("~/minitune_results", ("TUNE_RESULT_DIR",)),
    # 1: unpickle files that other users could have changed
    "TRUST": Setting("0"),
    # seconds above which a slow step of the driver is logged
    "WARN_THRESHOLD_S": Setting("0.5", ("TUNE_WARN_THRESHOLD_S",), is_number=True),
}
"""All settings, by name without the prefix. The comment above each says what it does."""

# A command passes these variables to the script that it starts. They are no settings: users call the commands.
RESUME = "MINITUNE_RESUME"
"""From `minitune resume`. 1: `fit()` and `run()` resume the newest run of their trainable and keys; else its path."""
ORIG_WORKING_DIR = ("MINITUNE_ORIG_WORKING_DIR", "TUNE_ORIG_WORKING_DIR")
"""The variables with the driver's working directory, for trials that work in their own directories."""
PROGRAM = "MINITUNE_PROGRAM"
"""From `minitune run`, to the program of a trial: `report` prints its reports for the trial."""
CHECKPOINT_DIR = "MINITUNE_CHECKPOINT_DIR"
"""From `minitune run`, to the program of a trial: what this directory holds when a report comes is the checkpoint."""


def setting(name: str) -> str:
    """The value of a setting, or its default."""
    entry = SETTINGS[name]
    for variable in (f"MINITUNE_{name}", *entry.also):
        value = os.environ.get(variable, "").strip()
        if value:
            return value
    return entry.default


def shared_variable(name: str) -> str:
    """A variable that is no setting, such as `TERM`, `NO_COLOR` or `RESUME`; empty if it is not set."""
    return os.environ.get(name, "")


def is_on(name: str) -> bool:
    """Whether a setting is on: not empty, `0`, `false`, `no` or `off`."""
    return setting(name).lower() not in ("", "0", "false", "no", "off")


def number_setting(name: str) -> float:
    """The value of a setting that must be a number >= 0. ValueError."""
    text = setting(name)
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not value >= 0:
        raise ValueError(f"{variable_of(name)} must be a number >= 0, but got {text!r}")
    return value


def check_numbers() -> None:
    """Check all settings that must be numbers, before a run reads them.

    Raises:
        ValueError: If one is no number >= 0, with its name.
    """
    for name, entry in SETTINGS.items():
        if entry.is_number and setting(name) != entry.default:  # the default need not be a number ("auto")
            number_setting(name)


def variable_of(name: str) -> str:
    """The variable that a setting is read from at present, for messages."""
    names = (f"MINITUNE_{name}", *SETTINGS[name].also)
    return next((variable for variable in names if os.environ.get(variable, "").strip()), names[0])
