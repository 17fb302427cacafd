"""Every field of every config does something that a user can see: here in one process, or in the test that is named."""

import os
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import psutil
import pytest
from kit import SavedCounter, fit, listening, raiser, run_path

import minitune
from minitune import CheckpointConfig, FailureConfig, ResumeConfig, tune
from minitune.error import CrashLoopError
from minitune.schedulers import PopulationBasedTraining

ROOT = Path(__file__).resolve().parent.parent.parent

NO_EFFECT = {
    "RunConfig.storage_filesystem": "only None is possible",
    "RunConfig.sync_config": "nothing is synchronised on one machine, which is logged",
    "ScalingConfig.accelerator_type": "the machine has the GPUs that it has, which is logged",
    "ScalingConfig.placement_strategy": "there is one machine",
    **{f"SyncConfig.{entry.name}": "nothing is synchronised on one machine" for entry in fields(minitune.SyncConfig)},
}

ELSEWHERE = {
    "ScalingConfig.num_workers": "tests/test_trainers.py::test_a_scaling_config_gives_resources",
    "ScalingConfig.resources_per_worker": "tests/test_trainers.py::test_a_scaling_config_gives_resources",
    "ScalingConfig.trainer_resources": "tests/test_trainers.py::test_a_scaling_config_gives_resources",
    "ScalingConfig.use_gpu": "tests/test_trainers.py::test_a_scaling_config_gives_resources",
    "TuneConfig.warm_start": "tests/search/test_warm_start.py::test_a_run_learns_from_a_directory_or_a_grid",
    "TuneConfig.confirm": "tests/driver/test_confirming.py::test_the_three_best_trials_are_run_again_with_other_seeds",
    "TuneConfig.max_concurrent_trials": "tests/driver/test_driver_limits.py::test_the_smaller_limit_bounds_what_runs",
    "TuneConfig.deterministic": "tests/differential/test_deterministic.py::test_races_and_deaths_change_no_decision",
    "TuneConfig.report_timeout_s": "tests/faults/test_faults_timeouts.py::test_limits_hold_on_a_virtual_clock",
    "TuneConfig.trial_timeout_s": "tests/faults/test_faults_timeouts.py::test_limits_hold_on_a_virtual_clock",
    "TuneConfig.preload": "tests/actor/test_imports_once.py::test_without_preload_each_trial_imports_everything_itself",
    "TuneConfig.reuse_actors": "tests/trainable/test_reuse.py::test_nothing_of_the_previous_trial_is_seen",
    "RunConfig.log_to_file": "tests/output/test_output_of_a_run.py::"
    "test_output_of_a_trial_has_the_names_that_were_given",
    "RunConfig.show_output": "tests/output/test_output_of_trials.py::test_trial_output_has_the_name_of_its_trial",
    "TuneConfig.chdir_to_trial_dir": "tests/output/test_output_of_a_run.py::test_chdir_to_trial_dir_names_its_variable",
}
"""Effects that need processes, a clock or a kernel of their own, by the id of the test."""

EFFECTS = {}


def shows(name):
    """Put a check into the table under the field that it is about."""

    def put(check):
        EFFECTS[name] = check
        return check

    return put


def steps(config):
    """Reports x = 0, 1, 2, 3 above the configuration's, each with a checkpoint that is named after it."""
    for step in range(4):
        checkpoint = minitune.Checkpoint.from_dict({"step": step}) if config.get("saves") else None
        minitune.report({"x": config.get("x", 0) + step, "score": -abs(step - 1)}, checkpoint=checkpoint)


def fails(config):
    """Fails until its directory holds as many marks as the configuration says."""
    mark = Path(minitune.get_context().get_trial_dir(), "marks")
    with mark.open("a") as file:
        file.write(".")
    if len(mark.read_text()) <= config["failures"]:
        raise OSError("not yet")
    return {"attempts": len(mark.read_text())}


