"""A run with `confirm` runs its most promising trials again, and the best one is that with the best mean."""

import json
from collections import Counter

import pytest
from kit import (
    EndAfter,
    Learner,
    counting,
    cut,
    deciding,
    fit,
    journal_of,
    newest_state,
    restore,
    resume,
    run_path,
    table_in,
    virtual_executor,
)

from minitune import (
    ExperimentAnalysis,
    Trainable,
    get_context,
    grid_search,
    report,
    uniform,
)
from minitune.base import clock
from minitune.commands.cli import main
from minitune.output.live_reporter import default_reporter
from minitune.schedulers import ASHAScheduler
from minitune.search import BasicVariantGenerator, Searcher

GOAL = {"metric": "loss", "mode": "min"}


def drawing(draws):
    """Reports the next of the draws of its x; an exception among them is raised."""
    counts = Counter()

    def train(config):
        x = config["x"]
        draw = draws[x][counts[x] % len(draws[x])]
        counts[x] += 1
        if draw != draw:
            raise ValueError("a failed repeat")
        report({"loss": draw})

    return train


def xs(draws):
    return {"x": grid_search(list(draws))}


def trials_of(grid):
    return ExperimentAnalysis(grid.experiment_path).trials


def repeated(grid):
    """For each repeat, the last two digits of the id of its trial, and its x."""
    found = []
    for trial in trials_of(grid):
        if trial.repeats is not None:
            found.append((trial.repeats.trial_id[-2:], trial.config["x"]))
    return found


LUCKY = {0: [1.0, 9, 8, 9], 1: [2.0, 4, 4, 5], 2: [3.0, 5, 5, 5], 3: [4.0, 0, 0, 0]}


def test_the_three_best_trials_are_run_again_with_other_seeds():
    seeds = {}
    train = drawing(LUCKY)

    def noting(config):
        context = get_context()
        seeds[context.get_trial_id()] = context.get_trial_seed()
        train(config)

    grid = fit(noting, xs(LUCKY), **GOAL, confirm=3)
    assert repeated(grid) == [("00", 0), ("01", 1), ("02", 2)] * 3  # in rounds: a run that is cut has compared all
    assert len(set(seeds.values())) == len(grid) == 13


def test_the_best_trial_has_the_best_mean_of_its_repeats():
    grid = fit(drawing(LUCKY), xs(LUCKY), **GOAL, confirm=3)
    best = grid.get_best_result()
    assert best.config == {"x": 1}
    assert best.metrics["loss"] == 2  # its own value; that of x=3, which was not promising, was never repeated
    means = [(each.trial.config["x"], each.seen, each.mean) for each in grid.get_confirmations()]
    assert means == [(1, 2, 13 / 3), (2, 3, 5), (0, 1, 26 / 3)]


def test_all_tables_have_the_confirmed_trials_first_and_the_repeats_last(capsys):
    grid = fit(drawing(LUCKY), xs(LUCKY), **GOAL, confirm=3, verbose=1)
    order = ["01", "02", "00", "03"]
    printed = capsys.readouterr().out
    assert f"{order[0]})" in next(line for line in printed.splitlines() if line.startswith("Best: "))
    assert [row["Trial name"][-2:] for row in table_in(printed)][:4] == order
    assert main(["ls", grid.experiment_path]) == 0
    listed = [row["trial_id"][-2:] for row in table_in(capsys.readouterr().out)]
    assert listed == [*order, *(f"{number:02}" for number in range(4, 13))]
    live = default_reporter()
    live.setup(metric="loss", mode="min")
    assert [row["trial_name"][-2:] for row in live._snapshot(trials_of(grid)).best] == order


def test_a_repeat_is_never_the_best_trial_by_another_metric():
    def train(config):
        return {"loss": config["x"], "number": float(get_context().get_trial_id()[-2:] >= "03")}

    grid = fit(train, {"x": grid_search([1, 2, 3])}, **GOAL, confirm=1)
    assert grid.get_best_result("number", "max").metrics["trial_id"][-2:] == "00"
    assert grid.get_confirmations("number", "max") == []


def test_repeats_take_the_largest_values_with_mode_max():
    grid = fit(drawing(LUCKY), xs(LUCKY), metric="loss", mode="max", confirm=1)
    assert [x for _, x in repeated(grid)] == [3, 2, 1]
    assert grid.get_best_result().config == {"x": 2}


