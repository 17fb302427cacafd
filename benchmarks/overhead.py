"""What the engine itself costs: cold start, short trials, many reports; and the same for Ray Tune, side by side.

    python benchmarks/overhead.py                              # this package, with this interpreter
    python benchmarks/overhead.py --engine ray --python PATH   # Ray Tune in the environment of interpreter PATH
    python benchmarks/overhead.py --compare --ray-python PATH  # both, in turns, with ratios

Each figure comes from a whole process of its own (`workload.py`), which is repeated; medians count.

* cold start: from the start of `python script.py` to the first report of its only, trivial trial, seen by the driver.
* short trials: 100 trials of one report each, a fresh process for each; trials per second of `fit()`.
* many reports: 2 trials of 1000 reports each, as fast as they can; reports per second of `fit()`, and between the
  first and the last.

All with JSON and CSV logs and no other, silent, with as many trials at a time as the machine has CPUs. Ray's cluster is
started before the clock in the last two, and without its dashboard. A figure counts only if every report that was made
stands in `result.json`, in `progress.csv` and, for this package, in the run's journal: anything else makes it VOID, and
the exit status 1.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
LIMIT_S = 300.0
"""A workload that takes longer than this has hung."""


@dataclass(frozen=True)
class Figure:
    """One thing that is measured.

    Attributes:
        workload: Its name for `workload.py`.
        title: Its name for people.
        unit: The unit of its values.
        trials: How many trials it runs.
        reports: How many reports each of them makes.
        is_rate: Whether more is better.
        value: The value, from the time when the process was started and what it printed.
    """

    workload: str
    title: str
    unit: str
    trials: int
    reports: int
    is_rate: bool
    value: Callable[[float, dict[str, Any]], float]


FIGURES = (
    Figure("cold", "cold start to first report", "s", 1, 1, False, lambda start_s, seen: seen["first_s"] - start_s),
    Figure("trials", "100 short trials", "trials/s", 100, 1, True, lambda _, seen: 100 / seen["fit_s"]),
    Figure("reports", "2 x 1000 reports, whole run", "reports/s", 2, 1000, True, lambda _, seen: 2000 / seen["fit_s"]),
    Figure(
        "reports", "first to last report", "reports/s", 2, 1000, True, lambda _, s: 1999 / (s["last_s"] - s["first_s"])
    ),
)


class VoidError(Exception):
    """The run did not record what it had been told."""


def measure(figure: Figure, engine: str, python: str) -> float:
    """Run one workload in a process of its own, check its records, and return its value. Blocks.

    Args:
        figure: What to measure.
        engine: `minitune` or `ray`.
        python: The interpreter that has it.

    Returns:
        The value, in the figure's unit.

    Raises:
        VoidError: If the process failed, or a report is missing from its files.
    """
    with tempfile.TemporaryDirectory(prefix="overhead-") as storage:
        command = [python, str(HERE / "workload.py"), engine, figure.workload, storage]
        start_s = time.time()
        try:
            done = subprocess.run(
                command,
                env=_environment(engine),
                capture_output=True,
                text=True,
                timeout=LIMIT_S,
                stdin=subprocess.DEVNULL,
            )
        except subprocess.TimeoutExpired:
            raise VoidError(f"not done after {LIMIT_S:.0f} s") from None
        if done.returncode:
            raise VoidError(f"exit status {done.returncode}: {(done.stderr.strip().splitlines() or [''])[-1]}")
        seen = json.loads(next(line for line in reversed(done.stdout.splitlines()) if line.startswith('{"first_s"')))
        check(figure, engine, Path(storage, "run"), seen)
        return figure.value(start_s, seen)


def _environment(engine: str) -> dict[str, str]:
    """The child's environment: no other logs, nothing sent home, compiled code kept; for minitune, this checkout."""
    prefix = "TUNE" if engine == "ray" else "MINITUNE"
    added = {f"{prefix}_DISABLE_AUTO_CALLBACK_LOGGERS": "1"}
    if engine == "ray":
        added["RAY_USAGE_STATS_ENABLED"] = "0"
    else:
        added["PYTHONPATH"] = os.pathsep.join([str(HERE.parent), os.environ.get("PYTHONPATH", "")])
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {**kept, **added}


