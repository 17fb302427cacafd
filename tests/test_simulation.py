"""simulate: the driver on learning curves, with every parameter's effect, and always the same."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kit import listening

from minitune import (
    ASHAScheduler,
    CheckpointConfig,
    FailureConfig,
    JsonLoggerCallback,
    RunConfig,
    Stopper,
    Trainable,
    TrialScheduler,
    TuneConfig,
    Tuner,
    grid_search,
    uniform,
)
from minitune.base import clock
from minitune.experiment.decision import PAUSE, Decision
from minitune.experiment.endings import EndKind
from minitune.record.past_run import read_curves
from minitune.record.reading import read_run
from minitune.simulation import Simulation, simulate

SCRIPTS = Path(__file__).with_name("scripts")

ROOT = Path(__file__).resolve().parent.parent
Steps = list[tuple[dict[str, Any], float]]


def curve(config: dict[str, Any]) -> Steps:
    return [({"loss": config["x"] + 1 / epoch}, 10.0) for epoch in range(1, 10)]


def on_grid(count: int, scheduler: Any = None, **kwargs: Any) -> Simulation:
    """`count` trials, the first being the best."""
    config = TuneConfig(metric="loss", mode="min", scheduler=scheduler, max_concurrent_trials=None)
    return simulate(curve, param_space={"x": grid_search(list(range(count)))}, tune_config=config, **kwargs)


def lengths(simulation: Simulation) -> list[int]:
    return [result.metrics["training_iteration"] for result in simulation.results]


def test_every_trial_runs_its_curve_on_a_clock_that_jumps() -> None:
    done = on_grid(4, num_workers=2)

    assert lengths(done) == [9, 9, 9, 9]
    assert (done.makespan_s, done.worker_s, done.training_s, done.num_steps) == (180.0, 360.0, 360.0, 36)
    assert done.results.get_best_result().config == {"x": 0}
    assert done.results[0].metrics["time_total_s"] == 90.0
    assert clock.current is clock.REAL


def test_a_log_prints_a_line_for_each_event() -> None:
    config = TuneConfig(metric="loss", mode="min")
    done = simulate(lambda config: [({"loss": 2.0 / n}, 10.0) for n in (1, 2)], tune_config=config)

    assert [str(entry).replace(entry.trial_id, "T") for entry in done.log] == [
        "0.0 T ADDED 0",
        "0.0 T RUNNING attempt 1",
        "10.0 T CONTINUE 1 2.0",
        "20.0 T CONTINUE 2 1.0",
        "20.0 T TERMINATED the trainable has returned",
    ]


def test_more_workers_take_less_time_and_no_less_work() -> None:
    assert [on_grid(6, num_workers=count).makespan_s for count in (1, 2, 3, 6)] == [540.0, 270.0, 180.0, 90.0]
    assert {on_grid(6, num_workers=count).training_s for count in (1, 2, 3, 6)} == {540.0}


def test_trials_take_their_resources() -> None:
    done = on_grid(4, num_workers=4, resources={"GPU": 1}, resources_per_trial={"cpu": 1, "gpu": 0.5})

    assert done.makespan_s == 180.0


def test_a_start_takes_its_delay_and_a_reused_worker_takes_none(caplog: pytest.LogCaptureFixture) -> None:
    def makespan_s(reuse: bool) -> float:
        config = TuneConfig(metric="loss", mode="min", reuse_actors=reuse)
        space = {"x": grid_search([0, 1, 2])}
        return simulate(curve, param_space=space, tune_config=config, start_delay_s=15.0).makespan_s

    assert (makespan_s(False), makespan_s(True)) == (315.0, 285.0)
    assert caplog.text == "", "the user has no slow setup"


def test_checkpoints_cost_time_and_are_written_as_the_config_says() -> None:
    at_end = on_grid(1, checkpoint_cost_s=3.0)
    every = on_grid(
        1,
        checkpoint_cost_s=3.0,
        run_config=RunConfig(checkpoint_config=CheckpointConfig(checkpoint_frequency=3, checkpoint_at_end=False)),
    )
    none = on_grid(1, checkpoint_cost_s=3.0, can_save=False)

    assert [(one.num_checkpoints, one.makespan_s) for one in (at_end, every, none)] == [(1, 93.0), (3, 99.0), (0, 90.0)]


def test_failures_are_retried_from_the_last_checkpoint(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, logger="minitune")
    kept = RunConfig(
        failure_config=FailureConfig(max_failures=100), checkpoint_config=CheckpointConfig(checkpoint_frequency=1)
    )
    resumed = on_grid(20, failure_rate=0.2, run_config=kept)
    patient = RunConfig(failure_config=FailureConfig(max_failures=1000))
    anew = on_grid(20, failure_rate=0.2, can_save=False, run_config=patient)

    assert lengths(resumed) == lengths(anew) == [9] * 20
    assert resumed.num_failures > 10
    assert resumed.num_steps == 180 + resumed.num_failures
    assert anew.num_steps > resumed.num_steps
    assert caplog.text == "", "failures of simulated workers are no news"


def test_a_trial_fails_for_good_as_in_a_real_run() -> None:
    done = on_grid(20, failure_rate=0.2)

    assert 0 < done.results.num_errors < 20
    assert done.num_failures == done.results.num_errors
    assert "simulated failure" in str(done.results.errors[0])


def test_an_exception_of_a_curve_is_the_trials() -> None:
    def broken(config: dict[str, Any]) -> Iterator[tuple[dict[str, Any], float]]:
        yield {"loss": 1.0}, 1.0
        raise ZeroDivisionError("of my own")

    done = simulate(broken, tune_config=TuneConfig(metric="loss", mode="min"))

    assert isinstance(done.results.errors[0].__cause__, ZeroDivisionError)


@pytest.mark.parametrize(
    "step",
    [
        3,
        {"loss": 1.0},
        ({"loss": 1.0},),
        ({"loss": 1.0}, 1, 2, 3),
        ("loss", 1.0),
        ({"loss": 1.0}, "1"),
        ({"loss": 1.0}, True),
        ({"loss": 1.0}, -1.0),
        ({"loss": 1.0}, float("inf")),
    ],
)
def test_invalid_step_of_a_curve_is_refused(step: Any) -> None:
    done = simulate(lambda config: [step], tune_config=TuneConfig(metric="loss", mode="min"))

    assert "curve" in str(done.results.errors[0])


class Rests(TrialScheduler):
    """Pauses each trial after its third result."""

    def on_trial_result(self, tune_controller: Any, trial: Any, result: dict[str, Any]) -> str:
        if result["training_iteration"] == 3 and trial.attempt.number == 1:
            return Decision(PAUSE, "have a rest")
        return "CONTINUE"


def test_a_pause_goes_on_from_the_checkpoint_or_starts_over() -> None:
    saved, lost = on_grid(2, Rests()), on_grid(2, Rests(), can_save=False)

    assert lengths(saved) == lengths(lost) == [9, 9]
    assert (saved.num_steps, lost.num_steps) == (18, 24)
    assert [one.action for one in saved.results[0].decisions][:2] == ["PAUSE", "RESUME"]


class Exploiter(TrialScheduler):
    """After three results the other trials go on from the first one's checkpoint, under another configuration."""

    def on_trial_result(self, tune_controller: Any, trial: Any, result: dict[str, Any]) -> str:
        first = tune_controller.get_trials()[0]
        if trial is first:
            return Decision("CONTINUE", save=True)
        if result["training_iteration"] == 3 and trial.config["x"] == 1:
            return Decision(PAUSE, "the first is better", exploit=(first, {"x": 0.5}))
        return "CONTINUE"


