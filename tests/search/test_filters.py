"""Constraints and duplicates: what is tried, what is left out, when the search ends, and what searchers hear of it."""

import logging
import math
from collections import Counter

import pytest
from kit import (
    FakeExperiment,
    Listed,
    fit,
)

import minitune as tune
from minitune.search import ConcurrencyLimiter, Repeater, SearchAlgorithm, Searcher, SearchGenerator
from minitune.search.filters import Rules
from minitune.space.parameters import config_key, space_size

NINE = {"a": tune.choice([1, 2, 3]), "b": tune.choice([4, 5, 6])}


def loss(config):
    return {"loss": config.get("a", 0) + config.get("b", 0)}


def minimise(storage, space=None, trainable=loss, **options):
    return fit(trainable, space, storage_path=storage, **{"metric": "loss", "mode": "min", "seed": 3, **options})


def pairs(grid):
    return [tuple(result.config.values()) for result in grid]


class Stuck(Searcher):
    """Suggests the same for ever; takes any space, or says that it has one of its own."""

    def __init__(self, takes_space=True):
        super().__init__()
        self.takes_space = takes_space
        self.config = {"a": 1, "b": 4}
        self.asked = []
        self.told = []
        self.adopted = {}

    def set_search_properties(self, metric, mode, config, **spec):
        super().set_search_properties(metric, mode, config, **spec)
        return self.takes_space

    def suggest(self, trial_id):
        self.asked.append(trial_id)
        return dict(self.config)

    def on_trial_complete(self, trial_id, result=None, error=False):
        self.told.append((trial_id, error))

    def adopt(self, trial_id, config):
        self.adopted[trial_id] = dict(config)


# -- duplicates --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("num_samples", [50, -1])
def test_a_small_space_is_tried_once_and_then_the_search_ends_with_the_reason(tmp_path, caplog, num_samples):
    caplog.set_level(logging.INFO, "minitune")
    grid = minimise(tmp_path, NINE, num_samples=num_samples, on_duplicate="resample")

    assert sorted(pairs(grid)) == [(a, b) for a in (1, 2, 3) for b in (4, 5, 6)]
    assert caplog.text.count("all 9 configurations of the search space have been tried") == 1


def test_the_run_shows_the_reason_at_its_end(tmp_path, capsys):
    settings = tune.TuneConfig(executor="inline", num_samples=5, on_duplicate="resample")
    run = tune.RunConfig(storage_path=str(tmp_path))
    tune.Tuner(loss, param_space={"a": tune.choice([1, 2])}, tune_config=settings, run_config=run).fit()

    assert "No more trials: all 2 configurations of the search space have been tried" in capsys.readouterr().out


def test_by_default_a_configuration_may_be_tried_again(tmp_path):
    grid = minimise(tmp_path, {"a": tune.choice([1])}, num_samples=3)
    assert pairs(grid) == [(1,)] * 3


def test_a_grid_is_not_gone_through_twice(tmp_path):
    grid = minimise(tmp_path, {"a": tune.grid_search([1, 2]), "b": 4}, num_samples=3, on_duplicate="resample")
    assert pairs(grid) == [(1, 4), (2, 4)]


def test_grid_and_choice_together_are_tried_completely(tmp_path):
    space = {"a": tune.grid_search([1, 2]), "b": tune.choice([4, 5, 6])}
    grid = minimise(tmp_path, space, num_samples=40, on_duplicate="resample")
    assert sorted(pairs(grid)) == [(a, b) for a in (1, 2) for b in (4, 5, 6)]


def test_duplicate_points_are_skipped(tmp_path):
    points = [{"a": 1, "b": 4}, {"a": 1, "b": 4}]
    searcher = tune.BasicVariantGenerator(points_to_evaluate=points)
    grid = minimise(tmp_path, NINE, search_alg=searcher, num_samples=50, on_duplicate="resample")

    assert pairs(grid)[0] == (1, 4)
    assert pairs(grid).count((1, 4)) == 1
    assert len(grid) == 9


def test_an_uncountable_space_ends_without_new_configs(tmp_path, caplog):
    space = {"a": tune.sample_from(lambda: 1)}
    grid = minimise(tmp_path, space, num_samples=3, on_duplicate="resample")

    assert pairs(grid) == [(1,)]
    assert "proposals were refused" in caplog.text


