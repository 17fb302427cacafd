"""`run`: its arguments, one by one, as scripts use them. Bad values: see tests/surface."""

from __future__ import annotations

import os
import sys
import tempfile
import traceback
from dataclasses import dataclass
from pathlib import Path

import pytest
from kit import SavedCounter, fit, listening, run_path, virtual_executor

from minitune import (
    ASHAScheduler,
    BasicVariantGenerator,
    Checkpoint,
    CLIReporter,
    CSVLoggerCallback,
    JsonLoggerCallback,
    Repeater,
    RunConfig,
    Searcher,
    TPESearch,
    Trainable,
    TuneError,
    get_checkpoint,
    grid_search,
    report,
    run,
    uniform,
    with_resources,
)
from minitune.base import clock
from minitune.schedulers import HyperBandScheduler, MedianStoppingRule, PopulationBasedTraining
from minitune.search import ConcurrencyLimiter
from minitune.stopper import CombinedStopper, ExperimentPlateauStopper, MaximumIterationStopper, TrialPlateauStopper

pytestmark = pytest.mark.usefixtures("inline")


def storage():
    return Path(os.environ["MINITUNE_STORAGE_PATH"])


def count(config):
    for i in range(1, 4):
        report({"n": i, "score": i * config.get("x", 1)})


def test_a_function_runs_over_a_grid():
    analysis = run(count, name="exp", config={"x": grid_search([1, 2])}, metric="score", mode="max", verbose=0)
    assert [trial.status for trial in analysis.trials] == ["TERMINATED"] * 2
    assert analysis.best_config == {"x": 2}
    assert {Path(trial.local_path).parent for trial in analysis.trials} == {run_path("exp")}


