"""Resume a run after a crash: `python -m minitune.examples.resume`.

The example runs the tuning in another process and kills it in the middle. Like after a power cut, the process cannot
clean up. Then the example restores the run from its directory. Trials that had ended stay unchanged. Trials that were
running continue from their last checkpoints, at the same epoch.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from minitune import Checkpoint, ResultGrid, RunConfig, TuneConfig, Tuner, get_checkpoint, grid_search, report

EPOCHS = 10
EPOCH_S = 0.05
RATES = [0.01, 0.03, 0.1, 0.3]


def train(config: dict[str, Any]) -> None:
    """Train from the last checkpoint if there is one (after a crash), else from the beginning."""
    loss = 1.0
    epoch = 0
    if checkpoint := get_checkpoint():
        state = json.loads(Path(checkpoint.path, "state.json").read_text())
        loss = state["loss"]
        epoch = state["epoch"]
    began_at = epoch
    while epoch < EPOCHS:
        epoch += 1
        time.sleep(EPOCH_S)  # represents the training
        loss *= 1 - config["lr"]
        with tempfile.TemporaryDirectory() as directory:
            Path(directory, "state.json").write_text(json.dumps({"loss": loss, "epoch": epoch}))
            metrics = {"loss": loss, "epoch": epoch, "began_at": began_at}
            report(metrics, checkpoint=Checkpoint.from_directory(directory))


def tune(storage: str) -> ResultGrid:
    """Start the run. Blocks until its end."""
    tuner = Tuner(
        train,
        param_space={"lr": grid_search(RATES)},
        tune_config=TuneConfig(metric="loss", mode="min", max_concurrent_trials=2),
        run_config=RunConfig(name="resumed", storage_path=storage, verbose=0),
    )
    return tuner.fit()


def resume(run: Path) -> ResultGrid:
    """Continue the run. Blocks until its end."""
    return Tuner.restore(str(run), trainable=train).fit()


def crash(storage: str) -> None:
    """Start the run in another process, and kill that process after some epochs."""
    driver = subprocess.Popen([sys.executable, "-m", "minitune.examples.resume", "--start", "--storage", storage])
    try:
        while driver.poll() is None and len(list(Path(storage).glob("resumed/*/checkpoint_*"))) < 4:
            time.sleep(0.01)
    finally:
        driver.send_signal(signal.SIGKILL)
        driver.wait()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the example with the arguments of a command line; returns the exit status."""
    parser = argparse.ArgumentParser(description="Kill a tuning in the middle, and resume it.")
    parser.add_argument("--storage", metavar="DIR", help="where results go (default: a temporary directory)")
    parser.add_argument("--start", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.start:
        tune(options.storage)
        return 0
    with tempfile.TemporaryDirectory() as temporary:
        storage = os.path.abspath(options.storage or temporary)
        run = Path(storage, "resumed")
        if run.exists():
            parser.error(f"{run} exists already: give another --storage")
        crash(storage)
        print("The driver was killed.")
        grid = resume(run)
        if grid.errors:
            print(f"{len(grid.errors)} trials failed: see {grid.experiment_path}", file=sys.stderr)
            return 1
        for result in grid:
            epochs = len(result.get_rows())
            began_at = result.metrics["began_at"]
            print(f"lr={result.config['lr']:<5} {epochs} epochs, from epoch {began_at} on after the crash")
        best = grid.get_best_result()
        print(f"Best: lr={best.config['lr']}, loss={best.metrics['loss']:.4f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
