"""What each sampling function may draw, exactly."""

import math
import pickle
import random
import statistics
import sys
import warnings

import pytest

from minitune.space import domains
from minitune.space.domains import (
    Categorical,
    Float,
    Function,
    Grid,
    Integer,
    LogUniform,
    Normal,
    Quantized,
    Uniform,
)
from minitune.space.parameters import is_searchable


def draw(domain, count=3000, seed=1):
    rng = random.Random(seed)
    return [domain.sample(random_state=rng) for _ in range(count)]


class Edge(random.Random):
    """Draws the lowest or the highest share there is."""

    def __init__(self, share):
        super().__init__()
        self.share = share

    def random(self):
        return self.share


LOWEST, HIGHEST = 0.0, 1.0 - 2.0**-53


def test_uniform_excludes_its_upper_bound():
    for bounds in [(0, 1), (-3, -1), (1e15, 1e15 + 1), (0.1, 0.3), (-1e308, 1e308)]:
        domain = domains.uniform(*bounds)
        assert domain.sample(random_state=Edge(LOWEST)) == bounds[0]
        assert bounds[0] < domain.sample(random_state=Edge(HIGHEST)) < bounds[1]
    values = draw(domains.uniform(2, 4))
    assert all(isinstance(value, float) for value in values)
    assert statistics.fmean(values) == pytest.approx(3, abs=0.05)


THIRDS = 1 / 3


@pytest.mark.parametrize(
    ("domain", "values"),
    [
        (domains.quniform(0, 0.01, 0.00005), {float(f"{k * 5}e-5") for k in range(201)}),
        (domains.quniform(0.1, 0.7, 0.1), {0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7}),
        (domains.quniform(-2, 2, 2), {-2.0, 0.0, 2.0}),
        (domains.quniform(5, 5, 5), {5.0}),
        (domains.quniform(0, 1, THIRDS), {0.0, THIRDS, 2 / 3, 1.0}),  # three times a third is written 1
        (domains.qloguniform(0.5, 4, 0.5), {0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 3.5, 4.0}),
        (domains.randint(3, 7), {3, 4, 5, 6}),
        (domains.lograndint(1, 8), {1, 2, 3, 4, 5, 6, 7}),
        (domains.qrandint(0, 12, 4), {0, 4, 8, 12}),
        (domains.qrandint(3, 13, 4), {4, 8, 12}),  # bounds need not be multiples
        (domains.qrandint(1, 4), {1, 2, 3}),  # a step of one is none
        (domains.qrandint(4, 4, 2), {4}),
        (domains.qrandint(-5, 5, 3), {-3, 0, 3}),
        (domains.qlograndint(2, 16, 2), {2, 4, 6, 8, 10, 12, 14, 16}),
        (domains.qlograndint(1, 4, 1), {1, 2, 3}),
    ],
    ids=repr,
)
def test_all_values_of_a_domain_are_drawn_and_no_others(domain, values):
    found = set(draw(domain, 20_000))
    assert found == values
    assert {type(value) for value in found} == {type(value) for value in values}


@pytest.mark.parametrize(
    ("domain", "value", "share"),
    [
        (domains.quniform(0, 2, 1), 1.0, 0.5),  # it is rounded, so that the end points have half the weight
        (domains.lograndint(1, 8), 1, math.log(2) / math.log(8)),  # floor(exp(U))
        *((domains.qrandint(0, 12, 4), value, 0.25) for value in (0, 4, 8, 12)),
    ],
    ids=repr,
)
def test_a_value_is_drawn_with_its_share(domain, value, share):
    assert draw(domain, 9000).count(value) / 9000 == pytest.approx(share, abs=0.03)


def test_of_logarithmic_domains_small_values_are_drawn_more_often():
    values = draw(domains.qloguniform(0.5, 4, 0.5))
    assert values.count(1.0) > values.count(3.0)
    values = draw(domains.qlograndint(2, 16, 2))
    assert values.count(2) > values.count(4) > values.count(16)


def test_integers_exclude_their_upper_bound_at_the_edges():
    assert domains.randint(0, 10**30).sample(random_state=1) < 10**30
    for upper in range(2, 100):
        for lower in (1, upper - 1):
            assert domains.lograndint(lower, upper).sample(random_state=Edge(HIGHEST)) == upper - 1
    assert domains.lograndint(10, 1000).sample(random_state=Edge(LOWEST)) == 10


