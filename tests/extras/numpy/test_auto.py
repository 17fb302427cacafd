"""AutoSearch: a Gaussian process, Parzen estimators and an evolution strategy, and each does what it can."""

import itertools
import math
import random
import statistics
from typing import Any

import pytest
from kit import best, bowl, fit, play

from minitune import TuneConfig, report
from minitune.schedulers import ASHAScheduler
from minitune.search import AutoSearch, TPESearch, create_searcher
from minitune.search.evolution import Evolution
from minitune.search.improvement import Improvement
from minitune.search.parzen import KernelSpace, Point
from minitune.space.domains import choice, fits, lograndint, loguniform, quniform, randint, randn, uniform
from minitune.space.parameters import Axis

Config = dict[str, Any]

SQUARE = {"x": uniform(0, 1), "y": uniform(0, 1), "z": uniform(0, 1)}
MIXED = {
    "lr": loguniform(1e-5, 1e-1),
    "layers": randint(1, 6),
    "units": lograndint(8, 512),
    "drop": quniform(0, 0.5, 0.1),
    "bias": randn(0, 1),
    "act": choice(["relu", "tanh", "gelu"]),
}
CONDITIONAL = {
    "share": uniform(0, 1),
    "model": choice(
        [
            {"kind": "tree", "depth": randint(1, 20)},
            {
                "kind": "svm",
                "C": loguniform(1e-3, 1e4),
                "gamma": loguniform(1e-6, 10),
                "kernel": choice(["rbf", "sigmoid"]),
            },
        ]
    ),
}


def search(space, kind=AutoSearch, **settings):
    return kind(space, **{"metric": "loss", "mode": "min", "seed": 1, **settings})


def mixed(config):
    off = (math.log10(config["lr"]) + 3) ** 2 + (config["layers"] - 2) ** 2 / 4 + config["bias"] ** 2 / 4
    return off + (math.log2(config["units"]) - 6) ** 2 / 8 + config["drop"] + (config["act"] != "tanh")


def by_model(config):
    model = config["model"]
    if model["kind"] == "tree":
        return 0.1 + (model["depth"] - 7) ** 2 / 50 + (config["share"] - 0.5) ** 2
    off = (math.log10(model["C"]) - 1) ** 2 + (math.log10(model["gamma"]) + 3) ** 2
    return off / 10 + (config["share"] - 0.8) ** 2 + (model["kernel"] != "rbf") / 4


FOUR_TIMES = {f"{name}{copy}": domain for copy in range(4) for name, domain in MIXED.items()}


def four_times(config):
    return sum(mixed({name: config[f"{name}{copy}"] for name in MIXED}) for copy in range(4))


@pytest.mark.parametrize(
    ("space", "function"),
    [(SQUARE, bowl), (MIXED, mixed), (CONDITIONAL, by_model), (FOUR_TIMES, four_times)],
    ids=["numbers", "mixed", "conditional", "many mixed"],
)
def test_on_a_smooth_function_it_is_far_ahead_of_the_estimators(space, function):
    found = {
        kind: statistics.median(best(play(search(space, kind, seed=seed), function, 40)) for seed in range(3))
        for kind in (AutoSearch, TPESearch)
    }

    assert found[AutoSearch] < found[TPESearch] / 2


@pytest.mark.parametrize("space", [SQUARE, MIXED, CONDITIONAL], ids=["numbers", "mixed", "conditional"])
def test_the_first_trial_has_the_middle_of_each_range(space):
    config = search(space).suggest("1")

    assert isinstance(config, dict)
    if space is SQUARE:
        assert config == {"x": 0.5, "y": 0.5, "z": 0.5}
    if space is MIXED:
        assert config["lr"] == pytest.approx(1e-3)
        assert config["layers"] == 3
    if space is CONDITIONAL:
        model = config["model"]
        assert config["share"] == 0.5
        assert model == {"kind": "tree", "depth": 10} or model["C"] == pytest.approx(10**0.5)


def test_a_known_point_takes_the_place_of_the_middle():
    searcher = search(SQUARE)
    searcher.add_evaluated_point({"x": 0.5, "y": 0.5, "z": 0.5}, 1.0)

    assert searcher.suggest("1") != {"x": 0.5, "y": 0.5, "z": 0.5}


