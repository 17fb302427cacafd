"""`Experiment` and `run_experiments`: several experiments in one run, each with what is its own."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import pytest
from kit import Counter, CutAfter, SavedCounter, journal_of, run_path

from minitune import CheckpointConfig, TuneError, grid_search, report, run, uniform
from minitune._run import run_experiments
from minitune.callback import Callback
from minitune.driver.experiment_spec import Experiment
from minitune.registry import get_trainable
from minitune.schedulers import FIFOScheduler
from minitune.stopper import MaximumIterationStopper, TimeoutStopper

pytestmark = pytest.mark.usefixtures("inline")


def count(config: dict[str, Any]) -> None:
    for i in range(1, 4):
        report({"n": i})


class Steps(SavedCounter):
    """A class of a user."""


def fails(config: dict[str, Any]) -> None:
    raise RuntimeError("on purpose")


# -- several in one run --------------------------------------------------------------------------------------------


def test_each_experiment_has_its_own_trainable_space_and_limits() -> None:
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
    assert [trial.trial_id[-5:] for trial in trials] == ["00000", "00001", "00002", "00003"]
    assert len({trial.trial_id[:5] for trial in trials}) == 1
    assert {trial.local_experiment_path for trial in trials} == {str(run_path("functions"))}


def test_each_experiment_has_its_own_checkpoints() -> None:
    often, seldom = CheckpointConfig(num_to_keep=1, checkpoint_frequency=1), CheckpointConfig(checkpoint_frequency=2)
    trials = run_experiments(
        [
            Experiment("often", Steps, stop={"n": 5}, checkpoint_config=often),
            Experiment("seldom", Steps, stop={"n": 5}, checkpoint_config=seldom),
            Experiment("never", Steps, stop={"n": 5}, checkpoint_config={"checkpoint_at_end": False}),
            Experiment("functions", count),
        ],
        verbose=0,
    )
    kept = [sorted(path.name[-1] for path in Path(trial.local_path).glob("checkpoint_*")) for trial in trials]
    assert kept == [["4"], ["0", "1", "2"], [], []]


def test_each_experiment_has_its_own_retries_names_resources_and_start(tmp_path: Path) -> None:
    run_experiments(Experiment("first", Steps, stop={"n": 2}), verbose=0)
    (checkpoint,) = (run_path("first")).glob("*/checkpoint_*")
    plain = Experiment("plain", Steps, stop={"n": 3})
    other = Experiment(
        "other",
        Steps,
        stop={"n": 3},
        restore=checkpoint,
        max_failures=2,
        resources_per_trial={"cpu": 2},
        trial_name_creator=lambda trial: "named",
        trial_dirname_creator=lambda trial: "here",
    )
    first, second = run_experiments([plain, other], verbose=0)
    assert (first.max_failures, second.max_failures) == (0, 2)
    assert second.name == "named"
    assert Path(second.local_path).name == "here"
    assert Path(first.local_path).name != "here"
    assert second.placement_group_factory.required_resources == {"CPU": 2}
    assert (first.last_result["iterations_since_restore"], second.last_result["iterations_since_restore"]) == (3, 1)


def test_failed_trial_of_one_experiment_raises_for_all() -> None:
    experiments = {"good": {"run": count}, "bad": {"run": fails}}
    with pytest.raises(TuneError, match="Trials did not complete"):
        run_experiments(experiments, verbose=0)
    trials = run_experiments(experiments, verbose=0, raise_on_failed_trial=False)
    assert [trial.status for trial in trials] == ["TERMINATED", "ERROR"]


def test_experiments_start_one_after_the_other() -> None:
    experiments = {"a": {"run": count}, "b": {"run": Steps, "stop": MaximumIterationStopper(2)}}
    first, second = run_experiments(experiments, verbose=0, concurrent=False)
    assert first.local_experiment_path == str(run_path("a"))
    assert second.local_experiment_path == str(run_path("b"))
    assert second.last_result["n"] == 2


def test_an_experiment_may_be_passed_twice_also_when_workers_are_reused() -> None:
    experiment = Experiment("twice", Steps, config={"x": uniform(0, 1)}, stop={"n": 2})
    trials = run([experiment, experiment, count], verbose=0, reuse_actors=True).trials
    assert [trial.trainable_name for trial in trials] == ["Steps", "Steps", "count"]
    assert [trial.status for trial in trials] == ["TERMINATED"] * 3
    assert len(run(experiment, verbose=0).trials) == 1


def test_ignored_limits_of_later_experiments_are_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    stopped = Experiment("second, with a stopper", Steps, stop=MaximumIterationStopper(1), time_budget_s=60)
    (_, second) = run_experiments([Experiment("a", Steps, stop=MaximumIterationStopper(2)), stopped], verbose=0)
    assert "of experiment 'second, with a stopper' have no effect" in caplog.text
    assert second.last_result["n"] == 2


def test_equal_limits_are_not_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    trials = run([Steps, Steps], stop=MaximumIterationStopper(2), time_budget_s=60, name="same", verbose=0).trials
    assert [trial.last_result["n"] for trial in trials] == [2, 2]
    assert "have no effect" not in caplog.text


def test_a_run_of_several_experiments_is_resumed() -> None:
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
    records = [record for record in journal_of("both") if record["type"] == "trial"]
    assert [record["experiment"] for record in records] == [0, 1, 1]


def test_plug_ins_hear_the_settings_of_the_first_experiment() -> None:
    heard: list[dict[str, Any]] = []

    class Hears(Callback):
        def setup(self, **info: Any) -> None:
            heard.append(info)

    class Scheduler(FIFOScheduler):
        def set_search_properties(self, metric: str | None, mode: str | None, **spec: Any) -> bool:
            heard.append(spec)
            return super().set_search_properties(metric, mode, **spec)

    first = Experiment("a", count, stop={"n": 1}, num_samples=2, time_budget_s=60)
    run_experiments([first, Experiment("b", count)], scheduler=Scheduler(), callbacks=[Hears()], verbose=0)
    spec = {"stop": {"n": 1}, "num_samples": 2, "time_budget_s": 60}
    about_run = {"searcher": None, "reuse_actors": False, "confirm": 0, "objectives": {}}
    assert heard == [{**spec, **about_run}, {**spec, "total_num_samples": 3}]


# -- the object ----------------------------------------------------------------------------------------------------


def test_an_experiment_has_the_members_of_ray_tunes(tmp_path: Path) -> None:
    experiment = Experiment("exp", count, stop={"n": 1}, num_samples=3, storage_path=str(tmp_path), config={"a": 1})
    assert experiment.path == experiment.local_path == experiment.remote_path == str(tmp_path / "exp")
    assert experiment.run_identifier == "count"
    assert experiment.stopper is None
    assert experiment.checkpoint_config == CheckpointConfig()
    assert experiment.public_spec == {"stop": {"n": 1}, "num_samples": 3, "time_budget_s": None}
    assert experiment.spec["config"] == {"a": 1}
    assert Experiment("exp", count, time_budget_s=5).stopper.__class__ is TimeoutStopper
    stopper = MaximumIterationStopper(3)
    assert Experiment("exp", count, stop=stopper).stopper is stopper


@pytest.mark.parametrize("more", [{}, {"env": "CartPole"}])
def test_a_space_that_is_a_text_is_refused(more: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="config must be a dict"):
        Experiment.from_json("exp", {"run": count, "config": "text", **more})


def test_an_experiment_is_made_from_a_dict() -> None:
    spec = {"run": count, "env": "CartPole", "config": {"a": 1}, "checkpoint_config": {"num_to_keep": 2}}
    experiment = Experiment.from_json("exp", spec)
    assert experiment.name == "exp"
    assert experiment.spec["config"] == {"a": 1, "env": "CartPole"}
    assert experiment.checkpoint_config.num_to_keep == 2
    assert spec["config"] == {"a": 1}


def test_an_experiment_names_its_trainable() -> None:
    assert Experiment.get_trainable_name("some name") == "some name"
    assert Experiment.get_trainable_name(lambda config: None) == "lambda"
    assert Experiment.get_trainable_name(Steps) == "Steps"
    assert Experiment.register_if_needed(Steps) == "Steps"
    assert get_trainable("Steps") is Steps


def test_the_name_of_an_experiment_may_be_a_path_below_the_storage() -> None:
    experiment = Experiment("a/b", count)
    assert experiment.name == "a/b"
    experiment.name = "../b"
    with pytest.raises(ValueError, match="the run's name must not lead to another directory"):
        run_experiments(experiment)
    assert not run_path().parent.exists()


def test_files_of_prints_of_a_later_experiment_are_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    run_experiments([Experiment("a", count), Experiment("b", count, log_to_file="out.txt")], verbose=0)
    assert "log_to_file of experiment 'b' have no effect" in caplog.text


def test_a_spec_names_the_files_of_prints_only_if_they_were_asked_for() -> None:
    assert Experiment("a", count).spec["log_to_file"] == (None, None)
    assert Experiment("a", count, log_to_file=True).spec["log_to_file"] == ("stdout", "stderr")


def test_a_class_that_cannot_be_saved_is_refused_where_it_should_be() -> None:
    text = "must not be set for this class, but got checkpoint_frequency=2, checkpoint_at_end=None; Counter does not"
    with pytest.raises(ValueError, match=text):
        Experiment("one", Counter, checkpoint_config=CheckpointConfig(checkpoint_frequency=2))


STOPPER = MaximumIterationStopper(2)


@pytest.mark.parametrize(
    ("first", "other", "is_other"),
    [
        ({}, {}, False),
        ({"stop": {"n": 1}}, {"stop": {"n": 2}}, False),
        ({"stop": STOPPER}, {"stop": STOPPER}, False),
        ({"stop": STOPPER}, {}, False),
        ({"stop": STOPPER}, {"stop": MaximumIterationStopper(2)}, True),
        ({}, {"stop": STOPPER}, True),
        ({"time_budget_s": 60}, {}, False),
        ({"time_budget_s": 60}, {"time_budget_s": datetime.timedelta(minutes=1)}, False),
        ({"time_budget_s": 60}, {"time_budget_s": 61}, True),
        ({"time_budget_s": 60}, {"time_budget_s": 0}, True),
        ({}, {"time_budget_s": 0}, False),
        ({}, {"time_budget_s": 60}, True),
        ({}, {"log_to_file": "out.txt"}, True),
        ({"log_to_file": True}, {"log_to_file": True}, False),
    ],
)
def test_a_limit_of_the_run_in_a_later_experiment_is_told_if_it_is_another_one(
    first: dict[str, Any], other: dict[str, Any], is_other: bool
) -> None:
    assert Experiment("b", count, **other).wants_other_limits(Experiment("a", count, **first)) is is_other
