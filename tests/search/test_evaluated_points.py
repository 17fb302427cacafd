"""What searchers are told of points that were tried elsewhere: known values, and mistakes in them."""

import logging

import pytest

from minitune import choice, uniform
from minitune.search import TPESearch

SPACE = {"lr": uniform(0, 1), "deep": {"momentum": uniform(0, 1)}, "kind": choice(["a", "b"]), "data": "mnist"}
POINT = {"lr": 0.3, "deep": {"momentum": 0.9}, "kind": "a"}


def tpe(space=SPACE, **options):
    return TPESearch(space, "loss", "min", seed=0, **options)


@pytest.mark.parametrize(
    ("point", "text"),
    [
        ({"lr": 0.1, "kin": "a"}, r"must be one of the search space, but got 'kin' \(did you mean 'kind'\?\); there"),
        (
            {"deep": {"momentun": 0.1}},
            r"got 'deep/momentun' \(did you mean 'deep/momentum'\?\); there are deep/momentum",
        ),
        ({"deep/momentun": 0.1}, "got 'deep/momentun'"),
        ({"nothing": 1}, "got 'nothing'; there are lr, deep, kind, data"),
    ],
)
def test_unknown_parameters_are_refused_by_name(point, text):
    with pytest.raises(ValueError, match=text):
        tpe().add_evaluated_point(point, 1.0)
    later = tpe(space=None)
    later.add_evaluated_point(point, 1.0)
    with pytest.raises(ValueError, match=text):
        later.set_search_properties("loss", "min", SPACE)


def test_values_outside_are_told_once_and_parts_of_configurations_are_taken(caplog):
    searcher = tpe()
    with caplog.at_level(logging.WARNING, logger="minitune"):
        for value in (7.5, 8.5):
            searcher.add_evaluated_point({**POINT, "deep": {"momentum": value}}, 1.0)
        searcher.add_evaluated_point({"lr": 0.5}, 1.0)
        searcher.add_evaluated_point({"deep/momentum": 0.5, "data": "mnist"}, 1.0)
    assert caplog.text.count("deep/momentum=7.5 lies outside of (0.0, 1.0)") == 1
    assert "8.5" not in caplog.text
