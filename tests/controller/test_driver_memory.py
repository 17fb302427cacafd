"""What a long run costs the driver: a bounded amount of memory for each trial that has ended."""

from __future__ import annotations

import gc
import tracemalloc
from pathlib import Path
from typing import Any

import minitune as tune

LIMIT_BYTES = 4096


class Weigher(tune.Callback):
    """Notes how much memory is in use when some of the trials have ended."""

    def __init__(self, *after: int):
        self.ended = 0
        self.bytes = dict.fromkeys(after, 0)

    def on_trial_complete(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        self.ended += 1
        if self.ended in self.bytes:
            gc.collect()
            self.bytes[self.ended], _ = tracemalloc.get_traced_memory()


def test_a_trial_that_has_ended_takes_little(tmp_path: Path) -> None:
    weigher = Weigher(20, 60, 100)  # at all times as many trials wait
    tuner = tune.Tuner(
        lambda config: {"score": config["x"]},
        param_space={"x": tune.uniform(0, 1)},
        tune_config=tune.TuneConfig(num_samples=210, reuse_actors=True, executor="inline"),
        run_config=tune.RunConfig(storage_path=str(tmp_path), verbose=0, callbacks=[weigher], durability="process"),
    )
    tracemalloc.start()
    try:
        grid = tuner.fit()
    finally:
        tracemalloc.stop()

    assert len(grid) == 210
    first, second, third = weigher.bytes.values()
    # A table of the whole interpreter, that of its interned texts say, may grow by megabytes at once, but not twice.
    assert min(second - first, third - second) / 40 < LIMIT_BYTES