def test_a_searcher_that_repeats_itself_is_helped_out(tmp_path):
    searcher = Stuck()
    grid = minimise(tmp_path, NINE, search_alg=searcher, num_samples=50, on_duplicate="resample")

    assert sorted(pairs(grid)) == [(a, b) for a in (1, 2, 3) for b in (4, 5, 6)]
    assert pairs(grid)[0] == (1, 4)
    known = [*searcher.asked, *searcher.adopted]
    assert Counter(known) == Counter(trial_id for trial_id, _ in searcher.told)
    assert len(set(known)) == len(grid)
    assert [error for _, error in searcher.told].count(False) == 9
    assert [*searcher.adopted.values()] == [result.config for result in grid][1:]


def test_a_searcher_with_a_space_of_its_own_ends_the_search(tmp_path, caplog):
    grid = minimise(tmp_path, search_alg=Stuck(takes_space=False), num_samples=5, on_duplicate="resample")

    assert len(grid) == 1
    assert "had been tried before" in caplog.text


def test_nothing_is_drawn_where_the_searcher_knows_more_than_the_run(tmp_path):
    for number, space in enumerate([{}, {"b": tune.choice([1, 2])}]):
        grid = minimise(tmp_path / str(number), space, search_alg=Stuck(), num_samples=5, on_duplicate="resample")
        assert pairs(grid) == [(1, 4)] or sorted(pairs(grid)) == [(4, 1)]


def test_a_searcher_hears_how_the_trials_that_were_drawn_in_its_place_end(tmp_path):
    def fails_at_five(config):
        tune.report({"loss": config["b"]})
        if config["b"] == 5:
            raise ValueError("five")

    searcher = Stuck()
    grid = minimise(
        tmp_path,
        {"a": 1, "b": tune.choice([4, 5, 6])},
        fails_at_five,
        search_alg=searcher,
        num_samples=3,
        on_duplicate="resample",
    )

    assert sorted(pairs(grid)) == [(1, 4), (1, 5), (1, 6)]
    ended = {config["b"]: (trial_id, config["b"] == 5) for trial_id, config in searcher.adopted.items()}
    assert ended.keys() == {5, 6}
    assert set(searcher.told) >= set(ended.values())


def test_for_a_searcher_that_adopts_nothing_no_configuration_is_drawn(tmp_path, caplog):
    class Deaf(Stuck):
        adopt = Searcher.adopt

    searcher = Deaf()
    grid = minimise(tmp_path, NINE, search_alg=searcher, num_samples=50, on_duplicate="resample")

    assert pairs(grid) == [(1, 4)]
    assert "the last 1000 proposals were refused: 1000 had been tried before" in caplog.text
    assert Counter(searcher.asked) == Counter(trial_id for trial_id, _ in searcher.told)


@pytest.mark.parametrize("batch", [False, True])
def test_with_a_limiter_and_repeats(tmp_path, batch):
    inner = Stuck()
    searcher = ConcurrencyLimiter(Repeater(inner, repeat=2), 2, batch=batch)
    grid = minimise(tmp_path, NINE, search_alg=searcher, num_samples=50, on_duplicate="resample")

    counts = Counter((result.config["a"], result.config["b"]) for result in grid)
    assert len(counts) == 9
    assert set(counts.values()) == {2}
    assert Counter([*inner.asked, *inner.adopted]) == Counter(trial_id for trial_id, _ in inner.told)


def test_a_search_algorithm_that_makes_its_trials_itself_says_so(tmp_path):
    with pytest.raises(ValueError, match=r"do not work with SearchAlgorithm, which makes its trials itself"):
        minimise(tmp_path, search_alg=SearchAlgorithm(), on_duplicate="resample")


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ({"x": 1}, {"x": 1.0}, True),
        ({"x": 1}, {"x": True}, False),
        ({"x": 0.0}, {"x": -0.0}, True),
        ({"x": math.nan}, {"x": float("nan")}, True),
        ({"x": 1, "y": 2}, {"y": 2, "x": 1}, True),
        ({"x": [1, {"y": 2}]}, {"x": (1.0, {"y": 2})}, True),
        ({"x": "1"}, {"x": 1}, False),
        ({"x": None}, {"x": "None"}, False),
        ({"x": ["a", "b"]}, {"x": ["a,b"]}, False),
        ({"x": {1, 2}}, {"x": {2, 1}}, True),
        ({"x": lambda: 1}, {"x": lambda: 2}, False),
        ({"x": len}, {"x": len}, True),
        ({"x": 10**30}, {"x": 1e30}, False),
    ],
)
def test_configurations_are_equal_if_their_values_are(one, other, same):
    assert (config_key(one) == config_key(other)) is same


