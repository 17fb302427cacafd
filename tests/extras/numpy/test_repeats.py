"""Repeats: `auto` runs its best trial again as one of its samples, so the run knows whether its values are noisy."""

import random
import re

import pytest
from kit import cut, fit, resume, run_path, table_in, virtual_executor

from minitune import ExperimentAnalysis, get_context, randint, uniform
from minitune.base import clock
from minitune.commands.cli import main
from minitune.schedulers import ASHAScheduler
from minitune.search import AutoSearch, Repeater

SPACE = {"x": uniform(0, 1), "y": uniform(0, 1)}
GOAL = {"metric": "loss", "mode": "min"}


def measuring(noise):
    """Each trial has its own noise, also if it is run again."""

    def train(config):
        drawn = noise * random.Random(get_context().get_trial_id()[-5:]).gauss(0, 1)
        return {"loss": (config["x"] - 0.3) ** 2 + (config.get("y", 0) - 0.6) ** 2 + drawn}

    return train


def run(noise, num_samples=40, search_alg="auto", space=SPACE, **settings):
    settings = {"max_concurrent_trials": 1, **GOAL, **settings}
    return fit(measuring(noise), space, search_alg=search_alg, num_samples=num_samples, seed=1, **settings)


def trials():
    return ExperimentAnalysis(str(run_path())).trials


def repeats():
    """The number of each repeat and of its trial."""
    number = {trial.trial_id: trial.number for trial in trials()}
    return [(trial.number, number[trial.repeats.trial_id]) for trial in trials() if trial.repeats is not None]


def value(trial):
    return trial.progress.metrics["loss"]


@pytest.mark.parametrize(
    ("noise", "num_samples", "numbers"),
    [(0, 40, [14]), (0.3, 20, [14]), (0.3, 19, []), (0, -1, [14])],
)
def test_about_the_fifteenth_trial_repeats_the_best_one(noise, num_samples, numbers):
    settings = {}
    if num_samples == -1:
        settings = {"stop": lambda trial_id, result: False, "time_budget_s": 30.5, "executor": virtual_executor()}
    train = measuring(noise)

    def timed(config):
        clock.current.sleep(1 if num_samples == -1 else 0)
        return train(config)

    fit(timed, SPACE, search_alg="auto", num_samples=num_samples, seed=1, max_concurrent_trials=1, **GOAL, **settings)
    found = repeats()
    assert [number for number, _ in found] == numbers
    for number, of in found:
        before = [trial for trial in trials()[:number] if trial.repeats is None]
        assert trials()[of] is not None
        assert min(before, key=value).number == of
        assert trials()[number].config == trials()[of].config


@pytest.mark.parametrize(
    "settings",
    [
        {"on_duplicate": "resample"},
        {"constraints": [lambda config: config["x"] < 0.9]},
        {"search_alg": Repeater(AutoSearch(), 2)},
        {"search_alg": "tpe"},
        {"scheduler": ASHAScheduler()},
        {"space": {"x": randint(0, 30)}},
    ],
    ids=["duplicates", "constraints", "repeater", "tpe", "asha", "as many trials as configurations"],
)
def test_nothing_is_repeated(settings):
    run(0.3, 30, **settings)
    assert repeats() == []


@pytest.mark.parametrize("noise", [0, 1e-13], ids=["exact", "sums in another order"])
def test_of_an_exact_objective_the_best_value_is_the_best_trial_and_luck_is_not_mentioned(noise, capsys):
    grid = run(noise, 40, verbose=1)
    best = min(trials(), key=value)
    assert grid.get_best_result().metrics["trial_id"] == grid.get_estimates()[0].trial_id == best.trial_id
    assert not any(each.is_noisy for each in grid.get_estimates())
    assert main(["best", str(run_path())]) == 0
    shown = capsys.readouterr().out
    assert not any(word in shown for word in ("noisy", "estimate", "expect"))


def test_of_a_noisy_objective_all_views_have_the_trials_in_the_order_of_their_estimates(capsys):
    grid = run(0.3, 60, verbose=1)
    printed = capsys.readouterr().out
    order = [each.trial_id for each in grid.get_estimates()]
    assert grid.get_best_result().metrics["trial_id"] == order[0]
    seen = grid.get_best_result(scope="last").metrics
    assert seen["trial_id"] != order[0]
    assert seen["loss"] == min(map(value, trials()))
    (line,) = [line for line in printed.splitlines() if line.startswith("Best: ")]
    assert "(best by estimate: a repeat had another value) with " in line
    assert line.endswith(f"(trial {order[0]})")
    assert main(["ls", str(run_path())]) == 0
    rows = table_in(capsys.readouterr().out)
    assert [row["trial_id"] for row in rows[: len(order)]] == order
    assert sum(bool(row["repeats"]) for row in rows) == 1
    assert main(["best", str(run_path())]) == 0
    shown = capsys.readouterr().out
    assert re.search(r"^expected +about \S+ \(\S+ to \S+\)$", shown, re.MULTILINE)


def test_the_three_promising_trials_are_confirmed_also_if_the_search_has_repeated_one():
    grid = run(0.3, 40, confirm=2)
    assert len(grid) == 46
    assert [len(each.values) for each in grid.get_confirmations()] == [2, 2, 2]
    assert grid.get_best_result().metrics["trial_id"] == grid.get_confirmations()[0].trial.trial_id


@pytest.mark.parametrize("results", [13, 14, 15, 16, 29])
@pytest.mark.parametrize("is_told_all", [False, True])
def test_a_run_that_was_cut_repeats_the_same_trials(results, is_told_all):
    whole = [result.config for result in run(0.3, 30)]
    expected = repeats()
    settings = {"search_alg": "auto", "num_samples": 30, "seed": 1, "max_concurrent_trials": 1, **GOAL}
    train = measuring(0.3)
    cut(train, SPACE, results=results, name="cut", **settings)
    if is_told_all:
        for state in run_path("cut").glob("plugins-*"):
            state.unlink()
    grid = resume(train, path=run_path("cut"), callbacks=[])
    assert [result.config for result in grid] == whole
    found = ExperimentAnalysis(str(run_path("cut"))).trials
    assert [trial.number for trial in found if trial.repeats is not None] == [number for number, _ in expected]
