"""A trial that reports how many threads OpenBLAS may have used when a module was imported."""

import probe

from minitune import RunConfig, Tuner


def trainable(config):
    return {"threads": probe.OPENBLAS_THREADS}


print(Tuner(trainable, run_config=RunConfig(verbose=0)).fit()[0].metrics["threads"])
