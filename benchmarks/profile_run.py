"""Shows where the time of one workload goes: CPU time by process, and a profile of the driver.

    python benchmarks/profile_run.py reports
    python benchmarks/profile_run.py asha --sort cumulative --lines 60
    python benchmarks/profile_run.py pauses --engine ray --python PATH_OF_ITS_PYTHON --save pauses.prof

There are two runs. The first is like those of `compare.py`, and gives the times. The second runs under cProfile, which
slows the driver down, so it only says how the driver divides its time. Workers have no profile. Their CPU time shows
what the engine does in them. The records of both runs are checked. Their files stay unless --clean is given;
`compare.py` says why.
"""

from __future__ import annotations

import argparse
import pstats
import sys
from pathlib import Path

from harness import workspace
from harness.engines import OURS, find
from harness.measure import run_once
from harness.records import VoidError
from harness.workloads import WORKLOADS


def arguments() -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("workload", choices=list(WORKLOADS))
    parser.add_argument("--engine", choices=(OURS, "ray"), default=OURS)
    parser.add_argument("--python", default=sys.executable, help="interpreter that has the engine (default: this one)")
    parser.add_argument("--quick", action="store_true", help="the small size")
    parser.add_argument("--sort", choices=("tottime", "cumulative", "ncalls"), default="tottime")
    parser.add_argument("--lines", type=int, default=30, help="how many functions to show (default: 30)")
    parser.add_argument("--save", type=Path, help="a file for the profile, which pstats and its viewers can read")
    workspace.add_arguments(parser)
    return parser.parse_args()


def main() -> int:
    """Run twice and print. Return the exit status."""
    options = arguments()
    workload = WORKLOADS[options.workload]
    installed = find({options.engine: options.python})[options.engine]
    parameters = workload.parameters(options.engine, options.quick)
    with workspace.workspace(options) as directory:
        path = options.save or directory / "profile"
        try:
            seen = run_once(workload, installed, directory / "plain", parameters)
            run_once(workload, installed, directory / "profiled", parameters, path.absolute())
        except VoidError as error:
            print(f"VOID: {error}", file=sys.stderr)
            return 1
        for figure in workload.figures:
            print(f"{figure.title:<60}{figure.value(seen):>10.4g} {figure.unit}")
        print(f"{'wall':<60}{seen['wall_s']:>10.3f} s")
        for kind, cpu_s in seen["cpu_s"].items():
            print(f"{'CPU of ' + kind:<60}{cpu_s:>10.3f} s")
        print("\nThe driver under cProfile:")
        pstats.Stats(str(path), stream=sys.stdout).strip_dirs().sort_stats(options.sort).print_stats(options.lines)
    return 0


if __name__ == "__main__":
    sys.exit(main())
