"""A searcher that has adopted the trials of another one goes on as that one: what a resume relies on."""

import zlib

import pytest
from kit import Recording, suggesting

from minitune import ConcurrencyLimiter, Repeater, Searcher, TPESearch, choice, randint, uniform
from minitune.experiment.trial_maker import TrialMaker
from minitune.search import AutoSearch, BasicVariantGenerator
from minitune.search.bohb import TuneBOHB
from minitune.search.filters import Rules
from minitune.search.search_algorithm import PlainExperiment, SearchAlgorithm, SearchGenerator
from minitune.space.domains import Sampler

FLAT = {"x": uniform(0, 1), "n": randint(0, 9), "k": choice(["a", "b"]), "c": 7}
NESTED = {"m": choice([{"d": randint(1, 5)}, {"w": uniform(0, 1)}]), "deep": {"x": uniform(0, 1), "c": "c"}}
SMALL = {"n": randint(0, 6), "k": choice(["a", "b"])}
RESAMPLE = Rules.of("resample", None)
EVEN = Rules.of("allow", [lambda config: config["n"] % 2 == 0])
POINTS = [{"x": 0.5}, {"n": 3, "k": "b"}]


INSIDE = Rules.of("allow", [lambda config: config["edge"] > 0])


def loss_of(config):
    """Some value of a configuration; the best is at an edge, if there is one."""
    if "edge" in config:
        return float(config["edge"])
    return sum(zlib.crc32(str(value).encode()) % 1000 for value in config.values()) / 1000


class Own(Sampler):
    """No searcher knows it, so its values are drawn when a suggestion is complete."""

    def draw(self, domain, config, rng):
        return rng.random()


CASES = {
    "random": (BasicVariantGenerator, FLAT, None),
    "random, points": (lambda: BasicVariantGenerator(POINTS), FLAT, None),
    "random, small": (BasicVariantGenerator, SMALL, RESAMPLE),
    "random, constraint": (BasicVariantGenerator, FLAT, EVEN),
    "tpe": (lambda: TPESearch(n_initial_points=4), FLAT, None),
    "tpe, nested": (lambda: TPESearch(n_initial_points=4), NESTED, None),
    "tpe, points": (lambda: TPESearch(points_to_evaluate=POINTS, n_initial_points=4), FLAT, None),
    "tpe, small": (lambda: TPESearch(n_initial_points=4), SMALL, RESAMPLE),
    "tpe, constraint": (lambda: TPESearch(n_initial_points=4, points_to_evaluate=[{"n": 4}]), FLAT, EVEN),
    "tpe, constraint, sampler": (TPESearch, {**FLAT, "f": uniform(0, 1)._with_sampler(Own(), True)}, EVEN),
    "auto": (lambda: AutoSearch(n_initial_points=4), FLAT, None),
    "auto, numbers": (lambda: AutoSearch(n_initial_points=4), {f"x{n}": uniform(0, 1) for n in range(3)}, None),
    "auto, edge": (lambda: AutoSearch(n_initial_points=4), {"edge": uniform(0, 1)}, None),
    "auto, edge outside": (
        lambda: AutoSearch(n_initial_points=4),
        {"edge": uniform(0, 1), "k": choice([1, 2])},
        INSIDE,
    ),
    "auto, many numbers": (AutoSearch, {f"x{n}": uniform(0, 1) for n in range(18)}, None),
    "bohb": (lambda: TuneBOHB(), FLAT, None),
    "limited": (lambda: ConcurrencyLimiter(TPESearch(n_initial_points=4), 3), FLAT, None),
    "repeated": (lambda: Repeater(TPESearch(n_initial_points=4), 2), FLAT, None),
}


def search_of(case):
    make, space, rules = CASES[case]
    made = make()
    search = made if isinstance(made, SearchAlgorithm) else SearchGenerator(made)
    if rules is not None:
        search.set_rules(rules)
    search.set_seed(5)
    search.set_search_properties("loss", "min", space, num_samples=-1)
    maker = TrialMaker("train")
    maker.id_prefix = "abcde"
    search.add_configurations([PlainExperiment(space, -1, maker)])
    return search


@pytest.mark.parametrize("count", [1, 2, 7, 12, 17])
@pytest.mark.parametrize("case", CASES)
def test_adopted_trials_lead_to_the_same_suggestions(case, count):
    first = search_of(case)
    second = search_of(case)
    waiting = []
    for number in range(count):
        trial = first.next_trial()
        if trial is None:  # a small space has been tried
            assert second.is_finished() or second.next_trial() is None
            return
        second.adopt(trial.trial_id, trial.current_config)
        waiting.append(trial)
        if number % 3:  # two trials run at a time
            ended = waiting.pop(0)
            for search in (first, second):
                result = {"loss": loss_of(ended.current_config), "training_iteration": 1}
                if number == 4:
                    search.on_trial_complete(ended.trial_id, error=True)
                else:
                    search.on_trial_result(ended.trial_id, result)
                    search.on_trial_complete(ended.trial_id, result)
    makers = [search._experiment.maker for search in (first, second) if isinstance(search, SearchGenerator)]
    for maker in makers:
        maker.count = count
    going_on = first.next_trial()
    same = second.next_trial()
    assert (going_on is None) == (same is None)
    if going_on is not None and same is not None:
        assert same.current_config == going_on.current_config
        assert same.evaluated_params == going_on.evaluated_params


@pytest.mark.parametrize("case", ["random, small", "tpe, small"])
def test_a_configuration_that_was_adopted_from_elsewhere_is_not_tried_again(case):
    search = search_of(case)
    configs = [{"n": n, "k": k} for n in range(6) for k in "ab"]
    for number, config in enumerate(configs[2:8]):
        search.adopt(f"t{number}", config)
    found = []
    while (trial := search.next_trial()) is not None:
        found.append(trial.current_config)
        search.on_trial_complete(trial.trial_id, {"loss": 1})
    assert found
    assert not [config for config in found if config in configs[2:8]]
    assert search.is_finished()


class Counts(Searcher):
    """Knows only the trials that it has suggested, and hesitates before each."""

    def __init__(self):
        super().__init__("loss", "min")
        self.asked = 0
        self.live = {}

    def suggest(self, trial_id):
        self.asked += 1
        if self.asked % 2:
            return None
        self.live[trial_id] = self.asked // 2
        return {"x": self.asked // 2}

    def on_trial_complete(self, trial_id, result=None, error=False):
        del self.live[trial_id]


def test_a_searcher_of_the_user_is_asked_for_the_trials_that_it_adopts(caplog):
    searcher = Counts()
    searcher.adopt("a", {"x": 1, "c": 0})
    searcher.on_trial_complete("a", {"loss": 1})
    assert not caplog.text
    searcher.adopt("b", {"x": 3, "c": 0})
    assert "another configuration than before for trial b" in caplog.text
    assert searcher.live == {"b": 2}


def test_the_batch_of_the_last_adopted_trials_closes():
    inner = Recording()
    generator = suggesting(ConcurrencyLimiter(inner, 4, batch=True), num_samples=2)
    for trial_id in ("a", "b"):
        generator.adopt(trial_id, {"x": 0})
    for trial_id in ("a", "b"):
        generator.on_trial_complete(trial_id, {"loss": 1})
    assert inner.completed() == ["a", "b"]