def check(figure: Figure, engine: str, run: Path, seen: dict[str, Any]) -> None:
    """Hold the run's files against the reports that were made.

    Raises:
        VoidError: If they differ in any way.
    """
    expected = [float(number) for number in range(figure.reports)]
    if (seen["trials"], seen["errors"]) != (figure.trials, 0):
        raise VoidError(f"{seen['trials']} trials with {seen['errors']} errors instead of {figure.trials} with 0")
    sources = {"result.json": _from_json(run), "progress.csv": _from_csv(run)}
    if engine == "minitune":
        sources["journal"] = _from_journal(run)
    for name, losses in sources.items():
        if len(losses) != figure.trials or any(values != expected for values in losses.values()):
            counts = sorted({len(values) for values in losses.values()})
            raise VoidError(
                f"{name}: {len(losses)} trials with {counts} reports each (or others than were made) instead of "
                f"{figure.trials} with {figure.reports}"
            )


def _from_json(run: Path) -> dict[str, list[float]]:
    """The losses in each trial's `result.json`."""
    return {
        path.parent.name: [json.loads(line)["loss"] for line in path.read_text(encoding="utf-8").splitlines()]
        for path in run.glob("*/result.json")
    }


def _from_csv(run: Path) -> dict[str, list[float]]:
    """The losses in each trial's `progress.csv`."""
    losses = {}
    for path in run.glob("*/progress.csv"):
        with open(path, encoding="utf-8", newline="") as file:
            losses[path.parent.name] = [float(row["loss"]) for row in csv.DictReader(file)]
    return losses


def _from_journal(run: Path) -> dict[str, list[float]]:
    """The losses in the run's journal, by trial; a line is a checksum, a space and a JSON object."""
    losses: dict[str, list[float]] = {}
    for line in Path(run, "journal").read_text(encoding="utf-8").splitlines():
        record = json.loads(line.partition(" ")[2])
        if record["type"] == "result":
            losses.setdefault(record["trial"], []).append(record["metrics"]["loss"])
    return losses


def rounds(figure: Figure, engines: dict[str, str], repeats: int) -> Iterator[tuple[str, float]]:
    """Measure in turns, so that a slow minute of the machine meets every engine; yields engine and value.

    A cold start that does not count comes first: it leaves compiled code and warm file caches, as any installation has.
    """
    for engine, python in engines.items():
        measure(FIGURES[0], engine, python)
    for _ in range(repeats):
        for engine, python in engines.items():
            yield engine, measure(figure, engine, python)


def show(engines: dict[str, str], figures: tuple[Figure, ...], repeats: int) -> bool:
    """Measure and print the table row by row; returns whether every figure counts."""
    titles = [f"{engine} (min - max)" for engine in engines]
    print(f"{'':<28}{'':<11}" + "".join(f"{title:>30}" for title in titles) + ("    ratio" if len(engines) > 1 else ""))
    all_count = True
    for figure in figures:
        print(f"{figure.title:<28}{figure.unit:<11}", end="", flush=True)
        values: dict[str, list[float]] = {engine: [] for engine in engines}
        try:
            for engine, value in rounds(figure, engines, repeats):
                values[engine].append(value)
        except VoidError as error:
            print(f"  VOID: {error}")
            all_count = False
            continue
        medians = [statistics.median(found) for found in values.values()]
        for median, found in zip(medians, values.values(), strict=True):
            print(f"{f'{median:.4g} ({min(found):.4g} - {max(found):.4g})':>30}", end="")
        if len(medians) > 1:
            ratio = medians[0] / medians[1] if figure.is_rate else medians[1] / medians[0]
            print(f"{ratio:>8.1f}x", end="")
        print(flush=True)
    return all_count


def main() -> int:
    """Read the command line, measure, print; returns the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--engine", choices=("minitune", "ray"), default="minitune")
    parser.add_argument("--python", default=sys.executable, help="interpreter that has the engine (default: this one)")
    parser.add_argument("--compare", action="store_true", help="measure both; --ray-python says where Ray is")
    parser.add_argument("--ray-python", help="interpreter that has Ray Tune")
    parser.add_argument("--repeats", type=int, default=5, help="processes per figure and engine (default: 5)")
    parser.add_argument("--only", choices=sorted({figure.workload for figure in FIGURES}), help="one figure only")
    options = parser.parse_args()
    if options.compare and not options.ray_python:
        parser.error("--compare needs --ray-python")
    if options.repeats < 1:
        parser.error(f"--repeats >= 1 must hold, but got {options.repeats}")
    engines = {options.engine: options.python}
    if options.compare:
        engines = {"minitune": options.python, "ray": options.ray_python}
    figures = tuple(figure for figure in FIGURES if options.only in (None, figure.workload))
    print(f"{os.cpu_count()} CPUs, median of {options.repeats} processes each")
    return 0 if show(engines, figures, options.repeats) else 1


if __name__ == "__main__":
    sys.exit(main())
