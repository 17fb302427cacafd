"""Trials from suggestions: merging, what is left open, the contract with the searcher, saving."""

import logging
import pickle
import random
import sys

import pytest
from kit import FakeExperiment, Listed, Recording, all_trials, configs, suggesting

from minitune.base.randomness import lending
from minitune.search import ConcurrencyLimiter, Repeater, SearchGenerator
from minitune.search.tpe import TPESearch
from minitune.space.domains import choice, grid_search, sample_from, uniform
from minitune.space.variants import RecursiveDependencyError

# -- configurations ---------------------------------------------------------------------------------------------


def test_a_suggestion_is_laid_deeply_over_the_constants():
    space = {"deep": {"a": 1, "b": uniform(0, 1), "list": [1, 2]}, "c": "kept", "lr": uniform(0, 1)}
    (trial,) = all_trials(suggesting(Listed({"deep": {"b": 0.5, "new": 3}, "lr": 0.1}), space))
    assert trial.config == {"deep": {"a": 1, "b": 0.5, "list": [1, 2], "new": 3}, "c": "kept", "lr": 0.1}
    assert trial.evaluated_params == {"deep/b": 0.5, "deep/new": 3, "lr": 0.1}
    assert trial.experiment_tag == "0_b=0.5,new=3,lr=0.1"
    assert trial.trial_id == "abcde_00000"


def test_constants_that_a_searcher_repeats_are_not_searched():
    (trial,) = all_trials(suggesting(Listed({"a": 1, "b": 2}), {"a": 1, "b": uniform(0, 3)}))
    assert trial.evaluated_params == {"b": 2}


def test_open_parameters_of_a_suggestion_are_resolved():
    space = {
        "a": uniform(0, 1),
        "double": sample_from(lambda config: config["a"] * 2),
        "free": choice([{"x": uniform(5, 6)}]),
    }
    table = configs(suggesting(Listed({"a": 0.25}, {"a": 0.5}), space))
    assert [v["double"] for v in table] == [0.5, 1.0]
    assert all(5 <= v["free"]["x"] < 6 for v in table)
    assert table == configs(suggesting(Listed({"a": 0.25}, {"a": 0.5}), space))
    drawn = configs(suggesting(Listed({"a": choice([{"deep": uniform(1, 2)}])}), {"a": 1}))
    assert 1 <= drawn[0]["a"]["deep"] < 2


def test_list_members_can_be_suggested_by_index():
    space = {"layers": [uniform(0, 1), 7], "pair": (uniform(0, 1), uniform(0, 1))}
    (config,) = configs(suggesting(Listed({"layers": {"0": 0.5}, "pair": [0.1, 0.2]}), space))
    assert config == {"layers": [0.5, 7], "pair": (0.1, 0.2)}


def test_trials_share_nothing_with_suggestions():
    suggestion = {"a": [1]}
    searcher = Listed(suggestion, suggestion)
    first, second = all_trials(suggesting(searcher))
    first.config["a"].append(2)
    assert second.config["a"] == suggestion["a"] == [1]


def test_a_grid_needs_the_default_search_algorithm():
    with pytest.raises(ValueError, match="a searcher cannot cover a grid"):
        suggesting(Listed({"x": 1}), {"g": grid_search([1, 2])}).next_trial()


def test_a_searcher_must_suggest_a_dict():
    with pytest.raises(TypeError, match=r"must return a dict, None or Searcher.FINISHED, but Listed returned 3"):
        suggesting(Listed(3)).next_trial()


# -- the loop -------------------------------------------------------------------------------------------------------


def test_searchers_see_the_ids_of_the_trials():
    searcher = Recording()
    trials = all_trials(suggesting(searcher, num_samples=3))
    assert [trial.trial_id for trial in trials] == [event[1] for event in searcher.heard]
    assert [trial.config for trial in trials] == [{"x": 0}, {"x": 1}, {"x": 2}]
    assert [trial.experiment_tag for trial in trials] == ["0_x=0", "1_x=1", "2_x=2"]