def test_the_middle_follows_the_points_to_evaluate():
    guess = {"x": 0.1, "y": 0.2, "z": 0.3}
    searcher = search(SQUARE, points_to_evaluate=[guess])

    assert searcher.suggest("1") == guess
    assert searcher.suggest("2") == {"x": 0.5, "y": 0.5, "z": 0.5}
    assert searcher.suggest("3") != {"x": 0.5, "y": 0.5, "z": 0.5}


def test_a_point_to_evaluate_in_the_middle_is_not_tried_twice():
    searcher = search({"C": loguniform(1e-3, 1e3)}, points_to_evaluate=[{"C": 1.0}])

    assert searcher.suggest("1") == {"C": 1.0}
    assert searcher.suggest("2")["C"] != pytest.approx(1.0)


def test_a_parameter_that_does_not_exist_tells_nothing():
    """Two processes differ only in what their points have for a number below another category."""

    def suggested_with(hidden):
        kernel_space = KernelSpace([Axis(uniform(0, 1)), Axis(uniform(0, 1))], [2], [0, 2, 0])
        points = [kernel_space.pack((place, hidden), [0]) for place in (0.3, 0.5, 0.9)]
        process = Improvement(kernel_space, points, [0.0, 1.0, 3.0], [], [], (), random.Random(0))
        return process.best_of([Point((place, 0.5), 1) for place in (0.05, 0.2, 0.35, 0.7)])

    assert suggested_with(0.1) == suggested_with(0.9)


def test_suggestions_that_are_pending_keep_apart():
    searcher = search({"x": uniform(0, 1)}, n_initial_points=4)
    for x, loss in ((0.0, 0.2), (0.3, 1.0), (0.6, 0.0), (0.9, 1.0)):
        searcher.add_evaluated_point({"x": x}, loss)

    first, second = [searcher.suggest(str(number)) for number in range(4)][1::2]  # those of the process

    assert abs(first["x"] - second["x"]) > 0.03


def test_the_process_keeps_away_from_failures():
    searcher = search({"x": uniform(0, 1)}, n_initial_points=4)
    for x, loss in ((0.0, 0.2), (0.3, 1.0), (0.6, 0.0), (0.9, 1.0)):
        searcher.add_evaluated_point({"x": x}, loss)

    failed = [config["x"] for config, _ in play(searcher, lambda config: None, 6)][1::2]  # those of the process

    assert min(abs(one - other) for one, other in itertools.combinations(failed, 2)) > 0.03


def test_a_failure_is_learned_from():
    def fails_above(config):
        return None if config["x"] > 0.5 else (config["x"] - 1) ** 2

    tried = [config["x"] for config, _ in play(search({"x": uniform(0, 1)}), fails_above, 40)]

    assert sum(x > 0.55 for x in tried[20:]) <= 6
    assert max(x for x in tried if x <= 0.5) > 0.48


@pytest.mark.parametrize(
    ("fails", "successes"),
    [
        (lambda config, rng: rng.random() < 0.2, 25),
        (lambda config, rng: config["x"] > 0.35, 22),
        (lambda config, rng: max(abs(value - 0.35) for value in config.values()) > 0.23, 12),
    ],
    ids=["a fifth at random", "half of the space", "nine tenths of the space"],
)
def test_failures_keep_nothing_away_from_the_optimum(fails, successes):
    """Of forty trials, at least so many succeed, and they come as near to the optimum as without failures."""
    found = []
    for seed in range(3):
        rng = random.Random(seed)
        played = play(search(SQUARE, seed=seed), lambda c, rng=rng: None if fails(c, rng) else bowl(c), 40)
        found.append((best(played), sum(value is not None for _, value in played)))

    assert statistics.median(loss for loss, _ in found) < 3e-4
    assert statistics.median(count for _, count in found) >= successes


def test_a_run_of_failures_alone_is_searched_on():
    assert len(play(search(SQUARE), lambda config: None, 15)) == 15
    assert len(play(search(SQUARE), lambda config: math.nan, 15)) == 15


def test_equal_values_everywhere_are_no_obstacle():
    assert len(play(search(SQUARE), lambda config: 1.0, 20)) == 20


def test_the_largest_floats_are_no_obstacle():
    def cliff(config):
        return (1 if config["y"] > 0.5 else -1) * 1e308 if config["x"] > 0.7 else bowl(config)

    assert len(play(search(SQUARE), cliff, 20)) == 20


def test_a_cliff_does_not_hide_small_values():
    def cliff(config):
        return 1e9 if config["x"] > 0.7 else bowl(config)

    assert best(play(search(SQUARE), cliff, 40)) < 0.005