def test_an_exploit_goes_on_at_the_donors_place_on_the_curve_of_the_new_config() -> None:
    done = on_grid(2, Exploiter(), num_workers=2)
    second = done.results[1]

    assert second.config == {"x": 0.5}
    assert second.metrics["loss"] == pytest.approx(0.5 + 1 / 9)
    assert second.metrics["training_iteration"] == 9
    assert [one.facts.get("donor") for one in second.decisions if one.action == "EXPLOIT"] == ["sim_00000"]


def stateful(config: dict[str, Any], state: float | None) -> Iterator[tuple[dict[str, Any], float, float]]:
    value = 0.0 if state is None else state
    for _ in range(6):
        value += config["x"]
        yield {"loss": -value}, 1.0, value


def test_a_curve_with_a_state_goes_on_from_that_of_the_checkpoint() -> None:
    config = TuneConfig(metric="loss", mode="min", scheduler=Exploiter())
    done = simulate(stateful, param_space={"x": grid_search([2, 1])}, tune_config=config, num_workers=2)

    assert done.results[1].metrics["loss"] == -(2 * 2 + 0.5 * 6)  # the third step of the donor is being saved


def counting_in_place(config: dict[str, Any], state: list[int] | None) -> Iterator[tuple[dict[str, Any], float, Any]]:
    state = [0] if state is None else state
    for _ in range(6):
        state[0] += 1
        yield {"loss": -state[0] * config["x"]}, 1.0, state


