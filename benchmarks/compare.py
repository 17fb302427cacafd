"""What the engine itself costs, beside Ray Tune, Optuna, joblib and a bare process pool: one command measures it all.

    python benchmarks/compare.py                                    # what this interpreter has
    python benchmarks/compare.py --peer ray=PATH_OF_ITS_PYTHON      # and Ray Tune, from an environment of its own
    python benchmarks/compare.py --only reports asha --engines minitune --rounds 5
    python benchmarks/compare.py --quick                            # does everything run?

`harness/workloads.py` is the table of what is measured, with sizes and goals. Each run is a process of its own
(`runs/`): silent, with JSON and CSV logs and no others, two trials at a time. Ray's cluster is started before the clock
in all but the cold start. Rounds go through all workloads and engines in turns. A figure counts only if every report
that was made stands in `result.json`, in `progress.csv` and, for this package, in the run's journal: anything else
makes it VOID, and the exit status 1. One run of ours is enough for that; a peer's runs that lose reports are left out
as long as there are others. Linux only: the processes are measured by /proc.

What the runs have written, about a gigabyte per round, stays unless --clean is given: on ext4, to delete many files
makes it slow to create some in the next minutes, which would spoil the next measurement.
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
    """What can be measured here, and why the rest cannot.

    Args:
        names: Of workloads.
        engines: The engines that are there.
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
    """What the figures were measured on."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    processor = next((line.partition(": ")[2] for line in lines if line.startswith("model name")), platform.machine())
    return {"cpus": len(os.sched_getaffinity(0)), "processor": processor, "system": platform.platform(terse=True)}


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "--only", nargs="+", choices=list(WORKLOADS), default=list(WORKLOADS), help="some workloads only"
    )
    parser.add_argument("--engines", nargs="+", choices=list(ENGINES), default=list(ENGINES), help="some engines only")
    parser.add_argument(
        "--peer", action="append", default=[], metavar="NAME=PYTHON", help="interpreter that has a peer (or minitune's)"
    )
    parser.add_argument("--rounds", type=int, help="runs of each workload by each engine (default: 3, or 1 if quick)")
    parser.add_argument("--quick", action="store_true", help="small sizes, less than a minute")
    parser.add_argument("--json", type=Path, help="file for everything that was measured")
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
    """Measure, write, print; returns the exit status."""
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
