"""What searchers of other libraries share, shown with a library of a few lines: values, objectives, seeds, adoption."""

import math

import pytest
from kit import fit

from minitune.contrib._library import (
    RaySearcher,
    bounds_of,
    from_library,
    indices_of,
    to_library,
    value_of,
    varying,
)
from minitune.space.domains import (
    choice,
    lograndint,
    loguniform,
    qlograndint,
    qloguniform,
    qrandint,
    quniform,
    randint,
    uniform,
)
from minitune.space.parameters import parameters


class Toy(RaySearcher):
    """Draws at random; `told` has each configuration and its loss."""

    _STATE = ("_rng", "_points")

    def __init__(self, metric=None, mode=None, points_to_evaluate=None, seed=None, **old):
        super().__init__(metric, mode, points_to_evaluate, seed, old)
        self.live = {}
        self.told = []

    def suggest(self, trial_id):
        self._check_ready(self._domains is not None)
        point = self._points.pop(0) if self._points else {}
        config = self._configured(self._filled(point))
        self.live[trial_id] = config
        return config

    def on_trial_complete(self, trial_id, result=None, error=False):
        self._learn(self.live.pop(trial_id), None if error else self._value_of(result))

    def _learn(self, config, value):
        self.told.append((dict(config), None if value is None else self._loss(value)))


SPACE = {"x": uniform(0, 1), "n": randint(0, 99), "k": choice(["a", "b"]), "c": 7}


def ready(space=None, **options):
    toy = Toy(**{"metric": "loss", "mode": "min", "seed": 1, **options})
    assert toy.set_search_properties(None, None, space or SPACE)
    return toy


# -- objectives --------------------------------------------------------------------------------------------------------


def test_without_a_named_metric_it_learns_from_the_value_that_a_function_returns():
    toy = Toy(mode="max")
    grid = fit(lambda config: config["x"], {"x": uniform(0, 1)}, search_alg=toy, num_samples=3)
    assert toy.told == [(result.config, -result.config["x"]) for result in grid]


@pytest.mark.parametrize(
    ("end", "loss"),
    [
        ({"result": {"loss": 2}}, 2.0),
        ({"result": {"loss": math.nan}}, None),
        ({"result": {"other": 2}}, None),
        ({"result": None}, None),
        ({"result": {"loss": 2}, "error": True}, None),
    ],
)
def test_a_library_learns_from_the_end_of_a_trial(end, loss):
    toy = ready()
    config = toy.suggest("0")
    toy.on_trial_complete("0", **end)
    assert toy.told == [(config, loss)]


@pytest.mark.parametrize(("mode", "loss"), [("min", 2.0), ("max", -2.0)])
def test_a_library_learns_from_a_known_point(mode, loss):
    toy = ready(mode=mode)
    toy.add_evaluated_point({"x": 0.5}, 2)
    toy.add_evaluated_point({"x": 0.5}, 2, error=True)
    toy.add_evaluated_point({"x": 0.5}, math.nan)
    assert [each for _, each in toy.told] == [loss, None, None]
    with pytest.raises(ValueError, match="Toy has no search space"):
        Toy(mode="min").add_evaluated_point({"x": 0.5}, 2)


@pytest.mark.parametrize(
    ("options", "kept"),
    [
        ({"reward_attr": "gain"}, ("gain", "max", 0)),
        ({"reward_attr": "gain", "metric": "loss", "mode": "min"}, ("loss", "min", 0)),
        ({"max_concurrent": 3}, (None, None, 3)),
        ({"max_concurrent": None, "use_early_stopped_trials": False}, (None, None, 0)),
    ],
)
def test_old_arguments_have_their_effect(options, kept):
    toy = Toy(**options)
    assert (toy.metric, toy.mode, toy.max_concurrent) == kept
    with pytest.raises(ValueError, match="max_concurrent must be an int >= 0"):
        Toy(max_concurrent=-1)


# -- draws and points --------------------------------------------------------------------------------------------------


def test_the_seed_of_the_user_takes_precedence_over_that_of_the_run():
    def first(seed, of_run):
        toy = Toy("loss", "min", seed=seed)
        toy.set_seed(of_run)
        toy.set_search_properties(None, None, SPACE)
        return toy.suggest("0")

    assert first(1, 2) == first(1, 3)
    assert first(None, 2) == first(None, 2) != first(None, 3)


