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
from dataclasses import dataclass, field
from typing import Any

from minitune._version import __version__
from minitune.actor.launcher import start_method
from minitune.base.text import echo
from minitune.commands import Commands, set_command
from minitune.commands.facts import add_json, print_json
from minitune.config import default_storage_path
from minitune.error import TuneError
from minitune.executors.devices import detect_gpus, free_memory_bytes, memory, memory_bytes, usable_cpus
from minitune.record.layout import find_runs
from minitune.record.reading import read_overview
from minitune.record.standing import standing_of
from minitune.settings import SETTINGS, setting, variable_of

_NEEDED = ("cloudpickle", "psutil")

_OPTIONAL = (
    *("numpy", "pandas", "pyarrow", "scikit-learn", "matplotlib", "tensorboardX", "ipython"),
    *("optuna", "wandb", "mlflow"),
    *("torch", "lightning", "pytorch-lightning", "transformers", "tensorflow", "keras", "jax", "xgboost", "lightgbm"),
)

_FEW_DESCRIPTORS = 1024
_LITTLE_SPACE_BYTES = 1_000_000_000
_FILES_PER_WORKER = 8
"""About how many descriptors the driver needs for each worker."""
_WIDTH = 12


def add_parser(commands: Commands) -> None:
    """Add the parser of `minitune doctor`."""
    parser = commands.add_parser(
        "doctor",
        description="Check this machine: its resources, the installed versions, and whether a trial runs.",
        epilog="The exit status is 0 if trials can run, else 1.",
    )
    add_json(parser)
    set_command(parser, doctor, "minitune doctor", "minitune doctor --json")


# -- doctor ------------------------------------------------------------------------------------------------------------
@dataclass
class _Findings:
    """The findings of `doctor`."""

    facts: dict[str, str] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


def doctor(options: argparse.Namespace) -> int:
    """Run `minitune doctor`: look for all facts, then print them."""
    found = _Findings()
    # The trial comes last, and only if nothing is broken: its error would only repeat the reason.
    for look in (_versions, _cpus, _memory, _gpus, _limits, _storage, _runs):
        look(found)
    if not found.problems:
        _try_trial(found)
    if options.json:
        print_json({"facts": found.facts, "warnings": found.warnings, "problems": found.problems})
        return 1 if found.problems else 0
    for name, text in found.facts.items():
        echo(f"{name:<{_WIDTH}} {text or 'none'}")
    for warning in found.warnings:
        echo(f"warning: {warning}")
    for problem in found.problems:
        echo(f"broken: {problem}")
    if not found.problems:
        echo("trials have everything that they need")
    if found.problems:
        return 1
    return 0


# -- doctor: the machine -----------------------------------------------------------------------------------------------
def _versions(found: _Findings) -> None:
    found.facts["minitune"] = f"{__version__} in {os.path.dirname(os.path.dirname(__file__))}"
    found.facts["python"] = f"{platform.python_version()} ({sys.executable})"
    found.facts["system"] = f"{platform.system()} {platform.release()} on {platform.machine()}"
    versions = dict(_installed((*_NEEDED, *_OPTIONAL)))
    for name, packages in (("needed", _NEEDED), ("optional", _OPTIONAL)):
        found.facts[name] = ", ".join(f"{one} {versions[one]}" for one in packages if one in versions)
    missing = [name for name in _NEEDED if name not in versions]
    if missing:
        found.problems.append(f"{' and '.join(missing)} must be installed: pip install {' '.join(missing)}")
    own = {variable: setting(name) for name in SETTINGS if (variable := variable_of(name)) in os.environ}
    found.facts["settings"] = ", ".join(f"{variable}={value}" for variable, value in own.items())


