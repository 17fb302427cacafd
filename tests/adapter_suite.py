"""The common behaviour of adapters, tested with the real search library. Each adapter has a folder in `extras`.

    class TestMine(AdapterSuite):
        adapter = Adapter(MySearch, "mine")

A file there has besides only what one library has. Needs hypothesis.
"""

from __future__ import annotations

import importlib
import math
import statistics
from dataclasses import dataclass, field
from typing import Any

import hypothesis
import pytest
from hypothesis import strategies as st
from kit import check_suggestions, check_that_nothing_comes_twice, fit, spaces

import minitune as tune
from minitune.space.domains import fits
from minitune.space.parameters import config_key

SPACE = {
    "x": tune.uniform(0, 1),
    "inner": {"rate": tune.loguniform(1e-5, 1), "width": tune.qrandint(8, 64, 8)},
    "model": tune.choice([{"kind": "svm", "c": tune.uniform(1, 2)}, {"kind": "tree", "depth": tune.randint(1, 9)}]),
    "layers": tune.choice([(8,), (8, 8)]),
    "constant": 7,
}
GRID = {"cannot cover a grid, but parameter 'x' is one": tune.grid_search([1, 2])}
"""What each adapter refuses, by a part of the error."""


@dataclass
class Adapter:
    """An adapter, and where it differs from the others.

    Attributes:
        searcher: Its class.
        name: What `create_searcher` knows it by.
        options: What makes it ready to learn after few trials.
        space: A space with all that it can search: `x`, `inner/rate`, `inner/width` and, if it can, choices.
        spaces: A strategy of spaces that it can search.
        refused: Domains that it cannot search, by a part of the error.
        bad: Arguments that it refuses.
        has_old_arguments: Whether Ray Tune had it when a searcher took `max_concurrent` and `reward_attr`.
        trials: After how many trials suggestions should be good.
        examples: How many spaces are tried.
    """

    searcher: Any
    name: str
    options: dict[str, Any] = field(default_factory=dict)
    space: dict[str, Any] = field(default_factory=lambda: SPACE)
    spaces: Any = field(default_factory=spaces)
    refused: dict[str, Any] = field(default_factory=lambda: GRID)
    bad: list[dict[str, Any]] = field(default_factory=list)
    has_old_arguments: bool = True
    trials: int = 60
    examples: int = 20

    def make(self, **options):
        return self.searcher(**{"metric": "loss", "mode": "min", **options})

    def searching(self, space=None, *, seed=1, **options):
        """One that is ready to suggest."""
        search = self.make(**{**self.options, **options})
        search.set_seed(seed)
        assert search.set_search_properties(None, None, space or {"x": tune.uniform(0, 1)})
        return search


def train(config):
    for step in range(3):
        tune.report({"loss": (config["x"] - 0.3) ** 2 + 1 / (step + 1)})


def minimise(storage, space, search, **options):
    """A run of 8 trials that report three times each."""
    settings = {"metric": "loss", "mode": "min", "num_samples": 8, "seed": 3, **options}
    return fit(train, space, search_alg=search, storage_path=storage, **settings)


