"""Searches that learn from earlier runs."""

import functools
import math
import pickle
import shutil
import statistics
from pathlib import Path

import pytest
from kit import cut, fit, resume, run_path

import minitune as tune
from minitune.experiment.trial import EarlierRun
from minitune.search import AutoSearch, Study, TPESearch

SPACE = {
    "x": tune.uniform(0, 1),
    "y": tune.uniform(0, 1),
    "lr": tune.loguniform(1e-4, 1),
    "kind": tune.choice(list("abc")),
}
GOAL = {"metric": "loss", "mode": "min"}


def bowl(config, move=0.0):
    far = (config["x"] - 0.7 - move) ** 2 + (config["y"] - 0.2 + move) ** 2 + (math.log10(config["lr"]) + 3) ** 2 / 16
    return float(far + 0.2 * (config["kind"] != "b"))


def near(config):
    """A bowl whose best place is not far away."""
    return bowl(config, 0.05)


@functools.cache
def earlier(function, seed=0):
    study = Study(SPACE, "tpe", mode="min", num_samples=40, seed=1000 + seed)
    while (config := study.ask()) is not None:
        study.tell(config, function(config))
    return EarlierRun("before", [(one.config, {"loss": one.metrics["_metric"]}) for one in study.history])


def best_at(searcher, runs, counts):
    searcher.set_search_properties("loss", "min", SPACE)
    if runs:
        searcher.learn_from(runs)
    values = []
    for number in range(max(counts)):
        config = searcher.suggest(str(number))
        values.append(bowl(config))
        searcher.on_trial_complete(str(number), {"loss": values[-1]})
    return [min(values[:count]) for count in counts]


def share_won(ours, theirs):
    return statistics.mean((a < b) + 0.5 * (a == b) for a in ours for b in theirs)


@pytest.mark.parametrize("kind", [TPESearch, AutoSearch])
def test_a_like_task_helps_from_the_first_trials_on(kind):
    cold = [best_at(kind(seed=seed), [], (5, 12)) for seed in range(12)]
    warm = [best_at(kind(seed=seed), [earlier(near, seed)], (5, 12)) for seed in range(12)]
    for number, least in enumerate((0.9, 0.7)):
        assert share_won([run[number] for run in warm], [run[number] for run in cold]) > least


def test_the_first_trials_are_the_best_ones_of_the_earlier_runs():
    runs = [earlier(bowl), earlier(near)]
    study = TPESearch(SPACE, seed=3, **GOAL)
    study.learn_from(runs)
    for number, run in enumerate(runs):
        assert study.suggest(str(number)) == pytest.approx(min(run.tried, key=lambda one: (one[1] or {})["loss"])[0])


def test_points_to_evaluate_come_before_points_of_earlier_runs():
    run = earlier(bowl)
    best = pytest.approx(min(run.tried, key=lambda one: (one[1] or {})["loss"])[0])
    search = TPESearch(SPACE, points_to_evaluate=[{"x": 0.25}], seed=0, **GOAL)
    search.learn_from([run])
    search.add_evaluated_point({"x": 0.1, "y": 0.1, "lr": 0.1, "kind": "a"}, 3.0)
    first, second, third = (search.suggest(name) for name in "abc")
    assert first["x"] == 0.25
    assert second == best
    assert third != best


@pytest.mark.parametrize(
    ("mode", "tried", "first"),
    [
        ("max", [(0.1, 1.0), (0.85, 2.0), (0.5, None)], 0.85),
        ("min", [(0.3, math.nan), (0.4, -math.inf), (0.6, 5.0)], 0.6),  # what is not finite comes last
        ("min", [(0.95, 0.0), (0.5, 1.0)], 0.5),  # one lies outside
    ],
)
def test_the_first_trial_is_the_best_possible_one_of_an_earlier_run(mode, tried, first):
    search = TPESearch({"x": tune.uniform(0, 0.9)}, metric="loss", mode=mode, seed=0)
    run = [({"x": x}, None if value is None else {"loss": value}) for x, value in tried]
    search.learn_from([EarlierRun("r", run)])
    assert search.suggest("a") == pytest.approx({"x": first})


def test_a_saved_search_does_not_repeat_the_first_point_of_its_warm_start():
    whole, later = TPESearch(SPACE, seed=3, **GOAL), TPESearch(SPACE, seed=4, **GOAL)
    for study in (whole, later):
        study.learn_from([earlier(bowl)])
    whole.suggest("a")
    later.set_state(whole.get_state())
    assert [later.suggest(name) for name in "bcd"] == [whole.suggest(name) for name in "bcd"]