def fit_steps(trainable=steps, space=None, **settings):
    """The results of a run in this process."""
    return fit(trainable, space, **{"name": None, **settings})


def kept(grid, key="step"):
    """What the kept checkpoints of the first trial hold, in their order."""
    return [checkpoint.to_dict()[key] for checkpoint, _ in grid[0].best_checkpoints]


GRID = {"x": tune.grid_search([1, 3, 2])}


# -- TuneConfig --------------------------------------------------------------------------------------------------------


@shows("TuneConfig.mode")
def _():
    for mode, x in (("min", 1), ("max", 3)):
        assert fit_steps(space=GRID, metric="x", mode=mode).get_best_result().config["x"] == x


@shows("TuneConfig.metric")
def _():
    (error,) = fit_steps(metric="loss", mode="min").errors
    assert "loss" in str(error)
    assert fit_steps(space=GRID, metric="x", mode="max").get_best_result().metrics["x"] == 6


@shows("TuneConfig.search_alg")
def _():
    search = minitune.BasicVariantGenerator(points_to_evaluate=[{"x": 0.5}])
    assert fit_steps(space={"x": tune.uniform(0, 1)}, search_alg=search)[0].config == {"x": 0.5}


@shows("TuneConfig.scheduler")
def _():
    scheduler = minitune.ASHAScheduler(metric="x", mode="max", max_t=2)
    assert fit_steps(scheduler=scheduler)[0].metrics["x"] == 1
    assert fit_steps()[0].metrics["x"] == 3


@shows("TuneConfig.on_duplicate")
def _():
    for choice, number in (("allow", 3), ("resample", 1)):
        assert len(fit_steps(num_samples=3, on_duplicate=choice)) == number


@shows("TuneConfig.constraints")
def _():
    grid = fit_steps(space=GRID, constraints=[lambda config: config["x"] != 3])
    assert [result.config["x"] for result in grid] == [1, 2]


@shows("TuneConfig.num_samples")
def _():
    assert len(fit_steps(space=GRID, num_samples=2)) == 6


@shows("TuneConfig.time_budget_s")
def _():
    def endless(config):
        while True:
            minitune.report({"x": 1})

    grid = fit_steps(endless, time_budget_s=0.01)
    assert len(grid) == 1, "without the budget, the run would not end"


@shows("TuneConfig.trial_name_creator")
def _():
    grid = fit_steps(space={"x": 7}, trial_name_creator=lambda trial: f"x_is_{trial.config['x']}")
    assert os.path.basename(grid[0].path).startswith("x_is_7")


@shows("TuneConfig.trial_dirname_creator")
def _():
    grid = fit_steps(space={"x": 7}, trial_dirname_creator=lambda trial: f"x_is_{trial.config['x']}")
    assert os.path.basename(grid[0].path) == "x_is_7"


@shows("TuneConfig.seed")
def _():
    space = {"x": tune.uniform(0, 1)}
    first, again, other = (fit_steps(space=space, seed=seed)[0].config["x"] for seed in (1, 1, 2))
    assert first == again != other

    def completed(seed):
        """A hyperparameter that the space lacks, as the scheduler has drawn it."""
        mutations = {"x": tune.uniform(0, 1)}
        scheduler = PopulationBasedTraining(metric="score", mode="max", hyperparam_mutations=mutations)
        return fit_steps(scheduler=scheduler, seed=seed)[0].config["x"]

    assert completed(1) == completed(1) != completed(2)


@shows("TuneConfig.executor")
def _():
    assert fit_steps(lambda config: {"x": os.getpid()})[0].metrics["x"] == os.getpid()


# -- RunConfig ---------------------------------------------------------------------------------------------------------


@shows("RunConfig.name")
def _():
    assert fit_steps(name="mine").experiment_path == str(run_path("mine"))
    assert os.path.basename(fit_steps().experiment_path).startswith("steps_")


@shows("RunConfig.storage_path")
def _():
    elsewhere = str(run_path("elsewhere"))
    assert os.path.dirname(fit_steps(storage_path=elsewhere).experiment_path) == elsewhere