def test_equal_configurations_are_confirmed_once():
    draws = {0: [1.0, 1, 5, 6, 7], 1: [2.0, 2], 2: [3.0, 3], 3: [4.0, 4]}
    grid = fit(drawing(draws), xs(draws), **GOAL, num_samples=2, confirm=1)
    assert [x for _, x in repeated(grid)] == [0, 1, 2]


def test_scheduler_and_searcher_hear_nothing_of_repeats():
    heard = set()
    told = set()

    def decide(context, trial, result):
        heard.add(trial.trial_id[-2:])
        return "STOP" if trial.trial_id[-2:] > "03" else "CONTINUE"

    class Hears(Searcher):
        def set_search_properties(self, metric, mode, config, **spec):
            return True

        def suggest(self, trial_id):
            return {"x": int(trial_id[-2:])}

        def on_trial_complete(self, trial_id, result=None, error=False):
            told.add(trial_id[-2:])

    def train(config):
        for step in range(3):
            report({"loss": config["x"] + step})

    grid = fit(
        train, {"x": uniform(0, 1)}, **GOAL, search_alg=Hears(), scheduler=deciding(decide), num_samples=4, confirm=1
    )
    assert heard == told == {"00", "01", "02", "03"}
    assert [result.metrics["training_iteration"] for result in grid] == [3] * 7


def test_a_trial_whose_repeats_have_all_failed_is_not_confirmed():
    nan = float("nan")
    draws = {0: [1.0, nan, nan], 1: [2.0, 8, nan], 2: [3.0, 9, 9]}
    grid = fit(drawing(draws), xs(draws), **GOAL, confirm=2)
    assert [(each.trial.config["x"], each.values) for each in grid.get_confirmations()] == [(1, [8]), (2, [9, 9])]
    assert grid.get_best_result().config == {"x": 1}


def test_a_trial_that_failed_after_a_good_report_is_not_run_again():
    def train(config):
        report({"loss": config["x"]})
        if config["x"] == 0:
            raise ValueError("too late")

    grid = fit(train, {"x": grid_search([0, 1, 2])}, **GOAL, confirm=1)
    assert [x for _, x in repeated(grid)] == [1, 2]
    assert {record["total_samples"] for record in journal_of() if record["type"] == "extend"} == {5}
    assert main(["show", str(run_path())]) == 0


def test_a_repeat_that_is_started_over_is_still_a_repeat():
    draws = {0: [1.0, float("nan"), 5], 1: [2.0, 8], 2: [3.0, 9]}
    train = drawing(draws)
    fit(train, xs(draws), **GOAL, confirm=1)
    grid = resume(train, restart_errored=True)
    assert [(each.trial.config["x"], each.values) for each in grid.get_confirmations()] == [
        (0, [5]),
        (1, [8]),
        (2, [9]),
    ]


@pytest.mark.parametrize("results", range(1, 10))
def test_a_run_that_was_cut_makes_only_the_repeats_that_are_missing(results):
    def train(config):
        return {"loss": config["x"]}

    space = {"x": grid_search([1, 2, 3, 4])}
    whole = fit(train, space, **GOAL, confirm=2, name="whole", max_concurrent_trials=1)
    cut(train, space, results=results, **GOAL, confirm=2, max_concurrent_trials=1)
    grid = resume(train, callbacks=[])
    assert repeated(grid) == repeated(whole)
    assert [result.config for result in grid] == [result.config for result in whole]


def test_best_does_not_change_before_each_candidate_has_a_value():
    cut(drawing(LUCKY), xs(LUCKY), results=6, **GOAL, confirm=1, max_concurrent_trials=1)
    grid = restore(drawing(LUCKY)).get_results()
    assert grid.get_confirmations() == []
    assert grid.get_best_result().config == {"x": 0}


def test_a_run_with_more_samples_confirms_what_is_promising_then():
    def train(config):
        return {"loss": config["x"]}

    worst = [0.9999, 0.9998, 0.9997]
    guesses = BasicVariantGenerator(points_to_evaluate=[{"x": x} for x in worst])
    fit(train, {"x": uniform(0, 1)}, **GOAL, search_alg=guesses, num_samples=3, confirm=1, seed=1)
    grid = resume(train, add_samples=1)
    assert [x for _, x in repeated(grid)][:3] == worst[::-1]
    (new,) = [x for _, x in repeated(grid)][3:]
    assert new < min(worst)
    assert grid.get_best_result().config == {"x": new}