@pytest.mark.parametrize(
    ("space", "size"),
    [
        (NINE, 9),
        ({"a": 1}, 1),
        ({"a": tune.choice([1, 1.0, True])}, 2),
        ({"a": tune.randint(0, 4), "b": tune.qrandint(2, 8, 2)}, 16),
        ({"a": tune.quniform(0, 1, 0.25)}, 5),
        ({"a": tune.choice([{"kind": "x"}, {"kind": "y", "k": tune.choice([1, 2])}])}, 3),
        ({"a": tune.uniform(0, 1)}, math.inf),
        ({"a": tune.sample_from(lambda: 1)}, math.inf),
        ({"a": tune.qrandn(0, 1, 0.5)}, math.inf),
        ({"a": tune.grid_search([1, 2])}, 2),
    ],
)
def test_the_configurations_of_a_space_are_counted(space, size):
    assert space_size(space) == size


# -- constraints -------------------------------------------------------------------------------------------------------


def test_points_of_a_grid_that_violate_a_constraint_are_left_out_and_counted(tmp_path, caplog):
    space = {"a": tune.grid_search([1, 2, 3]), "b": tune.grid_search([1, 2, 3])}

    def in_order(config):
        return bool(config["a"] < config["b"])

    assert pairs(minimise(tmp_path, space, constraints=[in_order])) == [(1, 2), (1, 3), (2, 3)]
    assert "6 points of the grid were left out: 'in_order' 6 times" in caplog.text


def test_points_that_were_left_out_are_counted_once_if_the_last_one_is_tried(tmp_path, caplog):
    space = {"a": tune.grid_search([1, 2]), "b": tune.grid_search([1, 2])}
    assert pairs(minimise(tmp_path, space, constraints=[lambda c: c["a"] <= c["b"]])) == [(1, 1), (1, 2), (2, 2)]
    assert caplog.text.count("1 points of the grid were left out") == 1


@pytest.mark.parametrize("search_alg", ["random", "tpe"])
def test_a_constraint_that_nothing_fulfils_is_an_error_that_names_it(tmp_path, search_alg):
    def impossible(config):
        return False

    grids = [{"a": tune.grid_search([1, 2])}] if search_alg == "random" else []  # TPE takes none
    for space in ({"a": tune.uniform(0, 1)}, NINE, *grids):
        text = r"^no configuration .*proposals in a row were refused .*'impossible'.*loosen the constraint.* kept$"
        with pytest.raises(ValueError, match=text) as caught:
            minimise(tmp_path / str(len(str(space))), space, constraints=[impossible], search_alg=search_alg)
        assert isinstance(caught.value, tune.TuneError)


class Patient:
    """A constraint that is true at the given calls only, counted from 1."""

    def __init__(self, *true_at):
        self.true_at = true_at
        self.calls = 0

    def __call__(self, config):
        self.calls += 1
        return self.calls in self.true_at


def algorithm(kind, constraint):
    made = tune.BasicVariantGenerator() if kind == "random" else SearchGenerator(tune.TPESearch())
    made.set_rules(Rules(constraints=(constraint,)))
    made.set_seed(1)
    space = {"a": tune.uniform(0, 1)}
    made.set_search_properties("loss", "min", space, num_samples=9)
    made.add_configurations(FakeExperiment(space, 9))
    return made


@pytest.mark.parametrize("kind", ["random", "tpe"])
def test_a_search_ends_after_10000_refusals_in_a_row(kind):
    seldom = Patient(9_000)
    made = algorithm(kind, seldom)
    assert made.next_trial() is not None
    with pytest.raises(ValueError, match="10000 proposals in a row were refused"):
        made.next_trial()


def test_the_error_of_a_constraint_that_fails_shows_the_users_lines_and_no_hook():
    def fails(config):
        return bool(config["missing"])

    with pytest.raises(tune.TuneError, match=r"^the constraint 'fails' raised KeyError: 'missing' for ") as caught:
        fit(lambda config: {"loss": 1}, {"a": tune.uniform(0, 1)}, constraints=[fails])
    assert isinstance(caught.value, ValueError)
    assert isinstance(caught.value.__cause__, KeyError)


@pytest.mark.parametrize(
    ("constraint", "text"),
    [
        (lambda c: None, r"'<lambda>' \(test_filters.py:\d+\) must return True or False, but returned None"),
        (lambda c: 1, r"must return True or False, but returned 1"),
        (lambda c: c["missing"], r"raised KeyError: 'missing' for \{'a': 1\}.*conditional parameter"),
    ],
)
@pytest.mark.parametrize("searcher", [None, Listed({"a": 1})])
def test_a_constraint_that_fails_is_an_error(tmp_path, constraint, text, searcher):
    with pytest.raises(ValueError, match=text):
        minimise(tmp_path, {"a": tune.choice([1])}, search_alg=searcher, constraints=[constraint])


