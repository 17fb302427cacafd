"""Makes the runs, each in a process of its own. The engines take turns, and nothing is deleted in between."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from harness.engines import RUNS, Installed
from harness.records import VoidError, check
from harness.workloads import Workload

LIMIT_S = 600.0
"""A run that takes longer counts as hanging."""
_TAIL_LINES = 15

Job = tuple[Workload, Installed]


def run_once(
    workload: Workload,
    installed: Installed,
    storage: Path,
    parameters: Mapping[str, Any],
    profile: Path | None = None,
) -> dict[str, Any]:
    """Make one run and check its records. Blocks.

    Args:
        workload: What to run.
        installed: The engine.
        storage: The directory for the run's files. It is created; its parent must exist.
        parameters: The parameters of the run.
        profile: A file for the driver's profile by cProfile; None for a run without a profile.

    Returns:
        The object that the run has printed, with `started_s` and `parameters`.

    Raises:
        VoidError: If the run fails, or a report is missing in its records.
    """
    storage.mkdir()
    os.sync()  # so that this run does not wait for data that earlier runs have written
    engine = installed.engine
    command = [installed.python, str(RUNS / engine.script), engine.name, workload.name, str(storage)]
    command += [json.dumps(parameters), *([str(profile)] if profile else [])]
    started_s = time.time()
    try:
        done = subprocess.run(
            command,
            env=installed.environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
        )
    except subprocess.TimeoutExpired:
        raise VoidError(f"not done after {LIMIT_S:.0f} s") from None
    if done.returncode:
        tail = "\n".join(done.stderr.strip().splitlines()[-_TAIL_LINES:])
        raise VoidError(f"exit status {done.returncode}: {tail}")
    seen = json.loads(done.stdout.splitlines()[-1])
    check(storage, engine.records, parameters, seen)
    return {**seen, "started_s": started_s, "parameters": parameters}


def run_all(
    jobs: Sequence[Job], rounds: int, directory: Path, quick: bool, tell: Callable[[str], None]
) -> list[dict[str, Any]]:
    """Make all runs, round by round, so that a slow minute of the machine affects all engines. Blocks for minutes.

    First, each engine makes a small run that does not count. It compiles the code and warms the file caches.

    Args:
        jobs: The workloads, each with an engine.
        rounds: How many times to run each job.
        directory: The directory for all files.
        quick: Whether to use the small sizes.
        tell: Called with a line of text after each run.

    Returns:
        One object per run: `workload`, `engine`, `round`, and either `figures` (the values of the workload's figures,
        in their order) and `seen`, or `void` (the reason).
    """
    first = {installed.engine.name: (workload, installed) for workload, installed in reversed(jobs)}
    for name, job in first.items():
        _try(job, directory / f"warm-up-{name}", quick=True)
    runs = []
    for number in range(1, rounds + 1):
        for workload, installed in jobs:
            name = installed.engine.name
            outcome = _try((workload, installed), directory / f"{number}-{workload.name}-{name}", quick)
            runs.append({"workload": workload.name, "engine": name, "round": number, **outcome})
            tell(f"{number}/{rounds} {workload.name} {name}: {_told(workload, outcome)}")
    return runs


def _try(job: Job, storage: Path, quick: bool) -> dict[str, Any]:
    workload, installed = job
    try:
        seen = run_once(workload, installed, storage, workload.parameters(installed.engine.name, quick))
    except VoidError as error:
        return {"void": str(error)}
    figures = [figure.value(seen) for figure in workload.figures]
    return {
        "figures": figures,
        "seen": {key: value for key, value in seen.items() if key not in ("reports", "numbers")},
    }


def _told(workload: Workload, outcome: Mapping[str, Any]) -> str:
    if "void" in outcome:
        return f"VOID: {outcome['void']}"
    pairs = zip(outcome["figures"], workload.figures, strict=True)
    figures = ", ".join(f"{value:.4g} {figure.unit}" for value, figure in pairs)
    seen = outcome["seen"]
    cpu = ", ".join(f"{kind} {cpu_s:.2f}" for kind, cpu_s in seen["cpu_s"].items())
    return f"{figures} (wall {seen['wall_s']:.2f} s; CPU s: {cpu})"