def _installed(names: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """The names and versions of the installed packages; none is imported."""
    from importlib.metadata import PackageNotFoundError, version

    for name in names:
        try:
            yield name, version(name)
        except PackageNotFoundError:
            continue


def _cpus(found: _Findings) -> None:
    cores = os.cpu_count() or 1
    usable = usable_cpus()
    allowed = cores
    if sys.platform == "linux":
        allowed = len(os.sched_getaffinity(0))
    why = ""
    if usable < cores:
        why = f" (of {cores}; affinity {allowed}, the rest is a quota of the container)"
    instead = ""
    if setting("NUM_CPUS"):
        instead = f", {variable_of('NUM_CPUS')}={setting('NUM_CPUS')} counts instead"
    found.facts["cpus"] = f"{usable}{why}{instead}"
    try:
        found.facts["start method"] = start_method()
    except ValueError as error:
        found.problems.append(str(error))


def _memory(found: _Findings) -> None:
    total = memory()[0]
    limit = memory_bytes()
    free = free_memory_bytes()
    why = ""
    if limit < total:
        why = f" (a limit; the machine has {_size(total)})"
    found.facts["memory"] = f"{_size(limit)}, {_size(free)} free{why}"


def _gpus(found: _Findings) -> None:
    ids = detect_gpus(asked=True)
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    why = ""
    if visible is not None:
        why = f", as CUDA_VISIBLE_DEVICES={visible!r} says"
    found.facts["gpus"] = f"{', '.join(ids) or 'none'}{why}"
    if visible is None and not ids and glob.glob("/dev/nvidia*"):
        found.warnings.append(
            "there are NVIDIA devices, but nvidia-smi does not list them: check the driver and the PATH, or set "
            "MINITUNE_NUM_GPUS"
        )


def _limits(found: _Findings) -> None:
    import resource

    files, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    processes = resource.getrlimit(resource.RLIMIT_NPROC)[0]
    more = ""
    if hard != files:
        more = f" (up to {_limit(hard)})"
    found.facts["limits"] = f"{_limit(files)} open files{more}, {_limit(processes)} processes"
    # The driver has pipes and a process descriptor for each worker.
    if files != resource.RLIM_INFINITY and files < min(_FEW_DESCRIPTORS, _FILES_PER_WORKER * usable_cpus() + 64):
        found.warnings.append(f"only {files} files may be open at a time: `ulimit -n {_FEW_DESCRIPTORS}`")


def _limit(value: int) -> str:
    if value < 0 or value >= 1 << 60:
        return "unlimited"
    return str(value)


def _storage(found: _Findings) -> None:
    """Check that runs can be written, without creating the directory."""
    path = default_storage_path()
    there = path
    # A check must not create the directory. Its first existing parent decides whether that is possible.
    while not os.path.exists(there) and os.path.dirname(there) != there:
        there = os.path.dirname(there)
    free = shutil.disk_usage(there).free
    why = ""
    if there != path:
        why = " (it does not exist yet; a run makes it)"
    found.facts["storage"] = f"{path}, {_size(free)} free{why}"
    try:
        # Writing tells more than the permissions: they do not show a full or read-only disk.
        with tempfile.TemporaryFile(dir=there):
            pass
    except OSError as error:
        reason = error.strerror or error
        found.problems.append(f"{there} cannot be written ({reason}): set MINITUNE_STORAGE_PATH, or a storage_path")
        return
    if free < _LITTLE_SPACE_BYTES:
        found.warnings.append(f"little space is left for {path}: {_size(free)}")


# -- doctor: runs ------------------------------------------------------------------------------------------------------
def _runs(found: _Findings) -> None:
    """Find runs that can be resumed, and damaged ones."""
    unfinished = []
    for path in find_runs(default_storage_path()):
        try:
            seen = read_overview(path)
            if seen.damage is not None:
                raise seen.damage
        except TuneError:
            found.warnings.append(f"the record of {path} is damaged: `minitune ls {path}` shows how")
            continue
        if seen.is_unfinished and standing_of(seen).can_go_on:
            unfinished.append(path)
    found.facts["unfinished"] = ", ".join(unfinished)


# -- doctor: a trial ---------------------------------------------------------------------------------------------------
def _try_trial(found: _Findings) -> None:
    """Run a trial in a separate process."""
    from minitune import RunConfig, TuneConfig, Tuner

    begin_s = time.monotonic()
    try:
        with tempfile.TemporaryDirectory(prefix="minitune-doctor-", ignore_cleanup_errors=True) as directory:
            config = RunConfig(verbose=0, storage_path=directory, name="doctor")
            grid = Tuner(_probe, run_config=config, tune_config=TuneConfig(trial_timeout_s=30)).fit()
        if grid.errors:
            found.problems.append(f"a trial in its own process fails: {grid.errors[0]}")
        else:
            found.facts["trial"] = f"works in its own process, in {time.monotonic() - begin_s:.2f} s"
    except (TuneError, OSError, ValueError) as error:
        found.problems.append(f"a trial cannot be run: {error}")


def _probe(config: dict[str, Any]) -> dict[str, Any]:
    return {"pid": os.getpid()}


def _size(amount_bytes: float) -> str:
    return f"{amount_bytes / 1e9:.1f} GB"
