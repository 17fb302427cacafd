"""TPESearch: it finds good values in every kind of space, and nothing that trials do throws it off."""

import math
import pickle
import random
import statistics

import pytest
from kit import best, bowl, fit, play

from minitune import TuneConfig, report
from minitune.result import flatten
from minitune.schedulers import ASHAScheduler, HyperBandForBOHB
from minitune.search import AutoSearch, TPESearch, create_searcher
from minitune.search.bohb import TuneBOHB
from minitune.simulation import simulate
from minitune.space import domains
from minitune.space.domains import fits


def search(searched, **kwargs):
    return TPESearch(searched, **{"metric": "loss", "mode": "min", "seed": 1, **kwargs})


SQUARE = {"x": domains.uniform(0, 1), "y": domains.uniform(0, 1), "z": domains.uniform(0, 1)}


# -- quality -----------------------------------------------------------------------------------------------------------


def test_tpe_is_far_better_than_chance():
    found, by_chance = [], []
    for seed in range(5):
        found.append(best(play(search(SQUARE, seed=seed), bowl, 60)))
        rng = random.Random(seed)
        by_chance.append(min(bowl({name: rng.random() for name in SQUARE}) for _ in range(60)))

    assert statistics.median(found) < statistics.median(by_chance) / 5


KINDS = {
    "uniform": (domains.uniform(-5, 5), 1.5),
    "loguniform": (domains.loguniform(1e-6, 1), 1e-3),
    "quniform": (domains.quniform(0, 1, 0.05), 0.65),
    "qloguniform": (domains.qloguniform(0.5, 100, 0.5), 20.0),
    "randn": (domains.randn(10, 2), 12.0),
    "qrandn": (domains.qrandn(0, 1, 0.1), -0.7),
    "randint": (domains.randint(-10, 50), 33),
    "qrandint": (domains.qrandint(0, 100, 10), 70),
    "lograndint": (domains.lograndint(1, 10_000), 100),
    "qlograndint": (domains.qlograndint(8, 1024, 8), 128),
    "choice": (domains.choice(list(range(20))), 13),
    "one value": (domains.uniform(2, 2), 2),
    "one category": (domains.choice([7]), 7),
}


@pytest.mark.parametrize("name", KINDS)
def test_every_kind_of_domain_is_searched_and_never_left(name):
    domain, target = KINDS[name]
    is_log = "log" in name

    def distance(config):
        return abs(math.log(config["x"] / target)) if is_log else abs(config["x"] - target)

    played = play(search({"x": domain, "other": domains.uniform(0, 1)}), distance, 50)

    assert all(
        domain.is_valid(config["x"]) and type(config["x"]) is type(domain.cast(config["x"])) for config, _ in played
    )
    early, late = played[:10], played[-10:]
    middle = statistics.median
    assert middle(value for _, value in late) <= middle(value for _, value in early)


TREE = {
    "lr": domains.loguniform(1e-4, 1),
    "model": domains.choice(
        [
            {"kind": "forest", "depth": domains.randint(1, 20)},
            {
                "kind": "svm",
                "c": domains.loguniform(1e-3, 1e3),
                "kernel": domains.choice(["rbf", {"degree": domains.randint(2, 6)}]),
            },
            "linear",
        ]
    ),
    "layers": [domains.randint(1, 9), domains.uniform(0, 1)],
    "constant": "kept",
}


def tree_loss(config):
    model = config["model"]
    loss = abs(math.log10(config["lr"]) + 2) + abs(config["layers"][1] - 0.5)
    if model == "linear":
        return loss + 2
    if model["kind"] == "forest":
        return loss + 1 + abs(model["depth"] - 7) / 20
    return loss + abs(math.log10(model["c"]) - 1) + (model["kernel"] == "rbf") * 0.5


def test_parameters_below_a_category_are_there_only_with_it():
    played = play(search(TREE), tree_loss, 80)

    assert all(fits(TREE, config) and config["constant"] == "kept" for config, _ in played)
    late = [config["model"] for config, _ in played[-20:]]
    assert sum(model != "linear" and model["kind"] == "svm" for model in late) >= 12
    assert best(played) < 0.7


FINITE = {
    "a": domains.choice(list("abcd")),
    "b": domains.randint(0, 5),
    "c": domains.choice([{"d": domains.quniform(0, 0.1, 0.1)}, None]),
}