def test_a_search_learns_from_a_space_that_shares_some_parameters():
    space = {"x": tune.uniform(0, 0.9), "new": tune.uniform(5, 6), "kind": tune.choice(["b", "d"])}
    searcher = TPESearch(space, seed=0, **GOAL)
    searcher.learn_from([earlier(bowl)])  # those with x > 0.9 or another kind do not fit
    first = searcher.suggest("first")
    assert abs(first["x"] - 0.7) < 0.2
    assert first["kind"] == "b"
    for number in range(30):
        config = searcher.suggest(str(number))
        assert 5 <= config["new"] <= 6
        searcher.on_trial_complete(str(number), {"loss": config["new"]})


@pytest.mark.parametrize("fixed", [tune.uniform(2, 2), tune.randint(2, 3), tune.choice([2])])
def test_a_parameter_with_a_single_value_is_no_obstacle(fixed):
    tried = [({"x": x / 20, "c": 2}, {"loss": abs(x / 20 - 0.3)}) for x in range(20)]
    searcher = TPESearch({"x": tune.uniform(0, 1), "c": fixed}, seed=0, **GOAL)
    searcher.learn_from([EarlierRun("before", tried)])
    for number in range(12):
        config = searcher.suggest(str(number))
        assert config["c"] == 2
        searcher.on_trial_complete(str(number), {"loss": abs(config["x"] - 0.3)})
    assert searcher.suggest("next") is not None


def test_in_a_finite_space_the_best_one_is_tried_again_and_then_what_is_new():
    space = {"n": tune.choice([1, 2, 3, 4])}
    run = EarlierRun("r", [({"n": n}, {"loss": float(n)}) for n in (4, 3, 2)])
    study = Study(space, TPESearch(seed=0, **GOAL), num_samples=4, on_duplicate="resample", warm_start=[run])
    asked = []
    while (config := study.ask()) is not None:
        asked.append(config["n"])
        study.tell(config, float(config["n"]))
    assert asked[:2] == [2, 1]
    assert sorted(asked) == [1, 2, 3, 4]


# -- runs --------------------------------------------------------------------------------------------------------------


def train(config):
    return {"loss": bowl(config)}


def fit_earlier():
    return fit(train, SPACE, search_alg="tpe", num_samples=12, seed=1, name="before", **GOAL)


@pytest.mark.parametrize("as_grid", [True, False])
@pytest.mark.parametrize("name", ["tpe", "auto", "bohb"])
def test_a_run_learns_from_a_directory_or_a_grid(as_grid, name):
    grid = fit_earlier()
    source = grid if as_grid else grid.experiment_path
    new = fit(train, SPACE, search_alg=name, num_samples=3, seed=2, warm_start=[source], name="new", **GOAL)
    assert new[0].config == pytest.approx(grid.get_best_result().config)
    study = Study(SPACE, name, num_samples=3, seed=2, warm_start=[Path(grid.experiment_path)], **GOAL)
    assert study.ask() == pytest.approx(new[0].config)


def test_limits_and_rules_around_the_searcher_let_it_learn():
    grid = fit_earlier()
    rules = {"max_concurrent_trials": 2, "constraints": [lambda config: config["x"] >= 0]}
    new = fit(train, SPACE, search_alg="tpe", num_samples=2, warm_start=[grid], name="new", **rules, **GOAL)
    assert new[0].config == pytest.approx(grid.get_best_result().config)


def test_a_resumed_run_does_not_need_the_earlier_one():
    path = fit_earlier().experiment_path
    settings = {"search_alg": "tpe", "num_samples": 16, "seed": 2, "warm_start": [path], **GOAL}
    settings["max_concurrent_trials"] = 1
    whole = [result.config for result in fit(train, SPACE, name="whole", **settings)]
    cut(train, SPACE, results=8, **settings)
    shutil.rmtree(path)
    assert [result.config for result in resume(train)][:10] == whole[:10]
    assert len(resume(train, add_samples=2)) == 18


def test_nothing_of_an_earlier_run_is_unpickled(tmp_path):
    space = {**SPACE, "odd": tune.choice([_Trap()])}
    grid = fit(train, space, num_samples=3, seed=1, name="before", **GOAL)
    _Trap.is_set = True
    try:
        new = fit(train, SPACE, search_alg="tpe", num_samples=2, warm_start=[grid.experiment_path], name="new", **GOAL)
    finally:
        _Trap.is_set = False
    assert not new.errors