@pytest.mark.parametrize("make", [domains.uniform, domains.loguniform, domains.randint, domains.lograndint])
def test_bounds_in_the_wrong_order_are_refused(make):
    with pytest.raises(ValueError, match="write the smaller bound first"):
        make(8, 1)


def test_loguniform_gives_every_decade_its_share():
    domain = domains.loguniform(1e-4, 1)
    values = draw(domain)
    assert all(1e-4 <= value < 1 for value in values)
    for exponent in range(-4, 0):
        share = sum(10.0**exponent <= value < 10.0 ** (exponent + 1) for value in values) / len(values)
        assert share == pytest.approx(0.25, abs=0.04)
    assert domain.sample(random_state=Edge(LOWEST)) >= 1e-4
    assert domain.sample(random_state=Edge(HIGHEST)) < 1


def test_randn_and_qrandn_follow_the_normal_distribution():
    values = draw(domains.randn(10, 2))
    assert statistics.fmean(values) == pytest.approx(10, abs=0.15)
    assert statistics.stdev(values) == pytest.approx(2, abs=0.15)
    quantised = draw(domains.qrandn(0, 1, 0.2))
    assert all(value == round(value, 1) and round(value * 10) % 2 == 0 for value in quantised)
    assert statistics.fmean(draw(domains.randn())) == pytest.approx(0, abs=0.1)


def test_choice_keeps_objects_as_they_are():
    class Mark:
        pass

    mark = Mark()
    options = [1, 1.0, "1", None, (1, 2), mark, Mark]
    values = draw(domains.choice(options))
    assert {id(value) for value in values} == {id(option) for option in options}
    counts = [sum(value is option for value in values) for option in options]
    assert min(counts) / len(values) == pytest.approx(1 / 7, abs=0.03)


def test_a_choice_from_a_set_has_an_order_of_its_own():
    assert domains.choice({"c", "a", "b"}).categories == ["a", "b", "c"]
    assert domains.choice({"a", 2, 1.5, "b", 1}).categories == [1.5, 1, 2, "a", "b"]


def test_sample_from_takes_no_argument_or_the_configuration():
    assert domains.sample_from(lambda: 3).sample() == 3
    assert domains.sample_from(lambda config: config["a"] + 1).sample({"a": 1}) == 2
    assert domains.sample_from(random.Random(3).random).sample() == random.Random(3).random()
    with pytest.raises(ValueError, match="no argument or one"):
        domains.sample_from(lambda a, b: 0)
    with pytest.raises(KeyError, match="missing"):
        domains.sample_from(lambda config: config["missing"]).sample({"a": 1})


def test_grid_search_is_a_plain_dict():
    assert domains.grid_search([1, "a"]) == {"grid_search": [1, "a"]}
    assert domains.grid_search(x * x for x in range(3)) == {"grid_search": [0, 1, 4]}
    for make in (domains.grid_search, domains.choice):
        with pytest.raises(ValueError, match=r"at most 100,000 values, .* but got range\(0, 1000000\); use randint"):
            make(range(10**6))


def test_several_values_come_as_a_list():
    assert len(domains.uniform(0, 1).sample(size=5, random_state=1)) == 5
    domain = domains.randint(0, 9)
    assert list(domain.sample(size=3, random_state=random.Random(2))) == list(domain.sample(size=3, random_state=2))


def test_seeded_draws_leave_the_global_generator_alone():
    state = random.getstate()
    domains.uniform(0, 1).sample(size=10, random_state=1)
    domains.randn().sample(random_state=random.Random(1))
    assert random.getstate() == state


def test_without_a_seed_the_global_generator_counts(monkeypatch):
    monkeypatch.delitem(sys.modules, "numpy", raising=False)  # if a test has loaded it, its generator would count

    def draw_some():
        random.seed(5)
        return [domains.uniform(0, 1).sample(), domains.choice(range(1000)).sample(size=3)]

    assert draw_some() == draw_some()
    assert domains.uniform(0, 1).sample() != domains.uniform(0, 1).sample()


