"""TuneBOHB takes the spaces of the package ConfigSpace."""

from __future__ import annotations

import ConfigSpace as CS
import pytest
from kit import fit

from minitune.search.bohb import TuneBOHB


def test_each_kind_of_parameter_is_drawn_as_in_scikit_learn() -> None:
    space = CS.ConfigurationSpace()
    space.add(
        CS.Float("rate", (1e-5, 1.0), log=True),
        CS.Float("share", (0.0, 0.5)),
        CS.Integer("layers", (1, 3)),
        CS.Integer("width", (8, 64), log=True),
        CS.Categorical("kind", ["a", "b"]),
        CS.OrdinalHyperparameter("size", ["small", "large"]),
        CS.Constant("classes", 10),
    )
    search = TuneBOHB(space, metric="loss", mode="min", seed=1)
    seen: dict[str, set[object]] = {}
    for number in range(80):
        config = search.suggest(str(number))
        assert space.get_default_configuration().keys() == config.keys()
        CS.Configuration(space, values=config)  # refuses what lies outside
        for name, value in config.items():
            seen.setdefault(name, set()).add(value)
        search.on_trial_complete(str(number), {"loss": config["share"]})
    assert (seen["layers"], seen["kind"], seen["size"]) == ({1, 2, 3}, {"a", "b"}, {"small", "large"})
    assert seen["classes"] == {10}
    assert min(seen["rate"]) < 0.01  # type: ignore[type-var]  # these are floats


def test_unsupported_parameters_are_refused() -> None:
    space = CS.ConfigurationSpace()
    kind, depth = CS.Categorical("kind", ["a", "b"]), CS.Integer("depth", (1, 9))
    space.add(kind, depth)
    space.add(CS.EqualsCondition(depth, kind, "a"))
    with pytest.raises(ValueError, match="a ConfigurationSpace with conditions cannot be converted"):
        TuneBOHB(space)
    normal = CS.ConfigurationSpace({"x": CS.Float("x", (0.0, 1.0), distribution=CS.Normal(0.5, 0.1))})
    with pytest.raises(
        ValueError, match=r"parameter 'x' is a distribution of ConfigSpace \(NormalFloatHyperparameter\)"
    ):
        TuneBOHB(normal)


def test_a_run_takes_a_configuration_space() -> None:
    space = CS.ConfigurationSpace({"rate": (0.5, 1.0), "kind": ["a", "b"]})
    [result] = fit(lambda config: {"loss": config["rate"]}, space)
    assert 0.5 <= result.config["rate"] < 1
    assert result.config["kind"] in ("a", "b")
