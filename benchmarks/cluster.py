"""Measures the driver with many trials and workers: local and on Ray.

    python benchmarks/cluster.py local                       # 1,000 sleeping trials in local processes
    python benchmarks/cluster.py ray --workers 32            # the same on Ray, which is started on this machine
    python benchmarks/cluster.py ray --reports               # two trials with 2,000 reports each
    python benchmarks/cluster.py ray-tune --trials 100       # Ray Tune itself, with 100 sleeping trials

Prints one line of JSON. The CPU time is that of the driver's process, including Ray's threads in it, from the start of
the first trial, so the starts of the executor and of Ray do not count. Memory is the peak. The runs write JSON logs.
Each trial must end without an error and with all its reports.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import tempfile
import time
from typing import Any

import minitune as tune
from minitune.logger import JsonLoggerCallback


class Stopwatch(tune.Callback):
    """Notes when the first trial begins."""

    began_s: tuple[float, float] | None = None

    def on_trial_start(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        """See `Callback`."""
        if self.began_s is None:
            self.began_s = time.process_time(), time.perf_counter()

    def stop(self) -> dict[str, float]:
        """The seconds since the first trial began."""
        assert self.began_s is not None
        cpu_s, wall_s = time.process_time() - self.began_s[0], time.perf_counter() - self.began_s[1]
        return {"cpu_s": round(cpu_s, 3), "wall_s": round(wall_s, 3)}


def sleep(config: dict[str, Any]) -> None:
    """Sleep, then report."""
    time.sleep(config["sleep_s"])
    for number in range(config["reports"]):
        tune.report({"loss": config["x"] + number})


def measure(executor: str, trials: int, reports: int, workers: int, sleep_s: float) -> dict[str, Any]:
    """Run so many trials of 0.001 CPUs each, at most `workers` at a time."""
    stopwatch = Stopwatch()
    # Where Ray is installed, so is TensorBoard, and its log would cost more than all else.
    os.environ["MINITUNE_DISABLE_AUTO_CALLBACK_LOGGERS"] = "1"
    with tempfile.TemporaryDirectory() as directory:
        tuner = tune.Tuner(
            tune.with_resources(sleep, {"cpu": 0.001}),
            param_space={"x": tune.uniform(0, 1), "reports": reports, "sleep_s": sleep_s},
            tune_config=tune.TuneConfig(
                num_samples=trials, max_concurrent_trials=workers, metric="loss", mode="min", executor=executor, seed=1
            ),
            run_config=tune.RunConfig(storage_path=directory, verbose=0, callbacks=[JsonLoggerCallback(), stopwatch]),
        )
        grid = tuner.fit()
        figures = stopwatch.stop()
        complete = sum(result.error is None and result.metrics["training_iteration"] == reports for result in grid)
        if complete != trials:
            raise SystemExit(f"{complete} of {trials} trials are complete: {grid.errors[:1]}")
    return {"trials": trials, "reports": trials * reports, "workers": workers, **figures}


def measure_ray_tune(trials: int, reports: int, workers: int, sleep_s: float) -> dict[str, Any]:
    """Run the same trials with Ray Tune itself."""
    from ray import tune as peer
    from ray.tune import Callback

    class PeersStopwatch(Stopwatch, Callback):
        """A stopwatch that is a callback of Ray Tune, too."""

    def train(config: dict[str, Any]) -> None:
        time.sleep(config["sleep_s"])
        for number in range(config["reports"]):
            peer.report({"loss": config["x"] + number})

    stopwatch = PeersStopwatch()
    with tempfile.TemporaryDirectory() as directory:
        grid = peer.Tuner(
            peer.with_resources(train, {"cpu": 0.001}),
            param_space={"x": peer.uniform(0, 1), "reports": reports, "sleep_s": sleep_s},
            tune_config=peer.TuneConfig(num_samples=trials, max_concurrent_trials=workers, metric="loss", mode="min"),
            run_config=peer.RunConfig(storage_path=directory, verbose=0, callbacks=[stopwatch]),
        ).fit()
        figures = stopwatch.stop()
        complete = sum(result.error is None and result.metrics["training_iteration"] == reports for result in grid)
        if complete != trials:
            raise SystemExit(f"{complete} of {trials} trials are complete")
    return {"trials": trials, "reports": trials * reports, "workers": workers, **figures}


def main() -> None:
    """Parse the arguments, measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("executor", choices=["local", "ray", "ray-tune"])
    parser.add_argument("--trials", type=int, help="number of trials (default: 1,000)")
    parser.add_argument("--workers", type=int, help="how many run at a time (default: 16)")
    parser.add_argument("--sleep-s", type=float, default=0.2, help="seconds that a trial sleeps")
    parser.add_argument("--reports", action="store_true", help="two trials with 2,000 reports each, without sleep")
    given = parser.parse_args()
    if given.executor != "local":
        import ray

        ray.init(include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    shape = (2, 2000, 2) if given.reports else (given.trials or 1000, 1, given.workers or 16)
    sleep_s = 0.0 if given.reports else given.sleep_s
    if given.executor == "ray-tune":
        figures = measure_ray_tune(*shape, sleep_s)
    else:
        figures = measure(given.executor, *shape, sleep_s)
    figures["peak_mb"] = round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
    print(json.dumps({"executor": given.executor, **figures}))


if __name__ == "__main__":
    main()