def test_none_is_not_the_end_and_finished_is():
    generator = suggesting(Listed({"x": 0}, None, {"x": 1}))
    assert generator.next_trial() is not None
    assert generator.next_trial() is None
    assert not generator.is_finished()
    trial = generator.next_trial()
    assert trial.trial_id == "abcde_00001"
    assert generator.next_trial() is None
    assert generator.is_finished()


def test_num_samples_is_the_end():
    generator = suggesting(Recording(), num_samples=2)
    assert generator.total_samples == 2
    assert len(all_trials(generator)) == 2
    assert generator.is_finished()
    assert generator.next_trial() is None
    endless = suggesting(Recording(), num_samples=-1)
    assert endless.total_samples == sys.maxsize
    assert len(all_trials(endless, limit=50)) == 50
    endless.set_finished()
    assert endless.next_trial() is None


def test_every_suggestion_is_completed_exactly_once():
    searcher = Recording()
    generator = suggesting(searcher, num_samples=3)
    one, two, three = (trial.trial_id for trial in all_trials(generator))
    searcher.heard.clear()
    generator.on_trial_result(one, {"loss": 2})
    generator.on_trial_error(two)
    generator.on_pause(three)
    generator.on_unpause(three)
    generator.on_trial_complete(one, {"loss": 1})
    generator.on_trial_complete(two, error=True)
    generator.on_trial_complete(three)
    expected = [
        ("result", one, {"loss": 2}),
        ("error", two),
        ("pause", three),
        ("unpause", three),
        ("complete", one, {"loss": 1}, False),
        ("complete", two, None, True),
        ("complete", three, None, False),
    ]
    assert searcher.heard == expected
    for trial_id in (one, two, three, "somebody_else"):
        generator.on_trial_result(trial_id, {"loss": 0})
        generator.on_trial_complete(trial_id, {"loss": 0})
        generator.on_trial_error(trial_id)
        generator.on_pause(trial_id)
        generator.on_unpause(trial_id)
    assert searcher.heard == expected


def test_a_suggestion_that_makes_no_trial_is_completed_as_failed():
    searcher = Recording()
    searcher.set_search_properties = lambda *args, **kwargs: True
    generator = suggesting(searcher, {"f": sample_from(lambda config: config["f"])})
    with pytest.raises(RecursiveDependencyError):
        generator.next_trial()
    assert searcher.completed() == ["abcde_00000"]
    assert searcher.heard[-1][-1] is True


def test_one_searcher_serves_one_experiment():
    generator = SearchGenerator(Recording())
    with pytest.raises(ValueError, match="exactly one experiment, but got 2"):
        generator.add_configurations([FakeExperiment(), FakeExperiment()])
    generator.add_configurations(one for one in [FakeExperiment()])
    with pytest.raises(ValueError, match="exactly one experiment, but got 2"):
        generator.add_configurations(FakeExperiment())


@pytest.mark.parametrize("num_adopted", [0, 1])
def test_what_a_searcher_draws_globally_depends_on_the_number_of_the_trial(num_adopted):
    class Drawing(Recording):
        def suggest(self, trial_id):
            random.random()  # so a stream that went on would give other values
            return {"x": random.random()}

        def adopt(self, trial_id, config):
            pass

    with lending(is_seeded=True):
        drawn = [config["x"] for config in configs(suggesting(Drawing(), num_samples=3))]
        assert len(set(drawn)) == 3
        resumed = suggesting(Drawing(), num_samples=3)
        for number in range(num_adopted):
            resumed.adopt(str(number), {"x": drawn[number]})
        assert [config["x"] for config in configs(resumed)] == drawn[num_adopted:]


# -- setting up -----------------------------------------------------------------------------------------------------


def test_a_configured_searcher_and_a_space_exclude_each_other():
    generator = SearchGenerator(Recording(metric="loss", mode="min"))
    limited = SearchGenerator(ConcurrencyLimiter(Recording(metric="loss", mode="min"), 2))
    for one in (generator, limited):
        with pytest.raises(ValueError, match=r"^Recording has a search space of its own.*'deep/lr'"):
            one.set_search_properties(None, None, {"deep": {"lr": uniform(0, 1)}})
    assert generator.set_search_properties(None, None, {"constant": 1}) is False


