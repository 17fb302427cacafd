"""Measures how long `report` takes with a large checkpoint, copied or renamed.

    python benchmarks/large_checkpoints.py            # 2 GB, in the directory for temporary files and in /dev/shm
    python benchmarks/large_checkpoints.py --megabytes 100 --storage ~/runs --other /mnt/scratch

A trial writes each checkpoint and reports it. It writes to its own directory on the file system of the run, to one on
another file system, or to a directory of `checkpoint_dir`. The first two are copied, the last one is renamed. The three
ways take turns. `write` is the time in which the trial wrote the files.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import minitune as tune

REPORTS = 3
WAYS = ("copied, same file system", "copied, other file system", "checkpoint_dir")


def directory_of(way: str, storage: str, other: str) -> AbstractContextManager[str]:
    """The directory in which a trial writes a checkpoint."""
    if way == "checkpoint_dir":
        return tune.checkpoint_dir()
    return tempfile.TemporaryDirectory(dir=storage if way == WAYS[0] else other)


def train(config: dict[str, Any]) -> None:
    """Write and report checkpoints. Each report has the times of the one before it."""
    block = os.urandom(1_000_000)
    times: dict[str, float] = {}
    for _ in range(REPORTS + 1):
        with directory_of(config["way"], config["storage"], config["other"]) as directory:
            start_s = time.perf_counter()
            with open(os.path.join(directory, "weights"), "wb") as file:
                for _ in range(config["megabytes"]):
                    file.write(block)
            written_s = time.perf_counter()
            tune.report(times, checkpoint=tune.Checkpoint(directory))
            times = {"write_s": written_s - start_s, "report_s": time.perf_counter() - written_s}


class Times(tune.Callback):
    """Collects the times that a trial reports."""

    def __init__(self) -> None:
        self.rows: list[dict[str, float]] = []

    def on_trial_result(self, iteration: int, trials: Any, trial: Any, result: dict[str, Any], **info: Any) -> None:
        if "report_s" in result:
            self.rows.append({name: result[name] for name in ("write_s", "report_s")})


def measure(way: str, options: argparse.Namespace) -> list[dict[str, float]]:
    """Run one trial, and return the times of its reports. Blocks.

    Raises:
        RuntimeError: If the checkpoint that is kept has another size.
    """
    times = Times()
    with tempfile.TemporaryDirectory(dir=options.storage) as storage:
        config = {"way": way, "storage": storage, "other": options.other, "megabytes": options.megabytes}
        keeps = tune.CheckpointConfig(num_to_keep=1)
        run = tune.RunConfig(storage_path=storage, verbose=0, checkpoint_config=keeps, callbacks=[times])
        [result] = tune.Tuner(train, param_space=config, run_config=run).fit()
        if result.error is not None:
            raise result.error
        kept = sum(path.stat().st_size for path in Path(result.checkpoint.path).iterdir())
        if kept != options.megabytes * 1_000_000:
            raise RuntimeError(f"the kept checkpoint has {kept} bytes")
    return times.rows


def main() -> int:
    """Measure and print. Return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--storage", default=tempfile.gettempdir())
    parser.add_argument("--other", default="/dev/shm")
    options = parser.parse_args()
    if os.stat(options.storage).st_dev == os.stat(options.other).st_dev:
        print(f"{options.storage} and {options.other} are one file system: give two", file=sys.stderr)
        return 2
    found: dict[str, list[dict[str, float]]] = {way: [] for way in WAYS}
    for _ in range(options.rounds):
        for way in WAYS:
            found[way] += measure(way, options)
    print(f"{options.megabytes} MB, {options.rounds} rounds of {REPORTS} reports")
    for way, rows in found.items():
        reports = [row["report_s"] for row in rows]
        write_s = statistics.median(row["write_s"] for row in rows)
        print(
            f"{way:26} report {statistics.median(reports):8.4f} s ({min(reports):.4f} to {max(reports):.4f}), "
            f"write {write_s:.2f} s"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
