"""Measures how long `import minitune` takes, and checks that it loads no module that only a run needs.

    python benchmarks/import_time.py [--python PATH]

Two kinds of processes take turns: one does nothing, the other one imports. The figure is the difference of the medians.
The exit status is 1 if it exceeds the limit, or if the import loads one of those modules.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

LIMIT_S = 0.050
UNWANTED = ("cloudpickle", "psutil", "multiprocessing", "numpy", "pandas", "asyncio")


def run(python: str, code: str) -> tuple[float, str]:
    """Run `code` in a new process. Return the seconds that it took, and its output. Blocks."""
    source = str(Path(__file__).resolve().parent.parent)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([source, os.environ.get("PYTHONPATH", "")])}
    start_s = time.perf_counter()
    done = subprocess.run([python, "-c", code], env=environment, check=True, stdout=subprocess.PIPE, text=True)
    return time.perf_counter() - start_s, done.stdout


def difference_s(python: str, code: str, repeats: int) -> float:
    """How many seconds longer a process takes that runs `code` than one that does nothing, in the median."""
    bare, full = [], []
    for _ in range(repeats + 1):
        bare.append(run(python, "pass")[0])
        full.append(run(python, code)[0])
    return statistics.median(full[1:]) - statistics.median(bare[1:])  # the first round warms the file cache


def main() -> int:
    """Measure and print. Return the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--python", default=sys.executable, help="interpreter to measure (default: this one)")
    parser.add_argument("--repeats", type=int, default=21, help="processes of each kind (default: 21)")
    options = parser.parse_args()
    loaded_code = f"import sys, minitune; print(*[m for m in {UNWANTED} if m in sys.modules])"
    loaded = run(options.python, loaded_code)[1].split()
    import_s = difference_s(options.python, "import minitune", options.repeats)
    tuner_s = difference_s(options.python, "from minitune import Tuner", options.repeats)
    print(f"import minitune             {1000 * import_s:6.1f} ms over bare Python (limit {1000 * LIMIT_S:.0f} ms)")
    print(f"from minitune import Tuner  {1000 * tuner_s:6.1f} ms over bare Python")
    print(f"loaded without need:        {', '.join(loaded) or 'nothing'}")
    return 1 if loaded or import_s > LIMIT_S else 0


if __name__ == "__main__":
    sys.exit(main())