@pytest.mark.parametrize("kind", [TPESearch, AutoSearch])
def test_a_finite_space_is_tried_whole_before_anything_is_tried_twice(kind, caplog):
    searcher = kind(FINITE, metric="loss", mode="min", seed=1, n_initial_points=5)

    played = play(searcher, lambda config: config["b"] + (config["a"] == "c"), 60)

    assert len({repr(config) for config, _ in played}) == 60
    assert "tried" not in caplog.text
    play(searcher, lambda config: config["b"], 3, first=60)
    assert caplog.text.count("all 60 configurations of the search space have been tried") == 1


TWINS = [["ok", "ok", "fail"], [[1], [1], [2]], [{"x": domains.uniform(0, 1)}, "no", "no"], [1, True, 1.0, 1]]


@pytest.mark.parametrize("categories", TWINS)
def test_a_search_that_knows_the_values_of_equal_categories_goes_on_as_one_that_drew_them(categories):
    space = {"a": domains.uniform(0, 1), "c": domains.choice(categories)}
    drew, knows = (TPESearch(space, metric="loss", mode="min", seed=1, n_initial_points=3) for _ in range(2))
    for number in range(20):
        config = drew.suggest(str(number))
        knows.adopt(str(number), pickle.loads(pickle.dumps(config)))
        for searcher in (drew, knows):
            searcher.on_trial_complete(str(number), {"loss": config["a"]})
    assert repr(drew.suggest("last")) == repr(knows.suggest("last"))


def test_equal_categories_are_one_configuration(caplog):
    searcher = TPESearch({"c": domains.choice([1, 1, 2, 2, 3])}, metric="loss", mode="min", seed=1)
    assert sorted(config["c"] for config, _ in play(searcher, lambda config: config["c"], 3)) == [1, 2, 3]
    play(searcher, lambda config: config["c"], 1, first=3)
    assert "all 3 configurations of the search space have been tried" in caplog.text


def test_a_space_with_a_function_is_never_used_up(caplog):
    space = {"a": domains.choice([1, 2]), "b": domains.sample_from(lambda config: random.random())}
    searcher = TPESearch(space, metric="loss", mode="min", seed=1)
    play(searcher, lambda config: config["a"], 8)
    assert "have been tried" not in caplog.text


INFINITE = {
    "edge": ({"x": domains.uniform(0, 1)}, lambda config: config["x"]),
    "corner": (
        {"x": domains.uniform(0, 1), "y": domains.uniform(0, 1)},
        lambda config: config["x"] - config["y"],
    ),
    "numbers of all kinds": (
        {"x": domains.uniform(0, 1), "k": domains.choice(["a", "b"]), "n": domains.randint(0, 5)},
        lambda config: config["x"] + config["n"] + (config["k"] == "a"),
    ),
    "below a category": (
        {"m": domains.choice(["a", {"x": domains.uniform(0, 1)}])},
        lambda config: -1.0 if config["m"] == "a" else config["m"]["x"],
    ),
}


@pytest.mark.parametrize("name", INFINITE)
@pytest.mark.parametrize("kind", [TPESearch, AutoSearch, TuneBOHB])
def test_in_an_infinite_space_nothing_is_tried_twice_or_nearly(kind, name):
    space, function = INFINITE[name]
    searcher = kind(space, metric="loss", mode="min", seed=3)
    if name == "edge":
        searcher.add_evaluated_point({"x": 0.0}, 0.0)

    played = play(searcher, function, 60)

    tried = [{"x": 0.0}] if name == "edge" else []
    for config, _ in played:
        flat = flatten(config)
        assert not [other for other in tried if are_near(flat, other)]
        tried.append(flat)


def are_near(one, other):
    """Whether two configurations differ by at most a thousandth of the range in each number, and in no category."""
    numbers = {"x", "y", "m/x"}
    if one.keys() != other.keys() or any(one[key] != other[key] for key in one.keys() - numbers):
        return False
    return all(abs(one[key] - other[key]) <= 1e-3 for key in one.keys() & numbers)