@pytest.mark.parametrize("is_told_all", [False, True])
def test_a_searcher_goes_on_after_the_repeats_as_if_they_were_not_there(is_told_all):
    settings = {"metric": "score", "mode": "max", "max_concurrent_trials": 1}
    fit(counting(2), None, search_alg=Learner(5), num_samples=2, confirm=2, **settings)
    if is_told_all:
        for state in run_path().glob("plugins-*"):
            state.unlink()
    resume(counting(2), add_samples=1)
    heard = newest_state("searcher")["heard"]
    fit(counting(2), None, search_alg=Learner(5), num_samples=3, name="without", **settings)
    without = newest_state("searcher", run_path("without"))["heard"]
    assert heard == [event.replace("00002", "00006") for event in without]
    assert Counter(trial.repeats is None for trial in ExperimentAnalysis(str(run_path())).trials) == {True: 3, False: 6}


@pytest.mark.parametrize(("limit", "searched", "repeats"), [(1, 28, 2), (4, 112, 8), (None, 112, 8)])
def test_the_search_has_nine_tenths_of_a_time_budget(limit, searched, repeats):
    def train(config):
        clock.current.sleep(10)
        return {"loss": config["x"]}

    fit(
        train,
        {"x": uniform(0, 1)},
        **GOAL,
        num_samples=-1,
        time_budget_s=301,
        executor=virtual_executor(),
        max_concurrent_trials=limit,
        confirm=3,
    )
    finished = [trial for trial in ExperimentAnalysis(str(run_path())).trials if trial.state == "finished"]
    assert Counter(trial.repeats is None for trial in finished) == {True: searched, False: repeats}


class Endless(Trainable):
    """Only a scheduler ends it."""

    def step(self):
        return {"loss": self.config["x"] / self.iteration if self.iteration else self.config["x"]}


@pytest.mark.parametrize("is_cut", [False, True])
def test_a_repeat_has_as_many_iterations_as_its_trial(is_cut):
    settings = {"scheduler": ASHAScheduler(max_t=9, grace_period=1), "confirm": 2}
    space = {"x": grid_search([1, 2, 3, 4])}
    if is_cut:
        whole = fit(Endless, space, **GOAL, **settings, max_concurrent_trials=1, name="whole")
        count = sum(record["type"] == "result" for record in journal_of("whole"))
        cut(Endless, space, results=count - 3, **GOAL, **settings, max_concurrent_trials=1)
        grid = resume(Endless, callbacks=[])
        assert repeated(grid) == repeated(whole)
    else:
        grid = fit(Endless, space, **GOAL, **settings, max_concurrent_trials=1)
    lengths = {trial.trial_id: trial.progress.num_reports for trial in trials_of(grid)}
    assert sum(trial.repeats is not None for trial in trials_of(grid)) == 6
    for trial in trials_of(grid):
        if trial.repeats is not None:
            assert lengths[trial.trial_id] == lengths[trial.repeats.trial_id]


def test_a_run_that_a_stopper_ends_confirms_nothing():
    grid = fit(drawing(LUCKY), xs(LUCKY), **GOAL, confirm=1, stop=EndAfter(2), max_concurrent_trials=1)
    assert repeated(grid) == []
    assert repeated(resume(drawing(LUCKY))) == []


def test_the_number_of_trials_counts_repeats():
    fit(drawing(LUCKY), xs(LUCKY), **GOAL, confirm=3)
    assert journal_of()[0]["total_samples"] == 13
    fit(drawing(LUCKY), {"x": grid_search([0, 1])}, **GOAL, confirm=3, name="two")
    assert journal_of("two")[0]["total_samples"] == 8


def test_commands_show_what_was_confirmed(capsys):
    fit(drawing(LUCKY), xs(LUCKY), **GOAL, confirm=3, verbose=1)
    shown = capsys.readouterr().out
    assert "Best: loss=4.33333 in the mean of 3 repeats (2 seen) with x=1" in shown
    assert main(["best", str(run_path())]) == 0
    out = capsys.readouterr().out
    assert "loss=4.33333 in the mean of 3 repeats (2 seen)\n" in out
    assert "confirmed\n  trial 1: 4.33333\n  trial 2: 5\n  trial 0: 8.66667\n" in out
    assert main(["show", str(run_path()), "--json"]) == 0
    best = json.loads(capsys.readouterr().out)["best"]
    assert (best["value"], best["mean"]) == (2, 13 / 3)
    assert main(["ls", str(run_path()), "--columns", "trial,repeats"]) == 0
    first = ExperimentAnalysis(str(run_path())).trials[0].trial_id
    assert capsys.readouterr().out.count(f"| {first} |") == 3