def test_a_constraint_cannot_change_the_configuration(tmp_path):
    def meddles(config):
        config["inner"]["a"] = 5
        return True

    grid = minimise(tmp_path, {"inner": {"a": tune.choice([1])}}, constraints=[meddles])
    assert grid[0].config == {"inner": {"a": 1}}


@pytest.mark.parametrize("kind", [tune.BasicVariantGenerator, tune.TPESearch])
def test_a_point_to_evaluate_that_violates_a_constraint_is_refused_at_once(tmp_path, kind):
    searcher = kind(points_to_evaluate=[{"a": 3, "b": 4}])
    with pytest.raises(ValueError, match=r"every point to evaluate must fulfil the constraint .*but got \{'a': 3"):
        minimise(tmp_path, NINE, search_alg=searcher, constraints=[lambda c: c["a"] < 3])
    assert not (tmp_path / "run").exists()


def test_a_point_to_evaluate_is_completed_within_the_constraints(tmp_path):
    space = {"a": tune.uniform(0, 1), "b": tune.uniform(0, 1)}
    ordered = [lambda c: c["a"] < c["b"]]
    grid = minimise(
        tmp_path, space, search_alg=tune.BasicVariantGenerator(points_to_evaluate=[{"a": 0.9}]), constraints=ordered
    )
    assert grid[0].config["a"] == 0.9 < grid[0].config["b"]
    with pytest.raises(ValueError, match=r"a point to evaluate must leave values that fulfil the constraints.*'a': 1"):
        minimise(tmp_path / "2", space, search_alg=tune.BasicVariantGenerator([{"a": 1.0}]), constraints=ordered)


@pytest.mark.parametrize("own", [True, False])
def test_a_searcher_finds_the_small_part_of_a_space_that_is_feasible(tmp_path, own):
    space = {"x": tune.uniform(0, 1)}
    searcher = tune.TPESearch(space if own else None)
    grid = minimise(tmp_path, {} if own else space, search_alg=searcher, num_samples=12, constraints=[narrow])
    assert len(grid) == 12
    assert all(0.5 < result.config["x"] < 0.51 for result in grid)


def narrow(config):
    """True for 1 % of all configurations."""
    return 0.5 < float(config["x"]) < 0.51


def test_a_small_space_ends_when_all_that_the_constraints_allow_was_tried(tmp_path, caplog):
    caplog.set_level(logging.INFO, "minitune")
    for number, searcher in enumerate([None, Stuck()]):
        grid = minimise(
            tmp_path / str(number),
            NINE,
            search_alg=searcher,
            num_samples=-1,
            on_duplicate="resample",
            constraints=[lambda c: c["a"] + 3 < c["b"]],
        )
        assert sorted(pairs(grid)) == [(1, 5), (1, 6), (2, 6)]
    assert caplog.text.count("all 3 configurations of the search space have been tried; 6 more violate") == 2


def test_conditional_parameters_reach_the_trial_only_where_they_belong(tmp_path):
    kinds = [{"kind": "svm", "c": tune.loguniform(1e-3, 1e3)}, {"kind": "tree", "depth": tune.randint(1, 9)}]
    grid = minimise(tmp_path, {"model": tune.choice(kinds)}, num_samples=20, on_duplicate="resample")
    names = {result.config["model"]["kind"]: set(result.config["model"]) for result in grid}
    assert names == {"svm": {"kind", "c"}, "tree": {"kind", "depth"}}


# -- going on with a run -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("searcher", [None, Stuck()])
def test_a_run_that_goes_on_tries_nothing_again(tmp_path, searcher):
    options = {"search_alg": searcher, "on_duplicate": "resample", "constraints": [lambda c: c["a"] < 3]}
    first = minimise(tmp_path, NINE, num_samples=4, **options)
    tuner = tune.Tuner.restore(str(tmp_path / "run"), loss, add_samples=50)
    grid = tuner.fit()

    assert pairs(grid)[:4] == pairs(first)
    assert sorted(pairs(grid)) == [(a, b) for a in (1, 2) for b in (4, 5, 6)]


def test_more_choices_on_resume_are_tried(tmp_path):
    minimise(tmp_path, {"a": tune.choice([1, 2])}, num_samples=5, on_duplicate="resample")
    space = {"a": tune.choice([1, 2, 3])}
    grid = tune.Tuner.restore(str(tmp_path / "run"), loss, param_space=space, add_samples=5).fit()
    assert sorted(pairs(grid)) == [(1,), (2,), (3,)]