class _Trap:
    is_set = False

    def __reduce__(self):
        return _spring, ()


def _spring():
    if _Trap.is_set:
        raise AssertionError("it was unpickled")
    return _Trap()


@pytest.mark.parametrize("name", [None, "random"])
def test_a_searcher_that_cannot_learn_from_runs_is_refused(name):
    grid = fit_earlier()
    known = "BasicVariantGenerator cannot learn from earlier runs: use the searcher 'auto', 'tpe' or 'bohb'"
    with pytest.raises(ValueError, match=known):
        fit(train, SPACE, search_alg=name, warm_start=[grid], name="new", **GOAL)
    with pytest.raises(ValueError, match="cannot learn from earlier runs"):
        Study(SPACE, name, warm_start=[grid], **GOAL)


def test_several_objectives_are_refused():
    grid = fit_earlier()
    with pytest.raises(ValueError, match=r"warm_start needs one objective, but got metric=\['loss', 'b'\]"):
        fit(train, SPACE, search_alg="tpe", warm_start=[grid], name="new", metric=["loss", "b"], mode=["min", "min"])


BAD = {
    "no run": (lambda: ["nowhere"], FileNotFoundError, "nowhere"),
    "a path": (lambda: "nowhere", ValueError, "warm_start must be a list of directories of runs, or of ResultGrids"),
    "a grid": (fit_earlier, ValueError, "warm_start must be a list of directories"),
    "a number": (lambda: [5], ValueError, "warm_start must hold directories of runs, or ResultGrids, but got 5"),
    "no parameter": (
        lambda: [fit(train_other, {"z": tune.uniform(0, 1)}, name="z")],
        ValueError,
        r"no trial of the run in \S+ has a configuration in this space and a finite 'loss'; leave the run out",
    ),
    "no metric": (
        lambda: [fit(train_other, SPACE, name="z")],
        ValueError,
        "a finite 'loss'; leave the run out",
    ),
    "outside": (
        lambda: [fit(train, {**SPACE, "x": tune.uniform(3, 4)}, name="z")],
        ValueError,
        r"no trial of the run in \S+ has a configuration in this space and a finite 'loss'",
    ),
    "not finite": (
        lambda: [fit(lambda config: {"loss": math.nan}, SPACE, name="z")],
        ValueError,
        r"no trial of the run in \S+ has a configuration in this space and a finite 'loss'",
    ),
    "no result": (
        lambda: [fit(lambda config: None, SPACE, name="z")],
        ValueError,
        r"no trial of the run in \S+ has ended with a result; leave it out",
    ),
}


def train_other(config):
    return {"los": 1.0}


@pytest.mark.parametrize(("warm_start", "error", "text"), BAD.values(), ids=BAD)
def test_unusable_earlier_runs_are_refused(warm_start, error, text):
    with pytest.raises(error, match=text):
        fit(train, SPACE, search_alg="tpe", warm_start=warm_start(), name="new", **GOAL)
    assert not run_path("new").exists()


def test_an_empty_list_of_earlier_runs_changes_nothing():
    new = fit(train, SPACE, search_alg="tpe", num_samples=2, seed=2, warm_start=[], name="new", **GOAL)
    studies = [Study(SPACE, "tpe", seed=2, warm_start=runs, **GOAL) for runs in ([], (), None)]
    assert [study.ask() for study in studies] == [new[0].config] * 3


def test_a_study_that_has_learned_can_be_pickled():
    study = Study(SPACE, "tpe", num_samples=9, seed=0, warm_start=[earlier(bowl)], **GOAL)
    other = pickle.loads(pickle.dumps(study))
    assert study.ask() == other.ask()


def test_a_config_with_earlier_runs_stays_as_the_user_has_made_it():
    path = fit_earlier().experiment_path
    config = tune.TuneConfig(search_alg="tpe", warm_start=[path], executor="inline", **GOAL)
    tune.Tuner(train, param_space=SPACE, tune_config=config)
    assert config.warm_start == [path]


def test_a_failed_trial_of_an_earlier_run_is_known_as_failed():
    def fails_at_zero(config):
        return {"loss": 1 / config["i"]}

    grid = fit(fails_at_zero, {"i": tune.grid_search([0, 2])})
    tried = EarlierRun.of(grid.experiment_path, grid._run.trials).tried
    assert [(config["i"], numbers and numbers["loss"]) for config, numbers in tried] == [(0, None), (2, 0.5)]
