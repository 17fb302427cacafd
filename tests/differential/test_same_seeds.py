"""A seed is a seed: model-free search gives the same table however many workers there are and whichever is first."""

import random
import time

import pytest
from kit import fit

from minitune import (
    BasicVariantGenerator,
    choice,
    get_context,
    grid_search,
    lograndint,
    loguniform,
    qrandint,
    randn,
    report,
    sample_from,
    uniform,
)

SPACE = {
    "lr": loguniform(1e-5, 1e-1),
    "layers": choice([{"kind": "dense", "width": lograndint(8, 512)}, {"kind": "conv", "size": qrandint(2, 8, 2)}]),
    "model": {"dropout": uniform(0, 0.5), "noise": randn(0, 2), "depth": grid_search([1, 2])},
    "double": sample_from(lambda config: 2 * config["lr"]),
}
SAMPLES = 4


def trainable(config):
    """Takes its time as it likes; what it reports follows from its configuration and its own seed."""
    jitter = random.Random()  # not seeded
    own = random.Random(get_context().get_trial_seed())
    time.sleep(jitter.uniform(0, 0.006))
    for step in range(own.randint(1, 4)):
        report({"loss": config["lr"] * own.random(), "step": step, "own": own.random()})
        time.sleep(jitter.uniform(0, 0.003))
        if own.random() < 0.1:
            raise ValueError(f"at step {step}")
    return {"loss": own.random(), "last": True}


def search(how):
    if how == "points":
        return BasicVariantGenerator(points_to_evaluate=[{"lr": 0.01}, {"model": {"depth": 2, "noise": 0.5}}])
    return None


def table(how, seed, **settings):
    """What the run has come to, but for times, processes and the prefix of the ids."""
    common = {"executor": "local", "num_samples": SAMPLES, "search_alg": search(how), "max_failures": 1}
    grid = fit(trainable, SPACE, **{**common, "seed": seed, **settings})
    assert len(grid) == 2 * SAMPLES - (
        1 if how == "points" else 0
    )  # a point fixes the grid, and makes one trial of two
    return [
        (
            result.config,
            result.metrics["experiment_tag"],
            result.metrics["trial_id"].partition("_")[2],
            str(result.error).splitlines()[-1],
            [
                [row.get(key) for key in ("loss", "step", "own", "last", "training_iteration")]
                for row in result.get_rows()
            ],
        )
        for result in grid
    ]


@pytest.mark.parametrize("how", ["random", "points"])
def test_the_table_is_the_same_with_any_number_of_workers(how, monkeypatch):
    tables = {}
    for workers in (1, 8):
        monkeypatch.setenv("MINITUNE_NUM_CPUS", str(workers))
        tables[workers] = table(how, 7, reuse_actors=workers == 1)
    assert tables[1] == tables[8]
    assert [row[0] for row in table(how, 8, executor="inline")] != [row[0] for row in tables[8]]
