"""Populations on a virtual clock under the real controller: the toy problem, and that nothing ever gets stuck."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from typing import Any

import pytest

from minitune import FailureConfig, RunConfig, TuneConfig, uniform
from minitune.schedulers.pb2 import PB2
from minitune.schedulers.pbt import PopulationBasedTraining
from minitune.simulation import Simulation, simulate

MUTATIONS = {"h0": uniform(0, 1), "h1": uniform(0, 1)}
State = tuple[float, float, int]


def gradient_steps(
    config: dict[str, Any], state: State | None, *, end: int = 200
) -> Iterator[tuple[Any, float, State]]:
    """The paper's toy problem: maximise 1.2 - (a^2 + b^2) by steps along the gradient of 1.2 - (h0 a^2 + h1 b^2)."""
    a, b, n = state or (0.9, 0.9, 0)
    while n < end:
        a, b, n = a - 0.04 * config["h0"] * a, b - 0.04 * config["h1"] * b, n + 1
        yield {"score": 1.2 - a * a - b * b}, 1.0, (a, b, n)


@pytest.mark.parametrize("synch", [False, True])
def test_two_members_solve_what_neither_can_alone(synch: bool) -> None:
    for seed in range(5):
        scheduler = PopulationBasedTraining(
            "training_iteration", "score", "max", 4, hyperparam_mutations=MUTATIONS, synch=synch
        )
        simulation = simulate(
            gradient_steps,
            param_space={"h0": uniform(0, 1), "h1": 0.0},
            tune_config=TuneConfig(scheduler=scheduler, num_samples=2),
            num_workers=2,
            seed=seed,
        )
        assert max(result.metrics["score"] for result in simulation.results) >= 1.19


def storm(seed: int) -> tuple[Simulation, int, bool]:
    """A run with everything that can be drawn: the simulation, how many trials it was to have, whether any may fail."""
    rng = random.Random(seed)
    settings: dict[str, Any] = {
        "time_attr": "training_iteration",
        "metric": "score",
        "mode": "max",
        "perturbation_interval": rng.choice([1, 2, 3, 5]),
        "synch": rng.random() < 0.5,
        "quantile_fraction": rng.choice([0, 0.1, 0.25, 0.5]),
    }
    if rng.random() < 0.2:
        scheduler: PopulationBasedTraining = PB2(hyperparam_bounds={"h0": [0, 1], "h1": [0, 1]}, **settings)
    else:
        compare_at, burn_in = rng.choice(["turn", "same_time"]), rng.choice([0, 4])
        scheduler = PopulationBasedTraining(
            hyperparam_mutations=MUTATIONS, compare_at=compare_at, burn_in_period=burn_in, **settings
        )
    noise = random.Random(seed)

    def curve(config: dict[str, Any], state: Any) -> Iterator[tuple[Any, float, State]]:
        for metrics, _, after in gradient_steps(config, state, end=20):
            lost = noise.random() < 0.05
            yield {"score": math.nan if lost else metrics["score"]}, noise.choice([0.5, 1.0, 3.0]), after

    num_samples, failure_rate = rng.randint(1, 8), rng.choice([0, 0, 0.02, 0.1])
    simulation = simulate(
        curve,
        tune_config=TuneConfig(
            scheduler=scheduler, num_samples=num_samples, max_concurrent_trials=rng.choice([None, None, 1, 2, 3])
        ),
        run_config=RunConfig(
            stop={"training_iteration": rng.choice([10, 15, 30])},
            failure_config=FailureConfig(max_failures=rng.choice([0, 2, -1])),
        ),
        num_workers=rng.randint(1, 6),
        can_save=rng.random() < 0.9,
        start_delay_s=rng.choice([0, 0.3]),
        checkpoint_cost_s=rng.choice([0, 0.2, 2]),
        failure_rate=failure_rate,
        seed=seed,
    )
    return simulation, num_samples, failure_rate > 0


@pytest.mark.parametrize("first", [0, 10])
def test_every_population_comes_to_its_end(first: int) -> None:
    for seed in range(first, first + 10):
        simulation, num_samples, may_fail = storm(seed)
        results = simulation.results
        assert results.num_terminated + results.num_errors == len(results) == num_samples, seed
        assert may_fail or not results.errors, seed
        for result in results:
            assert all(0 <= result.config[name] <= 1 for name in MUTATIONS if name in result.config), seed


def test_the_same_seed_gives_the_same_log() -> None:
    assert storm(3)[0].decision_log == storm(3)[0].decision_log
