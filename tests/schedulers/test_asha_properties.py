"""ASHA compared with a plain implementation of its rules, on random runs."""

import math
import sys
from fractions import Fraction

import hypothesis
from hypothesis import strategies as st
from kit import FakeContext, make_trial

from minitune.schedulers import ASHAScheduler

values = st.one_of(
    st.integers(-3, 3),
    st.floats(allow_nan=True, allow_infinity=True),
    st.sampled_from([None, math.nan, 10**400]),
)
runs = st.lists(st.tuples(st.integers(0, 7), st.integers(1, 40), values), max_size=60)
factors = st.sampled_from([2, 3, 4, 1.5, 1.1, 2.5])


def plain_reading(reports, mode, max_t, grace, eta):
    """The stopping rule by counting, without a sorted list and bisection."""
    fraction = Fraction(str(eta))
    levels, level = [], grace
    while level < max_t:
        levels.append(level)
        level *= eta
    recorded, highest, stopped, answers = {level: [] for level in levels}, {}, set(), []
    for trial, t, value in reports:
        if trial in stopped:
            continue
        if t >= max_t:
            answers.append("STOP")
            stopped.add(trial)
            continue
        passed = [level for level in levels if level <= t]
        if not passed or passed[-1] <= highest.get(trial, 0):
            answers.append("CONTINUE")
            continue
        is_number = isinstance(value, (int, float)) and value == value
        if is_number and abs(value) > sys.float_info.max:
            value = math.copysign(math.inf, 1 if value > 0 else -1)  # an int that no float can hold counts as infinite
        score = (value if mode == "max" else -value) if is_number else -math.inf
        highest[trial] = passed[-1]
        others = recorded[passed[-1]]
        rank = 1 + sum(other >= score for other in others)
        others.append(score)
        goes_on = rank <= max(1, len(others) // fraction) and score > -math.inf
        answers.append("CONTINUE" if goes_on else "STOP")
        if not goes_on:
            stopped.add(trial)
    return answers


@hypothesis.given(runs, st.sampled_from(["min", "max"]), st.integers(1, 40), st.integers(1, 5), factors)
def test_every_decision_is_that_of_the_plain_reading(reports, mode, max_t, grace, eta):
    hypothesis.assume(grace < max_t)
    scheduler = ASHAScheduler(metric="m", mode=mode, max_t=max_t, grace_period=grace, reduction_factor=eta)
    context = FakeContext()
    trials = [make_trial(number) for number in range(8)]
    stopped, answers = set(), []
    for number, t, value in reports:
        if number in stopped:
            continue
        result = {"training_iteration": t, "m": value}
        answer = scheduler.on_trial_result(context, trials[number], result)
        answers.append(str(answer))
        if answer == "STOP":
            stopped.add(number)
            scheduler.on_trial_complete(context, trials[number], result)
    assert answers == plain_reading(reports, mode, max_t, grace, eta)
