"""The driver's memory in a long run: a bounded amount for each trial that has ended."""

import gc
import tracemalloc

from kit import fit

from minitune import Callback, uniform

LIMIT_BYTES = 4096


class Weigher(Callback):
    """Notes how much memory is in use when some of the trials have ended."""

    def __init__(self, *after):
        self.ended = 0
        self.bytes = dict.fromkeys(after, 0)

    def on_trial_complete(self, iteration, trials, trial, **info):
        self.ended += 1
        if self.ended in self.bytes:
            gc.collect()
            self.bytes[self.ended], _ = tracemalloc.get_traced_memory()


def test_a_trial_that_has_ended_takes_little():
    weigher = Weigher(20, 60, 100)  # at all times as many trials wait
    tracemalloc.start()
    try:
        grid = fit(
            lambda config: {"score": config["x"]},
            {"x": uniform(0, 1)},
            num_samples=210,
            reuse_actors=True,
            callbacks=[weigher],
        )
    finally:
        tracemalloc.stop()

    assert len(grid) == 210
    first, second, third = weigher.bytes.values()
    # A table of the whole interpreter, that of its interned texts say, may grow by megabytes at once, but not twice.
    assert min(second - first, third - second) / 40 < LIMIT_BYTES