def test_a_storage_path_may_be_an_address_of_this_machine(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "with space"
    (trial,) = run(count, name="one", storage_path=path.as_uri(), verbose=0).trials
    assert Path(trial.local_path).parent == path / "one"
    for make in (RunConfig, lambda storage_path: run(count, storage_path=storage_path)):
        with pytest.raises(ValueError, match="must be local, but got 's3://bucket/runs'"):
            make(storage_path="s3://bucket/runs")
    assert sorted(one.name for one in tmp_path.iterdir() if ":" in one.name) == []


class Steps(SavedCounter):
    def step(self):
        result = super().step()
        return {**result, "loss": (self.n - 3) ** 2}


def fails_once(directory):
    def trainable(config):
        marker = directory / "failed"
        if not marker.exists():
            marker.touch()
            raise RuntimeError("once")
        report({"n": 1})

    return trainable


def broken(config):
    raise KeyError("broken on purpose")


def test_failed_trials_raise_unless_told_otherwise(caplog):
    with pytest.raises(TuneError, match="Trials did not complete") as info:
        run(broken, verbose=0)
    assert [trial.status for trial in info.value.args[1]] == ["ERROR"]
    (trial,) = run(broken, raise_on_failed_trial=False, verbose=0).trials
    assert trial.status == "ERROR"
    assert caplog.messages[-1].startswith("1 of 1 trials failed: 1 x KeyError: 'broken on purpose' (")


def test_a_context_that_the_user_has_suppressed_stays_out(monkeypatch):
    def suppresses(config):
        try:
            raise KeyError("of no interest")
        except KeyError:
            raise OSError("this is it") from None

    monkeypatch.delenv("MINITUNE_EXECUTOR")  # the exception comes from another process
    with pytest.raises(OSError, match="this is it") as caught:
        run(suppresses, fail_fast="raise", verbose=0)
    assert "of no interest" not in "".join(traceback.format_exception(caught.value))


def from_start(config):
    checkpoint = get_checkpoint()
    report({"n": int(Path(checkpoint.path, "n").read_text()) if checkpoint else 0})


@pytest.mark.parametrize("kind", [str, Path, Checkpoint])
def test_restore_is_the_first_checkpoint_of_every_trial(tmp_path, kind):
    (tmp_path / "n").write_text("7")
    trials = run(from_start, restore=kind(tmp_path), num_samples=2, verbose=0).trials
    assert [trial.last_result["n"] for trial in trials] == [7, 7]


def test_every_attempt_of_a_trial_starts_from_restore(tmp_path, caplog):
    (tmp_path / "n").write_text("7")
    num_left = [3]

    def fails_at_first(config):
        from_start(config)
        num_left[0] -= 1
        if num_left[0] >= 0:
            raise ValueError("not yet")

    settings = {"restore": tmp_path, "name": "it", "max_failures": 1, "verbose": 0, "raise_on_failed_trial": False}
    (failed,) = run(fails_at_first, **settings).trials
    assert failed.status == "ERROR"
    assert f"attempt 2 of 2 starts from {tmp_path}" in caplog.text
    (trial,) = run(fails_at_first, resume="AUTO+RESTART_ERRORED", **settings).trials
    assert (trial.status, trial.last_result["n"]) == ("TERMINATED", 7)


# -- limits --------------------------------------------------------------------------------------------------------


class Numbers(Searcher):
    def __init__(self):
        super().__init__()
        self.next = 0

    def suggest(self, trial_id):
        self.next += 1
        return {"x": self.next}


def test_two_limits_of_running_trials_must_not_contradict_each_other():
    limited = ConcurrencyLimiter(Numbers(), max_concurrent=3)
    with pytest.raises(ValueError, match="max_concurrent_trials must not contradict the ConcurrencyLimiter"):
        run(count, search_alg=limited, max_concurrent_trials=2, verbose=0)
    limited = ConcurrencyLimiter(Numbers(), max_concurrent=2)
    assert len(run(count, search_alg=limited, num_samples=3, max_concurrent_trials=2, verbose=0).trials) == 3


# -- resources -----------------------------------------------------------------------------------------------------


def test_a_trial_gets_the_resources_that_it_asks_for():
    (trial,) = run(count, verbose=0).trials
    assert trial.placement_group_factory.required_resources == {"CPU": 1}
    (trial,) = run(count, resources_per_trial={"cpu": 2}, verbose=0).trials
    assert trial.placement_group_factory.required_resources == {"CPU": 2}


def test_gpus_that_no_trial_asks_for_are_pointed_out(monkeypatch, caplog):
    monkeypatch.setenv("MINITUNE_NUM_GPUS", "1")
    for request in ({"cpu": 1, "gpu": 0.5}, lambda config: {"cpu": 1}):
        run(with_resources(count, request), verbose=0)
    assert "has GPUs" not in caplog.text
    run(count, verbose=0)
    assert caplog.text.count("this machine has GPUs, but the trials do not ask for one") == 1


def test_resources_that_are_set_in_two_places_are_refused():
    with pytest.raises(TuneError, match="resources are set twice"):
        run(with_resources(count, {"cpu": 1}), resources_per_trial={"cpu": 2}, verbose=0)


class Asks(Steps):
    """Asks for what its configuration says, or leaves it to the run."""

    @classmethod
    def default_resource_request(cls, config):
        return config["asks"]


def test_a_class_may_leave_its_resources_to_the_run():
    (trial,) = run(Asks, config={"asks": None}, resources_per_trial={"cpu": 2}, stop={"n": 1}, verbose=0).trials
    assert trial.placement_group_factory.required_resources == {"CPU": 2}
    space = {"asks": grid_search([None, {"cpu": 2}])}
    with pytest.raises(TuneError, match="resources are set twice for Asks"):
        run(Asks, config=space, resources_per_trial={"cpu": 1}, stop={"n": 1}, verbose=0)


# -- one object in two runs ----------------------------------------------------------------------------------------


USED = {
    "search_alg": [
        Numbers,
        BasicVariantGenerator,
        lambda: TPESearch(n_initial_points=2),
        lambda: ConcurrencyLimiter(TPESearch(n_initial_points=2), 2),
        lambda: Repeater(TPESearch(n_initial_points=2), repeat=2),
    ],
    "scheduler": [
        lambda: ASHAScheduler(max_t=8, grace_period=1),
        lambda: HyperBandScheduler(max_t=8),
        lambda: MedianStoppingRule(grace_period=1, min_samples_required=2),
        lambda: PopulationBasedTraining(perturbation_interval=2, hyperparam_mutations={"x": uniform(0, 1)}),
    ],
    "stop": [
        lambda: ExperimentPlateauStopper("loss", std=10, top=2),
        lambda: TrialPlateauStopper("loss", std=10, num_results=2, grace_period=2),
        lambda: CombinedStopper(MaximumIterationStopper(3), ExperimentPlateauStopper("loss", std=10, top=9)),
        lambda: [MaximumIterationStopper(3), ExperimentPlateauStopper("loss", std=10, top=9)],
    ],
    "callbacks": [lambda: [JsonLoggerCallback(), CSVLoggerCallback()]],
    "progress_reporter": [CLIReporter],
}
"""What users pass to a run, by its field."""


@pytest.mark.parametrize(("field", "make"), [(field, make) for field, makers in USED.items() for make in makers])
def test_what_is_used_twice_does_as_if_it_were_fresh(field, make):
    settings = {"metric": "loss", "mode": "min", "num_samples": 6, "seed": 3, "verbose": 1, "stop": {"n": 8}}

    def trials(used):
        space = {} if make is Numbers else {"x": uniform(0, 1)}
        grid = fit(Steps, space, **{**settings, field: used}, name=None)
        files = [sorted(path.name for path in Path(result.path).glob("*")) for result in grid]
        return [(result.config, result.metrics.get("training_iteration")) for result in grid], files

    used = make()
    first, second = trials(used), trials(used)
    assert first == second == trials(make())
    assert first[0]


@dataclass
class Unhashable(Numbers):
    """A dataclass is compared by value, and has no hash."""

    step: int = 1

    def __post_init__(self):
        Numbers.__init__(self)


def test_a_plug_in_need_not_be_hashable():
    searcher = Unhashable()
    assert [len(run(count, search_alg=searcher, verbose=0).trials) for _ in range(2)] == [1, 1]


def test_a_plug_in_that_cannot_be_copied_serves_one_run():
    searcher = Numbers()
    with tempfile.TemporaryFile() as file:
        searcher.file = file
        run(count, search_alg=searcher, verbose=0)
        with pytest.raises(ValueError, match="was used by an earlier run and cannot be copied"):
            run(count, search_alg=searcher, verbose=0)


# -- resuming ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("resume", [True, "AUTO"])
def test_a_run_is_resumed_by_its_name(tmp_path, resume):
    trainable = fails_once(tmp_path)
    (failed,) = run(trainable, name="again", resume=resume, raise_on_failed_trial=False, verbose=0).trials
    assert failed.status == "ERROR"
    (skipped,) = run(trainable, name="again", resume=resume, raise_on_failed_trial=False, verbose=0).trials
    assert (skipped.trial_id, skipped.status) == (failed.trial_id, "ERROR")
    (again,) = run(trainable, name="again", resume="AUTO+ERRORED", verbose=0).trials
    assert (again.trial_id, again.status) == (failed.trial_id, "TERMINATED")


def test_under_minitune_resume_a_run_within_a_run_is_a_new_one(monkeypatch):
    def run_another(**info):
        paths.append(run(count, verbose=0).experiment_path)

    paths = []
    monkeypatch.setenv("MINITUNE_RESUME", "1")
    paths.append(run(count, callbacks=[listening(on_trial_complete=run_another)], verbose=0).experiment_path)
    assert len(set(paths)) == 2


# -- what the interpreter was told -----------------------------------------------------------------------------------


def test_paths_that_python_passes_over_are_no_error(monkeypatch, tmp_path):
    monkeypatch.delenv("MINITUNE_EXECUTOR", raising=False)
    monkeypatch.setattr(sys, "path", [*sys.path, tmp_path])
    assert run(count, verbose=0).trials[0].last_result["n"] == 3


# -- settings ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("ahead", "drawn"), [("3", 4 + 3), ("auto", 20)])
def test_a_variable_sets_how_many_trials_are_drawn_ahead(monkeypatch, ahead, drawn):
    monkeypatch.setenv("TUNE_MAX_PENDING_TRIALS_PG", ahead)
    seen = []
    spy = listening(on_trial_start=lambda trials, **info: seen.append(len(trials)))
    run(count, num_samples=20, callbacks=[spy], verbose=0)
    assert seen[0] == drawn


class Resets(Trainable):
    """Takes one second to become another trial."""

    def setup(self, config):
        self.resets = 0

    def step(self):
        return {"resets": self.resets, "done": True}

    def reset_config(self, new_config):
        clock.current.sleep(1.0)
        self.resets += 1
        return True


@pytest.mark.parametrize(("limit", "resets"), [("0.5", [0, 0]), ("1.5", [0, 1])])
def test_a_variable_sets_how_long_a_worker_has_for_its_next_trial(monkeypatch, limit, resets):
    monkeypatch.setenv("TUNE_FUNCTION_THREAD_TIMEOUT_S", limit)
    grid = fit(Resets, num_samples=2, reuse_actors=True, executor=virtual_executor(1))
    assert [result.metrics["resets"] for result in grid] == resets
