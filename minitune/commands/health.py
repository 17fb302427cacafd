"""`minitune doctor` checks whether this machine can run trials."""

from __future__ import annotations

import argparse
import contextlib
import os
import platform
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from typing import Any

from minitune.base import __version__
from minitune.base.text import echo
from minitune.commands import Commands, set_command
from minitune.config import default_storage_path
from minitune.error import TuneError
from minitune.executors.devices import detect_gpus, memory, memory_bytes, usable_cpus

_PACKAGES = (
    *("cloudpickle", "psutil", "numpy", "pandas", "pyarrow", "scikit-learn", "matplotlib", "tensorboardX", "ipython"),
    *("optuna", "wandb", "mlflow"),
    *("torch", "lightning", "pytorch-lightning", "transformers", "tensorflow", "keras", "jax", "xgboost", "lightgbm"),
)
_WIDTH = 12


def add_parser(commands: Commands) -> None:
    """Add the parser of `minitune doctor`."""
    parser = commands.add_parser(
        "doctor",
        description="Check this machine: the installed versions, its resources, and whether a trial runs.",
        epilog="The exit status is 0 if trials can run, else 1.",
    )
    set_command(parser, doctor, "minitune doctor", "minitune doctor > machine.txt")


def doctor(options: argparse.Namespace) -> int:
    """Run `minitune doctor`. A check that fails ends it: the trial, which is the last one, would only fail again."""
    try:
        for name, text in _facts():
            echo(f"{name:<{_WIDTH}} {text or 'none'}")
    except _BrokenError as error:
        echo(f"broken: {error}")
        return 1
    echo("trials have everything that they need")
    return 0


class _BrokenError(Exception):
    """The reason why no trial can run."""


def _facts() -> Iterator[tuple[str, str]]:
    yield "minitune", f"{__version__} in {os.path.dirname(os.path.dirname(__file__))}"
    yield "python", f"{platform.python_version()} ({sys.executable})"
    yield "system", f"{platform.system()} {platform.release()} on {platform.machine()}"
    yield "packages", ", ".join(_installed())
    yield "cpus", f"{usable_cpus()} (of {os.cpu_count()})"
    yield "memory", f"{_size(memory_bytes())} (of {_size(memory()[0])})"
    yield "gpus", ", ".join(detect_gpus())
    yield "storage", _storage()
    yield "trial", _trial()


def _installed() -> Iterator[str]:
    """The names and versions of the installed packages; none is imported."""
    from importlib.metadata import PackageNotFoundError, version

    for name in _PACKAGES:
        with contextlib.suppress(PackageNotFoundError):
            yield f"{name} {version(name)}"


def _storage() -> str:
    """Check that runs can be written, without creating the directory."""
    path = default_storage_path()
    there = path
    # Its first existing parent decides whether it can be created.
    while not os.path.exists(there) and os.path.dirname(there) != there:
        there = os.path.dirname(there)
    try:
        # Writing tells more than the permissions: they do not show a full or read-only disk.
        with tempfile.TemporaryFile(dir=there):
            pass
    except OSError as error:
        reason = error.strerror or error
        rule = f"{there} cannot be written ({reason}): set MINITUNE_STORAGE_PATH, or a storage_path"
        raise _BrokenError(rule) from None
    text = f"{path}, {_size(shutil.disk_usage(there).free)} free"
    if there != path:
        text += " (it does not exist yet; a run makes it)"
    return text


def _trial() -> str:
    """Run a trial in a separate process."""
    from minitune import RunConfig, TuneConfig, Tuner

    begin_s = time.monotonic()
    try:
        with tempfile.TemporaryDirectory(prefix="minitune-doctor-", ignore_cleanup_errors=True) as directory:
            config = RunConfig(verbose=0, storage_path=directory, name="doctor")
            grid = Tuner(_probe, run_config=config, tune_config=TuneConfig(trial_timeout_s=30)).fit()
    except (TuneError, OSError, ValueError) as error:
        raise _BrokenError(f"a trial cannot be run: {error}") from None
    if grid.errors:
        raise _BrokenError(f"a trial in its own process fails: {grid.errors[0]}")
    return f"works in its own process, in {time.monotonic() - begin_s:.2f} s"


def _probe(config: dict[str, Any]) -> dict[str, Any]:
    return {"pid": os.getpid()}


def _size(amount_bytes: float) -> str:
    return f"{amount_bytes / 1e9:.1f} GB"