def test_an_ignored_metric_or_mode_warns(caplog):
    caplog.set_level(logging.WARNING, logger="minitune")
    generator = SearchGenerator(Recording(metric="loss", mode="min"))
    generator.set_search_properties("loss", "min", {})
    assert not caplog.records
    generator.set_search_properties("accuracy", "max", {})
    assert "metric='accuracy' is ignored, it has 'loss'" in caplog.text
    assert "mode='max' is ignored, it has 'min'" in caplog.text
    assert generator.metric == "loss"


def test_an_ignored_metric_is_told_although_the_searcher_takes_the_space(caplog):
    caplog.set_level(logging.WARNING, logger="minitune")
    space = {"x": uniform(0, 1)}
    several = SearchGenerator(TPESearch(metric=["loss", "size"], mode=["min", "min"]))
    assert several.set_search_properties("loss", "min", space)
    assert not caplog.records
    assert SearchGenerator(TPESearch(metric="loss", mode="min")).set_search_properties("size", "max", space)
    assert "metric='size' is ignored, it has 'loss'" in caplog.text


def test_an_unconfigured_searcher_takes_the_runs_metric():
    searcher = Recording()
    generator = SearchGenerator(ConcurrencyLimiter(Repeater(searcher, 2), 1))
    generator.set_search_properties("accuracy", "max", {})
    assert (generator.metric, searcher.metric, searcher.mode) == ("accuracy", "accuracy", "max")


def test_searchers_need_not_take_the_runs_other_properties():
    class Old(Listed):
        def set_search_properties(self, metric, mode, config):
            self.known = (metric, mode)
            return True

    searcher = Old()
    for wrapped in (searcher, ConcurrencyLimiter(searcher, 2)):
        assert SearchGenerator(wrapped).set_search_properties("loss", "min", {}, num_samples=5, stop=None)
        assert searcher.known == ("loss", "min")


# -- state ------------------------------------------------------------------------------------------------------------


def wrapped():
    searcher = Recording(metric="loss", mode="min")
    return searcher, suggesting(ConcurrencyLimiter(Repeater(searcher, 2), 3, batch=True), num_samples=8)


def test_a_search_goes_on_from_its_state():
    searcher, first = wrapped()
    ids = [trial.trial_id for trial in (first.next_trial(), first.next_trial(), first.next_trial()) if trial]
    assert first.next_trial() is None
    first.on_trial_complete(ids[0], {"loss": 1.0})
    again, second = wrapped()
    second.set_state(pickle.loads(pickle.dumps(first.get_state())))
    again.set_state(pickle.loads(pickle.dumps(searcher.get_state())))
    assert again.heard == searcher.heard
    for generator in (first, second):
        generator.on_trial_complete(ids[0], {"loss": 9.0})  # told already
        assert generator.next_trial() is None  # the batch is open
        generator.on_trial_complete(ids[1], {"loss": 3.0})
        generator.on_trial_complete(ids[2], {"loss": 5.0})
    assert again.heard == searcher.heard
    assert again.heard[-1] == ("complete", ids[0], {"loss": 2.0}, False)


def test_a_plain_searcher_is_saved_and_restored(tmp_path):
    searcher = Recording(metric="loss", mode="min")
    searcher.suggest("a")
    searcher.save(str(tmp_path / "file"))
    again = Recording()
    again.restore(str(tmp_path / "file"))
    assert (again.count, again.metric, again.heard) == (1, "loss", searcher.heard)
    limiter = ConcurrencyLimiter(Recording(), 2)
    limiter.restore(str(tmp_path / "file"))
    assert limiter.suggest("b") == {"x": 1}
    with pytest.raises(RuntimeError, match="no state of a Recording"):
        Recording().restore_from_dir(str(tmp_path))


def test_a_state_fits_only_searchers_wrapped_alike():
    _, generator = wrapped()
    with pytest.raises(ValueError, match="wrapped as when it was saved"):
        suggesting(Recording()).set_state(generator.get_state())
