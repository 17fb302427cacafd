"""`minitune doctor` checks whether this machine can run trials."""

from __future__ import annotations

import argparse
import glob
import os
import platform
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from typing import Any

from minitune.base import __version__
from minitune.base.settings import SETTINGS, setting, variable_of
from minitune.base.text import echo
from minitune.commands import Commands, set_command
from minitune.config import default_storage_path
from minitune.error import TuneError
from minitune.executors.devices import detect_gpus, memory, memory_bytes, usable_cpus

_NEEDED = ("cloudpickle", "psutil")

_OPTIONAL = (
    *("numpy", "pandas", "pyarrow", "scikit-learn", "matplotlib", "tensorboardX", "ipython"),
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
    versions = dict(_installed((*_NEEDED, *_OPTIONAL)))
    for name, packages in (("needed", _NEEDED), ("optional", _OPTIONAL)):
        yield name, ", ".join(f"{one} {versions[one]}" for one in packages if one in versions)
    own = {variable: setting(name) for name in SETTINGS if (variable := variable_of(name)) in os.environ}
    yield "settings", ", ".join(f"{variable}={value}" for variable, value in own.items())
    yield "cpus", _cpus()
    yield "memory", _memory()
    yield "gpus", _gpus()
    yield "storage", _storage()
    yield "trial", _trial()


def _installed(names: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """The names and versions of the installed packages; none is imported."""
    from importlib.metadata import PackageNotFoundError, version

    for name in names:
        try:
            yield name, version(name)
        except PackageNotFoundError:
            if name in _NEEDED:
                raise _BrokenError(f"{name} must be installed: pip install {name}") from None


def _cpus() -> str:
    cores = os.cpu_count() or 1
    usable = usable_cpus()
    allowed = cores
    if sys.platform == "linux":
        allowed = len(os.sched_getaffinity(0))
    text = str(usable)
    if usable < cores:
        text += f" (of {cores}; affinity {allowed}, the rest is a quota of the container)"
    if setting("NUM_CPUS"):
        text += f", {variable_of('NUM_CPUS')}={setting('NUM_CPUS')} counts instead"
    return text


def _memory() -> str:
    total = memory()[0]
    limit = memory_bytes()
    text = _size(limit)
    if limit < total:
        text += f" (a limit; the machine has {_size(total)})"
    return text


def _gpus() -> str:
    ids = detect_gpus()
    text = ", ".join(ids) or "none"
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:
        text += f", as CUDA_VISIBLE_DEVICES={visible!r} says"
    elif not ids and glob.glob("/dev/nvidia*"):
        text += (
            "; there are NVIDIA devices, but nvidia-smi does not list them: check the driver and the PATH, or set "
            "MINITUNE_NUM_GPUS"
        )
    return text


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
