"""Expected values: what to expect of a trial if it were run again and again."""

from __future__ import annotations

import math
import random
from typing import Any

import pytest
from kit import fit, virtual_executor

from minitune import ResultGrid, choice, clock, loguniform, report, uniform
from minitune.search.estimate import Estimate, remark_on_luck

TRUTH_OF = {"a": 0.0, "b": 0.4}


def truth(config: dict[str, Any]) -> float:
    return (config["x"] - 0.3) ** 2 + TRUTH_OF[config["kind"]] + 0.05 * math.log10(config["lr"] / 1e-3) ** 2


def run(seed: int, noise: float, num_samples: int = 40, mode: str = "min", **settings: Any) -> ResultGrid:
    rng = random.Random(seed)

    def train(config: dict[str, Any]) -> dict[str, float]:
        value = truth(config) + noise * rng.gauss(0, 1)
        return {"loss": value if mode == "min" else -value}

    space = {"x": uniform(0, 1), "kind": choice(["a", "b"]), "lr": loguniform(1e-5, 1e-1), "constant": 7}
    grid: ResultGrid = fit(
        train,
        space,
        metric="loss",
        mode=mode,
        num_samples=num_samples,
        seed=seed,
        executor=virtual_executor(),
        **settings,
    )
    return grid


@pytest.mark.parametrize("mode", ["min", "max"])
def test_the_expected_value_is_nearer_to_the_truth_than_the_value_seen(mode: str) -> None:
    errors_seen = []
    errors = []
    held = 0
    for seed in range(6):
        grid = run(seed, noise=0.1, mode=mode)
        best = grid.get_best_result()
        (own,) = [each for each in grid.get_estimates() if each.trial_id == best.metrics["trial_id"]]
        actual = truth(best.config) if mode == "min" else -truth(best.config)
        errors_seen.append(abs(own.seen - actual))
        errors.append(abs(own.expected - actual))
        held += own.low <= actual <= own.high
    assert sum(errors) < 0.5 * sum(errors_seen)
    assert held >= 4


def test_the_intervals_of_a_short_noisy_run_hold_most_of_the_truth() -> None:
    def value(config: dict[str, Any]) -> float:
        return sum((config[name] - 0.4) ** 2 for name in "abcd")

    shares = []
    for seed in range(4):
        rng = random.Random(seed)
        grid = fit(
            lambda config, rng=rng: {"loss": value(config) + 0.02 * rng.gauss(0, 1)},
            {name: uniform(0, 1) for name in "abcd"},
            metric="loss",
            mode="min",
            num_samples=20,
            seed=seed,
            executor=virtual_executor(),
        )
        actual = {result.metrics["trial_id"]: value(result.config) for result in grid}
        shares.append(sum(each.low <= actual[each.trial_id] <= each.high for each in grid.get_estimates()) / 20)
    assert min(shares) > 0.5, "so few values fit any noise: its usual size decides"


def test_without_noise_the_expected_value_is_the_value_seen() -> None:
    grid = run(1, noise=0.0)
    for each in grid.get_estimates():
        assert each.expected == pytest.approx(each.seen, abs=0.02)
        assert not each.is_lucky
    assert grid.get_best_result(by="estimate").path == grid.get_best_result().path
    assert remark_on_luck(grid.get_estimates(), "min") == ""


def test_repeats_of_a_run_that_confirms_are_not_estimated() -> None:
    def train(config: dict[str, Any]) -> dict[str, float]:
        return {"loss": config["x"]}

    grid = fit(train, {"x": uniform(0, 1)}, num_samples=12, metric="loss", mode="min", confirm=2)
    assert len(grid) == 18
    assert len(grid.get_estimates()) == 12