def test_the_best_of_two_earlier_runs_is_tried_once(tmp_path):
    space = {"x": domains.uniform(0, 1)}
    earlier = []
    for name in ("one", "two"):
        points = [{"x": 0.0}, {"x": 0.3}, {"x": 0.5}]
        search_alg = TPESearch(points_to_evaluate=points)
        run = fit(report_x, space, search_alg=search_alg, num_samples=3, metric="loss", mode="min", name=name)
        earlier.append(run)

    grid = fit(report_x, space, search_alg="tpe", warm_start=earlier, num_samples=12, metric="loss", mode="min", seed=1)

    tried = [result.config["x"] for result in grid]
    assert 0.0 in tried
    assert len(set(tried)) == 12


def report_x(config):
    report({"loss": config["x"]})


@pytest.mark.parametrize("kind", [TPESearch, AutoSearch])
def test_all_of_a_finite_space_is_proposed_while_others_run(kind):
    space = {"n": domains.lograndint(1, 13), "x": domains.quniform(0.1, 0.3, 0.1)}
    searcher = kind(space, metric="loss", mode="min", seed=2)
    searcher.add_evaluated_point({"n": 3}, 1.0)  # only a part of a configuration, so none is used up by it

    proposed = [searcher.suggest(str(number)) for number in range(36)]

    assert len({repr(config) for config in proposed}) == 36


