"""Decisions on trials and why they were made, in `Result.decisions`; and the times of a run."""

from pathlib import Path

import pytest
from kit import cut, fit

from minitune import (
    ASHAScheduler,
    Callback,
    Result,
    RunConfig,
    TuneConfig,
    Tuner,
    grid_search,
    report,
)
from minitune.base import clock
from minitune.base.clock import VirtualClock
from minitune.commands import cli
from minitune.error import TuneError
from minitune.executors.devices import Machine
from minitune.executors.inline import InlineTrialExecutor
from minitune.record.past_run import read_curves
from minitune.record.reading import read_run
from minitune.simulation import simulate


def train(config):
    for epoch in range(1, 10):
        report({"loss": config["x"] + 1 / epoch, "time_this_iter_s": 2.0})
        if config["x"] == 5 and epoch == 4:
            raise ValueError("a bad one")


def run(path, name="past", scheduler=None, count=9, **settings):
    config = TuneConfig(metric="loss", mode="min", executor="inline", scheduler=scheduler, max_concurrent_trials=1)
    run_config = RunConfig(verbose=0, storage_path=str(path), name=name, **settings)
    return Tuner(train, param_space={"x": grid_search(range(count))}, tune_config=config, run_config=run_config).fit()


def test_a_past_run_is_simulated_under_another_scheduler(tmp_path):
    grid = run(tmp_path)
    ids = [result.metrics["trial_id"] for result in grid]
    curves = read_curves(grid.experiment_path)
    assert list(curves) == ids
    assert curves[ids[3]][1] == ({"loss": 3.5, "training_iteration": 2}, 2.0)
    assert [len(curves[trial_id]) for trial_id in ids] == [9] * 5 + [4] + [9] * 3

    config = TuneConfig(metric="loss", mode="min", scheduler=ASHAScheduler(max_t=9, reduction_factor=3))
    done = simulate(grid.experiment_path, tune_config=config, num_workers=2)
    assert done.results.get_best_result().config == {"curve": ids[0]}
    assert done.num_steps < 40


class EndsAtOne(Callback):
    """Raises at the first result of the second trial."""

    def on_trial_result(self, iteration, trials, trial, result, **info):
        if trial.config["x"] == 1:
            raise OSError("enough")


def slow(config):
    for _ in range(3):
        clock.current.sleep(10.0)
        report({"loss": config["x"]})


def virtual():
    executor = InlineTrialExecutor(Machine({"CPU": 8}, ()), VirtualClock())
    return TuneConfig(metric="loss", mode="min", executor=executor, max_concurrent_trials=1)


def test_the_time_between_two_parts_of_a_run_does_not_count(tmp_path):
    first, second, path = virtual(), virtual(), str(tmp_path / "past")
    run_config = RunConfig(verbose=0, storage_path=str(tmp_path), name="past", callbacks=[EndsAtOne()])
    with pytest.raises(TuneError, match="enough"):
        Tuner(slow, param_space={"x": grid_search(range(3))}, tune_config=first, run_config=run_config).fit()
    second.executor.clock.sleep(1000.0)
    Tuner.restore(path, slow, tune_config=second, run_config=RunConfig(verbose=0)).fit()
    assert read_run(path).worked_s == pytest.approx(40.0 + 60.0)


def test_a_driver_that_was_killed_was_at_work_until_its_last_record(tmp_path):
    path = Path(run(tmp_path, count=2).experiment_path)
    worked_s = read_run(path).worked_s
    *rest, close = (path / "journal").read_text().splitlines(keepends=True)
    assert '"close"' in close
    (path / "journal").write_text("".join(rest))
    assert 0 < read_run(path).worked_s < worked_s + 1


def test_a_result_tells_why_it_was_stopped(tmp_path):
    grid = run(tmp_path, scheduler=ASHAScheduler(max_t=9, reduction_factor=3))

    last = grid[4].decisions[-1]
    assert (last.action, last.iteration) == ("STOP", 1)
    assert last.reason == "rank 5 of 5 at training_iteration 1, where the best 1 go on: loss=5, cutoff 1"
    assert str(last) == f"after iteration 1: stopped: {last.reason}"
    assert [one.action for one in grid[0].decisions] == ["CONTINUE", "CONTINUE", "STOP"]
    assert [str(one) for one in Result.from_path(grid[4].path).decisions] == [str(last)]


def test_a_promotion_is_explained_by_the_rank_that_led_to_it(tmp_path):
    def curve(config):
        return [({"loss": config["x"] + 1 / epoch}, 1.0) for epoch in range(1, 10)]

    scheduler = ASHAScheduler(max_t=9, reduction_factor=3, variant="promote")
    config = TuneConfig(metric="loss", mode="min", scheduler=scheduler)
    done = simulate(curve, param_space={"x": grid_search(list(range(9)))}, tune_config=config)
    resumed = next(one for one in done.results[0].decisions if one.action == "RESUME")

    assert str(resumed) == "after iteration 1: resumed: chosen by the scheduler"
    left = next(one for one in done.results[8].decisions if one.action == "STOP")
    assert str(left).endswith("stopped: no trial can be promoted any more: rank 9 of 9 at training_iteration 1")
    assert (left.facts["rank"], left.facts["of"], left.facts["scheduler"]) == (9, 9, "ASHA")


def test_an_end_of_the_trainable_s_own_is_no_stop(tmp_path, capsys):
    def train(config):
        if config["n"] == 2:
            return {"loss": 2}
        report({"loss": 1, "done": config["n"] == 1})
        return None

    grid = fit(train, {"n": grid_search([0, 1, 2])}, storage_path=str(tmp_path))
    returned = "after iteration 1: finished: the trainable has returned"
    ended = "after iteration 1: finished: the trainable has ended"
    assert [[str(one) for one in result.decisions] for result in grid] == [[returned], [ended], [returned]]
    assert cli.main(["show", grid.experiment_path, "--why"]) == 0
    assert f"\n  trial 0 {returned}\n" in capsys.readouterr().out


def test_failures_are_explained_too(tmp_path):
    failed = run(tmp_path, count=6)[5]

    assert [one.action for one in failed.decisions] == ["FAIL"]
    assert "a bad one" in failed.decisions[0].reason


def test_of_a_trial_that_can_continue_nothing_was_decided(tmp_path, capsys):
    cut(train, {"x": 1}, results=2, how="SIGINT", storage_path=str(tmp_path), name="cut")
    assert cli.main(["show", str(tmp_path / "cut"), "--why"]) == 0
    assert "  trial 0 interrupted nothing was decided\n" in capsys.readouterr().out
