"""`deterministic=True`: what learns from results decides the same in each run, however fast each trial is."""

from __future__ import annotations

import logging
import os
import random
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from kit import virtual_executor

from minitune import (
    Callback,
    CheckpointConfig,
    ConcurrencyLimiter,
    FailureConfig,
    ResultGrid,
    RunConfig,
    Searcher,
    Stopper,
    Trainable,
    TuneConfig,
    TuneError,
    Tuner,
    choice,
    clock,
    get_context,
    report,
    simulate,
    uniform,
    with_resources,
)
from minitune.clock import VirtualClock
from minitune.executors.devices import Machine
from minitune.executors.inline import InlineTrialExecutor
from minitune.schedulers import (
    ASHAScheduler,
    HyperBandScheduler,
    MedianStoppingRule,
    PopulationBasedTraining,
    ResourceChangingScheduler,
)
from minitune.search.tpe import TPESearch
from minitune.simulation import Simulation
from minitune.stopper import MaximumIterationStopper, TimeoutStopper

SPACE = {"x": uniform(0, 1), "y": uniform(0, 1)}
WINDOW, SAMPLES, LAST = 4, 8, 7


def loss(config: dict[str, Any], step: int) -> float:
    return float(config["x"] + (1 + config["y"]) / step)


class Slow(Trainable):
    """Takes virtual time as it likes; what it reports follows from its configuration."""

    def setup(self, config: dict[str, Any]) -> None:
        self.jitter = random.Random()  # not seeded
        self.fails = get_context().get_attempt() <= config.get("failures", 0)

    def step(self) -> dict[str, Any]:
        clock.current.sleep(self.jitter.choice((0.01, 1, 5)) * self.jitter.random())
        if self.fails and self.iteration == 3:
            raise ValueError("an attempt fails")
        return {"loss": loss(self.config, self.iteration + 1)}

    def save_checkpoint(self, checkpoint_dir: str) -> None:
        Path(checkpoint_dir, "state").write_text("")

    def load_checkpoint(self, checkpoint_dir: str) -> None:
        assert Path(checkpoint_dir, "state").exists()


def curve(config: dict[str, Any]) -> Iterator[tuple[dict[str, Any], float]]:
    return (({"loss": loss(config, step)}, 1.0) for step in range(1, LAST + 1))


