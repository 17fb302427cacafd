"""Statistics of metrics, against their plain definitions, for whatever a trial may report."""

import copy
import math
import pickle
import random
from decimal import Decimal
from fractions import Fraction

import pytest

from minitune.experiment.metric_analysis import MetricAnalysis
from minitune.result import DEBUG_METRICS


def of(results):
    analysis = MetricAnalysis()
    for result in results:
        analysis.update(result)
    return analysis


VALUES = {
    "one": [1.5],
    "a dozen": [random.Random(number).uniform(-5, 5) for number in range(12)],
    "a hundred": [random.Random(number).uniform(-5, 5) for number in range(100)],
    "first not a number": [math.nan, *range(9)],
    "fractions": [Fraction(1, 2), Fraction(0), Fraction(-3, 2)],
    "decimals": [Decimal("2.5"), Decimal(0), Decimal(1)],
    "of several types": [1, 2.5, Fraction(0), 0, Decimal(4), 0.0, -3, 2],
    "fractions and others": [Fraction(1, 2), None, "text", Fraction(5, 2), True, Fraction(1)],
    "large ints": [10**299, -(10**299), 1],
    "many": [Fraction(number * 7 % 40) for number in range(70)],
    "not a number": [Fraction(1), math.nan, Fraction(3), -2.0],
    "infinite": [math.inf, Fraction(3), -math.inf],
}


@pytest.mark.parametrize("kind", VALUES)
def test_statistics_of_numbers_of_every_type_are_those_of_their_floats(kind):
    values = VALUES[kind]
    floats = [float(value) for value in values if not isinstance(value, (str, bool, type(None)))]
    known = [value for value in floats if not math.isnan(value)]
    found = of([{"loss": value, "n": 1} for value in values]).as_dict()["loss"]
    assert list(found) == ["max", "min", "avg", "last", "last-5-avg", "last-10-avg"]
    assert [float(found[name]) for name in ("max", "min", "last")] == [max(known), min(known), floats[-1]]
    for name, some in (("avg", floats), ("last-5-avg", floats[-5:]), ("last-10-avg", floats[-10:])):
        assert found[name] == pytest.approx(sum(some) / len(some), nan_ok=True)


def test_a_copy_and_its_original_do_not_change_each_other():
    analysis = of([{"loss": Fraction(1)}, {"loss": Fraction(2)}])
    before = analysis.as_dict()
    for one, other in ((analysis.copy(), analysis), (analysis, analysis.copy())):
        one.update({"loss": Fraction(9)})
        assert one.get("loss", "max") == 9
        assert other.as_dict() == before


def test_values_that_are_no_numbers_have_no_statistics():
    """A truth value is an int to Python; but there is no mean of them to optimise."""
    found = of([{"flag": True, "text": "1", "nothing": None, "list": [1], "complex": 1j, "loss": 1}])
    debug = of([{**dict.fromkeys(DEBUG_METRICS, 1.0), "loss": 1.0}])

    assert list(found.as_dict()) == list(debug.as_dict()) == ["loss"]


def test_infinities_and_huge_ints_count_as_infinite():
    found = of([{"loss": value} for value in (1, math.inf, -(10**400), 10**400, 2)]).as_dict()["loss"]

    assert (found["max"], found["min"], found["last"]) == (math.inf, -math.inf, 2)


def test_a_metric_may_come_late_and_be_missing_now_and_then():
    results = [{"loss": 1.0, "eval": float(step) if step % 10 == 9 else None} for step in range(50)]

    found = of(results).as_dict()

    assert (found["eval"]["max"], found["eval"]["min"], found["eval"]["avg"]) == (49.0, 9.0, 29.0)
    assert found["loss"]["avg"] == 1.0


@pytest.mark.parametrize("way", [copy.deepcopy, lambda analysis: pickle.loads(pickle.dumps(analysis))])
def test_a_copy_of_the_statistics_changes_nothing_of_the_first(way):
    first = of([{"loss": 1.0}, {"loss": 2.0}])
    second = way(first)
    second.update({"loss": 9.0})

    assert (first.get("loss", "max"), second.get("loss", "max")) == (2.0, 9.0)
