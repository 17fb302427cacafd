"""The default search algorithm: seeds, resuming, limits."""

import json
import pickle
import random
import sys
from pathlib import Path

import pytest
from kit import FakeExperiment, all_trials, basic, configs

from minitune.search import BasicVariantGenerator, SearchAlgorithm
from minitune.space.domains import choice, grid_search, loguniform, sample_from, uniform

SCRIPTS = Path(__file__).with_name("scripts")

SPACE = {
    "a": grid_search([1, 2, 3]),
    "r": uniform(0, 1),
    "m": choice([{"lr": loguniform(1e-6, 1)}, {"g": choice(["x", "y"])}]),
    "d": sample_from(lambda config: config["a"] * config["r"]),
}


def test_equal_seeds_give_equal_tables():
    table = configs(basic(SPACE, 5, seed=3))
    assert table == configs(basic(SPACE, 5, seed=3))
    assert table != configs(basic(SPACE, 5, seed=4))
    # more samples only add to it
    assert configs(basic(SPACE, 8, seed=3))[: len(table)] == table


def test_the_users_seed_takes_precedence():
    table = configs(basic(SPACE, 3, seed=1, random_state=42))
    assert table == configs(basic(SPACE, 3, seed=2, random_state=42))
    assert table == configs(basic(SPACE, 3, seed=2, random_state=random.Random(42)))
    assert table != configs(basic(SPACE, 3, seed=42))


def test_without_any_seed_runs_differ_and_nothing_global_is_touched():
    random.seed(0)
    state = random.getstate()
    tables = []
    for _ in range(2):
        generator = BasicVariantGenerator()
        generator.add_configurations(FakeExperiment(SPACE))
        tables.append(configs(generator))
    assert tables[0] != tables[1]
    assert random.getstate() == state


def test_seeding_after_the_configurations_is_the_same():
    generator = BasicVariantGenerator()
    generator.add_configurations(FakeExperiment(SPACE, 3))
    generator.set_seed(7)
    assert configs(generator) == configs(basic(SPACE, 3, seed=7))


def test_a_table_is_the_same_in_every_process(script):
    outputs = {script.run(SCRIPTS / "table_of_a_space.py", PYTHONHASHSEED=seed) for seed in ("0", "1")}
    assert len(outputs) == 1
    # Written down once; a difference would break the resuming of old runs.
    expected = {"a": 1, "b": "y", "c": pytest.approx(-0.7412771312829118), "d": 454901}
    assert json.loads(outputs.pop())[0] == expected


@pytest.mark.parametrize("made", [0, 1, 2, 5, 7, 11, 13])
def test_a_table_goes_on_from_its_state_and_from_a_replay(made):
    whole = configs(basic(SPACE, 4, points_to_evaluate=[{"a": 2}]))
    first = basic(SPACE, 4, points_to_evaluate=[{"a": 2}])
    for _ in range(made):
        first.next_trial()
    restored = basic(SPACE, 4, seed=99, points_to_evaluate=[{"a": 2}])
    restored.set_state(pickle.loads(pickle.dumps(first.get_state())))
    assert configs(restored) == whole[made:]

    replayed = basic(SPACE, 4, points_to_evaluate=[{"a": 2}])
    assert configs(replayed, limit=made) == whole[:made]
    assert configs(replayed) == whole[made:]


def test_a_limit_holds_trials_back_and_paused_ones_do_not_count():
    generator = basic({"r": uniform(0, 1)}, 10, max_concurrent=2)
    trials = [generator.next_trial() for _ in range(3)]
    assert trials[2] is None
    assert not generator.is_finished()
    first, second = (trial.trial_id for trial in trials if trial is not None)
    generator.on_pause(first)
    third = generator.next_trial()
    assert third is not None
    assert generator.next_trial() is None
    generator.on_unpause(first)  # three run now
    generator.on_trial_complete(second, {"loss": 1})
    assert generator.next_trial() is None
    generator.on_trial_complete(third.trial_id, error=True)
    assert generator.next_trial() is not None
    generator.on_pause(first)
    generator.on_trial_complete(first)  # stopped while paused
    assert generator.next_trial() is not None
    assert generator.next_trial() is None


def test_a_search_knows_its_total_and_its_end():
    assert basic({"a": grid_search([1, 2])}, 3).total_samples == 6
    assert basic({"a": grid_search([1, 2])}, -1).total_samples == sys.maxsize
    generator = basic({"a": grid_search([1, 2])}, 3)
    assert generator.metric is None
    assert generator.set_search_properties("loss", "min", {"a": uniform(0, 1)}, num_samples=3)
    assert not generator.is_finished()
    generator.set_finished()
    assert generator.is_finished()
    assert generator.next_trial() is None
    finished = basic({"a": 1}, 2)
    assert len(all_trials(finished)) == 2
    assert finished.is_finished()


def test_the_base_names_the_method_to_override():
    for call in (SearchAlgorithm().next_trial, lambda: SearchAlgorithm().add_configurations([])):
        with pytest.raises(NotImplementedError, match="must override"):
            call()