class Climber(Searcher):
    """Looks around the best place so far, as far as it has heard."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: dict[str, dict[str, float]] = {}
        self.best = (float("inf"), {"x": 0.5, "y": 0.5})
        self.rng = random.Random(0)

    def set_seed(self, seed: int) -> None:
        self.rng = random.Random(seed)

    def suggest(self, trial_id: str) -> dict[str, float]:
        self.asked[trial_id] = {name: near + self.rng.uniform(-0.1, 0.1) for name, near in self.best[1].items()}
        return self.asked[trial_id]

    def on_trial_result(self, trial_id: str, result: dict[str, Any]) -> None:
        self.best = min(self.best, (result["loss"], self.asked[trial_id]), key=lambda found: found[0])


def population(**more: Any) -> PopulationBasedTraining:
    mutations = {"y": uniform(0, 1)}
    return PopulationBasedTraining(
        "training_iteration", perturbation_interval=2, hyperparam_mutations=mutations, **more
    )


LEARNING: dict[str, Callable[[], dict[str, Any]]] = {
    "ASHA": lambda: {"scheduler": ASHAScheduler(max_t=LAST, brackets=2, reduction_factor=3)},
    "ASHA that pauses": lambda: {"scheduler": ASHAScheduler(max_t=LAST, variant="promote", reduction_factor=3)},
    "HyperBand": lambda: {"scheduler": HyperBandScheduler(max_t=LAST)},
    "median": lambda: {"scheduler": MedianStoppingRule("training_iteration", grace_period=2, min_samples_required=2)},
    "PBT": lambda: {"scheduler": population()},
    "synchronous PBT": lambda: {"scheduler": population(synch=True)},
    "a searcher": lambda: {"search_alg": Climber()},
    "a limited searcher": lambda: {"search_alg": ConcurrencyLimiter(Climber(), WINDOW, batch=True)},
    "TPE": lambda: {"search_alg": TPESearch(n_initial_points=3), "scheduler": ASHAScheduler(max_t=LAST)},
}


def space_of(how: str) -> Any:
    return None if how in ("a searcher", "a limited searcher") else SPACE


def tune_config(how: str, **more: Any) -> TuneConfig:
    settings = {"num_samples": SAMPLES, "seed": 7, "max_concurrent_trials": WINDOW, "metric": "loss", "mode": "min"}
    return TuneConfig(**{**settings, **LEARNING[how](), **more})


def run_config(storage: Path, **more: Any) -> RunConfig:
    return RunConfig(**{"storage_path": str(storage), "verbose": 0, "stop": {"training_iteration": LAST}, **more})


def fit_slowly(
    how: str, storage: Path, cpus: int = WINDOW, space: Any = None, run: Any = None, **more: Any
) -> ResultGrid:
    config = tune_config(how, deterministic=True, executor=virtual_executor(cpus), **more)
    return Tuner(
        Slow, param_space=space or space_of(how), tune_config=config, run_config=run or run_config(storage)
    ).fit()


def table(results: ResultGrid, *, with_ids: bool = True) -> list[Any]:
    """All but what is a time or a process."""
    assert len(results) == SAMPLES
    return [
        (
            result.config,
            result.metrics["trial_id"] if with_ids else result.metrics["trial_id"][-5:],
            [str(decision) for decision in result.decisions if decision.action != "RETRY"],
            [(row["training_iteration"], row.get("loss")) for row in result.get_rows()],
        )
        for result in results
    ]


@pytest.mark.parametrize("how", LEARNING)
def test_the_table_of_any_machine_is_that_of_the_virtual_one(how: str, tmp_path: Path) -> None:
    small = fit_slowly(how, tmp_path, cpus=WINDOW)
    large = fit_slowly(how, tmp_path, cpus=2 * WINDOW)
    virtual = virtual_run(how, tmp_path)
    assert table(small) == table(large)
    assert [text.replace("sim_", "") for text in map(str, table(virtual.results, with_ids=False))] == [
        text.replace(f"{small[0].metrics['trial_id'][:5]}_", "") for text in map(str, table(small, with_ids=False))
    ]


def virtual_run(how: str, storage: Path, **more: Any) -> Simulation:
    config = tune_config(how, **more)
    return simulate(
        curve, param_space=space_of(how), tune_config=config, run_config=run_config(storage), num_workers=WINDOW
    )


def test_other_numbers_give_other_runs(tmp_path: Path) -> None:
    tables = [
        table(fit_slowly("TPE", tmp_path, **more), with_ids=False)
        for more in ({}, {"seed": 8}, {"max_concurrent_trials": WINDOW - 1})
    ]
    assert tables[0] != tables[1] != tables[2] != tables[0]


def test_failures_and_retries_have_their_places(tmp_path: Path) -> None:
    space = {**SPACE, "failures": choice([0, 0, 1, 2])}
    run = run_config(
        tmp_path,
        failure_config=FailureConfig(max_failures=1),
        checkpoint_config=CheckpointConfig(checkpoint_frequency=2),
    )
    grids = [fit_slowly("ASHA", tmp_path, cpus, space, run) for cpus in (WINDOW, 2 * WINDOW)]
    assert table(grids[0]) == table(grids[1])
    assert [str(result.error).splitlines()[-1:] for result in grids[0]] == [
        str(result.error).splitlines()[-1:] for result in grids[1]
    ]
    assert 0 < grids[0].num_errors < SAMPLES


def test_workers_that_are_reused_change_nothing(tmp_path: Path) -> None:
    assert table(fit_slowly("PBT", tmp_path, reuse_actors=True)) == table(fit_slowly("PBT", tmp_path))


def crashing(config: dict[str, Any]) -> None:
    """Takes its time, and dies with its process in the first attempt of every third trial."""
    import time

    jitter = random.Random(os.getpid())
    context = get_context()
    is_third = int(context.get_trial_id()[-5:]) % 3 == 0
    for step in range(1, LAST + 1):
        time.sleep(jitter.uniform(0, 0.004))
        if step == 2 and is_third and context.get_attempt() == 1:
            os._exit(3)
        report({"loss": loss(config, step)})


def test_races_and_deaths_change_no_decision(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tables = []
    for cpus in (WINDOW, 2 * WINDOW):
        monkeypatch.setenv("MINITUNE_NUM_CPUS", str(cpus))
        run = run_config(tmp_path, failure_config=FailureConfig(max_failures=1))
        config = tune_config("TPE", deterministic=True)
        grid = Tuner(crashing, param_space=SPACE, tune_config=config, run_config=run).fit()
        assert not grid.errors
        tables.append(table(grid))
    assert tables[0] == tables[1]


class Hanging(Slow):
    def step(self) -> dict[str, Any]:
        if self.fails and self.iteration == 2:
            clock.current.sleep(10_000)
        return super().step()


def test_hang_fails_its_trial_and_not_those_that_wait_for_it(tmp_path: Path) -> None:
    tables = []
    for cpus in (WINDOW, 2 * WINDOW):
        executor = InlineTrialExecutor(Machine({"CPU": cpus}, ()), VirtualClock())
        config = tune_config("ASHA", deterministic=True, executor=executor, report_timeout_s=8)
        run = run_config(tmp_path, failure_config=FailureConfig(max_failures=1))
        grid = Tuner(
            Hanging, param_space={**SPACE, "failures": choice([0, 0, 1])}, tune_config=config, run_config=run
        ).fit()
        assert not grid.errors  # no one has used up two attempts
        tables.append(table(grid))
        assert executor.clock.monotonic() < 10_000
    assert tables[0] == tables[1]


def test_a_machine_without_room_for_the_window_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TuneError, match=r"max_concurrent_trials=4 .* room for 3 here: .* {CPU: 1}.* {CPU: 3}"):
        fit_slowly("ASHA", tmp_path, cpus=3)
    wide = with_resources(Slow, {"cpu": 2})
    executor = InlineTrialExecutor(Machine({"CPU": 7}, ()), VirtualClock())
    config = tune_config("ASHA", deterministic=True, executor=executor)
    with pytest.raises(TuneError, match=r"max_concurrent_trials=4 .* room for 3 here: .* {CPU: 2}.* {CPU: 7}"):
        Tuner(wide, param_space=SPACE, tune_config=config, run_config=run_config(tmp_path)).fit()


class AskedNowAndThen(Stopper):
    """The driver asks it in between, too, but it decides by what has been reported."""

    def stop_all(self) -> bool:
        return False


@pytest.mark.parametrize(
    ("what", "more", "run"),
    [
        ("time_budget_s=1000", {"time_budget_s": 1000}, {}),
        ("trial_timeout_s=1000", {"trial_timeout_s": 1000}, {}),
        ("time_attr='time_total_s' of MedianStoppingRule", {"scheduler": MedianStoppingRule()}, {}),
        (
            "time_attr='time_total_s' of ResourceChangingScheduler",
            {"scheduler": ResourceChangingScheduler(MedianStoppingRule())},
            {},
        ),
        (
            "the metric 'time_this_iter_s'",
            {"metric": None, "mode": None, "scheduler": ASHAScheduler(metric="time_this_iter_s", mode="min")},
            {},
        ),
        ("the stop criterion 'time_total_s'", {}, {"stop": {"time_total_s": 1000}}),
        ("TimeoutStopper", {}, {"stop": TimeoutStopper(1000)}),
        ("max_failures=-1", {}, {"failure_config": FailureConfig(max_failures=-1)}),
    ],
)
def test_settings_that_depend_on_the_clock_are_named(
    what: str, more: Any, run: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def one(config: dict[str, Any]) -> dict[str, float]:
        return {"loss": config["x"]}

    settings = {"metric": "loss", "mode": "min", "max_concurrent_trials": 1, "executor": "inline"}
    config = TuneConfig(**{**settings, **more}, deterministic=True)
    with caplog.at_level(logging.WARNING, "minitune"):
        Tuner(one, param_space=SPACE, tune_config=config, run_config=run_config(tmp_path, **run)).fit()
    said = [record.getMessage() for record in caplog.records if "decisions by the clock" in record.getMessage()]
    assert len(said) == 1
    assert what in said[0]


@pytest.mark.parametrize("stop", [None, {"training_iteration": 9}, MaximumIterationStopper(9), AskedNowAndThen()])
def test_a_run_that_asks_no_clock_is_told_nothing(stop: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    settings = {"metric": "loss", "mode": "min", "max_concurrent_trials": 1, "executor": "inline"}
    config = TuneConfig(**settings, deterministic=True)
    Tuner(lambda config: {"loss": 1}, tune_config=config, run_config=run_config(tmp_path, stop=stop)).fit()
    assert caplog.text == ""


def test_a_simulation_shows_the_cost_of_the_order(tmp_path: Path) -> None:
    def uneven(config: dict[str, Any]) -> Iterator[tuple[dict[str, Any], float]]:
        return (({"loss": loss(config, step)}, 1 + 9 * config["x"]) for step in range(1, LAST + 1))

    def run(**more: Any) -> Simulation:
        config = TuneConfig(num_samples=SAMPLES, seed=7, max_concurrent_trials=WINDOW, **more)
        return simulate(uneven, param_space=SPACE, tune_config=config, num_workers=WINDOW)

    free, ordered = run(), run(deterministic=True)
    assert ordered.makespan_s > free.makespan_s
    assert ordered.training_s == pytest.approx(free.training_s)
    assert ordered.decision_log == run(deterministic=True).decision_log


def test_a_machine_that_sets_the_limit_is_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    sized = with_resources(Slow, lambda config: {"cpu": 1 if config["x"] < 0.5 else 3})
    executor = InlineTrialExecutor(Machine({"CPU": 4}, ()), VirtualClock())
    config = tune_config("ASHA", deterministic=True, executor=executor)
    with caplog.at_level(logging.WARNING, "minitune"):
        grid = Tuner(sized, param_space=SPACE, tune_config=config, run_config=run_config(tmp_path)).fit()
    assert not grid.errors
    said = [
        text
        for text in map(logging.LogRecord.getMessage, caplog.records)
        if "the same only where the totals are" in text
    ]
    assert len(said) == 1
    assert said[0].endswith("{CPU: 4}")


def test_an_interrupt_is_not_held_up(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """One trial never comes back; the results of the others wait for it when Ctrl-C is pressed."""
    stuck = True

    class Presses(Callback):
        pressed = False

        def on_step_begin(self, **info: Any) -> None:
            if executor.clock.monotonic() > 100 and not self.pressed:
                self.pressed = True
                signal.raise_signal(signal.SIGINT)

    class Stuck(Slow):
        def step(self) -> dict[str, Any]:
            if stuck and self.iteration == 2 and self.trial_id.endswith("1"):
                clock.current.sleep(10_000)
            return super().step()

    executor = InlineTrialExecutor(Machine({"CPU": WINDOW}, ()), VirtualClock())
    config = tune_config("ASHA", deterministic=True, executor=executor)
    run = run_config(tmp_path, callbacks=[Presses()])
    grid = Tuner(Stuck, param_space=SPACE, tune_config=config, run_config=run).fit()
    assert grid.interrupted
    assert executor.clock.monotonic() < 1_000

    stuck = False
    config.executor = InlineTrialExecutor(Machine({"CPU": WINDOW}, ()), VirtualClock())
    resumed = Tuner.restore(grid.experiment_path, Stuck, tune_config=config, run_config=run_config(tmp_path)).fit()
    assert not resumed.interrupted
    assert [result.config for result in resumed] == [result.config for result in fit_slowly("ASHA", tmp_path)]
    said = [text for text in map(logging.LogRecord.getMessage, caplog.records) if "without the stop" in text]
    assert len(said) == 1
    assert "a new run with seed=7" in said[0]
