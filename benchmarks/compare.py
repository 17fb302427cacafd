"""Measures what the engine itself costs, beside Ray Tune, Optuna, joblib and what Python has: pools and processes.

    pip install -r benchmarks/requirements.txt                      # the other engines
    python benchmarks/compare.py                                    # the engines that this interpreter has
    python benchmarks/compare.py --peer ray=PATH_OF_ITS_PYTHON      # with Ray Tune from another environment
    python benchmarks/compare.py --only reports asha --engines minitune --rounds 5
    python benchmarks/compare.py --quick                            # does everything run?

`harness/workloads.py` has the table of workloads, with sizes and goals. Each run is a process of its own (`runs/`). It
shows nothing on the screen, writes JSON and CSV logs and no others, and has two trials at a time. For Ray, the clock
starts after its cluster has started, except in the cold start. Each round runs every workload with every engine.

A run counts only if all its reports are in `result.json`, in `progress.csv` and, for this package, in the run's
journal. Otherwise it is void. If a run of this package is void, so is its figure. Void runs of a peer are left out, and
its figure is void only if no other run is left. If a figure is void, the exit status is 1. Linux only, because the
processes are measured by /proc.

The files of the runs, about a gigabyte per round, stay unless --clean is given. After many files were deleted, ext4
creates new ones slowly for some minutes, which would spoil the next measurement.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
from pathlib import Path
from typing import Any

from harness import workspace
from harness.engines import ENGINES, Installed, find, version_in
from harness.measure import Job, run_all
from harness.summary import markdown, summarise
from harness.workloads import WORKLOADS


def plan(names: list[str], engines: dict[str, Installed]) -> tuple[list[Job], list[str]]:
    """The jobs that can run here, and a text for each that cannot.

    Args:
        names: The names of the workloads.
        engines: The engines that are installed.
    """
    jobs, missing = [], []
    for workload in (WORKLOADS[name] for name in names):
        for installed in (engines[name] for name in workload.sizes if name in engines):
            if workload.needs and version_in(installed.python, workload.needs) is None:
                missing.append(f"{workload.name} with {installed.engine.name}, for want of {workload.needs}")
            else:
                jobs.append((workload, installed))
    return jobs, missing


def machine() -> dict[str, Any]:
    """The number of CPUs, the processor and the system."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    processor = next((line.partition(": ")[2] for line in lines if line.startswith("model name")), platform.machine())
    return {"cpus": len(os.sched_getaffinity(0)), "processor": processor, "system": platform.platform(terse=True)}


def arguments() -> argparse.Namespace:
    """Parse and check the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "--only", nargs="+", choices=list(WORKLOADS), default=list(WORKLOADS), help="some workloads only"
    )
    parser.add_argument("--engines", nargs="+", choices=list(ENGINES), default=list(ENGINES), help="some engines only")
    parser.add_argument(
        "--peer", action="append", default=[], metavar="NAME=PYTHON", help="the interpreter of an engine"
    )
    parser.add_argument("--rounds", type=int, help="runs of each workload by each engine (default: 3; with --quick 1)")
    parser.add_argument("--quick", action="store_true", help="small sizes, less than a minute")
    parser.add_argument("--json", type=Path, help="a file for all measurements")
    workspace.add_arguments(parser)
    options = parser.parse_args()
    options.peer = dict(pair.partition("=")[::2] for pair in options.peer)
    if not set(options.peer) <= set(ENGINES):
        parser.error(f"--peer takes NAME=PYTHON with NAME one of {', '.join(ENGINES)}, but got {options.peer}")
    options.rounds = (1 if options.quick else 3) if options.rounds is None else options.rounds
    if options.rounds < 1:
        parser.error(f"expected --rounds >= 1, but got {options.rounds}")
    return options


def main() -> int:
    """Measure, write and print. Return the exit status."""
    options = arguments()
    found = find(options.peer)
    engines = {name: found[name] for name in options.engines if name in found}
    absent = [f"{ENGINES[name].title}, which is not installed" for name in options.engines if name not in found]
    jobs, missing = plan(options.only, engines)
    with workspace.workspace(options) as directory:
        runs = run_all(jobs, options.rounds, directory, options.quick, lambda line: print(line, file=sys.stderr))
    document = {
        "machine": machine(),
        "rounds": options.rounds,
        "quick": options.quick,
        "engines": {
            name: {"title": each.engine.title, "version": each.version, "python": each.python}
            for name, each in engines.items()
        },
        "not_measured": absent + missing,
        "figures": summarise(runs),
        "runs": runs,
    }
    if options.json:
        options.json.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    print(markdown(document))
    return 1 if any("void" in spread for row in document["figures"] for spread in row["engines"].values()) else 0


if __name__ == "__main__":
    sys.exit(main())
