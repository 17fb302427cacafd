"""The engines: minitune, and those that it is held against. Each lives in whatever interpreter has it."""

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
"""How many trials run at a time, whatever the machine has."""

_QUESTION = """
import importlib.metadata, importlib.util, json, platform, sys
name = sys.argv[1]
has_it = not name or importlib.util.find_spec(name)
print(json.dumps([has_it and (importlib.metadata.version(name) if name else platform.python_version())]))
"""


@dataclass(frozen=True)
class Engine:
    """One way to get trials done.

    Attributes:
        name: Its name on the command line.
        title: Its name for people.
        package: The distribution that must be installed; empty if it is this checkout or the standard library.
        script: The script in `runs/` that makes its runs.
        environment: Variables that its runs need.
        records: Where its runs leave each report: `json`, `csv`, `journal`.
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
        Engine("pool", "ProcessPoolExecutor of Python", "", "map_run.py", {}),
    )
}
"""All engines by name; the first is what everything else is compared with."""

OURS = "minitune"


@dataclass(frozen=True)
class Installed:
    """An engine, and where it is.

    Attributes:
        engine: The engine.
        python: The interpreter that has it.
        version: Of its package, or of Python for those that have none.
    """

    engine: Engine
    python: str
    version: str

    def environment(self) -> dict[str, str]:
        """What its runs find in their environment: this checkout for all; compiled code is kept, as anywhere."""
        kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        path = os.pathsep.join(filter(None, [str(CHECKOUT), os.environ.get("PYTHONPATH", "")]))
        return {**kept, "PYTHONPATH": path, **self.engine.environment}


def find(pythons: Mapping[str, str]) -> dict[str, Installed]:
    """The engines that are installed, by name. Blocks for a process each.

    Args:
        pythons: Interpreters of some engines, by name; the others are looked for in this one.

    Raises:
        ValueError: If one that was named with an interpreter is not there.
    """
    found = {}
    for name, engine in ENGINES.items():
        python = pythons.get(name, sys.executable)
        version = version_in(python, engine.package)
        if version is not None:
            found[name] = Installed(engine, python, version)
        elif name in pythons:
            raise ValueError(f"{python} must have {engine.package} installed, but has not")
    return found


def version_in(python: str, package: str) -> str | None:
    """Version of a package (of Python itself for the empty name) in an interpreter; None if it is not there. Blocks."""
    asked = subprocess.run([python, "-c", _QUESTION, package], capture_output=True, text=True, check=True)
    version: str | None = json.loads(asked.stdout)[0]
    return version