def test_a_saved_state_is_independent_of_the_trial() -> None:
    config = TuneConfig(metric="loss", mode="min", scheduler=Exploiter())
    done = simulate(counting_in_place, param_space={"x": grid_search([2, 1, 1])}, tune_config=config, num_workers=3)

    assert [result.metrics["loss"] for result in done.results] == [-2 * 6, -0.5 * (2 + 6), -0.5 * (2 + 6)]


def test_training_that_a_failure_has_cut_short_counts() -> None:
    config = TuneConfig(metric="loss", mode="min", num_samples=4)
    settings: dict[str, Any] = {"param_space": {"x": 1}, "tune_config": config, "num_workers": 2, "seed": 1}
    again = RunConfig(failure_config=FailureConfig(-1))
    done = simulate(curve, run_config=again, failure_rate=0.1, **settings)
    without = simulate(curve, **settings)
    assert done.num_failures > 0
    assert done.training_s > without.training_s


def test_a_table_of_curves_is_run_in_order() -> None:
    table = {"a": curve({"x": 1}), "b": curve({"x": 0})[:4]}
    done = simulate(table, tune_config=TuneConfig(metric="loss", mode="min"))

    assert [result.config for result in done.results] == [{"curve": "a"}, {"curve": "b"}]
    assert lengths(done) == [9, 4]


def test_stop_criteria_time_budgets_and_limits_are_those_of_a_run() -> None:
    stopped = on_grid(2, run_config=RunConfig(stop={"training_iteration": 4}))
    config = TuneConfig(metric="loss", mode="min", time_budget_s=25)
    ended = simulate(curve, param_space={"x": grid_search([0, 1])}, tune_config=config)

    assert lengths(stopped) == [4, 4]
    assert str(stopped.results[0].decisions[-1]) == (
        "after iteration 4: stopped because training_iteration >= 4 was reached"
    )
    assert ended.results[0].metrics["training_iteration"] == 3  # the step that runs may end, so that it can be saved
    assert "the time budget of 25 s is used up" in str(ended.results[0].decisions[-1])


class Enough(Stopper):
    def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
        return bool(result["loss"] < 2.3)


def said_enough(trial_id: str, result: dict[str, Any]) -> bool:
    return bool(result["loss"] < 2.3)


@pytest.mark.parametrize(("stop", "name"), [(Enough(), "Enough"), (said_enough, "said_enough() returned True")])
def test_the_stopper_that_has_stopped_a_trial_is_named(stop: Any, name: str) -> None:
    done = on_grid(3, run_config=RunConfig(stop=[stop, lambda trial_id, result: False]))

    assert str(done.results[2].decisions[-1]) == f"after iteration 4: stopped because {name}"


def test_callbacks_are_told_on_virtual_time() -> None:
    times: list[float] = []

    watch = listening(on_trial_result=lambda **info: times.append(clock.current.time()))
    on_grid(1, run_config=RunConfig(callbacks=[watch]))

    assert times == [10.0 * step for step in range(1, 10)]


def test_only_the_number_of_checkpoints_that_is_wanted_is_kept() -> None:
    keep = CheckpointConfig(checkpoint_frequency=1, num_to_keep=2)
    done = on_grid(1, run_config=RunConfig(checkpoint_config=keep))

    assert done.num_checkpoints >= 9
    assert len(done.results[0].best_checkpoints) == 2