class AdapterSuite:
    """Subclass it, name the class `Test...`, and say which adapter it is about."""

    adapter: Adapter

    def test_all_paths_name_the_same_class(self):
        module = importlib.import_module(f"minitune.tune.search.{self.adapter.name}")
        assert getattr(module, self.adapter.searcher.__name__) is self.adapter.searcher
        assert isinstance(tune.create_searcher(self.adapter.name, metric="loss", mode="min"), self.adapter.searcher)

    def test_nested_and_conditional_parameters_reach_the_trial_where_they_belong(self):
        search = self.adapter.searching(self.adapter.space)
        kinds = set()
        for number in range(self.adapter.trials):
            config = search.suggest(str(number))
            assert fits(self.adapter.space, config)
            kinds.add(tuple(config.get("model", ())))
            search.on_trial_complete(str(number), {"loss": config["x"]})
        assert kinds == ({("kind", "c"), ("kind", "depth")} if "model" in self.adapter.space else {()})

    @pytest.mark.parametrize("mode", ["min", "max"])
    def test_it_finds_the_optimum(self, mode):
        search = self.adapter.searching(mode=mode)
        sign, found = 1 if mode == "min" else -1, []
        for number in range(self.adapter.trials):
            config = search.suggest(str(number))
            found.append(config["x"])
            search.on_trial_complete(str(number), {"loss": sign * (found[-1] - 0.3) ** 2})
        assert min(abs(x - 0.3) for x in found) < 0.02
        assert sum(abs(x - 0.3) < 0.2 for x in found[len(found) // 2 :]) > len(found) / 4

    def test_suggestions_lie_in_any_space(self):
        @hypothesis.given(self.adapter.spaces, st.integers(0, 99))
        @hypothesis.settings(max_examples=self.adapter.examples, phases=[hypothesis.Phase.generate], deadline=None)
        def check(space, seed):
            searcher = self.adapter.make(**self.adapter.options)
            searcher.set_seed(seed)
            check_suggestions(
                space, searcher, lambda points: self.adapter.make(**self.adapter.options, points_to_evaluate=points)
            )

        check()

    def test_nothing_comes_twice(self):
        def check(space, seed):
            check_that_nothing_comes_twice(space, self.adapter.searcher(**self.adapter.options), seed)

        if "model" not in self.adapter.space:
            check({"a": tune.quniform(0, 1, 0.25)}, 1)
            return
        settings = hypothesis.settings(max_examples=10, phases=[hypothesis.Phase.generate], deadline=None)
        settings(hypothesis.given(self.adapter.spaces, st.integers(0, 99))(check))()

    def test_points_come_first_by_value_also_below_a_choice(self):
        points = [{"x": 0.25, "inner/rate": 0.5}, {"inner": {"width": 16}}]
        below = {"model": {"kind": "tree", "depth": 3}, "layers": (8, 8)} if "model" in self.adapter.space else {}
        search = self.adapter.searching(self.adapter.space, points_to_evaluate=[{**points[0], **below}, points[1]])
        first = search.suggest("0")
        second = search.suggest("1")
        assert first["x"] == pytest.approx(0.25)
        assert first["inner"]["rate"] == pytest.approx(0.5)
        assert {key: first[key] for key in below} == below
        assert second["inner"]["width"] == 16
        assert first["constant"] == 7
        with pytest.raises(ValueError, match="every key of a point must be one of the search space, but got 'y'"):
            self.adapter.searching(self.adapter.space, points_to_evaluate=[{"y": 1}]).suggest("0")

    def test_points_get_the_types_of_the_space_and_what_is_not_in_it_is_refused(self):
        search = self.adapter.searching(self.adapter.space, points_to_evaluate=[{"inner/width": 16.0}])
        typed = search.suggest("0")
        domain = self.adapter.space["inner"]["width"]
        assert repr(typed["inner"]["width"]) == repr(domain.cast(16))
        assert typed["constant"] == 7
        for point, text in (
            ({"constan": 1}, r"but got 'constan' \(did you mean 'constant'\?\)"),
            ({"constant": 9}, "constant of a point to evaluate must be 7"),
            ({"x": 7.0}, "x of a point to evaluate must be "),
        ):
            with pytest.raises(ValueError, match=text):
                self.adapter.searching(self.adapter.space, points_to_evaluate=[point])

    @pytest.mark.parametrize("points", [[], [{"x": 0.25}, {"x": 0.5}]], ids=["free", "points"])
    def test_one_that_adopts_trials_goes_on_as_the_one_that_suggested_them(self, points):
        first = self.adapter.searching(self.adapter.space, points_to_evaluate=points)
        second = self.adapter.searching(self.adapter.space, points_to_evaluate=points)
        for number in range(self.adapter.trials // 4):
            config = first.suggest(str(number))
            second.adopt(str(number), {**config, "added_by_the_run": 7})
            for search in (first, second):
                search.on_trial_result(str(number), {"loss": config["x"], "training_iteration": 1})
                search.on_trial_complete(str(number), {"loss": config["x"], "training_iteration": 2}, error=number == 3)
        for name in ("a", "b"):
            assert config_key(second.suggest(name)) == config_key(first.suggest(name))

    def test_it_learns_from_adopted_trials_that_it_would_not_have_suggested(self):
        search = self.adapter.searching(points_to_evaluate=[{"x": 0.9}, {"x": 0.7}])
        count = self.adapter.trials // 2
        adopted = [0.7, *sorted(((number + 0.5) / count for number in range(count)), key=lambda x: abs(x - 0.3))]
        for number, x in enumerate(adopted):
            search.adopt(str(number), {"x": x})
            search.on_trial_complete(str(number), {"loss": (x - 0.3) ** 2})
        found = []
        for number in range(10):
            config = search.suggest(f"next {number}")
            found.append(config["x"])
            search.on_trial_complete(f"next {number}", {"loss": (config["x"] - 0.3) ** 2})
        assert 0.9 not in found
        assert not {*found} & {*adopted}
        assert statistics.median(abs(x - 0.3) for x in found) < 0.15

    def test_missing_values_are_harmless(self):
        search = self.adapter.searching()
        ends = [
            {"result": {"loss": 1.0}},
            {"error": True},
            {},
            {"result": {"loss": math.nan}},
            {"result": {"other": 1}},
        ]
        for number in range(len(ends) + 1):
            search.suggest(str(number))
        for number, end in enumerate(ends):
            search.on_trial_complete(str(number), **end)
        search.on_suggestion_refused(str(len(ends)))
        search.add_evaluated_point({"x": 0.5}, 0.5)
        config = search.suggest("last")
        assert 0 <= config["x"] <= 1

    def test_missing_and_wrong_arguments_are_named(self):
        name = self.adapter.searcher.__name__
        with pytest.raises(ValueError, match=f"{name} has no search space"):
            self.adapter.make().suggest("0")
        with pytest.raises(ValueError, match=f"{name} needs a metric and a mode, but got metric=None, mode=None"):
            self.adapter.searcher(space={"x": tune.uniform(0, 1)}).suggest("0")
        for text, domain in self.adapter.refused.items():
            with pytest.raises(ValueError, match=text.rstrip(".")):
                self.adapter.searching({"x": domain})
        for options in self.adapter.bad:
            with pytest.raises(ValueError, match=f"{next(iter(options))} must be|{next(iter(options))}: "):
                self.adapter.searcher(**{"metric": "x", **options})

    def test_arguments_that_only_earlier_versions_of_ray_tune_had(self):
        if self.adapter.has_old_arguments:
            search = self.adapter.searcher(max_concurrent=2, reward_attr="gain", use_early_stopped_trials=True)
            assert (search.metric, search.mode, search.max_concurrent) == ("gain", "max", 2)
        with pytest.raises(TypeError, match="argument 'annealing'"):
            self.adapter.searcher(annealing=True)

    def test_a_run(self, tmp_path):
        space = {"x": tune.uniform(0, 1), "twice": tune.sample_from(lambda config: 2 * config["x"])}
        scheduler = tune.ASHAScheduler(max_t=3, grace_period=1)
        search = self.adapter.searcher(points_to_evaluate=[{"x": 0.25}], **self.adapter.options)
        grid = minimise(tmp_path, space, search, scheduler=scheduler, max_concurrent_trials=2)
        assert [result.config["twice"] for result in grid] == [2 * result.config["x"] for result in grid]
        assert grid[0].config["x"] == pytest.approx(0.25)
        assert tune.Tuner.restore(str(tmp_path / "run"), train, add_samples=2).fit().num_terminated == 10

    def test_duplicates_and_constraints(self, tmp_path):
        if "model" in self.adapter.space:
            space = {"x": tune.choice([0, 1, 2]), "y": tune.choice([0, 1, 2])}
            grid = minimise(tmp_path, space, self.adapter.searcher(), num_samples=50, on_duplicate="resample")
            assert len({(result.config["x"], result.config["y"]) for result in grid}) == len(grid) == 9
        near = [lambda config: config["x"] < 0.5]
        grid = minimise(
            tmp_path / "2", {"x": tune.uniform(0, 1)}, self.adapter.searcher(**self.adapter.options), constraints=near
        )
        assert len(grid) == 8
        assert all(result.config["x"] < 0.5 for result in grid)

    def test_saved_state_with_conditional_parameters(self, tmp_path):
        search, other = self.adapter.searching(self.adapter.space), self.adapter.searching(self.adapter.space, seed=9)
        for number in range(min(15, self.adapter.trials // 2)):
            config = search.suggest(str(number))
            search.on_trial_complete(str(number), {"loss": config["x"]})
        search.suggest("open")
        search.save(str(tmp_path / "state"))
        other.restore(str(tmp_path / "state"))
        assert config_key(other.suggest("next")) == config_key(search.suggest("next"))
        other.on_trial_complete("open", {"loss": 1.0})
