"""Stoppers: when they stop, which arguments they refuse, and their saved states."""

import datetime
import math
import pickle
import time
from fractions import Fraction

import pytest

from minitune.base import clock
from minitune.error import InvalidArgumentError
from minitune.stopper import (
    CombinedStopper,
    DictStopper,
    ExperimentPlateauStopper,
    FunctionStopper,
    MaximumIterationStopper,
    NoopStopper,
    Stopper,
    TimeoutStopper,
    TrialPlateauStopper,
    make_stopper,
)
from minitune.stopper.stopper import ASKED_EVERY_S, is_goal_of, share_of_time_left


def feed(stopper, values, trial_id="t"):
    return [stopper(trial_id, {} if value is ... else {"m": value}) for value in values]


# -- dict ------------------------------------------------------------------------------------------------------------


def test_a_dict_stops_when_any_limit_is_reached():
    stopper = make_stopper({"training_iteration": 10, "eval/acc": 0.9, "loss": ("<=", 0.1)})
    result = {"training_iteration": 3, "eval": {"acc": 0.5}, "loss": 1.0}
    assert not stopper("t", result)
    assert stopper("t", {**result, "training_iteration": 10})
    assert stopper("t", {**result, "eval": {"acc": 0.9}})
    assert stopper("t", {**result, "loss": 0.1})
    assert not stopper("t", {**result, "loss": math.nan})


def test_a_dict_criterion_may_be_a_bool():
    stopper = DictStopper({"done": True})
    assert not stopper("t", {"done": False})
    assert stopper("t", {"done": True})


@pytest.mark.parametrize(
    ("sign", "below", "at", "above"),
    [
        (">=", False, True, True),
        (">", False, False, True),
        ("<=", True, True, False),
        ("<", True, False, False),
        ("==", False, True, False),
    ],
)
def test_a_limit_may_name_its_comparison(sign, below, at, above):
    stopper = DictStopper({"m": (sign, 2)})
    assert feed(stopper, [1, 2, 3]) == [below, at, above]


def test_a_missing_or_foreign_value_warns_once(caplog):
    stopper = DictStopper({"m": 1})
    assert feed(stopper, [..., ..., "text", None, 0]) == [False] * 5
    assert caplog.messages == ["The stop criterion 'm' has no effect for now: it is not among the reported keys."]
    other = DictStopper({"m": 1})
    other.set_state(stopper.get_state())
    feed(other, [...])
    assert len(caplog.records) == 1
    feed(DictStopper({"m": 1}), ["text"])
    assert "has no effect for now: its value str does not compare" in caplog.messages[-1]


def test_a_dict_tells_its_reason_from_a_flattened_result():
    stopper = DictStopper({"eval/loss": ("<", 0.5), "training_iteration": 9})
    assert stopper.reason({"eval/loss": 0.7, "training_iteration": 3}) == ""
    assert stopper.reason({"eval/loss": 0.4, "training_iteration": 3}) == "eval/loss < 0.5 was reached"


def test_of_several_limits_that_are_reached_the_first_one_is_named():
    stopper = DictStopper({"eval/acc": 0.9, "training_iteration": 9})
    assert stopper("t", {"eval": {"acc": 0.95}, "training_iteration": 9})
    assert stopper.describe() == "eval/acc >= 0.9 was reached"


def test_an_object_with_stop_all_has_to_be_a_stopper():
    class Almost:
        def __call__(self, trial_id, result):
            return False

        def stop_all(self):
            return False

    with pytest.raises(ValueError, match="derive its class"):
        make_stopper(Almost())


def test_make_stopper_accepts_all_forms():
    assert isinstance(make_stopper(None), NoopStopper)
    assert isinstance(make_stopper({}), NoopStopper)
    mine = MaximumIterationStopper(3)
    assert make_stopper(mine) is mine
    assert isinstance(make_stopper(lambda trial_id, result: True), FunctionStopper)
    several = make_stopper([{"m": 5}, lambda trial_id, result: result["m"] < 0, MaximumIterationStopper(4)])
    assert feed(several, [1, -1, 5, 1]) == [False, True, True, True]


# -- the others --------------------------------------------------------------------------------------------------------


def test_the_base_stops_nothing_and_may_be_overridden():
    class Always(Stopper):
        def stop_all(self):
            return True

    assert not Stopper()("t", {})
    assert not NoopStopper().stop_all()
    assert not Always()("t", {})
    assert Always().stop_all()
    assert Stopper().seconds_left() is None
    assert Always().seconds_left() == ASKED_EVERY_S, "its answer may change at any time"


def test_combined_asks_everybody_every_time():
    first, second = MaximumIterationStopper(1), MaximumIterationStopper(3)
    combined = CombinedStopper(first, second)
    assert feed(combined, [1, 2, 3]) == [True] * 3
    assert second.get_state() == {"_counts": {"t": 3}}


