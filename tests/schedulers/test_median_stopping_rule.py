"""The median stopping rule, step by step, and compared with a plain implementation."""

import math
import random
from statistics import median

import pytest
from kit import FakeContext, make_trial

from minitune.schedulers import MedianStoppingRule

CONTEXT = FakeContext()


def rule(**kwargs):
    defaults = {
        "time_attr": "training_iteration",
        "metric": "score",
        "mode": "max",
        "grace_period": 0,
        "min_samples_required": 1,
    }
    return MedianStoppingRule(**{**defaults, **kwargs})


def ask(scheduler, trial, t, value, context=CONTEXT):
    return scheduler.on_trial_result(context, trial, {"training_iteration": t, "score": value})


def end(scheduler, trial, t, value):
    scheduler.on_trial_complete(CONTEXT, trial, {"training_iteration": t, "score": value, "done": True})


def test_a_trial_ends_whose_best_is_worse_than_the_others_mean():
    """One rises to 900 in ten steps, the other stays at 450 for five steps."""
    scheduler = rule()
    rising, flat = make_trial(1), make_trial(2)
    assert [ask(scheduler, rising, t, 100 * t) for t in range(10)] == ["CONTINUE"] * 10
    end(scheduler, rising, 10, 1000)
    assert [ask(scheduler, flat, t, 450) for t in range(6)] == ["CONTINUE"] * 6
    assert ask(scheduler, flat, 6, 0) == "CONTINUE", "its best counts, not its last"
    assert ask(scheduler, flat, 10, 450) == "STOP"
    assert scheduler.debug_string() == "Using MedianStoppingRule: num_stopped=1."


def test_trials_are_compared_at_each_of_many_iterations():
    scheduler = rule(min_samples_required=1)
    jumping, flat = make_trial(1), make_trial(2)
    for t in range(1, 201):
        ask(scheduler, jumping, t, 0 if t < 200 else 1000)
    said = [ask(scheduler, flat, t, 1) for t in range(1, 201)]
    assert said == [*["CONTINUE"] * 199, "STOP"]


def test_equal_curves_do_not_end_each_other_for_a_rounding():
    scheduler = rule(min_samples_required=3)
    for number in range(20):
        for t in range(1, 60):
            assert ask(scheduler, make_trial(number), t, 0.8) == "CONTINUE"


@pytest.mark.parametrize("bad", [math.nan, None, "high", math.inf, -math.inf, 10**400, [1.0]])
def test_results_that_are_not_finite_are_left_out_of_means(bad):
    scheduler = rule(min_samples_required=3)
    for number in range(3):
        for t, value in enumerate([bad, 1.0, bad, 1.0, 1.0], 1):
            ask(scheduler, make_trial(number), t, value)
    assert ask(scheduler, make_trial(3), 1, bad) == "CONTINUE", "no one has anything to compare with at 1"
    assert ask(scheduler, make_trial(3), 2, 1.0) == "CONTINUE"
    assert [ask(scheduler, make_trial(4), t, bad) for t in (1, 5)] == ["CONTINUE", "STOP"]


def test_the_last_result_counts_once():
    scheduler = rule()
    first = make_trial(1)
    for t, value in ((1, 0.0), (2, 1.0)):
        ask(scheduler, first, t, value)
    end(scheduler, first, 2, 1.0)
    assert ask(scheduler, make_trial(2), 2, 0.5) == "CONTINUE", "the mean is 1/2, not 2/3"


def test_a_trial_that_goes_back_in_time_is_not_recorded_again():
    scheduler = rule()
    first = make_trial(1)
    for t in (1, 2, 3, 1, 2, 3):
        ask(scheduler, first, t, t if t < 3 else 30)
    assert ask(scheduler, make_trial(2), 2, 1.5) == "CONTINUE"
    assert ask(scheduler, make_trial(3), 3, 11) == "CONTINUE"
    assert ask(scheduler, make_trial(4), 3, 10) == "STOP"


def test_a_decision_tells_its_reason_and_facts():
    scheduler = rule(metric="eval/loss", mode="min")
    result = {"training_iteration": 4, "eval/loss": 0.25}
    scheduler.on_trial_result(CONTEXT, make_trial(1), result)
    stop = scheduler.on_trial_result(CONTEXT, make_trial(2), {**result, "eval/loss": 0.5})
    assert stop.reason == (
        "its best eval/loss so far, 0.5, is worse than the median of the means of 1 others at training_iteration 4, "
        "0.25"
    )
    assert stop.facts == {
        "rule": "median",
        "metric": "eval/loss",
        "value": 0.5,
        "time": 4,
        "cutoff": 0.25,
        "of": 1,
    }


@pytest.mark.parametrize("seed", range(20))
def test_every_decision_is_that_of_a_plain_reading(seed):
    rng = random.Random(seed)
    grace, required = rng.choice([0, 2, 3.5]), rng.choice([1, 2, 4])
    scheduler = rule(grace_period=grace, min_samples_required=required)
    curves = {number: [] for number in range(8)}
    stopped = set()
    for _ in range(120):
        number = rng.choice([n for n in curves if n not in stopped])
        curve = curves[number]
        t = (curve[-1][0] if curve else 0) + rng.choice([1, 1, 1, 2, 0.5])
        value = rng.choice([rng.randrange(4), rng.random(), math.nan])
        curve.append((t, value))
        moment = math.floor(t)
        others = [c for n, c in curves.items() if n != number and c and c[-1][0] >= moment]
        counted = [[v for at, v in c if grace <= at <= moment and v == v] for c in others]
        means = [sum(values) / len(values) for values in counted if values]
        best = max((v for _, v in curve if v == v), default=-math.inf)
        stops = t >= grace and len(means) >= required and best < median(means) - 1e-12 * max(1, abs(median(means)))
        assert ask(scheduler, make_trial(number), t, value) == ("STOP" if stops else "CONTINUE")
        if stops and len(stopped) < 6:
            stopped.add(number)
