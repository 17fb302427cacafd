"""`minitune doctor`: what this machine offers to trials, what is installed, and what is broken, with the way out."""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from minitune._memory import memory
from minitune._version import __version__
from minitune.commands.selecting import state_of
from minitune.config import default_storage_path
from minitune.error import TuneError
from minitune.execution.devices import detect_gpus, memory_bytes, usable_cpus
from minitune.execution.local import start_method
from minitune.execution.run_overview import find_runs, read_overview
from minitune.execution.storage import RunDirectory
from minitune.logger import strict_json
from minitune.settings import SETTINGS, setting, variable_of

_NEEDED = ("cloudpickle", "psutil")
_OPTIONAL = (
    *(
        "numpy",
        "pandas",
        "pyarrow",
        "scikit-learn",
        "matplotlib",
        "tensorboardX",
        "ipython",
        "optuna",
        "wandb",
        "mlflow",
    ),
    *("torch", "lightning", "pytorch-lightning", "transformers", "tensorflow", "keras", "jax", "xgboost", "lightgbm"),
)
_FEW_DESCRIPTORS = 1024
_LITTLE_SPACE_BYTES = 1_000_000_000
_FILES_PER_WORKER = 8
"""About so many descriptors the driver needs for each worker."""
_WIDTH = 12


@dataclass
class _Findings:
    """What was found.

    Attributes:
        facts: What there is, by name, as plain data.
        texts: The same for people.
        problems: What is broken, each with the way out.
        warnings: What may be in the way.
    """

    facts: dict[str, Any] = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def tell(self, name: str, value: Any, text: str) -> None:
        """Note a fact."""
        self.facts[name.replace(" ", "_")] = value
        self.texts[name] = text


def main(arguments: list[str], prog: str) -> int:
    """Run the command.

    Args:
        arguments: What follows its name.
        prog: Its name, for the help.

    Returns:
        The exit status: 1 if something that trials need is broken.
    """
    parser = argparse.ArgumentParser(
        prog=prog,
        description="Tell what this machine offers to trials, what is installed, and what is broken.",
        epilog="The exit status is 1 if something that trials need is broken, else 0.",
    )
    parser.add_argument("--json", action="store_true", help="one JSON object")
    parser.add_argument("--no-trial", action="store_true", help="do not try out a trial in a process of its own")
    options = parser.parse_args(arguments)
    found = _Findings()
    for look in (_versions, _cpus, _memory, _gpus, _limits, _storage, _leftovers):
        look(found)
    if not options.no_trial and not found.problems:
        _try_trial(found)
    if options.json:
        print(strict_json.dumps_pretty({**found.facts, "problems": found.problems, "warnings": found.warnings}))
    else:
        _print(found)
    return 1 if found.problems else 0


def _print(found: _Findings) -> None:
    for name, text in found.texts.items():
        print(f"{name:<{_WIDTH}} {text or 'none'}")
    for warning in found.warnings:
        print(f"warning: {warning}")
    for problem in found.problems:
        print(f"broken: {problem}")
    if not found.problems:
        print("all that trials need is there")


# -- what there is -----------------------------------------------------------------------------------------------------


def _versions(found: _Findings) -> None:
    found.tell("minitune", __version__, f"{__version__} in {os.path.dirname(os.path.dirname(__file__))}")
    python, system = platform.python_version(), f"{platform.system()} {platform.release()} on {platform.machine()}"
    found.tell("python", python, f"{python} ({sys.executable})")
    found.tell("system", system, system)
    for name, packages in (("needed", _NEEDED), ("optional", _OPTIONAL)):
        versions = dict(_installed(packages))
        found.tell(name, versions, ", ".join(f"{package} {version}" for package, version in versions.items()))
    missing = [name for name in _NEEDED if name not in found.facts["needed"]]
    if missing:
        found.problems.append(f"{' and '.join(missing)} must be installed: pip install {' '.join(missing)}")
    own = {variable: setting(name) for name in SETTINGS if (variable := variable_of(name)) in os.environ}
    found.tell("settings", own, ", ".join(f"{variable}={value}" for variable, value in own.items()))


