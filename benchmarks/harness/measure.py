"""Makes the runs: each in a process of its own, engines in turns, nothing deleted in between."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from harness.engines import RUNS, Installed, version_in
from harness.records import VoidError, check
from harness.workloads import Workload

LIMIT_S = 600.0
"""A run that takes longer than this has hung."""


def run_once(
    workload: Workload, installed: Installed, storage: Path, quick: bool, profile: Path | None = None
) -> dict[str, Any]:
    """Make one run, and check its records. Blocks.

    Args:
        workload: What to run.
        installed: By which engine.
        storage: Where it writes; must not exist.
        quick: Whether the small size will do.
        profile: Where to put what cProfile sees of the driver; None for a run without it.

    Returns:
        What the run has printed, `started_s` and `parameters`.

    Raises:
        VoidError: If it fails, or a report is missing in its records.
    """
    if workload.needs and version_in(installed.python, workload.needs) is None:
        raise VoidError(f"{workload.needs} is not installed in {installed.python}")
    storage.mkdir(parents=True)
    engine, parameters = installed.engine, workload.parameters(installed.engine.name, quick)
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
        raise VoidError(f"exit status {done.returncode}: {(done.stderr.strip().splitlines() or [''])[-1]}")
    seen = json.loads(done.stdout.splitlines()[-1])
    check(storage, engine.records, parameters, seen)
    return {**seen, "started_s": started_s, "parameters": parameters}


def run_all(
    workloads: Iterable[Workload],
    engines: dict[str, Installed],
    rounds: int,
    directory: Path,
    quick: bool,
    tell: Callable[[str], None],
) -> list[dict[str, Any]]:
    """Make all runs, round by round, so that a slow minute of the machine meets every engine. Blocks for minutes.

    Args:
        workloads: What to run.
        engines: The engines that are there.
        rounds: How often each is run by each engine.
        directory: Where everything is written.
        quick: Whether the small sizes will do.
        tell: Is given a line after each run.

    Returns:
        One object per run: workload, engine, round, and its figures and times, or why it is void.
    """
    runs = []
    for number in range(1, rounds + 1):
        for workload in workloads:
            for name in workload.sizes:
                if name not in engines:
                    continue
                run: dict[str, Any] = {"workload": workload.name, "engine": name, "round": number}
                try:
                    seen = run_once(workload, engines[name], directory / f"{number}-{workload.name}-{name}", quick)
                    run["figures"] = [figure.value(seen) for figure in workload.figures]
                    run["seen"] = {key: value for key, value in seen.items() if key != "reports"}
                    told = ", ".join(f"{v:.4g} {f.unit}" for v, f in zip(run["figures"], workload.figures, strict=True))
                    times = ", ".join(f"{kind} {cpu_s:.2f}" for kind, cpu_s in seen["cpu_s"].items())
                    told += f" (wall {seen['wall_s']:.2f} s; CPU s: {times})"
                except VoidError as error:
                    run["void"] = str(error)
                    told = f"VOID: {error}"
                runs.append(run)
                tell(f"round {number} of {rounds}: {workload.name}, {name}: {told}")
    return runs