def test_combined_hands_out_its_state_by_position():
    combined = CombinedStopper(MaximumIterationStopper(3), NoopStopper())
    feed(combined, [1, 2])
    again = CombinedStopper(MaximumIterationStopper(3), NoopStopper())
    again.set_state(combined.get_state())
    assert feed(again, [1]) == [True]
    with pytest.raises(ValueError, match="same ones as before"):
        CombinedStopper(NoopStopper()).set_state(combined.get_state())
    with pytest.raises(ValueError, match="instances of Stopper"):
        CombinedStopper({"m": 1})


class Wanted(MaximumIterationStopper):
    _is_goal = True


@pytest.mark.parametrize(
    ("iterations", "wanted_iterations", "is_goal"), [(1, 1, True), (9, 1, True), (1, 9, False)], ids=str
)
def test_an_end_is_wanted_if_one_of_those_that_caused_it_wants_it(iterations, wanted_iterations, is_goal):
    stopper = CombinedStopper(MaximumIterationStopper(iterations), Wanted(wanted_iterations))
    assert not is_goal_of(stopper)
    assert feed(stopper, [1]) == [True]
    assert is_goal_of(stopper) == is_goal


def test_combined_describes_those_that_have_stopped_and_no_others():
    combined = make_stopper(({"m": 5}, MaximumIterationStopper(2), lambda trial_id, result: False))
    assert feed(combined, [1, 7]) == [False, True]
    assert combined.describe() == "m >= 5 was reached and 2 results were reported"
    assert feed(combined, [1]) == [True]
    assert combined.describe() == "2 results were reported"


class Callable:
    def __call__(self, trial_id, result):
        return True


def test_a_function_is_described_by_its_name_and_an_object_by_its_class():
    def is_done(trial_id, result):
        return True

    assert FunctionStopper(is_done).describe() == "is_done() returned True"
    assert FunctionStopper(Callable()).describe() == "Callable() returned True"
    assert Wanted(1).describe() == "1 results were reported"
    assert ExperimentPlateauStopper("m").describe() == "ExperimentPlateauStopper"


class Counting(Stopper):
    """Of a user, who overrides nothing for the state."""

    def __init__(self):
        self.calls = 0

    def __call__(self, trial_id, result):
        self.calls += 1
        return self.calls >= 3


def test_all_attributes_of_a_users_stopper_are_its_state():
    stopper = Counting()
    feed(stopper, [1, 2])
    again = Counting()
    again.set_state(stopper.get_state())
    assert feed(again, [3]) == [True]


def test_function_stopper_returns_a_bool():
    stopper = FunctionStopper(lambda trial_id, result: result["m"] > 1 and [1])
    assert feed(stopper, [1, 2]) == [False, True]
    assert FunctionStopper.is_valid_function(print)
    assert not FunctionStopper.is_valid_function(NoopStopper())
    for no_function in (NoopStopper(), NoopStopper, {"m": 1}):
        with pytest.raises(InvalidArgumentError, match="a stop function must be callable"):
            FunctionStopper(no_function)


@pytest.mark.parametrize("max_iter", [2, 2.0, Fraction(2)])
def test_maximum_iteration_counts_its_calls_per_trial(max_iter):
    stopper = MaximumIterationStopper(max_iter)
    assert feed(stopper, [1], "a") == [False]
    assert feed(stopper, [1, 1], "b") == [False, True]
    assert feed(stopper, [1], "a") == [True]


def test_timeout_runs_from_the_first_question_and_survives_a_resume():
    with clock.use(clock.VirtualClock(100.0)) as _:
        now = clock.current
        stopper = TimeoutStopper(datetime.timedelta(seconds=10))
        assert stopper.seconds_left() == 10  # this does not start the time
        now.sleep(1000)
        assert not stopper.stop_all()
        assert stopper.seconds_left() == 10
        now.sleep(4)
        assert not stopper.stop_all()
        resumed = TimeoutStopper(10)
        resumed.set_state(stopper.get_state())
        now.sleep(1000)
        assert not resumed.stop_all()
        assert resumed.seconds_left() == 6
        now.sleep(1)
        assert resumed.get_state() == {"_used_s": 5}
        stopper.set_state({"_used_s": 7})  # also of one whose time runs
        now.sleep(1000)
        assert not stopper.stop_all()
        now.sleep(5)
        assert resumed.stop_all()
        assert resumed.stop_all()
        assert resumed.seconds_left() == 0
        assert not resumed("t", {})


def test_timeout_hears_the_clock_that_a_test_has_replaced(monkeypatch):
    now_s = 1000.0
    monkeypatch.setattr(time, "monotonic", lambda: now_s)
    stopper = TimeoutStopper(10)
    assert not stopper.stop_all()
    now_s += 10
    assert stopper.stop_all()


