"""Counts what the engine does for one trial and one report.

    python benchmarks/counts.py                             # all kinds, with strace if it is installed
    python benchmarks/counts.py --only reused --list 40     # and the functions that are called most

Each count is the difference of two runs of different length, so start and end of a run take no part; a small run goes
before both. The columns:

* calls, modules: calls of minitune's functions by the driver, and the modules in which they are
* records, writes: lines of the journal, and how many writes they take
* made, by driver: files and directories, and how many of them the driver makes
* to system: calls of the driver's Python code into the operating system. The C code of Python makes a few more.
* system calls of the driver, of all processes: as strace counts them
* page faults: of the zygote and its workers, which fork from it

A busy machine does not change the counts of the driver (see `runs/count_run.py`), and the others not much.

Where the page faults are (Python 3.11.7; the mean of five layouts of memory, which differ by 10): 790 in a worker and
160 in the zygote. The fork takes 250 of them, until it has returned; then 190 until Hello is sent, 160 until the
factory is loaded, 130 until the user's function begins. Of a worker's faults, 450 copy a page with an object that it
refers to (a name 100, code 97, a function 44, a tuple 36, a type 31), 110 a page with a free place for a new object,
130 a page with data of the interpreter's own libraries, and 90 map program text. So their number depends on the
number of pages with such objects. The fewer modules the zygote loads, the closer together these objects lie.

We tried the following, and it gained too little for the code that it needs: a fork without Python's hooks (60 faults
less, but the hooks of preloaded packages must run), a whole trial in the zygote before the first fork (80), the free
places filled before the fork (30), all symbols of libraries bound at the start (8); all four together leave 800.
Loading the factory in the zygote takes away 10, since what follows refers to the same objects. Other settings of
malloc gained nothing, and neither did a garbage collector that is off. A collection of garbage before the fork costs
95, because it leaves gaps, and malloc in place of Python's pools costs 100.
"""

from __future__ import annotations

import argparse
import compileall
import json
import os
import resource
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

from harness.engines import CHECKOUT, RUNS

SIZES = {
    "report": (40, 100),
    "asha": (40, 100),
    "fresh": (10, 30),
    "reused": (15, 45),
    "returned": (15, 45),
}
"""For each kind, the number of reports or trials of the short run and of the long one."""
KINDS = {
    "report": "a report",
    "asha": "a report, ASHA",
    "fresh": "a trial that reports, in a fresh process",
    "reused": "the same, worker reused",
    "returned": "a trial that returns its result, worker reused",
}
SMALL = 5
"""The size of the first run of a process, which does more than later ones."""


def count(kind: str) -> dict[str, Any]:
    """What one more report or trial takes. Blocks for some seconds.

    Returns:
        `records`, `writes`, `files`, `files_by_driver`: numbers. `calls`, `system_calls`: numbers by function.
    """
    few, many = SIZES[kind]
    printed = _run([*_command(kind, is_traced=True), *map(str, (SMALL, few, many))])
    _, first, second = map(json.loads, printed.splitlines())
    found: dict[str, Any] = {}
    for name, value in second.items():
        if isinstance(value, dict):
            each = {key: (number - first[name].get(key, 0)) / (many - few) for key, number in value.items()}
            found[name] = {key: number for key, number in each.items() if number}
        else:
            found[name] = (value - first[name]) / (many - few)
    return found


def by_strace(kind: str) -> tuple[float, float]:
    """The system calls of the driver, and of all processes, for one more report or trial. Blocks for some seconds."""
    counted = []
    few, many = SIZES[kind]
    for size in (few, many):
        with tempfile.NamedTemporaryFile("r") as log:
            _run(["strace", "-f", "-qq", "-o", log.name, *_command(kind, is_traced=False), str(size)])
            calls = Counter(line.split(maxsplit=1)[0] for line in log if "(" in line and " resumed>" not in line)
            driver = calls[next(iter(calls))]
            counted.append((driver, calls.total()))
    (driver_few, all_few), (driver_many, all_many) = counted
    return (driver_many - driver_few) / (many - few), (all_many - all_few) / (many - few)


def page_faults(kind: str) -> float:
    """The page faults of zygote and workers for one more trial. Blocks for some seconds."""
    counted = []
    few, many = SIZES[kind]
    for size in (few, many):
        before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_minflt
        own = json.loads(_run([*_command(kind, is_traced=False), str(size)]))["own_faults"]
        counted.append(resource.getrusage(resource.RUSAGE_CHILDREN).ru_minflt - before - own)
    return (counted[1] - counted[0]) / (many - few)


def modules(calls: dict[str, float]) -> set[str]:
    """The modules that are entered in at least every other trial."""
    return {name.partition(":")[0] for name, number in calls.items() if number >= 0.5}


def _command(kind: str, is_traced: bool) -> list[str]:
    return [sys.executable, str(RUNS / "count_run.py"), kind, str(int(is_traced))]


def _run(command: list[str]) -> str:
    path = os.pathsep.join(filter(None, [str(CHECKOUT), os.environ.get("PYTHONPATH", "")]))
    # Unlike in `compare.py`, with the usual loggers. The hashes decide which objects share a page.
    environment = {**os.environ, "PYTHONPATH": path, "PYTHONHASHSEED": "0"}
    with tempfile.TemporaryDirectory() as scratch:
        environment["TMPDIR"] = scratch
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} failed: {done.stderr[-2000:]}")
    return done.stdout


def main() -> int:
    """Count and print. Return the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", nargs="+", choices=list(KINDS), default=list(KINDS), help="some kinds only")
    parser.add_argument("--list", type=int, default=0, metavar="N", help="also list the N functions called most")
    parser.add_argument("--json", type=Path, help="a file for all counts")
    options = parser.parse_args()
    # As an installation does. A zygote that compiles has gaps all over its memory, and each worker copies their pages.
    compileall.compile_dir(str(CHECKOUT / "minitune"), quiet=2)
    has_strace = subprocess.run(["sh", "-c", "command -v strace"], capture_output=True).returncode == 0
    head = ["for", "calls", "modules", "records", "writes", "made", "by driver", "to system"]
    head += ["system calls of the driver", "of all processes", "page faults"]
    print(f"| {' | '.join(head)} |\n" + "| --- " * len(head) + "|")
    document = {}
    for kind in options.only:
        found = document[kind] = count(kind)
        numbers = [sum(found["calls"].values()), len(modules(found["calls"])), found["records"], found["writes"]]
        numbers += [found["files"], found["files_by_driver"], sum(found["system_calls"].values())]
        cells = [KINDS[kind], *(f"{number:.3g}" for number in numbers)]
        cells += [f"{number:.0f}" for number in by_strace(kind)] if has_strace else ["", ""]
        cells.append(f"{page_faults(kind):,.0f}" if kind == "fresh" else "")
        print(f"| {' | '.join(cells)} |", flush=True)
    for kind, found in document.items():
        for counted in ("calls", "system_calls"):
            most = sorted(found[counted].items(), key=lambda item: -item[1])[: options.list]
            print("".join(f"{kind}  {number:6.2f}  {name}\n" for name, number in most), end="")
    if not has_strace:
        print("strace is not installed, so the system calls of C code and of the workers were not counted")
    if options.json:
        options.json.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
