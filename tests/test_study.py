"""Study: ask and tell."""

import doctest
import math
import pickle
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import pytest
from kit import Recording

import minitune as tune
from minitune import Study, study
from minitune.search import ConcurrencyLimiter, TPESearch

SCRIPTS = Path(__file__).with_name("scripts")

SPACE = {"x": tune.uniform(0, 1), "kind": tune.choice(["a", {"deep": tune.randint(0, 9)}])}


def value(config):
    return float((config["x"] - 0.3) ** 2)


def trace(one, number):
    """What is asked for, one by one, each told before the next."""
    configs = []
    for _ in range(number):
        config = one.ask()
        assert config is not None
        configs.append(dict(config))
        one.tell(config, value(config))
    return configs


def test_the_example_in_its_docstring_is_true():
    assert doctest.testmod(study).failed == 0


@pytest.mark.parametrize("searcher", [None, "random", "tpe", TPESearch(n_initial_points=3)])
def test_the_trace_is_that_of_a_run(tmp_path, searcher):
    def report(config):
        return {"loss": value(config)}

    options = {"metric": "loss", "mode": "min", "num_samples": 20, "seed": 5}
    settings = tune.TuneConfig(search_alg=searcher, executor="inline", max_concurrent_trials=1, **options)
    run = tune.RunConfig(storage_path=str(tmp_path), verbose=0)
    grid = tune.Tuner(report, param_space=SPACE, tune_config=settings, run_config=run).fit()
    fresh = TPESearch(n_initial_points=3) if isinstance(searcher, TPESearch) else searcher
    one = Study(SPACE, fresh, **options)

    assert trace(one, 20) == [result.config for result in grid]
    assert one.ask() is None
    assert one.is_finished
    assert one.best.config == grid.get_best_result().config


def test_several_open_suggestions_are_told_in_any_order():
    one = Study({"x": tune.grid_search([1, 2, 3]), "y": [1]}, mode="max", num_samples=1)
    first, second, third = one.ask(), one.ask(), one.ask()
    assert one.ask() is None
    assert one.open == [first, second, third]
    one.tell({"y": (1.0,), "x": 3.0}, 30)
    third["x"] = 99
    assert one.history[0].config == {"x": 3, "y": [1]}
    second["mine"] = "changed, but the same object"
    one.tell(second, 20)
    assert one.open == [first]
    assert (one.best.config["x"], one.best.metrics) == (3, {"_metric": 30})
    for told in (second, {"x": 3, "y": [1]}, {"x": 7}, None):
        with pytest.raises(ValueError, match=r"config must be one that ask\(\) has returned and whose result"):
            one.tell(told, 1)


def test_failed_and_nan_evaluations_are_never_best():
    inner = Recording()
    one = Study({}, inner, metric="loss", mode="min")
    configs = [one.ask() for _ in range(4)]
    one.tell(configs[0], error=True)
    one.tell(configs[1], math.nan)
    assert one.best is None
    one.tell(configs[2], {"loss": 2, "inner": {"size": 3}})
    assert one.best.metrics == {"loss": 2, "inner/size": 3}
    assert [each.has_failed for each in one.history] == [True, False, False]
    completed = [event[2:] for event in inner.heard if event[0] == "complete"]
    assert completed[0] == (None, True)
    assert completed[2] == ({"training_iteration": 1, "done": True, "loss": 2, "inner/size": 3}, False)
    for bad in (None, {"los": 1}, True):
        with pytest.raises(ValueError, match=r"value must be a number, or a dict with loss, but got .*error=True"):
            one.tell(configs[3], bad)
    assert one.open == [configs[3]]


@pytest.mark.parametrize("value", [0, {}, False, 3])
def test_a_failed_configuration_has_no_value_not_even_zero(value):
    one = Study({"x": 1}, mode="min")
    config = one.ask()
    with pytest.raises(ValueError, match="value must be None for a configuration that has failed"):
        one.tell(config, value, error=True)
    assert one.open == [config]