def test_a_float_domain_of_a_single_value_draws_that_value():
    assert list(domains.uniform(5, 5).sample(size=2)) == [5.0, 5.0]
    assert domains.loguniform(0.3, 0.3).sample() == domains.quniform(0.3, 0.3, 0.1).sample() == 0.3


def test_a_seed_gives_the_same_values_on_every_python():
    # Written down once; a difference would break the resuming and repeating of old runs.
    assert list(domains.randint(0, 1000).sample(size=4, random_state=0)) == [864, 394, 776, 911]
    assert domains.uniform(0, 1).sample(random_state=0) == 0.8444218515250481
    assert domains.choice(list("abcdef")).sample(size=5, random_state=0) == ["d", "d", "a", "c", "e"]


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: Float(0, 1).normal(), "takes no bounds"),
        (lambda: Float(0, 1).uniform().loguniform(), "0 < lower"),
        (lambda: Float(1, 2).uniform().loguniform(), "takes one sampler"),
    ],
)
def test_a_sampler_that_does_not_fit_is_refused(make, text):
    with pytest.raises(ValueError, match=text):
        make()


@pytest.mark.parametrize(
    "call",
    [
        "uniform(0.5, 2.0)",
        "quniform(0.5, 2.0, 0.5)",
        "loguniform(0.5, 2.0)",
        "qloguniform(0.5, 2.0, 0.5)",
        "qloguniform(0.25, 8.0, 0.25)",
        "randn(1.0, 2.0)",
        "qrandn(1.0, 2.0, 0.5)",
        "randint(1, 9)",
        "qrandint(2, 8, 2)",
        "lograndint(1, 9)",
        "qlograndint(2, 8, 2)",
        "choice([1, 'a', None])",
        "choice([uniform(0.0, 1.0), 'x'])",
    ],
)
def test_each_call_makes_a_domain_that_is_shown_as_that_call(call):
    domain = eval(call, vars(domains).copy())
    assert repr(domain) == call
    assert "uniform(0.0" in call or all(domain.is_valid(value) for value in draw(domain, 20))
    assert repr(pickle.loads(pickle.dumps(domain))) == call


def test_a_domain_may_have_a_sampler_of_another_call():
    assert repr(Float(0, 1)._with_sampler(Grid())) == "Float (0.0, 1.0)"
    assert repr(Float(0, 1).uniform().quantized(0.5)) == "quniform(0.0, 1.0, 0.5)"


@pytest.mark.parametrize("name", ["randint", "lograndint", "qrandint", "qlograndint"])
def test_whole_floats_are_bounds_and_steps_of_integers(name):
    arguments = (2.0, 8.0, 2.0) if name.startswith("q") else (2.0, 8.0)
    domain = getattr(domains, name)(*arguments)
    assert repr(domain) == f"{name}({', '.join(str(int(each)) for each in arguments)})"
    assert {type(value) for value in draw(domain, 20)} == {int}
    with pytest.raises(ValueError, match=r"lower must be an integer, but got lower=1\.5"):
        getattr(domains, name)(1.5, *arguments[1:])


class Incomparable:
    def __eq__(self, other):
        raise TypeError("not comparable")

    __hash__ = None


def test_values_that_cannot_be_compared_are_the_same_only_as_one_object():
    one = Incomparable()
    assert domains.is_same(one, one)
    assert not domains.is_same(one, Incomparable())
    assert domains.choice([one, 3]).is_valid(one)
    assert not domains.choice([one, 3]).is_valid(4)


@pytest.mark.parametrize(
    ("domain", "inside", "outside"),
    [
        (domains.uniform(0, 1), [0, 0.5, 1.0], [-0.1, 1.1, "0.5", None, math.nan, True, [0.5]]),
        (domains.quniform(0, 1, 0.25), [0, 0.25, 1], [0.3, 1.25]),
        (domains.randn(), [-1e9, 3], ["a"]),
        (domains.qrandn(0, 1, 0.5), [-7.5, 0], [0.4]),
        (domains.randint(0, 3), [0, 2, 2.0], [3, -1, 1.5, "1", None]),
        (domains.qrandint(0, 8, 4), [0, 4, 8], [2, 12, -4]),
        (domains.qrandint(0, 8, 1), [0, 7], [8]),
        (domains.choice(["a", (1, 2), None]), ["a", None, (1, 2)], ["b", 1]),
        (
            domains.choice([{"kind": "sgd", "lr": domains.uniform(0, 1)}, 3]),
            [3, {"kind": "sgd", "lr": 0.5}],
            [{"kind": "sgd"}, {"kind": "sgd", "lr": 2}, {"kind": "adam", "lr": 0.5}],
        ),
        (domains.sample_from(lambda: 1), [0, "anything"], []),
    ],
)
def test_is_valid_accepts_exactly_the_values_that_can_be_drawn(domain, inside, outside):
    assert [value for value in inside if not domain.is_valid(value)] == []
    assert [value for value in outside if domain.is_valid(value)] == []


