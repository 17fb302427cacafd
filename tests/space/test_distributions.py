"""Distributions of other libraries in a search space, without these libraries: objects with the same attributes."""

import argparse
import dataclasses
from types import SimpleNamespace

import pytest
from kit import fit

from minitune import Study, choice, lograndint, loguniform, qrandint, quniform, randint, randn, uniform
from minitune.space.distributions import own_space


def made(path, **attributes):
    """An object of a class that says it comes from there."""
    module, _, name = path.rpartition(".")
    return type(name, (SimpleNamespace,), {"__module__": module})(**attributes)


def frozen(name, low, high):
    return made(
        "scipy.stats._distn_infrastructure.rv_continuous_frozen",
        dist=made("scipy.stats._continuous_distns.any_gen", name=name, rvs=None),
        rvs=None,
        support=lambda: (low, high),
        mean=lambda: low,
        std=lambda: high,
    )


def of_optuna(kind, low, high, step=None, *, log=False):
    return made(f"optuna.distributions.{kind}Distribution", low=low, high=high, step=step, log=log)


TAKEN = [
    (frozen("uniform", 0, 2), uniform(0, 2)),
    (frozen("loguniform", 0.1, 2), loguniform(0.1, 2)),
    (frozen("reciprocal", 0.1, 2), loguniform(0.1, 2)),
    (frozen("randint", 1, 4), randint(1, 5)),
    (frozen("norm", 1, 2), randn(1, 2)),
    (of_optuna("Float", 0.0, 1.0), uniform(0, 1)),
    (of_optuna("Float", 0.1, 1.0, log=True), loguniform(0.1, 1)),
    (of_optuna("Float", 0.0, 1.0, 0.25), quniform(0, 1, 0.25)),
    (of_optuna("Int", 1, 4, 1), randint(1, 5)),
    (of_optuna("Int", 1, 4), randint(1, 5)),
    (of_optuna("Int", 1, 4, 1, log=True), lograndint(1, 5)),
    (of_optuna("Float", 1.0, 4.0, 1.0), quniform(1, 4, 1)),
    (of_optuna("Int", 2, 8, 2), qrandint(2, 8, 2)),
    (made("optuna.distributions.CategoricalDistribution", choices=("a", None)), choice(["a", None])),
]
NOT_TAKEN = [
    (made("hyperopt.pyll.base.Apply"), "of hyperopt (Apply) for which there is no domain: write a domain, such as"),
    (made("ConfigSpace.hyperparameters.constant.Constant"), "of ConfigSpace (Constant)"),
    (
        frozen("beta", 0, 1),
        "of scipy (rv_continuous_frozen) for which there is no domain: take uniform, loguniform, randint or norm",
    ),
    (
        made("scipy.stats._continuous_distns.uniform_gen", name="uniform", rvs=None),
        "with numbers, such as scipy.stats.uniform(0, 1)",
    ),
    (
        of_optuna("Float", 0.1, 1.1, 0.25),
        "of optuna (FloatDistribution) for which there is no domain: write the values as choice(",
    ),
    (of_optuna("Int", 1, 9, 2), "write the values as choice([...])"),
]


@pytest.mark.parametrize(("distribution", "domain"), TAKEN)
def test_a_distribution_becomes_the_domain_with_the_same_values(distribution, domain):
    space = {"a": {"b": [distribution, 1]}, "c": distribution, "d": (0, distribution)}
    own = own_space(space)
    assert [repr(own["a"]["b"][0]), repr(own["c"]), repr(own["d"][1])] == [repr(domain)] * 3
    assert space["a"]["b"][0] is distribution, "the user's space is as it was"


@pytest.mark.parametrize(("distribution", "text"), NOT_TAKEN)
def test_a_distribution_without_a_domain_is_refused(distribution, text):
    with pytest.raises(ValueError, match=r"^parameter 'a/b' is a distribution of ") as caught:
        own_space({"a": {"b": distribution}})
    assert text in str(caught.value)
    assert str(caught.value).endswith("; with_parameters passes the object itself to the trials")


@dataclasses.dataclass
class Model:
    rate: object


@pytest.mark.parametrize("kind", [Model, argparse.Namespace, SimpleNamespace])
@pytest.mark.parametrize("domain", [uniform(0, 1), {"grid_search": [1, 2]}])
def test_a_domain_in_an_attribute_is_refused(kind, domain):
    with pytest.raises(ValueError, match=rf"attribute 'rate' of parameter 'a/b', a {kind.__name__}, is .*make the"):
        own_space({"a": {"b": kind(rate=domain)}})
    value = kind(rate=0.5)
    assert own_space({"a": value})["a"] is value


@pytest.mark.parametrize(
    "value", [made("scipy.sparse.matrix", shape=(1, 1)), made("optuna.samplers.TPESampler"), object(), range(3)]
)
def test_other_objects_stay_as_they_are(value):
    assert own_space({"a": value, "b": [value]}) == {"a": value, "b": [value]}


def test_a_run_and_a_study_draw_from_a_distribution():
    grid = fit(lambda config: {"x": config["x"]}, {"x": frozen("uniform", 3, 4)}, num_samples=3)
    assert all(3 <= result.metrics["x"] < 4 for result in grid)
    assert 3 <= Study({"x": frozen("uniform", 3, 4)}, mode="min").ask()["x"] < 4