@shows("RunConfig.local_dir")
def _():
    elsewhere = str(run_path("elsewhere"))
    assert os.path.dirname(fit_steps(storage_path=None, local_dir=elsewhere).experiment_path) == elsewhere


@shows("RunConfig.failure_config")
def _():
    grid = fit_steps(fails, {"failures": 1}, failure_config=FailureConfig(max_failures=1))
    assert grid[0].metrics["attempts"] == 2


@shows("RunConfig.checkpoint_config")
def _():
    assert kept(fit_steps(space={"saves": True}, checkpoint_config=CheckpointConfig(num_to_keep=1))) == [3]


@shows("RunConfig.stop")
def _():
    assert fit_steps(stop={"x": 2})[0].metrics["x"] == 2


@shows("RunConfig.callbacks")
def _():
    seen = []

    fit_steps(callbacks=[listening(on_trial_result=lambda result, **info: seen.append(result["x"]))])
    assert seen == [0, 1, 2, 3]


class Reporter(minitune.ProgressReporter):
    """Counts what it is told."""

    blocks = 0

    def should_report(self, trials, done=False):
        return done

    def report(self, trials, done, *sys_info):
        self.blocks += 1


def _blocks(**run):
    reporter = Reporter()
    fit_steps(progress_reporter=reporter, **run)
    return reporter.blocks


@shows("RunConfig.progress_reporter")
def _():
    assert _blocks(verbose=1) == 1


@shows("RunConfig.verbose")
def _():
    assert [_blocks(verbose=verbose) for verbose in (0, 1)] == [0, 1]


@shows("RunConfig.progress")
def _():
    assert [_blocks(verbose=1, progress=progress) for progress in (False, True)] == [0, 1]


@shows("RunConfig.keep_descendants")
def _():
    def starts(config):
        command = [sys.executable, "-c", "import time; time.sleep(600)"]
        return {"child": subprocess.Popen(command, start_new_session=True).pid}

    children = []
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("MINITUNE_EXECUTOR")
        for keeps in (False, True):
            grid = fit_steps(starts, executor="local", keep_descendants=keeps)
            children.append(grid[0].metrics["child"])
    assert not psutil.pid_exists(children[0])
    child = psutil.Process(children[1])
    child.kill()
    child.wait(timeout=10)


# -- FailureConfig, CheckpointConfig -----------------------------------------------------------------------------------


@shows("FailureConfig.max_failures")
def _():
    for retries, num_errors in ((0, 1), (1, 0), (-1, 0)):
        grid = fit_steps(fails, {"failures": 1}, failure_config=FailureConfig(max_failures=retries))
        assert grid.num_errors == num_errors


@shows("FailureConfig.fail_fast")
def _():
    space = {"failures": 1, "n": tune.grid_search([1, 2, 3])}
    one_by_one = {"max_concurrent_trials": 1}
    assert fit_steps(fails, space, **one_by_one).num_errors == 3
    assert fit_steps(fails, space, **one_by_one, failure_config=FailureConfig(fail_fast=True)).num_errors == 1
    with pytest.raises(OSError, match="not yet"):
        fit_steps(fails, space, **one_by_one, failure_config=FailureConfig(fail_fast="raise"))


@shows("FailureConfig.give_up_after")
def _():
    space = {"failures": 1, "n": tune.grid_search([1, 2, 3])}
    assert fit_steps(fails, space).num_errors == 3
    with pytest.raises(CrashLoopError, match="not yet"):
        fit_steps(fails, space, failure_config=FailureConfig(give_up_after=2))


@shows("CheckpointConfig.num_to_keep")
def _():
    assert kept(fit_steps(space={"saves": True})) == [0, 1, 2, 3]
    assert kept(fit_steps(space={"saves": True}, checkpoint_config=CheckpointConfig(2))) == [2, 3]


