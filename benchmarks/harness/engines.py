"""The engines: minitune and its peers. Each may be installed in another interpreter."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

RUNS = Path(__file__).resolve().parent.parent / "runs"
CHECKOUT = RUNS.parent.parent
CPUS = 2
"""How many trials run at a time, on any machine."""

_QUESTION = """
import importlib.metadata, importlib.util, json, platform, sys
name = sys.argv[1]
has_it = not name or importlib.util.find_spec(name)
print(json.dumps([has_it and (importlib.metadata.version(name) if name else platform.python_version())]))
"""


@dataclass(frozen=True)
class Engine:
    """A library that runs trials.

    Attributes:
        name: The name on the command line.
        title: The name in tables.
        package: The distribution that must be installed; empty for this checkout and for the standard library.
        script: The script in `runs/` that makes its runs.
        environment: The environment variables of its runs.
        records: The kinds of files that get each report: `json`, `csv`, `journal`.
    """

    name: str
    title: str
    package: str
    script: str
    environment: Mapping[str, str]
    records: tuple[str, ...] = ()


ENGINES = {
    engine.name: engine
    for engine in (
        Engine(
            "minitune",
            "minitune",
            "",
            "tune_run.py",
            {"MINITUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1", "MINITUNE_NUM_CPUS": str(CPUS)},
            ("json", "csv", "journal"),
        ),
        Engine(
            "ray",
            "Ray Tune",
            "ray",
            "tune_run.py",
            {"TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1", "RAY_USAGE_STATS_ENABLED": "0"},
            ("json", "csv"),
        ),
        Engine("optuna", "Optuna", "optuna", "optuna_run.py", {}),
        Engine("joblib", "joblib", "joblib", "map_run.py", {}),
        Engine("pool", "ProcessPoolExecutor", "", "map_run.py", {}),
        Engine("forkserver", "Process by forkserver", "", "map_run.py", {}),
        Engine("fork", "bare fork", "", "map_run.py", {}),
        Engine("copytree", "bare copytree, fsync each second", "", "map_run.py", {}),
    )
}
"""All engines by name."""

OURS = "minitune"
"""The engine that all others are compared with."""


@dataclass(frozen=True)
class Installed:
    """An engine and its interpreter.

    Attributes:
        engine: The engine.
        python: The path of the interpreter.
        version: The version of the engine's package; Python's if it has none.
    """

    engine: Engine
    python: str
    version: str

    def environment(self) -> dict[str, str]:
        """The environment of its runs: this checkout can be imported, and Python may keep compiled code, as usual."""
        kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        path = os.pathsep.join(filter(None, [str(CHECKOUT), os.environ.get("PYTHONPATH", "")]))
        return {**kept, "PYTHONPATH": path, **self.engine.environment}


def find(pythons: Mapping[str, str]) -> dict[str, Installed]:
    """The engines that are installed, by name. Blocks: it starts a process for each.

    Args:
        pythons: The interpreters of some engines, by name. The others are searched in this interpreter.

    Raises:
        ValueError: If an engine is not installed in the interpreter that was given for it.
    """
    found = {}
    for name, engine in ENGINES.items():
        python = pythons.get(name, sys.executable)
        version = version_in(python, engine.package)
        if version is not None:
            found[name] = Installed(engine, python, version)
        elif name in pythons:
            raise ValueError(f"{python} must have {engine.package} installed, but it has not")
    return found


def version_in(python: str, package: str) -> str | None:
    """The version of a package in an interpreter; None if it is not installed. Blocks. No name: Python's version."""
    asked = subprocess.run([python, "-c", _QUESTION, package], capture_output=True, text=True, check=True)
    version: str | None = json.loads(asked.stdout)[0]
    return version