@pytest.mark.parametrize("seed", range(4))
def test_of_a_wavy_function_without_noise_the_best_trial_is_the_best_by_estimate(seed: int) -> None:
    def train(config: dict[str, Any]) -> dict[str, float]:
        return {"loss": (config["a"] - 0.3) ** 2 + 0.1 * math.sin(9 * config["b"])}

    grid = fit(
        train,
        {name: uniform(0, 1) for name in "abcd"},
        metric="loss",
        mode="min",
        num_samples=60,
        seed=seed,
        executor=virtual_executor(),
    )
    assert grid.get_best_result(by="estimate").path == grid.get_best_result().path
    for each in grid.get_estimates():
        assert each.expected == pytest.approx(each.seen, abs=0.01)


def test_the_estimates_of_a_long_run_know_which_values_were_lucky() -> None:
    lucky = 0.0
    for seed in range(4):
        grid = run(seed, noise=0.1, num_samples=200)
        best = grid.get_best_result()
        found = grid.get_estimates()
        assert len(found) == 100
        (own,) = [each for each in found if each.trial_id == best.metrics["trial_id"]]
        assert abs(own.expected - truth(best.config)) < 0.5 * abs(own.seen - truth(best.config))
        lucky += own.expected - truth(best.config)
    assert abs(lucky / 4) < 0.05  # on average, the estimate is neither too good nor too bad


def test_the_best_by_estimate_is_the_trial_that_is_best_at_its_worse_end() -> None:
    grid = run(3, noise=0.3)
    found = grid.get_estimates()
    assert [each.high for each in found] == sorted(each.high for each in found)
    assert grid.get_best_result(by="estimate").metrics["trial_id"] == found[0].trial_id


def test_few_trials_have_no_estimate_and_the_value_decides() -> None:
    grid = run(1, noise=0.3, num_samples=11)
    assert grid.get_estimates() == []
    assert grid.get_best_result(by="estimate").path == grid.get_best_result().path


def test_an_unknown_kind_of_choice_is_refused() -> None:
    with pytest.raises(ValueError, match="by must be 'value' or 'estimate'"):
        run(1, noise=0.0, num_samples=1).get_best_result(by="luck")


def test_trials_that_were_stopped_before_the_best_one_are_left_out() -> None:
    def train(config: dict[str, Any]) -> None:
        for step in range(1, 4 if config["x"] < 0.5 else 2):
            report({"loss": config["x"] / step})

    grid = fit(
        train, {"x": uniform(0, 1)}, metric="loss", mode="min", num_samples=60, seed=1, executor=virtual_executor()
    )
    lengths = {result.metrics["trial_id"]: result.metrics["training_iteration"] for result in grid}
    assert {lengths[each.trial_id] for each in grid.get_estimates()} == {3}


def test_a_lucky_value_is_named_with_the_trial_that_is_better() -> None:
    lucky = Estimate("a", 0.183, 0.2104, 0.19, 0.23, True)
    better = Estimate("b", 0.2, 0.2012, 0.19, 0.22, True)
    assert remark_on_luck([better, lucky], "min") == (
        "0.183 was lucky: about 0.21 is to be expected; trial b is expected to be better (0.201)"
    )
    assert remark_on_luck([lucky], "min") == "0.183 was lucky: about 0.21 is to be expected"
    assert remark_on_luck([better], "min") == ""
    assert remark_on_luck([Estimate("a", 0.183, 0.2104, 0.19, 0.23, False)], "min") == ""


def test_a_long_run_ends_with_the_remark_and_a_short_one_without(capsys: pytest.CaptureFixture[str]) -> None:
    for seconds, is_shown in ((0.1, False), (3.0, True)):
        rng = random.Random(0)

        def train(config: dict[str, Any], seconds: float = seconds, rng: random.Random = rng) -> None:
            clock.current.sleep(seconds)
            report({"loss": (config["x"] - 0.5) ** 2 + rng.gauss(0, 0.2)})

        fit(
            train, {"x": uniform(0, 1)}, metric="loss", mode="min", num_samples=40, seed=2, verbose=1,
            executor=virtual_executor(),
        )  # fmt: skip
        assert ("was lucky" in capsys.readouterr().out) is is_shown
