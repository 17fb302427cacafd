"""`Experiment` and `run_experiments`: several experiments, one after the other, each with what is its own."""

from pathlib import Path

import pytest
from kit import Counter, CutAfter, SavedCounter, journal_of, run_path

from minitune import CheckpointConfig, TuneError, grid_search, report, run, uniform
from minitune.driver.experiment_spec import Experiment
from minitune.driver.functions import run_experiments
from minitune.stopper import MaximumIterationStopper, TimeoutStopper

pytestmark = pytest.mark.usefixtures("inline")


def count(config):
    for i in range(1, 4):
        report({"n": i})


class Steps(SavedCounter):
    """A class of a user."""


def fails(config):
    raise RuntimeError("on purpose")


# -- one after the other --------------------------------------------------------------------------------------------


def test_each_experiment_has_its_own_trainable_space_and_limits():
    trials = run_experiments(
        {
            "functions": {"run": count, "config": {"a": grid_search([1, 2])}, "stop": {"n": 2}},
            "classes": {"run": Steps, "config": {"b": 3}, "stop": {"n": 5}, "num_samples": 2},
        },
        verbose=0,
    )
    assert [trial.trainable_name for trial in trials] == ["count", "count", "Steps", "Steps"]
    assert [trial.config for trial in trials] == [{"a": 1}, {"a": 2}, {"b": 3}, {"b": 3}]
    assert [trial.last_result["n"] for trial in trials] == [2, 2, 5, 5]
    assert [trial.trial_id[-5:] for trial in trials] == ["00000", "00001"] * 2
    assert len({trial.trial_id for trial in trials}) == 4
    assert [Path(trial.local_experiment_path).name for trial in trials] == ["functions"] * 2 + ["classes"] * 2


def test_each_experiment_has_its_own_retries_names_resources_and_start(tmp_path):
    run_experiments(Experiment("first", Steps, stop={"n": 2}), verbose=0)
    (checkpoint,) = (run_path("first")).glob("*/checkpoint_*")
    plain = Experiment("plain", Steps, stop={"n": 3})
    other = Experiment(
        "other",
        Steps,
        stop={"n": 3},
        restore=checkpoint,
        max_failures=2,
        checkpoint_config={"checkpoint_at_end": False},
        resources_per_trial={"cpu": 2},
        trial_name_creator=lambda trial: "named",
        trial_dirname_creator=lambda trial: "here",
    )
    first, second = run_experiments([plain, other], verbose=0)
    assert (first.max_failures, second.max_failures) == (0, 2)
    assert second.name == "named"
    assert Path(second.local_path).name == "here"
    assert Path(first.local_path).name != "here"
    assert [len(list(Path(trial.local_path).glob("checkpoint_*"))) for trial in (first, second)] == [1, 0]
    assert second.placement_group_factory.required_resources == {"CPU": 2}
    assert (first.last_result["iterations_since_restore"], second.last_result["iterations_since_restore"]) == (3, 1)


def test_failed_trial_of_one_experiment_raises_for_all():
    experiments = {"good": {"run": count}, "bad": {"run": fails}}
    with pytest.raises(TuneError, match="Trials did not complete"):
        run_experiments(experiments, verbose=0)
    trials = run_experiments(experiments, verbose=0, raise_on_failed_trial=False)
    assert [trial.status for trial in trials] == ["TERMINATED", "ERROR"]


def test_an_experiment_may_be_passed_twice_also_when_workers_are_reused():
    experiment = Experiment("twice", Steps, config={"x": uniform(0, 1)}, stop={"n": 2})
    trials = run([experiment, experiment, count], verbose=0, reuse_actors=True).trials
    assert [trial.trainable_name for trial in trials] == ["Steps", "Steps", "count"]
    assert [trial.status for trial in trials] == ["TERMINATED"] * 3
    assert [Path(trial.local_experiment_path).name for trial in trials][:2] == ["twice", "twice_2"]
    assert len(run(experiment, verbose=0).trials) == 1


def test_experiments_are_resumed():
    experiments = {
        "both": {"run": Steps, "stop": {"n": 4}, "checkpoint_config": CheckpointConfig(checkpoint_frequency=1)},
        "second": {"run": count, "config": {"x": grid_search([1, 2])}, "stop": {"n": 3}},
    }
    with pytest.raises(TuneError):
        run_experiments(experiments, verbose=0, callbacks=[CutAfter(5)])
    trials = run_experiments(experiments, verbose=0, resume=True)
    assert [(trial.trainable_name, trial.last_result["n"]) for trial in trials] == [
        ("Steps", 4),
        ("count", 3),
        ("count", 3),
    ]
    assert [trial.stopping_criterion for trial in trials] == [{"n": 4}, {"n": 3}, {"n": 3}]
    assert [sum(record["type"] == "trial" for record in journal_of(name)) for name in experiments] == [1, 2]


def test_concurrent_experiments_are_warned_of(caplog):
    run_experiments([Experiment("a", count), Experiment("b", count)], verbose=0, concurrent=True)
    assert caplog.text.count("concurrent=True has no effect") == 1


# -- the object ----------------------------------------------------------------------------------------------------


def test_an_experiment_has_the_members_of_ray_tunes(tmp_path):
    experiment = Experiment("exp", count, stop={"n": 1}, num_samples=3, storage_path=str(tmp_path), config={"a": 1})
    assert experiment.path == str(tmp_path / "exp")
    assert experiment.stopper is None
    assert experiment.checkpoint_config == CheckpointConfig()
    assert experiment.public_spec == {"stop": {"n": 1}, "num_samples": 3, "time_budget_s": None}
    assert experiment.spec["config"] == {"a": 1}
    assert Experiment("exp", count, time_budget_s=5).stopper.__class__ is TimeoutStopper
    stopper = MaximumIterationStopper(3)
    assert Experiment("exp", count, stop=stopper).stopper is stopper


def test_an_experiment_is_made_from_a_dict():
    spec = {"run": count, "config": {"a": 1}, "checkpoint_config": {"num_to_keep": 2}}
    experiment = Experiment.from_json("exp", spec)
    assert (experiment.name, experiment.spec["config"]) == ("exp", {"a": 1})
    assert experiment.checkpoint_config.num_to_keep == 2


def test_the_name_of_an_experiment_may_be_a_path_below_the_storage():
    experiment = Experiment("a/b", count)
    assert experiment.name == "a/b"
    experiment.name = "../b"
    with pytest.raises(ValueError, match="the run's name must not lead to another directory"):
        run_experiments(experiment)
    assert not run_path().parent.exists()


def test_a_class_that_cannot_be_saved_is_refused_where_it_should_be():
    text = "must not be set for this class, but got checkpoint_frequency=2, checkpoint_at_end=None; Counter does not"
    with pytest.raises(ValueError, match=text):
        Experiment("one", Counter, checkpoint_config=CheckpointConfig(checkpoint_frequency=2))