@pytest.mark.parametrize(
    "space",
    [
        {"c": choice(list("ab")), **{f"x{number}": uniform(0, 1) for number in range(60)}},
        {"m": choice([{f"{m}{number}": uniform(0, 1) for number in range(30)} for m in "ab"])},
    ],
    ids=["many", "many conditional"],
)
def test_auto_falls_back_to_tpe(space):
    def function(config):
        return sum(len(str(value)) for value in config.values()) / 10

    ours = play(search(space), function, 16)

    assert ours == play(search(space, TPESearch), function, 16)


def test_where_a_scheduler_stops_trials_early_the_estimators_search_alone():
    def train(config):
        for _ in range(4):
            report({"loss": bowl(config)})

    def configs(search_alg):
        grid = fit(
            train,
            SQUARE,
            search_alg=search_alg,
            num_samples=16,
            seed=1,
            max_concurrent_trials=1,
            scheduler=ASHAScheduler(max_t=4),
            metric="loss",
            mode="min",
        )
        return [result.config for result in grid]

    assert configs("auto") == configs("tpe")


def suggested(axes, size, best, others):
    """Where a process searches a region, with such points on the diagonal; the first one is the best."""
    kernel_space = KernelSpace([Axis(each) for each in axes], [])
    points = [Point((place,) * len(axes), 0) for place in (best, *others)]
    values = [float(number) for number in range(len(points))]
    return Improvement(kernel_space, points, values, [], [], (), random.Random(0)).suggest(size).coordinates


def test_in_a_small_region_the_process_stays_near_the_best_point():
    axes = [uniform(0, 1)] * 3

    small = suggested(axes, 0.05, 0.3, [0.35, 0.4])
    large = suggested(axes, 1.0, 0.3, [0.35, 0.4])

    assert max(abs(place - 0.3) for place in small) < 0.05
    assert max(abs(place - 0.3) for place in large) > 0.15


def test_the_smallest_region_reaches_the_next_integer():
    found = suggested([randint(0, 5)] * 2, 0.04, 0.5, [0.9])

    assert found != (0.5, 0.5)


def test_a_search_comes_near_the_optimum_of_a_curved_valley():
    def valley(config):
        x, y = 4 * config["x"] - 1.5, 4 * config["y"] - 1.5
        return float(100 * (y - x * x) ** 2 + (1 - x) ** 2)

    space = {"x": uniform(0, 1), "y": uniform(0, 1)}

    assert statistics.median(best(play(search(space, seed=seed), valley, 50)) for seed in range(9)) < 0.1


def test_a_searcher_is_made_by_its_name_and_learns_from_known_points():
    searcher = create_searcher("auto", metric="loss", mode="min", space=SQUARE, seed=3)
    assert type(searcher) is AutoSearch
    rng = random.Random(0)
    for _ in range(30):
        config = {name: rng.random() for name in SQUARE}
        searcher.add_evaluated_point(config, bowl(config))

    assert best(play(searcher, bowl, 6)) < 0.01
    assert TuneConfig(search_alg="auto").search_alg == "auto"


# -- many numbers ------------------------------------------------------------------------------------------------------

OPTIMUM = [random.Random(number).uniform(0.2, 0.8) for number in range(61)]
MANY = {f"x{number}": uniform(0, 1) for number in range(20)}


def far(config):
    return sum((value - place) ** 2 for value, place in zip(config.values(), OPTIMUM, strict=False))


@pytest.mark.parametrize(("count", "pending"), [(20, 1), (20, 8), (61, 1)])
def test_of_many_numbers_far_better_ones_are_found_than_by_the_estimators(count, pending):
    space = {f"x{number}": uniform(0, 1) for number in range(count)}

    def run(kind, seed):
        searcher, values, live = search(space, kind, seed=seed), [], []
        for number in range(150):
            config = searcher.suggest(str(number))
            assert isinstance(config, dict)
            live.append((str(number), far(config)))
            if len(live) == pending:
                name, value = live.pop(0)
                searcher.on_trial_complete(name, {"loss": value})
                values.append(value)
        return min(values)

    found = {kind: statistics.median(run(kind, seed) for seed in range(3)) for kind in (AutoSearch, TPESearch)}

    assert found[AutoSearch] < found[TPESearch] / 2