def test_nothing_is_written_unless_there_is_a_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    on_grid(3, ASHAScheduler(max_t=9, reduction_factor=3), failure_rate=0.1)
    assert not list(tmp_path.rglob("*"))

    with pytest.raises(ValueError, match="storage_path"):
        on_grid(1, run_config=RunConfig(callbacks=[JsonLoggerCallback()]))

    done = on_grid(3, run_config=RunConfig(storage_path=str(tmp_path / "runs"), name="simulated"))
    recorded = read_run(tmp_path / "runs" / "simulated")
    assert [trial.last_result["loss"] for trial in recorded.trials] == [r.metrics["loss"] for r in done.results]
    assert done.decision_log == on_grid(3).decision_log


def test_improvements_tell_how_soon_the_best_was_found() -> None:
    better = on_grid(2).improvements()

    assert [one.num_results for one in better] == list(range(1, 10))
    assert (better[-1].value, better[-1].time_s, better[-1].trial_id) == (pytest.approx(1 / 9), 90.0, "sim_00000")
    with pytest.raises(ValueError, match="metric"):
        simulate(curve, param_space={"x": 1}).improvements()


@pytest.mark.parametrize("variant", ["stop", "promote"])
def test_equal_seeds_give_equal_logs_in_any_process(variant: str, bound_s: Any) -> None:
    def log(hash_seed: str) -> str:
        return subprocess.run(
            [sys.executable, SCRIPTS / "decision_log.py", variant],
            env={**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(ROOT)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=bound_s(60),
            check=True,
        ).stdout

    first = log("1")
    assert first.count("\n") > 200
    assert first == log("2")


def test_an_improvement_is_better_than_all_before_it_in_the_mode_of_the_run() -> None:
    def waves(config: dict[str, Any]) -> Steps:
        return [({"gain": gain}, 1.0) for gain in (1.0, 3.0, float("nan"), 3.0, 2.0, 4.0)]

    found = simulate(waves, tune_config=TuneConfig(metric="gain", mode="max")).improvements()
    assert [(one.num_results, one.time_s, one.value) for one in found] == [(1, 1, 1), (2, 2, 3), (6, 6, 4)]


def test_each_cost_is_counted_in_its_place() -> None:
    checkpoints = RunConfig(checkpoint_config=CheckpointConfig(checkpoint_frequency=3, checkpoint_at_end=False))
    done = on_grid(2, num_workers=2, start_delay_s=5.0, checkpoint_cost_s=1.0, run_config=checkpoints)
    assert (done.makespan_s, done.worker_s, done.training_s, done.num_checkpoints) == (98, 196, 180, 6)


def test_the_time_after_the_last_trial_does_not_count() -> None:
    """A limit of the run may come due later."""
    config = TuneConfig(metric="loss", mode="min", time_budget_s=1000, trial_timeout_s=500)
    assert simulate(curve, param_space={"x": 1}, tune_config=config).makespan_s == 90


def test_a_curve_may_change_its_configuration() -> None:
    def consumes(config: dict[str, Any]) -> Steps:
        return [({"loss": config.pop("x")}, 1.0), *curve({"x": 0})]

    done = simulate(
        consumes, param_space={"x": 3}, tune_config=TuneConfig(scheduler=Rests(), metric="loss", mode="min")
    )
    assert done.results.num_errors == 0
    assert done.results[0].config == {"x": 3}


def test_a_trial_of_a_table_goes_on_where_it_rested() -> None:
    table = {"a": [({"loss": n}, 1.0) for n in range(5)]}
    done = simulate(table, tune_config=TuneConfig(scheduler=Rests(), metric="loss", mode="min"))
    assert (done.results[0].metrics["loss"], done.num_steps) == (4, 5)


def test_a_simulation_shows_something_only_if_asked_to(capsys: pytest.CaptureFixture[str]) -> None:
    on_grid(1)
    assert capsys.readouterr().out == ""
    on_grid(1, run_config=RunConfig(verbose=1))
    assert " s: 1 finished\n" in capsys.readouterr().out


def test_a_configuration_without_a_curve_in_the_table_is_an_error_of_its_trial() -> None:
    config = TuneConfig(metric="loss", mode="min")
    done = simulate({"a": curve({"x": 1})}, param_space={"curve": grid_search(["a", "b"])}, tune_config=config)
    assert done.results[0].metrics["training_iteration"] == 9
    assert "must be a key of the table of curves" in str(done.results.errors[0])


def test_a_curve_with_a_state_must_yield_one() -> None:
    def forgets(config: dict[str, Any], state: Any) -> Steps:
        return [({"loss": 1.0}, 1.0)]

    done = simulate(forgets, tune_config=TuneConfig(metric="loss", mode="min"))
    assert "must yield (metrics, seconds, state)" in str(done.results.errors[0])


def test_the_log_tells_why_each_trial_has_ended() -> None:
    done = on_grid(2, ASHAScheduler(max_t=4, grace_period=1, reduction_factor=2), num_workers=1)
    ends = [(entry.trial_id, entry.kind) for entry in done.log if entry.kind is not None]
    assert ends == [("sim_00000", EndKind.MAX_T), ("sim_00001", EndKind.SCHEDULER)]
    assert [entry.kind for entry in on_grid(1).log if entry.kind is not None] == [EndKind.RETURNED]


def test_only_warnings_about_single_trials_and_files_are_kept_back(caplog: pytest.LogCaptureFixture) -> None:
    def warn(trial: Any, **info: Any) -> None:
        for extra in ({"trial_id": trial.trial_id}, {"run_path": "path"}, {}):
            logging.getLogger("minitune").warning("a warning with %s", [*extra], extra=extra)

    config = TuneConfig(metric="loss", mode="min")
    simulate(
        {"a": curve({"x": 1})[:1]},
        tune_config=config,
        run_config=RunConfig(callbacks=[listening(on_trial_result=warn)]),
    )
    assert caplog.messages == ["a warning with []"]
    logging.getLogger("minitune").warning("afterwards", extra={"trial_id": "t"})
    assert caplog.messages[1:] == ["afterwards"]


def test_the_seed_is_that_of_the_call_or_of_the_config_or_zero() -> None:
    given = TuneConfig(metric="loss", mode="min", seed=5, num_samples=4)
    space = {"x": uniform(0, 1)}
    runs = [
        simulate(curve, param_space=space, tune_config=config, seed=seed)
        for config, seed in ((given, None), (given, 7), (TuneConfig(metric="loss", mode="min"), None))
    ]
    assert [run.results.seed for run in runs] == [5, 7, 0]
    assert runs[0].decision_log != runs[1].decision_log
    assert (given.seed, given.executor) == (5, TuneConfig().executor), "the user's stays as it is"


class Real(Trainable):
    """The same curve, made by a real class."""

    def setup(self, config: dict[str, Any]) -> None:
        self.x, self.epoch = config["x"], 0

    def step(self) -> dict[str, Any]:
        self.epoch += 1
        return {"loss": self.x + 1 / self.epoch}

    def save_checkpoint(self, checkpoint_dir: str) -> dict[str, Any]:
        return {"epoch": self.epoch}

    def load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        self.epoch = checkpoint["epoch"]


@pytest.mark.parametrize("variant", ["stop", "promote"])
def test_a_simulation_decides_as_a_real_run(variant: str, tmp_path: Path) -> None:
    def settings() -> dict[str, Any]:
        scheduler = ASHAScheduler(max_t=9, reduction_factor=3, variant=variant)
        config = TuneConfig(
            metric="loss", mode="min", num_samples=15, seed=3, scheduler=scheduler, max_concurrent_trials=1
        )
        return {"param_space": {"x": uniform(0, 1)}, "tune_config": config}

    arguments = settings()
    arguments["tune_config"].executor = "inline"
    real = Tuner(Real, run_config=RunConfig(verbose=0, storage_path=str(tmp_path)), **arguments).fit()
    simulated = simulate(curve, **settings()).results

    assert [result.config for result in real] == [result.config for result in simulated]
    assert [[str(one) for one in result.decisions] for result in real] == [
        [str(one) for one in result.decisions] for result in simulated
    ]
    lengths = [len(curve) for curve in read_curves(real.experiment_path).values()]
    assert lengths == [result.metrics["training_iteration"] for result in simulated]
