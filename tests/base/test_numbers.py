"""Which values are numbers, and what an error says of the others."""

import array
import datetime
import enum
import math
from decimal import Decimal
from fractions import Fraction

import pytest
from kit import Scalar

from minitune.base.numbers import as_number, as_objective, item_of, known_number, sortable


class OnlyNumpy:
    """Like a tensor of TensorFlow, which has no `item`."""

    shape = ()

    def numpy(self):
        return Scalar(0.25)


class Column(Scalar):
    shape = (1, 1)


class OwnFloat(float):
    pass


class Level(enum.IntEnum):
    LOW = 3


class Broken:
    @property
    def __class__(self):
        raise RuntimeError("nothing works")

    def __float__(self):
        raise RuntimeError("no number")


class Huge:
    """Too large for a float, and not to be compared."""

    def __float__(self):
        raise OverflowError


NUMBERS = [
    (1, 1),
    (0.5, 0.5),
    (2**70, 2**70),
    (Decimal("0.5"), 0.5),
    (Fraction(1, 4), 0.25),
    (OwnFloat(0.5), 0.5),
    (Level.LOW, 3),
    (Scalar(0.5), 0.5),
    (Scalar(3), 3),
    (Scalar(Decimal("0.5")), 0.5),
    (Column(0.5), 0.5),
    (OnlyNumpy(), 0.25),
    (math.inf, math.inf),
]
"""Values and the numbers that they are."""


class Several(Scalar):
    shape = (2,)


NO_NUMBERS = [
    ("0.5", "the text '0.5'; give one plain number"),
    (b"0.5", "a value of type bytes"),
    (array.array("d", [0.5]), "a value of type array"),
    (True, "a value of type bool"),
    (Scalar(True), "a value of type bool"),
    (Scalar("0.5"), "the text '0.5'"),
    (None, r"None; where there is no value, give float\('nan'\)"),
    ([0.5], "a value of type list; .*such as float.x. or its mean"),
    (Several(0.5), "a value of type Several"),
    (1j, "a value of type complex"),
    (datetime.timedelta(seconds=3), "a value of type timedelta"),
    (Decimal("sNaN"), "a value of type Decimal"),
    (Huge(), "a value of type Huge"),
    (object(), "a value of type object"),
]
"""Values that are no numbers, and what an error says of them."""


@pytest.mark.parametrize(("value", "number"), NUMBERS)
def test_a_value_that_float_takes_is_a_number_if_it_has_one_element_and_no_unit(value, number):
    for found in (as_objective(value, "loss"), as_number(value), known_number(value), sortable(value)):
        assert found == number
        assert type(found) is type(number)


@pytest.mark.parametrize(("value", "text"), NO_NUMBERS)
def test_a_value_that_is_no_number_is_none_and_refused_as_an_objective(value, text):
    assert as_number(value) is None
    assert known_number(value) is None
    with pytest.raises(ValueError, match=f"the metric 'eval/loss' must be a number, but got {text}"):
        as_objective(value, "eval/loss")


def test_nan_is_a_number_but_not_known():
    for value in (math.nan, Decimal("nan"), Scalar(math.nan)):
        assert math.isnan(as_objective(value, "loss"))
        assert math.isnan(as_number(value) or 0)
        assert known_number(value) is None


def test_an_int_that_no_float_can_hold_stays_and_counts_as_infinite():
    assert as_objective(10**400, "loss") == 10**400
    assert (as_number(10**400), known_number(-(10**400))) == (math.inf, -math.inf)
    assert as_objective(Fraction(-(10**400)), "loss") == -math.inf


def test_a_flag_is_sorted_as_a_number():
    assert [sortable(value) for value in (True, False, Scalar(True), "1", None, math.nan)] == [
        1,
        0,
        1,
        None,
        None,
        None,
    ]


def test_only_a_scalar_has_an_item():
    assert item_of(Scalar("a")) == "a"
    for value in (Column(1), Several(1), [1], Broken()):
        assert item_of(value) is value


def test_an_object_that_fails_at_everything_is_no_number():
    assert as_number(Broken()) is None
    with pytest.raises(ValueError, match="must be a number, but got a value of type Broken; give one plain number"):
        as_objective(Broken(), "loss")
