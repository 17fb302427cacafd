"""Expected values: what to expect of a trial if it were run again and again."""

import json
import math
import random

import pytest
from kit import fit, listening, run_path, virtual_executor

from minitune import ExperimentAnalysis, choice, grid_search, loguniform, report, uniform
from minitune.commands.cli import main
from minitune.search.estimate import Estimate
from minitune.view.history import RunHistory
from minitune.visualization.page import run_data

TRUTH_OF = {"a": 0.0, "b": 0.4}


def truth(config):
    return (config["x"] - 0.3) ** 2 + TRUTH_OF[config["kind"]] + 0.05 * math.log10(config["lr"] / 1e-3) ** 2


def run(seed, noise, num_samples=40, mode="min", **settings):
    rng = random.Random(seed)

    def train(config):
        value = truth(config) + noise * rng.gauss(0, 1)
        return {"loss": value if mode == "min" else -value}

    space = {"x": uniform(0, 1), "kind": choice(["a", "b"]), "lr": loguniform(1e-5, 1e-1), "constant": 7}
    return fit(
        train,
        space,
        metric="loss",
        mode=mode,
        num_samples=num_samples,
        seed=seed,
        executor=virtual_executor(),
        **settings,
    )


@pytest.mark.parametrize("mode", ["min", "max"])
def test_the_expected_value_is_nearer_to_the_truth_than_the_value_seen(mode):
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


def test_the_intervals_of_a_short_noisy_run_hold_most_of_the_truth():
    def value(config):
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


def test_without_noise_the_expected_value_is_the_value_seen():
    grid = run(1, noise=0.0)
    for each in grid.get_estimates():
        assert each.expected == pytest.approx(each.seen, abs=0.02)
    assert grid.get_best_result(by="estimate").path == grid.get_best_result().path


def test_a_lucky_trial_far_from_the_others_is_not_the_first_to_be_confirmed():
    def train(config):
        x = config["x"]
        return {"loss": -0.1 if x == 30 else x**2 / 100 + (x % 3) / 10}

    fit(train, {"x": grid_search(list(range(31)))}, metric="loss", mode="min", confirm=1)
    repeats = [trial for trial in ExperimentAnalysis(str(run_path())).trials if trial.repeats is not None]
    assert repeats[0].config["x"] != 30


def test_repeats_of_a_run_that_confirms_are_not_estimated():
    def train(config):
        return {"loss": config["x"]}

    grid = fit(train, {"x": uniform(0, 1)}, num_samples=12, metric="loss", mode="min", confirm=2)
    assert len(grid) == 18
    assert len(grid.get_estimates()) == 12


@pytest.mark.parametrize("seed", range(4))
def test_of_a_wavy_function_without_noise_the_best_trial_is_the_best_by_estimate(seed):
    def train(config):
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


def test_the_estimates_of_a_long_run_know_which_values_were_lucky():
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


def test_the_best_by_estimate_is_the_trial_that_is_best_at_its_worse_end():
    grid = run(3, noise=0.3)
    found = grid.get_estimates()
    assert [each.high for each in found] == sorted(each.high for each in found)
    assert grid.get_best_result(by="estimate").metrics["trial_id"] == found[0].trial_id


def test_few_trials_have_no_estimate_and_the_value_decides():
    grid = run(1, noise=0.3, num_samples=11)
    assert grid.get_estimates() == []
    assert grid.get_best_result(by="estimate").path == grid.get_best_result().path


def test_an_unknown_kind_of_choice_is_refused():
    with pytest.raises(ValueError, match="by must be 'value' or 'estimate'"):
        run(1, noise=0.0, num_samples=1).get_best_result(by="luck")


def test_trials_that_were_stopped_before_the_best_one_are_left_out():
    def train(config):
        for step in range(1, 4 if config["x"] < 0.5 else 2):
            report({"loss": config["x"] / step})

    grid = fit(
        train, {"x": uniform(0, 1)}, metric="loss", mode="min", num_samples=60, seed=1, executor=virtual_executor()
    )
    lengths = {result.metrics["trial_id"]: result.metrics["training_iteration"] for result in grid}
    assert {lengths[each.trial_id] for each in grid.get_estimates()} == {3}


@pytest.mark.parametrize("iteration", ["x", float("nan"), math.inf, 10**400, -5, None, [1], 2.5, True])
def test_any_value_may_be_reported_as_the_iteration(iteration):
    def train(config):
        odd = {} if config["x"] < 0.9 else {"training_iteration": iteration}
        report({"loss": config["x"], **odd})

    settings = {"metric": "loss", "mode": "min", "confirm": 1, "seed": 1, "executor": virtual_executor()}
    grid = fit(train, {"x": uniform(0, 1)}, num_samples=20, **settings)
    assert any(result.config["x"] >= 0.9 for result in grid)
    assert [len(grid), len(grid.get_confirmations())] == [23, 3]
    assert main(["best", str(run_path())]) == 0


def test_an_estimate_is_a_short_text():
    assert str(Estimate("a", 9.0, 2.0, 1.23456, 3.0, True)) == "about 2 (1.23 to 3)"


def test_values_of_all_kinds_and_missing_ones_are_no_obstacle():
    values = [2, 1e-4, -1.0, 0.0, 1e300, math.inf, math.nan, None, True, "a", [1, 2], {}]
    space = {
        "x": uniform(0, 1),
        "one": choice([3]),
        "infinite": choice([1.0, math.inf]),
        "odd": choice(values),
        "far": loguniform(1e-9, 1e9),
    }
    grid = fit(lambda config: {"loss": config["x"]}, space, metric="loss", mode="min", num_samples=40, seed=1)
    assert len(grid.get_estimates()) == 40
    assert all(math.isfinite(each.expected) for each in grid.get_estimates())


def test_views_tell_what_to_expect_when_the_run_has_ended(capsys):
    rng = random.Random(1)
    told = []

    def noisy(config):
        return {"score": (config["x"] - 0.3) ** 2 + 0.3 * rng.gauss(0, 1)}

    def look(trial, **info):
        if trial.number == 19:
            told.append(page_of())

    def page_of():
        return run_data(RunHistory(run_path()))["remark"]

    settings = {"num_samples": 20, "seed": 1, "metric": "score", "mode": "min"}
    fit(noisy, {"x": uniform(0, 1)}, callbacks=[listening(on_trial_complete=look)], **settings)
    assert told == [None], "while it runs, nothing is known for certain"
    text = "about 0.125 (-0.043 to 0.292) if values are noisy: confirm=3 tells"
    assert page_of() == f"Expected: {text}"
    for command in ("show", "best"):
        assert main([command, str(run_path())]) == 0
        (line,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("expected")]
        assert line == f"expected        {text}"
    assert main(["show", str(run_path()), "--json"]) == 0
    expected = json.loads(capsys.readouterr().out)["best"]["expected"]
    assert expected["low"] < expected["value"] < expected["high"]
    assert expected["text"] == text
