"""Makes the runs: each in a process of its own, engines in turns, nothing deleted in between."""

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
"""A run that takes longer than this has hung."""
_TAIL_LINES = 15

Job = tuple[Workload, Installed]


def run_once(
    workload: Workload,
    installed: Installed,
    storage: Path,
    parameters: Mapping[str, Any],
    profile: Path | None = None,
) -> dict[str, Any]:
    """Make one run, and check its records. Blocks.

    Args:
        workload: What to run.
        installed: By which engine.
        storage: Where it writes; does not exist, but its parent does.
        parameters: Of the run.
        profile: Where to put what cProfile sees of the driver; None for a run without it.

    Returns:
        What the run has printed, `started_s` and `parameters`.

    Raises:
        VoidError: If it fails, or a report is missing in its records.
    """
    storage.mkdir()
    os.sync()  # what earlier runs have left for the disk is not for this one to wait for
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
    """Make all runs, round by round, so that a slow minute of the machine meets every engine. Blocks for minutes.

    One small run of each engine that does not count comes first: it leaves compiled code and warm file caches, as any
    installation has.

    Args:
        jobs: What to run by which engine.
        rounds: How often.
        directory: Where everything is written.
        quick: Whether the small sizes will do.
        tell: Is given a line after each run.

    Returns:
        One object per run: `workload`, `engine`, `round`, and either `figures` (their values, in the order of the
        workload's) and `seen`, or `void`, the reason.
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