def _installed(names: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """Names and versions of those that are installed; none is imported."""
    from importlib.metadata import PackageNotFoundError, version

    for name in names:
        try:
            yield name, version(name)
        except PackageNotFoundError:
            continue


def _cpus(found: _Findings) -> None:
    cores, usable = os.cpu_count() or 1, usable_cpus()
    allowed = cores
    if sys.platform == "linux":
        allowed = len(os.sched_getaffinity(0))
    why = f" (of {cores}; affinity {allowed}, the rest is a quota of the container)" if usable < cores else ""
    instead = f", {variable_of('NUM_CPUS')}={setting('NUM_CPUS')} counts instead" if setting("NUM_CPUS") else ""
    found.tell("cpus", {"usable": usable, "affinity": allowed, "machine": cores}, f"{usable}{why}{instead}")
    try:
        found.tell("start method", start_method(), start_method())
    except ValueError as error:
        found.problems.append(str(error))


def _memory(found: _Findings) -> None:
    (total, free), limit = memory(), memory_bytes()
    why = f" (a limit; the machine has {_size(total)})" if limit < total else ""
    value = {"total_bytes": limit, "free_bytes": min(free, limit), "machine_bytes": total}
    found.tell("memory", value, f"{_size(limit)}, {_size(min(free, limit))} free{why}")


def _gpus(found: _Findings) -> None:
    ids = detect_gpus(asked=True)
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    why = "" if visible is None else f", as CUDA_VISIBLE_DEVICES={visible!r} says"
    found.tell("gpus", list(ids), f"{', '.join(ids) or 'none'}{why}")
    if visible is None and not ids and any(name.startswith("nvidia") for name in _names("/dev")):
        found.warnings.append(
            "there are NVIDIA devices, but nvidia-smi does not list them: check the driver and the PATH, or set "
            "MINITUNE_NUM_GPUS"
        )


def _names(directory: str) -> list[str]:
    try:
        return os.listdir(directory)
    except OSError:
        return []


def _limits(found: _Findings) -> None:
    if sys.platform == "win32":
        return
    import resource

    files, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    processes = resource.getrlimit(resource.RLIMIT_NPROC)[0]
    more = f" (up to {_limit(hard)})" if hard != files else ""
    text = f"{_limit(files)} open files{more}, {_limit(processes)} processes"
    found.tell("limits", {"open_files": files, "processes": processes}, text)
    if files != resource.RLIM_INFINITY and files < min(_FEW_DESCRIPTORS, _FILES_PER_WORKER * usable_cpus() + 64):
        found.warnings.append(f"only {files} files may be open at a time: `ulimit -n {_FEW_DESCRIPTORS}`")


def _limit(value: int) -> str:
    return "unlimited" if value < 0 or value >= 1 << 60 else str(value)


def _storage(found: _Findings) -> None:
    """Whether runs can be written; the directory is not made for that."""
    path = default_storage_path()
    there = path
    while not os.path.exists(there) and os.path.dirname(there) != there:
        there = os.path.dirname(there)
    free = shutil.disk_usage(there).free
    why = "" if there == path else " (it will be made)"
    found.tell("storage", {"path": path, "free_bytes": free}, f"{path}, {_size(free)} free{why}")
    try:
        with tempfile.TemporaryFile(dir=there):
            pass
    except OSError as error:
        reason = error.strerror or error
        found.problems.append(f"{there} cannot be written ({reason}): set MINITUNE_STORAGE_PATH, or a storage_path")
        return
    if free < _LITTLE_SPACE_BYTES:
        found.warnings.append(f"little space is left for {path}: {_size(free)}")


# -- what is left over -------------------------------------------------------------------------------------------------


def _leftovers(found: _Findings) -> None:
    """Runs that can go on, values that a killed driver has left on the disk, processes without a driver."""
    unfinished, left = [], []
    for path in find_runs(default_storage_path()):
        try:
            seen = read_overview(path)
            if seen.damage is not None:
                raise seen.damage
        except TuneError:
            found.warnings.append(f"the record of {path} is damaged: `minitune ls {path}` says how")
            continue
        if seen.is_unfinished and state_of(path, seen.close_reason).can_go_on:
            unfinished.append(path)
            left += [shared] if os.path.isdir(shared := RunDirectory(path).shared) else []
    found.tell("unfinished", unfinished, ", ".join(unfinished))
    if left:
        found.warnings.append(f"a killed run has left values on the disk; resume it, or remove them: {', '.join(left)}")
    orphans = [str(pid) for pid in _orphans()]
    if orphans:
        found.warnings.append(f"trials whose driver is gone still run: kill {' '.join(orphans)}")


def _orphans() -> Iterator[int]:
    """Processes that trials have started, or are, whose driver is gone: none of their ancestors but the first lives."""
    import psutil

    for process in psutil.process_iter():
        try:
            # the environment of process 1 is another user's: it is not even looked at
            if _is_of_trial(process) and all(one.pid == 1 or _is_of_trial(one) for one in process.parents()):
                yield process.pid
        except (psutil.Error, OSError):
            continue  # it has ended, or it is somebody else's


def _is_of_trial(process: Any) -> bool:
    return "MINITUNE_TRIAL" in process.environ()


# -- whether it works --------------------------------------------------------------------------------------------------


def _try_trial(found: _Findings) -> None:
    """Run a trial in a process of its own."""
    from minitune import RunConfig, TuneConfig, Tuner

    directory = tempfile.mkdtemp(prefix="minitune-doctor-")
    begin_s = time.monotonic()
    try:
        config = RunConfig(verbose=0, storage_path=directory, name="doctor")
        grid = Tuner(_probe, run_config=config, tune_config=TuneConfig(trial_timeout_s=30)).fit()
        if grid.errors:
            found.problems.append(f"a trial in a process of its own fails: {grid.errors[0]}")
        else:
            took_s = time.monotonic() - begin_s
            found.tell("trial", {"seconds": took_s}, f"works, in a process of its own, in {took_s:.2f} s")
    except (TuneError, OSError, ValueError) as error:
        found.problems.append(f"a trial cannot be run: {error}")
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _probe(config: dict[str, Any]) -> dict[str, Any]:
    return {"pid": os.getpid()}


def _size(amount_bytes: float) -> str:
    return f"{amount_bytes / 1e9:.1f} GB"
