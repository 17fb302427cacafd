"""A seed is a seed: model-free search gives the same table however many workers there are and whichever is first."""

from __future__ import annotations

import random
import time
from pathlib import Path
from typing import Any

import pytest

from minitune import (
    BasicVariantGenerator,
    FailureConfig,
    RunConfig,
    TuneConfig,
    Tuner,
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

SPACE: dict[str, Any] = {
    "lr": loguniform(1e-5, 1e-1),
    "layers": choice([{"kind": "dense", "width": lograndint(8, 512)}, {"kind": "conv", "size": qrandint(2, 8, 2)}]),
    "model": {"dropout": uniform(0, 0.5), "noise": randn(0, 2), "depth": grid_search([1, 2])},
    "double": sample_from(lambda config: 2 * config["lr"]),
}
SAMPLES = 4


def trainable(config: dict[str, Any]) -> Any:
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


def search(how: str) -> BasicVariantGenerator | None:
    if how == "points":
        return BasicVariantGenerator(points_to_evaluate=[{"lr": 0.01}, {"model": {"depth": 2, "noise": 0.5}}])
    return BasicVariantGenerator(constant_grid_search=True) if how == "constant" else None


def table(how: str, workers: int, seed: int | None, storage: Path, **settings: Any) -> list[tuple[Any, ...]]:
    """What the run has come to, but for times, processes and the prefix of the ids."""
    grid = Tuner(
        trainable,
        param_space=SPACE,
        tune_config=TuneConfig(seed=seed, num_samples=SAMPLES, search_alg=search(how), **settings),
        run_config=RunConfig(
            verbose=0, storage_path=storage, name=f"{how}_{workers}", failure_config=FailureConfig(max_failures=1)
        ),
    ).fit()
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


@pytest.mark.parametrize("how", ["random", "points", "constant"])
def test_the_table_is_the_same_with_any_number_of_workers(
    how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables = {}
    for workers in (1, 8):
        monkeypatch.setenv("MINITUNE_NUM_CPUS", str(workers))
        tables[workers] = table(how, workers, 7, tmp_path, reuse_actors=workers == 1)
    assert tables[1] == tables[8]

    monkeypatch.setenv("MINITUNE_NUM_CPUS", "8")
    other = table(how, 0, 8, tmp_path, executor="inline")
    assert [row[0] for row in other] != [row[0] for row in tables[8]]