def test_points_come_first_and_what_they_lack_is_drawn():
    toy = ready(points_to_evaluate=[{"n": 5}, {"k": "b", "x": 0.25}])
    first = toy.suggest("0")
    second = toy.suggest("1")
    third = toy.suggest("2")
    assert first["n"] == 5
    assert (second["k"], second["x"], second["c"]) == ("b", 0.25, 7)
    assert len({first["x"], second["x"], third["x"]}) == 3


@pytest.mark.parametrize("points", [[], [{"x": 0.1}, {"x": 0.2, "n": 3}, {"k": "b"}]])
def test_a_searcher_that_adopted_trials_suggests_what_their_own_searcher_does(points):
    first, second = ready(points_to_evaluate=points), ready(points_to_evaluate=points)
    for number in range(5):
        config = first.suggest(str(number))
        second.adopt(str(number), config)
        second.on_trial_complete(str(number), {"loss": number})
        assert second.told[-1] == (config, number)
    assert second.suggest("next") == first.suggest("next")


def test_a_library_adopts_a_configuration_that_it_would_not_have_suggested():
    """A point whose predecessors were refused, one with a value outside of the space, and any other."""
    toy = ready(points_to_evaluate=[{"x": 0.1}, {"x": 0.2}, {"x": 0.3}])
    configs = [{"x": x, "n": 5, "k": "a", "c": 7} for x in (0.2, 0.6, 0.3, 0.7)]
    for number, config in enumerate(configs):
        toy.adopt(str(number), {**config, "later": True})
        toy.on_trial_complete(str(number), {"loss": 1})
    told = [config for config, loss in toy.told if loss is not None]
    assert told == configs
    assert not toy.first_points()


# -- values in a library's terms ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("domain", "bounds", "values"),
    [
        (uniform(2, 5), (2.0, 5.0), {3.5: 3.5, 2.0: 2.0}),
        (loguniform(0.01, 1), (0.01, 1.0), {0.5: 0.5}),
        (quniform(0, 1, 0.25), (0.0, 1.0), {0.25: 0.25}),
        (qloguniform(1, 8, 0.5), (1.0, 8.0), {1.5: 1.5}),
        (randint(3, 9), (3, 8), {3: 3, 8: 8}),
        (lograndint(1, 100), (1, 99), {99: 99}),
        (qrandint(10, 50, 10), (1, 5), {10: 1, 50: 5}),
        (qrandint(5, 50, 10), (1, 5), {10: 1}),
        (qlograndint(8, 64, 8), (1, 8), {64: 8}),
        (choice(["a", "b", "c"]), None, {0: 0, 2: 2}),  # the index of the category
    ],
    ids=lambda each: repr(each)[:30],
)
def test_values_as_a_library_knows_them(domain, bounds, values):
    space = {"a": {"b": domain}}
    (parameter,) = parameters(space)
    assert bounds_of(parameter) == bounds
    assert (indices_of(parameter) is None) == (bounds is None or isinstance(bounds[0], float))
    for own, foreign in values.items():
        assert to_library(space, {"a/b": own}) == {"a/b": foreign}
        assert from_library(space, {"a/b": foreign, "unknown": 1}) == {"a/b": own}


@pytest.mark.parametrize(
    ("domain", "foreign", "own"),
    [
        (randint(3, 9), 8.4, 8),
        (randint(3, 9), 8.6, 8),
        (randint(3, 9), 2.2, 3),
        (qrandint(10, 50, 10), 1.6, 20),
        (qrandint(10, 50, 10), 9, 50),
        (uniform(2, 5), 5.1, 5.0),
        (uniform(2, 5), 1, 2.0),
        (quniform(0, 1, 0.25), 0.37, 0.25),
    ],
    ids=repr,
)
def test_a_suggestion_beside_a_value_becomes_the_nearest_value(domain, foreign, own):
    (parameter,) = parameters({"a": domain})
    found = value_of(parameter, foreign)
    assert found == own
    assert type(found) is type(own)


def test_a_parameter_with_one_value_is_none_for_a_library():
    space = {
        "a": uniform(1, 1),
        "b": randint(4, 5),
        "c": choice(["only"]),
        "d": qrandint(10, 15, 10),
        "e": randint(4, 6),
        "f": choice(["x", "y"]),
    }
    assert [each.name for each in varying(space)] == ["e", "f"]
