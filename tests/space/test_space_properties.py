"""What holds for every space: values lie in their domains, counts, seeds, independence of timing."""

import math
import random

import hypothesis
from hypothesis import strategies as st
from kit import all_trials, basic, configs
from random_spaces import SETTINGS, STEPS, numbers

from minitune.space import domains
from minitune.space.domains import fits
from minitune.space.tree import find_unresolved, get_value, has_unresolved_values
from minitune.space.variants import VariantTable

LEAVES = st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=3))
KEYS = st.text("abcdef_/0", min_size=1, max_size=3)


def containers(inner):
    return st.one_of(
        st.dictionaries(KEYS, inner, max_size=3),
        st.lists(inner, max_size=3),
        st.tuples(inner, inner),
    )


PARTS = st.recursive(
    st.one_of(LEAVES, numbers()),
    lambda inner: st.one_of(containers(inner), st.lists(inner, min_size=1, max_size=3).map(domains.choice)),
    max_leaves=6,
)
GRIDS = st.lists(PARTS, min_size=1, max_size=4).map(domains.grid_search)
SPACES = st.dictionaries(KEYS, st.one_of(PARTS, GRIDS, st.dictionaries(KEYS, GRIDS, max_size=2)), max_size=4).filter(
    lambda any_space: VariantTable(any_space).total <= 100
)


@SETTINGS
@hypothesis.given(domain=numbers(), seed=st.integers())
def test_every_number_that_is_drawn_lies_in_its_domain(domain, seed):
    rng = random.Random(seed)
    for _ in range(20):
        value = domain.sample(random_state=rng)
        assert domain.is_valid(value), value
        assert type(value) is type(domain.cast(value))


@SETTINGS
@hypothesis.given(step=STEPS, first=st.integers(-500, 500), count=st.integers(0, 2000), seed=st.integers())
def test_quantised_floats_are_clean(step, first, count, seed):
    domain = domains.quniform(first * step, (first + count) * step, step)
    value = domain.sample(random_state=seed)
    assert value in (domain.lower, domain.upper) or len(repr(value)) <= len(repr(step)) + 5
    assert math.isclose(value / step, round(value / step), abs_tol=1e-9)


@SETTINGS
@hypothesis.given(any_space=SPACES, num_samples=st.integers(1, 3), seed=st.integers(0, 2**63))
def test_every_configuration_is_one_of_the_space(any_space, num_samples, seed):
    table = configs(basic(any_space, num_samples, seed))
    for config in table:
        assert fits(any_space, config)
        assert not has_unresolved_values(config)
    assert len(table) == VariantTable(any_space, num_samples).total


@SETTINGS
@hypothesis.given(any_space=SPACES, num_samples=st.integers(1, 3))
def test_totals_are_samples_times_grids_and_all_points_differ(any_space, num_samples):
    grids = [(path, domain) for path, domain in find_unresolved(any_space) if domain.is_grid()]
    product = math.prod(len(domain.categories) for _, domain in grids)
    generator = basic(any_space, num_samples)
    assert generator.total_samples == num_samples * product
    plain = {f"g{n}": domains.grid_search(range(len(grid.categories))) for n, (_, grid) in enumerate(grids)}
    points = [tuple(config.values()) for config in configs(basic(plain))]
    assert len(set(points)) == len(points) == product
    trials = all_trials(generator)
    assert [trial.number for trial in trials] == list(range(num_samples * product))
    for trial in trials:
        for path, grid in grids:
            assert grid.is_valid(get_value(trial.config, path))


@SETTINGS
@hypothesis.given(any_space=SPACES, seed=st.integers(0, 2**63), data=st.data())
def test_the_table_does_not_depend_on_when_trials_are_drawn(any_space, seed, data):
    expected = configs(basic(any_space, 2, seed))
    limited = basic(any_space, 2, seed, max_concurrent=data.draw(st.integers(1, 3)))
    found, live = [], []
    while not limited.is_finished():
        trial = limited.next_trial()
        if trial is not None:
            found.append(trial.config)
            live.append(trial.trial_id)
        if live and (trial is None or data.draw(st.booleans())):
            ended = live.pop(data.draw(st.integers(0, len(live) - 1)))
            hook = data.draw(st.sampled_from(["complete", "error", "pause"]))
            if hook == "pause":
                limited.on_pause(ended)
            else:
                limited.on_trial_complete(ended, error=hook == "error")
    assert found == expected


@SETTINGS
@hypothesis.given(any_space=SPACES, seed=st.integers(0, 2**63), made=st.integers(0, 12))
def test_any_table_goes_on_from_its_state(any_space, seed, made):
    def fresh():
        return basic(any_space, 2, seed)

    expected = configs(fresh())
    interrupted = fresh()
    for _ in range(made):
        interrupted.next_trial()
    again = fresh()
    again.set_state(interrupted.get_state())
    assert configs(again) == expected[made:]


@SETTINGS
@hypothesis.given(any_space=SPACES, seed=st.integers(0, 2**63))
def test_a_configuration_given_as_a_point_comes_back(any_space, seed):
    (config, *_) = configs(basic(any_space, 1, seed))
    (again,) = [variant.config for variant in VariantTable(any_space, points=[config])]
    assert again == config