def test_a_used_up_budget_is_logged_once_and_described(caplog):
    caplog.set_level("INFO", "minitune")
    with clock.use(clock.VirtualClock()):
        stopper = TimeoutStopper(10.123456)
        assert not stopper.stop_all()
        clock.current.sleep(11)
        assert stopper.stop_all()
        assert stopper.stop_all()
    assert [record.getMessage() for record in caplog.records] == [
        "The time budget of 10.1235 s is used up: all trials are stopped."
    ]
    assert stopper.describe() == "the time budget of 10.12 s is used up"
    assert TimeoutStopper(0.0012).describe() == "the time budget of 0.0012 s is used up"


def test_time_counts_that_has_passed_since_the_driver_last_asked():
    with clock.use(clock.VirtualClock()):
        stopper = TimeoutStopper(10)
        assert not stopper.stop_all()
        clock.current.sleep(4)
        assert stopper.seconds_left() == 6
        clock.current.sleep(8)
        assert stopper.seconds_left() == 0
        assert CombinedStopper(stopper, TimeoutStopper(20)).seconds_left() == 0
        assert stopper.stop_all()


def test_an_infinite_budget_never_ends():
    stopper = TimeoutStopper(math.inf)
    assert not stopper.stop_all()
    assert stopper.seconds_left() is None


def test_combined_knows_the_next_time_to_ask():
    with clock.use(clock.VirtualClock()):
        assert CombinedStopper(TimeoutStopper(7), NoopStopper(), TimeoutStopper(5)).seconds_left() == 5
        assert CombinedStopper(NoopStopper()).seconds_left() is None


def test_of_several_time_budgets_the_shortest_ends_the_run():
    time = clock.VirtualClock()
    with clock.use(time):
        stopper = CombinedStopper(TimeoutStopper(8), NoopStopper(), TimeoutStopper(4), TimeoutStopper(math.inf))
        assert share_of_time_left(stopper) == 1
        for left in (0.75, 0.5, 0.25, 0):
            stopper.stop_all()
            time.sleep(1)
            assert share_of_time_left(stopper) == left
        assert share_of_time_left(NoopStopper()) == 1


def test_trial_plateau_survives_odd_values():
    stopper = TrialPlateauStopper("a/b", std=1e-3, num_results=2, grace_period=0)
    values = [math.nan, math.nan, math.inf, math.inf, None, "x", 1e300, -1e300, 10**400, 5, 5]
    answers = [stopper("t", {"a": {"b": value}}) for value in values]
    assert answers == [False] * 10 + [True]
    assert not stopper("t", {})


def test_a_run_that_is_on_a_plateau_ends_with_a_result_that_says_nothing():
    stopper = ExperimentPlateauStopper("m", top=2)
    assert not stopper.stop_all()
    feed(stopper, [1, 1])
    assert feed(stopper, [..., math.nan]) == [True, True]
    assert stopper.seconds_left() is None


def of_trial(**settings):
    return lambda: TrialPlateauStopper("m", **{"num_results": 2, "grace_period": 0, **settings})


def of_run(**settings):
    return lambda: ExperimentPlateauStopper("m", **{"top": 2, **settings})


@pytest.mark.parametrize(
    ("make", "values", "first"),
    [
        (of_trial(std=0.1, num_results=3), [1, 1, 2, 2.01, 2.02], 4),
        (of_trial(grace_period=4), [1, 1, 1, 1], 3),
        (of_trial(metric_threshold=0, mode="min"), [1, 1, 0, 0], 3),
        (of_trial(metric_threshold=0, mode="min"), [-1, -1], 1),
        (of_trial(metric_threshold=0, mode="max"), [-1, -1, 0, 0], 3),
        (of_trial(metric_threshold=0, mode="max"), [1, 1], 1),
        (of_trial(std=1), [1, 3], None),  # a trial goes on at the limit, a run does not
        (of_trial(std=1.01), [1, 3], 1),
        (of_run(std=1), [1, 3], 1),
        (of_run(std=0.99), [1, 3], None),
        (of_run(std=0.01, top=3, mode="max"), [1, 5, 3, 5, 5], 4),
        (of_run(std=0.01, patience=3), [2, 2, 2, 1, 1, 3, 3], 6),  # with the 1, the best two differ again
        (of_run(), [..., math.nan, None, "x", 1, 1], 5),
    ],
)
def test_a_plateau_ends_at_its_first_result_also_after_a_resume(make, values, first):
    plain, resumed = make(), make()
    answers = feed(plain, values)
    assert answers == [place == first for place in range(len(values))]
    again = []
    for value in values:
        state = pickle.loads(pickle.dumps(resumed.get_state()))
        resumed = make()
        resumed.set_state(state)
        again += feed(resumed, [value])
    assert again == answers
    assert plain.stop_all() == (isinstance(plain, ExperimentPlateauStopper) and first is not None)


def test_each_trial_has_a_plateau_of_its_own():
    stopper = of_trial(std=0.1)()
    assert feed(stopper, [1, 2]) == [False, False]
    assert feed(stopper, [2, 2], trial_id="other") == [False, True]