def test_many_numbers_of_all_kinds_stay_in_their_domains():
    space = {f"{name}{copy}": domain for copy in range(4) for name, domain in MIXED.items() if name != "act"}

    assert all(fits(space, config) for config, _ in play(search(space), lambda config: sum(config.values()), 60))


def test_many_numbers_are_searched_on_after_failures_and_from_known_points():
    def fails_at_first(config):
        return None if config["x0"] > 0.5 else far(config)

    without = best(play(search(MANY), far, 40))
    searcher = search(MANY)
    play(searcher, lambda config: math.nan, 25)
    play(searcher, fails_at_first, 10, first=25)
    for _ in range(10):
        near = {f"x{number}": place + 0.02 for number, place in enumerate(OPTIMUM[: len(MANY)])}
        searcher.add_evaluated_point(near, far(near))

    found = [value for _, value in play(searcher, far, 30, first=35)]

    assert min(found) < 0.7 * without


def test_a_saved_search_of_many_numbers_goes_on_as_it_would_have():
    whole = play(search(MANY), far, 60)
    first, second = search(MANY), search(MANY, seed=99)
    play(first, far, 37)
    play(second, far, 15)  # it forgets what it has learned before

    second.set_state(first.get_state())

    assert play(second, far, 23, first=37) == whole[37:]


def evolve(axes, function, count):
    """An evolution strategy that has seen so many of its draws, and these."""
    rng, evolution = random.Random(1), Evolution(KernelSpace([Axis(each) for each in axes], []))
    places = []
    for _ in range(count):
        point = evolution.draw(rng)
        places.append(point.coordinates)
        evolution.tell(point, function(point.coordinates))
    return evolution, places


def middle(evolution):
    """Where an evolution strategy draws, on each axis."""
    rng = random.Random(2)
    return [
        statistics.fmean(column) for column in zip(*(evolution.draw(rng).coordinates for _ in range(200)), strict=True)
    ]


LINE = [uniform(0, 1)] * 4


def test_failures_are_the_worst_draws_of_an_evolution():
    def run(failure):
        return evolve(LINE, lambda places: failure if places[0] > 0.5 else -places[0], 100)[1]

    assert run(math.nan) == run(1e300)


def test_a_generation_of_failures_moves_no_evolution():
    before, _ = evolve(LINE, sum, 0)
    after, _ = evolve(LINE, lambda places: math.nan, 50)

    assert after.draw(random.Random(0)) == before.draw(random.Random(0))


def test_an_evolution_goes_to_the_border_but_does_not_pile_up_there():
    evolution, places = evolve(LINE, sum, 400)

    assert max(middle(evolution)) < 0.05
    assert min(map(min, places)) > 0


def test_an_evolution_learns_how_far_to_go_on_each_axis():
    def ellipsoid(places):
        return sum(100**index * (place - 0.4) ** 2 for index, place in enumerate(places))

    evolution, _ = evolve(LINE, ellipsoid, 600)

    rng = random.Random(2)
    columns = zip(*(evolution.draw(rng).coordinates for _ in range(200)), strict=True)
    widths = [statistics.pstdev(column) for column in columns]
    assert widths[0] > 30 * widths[-1]


def test_a_known_point_far_away_draws_an_evolution_but_does_not_throw_it():
    evolution, _ = evolve(LINE, lambda places: sum((place - 0.5) ** 2 for place in places), 300)
    rng = random.Random(3)
    for point in [Point((0.95,) * 4, 0), *(evolution.draw(rng) for _ in range(9))]:
        evolution.tell(point, sum((place - 0.95) ** 2 for place in point.coordinates))

    assert 0.5 < min(middle(evolution)) < max(middle(evolution)) < 0.6


def test_an_integer_that_has_come_to_rest_is_moved_at_times():
    _, places = evolve([randint(0, 30)] * 4, lambda places: sum((place - 0.3) ** 2 for place in places), 600)

    assert len(set(places[-50:])) > 5


def test_an_evolution_that_has_come_to_an_end_looks_elsewhere():
    rng, evolution = random.Random(0), Evolution(KernelSpace([Axis(uniform(0, 1))] * 16, []))
    widths = []
    for _ in range(4_000):
        point = evolution.draw(rng)
        off = math.dist(point.coordinates, OPTIMUM[:16])
        evolution.tell(point, off)
        widths.append(off)
    least = min(widths)

    assert least < 1e-4
    assert max(widths[widths.index(least) :]) > 0.5
