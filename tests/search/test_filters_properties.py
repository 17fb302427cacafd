"""Any searcher, any space: no suggestion outside of the space, none twice, every suggestion's end told once."""

import random
from collections import Counter

import hypothesis
import pytest
from hypothesis import strategies as st
from kit import FakeExperiment, spaces

from minitune.search import BasicVariantGenerator, ConcurrencyLimiter, Searcher, SearchGenerator
from minitune.search.filters import Rules
from minitune.search.tpe import TPESearch
from minitune.space import domains
from minitune.space.domains import fits
from minitune.space.parameters import config_key, space_size

SETTINGS = hypothesis.settings(max_examples=12)


class Wandering(Searcher):
    """Suggests for some parameters one of a few values, and leaves the others open."""

    def __init__(self, seed):
        super().__init__()
        self.rng = random.Random(seed)
        self.asked = []
        self.told = []
        self.space = {}

    def set_search_properties(self, metric, mode, config, **spec):
        self.space = config
        return True

    def suggest(self, trial_id):
        self.asked.append(trial_id)
        state = self.rng.randrange(3)
        few = domains.choice([{}, {name: _draw(domain, state) for name, domain in self.space.items()}])
        return few.sample(random_state=self.rng)

    def adopt(self, trial_id, config):
        self.asked.append(trial_id)

    def on_trial_complete(self, trial_id, result=None, error=False):
        self.told.append(trial_id)


def _draw(domain, state):
    if isinstance(domain, domains.Domain) and not isinstance(domain, domains.Categorical):
        return domain.sample(random_state=state)
    return domain


FEW_VALUES = [
    domains.uniform(0, 1),
    domains.loguniform(1e-5, 1),
    domains.quniform(0, 1, 0.5),
    domains.randint(0, 3),
    domains.qlograndint(2, 8, 2),
    domains.choice(["a", "b"]),
    domains.choice([1, 1.0, None]),
    7,
]


def algorithm(kind, param_space, rules, seed):
    searcher = None if kind == "random" else TPESearch() if kind == "tpe" else Wandering(seed)
    made = BasicVariantGenerator()
    if searcher is not None:
        made = SearchGenerator(ConcurrencyLimiter(searcher, 5) if kind == "limited" else searcher)
    made.set_rules(rules)
    made.set_seed(seed)
    made.set_search_properties("loss", "min", param_space, num_samples=30)
    made.add_configurations(FakeExperiment(param_space, 30))
    return made, searcher


def is_even(config):
    """Refuses about half of all configurations."""
    return int(config_key(config), 16) % 2 == 0


@pytest.mark.parametrize("kind", ["random", "tpe", "searcher", "limited"])
@hypothesis.given(spaces(names="abc", leaves=FEW_VALUES), st.booleans(), st.integers(0, 99))
@SETTINGS
def test_no_suggestion_is_invalid_or_comes_twice(kind, param_space, constrained, seed):
    rules = Rules("resample", (is_even,) if constrained else ())
    made, searcher = algorithm(kind, param_space, rules, seed)
    configs, refusal = [], ""
    try:
        while not made.is_finished():
            trial = made.next_trial()
            if trial is not None:
                configs.append(trial.config)
                made.on_trial_complete(trial.trial_id, {"loss": float(len(configs) % 5)})
    except ValueError as error:  # of a small space nothing may be even
        refusal = str(error)
    keys = [config_key(config) for config in configs]

    assert all(fits(param_space, config) for config in configs)
    assert len(set(keys)) == len(keys)
    assert not constrained or all(map(is_even, configs))
    assert not refusal or (not configs and "no configuration fulfils the constraints" in refusal)
    assert len(keys) <= min(30, space_size(param_space))
    assert refusal or len(keys) == 30 or made.end_reason
    if isinstance(searcher, Wandering):
        assert Counter(searcher.asked) == Counter(searcher.told)
