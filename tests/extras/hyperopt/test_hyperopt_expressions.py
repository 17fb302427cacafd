"""HyperOpt's expressions in a search space."""

from __future__ import annotations

from typing import Any

import pytest
from hyperopt import hp

from minitune import Tuner, choice, loguniform, quniform, randint, randn, uniform
from minitune.space.distributions import own_space


@pytest.mark.parametrize(
    ("expression", "domain"),
    [
        (hp.uniform("x", 0, 1), uniform(0, 1)),
        (hp.loguniform("x", 0, 0), loguniform(1, 1)),
        (hp.normal("x", 0, 1), randn(0, 1)),
        (hp.quniform("x", 0, 1, 0.5), quniform(0, 1, 0.5)),
        (hp.randint("x", 5), randint(0, 5)),
        (hp.choice("x", ["a", 3]), choice(["a", 3])),
    ],
)
def test_an_expression_of_hyperopt_becomes_a_domain(expression: Any, domain: Any) -> None:
    assert repr(own_space({"x": expression})["x"]) == repr(domain)


@pytest.mark.parametrize("expression", [hp.lognormal("x", 0, 1), hp.choice("x", [{"a": 1}, 2])])
def test_other_expressions_of_hyperopt_are_refused(expression: Any) -> None:
    with pytest.raises(ValueError, match=r"give the whole space to HyperOptSearch\(space=...\)"):
        own_space({"x": expression})


def test_a_whole_space_of_hyperopt_is_pointed_to_its_searcher() -> None:
    with pytest.raises(ValueError, match=r"a space of HyperOpt as a whole goes to HyperOptSearch\(space=...\)"):
        Tuner(lambda config: config, param_space=hp.choice("m", [{"x": hp.uniform("x", 0, 1)}]))
