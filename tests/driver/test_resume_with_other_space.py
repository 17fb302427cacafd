"""A run that goes on with another search space than it began with: a warning names the differences."""

import enum

import cloudpickle
import pytest
from kit import RUN, Counter, counting, cut, fit, resume, run_path

from minitune import (
    choice,
    grid_search,
    lograndint,
    loguniform,
    put,
    qrandint,
    quniform,
    randint,
    randn,
    run,
    sample_from,
    uniform,
)
from minitune.space.difference import differences

pytestmark = pytest.mark.usefixtures("inline")

GRID = {"i": grid_search([0, 1, 2]), "x": uniform(0, 1)}
WIDER = {"i": grid_search([0, 1, 2, 3]), "x": uniform(5, 6)}
TOLD = "i: grid_search([0, 1, 2]) -> grid_search([0, 1, 2, 3]); x: uniform(0.0, 1.0) -> uniform(5.0, 6.0)"


def by_run(space):
    trials = run(counting(2), config=space, name=RUN, verbose=0, resume="AUTO", max_concurrent_trials=1).trials
    return [trial.config for trial in trials]


def by_restore(space):
    return [result.config for result in resume(counting(2), param_space=space, callbacks=())]


WAYS = pytest.mark.parametrize("go_on", [by_run, by_restore])


@WAYS
def test_one_warning_names_the_difference(go_on, caplog):
    cut(counting(2), GRID, results=3, max_concurrent_trials=1)
    configs = go_on(WIDER)
    (told,) = [record for record in caplog.records if TOLD in record.message]
    assert (told.levelname, told.name) == ("WARNING", "minitune")
    assert str(run_path()) in told.message
    assert configs[0]["x"] < 1
    assert configs[-1]["x"] > 5


@WAYS
@pytest.mark.parametrize("is_same", [True, False])
def test_large_values_are_compared_by_their_content(go_on, is_same, caplog):
    def space(last):
        return {"i": grid_search([0, 1, 2]), "data": b"x" * 2_000_000 + last}

    cut(counting(2), space(b"1"), results=3, max_concurrent_trials=1)
    configs = go_on(space(b"1" if is_same else b"2"))
    assert configs[0]["data"][-1:] == b"1"
    assert ("data: b'xxx" in caplog.text) is not is_same
    assert len(caplog.text) < 2_000


def test_a_finished_run_is_extended_in_another_space_if_that_is_wanted():
    fit(counting(2), {"x": uniform(0, 1)})
    assert len(resume(counting(2), param_space={"x": uniform(5, 6)})) == 1
    grid = resume(counting(2), param_space={"x": uniform(5, 6)}, add_samples=1)
    assert [result.config["x"] > 1 for result in grid] == [False, True]


def test_a_run_whose_space_cannot_be_read_goes_on_and_says_so(caplog):
    cut(Counter, GRID, results=1, stop={"n": 2}, max_concurrent_trials=1)
    (run_path() / "tuner.pkl").write_bytes(b"damaged")
    analysis = run(Counter, config=WIDER, name=RUN, verbose=0, resume=True, stop={"n": 2})
    assert len(analysis.trials) == 4
    assert sum("cannot be compared" in record.message for record in caplog.records) == 1


# -- what differs --------------------------------------------------------------------------------------------------


class Colour(enum.Enum):
    RED = 1
    BLUE = 2


class Net:
    def __init__(self, depth):
        self.depth = depth


@pytest.mark.parametrize(
    ("before", "now", "text"),
    [
        (loguniform(1e-4, 0.1), loguniform(1e-5, 0.1), "a: loguniform(0.0001, 0.1) -> loguniform(1e-05, 0.1)"),
        (uniform(1, 2), loguniform(1, 2), "a: uniform(1.0, 2.0) -> loguniform(1.0, 2.0)"),
        (uniform(0, 1), quniform(0, 1, 0.5), "a: uniform(0.0, 1.0) -> quniform(0.0, 1.0, 0.5)"),
        (qrandint(2, 8, 2), qrandint(2, 8, 4), "a: qrandint(2, 8, 2) -> qrandint(2, 8, 4)"),
        (randint(1, 9), lograndint(1, 9), "a: randint(1, 9) -> lograndint(1, 9)"),
        (randn(0, 1), randn(0, 2), "a: randn(0.0, 1.0) -> randn(0.0, 2.0)"),
        (choice([1, 2]), grid_search([1, 2]), "a: choice([1, 2]) -> grid_search([1, 2])"),
        (choice([1, uniform(0, 1)]), choice([1, 2]), "a: choice([1, uniform(0.0, 1.0)]) -> choice([1, 2])"),
        (choice([Colour.RED]), choice([Colour.BLUE]), "a: choice([<Colour.RED: 1>]) -> choice([<Colour.BLUE: 2>])"),
        (uniform(0, 1), 0.5, "a: uniform(0.0, 1.0) -> 0.5"),
        (True, 1, "a: True -> 1"),
        (1, "1", "a: 1 -> '1'"),
        ({"b": [1, {"c": 2}]}, {"b": [1, {"c": 3}]}, "a/b/1/c: 2 -> 3"),
        ([1, 2], [1, 2, 3], "a: [1, 2] -> [1, 2, 3]"),
        ({"b": 1}, {}, "a/b: 1 -> absent"),
        ({}, {"b": 1}, "a/b: absent -> 1"),
        (int, float, "a: <class 'int'> -> <class 'float'>"),
        (1, 1.0, "a: 1 -> 1.0"),
        (list(range(900)), [*range(899), 7], None),
        (choice(range(900)), choice([*range(899), 7]), None),
    ],
)
def test_a_difference_is_shown(before, now, text):
    (shown,) = differences({"a": before, "b": 0}, {"a": now, "b": 0})
    assert shown == text if text else shown.startswith("a: ")
    assert len(shown) < 300


def test_of_many_differences_the_number_is_told():
    shown = differences(dict.fromkeys(range(50), 0), dict.fromkeys(range(50), 1))
    assert (len(shown), shown[-1]) == (11, "and 40 more")


@pytest.mark.parametrize(
    "value",
    [
        *(
            uniform(0, 1),
            quniform(0, 1, 0.1),
            randn(0, 1),
            choice([1, [float("nan"), randint(1, 2)]]),
            grid_search([1]),
        ),
        *(sample_from(lambda: 1), choice([lambda: 1, len, Net, Net(3), Colour.RED]), Net(1)),
        *(float("nan"), [1.0, float("nan")], {"b": {1, 2}}, (1, "a")),
    ],
)
def test_a_space_that_comes_out_of_a_pickle_is_the_same(value):
    assert differences({"a": value}, {"a": cloudpickle.loads(cloudpickle.dumps(value))}) == []


@pytest.mark.parametrize(
    ("before", "now"),
    [
        (sample_from(lambda: 1), sample_from(lambda: 2)),
        (choice([lambda: 1]), choice([lambda: 2])),
        (Net(1), Net(2)),
        (put(1), put(1)),
    ],
)
def test_incomparable_values_are_not_reported_as_different(before, now):
    assert differences({"a": before}, {"a": now}) == []
