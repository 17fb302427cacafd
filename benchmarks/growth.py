"""Shows how CPU time, memory and bytes written grow with the number of trials: a plot, and the numbers.

    python benchmarks/growth.py                                            # up to 20,000 trials, growth.png
    python benchmarks/growth.py --sizes 500 1000 5000 --output small.png --json small.json

One process makes a run of each size, one after the other, after a small one that is not shown. The figures are per
trial, so the line is level if a trial costs the same in a run of any size. Needs matplotlib, which the extra `plot`
installs. The files of the runs stay unless --clean is given; `compare.py` says why.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from harness import workspace
from harness.engines import OURS, find
from harness.measure import run_once
from harness.records import VoidError
from harness.workloads import WORKLOADS

Sample = Mapping[str, Any]
WARM_UP = 100
PANELS: Mapping[str, Callable[[Sample], float]] = {
    "wall time per trial, ms": lambda sample: 1000 * sample["wall_s"] / sample["trials"],
    "driver CPU per trial, ms": lambda sample: 1000 * sample["cpu_s"] / sample["trials"],
    "driver memory per trial, KiB": lambda sample: sample["memory_bytes"] / 1024 / sample["trials"],
    "bytes written per trial, KiB": lambda sample: sample["written_bytes"] / 1024 / sample["trials"],
}


def plot(samples: Sequence[Sample], path: Path) -> None:
    """Draw a panel for each quantity over the number of trials.

    Args:
        samples: The measurements, one object per size.
        path: The file of the picture. Its suffix determines the format.
    """
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, len(PANELS), figsize=(4 * len(PANELS), 3.2), layout="constrained")
    sizes = [sample["trials"] for sample in samples]
    for axis, (title, value) in zip(axes, PANELS.items(), strict=True):
        values = [value(sample) for sample in samples]
        axis.plot(sizes, values, marker="o")
        axis.set(title=title, xlabel="trials of the run", ylim=(0, 1.15 * max(values)))
        axis.grid(alpha=0.3)
    figure.savefig(path, dpi=150)


def main() -> int:
    """Run, print and draw. Return the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=[1000, 2000, 5000, 10_000, 20_000])
    parser.add_argument("--output", type=Path, default=Path("growth.png"), help="the picture (default: growth.png)")
    parser.add_argument("--json", type=Path, help="file for the numbers")
    workspace.add_arguments(parser)
    options = parser.parse_args()
    if importlib.util.find_spec("matplotlib") is None:
        parser.error("a plot needs matplotlib: pip install matplotlib")
    if min(options.sizes) < 1 or len(set(options.sizes)) < len(options.sizes):
        parser.error(f"--sizes takes different numbers >= 1, but got {options.sizes}")
    workload, installed = WORKLOADS["growth"], find({})[OURS]
    parameters = {**workload.parameters(OURS, quick=False), "sizes": [WARM_UP, *options.sizes]}
    with workspace.workspace(options) as directory:
        try:
            samples = run_once(workload, installed, directory / "run", parameters)["samples"][1:]
        except VoidError as error:
            print(f"VOID: {error}", file=sys.stderr)
            return 1
    print("| trials | " + " | ".join(PANELS) + " |\n" + "| --- " * (1 + len(PANELS)) + "|")
    for sample in samples:
        print(f"| {sample['trials']:,} | " + " | ".join(f"{value(sample):.3g}" for value in PANELS.values()) + " |")
    if options.json:
        options.json.write_text(json.dumps(samples, indent=1) + "\n", encoding="utf-8")
    plot(samples, options.output)
    return 0


if __name__ == "__main__":
    sys.exit(main())
