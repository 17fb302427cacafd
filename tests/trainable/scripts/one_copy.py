"""A run with a large buffer, which prints how much memory the driver and each trial take."""

import pickle
import resource

import minitune as tune


class Block:
    def __init__(self, view):
        self.view = memoryview(view)

    def __reduce_ex__(self, protocol):
        return Block, (pickle.PickleBuffer(self.view),)


def own_mb():
    with open("/proc/self/smaps_rollup") as file:
        return sum(int(line.split()[1]) for line in file if line.startswith("Anonymous")) >> 10


def trainable(config, block):
    assert sum(block.view[::4096]) == len(block.view) // 4096
    tune.report({"mb": own_mb()})


block = Block(b"\1" * (64 << 20))
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
space = {"x": tune.grid_search([1, 2, 3])}
run = tune.RunConfig(verbose=0)
grid = tune.Tuner(tune.with_parameters(trainable, block=block), param_space=space, run_config=run).fit()
assert not grid.errors, grid.errors
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024 - before, *[r.metrics["mb"] for r in grid])