@shows("CheckpointConfig.checkpoint_score_attribute")
def _():
    best = CheckpointConfig(num_to_keep=1, checkpoint_score_attribute="score")
    assert kept(fit_steps(space={"saves": True}, checkpoint_config=best)) == [1]


@shows("CheckpointConfig.checkpoint_score_order")
def _():
    worst = CheckpointConfig(num_to_keep=1, checkpoint_score_attribute="score", checkpoint_score_order="min")
    assert kept(fit_steps(space={"saves": True}, checkpoint_config=worst)) == [3]


@shows("CheckpointConfig.checkpoint_frequency")
def _():
    every_third = CheckpointConfig(checkpoint_frequency=3, checkpoint_at_end=False)
    assert kept(fit_steps(SavedCounter, {"end": 4}, checkpoint_config=every_third), "n") == [3]


@shows("CheckpointConfig.checkpoint_at_end")
def _():
    for at_end, steps_kept in ((None, [4]), (True, [4]), (False, [])):
        config = CheckpointConfig(checkpoint_at_end=at_end)
        assert kept(fit_steps(SavedCounter, {"end": 4}, checkpoint_config=config), "n") == steps_kept


# -- ResumeConfig ------------------------------------------------------------------------------------------------------


def _resumed(name, **choice):
    """The attempts of a trial that finishes at the second one, and of its successors, after a resume."""
    run = {"name": name, "verbose": 0, "raise_on_failed_trial": False}
    minitune.run(fails, config={"failures": 1}, **run)
    again = minitune.run(fails, config={"failures": 1}, resume_config=ResumeConfig(**choice), **run)
    return [trial.last_result.get("attempts", 0) for trial in again.trials]


@shows("ResumeConfig.errored")
def _():
    assert _resumed("skip") == [0]
    assert _resumed("resume", errored="resume") == [2]


@shows("ResumeConfig.finished")
def _():
    run = {"name": "run", "verbose": 0}
    first = minitune.run(steps, **run)
    skipped, restarted = (
        minitune.run(steps, resume_config=ResumeConfig(finished=finished), **run) for finished in ("skip", "restart")
    )
    ids = [analysis.trials[0].trial_id for analysis in (first, skipped, restarted)]
    assert ids[0] == ids[1] != ids[2]


@shows("ResumeConfig.unfinished")
def _():
    quits = listening(on_trial_result=raiser(RuntimeError("enough")))
    for unfinished, x in (("skip", 0), ("resume", 3)):
        run = {"name": unfinished, "verbose": 0, "raise_on_failed_trial": False}
        with pytest.raises(minitune.TuneError):
            minitune.run(steps, callbacks=[quits], **run)
        again = minitune.run(steps, resume_config=ResumeConfig(unfinished=unfinished), **run)
        assert again.trials[0].last_result.get("x", 0) == x


# ----------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", EFFECTS)
def test_a_field_has_its_effect(name, monkeypatch):
    monkeypatch.setenv("MINITUNE_EXECUTOR", "inline")
    EFFECTS[name]()


def test_every_field_has_an_effect():
    configs = [getattr(minitune, name) for name in minitune.__all__ if name.endswith("Config")]
    known = {f"{kind.__name__}.{entry.name}" for kind in configs for entry in fields(kind)}
    assert known ^ {*EFFECTS, *ELSEWHERE, *NO_EFFECT} == set()


@pytest.mark.parametrize("test_id", sorted(set(ELSEWHERE.values())))
def test_the_test_that_shows_an_effect_exists(test_id):
    path, _, name = test_id.partition("::")
    before, _, body = (ROOT / path).read_text(encoding="utf-8").partition(f"def {name}(")
    assert body, "there is no such test"
    test = before.rpartition("\n\n\n")[2] + body.partition("\n\n\n")[0]
    for field in [field.partition(".")[2] for field, shown_by in ELSEWHERE.items() if shown_by == test_id]:
        assert field in test, f"it does not set {field}"