def test_the_rest_of_a_finite_space_is_tried_in_the_order_of_its_promise():
    space = {f"x{number}": domains.randint(0, 6) for number in range(2)}
    searcher = search(space)
    for index in range(36):
        if index % 3:
            searcher.add_evaluated_point({"x0": index // 6, "x1": index % 6}, abs(index // 6 - 2) + abs(index % 6 - 3))

    values = [value for _, value in play(searcher, lambda config: abs(config["x0"] - 2) + abs(config["x1"] - 3), 12)]

    assert sum(values[:6]) < sum(values[6:])


def test_a_space_without_parameters_is_suggested_as_it_is():
    played = play(search({"x": 1, "f": {"y": [2]}}), lambda config: 1.0, 15)

    assert all(config == {"x": 1, "f": {"y": [2]}} for config, _ in played)


# -- what trials do ----------------------------------------------------------------------------------------------------


def test_running_trials_keep_others_away():
    searcher = search({"x": domains.uniform(0, 1)})
    play(searcher, lambda config: abs(config["x"] - 0.5), 30)

    together = [float(searcher.suggest(f"p{number}")["x"]) for number in range(12)]

    assert len(set(together)) == 12
    assert statistics.pstdev(together) > 0.02


@pytest.mark.parametrize("bad", [math.nan, None, "text", math.inf])
def test_a_bad_value_counts_as_the_worst(bad):
    played = play(search(SQUARE), lambda config: bad if config["x"] > 0.5 else bowl(config), 60)

    assert sum(config["x"] > 0.5 for config, _ in played[-20:]) <= 8
    assert min(value for _, value in played if isinstance(value, float) and math.isfinite(value)) < 0.03


def test_a_trial_that_ends_without_a_result_counts_with_its_last_one():
    told, silent = search(SQUARE), search(SQUARE)
    for number in range(30):
        for searcher in (told, silent):
            config = searcher.suggest(f"t{number}")
            result = {"loss": bowl(config), "training_iteration": 3}
            searcher.on_trial_result(f"t{number}", {"loss": 9.0, "training_iteration": 1})
            if searcher is silent:
                searcher.on_trial_result(f"t{number}", result)
                searcher.on_pause(f"t{number}")
                searcher.on_trial_complete(f"t{number}")
            else:
                searcher.on_trial_complete(f"t{number}", result)

    assert told.suggest("next") == silent.suggest("next")


def test_a_trial_whose_name_is_used_again_counts_with_its_last_value():
    renamed, again = search(SQUARE), search(SQUARE)
    for number in range(30):
        for searcher, name in ((renamed, f"t{number}"), (again, "again")):
            config = searcher.suggest(name)
            searcher.on_trial_result(name, {"loss": bowl(config), "training_iteration": 1})
            if searcher is renamed:
                searcher.on_trial_complete(name)

    assert renamed.suggest("next") == again.suggest("again")


# -- points, warm start, state -----------------------------------------------------------------------------------------


def test_points_come_first_and_are_completed():
    points = [
        {"lr": 0.5, "layers": [3, 0.25]},
        {"lr": 0.5, "layers": [3, 0.25]},
        {"model": {"kind": "svm", "c": 2.0}},
        {"model": "linear"},
    ]

    first = [config for config, _ in play(search(TREE, points_to_evaluate=points), lambda config: 1.0, 4)]

    assert [config["lr"] for config in first[:2]] == [0.5, 0.5]
    assert [config["layers"] for config in first[:2]] == [[3, 0.25]] * 2
    assert (first[2]["model"]["c"], first[2]["model"]["kind"]) == (2.0, "svm")
    assert "kernel" in first[2]["model"]
    assert first[3]["model"] == "linear"


def test_a_point_with_an_unknown_parameter_is_refused():
    with pytest.raises(ValueError, match="got 'rate'"):
        search(TREE, points_to_evaluate=[{"rate": 1}])


def test_evaluated_points_are_learned_from_before_the_space_is_known_too():
    rng = random.Random(0)
    configs = [{name: rng.random() for name in SQUARE} for _ in range(60)]
    early, late = TPESearch(metric="loss", mode="min", seed=1), search(SQUARE)
    for config in configs:
        early.add_evaluated_point(config, bowl(config))
        late.add_evaluated_point(config, bowl(config))
    late.add_evaluated_point({"x": 7.0, "y": 0.1}, 0.0)
    early.add_evaluated_point({"x": 7.0, "y": 0.1}, 0.0)
    early.add_evaluated_point({"x": 0.3}, 0.5, error=True)
    late.add_evaluated_point({"x": 0.3}, 0.5, error=True)
    early.set_search_properties(None, None, SQUARE)

    suggested = [searcher.suggest("t") for searcher in (early, late)]

    assert suggested[0] == suggested[1]
    assert bowl(suggested[0]) < 0.15


def test_a_saved_state_goes_to_a_searcher_whose_space_comes_later(tmp_path):
    searcher = search(SQUARE)
    play(searcher, bowl, 20)
    searcher.save(str(tmp_path / "state"))
    restored = TPESearch(metric="loss", mode="min")
    restored.restore(str(tmp_path / "state"))
    restored.set_search_properties(None, None, SQUARE)

    assert restored.suggest("next") == searcher.suggest("next")


def test_a_searcher_that_goes_on_gives_each_point_once():
    points = [{"x": 0.1}, {"x": 0.2}, {"x": 0.3}]
    first, second = (search({"x": domains.uniform(0, 1)}, points_to_evaluate=points) for _ in range(2))
    assert first.suggest("a") == points[0]

    second.set_state(first.get_state())
    assert [second.suggest(name) for name in "bc"] == points[1:]


def test_a_seed_fixes_everything():
    def of(seed, given):
        searcher = search(TREE, seed=seed)
        searcher.set_seed(given)
        return play(searcher, tree_loss, 25)

    assert of(None, 3) == of(None, 3) == of(3, 8)
    assert of(None, 3) != of(None, 4)


# -- several objectives ------------------------------------------------------------------------------------------------


def test_several_objectives_are_traded_off():
    def front_of(searched):
        """How far from the front, the diagonal x = y with 0 < x < 1, in the mean of the last 30."""
        return statistics.mean(abs(config["x"] - config["y"]) for config in searched[-30:])

    searcher = search(
        {"x": domains.uniform(0, 3), "y": domains.uniform(0, 3)}, metric=["a", "b", "c"], mode=["min", "max", "obs"]
    )
    tried = []
    for number in range(120):
        config = searcher.suggest(f"t{number}")
        x, y = config["x"], config["y"]
        searcher.on_trial_complete(f"t{number}", {"a": x * x + y * y, "b": -((x - 1) ** 2) - (y - 1) ** 2, "c": number})
        tried.append(config)

    assert front_of(tried) < 0.6 < front_of(tried[:30])
    assert statistics.mean(config["x"] + config["y"] for config in tried[-30:]) < 2.2


# -- trials of different lengths ---------------------------------------------------------------------------------------


def unequal(stops_early):
    """Where the next x lies after short trials with good values at large x, long ones with small values at small x."""
    searcher = TPESearch(n_initial_points=40, seed=7)
    searcher.set_search_properties("loss", "min", {"x": domains.uniform(0, 1)}, stops_early=stops_early)
    for number in range(60):
        config = searcher.suggest(f"t{number}")
        x = config["x"]
        steps = 1 if x > 0.5 else 9
        for step in range(1, steps + 1):
            value = 0.1 + abs(x - 0.75) if x > 0.5 else 5 + abs(x - 0.25) - step / 10
            searcher.on_trial_result(f"t{number}", {"loss": value, "training_iteration": step})
        searcher.on_trial_complete(f"t{number}", {"loss": value, "training_iteration": steps})
    return statistics.median(float(searcher.suggest(f"n{number}")["x"]) for number in range(9))


@pytest.mark.parametrize("stops_early", [False, True])
def test_trials_of_different_lengths_are_compared_at_one_step_if_they_may_be_stopped(stops_early):
    assert (unequal(stops_early) < 0.5) == stops_early


def curve(config):
    return [({"loss": bowl(config) + 1 / epoch}, 1.0) for epoch in range(1, 28)]


@pytest.mark.parametrize("scheduler", [ASHAScheduler, HyperBandForBOHB])
def test_tpe_works_with_schedulers_that_stop_trials(scheduler):
    config = TuneConfig(
        metric="loss",
        mode="min",
        num_samples=60,
        search_alg=TPESearch(),
        scheduler=scheduler(max_t=27, reduction_factor=3),
    )

    done = simulate(curve, param_space=SQUARE, tune_config=config, num_workers=4, seed=3)

    assert len(done.results) == 60
    assert done.num_steps < 60 * 27 * 0.7
    assert min(result.metrics["loss"] for result in done.results) < 1 / 27 + 0.06


# -- refusals ----------------------------------------------------------------------------------------------------------


def test_missing_arguments_are_named():
    with pytest.raises(ValueError, match="no search space"):
        TPESearch(metric="loss", mode="min").suggest("t")
    with pytest.raises(ValueError, match="needs a metric and a mode"):
        TPESearch(SQUARE).suggest("t")
    with pytest.raises(ValueError, match="'x' is one; use choice"):
        search({"x": domains.grid_search([1, 2])})
    with pytest.raises(ValueError, match="lists of one length"):
        TPESearch(metric=["a", "b"]).set_search_properties(None, "min", SQUARE)
    assert isinstance(create_searcher("TPE", n_initial_points=4), TPESearch)


# -- what counts of a trial --------------------------------------------------------------------------------------------


def next_after(first, *events, **options):
    """What is suggested after twelve trials and a last one, to which these events happen; `first` is its first loss."""
    searcher = search(SQUARE, **options)
    play(searcher, bowl, 12)
    searcher.suggest("last")
    searcher.on_trial_result("last", {"loss": first, "training_iteration": 1})
    for name, *arguments in events:
        getattr(searcher, name)("last", *arguments)
    return searcher.suggest("next")


def test_a_trial_that_has_failed_is_the_worst_whatever_it_has_reported():
    failed = next_after(-1.0, ("on_trial_complete", None, True))

    assert failed == next_after(math.nan, ("on_trial_complete", None, True))
    assert failed != next_after(-1.0, ("on_trial_complete", None))


def test_the_model_is_used_when_enough_trials_have_ended():
    def after(count, factor):
        searcher = search(SQUARE, n_initial_points=5)
        play(searcher, lambda config: factor * config["x"], count)
        return searcher.suggest("next")

    assert after(4, 1) == after(4, -1)
    assert after(5, 1) != after(5, -1)


def test_a_trial_that_changes_its_configuration_changes_no_point():
    lists = domains.choice([[1, 2], [3]])
    space = {"x": domains.uniform(0, 1), "layers": lists, "deep": {"list": lists}}
    points = [{"x": 0.5, "layers": [3], "deep": {"list": [3]}}] * 2
    searcher = search(space, points_to_evaluate=points)
    first = searcher.suggest("0")
    first["layers"].append(0)
    first["deep"]["list"].clear()

    assert searcher.suggest("1") == points[0] == {"x": 0.5, "layers": [3], "deep": {"list": [3]}}


def test_without_a_seed_each_searcher_draws_its_own_values():
    first, second = (TPESearch(SQUARE, metric="loss", mode="min").suggest("t") for _ in range(2))

    assert first != second