def test_kinds_and_samplers_can_be_asked_for():
    quantised = domains.quniform(0, 1, 0.5)
    assert isinstance(quantised, Float)
    assert (quantised.lower, quantised.upper) == (0.0, 1.0)
    assert isinstance(quantised.get_sampler(), Quantized)
    assert isinstance(quantised.sampler, Quantized)
    assert isinstance(quantised.sampler.get_sampler(), Uniform)
    assert quantised.sampler.q == 0.5
    assert isinstance(Float(None, None).normal(1, 2).sampler, Normal)
    integer = domains.randint(1, 5)
    assert isinstance(integer, Integer)
    assert integer.cast("3") == 3
    assert isinstance(domains.choice([1, 2]), Categorical)
    assert len(domains.choice([1, 2])) == 2
    assert isinstance(Categorical([1]).grid().get_sampler(), Grid)
    assert Categorical([1]).grid().is_grid()
    assert isinstance(domains.sample_from(len), Function)
    assert domains.sample_from(len).is_function()
    assert domains.uniform(0, 1).domain_str == "(0.0, 1.0)"
    assert domains.choice([1, "a"]).domain_str == "[1, 'a']"
    with pytest.raises(RuntimeError, match="enumerated, not sampled"):
        Categorical([1]).grid().sample()


def test_a_sampler_is_chosen_once_and_the_original_stays():
    domain = Float(0, 1)
    uniform = domain.uniform()
    assert domain.sampler is None
    with pytest.raises(ValueError, match="takes one sampler"):
        uniform.set_sampler(Normal(0, 1))
    uniform.set_sampler(Normal(0, 1), allow_override=True)
    assert isinstance(uniform.sampler, Normal)


def test_the_class_of_a_sampler_tells_how_it_draws():
    """No domain is of the kind of an earlier row."""
    made = {
        Integer.default_sampler_cls: domains.randint(1, 4),
        Categorical.default_sampler_cls: domains.choice([1, 2]),
        Float._LogUniform: domains.loguniform(1, 2),
        Float._Normal: domains.randn(0, 1),
        Function._CallSampler: domains.sample_from(len),
        Float._Uniform: Float(0, 1),
    }
    for domain in made.values():
        assert made[next(kind for kind in made if isinstance(domain.get_sampler(), kind))] is domain
    assert isinstance(domains.quniform(0, 1, 0.5).get_sampler().sampler, Float._Uniform)
    assert str(domains.lograndint(1, 4).get_sampler()) == "LogUniform"
    assert repr(domains.randn(0, 1).get_sampler()) == "Normal(mean=0.0, sd=1.0)"


@pytest.mark.parametrize(
    ("domain", "sampler"),
    [(domains.uniform(1, 2), Uniform()), (domains.lograndint(1, 4), LogUniform()), (domains.randn(), Normal())],
)
def test_a_sampler_that_serves_all_domains_is_the_same(domain, sampler):
    other = pickle.loads(pickle.dumps(domain))
    other.set_sampler(sampler, allow_override=True)
    assert repr(other) == repr(domain)
    assert is_searchable(other)


@pytest.mark.parametrize(
    ("name", "arguments"),
    [("loguniform", (1, 8)), ("qloguniform", (1, 8, 0.5)), ("lograndint", (1, 8)), ("qlograndint", (1, 8, 2))],
)
def test_the_old_base_argument_warns(name, arguments):
    with pytest.warns(DeprecationWarning, match="base"):
        old = getattr(domains, name)(*arguments, base=2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        new = getattr(domains, name)(*arguments)
    assert draw(old, 20) == draw(new, 20)