def test_lists_of_a_study_are_the_callers_own():
    one = Study({"x": 1}, mode="min")
    one.tell(one.ask(), 1)
    one.ask()
    one.history.clear()
    one.open.clear()
    one.front.clear()
    assert (len(one.history), len(one.open), len(one.front)) == (1, 1, 1)


def test_told_values_become_plain_numbers_of_any_size():
    one = Study({"x": tune.randint(0, 9)}, "tpe", metric="loss", mode="min", seed=0)
    for told in (Decimal(5), 10**400, {"loss": Fraction(1, 2), "left": Decimal(1)}, math.inf):
        one.tell(one.ask(), told)

    assert [type(each.metrics["loss"]) for each in one.history] == [float, int, float, float]
    assert one.best is one.history[2]
    assert one.best.metrics["left"] == Decimal(1)
    with pytest.raises(ValueError, match=r"got a value of type list; give one plain number, .* its mean; for a"):
        one.tell(one.ask(), [0.5])


def test_a_study_has_several_objectives():
    one = Study({"x": tune.grid_search([0, 1, 2, 3])}, metric=["a", "b"], mode=["min", "max"], num_samples=1)
    for values in ([0, 0], [1, 1], {"a": 1, "b": 0}, (math.nan, 5)):
        one.tell(one.ask(), values)
    assert [each.config["x"] for each in one.front] == [0, 1]
    with pytest.raises(ValueError, match="several objectives have no best configuration"):
        _ = one.best
    with pytest.raises(ValueError, match="mode must be 'min' or 'max' for something to be best, but got None"):
        _ = Study({"x": 1}).best
    for wrong in (5, (5,), [5, 6, 7], "56"):
        with pytest.raises(ValueError, match="value must be a dict, or one value for each of a, b, but got"):
            Study({"x": 1}, metric=["a", "b"], mode=["min", "min"]).tell({"x": 1}, wrong)


@pytest.mark.parametrize("metric", [[], ["a"], ["a", "a"], ["a", "b"], ("a", "b")])
@pytest.mark.parametrize("searcher", [None, "tpe"])
def test_several_objectives_are_checked_as_those_of_a_run(metric, searcher):
    mode = ["obs"] * len(metric)
    texts = []
    for make in (lambda: Study({"x": 1}, searcher, metric, mode), lambda: tune.TuneConfig(metric=metric, mode=mode)):
        with pytest.raises(ValueError, match="must") as raised:
            make()
        texts.append(str(raised.value))
    assert texts[0] == texts[1]


def test_a_study_keeps_constraints_and_ends_without_duplicates():
    space = {"a": tune.choice([1, 2, 3]), "b": tune.choice([1, 2, 3])}
    rules = {"on_duplicate": "resample", "constraints": [lambda config: config["a"] < config["b"]]}
    for searcher in (None, "tpe"):
        one = Study(space, searcher, mode="min", **rules)
        found = set()
        while (config := one.ask()) is not None:
            found.add((config["a"], config["b"]))
            one.tell(config, config["a"])
        assert found == {(1, 2), (1, 3), (2, 3)}
        assert len(one.history) == 3
        assert "all 3 configurations" in one.end_reason


def test_the_first_of_equal_evaluations_is_the_best_by_the_objective_of_the_searcher():
    one = Study({"x": tune.randint(0, 99)}, TPESearch(metric="loss", mode="max"), seed=1)
    for loss in (1, 3, 3, 2):
        one.tell(one.ask(), {"loss": loss, "_metric": -loss})
    assert one.best is one.history[1]


def test_a_searcher_that_waits_does_not_end_a_study():
    one = Study({}, ConcurrencyLimiter(Recording(), 1))
    config = one.ask()
    assert one.ask() is None
    assert not one.is_finished
    one.tell(config, 1)
    assert one.ask() == {"x": 1}


def test_study_can_be_pickled():
    one = Study(SPACE, "tpe", mode="min", seed=1)
    trace(one, 15)
    other = pickle.loads(pickle.dumps(one))
    assert trace(other, 5) == trace(one, 5)


def test_a_study_loads_no_driver(script):
    assert script.run(SCRIPTS / "loads_no_driver.py") == "[]\n"
